"""Every field of every part and kind of a plan in one text: type, default and effect, as the code has them."""

from __future__ import annotations

import datetime
import math
import tomllib
from collections.abc import Iterator, Mapping
from enum import Enum
from importlib.resources import files
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import Part
from rangebound.release.plan.kinds import written_kinds
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.model import Plan

EFFECTS: Mapping[str, str] = {
    f"{owner}.{name}": effect
    for owner, fields in tomllib.loads((files(__package__) / "field_effects.toml").read_text(encoding="utf-8")).items()
    for name, effect in fields.items()
}
"""The effect of every field, by the class that declares it and its name."""


_HEAD = (
    "## Every field\n\n"
    "Made from the code, by `rangebound plan fields`. `required` says that a field has no default. In Python, the "
    "class of a kind is named after it: `CountOfUnits(name=...)` for `count of units`.\n"
)
_ROW = "| field | type | default | effect |\n| --- | --- | --- | --- |"


def field_table() -> str:
    """All fields of a plan as Markdown tables: type, default and effect of each.

    Guarantee: made from the classes that check plans, so a field that is missing here does not exist.

    >>> [line for line in field_table().splitlines() if line.startswith("| `epsilon`")]
    ['| `epsilon` | number above 0, at most 100 | required | what the whole release may spend; at most 100 |']
    """
    text = [_HEAD, f"### Top level\n\n{_ROW}", *_rows(Plan)]
    for title, part in _parts():
        text += [f"\n### `{title}`\n\n{_ROW}", *_rows(part)]
    text += [f"\n### `[[query]]`: fields of every kind\n\n{_ROW}", *_rows(Kind)]
    kinds: dict[str, list[str]] = {}
    for name, kind in written_kinds().items():
        for row in _rows(kind, [each for each in kind.model_fields if each not in Kind.model_fields]):
            kinds.setdefault(row, []).append(f"`{name}`")
    text.append(f"\n### `[[query]]`: fields of some kinds\n\n{_ROW}")
    text += [f"{row.removesuffix(' |')}; of {', '.join(names)} |" for row, names in sorted(kinds.items())]
    return "\n".join(text).replace("\n\n\n", "\n\n") + "\n"


def _parts() -> list[tuple[str, type[Part]]]:
    """The parts of a plan with their titles, in the order of the plan, and those of its parts and kinds."""
    found: list[tuple[str, type[Part]]] = []
    for name, field in Plan.model_fields.items():
        for part in _part_types(field.annotation):
            if not issubclass(part, Kind):
                many = "[[{}]]" if "tuple" in str(field.annotation) else "[{}]"
                found.append((many.format(field.alias or name), part))
    top = dict.fromkeys(found)
    inner: dict[type[Part], dict[str, None]] = {}
    owners: list[type[Part]] = [*(part for _, part in top), Kind, *written_kinds().values()]
    for owner in owners:
        for name, field in owner.model_fields.items():
            for part in _part_types(field.annotation):
                inner.setdefault(part, {})[name] = None
    own = {part for _, part in top} | {Condition}
    nested = [(", ".join(names), part) for part, names in inner.items() if part not in own]
    return [*top, *nested, ("condition", Condition)]


def _part_types(annotation: object) -> Iterator[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        yield annotation
    for each in getattr(annotation, "__args__", ()):
        yield from _part_types(each)


def _rows(part: type[Part], names: list[str] | None = None) -> Iterator[str]:
    own = part.model_json_schema(by_alias=True)
    for name, field in part.model_fields.items():
        if names is not None and name not in names:
            continue
        key = field.alias or name
        facts = own.get("properties", {}).get(key, {})
        kind = _type({"$defs": own.get("$defs", {})}, facts)
        effect = EFFECTS.get(_effect(part, name), field.description or "")
        yield f"| `{key}` | {kind} | {_default(field)} | {effect} |"


def _effect(part: type[Part], name: str) -> str:
    """The entry of a field among the effects: that of the class that declares it, or of all kinds that have it."""
    owner = next(each for each in part.__mro__ if name in getattr(each, "__annotations__", {}) and each is not Part)
    own, shared = f"{owner.__name__}.{name}", f"Kind.{name}"
    return shared if own not in EFFECTS and shared in EFFECTS and issubclass(part, Kind) else own


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value == (-math.inf, math.inf):
        return "that of `[columns]`"
    if value is None or value == () or value == {} or value is PydanticUndefined or isinstance(value, Part):
        return "none"
    return f"`{_written(value)}`"


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return _written(value.value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


_SIMPLE = {"string": "text", "number": "number", "integer": "whole number", "boolean": "true or false", "null": ""}
_LIMITS = {
    "exclusiveMinimum": "above {}",
    "minimum": "at least {}",
    "exclusiveMaximum": "below {}",
    "maximum": "at most {}",
}


def _type(whole: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    if "$ref" in facts:
        name = facts["$ref"].rpartition("/")[2]
        found = whole.get("$defs", {}).get(name, {})
        return _type(whole, found) if "enum" in found else "table"
    if "const" in facts:
        return f'`"{facts["const"]}"`'
    if "enum" in facts:
        return ", ".join(f'`"{each}"`' for each in facts["enum"])
    if "anyOf" in facts:
        kinds = dict.fromkeys(each for each in (_type(whole, one) for one in facts["anyOf"]) if each)
        return " or ".join(kinds)
    if facts.get("type") == "array":
        if inner := facts.get("prefixItems"):
            return f"list of {len(inner)}: {_type(whole, inner[0])}"
        items = facts.get("items")
        return f"list of {_type(whole, items)}" if isinstance(items, dict) and items else "list"
    if facts.get("type") == "object" or "oneOf" in facts or "discriminator" in facts:
        return "table"
    if facts.get("format") == "date":
        return "date"
    simple = _SIMPLE.get(str(facts.get("type")), "text" if facts.get("type") is None else "")
    given = ((words, facts[key]) for key, words in _LIMITS.items() if key in facts)
    limits = [words.format(f"{size:,}" if isinstance(size, int) else f"{size:g}") for words, size in given]
    return " ".join([simple, ", ".join(limits)]).strip()
