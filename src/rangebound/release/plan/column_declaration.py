"""Columns of a plan: those that are made of others, and public ranges of the table's own."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import (
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from rangebound.release.plan.condition import HIDDEN, hidden_text
from rangebound.release.plan.expressions.nodes import LONGEST, Expression, ValueType, columns_of
from rangebound.release.plan.expressions.nodes import Range as PublicRange
from rangebound.release.plan.expressions.reading import read
from rangebound.release.plan.expressions.typed import Known, Typed, typed
from rangebound.release.plan.faults import Place, fault, field_of
from rangebound.release.plan.fields import Ends, Name, Part, Range, bounds, date, number

_MOST = 1000
_RANGE: TypeAdapter[Ends] = TypeAdapter(Range)

_MOST_STEPS = 16  # a statement is as deep as there are steps, and writing one that is too deep fails


def _in_one_form(value: object) -> object:
    return str(read(value)) if isinstance(value, (str, Expression)) else value


Written = Annotated[str, BeforeValidator(_in_one_form)]
"""The text of an expression, in the form in which `str` writes it."""


class ColumnDeclaration(Part):
    """A column that is made by the expression `value`, or one of the table, and the public `range` of its values.

    Values beyond the range are clipped to it: those of a made column wherever it is used, those of the table's own
    where they are computed with. A column is compared as it stands.

    Guarantee: the value of a row depends on that row alone, and making it never fails. What goes wrong in a row, such
    as a division by 0, is a missing value. So one row is still one row, and no sensitivity changes.

    >>> ColumnDeclaration(value="minutes/60", range=(0.0, 24.0)).value
    'minutes / 60'
    """

    value: Written | None = None
    range: Range | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ColumnDeclaration:
        if self.value is None and self.range is None:
            raise ValueError('needs a value, such as value = "minutes / 60", or a range of a column of the table')
        return self

    @property
    def ends(self) -> PublicRange | None:
        """The range in numbers."""
        return None if self.range is None else (number(self.range[0]), number(self.range[1]))

    @property
    def dated(self) -> bool:
        """Whether the range has dates."""
        return self.range is not None and isinstance(self.range[0], datetime.date)


def _declaration(value: object) -> object:
    """A text alone is an expression."""
    return {"value": value} if isinstance(value, (str, Expression)) else value


_EXPRESSION = {"type": "string", "minLength": 1, "maxLength": LONGEST}
_SCHEMA = {
    "anyOf": [
        _EXPRESSION,
        {
            "type": "object",
            "properties": {
                "value": _EXPRESSION,
                "range": {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2},
            },
            "minProperties": 1,
            "additionalProperties": False,
        },
    ]
}
Declarations = Annotated[
    dict[Name, Annotated[ColumnDeclaration, BeforeValidator(_declaration), WithJsonSchema(_SCHEMA)]],
    Field(max_length=_MOST),
]


@dataclass(frozen=True, kw_only=True)
class MadeColumn:
    """A column to be made: its name, its expression, and the range that its values are clipped to, if any is stated.

    `field` is where the plan writes it.
    """

    name: str
    value: Typed
    field: str
    clipped: PublicRange | None = None

    @property
    def known(self) -> Known:
        """What other expressions and questions know of it."""
        return Known(type=self.value.type, range=self.clipped or self.value.range)


def made_columns(
    declared: Mapping[str, ColumnDeclaration], hidden: Mapping[str, Place], known: Mapping[str, Known]
) -> tuple[tuple[MadeColumn, ...], dict[str, Known]]:
    """The columns to be made, each after those that it uses, and what is known of all columns by then.

    `hidden` are names of columns that conditions make of themselves, with the places where they stand; `known` are
    columns that other parts of the plan make. A fault is named with its field.
    """
    _check_names(declared)
    facts = {name: _of_table(each) for name, each in declared.items() if each.value is None}
    facts = {**facts, **known}
    made: dict[str, MadeColumn] = {}
    for name in _in_order(declared):
        each = declared[name]
        try:
            found = _typed(each, facts)
        except ValueError as reason:
            raise fault(str(reason), ("columns", name), each.value) from None
        made[name] = MadeColumn(name=name, value=found, field=field_of(("columns", name)), clipped=each.ends)
        facts[name] = made[name].known
    for name, place in hidden.items():
        text = hidden_text(name)
        assert text is not None
        try:
            found = typed(read(text), facts, ValueType.TRUTH)
        except ValueError as reason:
            raise ValueError(f"{'.'.join(map(str, place))}: {reason}") from None
        made[name] = MadeColumn(name=name, value=found, field=field_of(place))
    return tuple(made.values()), facts


def _check_names(declared: Mapping[str, ColumnDeclaration]) -> None:
    """Refuse names that engines take for each other, and one that Spark would change."""
    taken: dict[str, str] = {}
    for name, each in declared.items():
        if taken.setdefault(name.casefold(), name) != name:
            rule = f"{taken[name.casefold()]!r} has this name too; engines do not distinguish capital letters"
            raise fault(rule, ("columns", name), each.value)
        if each.value is not None and ("${" in name or hidden_text(name) is not None):
            rule = f'a made column must not have "${{" in its name, nor begin with {HIDDEN!r}'
            raise fault(rule, ("columns", name), name)


def _of_table(declared: ColumnDeclaration) -> Known:
    ends = declared.ends
    assert ends is not None
    return Known(type=ValueType.DATE if declared.dated else ValueType.NUMBER, range=ends, clipped=ends)


def _typed(declared: ColumnDeclaration, known: Mapping[str, Known]) -> Typed:
    node = read(declared.value or "")
    if declared.range is None:
        return typed(node, known)
    return typed(node, known, ValueType.DATE if declared.dated else ValueType.NUMBER)


def _in_order(declared: Mapping[str, ColumnDeclaration]) -> list[str]:
    """The made columns, each after those that it uses; a circle is a fault."""
    uses = {
        name: [one for one in columns_of(read(each.value)) if one == name or _made(declared, one)]
        for name, each in declared.items()
        if each.value is not None
    }
    order: dict[str, None] = {}
    steps = 0
    while len(order) < len(uses):
        free = [name for name in uses if name not in order and all(one in order for one in uses[name])]
        steps += 1
        if free and steps > _MOST_STEPS:
            rule = f"is made of made columns, over {_MOST_STEPS} one behind the other; write some as one expression"
            raise fault(rule, ("columns", free[0]), declared[free[0]].value)
        if not free:
            circle = _circle({name: each for name, each in uses.items() if name not in order}, order)
            way = (
                "a made column must have a name that the table does not have"
                if len(circle) == 2
                else "made columns form a circle"
            )
            raise fault(f"uses itself: {' -> '.join(circle)}; {way}", ("columns", circle[0]), declared[circle[0]].value)
        order |= dict.fromkeys(free)
    return list(order)


def _made(declared: Mapping[str, ColumnDeclaration], name: str) -> bool:
    return name in declared and declared[name].value is not None


def _circle(uses: Mapping[str, Sequence[str]], done: Iterable[str]) -> list[str]:
    left, path = set(done), [next(iter(uses))]
    while path[-1] not in path[:-1]:
        path.append(next(one for one in uses[path[-1]] if one not in left))
    return path[path.index(path[-1]) :]


def question_range(known: Known) -> Ends | None:
    """The range of a question about a column, where a public one follows that a question may have."""
    low, high = known.range
    if known.type is ValueType.TEXT or not (math.isfinite(low) and math.isfinite(high)):
        return None
    ends = (date(low), date(high)) if known.type is ValueType.DATE else (low, high)
    try:
        return _RANGE.validate_python(ends)
    except ValidationError:  # no width, or one beyond the doubles
        return None


def described(declared: Mapping[str, ColumnDeclaration]) -> list[str]:
    """What a plan says of columns, a sentence each.

    >>> described({"hours": ColumnDeclaration(value="minutes / 60", range=(0.0, 24.0))})
    ["Column 'hours' is minutes / 60, clipped to [0, 24]."]
    """
    found = []
    for name, each in declared.items():
        ends = "" if each.range is None else f"clipped to {bounds(each.range)}"
        if each.value is None:
            found.append(f"Column {name!r} is {ends} where it is computed with.")
        else:
            found.append(f"Column {name!r} is {each.value}{', ' if ends else ''}{ends}.")
    return found
