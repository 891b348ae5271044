"""The number of rows by day, with sums by week and month and running totals."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from rangebound.release.noise.draw import Columns, Key, Label
from rangebound.release.noise.series_measurements import Periods, series_measurements
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.strategies.ranges import Range, periods, running_totals
from rangebound.release.noise.workload_publisher import Measurements
from rangebound.release.plan.fields import as_tuple
from rangebound.release.plan.kinds.workload_kind import WorkloadKind

_LONGEST = 1100  # days: the optimum takes time in proportion to the cube of them
_MOST_WORK = 20_000_000  # squares of days, over all series: answers are found in whole numbers

Total = Literal["week", "month", "running"]
Totals = Annotated[tuple[Total, ...], Field(min_length=1), BeforeValidator(as_tuple)]


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
        length = len(_days(columns[_axis(columns)]))
        if length > _LONGEST or length * math.prod(map(len, columns)) > _MOST_WORK:
            return f"by: the series must have at most {_LONGEST} days, and be fewer if they are long"
        return ""

    def _periods(self, columns: Columns) -> Periods:
        axis = _axis(columns)
        days = _days(columns[axis])
        ranges = [("day", tuple((at, at + 1) for at in range(len(days))))]
        ranges += [(name, _ranges(name, days)) for name in self.totals]
        return Periods(sizes=tuple(map(len, columns)), axis=axis, ranges=tuple(ranges))

    def numbers(self, columns: Columns, groups: float) -> float:
        """The days and the totals of every series."""
        if not any(map(_days, columns)):
            return math.prod(map(len, columns))
        found = self._periods(columns)
        return len(found.wanted) * found.series

    def labels(self, keys: Sequence[Key]) -> list[list[Label]]:
        """Series by series: the days, then each kind of total under its name."""
        columns = tuple(tuple(dict.fromkeys(column)) for column in zip(*keys, strict=True))
        found = self._periods(columns)
        days, axis = columns[found.axis], found.axis
        labels: list[Label] = []
        for group in product(*(each for at, each in enumerate(columns) if at != axis)):
            for name, ranges in found.ranges:
                for first, stop in ranges:
                    day = days[stop - 1] if name == "running" else days[first]
                    labels.append(((*group[:axis], day, *group[axis:]), "" if name == "day" else name))
        return [labels]

    def measurements(
        self, columns: Columns, account: NoiseAccount, budget: Fraction, contributions: Contributions
    ) -> Measurements:
        """A triangular factor in a Gaussian account, cells and blocks in a pure one."""
        return series_measurements(self._periods(columns), account, budget, contributions)


def _days(keys: Sequence[str]) -> tuple[datetime.date, ...]:
    """The keys as days, if they are two or more consecutive ones."""
    try:
        found = tuple(datetime.date.fromisoformat(each) for each in keys)
    except ValueError:
        return ()
    written = tuple(each.isoformat() for each in found) == tuple(keys)
    consecutive = all((b - a).days == 1 for a, b in pairwise(found))
    return found if written and consecutive and len(found) > 1 else ()


def _axis(columns: Columns) -> int:
    """Which of the columns has the days."""
    return next(at for at, keys in enumerate(columns) if _days(keys))


def _ranges(name: str, days: Sequence[datetime.date]) -> tuple[Range, ...]:
    """The ranges of a kind of total."""
    if name == "running":
        return running_totals(len(days))
    firsts = [day.weekday() == 0 if name == "week" else day.day == 1 for day in days]
    return periods([at for at, first in enumerate(firsts) if at == 0 or first], len(days))
