"""The share of the rows that meet some conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from rangebound.release.noise.allocation import Sensitivity
from rangebound.release.noise.draw import Coordinates
from rangebound.release.noise.estimate import Fractional
from rangebound.release.plan.condition import Condition, Conditions
from rangebound.release.plan.expressions.conjunction import hidden_text
from rangebound.release.plan.fields import Name
from rangebound.release.plan.kinds.fraction_kind import FractionKind
from rangebound.release.plan.kinds.kind import Agreement, Clipping, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.kinds.mean import between, known_or_parts
from rangebound.release.plan.kinds.weighted_kind import WeightedKind
from rangebound.release.plan.measure import ONE, Found, GroupSums, Measures, Met, Rows, Values
from rangebound.release.plan.unit import Unit
from rangebound.release.plan.words import conditions
from rangebound.values.support import Interval


class Share(FractionKind, WeightedKind):
    """The share of the rows that meet the conditions `of` among those that meet `where`.

    With weights, rows count by these. Shares with the same `partition` are made to add up to 1 where the plan asks for
    consistent numbers.
    """

    kind: Literal["share"] = "share"
    of: Annotated[Conditions, Field(min_length=1)]
    partition: Name | None = None

    @property
    def natural(self) -> Interval:
        """From 0 to 1."""
        return Interval(0.0, 1.0)

    @property
    def answers_dated(self) -> bool:
        """Never."""
        return False

    @property
    def reads(self) -> Values | None:
        """No column of numbers."""
        return None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of `where` and of `of`."""
        return (*self.where, *self.of)

    def misfit(self, unit: Unit) -> str:
        """It can always be asked."""
        return ""

    def known_rows(self, unit: Unit) -> int | None:
        """The size of the table, where it is public and all rows count."""
        return self._whole_table(unit)

    def measures(self, unit: Unit, groups: float) -> Measures:
        """The rows within the contribution bounds, and those of them that meet `of`."""
        rows = Rows(where=self.where, also=self._weights)
        return GroupSums(rows=rows, of={"n": self._counted, "t": self._weighted(Met(conditions=self.conditions))})

    def _all_coordinates(self, found: Found) -> Coordinates:
        return between(found, rows=1 if self.weighted_by is not None else ONE)

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """L1 r g and L2 r sqrt(g): a row adds 1 to one of two coordinates, as a mean of zeros and ones.

        So it is a case of `of_parts`; where the number of rows is public, a replaced row moves the one coordinate that
        is left by at most 1. With weights in [0, b] a row adds w / b to one of the two, at most 1.
        """
        return known_or_parts(self.known_rows(unit), unit, groups)

    def _made_of(self, parts: Sequence[Fractional]) -> Fractional:
        return parts[0]

    @property
    def _scale(self) -> float:
        return 1.0

    @property
    def _whole(self) -> bool:
        return self.weighted_by is None

    @property
    def subject(self) -> tuple[str, str]:
        """The conditions `of`."""
        return "", f", of those with {conditions(self.of)}{self._weighting}"

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Rows beyond the contribution bounds, rows without a value to compare, and rows without an owner."""
        columns = dict.fromkeys(repr(each.column) for each in self.of if each.values)
        missing = [f"rows without {' or '.join(columns)} counted as not meeting the condition"] if columns else []
        if any(hidden_text(each.column) for each in self.of):
            missing = ["rows in which missing values leave the condition undecided counted as not meeting it"]
        return [*truncation_scope(self, unit, groups, rows=True), *missing, *self._weight_scope, *owner_scope(unit)]

    @property
    def agreement(self) -> Agreement:
        """It adds up to 1 with the other shares of its partition."""
        return Agreement(partition=self.partition)

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Rows; those that have a weight, where they are weighted."""
        return Truncation(also=self.needs_also)

    @property
    def clipping(self) -> Clipping | None:
        """Nothing: it has no range of its own."""
        return None
