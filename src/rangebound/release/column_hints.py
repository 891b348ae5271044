"""What a plan says of the columns that it reads: types, ranges, keys, and the values that they are compared with."""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rangebound.release.plan.columns import MadeColumn
from rangebound.release.plan.expressions.nodes import Call, Constant, Expression, Named, ValueType, columns_of, type_of
from rangebound.release.plan.expressions.typed import column_uses
from rangebound.release.plan.fields import number
from rangebound.release.plan.key_rule import KeyRule
from rangebound.release.plan.model import Plan

Listed = bool | int | float | datetime.date | str
"""A value that a plan names."""

_COMPARED = ("==", "!=", "<", "<=", ">", ">=", "in", "not in", "starts", "ends", "contains", "bin", "clip", "coalesce")


@dataclass
class ColumnHints:
    """What is known of one column; `keys` are the values of its rule, `compared` those of conditions on it."""

    types: set[ValueType] = field(default_factory=set)
    keys: list[Listed] = field(default_factory=list)
    compared: list[Listed] = field(default_factory=list)
    ends: list[tuple[float, float]] = field(default_factory=list)
    whole: bool = False
    timed: bool = False

    @property
    def dated(self) -> bool:
        """Whether the column is one of days."""
        return ValueType.DATE in self.types or any(isinstance(each, datetime.date) for each in self.compared)

    def lies(self, ends: Sequence[float | datetime.date]) -> None:
        """Its values lie from the first to the last of some numbers or days."""
        self.types.add(ValueType.DATE if isinstance(ends[0], datetime.date) else ValueType.NUMBER)
        self.ends.append((number(ends[0]), number(ends[-1])))

    def follows(self, rule: KeyRule) -> None:
        """The column is grouped by a rule."""
        self.keys += [*(rule.values or ()), *(each for some in (rule.fold or {}).values() for each in some)]
        ends = rule.span or rule.bins
        if ends is not None:
            self.lies(ends)


Hints = defaultdict[str, ColumnHints]
"""What is known of each column, in the order in which a plan first names it."""


def column_hints(plan: Plan) -> Hints:
    """What a plan says of the columns that it reads, those of joined tables by their names in the plan.

    Columns that the plan makes itself are left out; what it says of one that is `first`, `last`, `min` or `max` of
    another is said of that one.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget.epsilon = 1\\nquery = [{name = "a", kind = "mean", column = "age", range = [0, 99]}]')
    >>> column_hints(plan)["age"].ends
    [(0.0, 99.0)]
    """
    found: Hints = defaultdict(ColumnHints)
    if plan.unit.column is not None:
        found[plan.unit.column].whole = True
    for name, declared in plan.made_columns.items():
        if declared.value is None and declared.range is not None:
            found[name].lies(declared.range)
    _of_expressions(plan, found)
    if plan.counted_unit.period is not None:
        found[plan.counted_unit.period.column].lies(plan.counted_unit.period.range)
    _of_questions(plan, found)
    _of_made(reversed(plan.made), found)
    _of_units(plan, found)
    _of_made(reversed(plan.early), found)
    for join in plan.join or ():
        for name in (*join.on, *join.columns):
            found[name].whole |= name in join.on
    taken = {
        name for each in plan.of_unit for name in each.arguments
    }  # a column of a unit may have its argument's name
    made = {each.name for each in (*plan.made, *plan.early)}
    for name in made | {each.name for each in plan.of_unit} - taken:
        found.pop(name, None)
    return found


def _of_questions(plan: Plan, found: Hints) -> None:
    for question in plan.query:
        if question.period is not None:
            found[question.period.column].lies(question.period.range)
        for column in (*question.by, *question.keyed, *question.compares.values()):
            rule = plan.rule(column)
            if rule is None:
                found[column].whole = True
            elif not found[column].keys:
                found[column].follows(rule)
        for condition in question.conditions:
            found[condition.column].compared += condition.values
            found[condition.column].types |= set(map(type_of, condition.values))
        reads = [] if question.reads is None else [question.reads]
        for values in (*reads, *(each.values for each in question.reads_also.values())):
            found[values.column].types.add(ValueType.DATE if values.dated else ValueType.NUMBER)
            found[values.column].ends.append((values.lower, values.upper))


def _of_expressions(plan: Plan, found: Hints) -> None:
    made: Iterable[MadeColumn] = (*plan.early, *plan.made)
    for one in made:
        for use, name, kind in column_uses(one.value):
            if use == "hour(...)":
                found[name].timed = True
            if kind is not ValueType.COLUMN:
                found[name].types.add(kind)
            elif use in ("number(...)", "date(...)"):
                found[name].types.add(ValueType.NUMBER if use == "number(...)" else ValueType.DATE)
            elif use == "text(...)":
                found[name].types.add(ValueType.TEXT)
        for name, value in _compared(one.value.node):
            found[name].compared.append(value)


def _of_made(made: Iterable[MadeColumn], found: Hints) -> None:
    """What is known of a made column that is another one as it stands is known of that one."""
    for one in made:
        if isinstance(one.value.node, Named):
            _hand_down(found, one.name, one.value.node.name)


def _of_units(plan: Plan, found: Hints) -> None:
    for each in plan.of_unit:
        for at, name in enumerate(each.arguments):
            if at:  # of first(x, date)
                found[name].types.add(ValueType.DATE)
            elif each.function in ("first", "last", "min", "max"):
                _hand_down(found, each.name, name)
            else:
                found[name].whole = True


def _hand_down(found: Hints, of: str, to: str) -> None:
    """What is known of a column is known of the one that it is made of."""
    if of == to:
        return
    known, taken = found[of], found[to]
    taken.types |= known.types
    taken.keys += known.keys
    taken.compared += known.compared
    taken.ends += known.ends
    taken.whole |= known.whole


def _compared(node: Expression) -> Iterator[tuple[str, Listed]]:
    if not isinstance(node, Call):
        return
    if node.function in _COMPARED:
        values = [each.value for each in node.arguments if isinstance(each, Constant)]
        for name in columns_of(node):
            yield from ((name, each) for each in values)
    for each in node.arguments:
        yield from _compared(each)


def span(hints: ColumnHints, usual: tuple[float, float]) -> tuple[float, float]:
    """Where numbers or days of a column lie: in its ranges and around the values that it is compared with."""
    own = [number(each) for each in hints.compared if not isinstance(each, (bool, str))]
    ends = [each for each in hints.ends if all(map(math.isfinite, each))]
    if ends:
        return min(low for low, _ in ends), max(high for _, high in ends)
    if not own:
        return usual
    low, high = min(own), max(own)
    width = max(high - low, abs(low) / 2, 10.0)
    return (0.0 if 0.0 <= low < width else low - width), high + width
