"""Columns of a plan: those that are made of others, public ranges of the table's own, and one row per unit.

A column of a unit says of each unit what there is in its rows, before any question is asked.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from rangebound.release.plan.condition import HIDDEN, OrText, hidden_text
from rangebound.release.plan.expressions.nodes import Expression, Named, UnitCall, ValueType, columns_of
from rangebound.release.plan.expressions.nodes import Range as PublicRange
from rangebound.release.plan.expressions.reading import read, read_call
from rangebound.release.plan.expressions.typed import Known, Typed, typed
from rangebound.release.plan.faults import Place, fault, field_of
from rangebound.release.plan.fields import LATE, Ends, Name, Part, Range, bounds, date, number

_MOST, _MOST_OF_UNIT = 1000, 100
_MOST_STEPS = 16  # a statement is as deep as there are steps, and writing one that is too deep fails
_RANGE: TypeAdapter[Ends] = TypeAdapter(Range, config=LATE)


class Declared(Part):
    """A column that a plan declares, with the public `range` that its values are clipped to, if it states one."""

    value: str | None = None
    range: Range | None = None

    @property
    def ends(self) -> PublicRange | None:
        """The range in numbers."""
        return None if self.range is None else (number(self.range[0]), number(self.range[1]))

    @property
    def type(self) -> ValueType | None:
        """What the values are, where the range says it."""
        if self.range is None:
            return None
        return ValueType.DATE if isinstance(self.range[0], datetime.date) else ValueType.NUMBER

    @property
    def clipping(self) -> str:
        """The range in words, if there is one."""
        return "" if self.range is None else f"clipped to {bounds(self.range)}"


class ColumnDeclaration(Declared):
    """A column that is made by the expression `value`, or one of the table, and the public `range` of its values.

    Values beyond the range are clipped to it: those of a made column wherever it is used, those of the table's own
    where they are computed with. A column is compared as it stands.

    Guarantee: the value of a row depends on that row alone, and making it never fails. What goes wrong in a row, such
    as a division by 0, is a missing value. So one row is still one row, and no sensitivity changes.

    >>> ColumnDeclaration(value="minutes/60", range=(0.0, 24.0)).value
    'minutes / 60'
    """

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    value: (
        Annotated[str, BeforeValidator(lambda value: str(read(value)) if isinstance(value, _TREE) else value)] | None
    ) = None
    range: Range | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ColumnDeclaration:
        if self.value is None and self.range is None:
            raise ValueError('needs a value, such as value = "minutes / 60", or a range of a column of the table')
        return self


class UnitColumnDeclaration(Declared):
    """A column of the table that has one row per unit: a function of all rows of the unit, and the range of its values.

    >>> UnitColumnDeclaration(value="sum( cost )", range=(0.0, 5000.0)).value
    'SUM(cost)'
    """

    value: Annotated[
        str, BeforeValidator(lambda value: str(read_call(value)) if isinstance(value, (str, UnitCall)) else value)
    ]
    range: Range | None = None

    @property
    def words(self) -> str:
        """The function, and the range that its value is clipped to."""
        return f"{self.value}{', ' if self.clipping else ''}{self.clipping}"


_TREE = (str, Expression)
_TEXT_ALONE = BeforeValidator(lambda value: {"value": value} if isinstance(value, (*_TREE, UnitCall)) else value)
Declarations = Annotated[dict[Name, Annotated[ColumnDeclaration, _TEXT_ALONE, OrText]], Field(max_length=_MOST)]
UnitColumns = Annotated[
    dict[Name, Annotated[UnitColumnDeclaration, _TEXT_ALONE, OrText]], Field(min_length=1, max_length=_MOST_OF_UNIT)
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
    facts: dict[str, Known] = {}
    for name, each in declared.items():
        if each.value is None and each.ends is not None and each.type is not None:
            facts[name] = Known(type=each.type, range=each.ends, clipped=each.ends)
    facts |= known
    made: dict[str, MadeColumn] = {}
    for name in _in_order(declared):
        each = declared[name]
        try:
            found = typed(read(each.value or ""), facts, each.type)
        except ValueError as reason:
            raise fault(str(reason), ("columns", name), each.value) from None
        made[name] = MadeColumn(name=name, value=found, field=field_of(("columns", name)), clipped=each.ends)
        facts[name] = made[name].known
    for name, place in hidden.items():
        try:
            found = typed(read(hidden_text(name) or ""), facts, ValueType.TRUTH)
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


def _in_order(declared: Mapping[str, ColumnDeclaration]) -> list[str]:
    """The made columns, each after those that it uses; a circle is a fault."""
    made = {name: columns_of(read(each.value)) for name, each in declared.items() if each.value is not None}
    uses = {name: [one for one in some if one in made] for name, some in made.items()}
    order: dict[str, None] = {}
    steps = 0
    while len(order) < len(uses):
        free = [name for name in uses if name not in order and all(one in order for one in uses[name])]
        steps += 1
        if free and steps > _MOST_STEPS:
            rule = f"is made of made columns, over {_MOST_STEPS} one behind the other; write some as one expression"
            raise fault(rule, ("columns", free[0]), declared[free[0]].value)
        if not free:
            path = [next(name for name in uses if name not in order)]
            while path[-1] not in path[:-1]:
                path.append(next(one for one in uses[path[-1]] if one not in order))
            circle = path[path.index(path[-1]) :]
            itself = "a made column must have a name that the table does not have"
            way = itself if len(circle) == 2 else "made columns form a circle"
            raise fault(f"uses itself: {' -> '.join(circle)}; {way}", ("columns", circle[0]), declared[circle[0]].value)
        order |= dict.fromkeys(free)
    return list(order)


def described(declared: Mapping[str, ColumnDeclaration]) -> list[str]:
    """What a plan says of columns, a sentence each.

    >>> described({"hours": ColumnDeclaration(value="minutes / 60", range=(0.0, 24.0))})
    ["Column 'hours' is minutes / 60, clipped to [0, 24]."]
    """
    found = []
    for name, each in declared.items():
        said = [each.value] if each.value is not None else []
        said += [each.clipping] if each.clipping else []
        found.append(f"Column {name!r} is {', '.join(said)}{'' if each.value else ' where it is computed with'}.")
    return found


_NO_RANGE = (
    "what is added up needs a public range; state that of its columns in [columns], as cost = {range = [0, 500]}, or "
    "write CLIP(x, 0, 500)"
)


@dataclass(frozen=True, kw_only=True)
class UnitColumn:
    """A column of a unit: a function of columns, which are the table's own or made for it.

    `made` are those that have to be made first; `values` is the public range of what is added up, and `clipped` the
    range of the result, where one is stated. `known` is what expressions know of the result, if anything.
    """

    name: str
    function: str
    arguments: tuple[str, ...]
    made: tuple[MadeColumn, ...] = ()
    values: PublicRange = (-math.inf, math.inf)
    clipped: PublicRange | None = None
    known: Known | None = None
    field: str = ""


@dataclass(frozen=True, kw_only=True)
class PlanColumns:
    """The columns that a plan makes: `early` ones of rows, those `of_unit` of all rows of a unit, then the `made` ones.

    `known` is what is known of the columns by then.
    """

    early: tuple[MadeColumn, ...] = ()
    of_unit: tuple[UnitColumn, ...] = ()
    made: tuple[MadeColumn, ...] = ()
    known: Mapping[str, Known] = field(default_factory=dict)

    @cached_property
    def ranges(self) -> dict[str, Ends]:
        """The ranges of questions about columns, where a public one follows that a question may have."""
        found = {}
        for name, each in self.known.items():
            if each.type is not ValueType.TEXT and all(map(math.isfinite, each.range)):
                ends = tuple(map(date, each.range)) if each.type is ValueType.DATE else each.range
                with suppress(ValidationError):  # no width, or one beyond the doubles
                    found[name] = _RANGE.validate_python(ends)
        return found


def plan_columns(
    declared: Mapping[str, ColumnDeclaration],
    of_unit: Mapping[str, UnitColumnDeclaration] | None,
    hidden: Mapping[str, Place],
) -> PlanColumns:
    """The columns that a plan makes; those that use no column of a unit are made before there is one row per unit.

    `hidden` are names of columns that conditions make of themselves, with the places where they stand.
    """
    late, more = set(of_unit or ()), of_unit is not None
    while more:  # by other columns, too
        found = {
            name
            for name, each in declared.items()
            if name not in late and each.value is not None and late.intersection(columns_of(read(each.value)))
        }
        late, more = late | found, bool(found)
    early = {} if of_unit is None else {name: each for name, each in declared.items() if name not in late}
    first, known = made_columns(early, {}, {})
    units = []
    for name, own in (of_unit or {}).items():
        try:
            units.append(_resolved(name, own, known))
        except ValueError as reason:
            raise fault(str(reason), ("per_unit", name), own.value) from None
    by_unit = {each.name: each.known for each in units if each.known is not None}
    rest = {name: each for name, each in declared.items() if name not in early}
    made, known = made_columns(rest, hidden, by_unit)
    before = (*first, *(each for one in units for each in one.made))
    return PlanColumns(early=before, of_unit=tuple(units), made=made, known=known)


def _resolved(name: str, declared: UnitColumnDeclaration, known: Mapping[str, Known]) -> UnitColumn:
    call, field, ends = read_call(declared.value), f"per_unit.{name}", declared.ends
    parts = [_argument(call, at, each, known, declared.type) for at, each in enumerate(call.arguments)]
    made, names = [], []
    for at, (node, part) in enumerate(zip(call.arguments, parts, strict=True)):
        if part is None:
            assert isinstance(node, Named)
            names.append(node.name)
        else:
            names.append(f"\x1f{field}.{at}")
            made.append(MadeColumn(name=names[-1], value=part, field=field))
    first = parts[0] if parts else None
    values = (-math.inf, math.inf) if first is None else first.range
    if call.function == "sum" and not all(map(math.isfinite, values)):
        raise ValueError(f"{call}: {_NO_RANGE}")
    result = _result(call.function, first)
    if declared.type is not None and (result is None or result.type is not declared.type):
        raise ValueError(
            f"{call}: is {result.type.value if result else 'a column as it stands'}, and has no such range"
        )
    return UnitColumn(
        name=name,
        function=call.function,
        arguments=tuple(names),
        made=tuple(made),
        values=values,
        clipped=ends,
        known=result if result is None or ends is None else Known(type=result.type, range=ends),
        field=field,
    )


def _argument(
    call: UnitCall, at: int, node: Expression, known: Mapping[str, Known], wanted: ValueType | None
) -> Typed | None:
    """An argument with its type; None for a column of the table that is taken as it stands.

    `wanted` is the type of the result by its stated range.
    """
    standing = isinstance(node, Named) and node.name not in known
    if call.function in ("count", "any", "all"):
        return typed(node, known, ValueType.TRUTH)
    if call.function == "sum":
        return typed(node, known, ValueType.NUMBER)
    if call.function in ("min", "max"):
        return _ordered(call, typed(node, known, (wanted or ValueType.NUMBER) if standing else None))
    if at == 1:
        return None if standing else _ordered(call, typed(node, known))
    if call.function == "distinct" or wanted is None:
        return None if standing else typed(node, known)
    return typed(node, known, wanted)


def _ordered(call: UnitCall, found: Typed) -> Typed:
    if found.type not in (ValueType.NUMBER, ValueType.DATE):
        raise ValueError(f"{call}: {found} is {found.type.value}; {call.function} goes by numbers and dates")
    return found


def _result(function: str, first: Typed | None) -> Known | None:
    """What expressions know of the result; nothing of a column that is taken as it stands."""
    if function in ("any", "all"):
        return Known(type=ValueType.TRUTH, range=(0.0, 1.0))
    if function in ("count", "distinct"):
        return Known(type=ValueType.NUMBER, range=(0.0, math.inf))
    if first is None:
        return None
    low, high = first.range
    if function == "sum":
        low, high = -math.inf if low < 0.0 else 0.0, math.inf if high > 0.0 else 0.0
    return Known(type=first.type, range=(low, high))
