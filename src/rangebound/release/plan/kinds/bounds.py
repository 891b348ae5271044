"""A range for a column whose range is not known."""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import Literal

from pydantic import model_validator

from rangebound.release.plan.fields import Name, number
from rangebound.release.plan.kinds.facts import FormName
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import ONE, EdgeCounts, Found, Measures, Rows, Values
from rangebound.release.plan.numbers import Coordinates
from rangebound.release.plan.sensitivity import Sensitivity, of_parts
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval

COVER = Fraction(49, 50)
"""The quantile of the units' values that an upper end aims at; a lower end aims at the same, counted downwards."""
_NICE = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
SIZES = tuple(each * 10.0**power for power in range(-6, 12) for each in _NICE)
"""Ten numbers for every power of ten from a millionth to some 10^12."""
VALUES = tuple(float(f"{each:.2g}") for each in [*(-x for x in reversed(SIZES)), 0.0, *SIZES])
"""The grid of ends: 0, and ten numbers for every power of ten from a millionth to some 10^12, of both signs."""
DAYS = tuple(number(datetime.date(year, 1, 1)) for year in range(1900, 2101))
"""The grid of ends of dates: the first days of the years 1900 to 2100, as days since 1970-01-01."""


class Bounds(Kind):
    """A range found for a column whose range is not known: both ends out of public edges, `lower` and `upper`.

    Each end aims at the quantile beyond which 2 % of the units' values lie, and some units inwards of it, so that it
    passes it with probability 2.5 % at most. Every unit counts once in all, its values in equal parts. The edges are 0
    and ten numbers for every power of ten, of both signs; with `dates` the column is one of dates, and the edges are
    the first days of the years 1900 to 2100.
    """

    form = FormName.EDGES
    once = True
    unmargined = "whose ends are edges of a grid"

    kind: Literal["bounds"] = "bounds"
    column: Name
    dates: bool = False

    @model_validator(mode="after")
    def _edges_alone(self) -> Bounds:
        for name in ("support", "step"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name}: is not for this kind, whose answers are edges of a public grid")
        return self

    @property
    def edges(self) -> tuple[float, ...]:
        """The public edges."""
        return DAYS if self.dates else VALUES

    @property
    def natural(self) -> Interval:
        """From the first edge to the last."""
        return Interval(self.edges[0], self.edges[-1])

    @property
    def answers_dated(self) -> bool:
        """As the column is."""
        return self.dates

    @property
    def reads(self) -> Values | None:
        """The column."""
        return Values(column=self.column, lower=self.edges[0], upper=self.edges[-1], dated=self.dates)

    def measures(self, unit: Unit, groups: float) -> Measures:
        """Units by place among the edges."""
        return EdgeCounts(rows=Rows(where=self.where), column=self.column, edges=self.edges, dated=self.dates)

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """Units by place."""
        counts, none = {at: Fraction(each, ONE) for at, each in found.items()}, Fraction(0)
        return tuple(counts.get(at, none) for at in range(2 * len(self.edges) + 1))

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """L1 g and L2 sqrt(g): a unit adds 1 in all to the places of a group, so it is a case of `of_parts`.

        Its values in the group share that 1, whatever their number.
        """
        return of_parts(1, unit, groups)

    @property
    def parts(self) -> tuple[str, ...]:
        """Both ends."""
        return "lower", "upper"

    @property
    def subject(self) -> tuple[str, str]:
        """The column."""
        return f" of {self.column!r}, out of {len(self.edges)} edges", ""

    def left_out(self, unit: Unit) -> list[str]:
        """How a unit counts, what an end aims at, and missing values."""
        each = [] if unit.column is None else [f"each {unit.column!r} counted once, its values in equal parts"]
        aimed = f"aimed at all but {float(100 * (1 - COVER)):g} % of the values at each end"
        return [*each, aimed, "missing values left out"]
