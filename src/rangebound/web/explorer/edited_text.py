"""The text of a plan with other questions or numbers: comments, order and default lines stay as they are."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rangebound.errors import ArgumentError
from rangebound.release.plan.toml import lines
from rangebound.release.plan.toml_text import toml_text

_Place = tuple[str | int, ...]


def with_query(text: str, question: Mapping[str, object], keys: Mapping[str, Sequence[str]]) -> str:
    """A plan's text with one more question at its end, and the keys of columns for which it lists none.

    Guarantee: the text says what the plan before said, and the question. Edge cases: where the questions stand in one
    value, as in `query = [...]`, the text is written anew, without its comments.

    >>> print(with_query('# ours\\n[[query]]\\nname = "a"\\n', {"name": "b"}, {}))
    # ours
    [[query]]
    name = "a"
    <BLANKLINE>
    [[query]]
    name = "b"
    <BLANKLINE>
    """
    data = tomllib.loads(text)
    more = {name: list(each) for name, each in keys.items() if name not in data.get("keys", {})}
    wanted = {**data, "query": [*data["query"], dict(question)]}
    if more:
        wanted["keys"] = {**data.get("keys", {}), **more}
    edited = _with_keys(text, more, header=lines(text).get(("keys",)) if "keys" in data else None)
    return _checked(f"{edited.rstrip()}\n\n{toml_text({'query': [question]})}", wanted)


def without_query(text: str, name: str) -> str:
    """A plan's text without the question of a name, and without the keys that only this one is grouped by.

    Edge cases: comments between questions stay. The last question is refused, since a plan needs one.

    >>> print(without_query('[[query]]\\nname = "a"\\n\\n# more\\n[[query]]\\nname = "b"\\n', "a"), end="")
    # more
    [[query]]
    name = "b"
    """
    data = tomllib.loads(text)
    names = [each["name"] for each in data["query"]]
    if name not in names:
        raise ArgumentError(f"question={name!r:.80}: is not in the plan")
    if len(names) == 1:
        raise ArgumentError(f"question={name!r:.80}: is the only one, and a plan needs one; add another first")
    at = names.index(name)
    wanted = {**data, "query": [each for each in data["query"] if each["name"] != name]}
    used = {column for each in wanted["query"] for column in (*each.get("by", ()), each.get("column"))}
    own = data["query"][at].get("by", ())
    unused = [column for column in own if column in data.get("keys", {}) and column not in used]
    edited = _without(text, ("query", at))
    for column in unused:
        edited = _without(edited, ("keys", column))
    if unused:
        wanted["keys"] = {column: each for column, each in data["keys"].items() if column not in unused}
    return _checked(edited, wanted)


def with_values(text: str, wanted: Mapping[str, Any]) -> str:
    """A plan's text with other numbers or names: `wanted` is what it is to say, and has the same questions.

    Edge cases: what cannot be changed in its own line, such as an array of other length, is written anew, all of it and
    without comments.

    >>> print(with_values("[budget]\\nepsilon = 1.0 # a year\\n", {"budget": {"epsilon": 2.0, "delta": 1e-6}}))
    [budget]
    delta = 1e-06
    epsilon = 2.0 # a year
    <BLANKLINE>
    """
    edited = text
    for place, value in _differences(tomllib.loads(text), wanted):
        edited = _without(edited, place) if value is None else _with_value(edited, place, value)
    return _checked(edited, wanted)


def _differences(before: object, after: object, place: _Place = ()) -> Iterator[tuple[_Place, object]]:
    """Where two texts differ, and what the second has there; None where it has nothing."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in (*before, *(name for name in after if name not in before)):
            inner = after.get(name)
            yield from _differences(before.get(name, {} if isinstance(inner, dict) else None), inner, (*place, name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, pair in enumerate(zip(before, after, strict=True)):
            yield from _differences(*pair, (*place, at))
    elif before != after:
        yield place, after


def _with_value(text: str, place: _Place, value: object) -> str:
    """The text with a value at a place: in its line, else first in its table, which is made where there is none."""
    found, rows, name = lines(text), _rows(text), str(place[-1])
    line, table, said = found.get(place), found.get(place[:-1]), toml_text({name: value}).strip()
    if line is not None:
        own = re.compile(rf"(?<![\w-]){re.escape(name)}\s*=\s*(?:[-+\w.]+|\"[^\"]*\")")
        rows[line - 1] = own.sub(lambda _: said, rows[line - 1], count=1)
    elif len(place) == 1:
        rows.insert(0, f"{said}\n")
    elif table is None:
        rows.append(f"\n[{place[0]}]\n{said}\n")
    elif rows[table - 1].lstrip().startswith("["):
        after = found.get((*place[:-1], "name"), table)  # below the name of a question
        rows[after - 1] = f"{rows[after - 1].rstrip()}\n{said}\n"
    else:
        rows[table - 1] = rows[table - 1].replace("{", f"{{{said}, ", 1)
    return "".join(rows)


def _rows(text: str) -> list[str]:
    """The lines of a text of TOML, which end with a line feed alone, as `lines` counts them."""
    return [f"{each}\n" for each in text.split("\n")[:-1]] + [each for each in text.split("\n")[-1:] if each]


def _with_keys(text: str, keys: Mapping[str, list[str]], *, header: int | None) -> str:
    """The text with more keys: below the header of the table in a line, or in a table of their own at the end."""
    if not keys:
        return text
    if header is None:
        return f"{text.rstrip()}\n\n{toml_text({'keys': keys})}"
    rows = _rows(text)
    examples = tuple(f"# {toml_text({name: ['...', '...']}).strip()}" for name in keys)
    below = [each for each in rows[header:] if not each.startswith(examples)]  # those of a first plan
    return "".join([*rows[: header - 1], rows[header - 1].rstrip("\n"), "\n", toml_text(keys), *below])


def _without(text: str, place: _Place) -> str:
    """The text without what stands at a place; blank lines and comments behind it stay."""
    found, rows = lines(text), _rows(text)
    own = [line for each, line in found.items() if each[: len(place)] == place]
    if not own:
        return text
    end = min((line for line in found.values() if line > max(own)), default=len(rows) + 1) - 1
    while end > max(own) and (not rows[end - 1].strip() or rows[end - 1].lstrip().startswith("#")):
        end -= 1
    begin = min(own) - 1
    while end < len(rows) and not rows[end].strip() and (begin == 0 or not rows[begin - 1].strip()):
        end += 1
    return "".join([*rows[:begin], *rows[end:]])


def _checked(edited: str, wanted: Mapping[str, Any]) -> str:
    """The edited text, if it says what is wanted; else that written anew."""
    try:
        same = tomllib.loads(edited) == wanted
    except tomllib.TOMLDecodeError:
        same = False
    return edited if same else toml_text(wanted)
