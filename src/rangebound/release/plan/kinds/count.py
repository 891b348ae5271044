"""The number of rows."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import BudgetShare, Sensitivity
from rangebound.release.noise.draw import Coordinates
from rangebound.release.noise.estimate import nearest
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import HALF_LINE, LINE
from rangebound.release.plan.kinds.kind import Agreement, Clipping, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.kinds.scalar_kind import ScalarKind
from rangebound.release.plan.kinds.weighted_kind import WeightedKind
from rangebound.release.plan.kinds.whole_kind import WholeKind
from rangebound.release.plan.measure import ONE, Found, GroupSums, Measures, Rows, Values
from rangebound.release.plan.sensitivity import of_counts, scaled
from rangebound.release.plan.unit import Unit
from rangebound.values.numeric import rounded_up
from rangebound.values.support import Interval, Union


class CountKind(ScalarKind, WholeKind):
    """A count, of rows or of units."""

    @property
    def natural(self) -> Interval:
        """The half-line, or the line where it is signed."""
        return LINE if self.signed else HALF_LINE

    @property
    def answers_dated(self) -> bool:
        """Never."""
        return False

    @property
    def reads(self) -> Values | None:
        """No column."""
        return None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of `where`."""
        return self.where

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """The count."""
        return (Fraction(found.get("n", 0)),)

    def _scalar(self, unit: Unit, found: Sensitivity, share: BudgetShare, level: float) -> Publisher:
        if not found.cell:
            assert unit.size is not None
            exact = float(unit.size)  # moved into the support when it is read, if it is to be unclamped
            return publishers.public_constant(
                exact if self.unclamped else nearest(exact, self.allowed, self.step or 1.0)
            )
        return publishers.whole_number(
            self.published_in(unit),
            found,
            share,
            step=self.step or 1.0,
            mechanism=self.mechanism,
            confidence=level,
            unclamped=self.unclamped,
            additive=self.margin is not None,
        )

    def selecting_rows(self, unit: Unit) -> int | None:
        """What a unit adds to a group, where no row is filtered out and the noise is not clamped before it is compared.

        A row as unit adds one, and so does a unit to a count of units.
        """
        free = not self.where and self.mechanism is None and self.step in (None, 1.0)
        return int(self.sensitivity(unit, math.inf).cell) if free else None

    @property
    def subject(self) -> tuple[str, str]:
        """Nothing more."""
        return "", ""

    @property
    def clipping(self) -> Clipping | None:
        """Nothing: it has no range."""
        return None


class Count(CountKind, WeightedKind):
    """The number of rows; with weights, the sum of the weights, which need not be a whole number."""

    kind: Literal["count"] = "count"

    @property
    def is_whole(self) -> bool:
        """Where rows have no weights."""
        return self.weighted_by is None

    def misfit(self, unit: Unit) -> str:
        """It can always be asked."""
        return ""

    def measures(self, unit: Unit, groups: float) -> Measures:
        """The rows within the contribution bounds, or their weights."""
        return GroupSums(rows=Rows(where=self.where, also=self._weights), of={"n": self._counted})

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """The count, or the sum of the weights: the largest weight times the sum of the weights as parts of it."""
        n = Fraction(found.get("n", 0))
        return (n if self.is_whole else self.largest_weight * n / ONE,)

    def _scalar(self, unit: Unit, found: Sensitivity, share: BudgetShare, level: float) -> Publisher:
        if self.is_whole:
            return super()._scalar(unit, found, share, level)
        return publishers.real_number(
            self.published_in(unit),
            found,
            share,
            step=self.step,
            mechanism=self.mechanism,
            confidence=level,
            unclamped=self.unclamped,
            additive=self.margin is not None,
        )

    def selecting_rows(self, unit: Unit) -> int | None:
        """As of any count; none where rows have weights, since a unit may add less than a whole one."""
        return super().selecting_rows(unit) if self.is_whole else None

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """Nothing where the number of rows is public, else r rows in each group: L1 r g, L2 r sqrt(g).

        Every row adds 1, and at most r of a unit count in each of at most g groups, so it is a case of `of_counts`. A
        table in which one row is replaced has as many rows as before, so where all rows count the count is a constant.

        With weights in [a, b], 0 <= a, a row adds w <= b: in units of b a number from 0 to 1, so that a unit adds one
        from 0 to r to each of its groups. All of it is b times what it is without weights, but no count is a constant.

        >>> Count(name="visits").sensitivity(Unit(column="person", rows=3, groups=2), 10).total
        Fraction(6, 1)
        """
        if self.known_rows(unit) is not None:
            return Sensitivity(cell=Fraction(0), groups=1, square=Fraction(0))
        return scaled(of_counts(unit.most_rows, unit, groups), self.largest_weight)

    def known_rows(self, unit: Unit) -> int | None:
        """The size of the table, where it is public and all rows count.

        >>> Count(name="visits").known_rows(Unit(neighbours="replace", size=50))
        50
        """
        return self._whole_table(unit)

    def published_in(self, unit: Unit) -> Interval | Union:
        """Up to the largest number of rows, where the number of units is public."""
        if self.support is not None or self.signed or unit.size is None or self.known_rows(unit) is not None:
            return self.allowed
        return Interval(0.0, rounded_up(unit.size * unit.most_rows * self.largest_weight))

    def is_marginal(self, unit: Unit) -> bool:
        """Where rows are the units, their number is not public, and the plan fixes nothing about the numbers.

        >>> Count(name="visits", by=("day",)).is_marginal(Unit()), Count(name="visits", margin=25).is_marginal(Unit())
        (True, False)
        """
        fixed = (self.mechanism, self.weight, self.margin, self.support)
        free = fixed == (None,) * len(fixed) and self.step in (None, 1.0)
        return free and self.is_whole and unit.column is None and self.known_rows(unit) is None

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Groups and rows beyond the contribution bounds, clipped and missing weights, and rows without an owner."""
        return [*truncation_scope(self, unit, groups, rows=True), *self._weight_scope, *owner_scope(unit)]

    @property
    def subject(self) -> tuple[str, str]:
        """The weights."""
        return self._weighting, ""

    @property
    def agreement(self) -> Agreement:
        """It adds up to other counts of the same rows; with weights it is not a count of rows."""
        return Agreement(counts=self.is_whole)

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Rows; those that have a weight, where they are weighted."""
        return Truncation(also=self.needs_also)
