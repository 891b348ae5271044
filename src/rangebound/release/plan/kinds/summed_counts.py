"""Questions that publish counts of many groups together with sums of them: crosstabs, hierarchies, series."""

from __future__ import annotations

import datetime
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise, product
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from rangebound.release.plan.expressions.nodes import iso_day
from rangebound.release.plan.fields import HALF_LINE, Name, Part, as_tuple, canonical, named_lists
from rangebound.release.plan.fields import Key as PlanKey
from rangebound.release.plan.kinds.facts import FormName, SampledCounts, counted_units
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import Counted
from rangebound.release.plan.statistic import Columns, Key, Label, Sensitivity, Statistic, of_counts, plain_count
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval

MOST_NUMBERS = 200_000
"""Numbers that one workload publishes at most."""
_MOST_COLUMNS = 8
_MOST_ADDED_UP = 10_000  # of three or more columns: to make this many add up takes 6 s, and 69,000 took over 140
_LONGEST = 1100  # days: the optimum takes time in proportion to the cube of them
_MOST_WORK = 20_000_000  # squares of days, over all series: answers are found in whole numbers

Members = Annotated[tuple[PlanKey, ...], Field(min_length=1), BeforeValidator(as_tuple)]
Total = Literal["week", "month", "running"]
Totals = Annotated[tuple[Total, ...], Field(min_length=1), BeforeValidator(as_tuple)]
Ranges = tuple[tuple[int, int], ...]
"""The first cell of each sum, and the one after its last."""


def _finest_sensitivity(asked: WorkloadKind, unit: Unit, groups: float) -> Sensitivity:
    """That of the finest counts: r rows in each group, L1 r g and L2 r sqrt(g).

    What the sums of them move by is in the cost of the strategy, which is computed for the same bounds.
    """
    return of_counts(unit.most_rows, unit, groups)


class WorkloadKind(Kind):
    """Counts of rows by public keys, with sums of them: measured by one strategy, published as numbers that add up.

    Contribution bounds hold on the finest grouping, `by`, as they do for a count by these columns. With `unbiased` the
    answers before they were made to add up, which may be negative, are published beside, from the same draw.
    """

    form = FormName.STRATEGY
    statistic = Statistic(
        measures=lambda asked, *_: asked.sums(n=Counted()), coordinates=plain_count, sensitivity=_finest_sensitivity
    )
    together = True
    unplaced = "whose numbers are whole, not negative and add up"
    natural: ClassVar[Interval] = HALF_LINE

    unbiased: bool | None = None

    @abstractmethod
    def numbers(self, columns: Columns, groups: float) -> float:
        """How many numbers are published for groups by these public keys."""

    @abstractmethod
    def labels(self, keys: Sequence[Key]) -> list[list[Label]]:
        """All of them in one list."""

    def misfit_of_keys(self, columns: Columns) -> str:
        """Its groups are public, and not too many with their sums."""
        for name, keys in zip(self.by, columns, strict=True):
            if not keys:
                return f"by: the keys of {name!r} must be public for kind {self.kind!r}; list them in keys"
        if self.numbers(columns, 0.0) > MOST_NUMBERS:
            return f"by: has over {MOST_NUMBERS} numbers, with all sums; take fewer columns or keys"
        return ""


class Crosstab(WorkloadKind):
    """The number of rows in every cell of two or more columns and, with `margins`, all their sums down to the total.

    A number that is summed over a column has no key there. All of them add up exactly, in whole numbers.

    >>> [key for group in Crosstab(name="t", by=("sex", "age")).labels([("f", "1"), ("m", "1")]) for key, _ in group]
    [('f', '1'), ('m', '1'), ('f', None), ('m', None), (None, '1'), (None, None)]
    """

    kind: Literal["crosstab"] = "crosstab"
    margins: bool = True

    @model_validator(mode="after")
    def _columns_fit(self) -> Crosstab:
        if not 2 <= len(self.by) <= _MOST_COLUMNS:
            raise ValueError(f"by: must name 2 to {_MOST_COLUMNS} columns; a count takes fewer")
        return self

    def misfit_of_keys(self, columns: Columns) -> str:
        said = super().misfit_of_keys(columns)
        if not said and self.margins and len(columns) > 2 and self.numbers(columns, 0.0) > _MOST_ADDED_UP:
            return f"by: has over {_MOST_ADDED_UP} numbers, with all margins; take fewer keys or columns, or no margins"
        return said

    def sampled(self, unit: Unit) -> SampledCounts:
        """By the law of the rows in a cell, or in all cells of a unit: what is to be expected of as many rows."""
        return counted_units(unit, unit.most_rows * unit.groups)

    def numbers(self, columns: Columns, groups: float) -> float:
        """Each column has one value more where sums are taken over it."""
        return math.prod(len(keys) + self.margins for keys in columns)

    def labels(self, keys: Sequence[Key]) -> list[list[Label]]:
        """The cells, then the margins with fewer and fewer columns."""
        columns = [tuple(dict.fromkeys(column)) for column in zip(*keys, strict=True)]
        wanted = marginals(len(columns), every=self.margins)
        found: list[Label] = []
        for attributes in wanted:
            values = [each if at in attributes else (None,) for at, each in enumerate(columns)]
            found += [(key, "") for key in product(*values)]
        return [found]


def marginals(count: int, *, every: bool) -> tuple[tuple[int, ...], ...]:
    """The columns of the cells of a crosstab and, where `every` is asked for, of all margins down to the total.

    >>> marginals(2, every=True)
    ((0, 1), (0,), (1,), ())
    """
    return tuple(
        each for size in range(count, -1 if every else count - 1, -1) for each in combinations(range(count), size)
    )


class Level(Part):
    """One level of a hierarchy: its name, and what each of its members is made of on the level below."""

    name: Name
    members: Annotated[dict[Name, Members], Field(min_length=1), BeforeValidator(named_lists)]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its members in the order of the plan."""
        return tuple(self.members)

    def __eq__(self, other: object) -> bool:
        """Whether two levels publish the same, in the same order."""
        return self._facts == other._facts if isinstance(other, Level) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._facts)

    @property
    def _facts(self) -> tuple[object, ...]:
        return self.name, *self.members.items()

    def parents(self) -> dict[str, str]:
        """The member that each key of the level below is part of."""
        return {canonical(key): member for member, keys in self.members.items() for key in keys}


class Hierarchy(WorkloadKind):
    """The number of rows by the public keys of one column and by `levels` above it, from fine to coarse, and in all.

    >>> canton = {"name": "canton", "members": {"ZH": ["Uster", "Wald"], "UR": ["Altdorf"]}}
    >>> found = Hierarchy(name="people", by=("town",), levels=(canton,))
    >>> found.labels([("Uster",), ("Wald",), ("Altdorf",)])[0][2:]
    [(('Altdorf',), ''), (('ZH',), 'canton'), (('UR',), 'canton'), ((None,), '')]
    >>> found.misfit_of_keys((("Uster", "Wald", "Chur"),))
    "levels.0: key 'Chur' has no canton"
    """

    kind: Literal["hierarchy"] = "hierarchy"
    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=20), BeforeValidator(as_tuple)]

    @model_validator(mode="after")
    def _levels_fit(self) -> Hierarchy:
        if len(self.by) != 1:
            raise ValueError("by: must name one column")
        if len({each.name for each in self.levels}) < len(self.levels):
            raise ValueError("levels: two of them have the same name")
        return self

    def misfit_of_keys(self, columns: Columns) -> str:
        """Every key has one parent, and every member that is listed is there."""
        return super().misfit_of_keys(columns) or self._gap(columns[0])

    def _gap(self, keys: Sequence[str]) -> str:
        below = tuple(keys)
        for at, level in enumerate(self.levels):
            listed = [canonical(key) for some in level.members.values() for key in some]
            parents, known = level.parents(), set(below)
            for key in below:
                if key not in parents:
                    return f"levels.{at}: key {key!r} has no {level.name}"
            for key in listed:
                if key not in known:
                    return f"levels.{at}: {key!r} is listed in a {level.name}, but is not on the level below"
            if len(listed) > len(parents):
                ((twice, _),) = Counter(listed).most_common(1)
                return f"levels.{at}: key {twice!r} is in more than one {level.name}"
            below = level.names
        return ""

    def numbers(self, columns: Columns, groups: float) -> float:
        return len(columns[0]) + sum(len(each.members) for each in self.levels) + 1

    def labels(self, keys: Sequence[Key]) -> list[list[Label]]:
        """The keys, the members of each level under its name, and the total without a key."""
        found: list[Label] = [(key, "") for key in keys]
        found += [((member,), level.name) for level in self.levels for member in level.names]
        return [[*found, ((None,), "")]]

    def parents(self, keys: Sequence[str]) -> tuple[int, ...]:
        """The parent of every node, level by level from the total down to the keys."""
        rows = [tuple(keys), *(each.names for each in self.levels)]
        found, places = [-1, *(0 for _ in rows[-1])], {name: at for at, name in enumerate(rows[-1], 1)}
        for level, names in zip(reversed(self.levels), reversed(rows[:-1]), strict=True):
            parents, start = level.parents(), len(found)
            found += [places[parents[name]] for name in names]
            places = {name: at for at, name in enumerate(names, start)}
        return tuple(found)


class Series(WorkloadKind):
    """The number of rows on every day, and their `totals`: by week from Monday on, by month, and from the first day.

    One of the columns `by` has consecutive days as its public keys; there is one series for each group of the others.
    A week or month has the key of its first day in the series, a running total that of its last one.

    >>> days = [(f"2025-01-{day:02}",) for day in (30, 31)] + [("2025-02-01",)]
    >>> [(key[0][-5:], part) for key, part in Series(name="visits", by=("day",), totals=("month",)).labels(days)[0]]
    [('01-30', ''), ('01-31', ''), ('02-01', ''), ('01-30', 'month'), ('02-01', 'month')]
    """

    kind: Literal["series"] = "series"
    totals: Totals = ("week", "month", "running")

    @model_validator(mode="after")
    def _totals_fit(self) -> Series:
        if not self.by:
            raise ValueError("by: must name a column of days")
        if len(set(self.totals)) < len(self.totals):
            raise ValueError("totals: one of them is named twice")
        return self

    def misfit_of_keys(self, columns: Columns) -> str:
        """One column has consecutive days, and the series are not too long."""
        said = super().misfit_of_keys(columns)
        if said:
            return said
        if len([keys for keys in columns if _days(keys)]) != 1:
            return "by: one column must have two or more consecutive days as its public keys, in order"
        length = max(len(_days(keys)) for keys in columns)
        if length > _LONGEST or length * math.prod(map(len, columns)) > _MOST_WORK:
            return f"by: the series must have at most {_LONGEST} days, and be fewer if they are long"
        return ""

    def days(self, columns: Columns) -> tuple[int, list[tuple[str, Ranges]]]:
        """Which of the columns has the days, and the sums over them: the days themselves, then each kind of total."""
        axis = next(at for at, keys in enumerate(columns) if _days(keys))
        days = _days(columns[axis])
        single = tuple((at, at + 1) for at in range(len(days)))
        return axis, [("day", single), *((name, _ranges(name, days)) for name in self.totals)]

    def numbers(self, columns: Columns, groups: float) -> float:
        cells = math.prod(map(len, columns))
        if not any(map(_days, columns)):
            return cells
        axis, ranges = self.days(columns)
        return sum(len(each) for _, each in ranges) * (cells // len(columns[axis]))

    def labels(self, keys: Sequence[Key]) -> list[list[Label]]:
        """Series by series: the days, then each kind of total under its name."""
        columns = tuple(tuple(dict.fromkeys(column)) for column in zip(*keys, strict=True))
        axis, every = self.days(columns)
        days = columns[axis]
        labels: list[Label] = []
        for group in product(*(each for at, each in enumerate(columns) if at != axis)):
            for name, ranges in every:
                for first, stop in ranges:
                    day = days[stop - 1] if name == "running" else days[first]
                    labels.append(((*group[:axis], day, *group[axis:]), "" if name == "day" else name))
        return [labels]


def _days(keys: Sequence[str]) -> tuple[datetime.date, ...]:
    """The keys as days, if they are two or more consecutive ones."""
    found = tuple(day for each in keys if (day := iso_day(each)) is not None)
    consecutive = all((b - a).days == 1 for a, b in pairwise(found))
    return found if consecutive and len(found) == len(keys) > 1 else ()


def _ranges(name: str, days: Sequence[datetime.date]) -> Ranges:
    """The ranges of a kind of total: running ones from the first day, others each up to the next."""
    if name == "running":
        return tuple((0, stop) for stop in range(1, len(days) + 1))
    firsts = [at for at, day in enumerate(days) if at == 0 or (day.weekday() == 0 if name == "week" else day.day == 1)]
    return tuple(zip(firsts, [*firsts[1:], len(days)], strict=True))
