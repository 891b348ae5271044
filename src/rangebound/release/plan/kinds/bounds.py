"""A range for a column whose range is not known."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from typing import Literal

from pydantic import model_validator

from rangebound.release.noise.allocation import BudgetShare, LossForm, Sensitivity
from rangebound.release.noise.draw import Columns, Coordinates, Draw, Reading
from rangebound.release.noise.estimate import Estimate, held
from rangebound.release.noise.publishers import Publisher
from rangebound.release.noise.range_ends import COVER, DAYS, VALUES, range_publisher
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import Name
from rangebound.release.plan.kinds.kind import Agreement, Clipping, Kind, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.measure import ONE, EdgeCounts, Found, Measures, Rows, Values
from rangebound.release.plan.sensitivity import of_parts
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

_EFFORT = 1.0  # one step: edges are public and few


class Bounds(Kind):
    """A range found for a column whose range is not known: both ends out of public edges, `lower` and `upper`.

    Each end aims at the quantile beyond which 2 % of the units' values lie, and some units inwards of it, so that it
    passes it with probability 2.5 % at most. Every unit counts once in all, its values in equal parts. The edges are 0
    and ten numbers for every power of ten, of both signs; with `dates` the column is one of dates, and the edges are
    the first days of the years 1900 to 2100.
    """

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

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of `where`."""
        return self.where

    def misfit(self, unit: Unit) -> str:
        """It can always be asked."""
        return ""

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

    def known_rows(self, unit: Unit) -> int | None:
        """How many rows have a value is not public."""
        return None

    @property
    def parts(self) -> tuple[str, ...]:
        """Both ends."""
        return "lower", "upper"

    @property
    def draws(self) -> int:
        """Two: every unit is in both."""
        return 2

    @property
    def interval_part(self) -> float:
        """Nothing: it has no intervals."""
        return 0.0

    @property
    def uses_delta(self) -> bool:
        """Never: the exponential mechanism is pure."""
        return False

    @property
    def loss(self) -> LossForm:
        """That of an exponential mechanism, whose scores are those of a quantile."""
        return LossForm.RANGE

    def publisher(
        self, unit: Unit, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns
    ) -> Publisher:
        """The exponential mechanism for each end."""
        return range_publisher(self.edges, found.cell, share, confidence=level)

    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """An edge, within the whole grid."""
        (value,), ((lower, upper),) = reading.values, reading.intervals
        return held(value, lower, upper, self.allowed)

    def unclamped_number(self, draws: Draw) -> float | None:
        """None: an end is drawn from a grid, and no noise is added to it."""
        return None

    def bias(self, publisher: Publisher, unit: Unit, lower: Floats, upper: Floats) -> Floats | None:
        """None: how far a rank error moves an end depends on the rows near it, which are private."""
        return None

    @property
    def effort(self) -> tuple[Hashable, float]:
        """The grid is made again."""
        return self.name, _EFFORT

    @property
    def subject(self) -> tuple[str, str]:
        """The column."""
        return f" of {self.column!r}, out of {len(self.edges)} edges", ""

    def no_margin(self, unit: Unit) -> str:
        """None can be asked: it has no interval but the grid."""
        return f"must not be asked of {self.kind!r}, whose ends are edges of a grid; give a weight"

    def half_width(self, publisher: Publisher, unit: Unit) -> float | None:
        """The data decide."""
        return None

    def expected_error(self, publisher: Publisher) -> str:
        """In units."""
        return publisher.expected_error()

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """What an end aims at, groups beyond the contribution bound, how a unit counts, and what is left out."""
        each = [] if unit.column is None else [f"each {unit.column!r} counted once, its values in equal parts"]
        return [
            *truncation_scope(self, unit, groups, rows=False),
            *each,
            f"aimed at all but {float(100 * (1 - COVER)):g} % of the values at each end",
            "missing values left out",
            *owner_scope(unit),
        ]

    @property
    def agreement(self) -> Agreement:
        """Nothing: they are in order already."""
        return Agreement()

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Groups, where a unit may have more of them than count."""
        return Truncation(owners=True) if choosing else None

    @property
    def clipping(self) -> Clipping | None:
        """Nothing: values beyond the last edge count beyond it."""
        return None
