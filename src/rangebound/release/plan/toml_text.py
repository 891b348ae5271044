"""Plans as TOML: plain data as a text that a person would write, and a part as plain data without its defaults."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from rangebound.release.plan.fields import Part

_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")  # ends a line, or turns one round


def toml_text(data: Mapping[str, object]) -> str:
    """Plain data as TOML: simple fields first, then tables, then the tables of arrays.

    Guarantee: `tomllib` reads the same data from it, with lists for tuples.

    >>> print(toml_text({"level": 0.9, "budget": {"epsilon": 1.0}, "query": [{"name": "a b", "by": ("x",)}]}))
    level = 0.9
    <BLANKLINE>
    [budget]
    epsilon = 1.0
    <BLANKLINE>
    [[query]]
    name = "a b"
    by = ["x"]
    <BLANKLINE>
    """
    return "\n".join(f"{each}\n" for each in _blocks(data))


def _blocks(data: Mapping[str, object]) -> Iterator[str]:
    simple = {key: value for key, value in data.items() if not isinstance(value, Mapping) and not _tables(value)}
    if simple:
        yield _fields(simple)
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield f"[{bare_or_quoted(key)}]\n{_fields(value)}".rstrip()
    for key, value in data.items():
        for each in _tables(value):
            yield f"[[{bare_or_quoted(key)}]]\n{_fields(each)}".rstrip()


def _tables(value: object) -> Sequence[Mapping[str, object]]:
    if not isinstance(value, (list, tuple)):
        return ()
    found = [each for each in value if isinstance(each, Mapping)]
    return found if len(found) == len(value) else ()


def _fields(data: Mapping[str, object]) -> str:
    return "\n".join(f"{bare_or_quoted(key)} = {_value(value)}" for key, value in data.items())


def _value(value: object) -> str:
    match value:
        case Enum():
            return _value(value.value)
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case datetime.date():
            return value.isoformat()
        case Mapping():
            return "{" + ", ".join(f"{bare_or_quoted(key)} = {_value(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)


def quoted(text: str) -> str:
    """A text as TOML writes it, on one line and in the order of its letters, for every reader."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def bare_or_quoted(name: str) -> str:
    """A key as TOML writes it."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else quoted(name)


def written_fields(part: Part) -> dict[str, object]:
    """A part as plain data, as a file would have it: without the fields that are as by default."""
    return _without_defaults(part, part.model_dump(by_alias=True, exclude_none=True))


def _without_defaults(part: Part, data: dict[str, object]) -> dict[str, object]:
    found = {}
    for name, field in type(part).model_fields.items():
        value, key = getattr(part, name), field.alias or name
        if key in data and (name == "kind" or value != field.get_default(call_default_factory=True)):
            found[key] = _nested(value, data[key])
    return found


def _nested(value: object, data: object) -> object:
    if isinstance(value, Part) and isinstance(data, dict):
        return _without_defaults(value.as_written(), data)
    if isinstance(value, tuple) and isinstance(data, (list, tuple)):
        return [_nested(*each) for each in zip(value, data, strict=True)]
    if isinstance(value, dict) and isinstance(data, dict):
        return {key: _nested(each, data[key]) for key, each in value.items()}
    return data
