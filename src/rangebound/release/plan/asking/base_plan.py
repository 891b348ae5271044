"""What a base plan says, as plain data: it may lack questions, and is checked only as part of the whole plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rangebound.release.plan.expressions.nodes import Call, Constant, Named, columns_of
from rangebound.release.plan.per_unit import UnitCall


def mapping(value: object) -> dict[str, object]:
    """A table of a plan; empty where there is none, or where it is not one, which the plan will refuse."""
    return dict(value) if isinstance(value, Mapping) else {}


def fields(value: object) -> Mapping[str, object]:
    """The fields of a part, which is plain data or an object."""
    return value if isinstance(value, Mapping) else vars(value)


def joins(data: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The joins that a base plan declares."""
    found = data.get("join")
    return [fields(each) for each in found] if isinstance(found, (list, tuple)) else []


def pairs(value: object) -> dict[str, str]:
    """Columns of ours and of theirs; a list names those that are called the same."""
    if isinstance(value, Mapping):
        return {str(key): str(each) for key, each in value.items()}
    return {str(each): str(each) for each in value} if isinstance(value, (list, tuple)) else {}


def ranges(data: Mapping[str, object]) -> dict[str, Sequence[object]]:
    """The public ranges that a base plan states, by column."""
    declared = {**mapping(data.get("columns")), **mapping(data.get("per_unit"))}
    found = {name: mapping(each).get("range") for name, each in declared.items()}
    return {name: each for name, each in found.items() if isinstance(each, (list, tuple))}


def values(data: Mapping[str, object]) -> list[object]:
    """The expressions of a base plan, and of this SELECT's made columns."""
    return [*mapping(data.get("columns")).values(), *mapping(data.get("per_unit")).values()]


def named_in(value: object) -> Iterator[str]:
    """The names of columns, and other words, in parts of a plan: those of expressions, and of texts that may be any."""
    match value:
        case UnitCall():
            yield from named_in(value.arguments)
        case Constant() | Named() | Call():
            yield from columns_of(value)
        case str():
            yield from (value, *re.findall(r"\w+", value))
        case Mapping():
            yield from named_in(tuple(value.values()))
        case list() | tuple():
            for each in value:
                yield from named_in(each)
        case _:
            yield from re.findall(r"\w+", str(value))


def names_in(data: Mapping[str, object]) -> Sequence[str]:
    """The names of columns that a base plan has for sure; keys may be those of a column that the SELECT makes."""
    found = [*mapping(data.get("columns")), *mapping(data.get("per_unit"))]
    unit = data.get("unit")
    if isinstance(unit, Mapping) and isinstance(unit.get("column"), str):
        found.append(unit["column"])
    return [*found, *(name for each in joins(data) for name in pairs(each.get("columns")))]


def unit_column(data: Mapping[str, object]) -> str | None:
    """The column that names the owners of rows, if there is one."""
    unit = data.get("unit")
    found = unit.get("column") if isinstance(unit, Mapping) else getattr(unit, "column", None)
    return found if isinstance(found, str) else None
