"""Questions whose rows may have survey weights."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from pydantic import field_validator

from rangebound.release.plan.fields import Ends
from rangebound.release.plan.kinds.column_kind import ColumnKind
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import Counted, Measure, Product, Value, Values
from rangebound.release.plan.ranged_column import RangedColumn
from rangebound.release.plan.unit import Unit
from rangebound.release.plan.words import span


class Weight(RangedColumn):
    """A column of survey weights and their public range; weights outside it are clipped."""

    @field_validator("range")
    @classmethod
    def _not_negative(cls, ends: Ends) -> Ends:
        if not isinstance(ends[0], float):
            raise ValueError("must be two numbers; a weight is not a date")
        if ends[0] < 0.0:
            raise ValueError("the lower end must not be negative; a weight says how many others a row stands for")
        return ends

    @property
    def values(self) -> Values:
        """The weights in [a, b], in fixed point over [0, b]: a row of weight w adds w / b, from 0 to 1."""
        ends = self.bounds
        return Values(column=self.column, lower=0.0, upper=ends.upper, dated=False, least=ends.lower)


class WeightedKind(Kind):
    """A question in which a row may count as often as its survey weight says; without one it counts once.

    Rows that have no weight do not count.
    """

    weighted_by: Weight | None = None

    @property
    def largest_weight(self) -> Fraction:
        """The most that one row counts for: the upper end of the weights, or 1."""
        return Fraction(1) if self.weighted_by is None else Fraction(self.weighted_by.bounds.upper)

    @property
    def _weights(self) -> tuple[Values, ...]:
        """The weights, where there are any: what a row needs beside the values that it is asked for."""
        return () if self.weighted_by is None else (self.weighted_by.values,)

    @property
    def _counted(self) -> Measure:
        """What a row counts for: 1, or its weight in fixed point."""
        return Counted() if self.weighted_by is None else Value(of=self.weighted_by.values)

    def _weighted(self, measure: Measure) -> Measure:
        """A measure in fixed point, times the weight of its row as a part of the largest one."""
        return measure if self.weighted_by is None else Product(of=(self._counted, measure))

    def _whole_table(self, unit: Unit) -> int | None:
        """The number of all rows, where it is public and all of them count once."""
        return super()._whole_table(unit) if self.weighted_by is None else None

    @property
    def reads_also(self) -> Mapping[str, RangedColumn]:
        """The weights."""
        return {} if self.weighted_by is None else {"weighted_by": self.weighted_by}

    @property
    def _weighting(self) -> str:
        """The weights in an explanation."""
        if self.weighted_by is None:
            return ""
        return f", weighted by {self.weighted_by.subject}"

    @property
    def _weight_scope(self) -> list[str]:
        """What was done to weights before the noise."""
        if self.weighted_by is None:
            return []
        ends = self.weighted_by.bounds
        return [f"weights clipped to {span(ends.lower, ends.upper, dated=False)}", "rows without a weight left out"]


class WeightedColumnKind(ColumnKind, WeightedKind):
    """A question about the values of a column in which a row may count as often as its weight says."""

    @property
    def subject(self) -> tuple[str, str]:
        """The column and its range, and the weights."""
        before, after = super().subject
        return before, f"{after}{self._weighting}"

    def _special(self) -> list[str]:
        return self._weight_scope
