"""The most frequent keys of a column that has no public ones: privately selected, and ranked by noisy counts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import BudgetShare, Sensitivity
from rangebound.release.noise.draw import Cell, Draw, Key, Reading, Summed
from rangebound.release.noise.estimate import Estimate
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.fields import LINE, Name
from rangebound.release.plan.kinds.count import CountKind
from rangebound.release.plan.kinds.kind import KINDS, Agreement, Kind, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.kinds.scalar_kind import MECHANISM
from rangebound.release.plan.measure import Counted, GroupSums, Measures, Owned, Rows
from rangebound.release.plan.sensitivity import of_counts
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval


class RankedCounts(CountKind):
    """A `top k` of a column whose keys are selected privately: the `k` keys with the largest noisy counts, in order.

    A plan puts it in the place of a `top k` whose column has no public keys, and writes it as that one. Its last
    grouping column is the column. Units are counted in each of its groups, rows where the unit is the row, and the
    counts of all selected keys are drawn; which of them are the largest is post-processing.
    """

    no_rows: ClassVar[str] = "a unit counts once at each key, however many rows it has"

    kind: Literal["top k"]
    column: Name
    k: Annotated[int, Field(ge=1, le=1000)] = 10

    def as_written(self) -> Kind:
        """The `top k` that the plan asks for."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return KINDS[self.kind].model_validate({**given, "by": self.by[:-1]})

    def with_keys(self, listed: Mapping[str, Key]) -> Kind:
        """The question that was asked, by these keys."""
        return self.as_written().with_keys(listed)

    # What is counted

    def misfit(self, unit: Unit) -> str:
        """It can always be asked."""
        return ""

    def measures(self, unit: Unit, groups: float) -> Measures:
        """The units that have a row, or the rows."""
        counted = Counted() if unit.column is None else Owned()
        return GroupSums(rows=Rows(where=self.where), of={"n": counted})

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """One in each group, as for a count of units: L1 g, L2 sqrt(g), where g bounds the keys of a unit.

        A unit adds 0 or 1 to each of at most g groups, so it is a case of `of_counts` with one row.
        """
        return of_counts(1, unit, groups)

    def known_rows(self, unit: Unit) -> int | None:
        """Not public: rows may have other keys."""
        return None

    @property
    def unclamped(self) -> bool:
        """Always: counts that were clamped would tie."""
        return True

    def _scalar(self, unit: Unit, found: Sensitivity, share: BudgetShare, level: float) -> Publisher:
        return publishers.whole_number(LINE, found, share, step=1.0, mechanism=None, confidence=level, unclamped=True)

    @property
    def effort(self) -> tuple[Hashable, float]:
        """A mechanism that is found again, once for all questions with the same one."""
        return (LINE.spans, None), MECHANISM + 1

    # What is published

    ranked: ClassVar[bool] = True

    def ranking(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells of the largest noisy counts of each group, k at most, with their ranks; of equal ones by key.

        Guarantee: a function of the draws and the selected keys alone. Of what it returns it makes the same again.
        """
        groups: dict[Summed, list[Cell]] = {}
        for each in cells:
            groups.setdefault(each.key[:-1], []).append(each)
        return [
            replace(each, part=str(rank), value=float(rank))
            for own in groups.values()
            for rank, each in enumerate(sorted(own, key=lambda cell: (-cell.draws[0], str(cell.key[-1])))[: self.k], 1)
        ]

    @property
    def natural(self) -> Interval:
        """From the first rank on: how many keys there are is not public."""
        return Interval(1.0, float("inf"))

    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The first rank, until `ranking` has compared all counts of the group; any rank may be the true one."""
        return Estimate(value=1.0, lower=self.natural.lower, upper=self.natural.upper)

    @property
    def selected(self) -> str | None:
        """The column."""
        return self.column

    def answer(self, key: Summed, draws: Draw) -> str:
        """The key itself."""
        return str(key[-1])

    def unclamped_number(self, draws: Draw) -> float | None:
        """None: a rank has none."""
        return None

    def bias(self, publisher: Publisher, unit: Unit, lower: Floats, upper: Floats) -> Floats | None:
        """None: keys have no mean."""
        return None

    # What is said about it

    def described(self) -> str:
        """What was asked, in one line."""
        return self.as_written().described()

    def no_margin(self, unit: Unit) -> str:
        """None can be asked: a key has no interval."""
        return self.as_written().no_margin(unit)

    def half_width(self, publisher: Publisher, unit: Unit) -> float | None:
        """A rank has no interval."""
        return None

    def expected_error(self, publisher: Publisher) -> str:
        """That of the noisy counts."""
        return f"of the counts by which keys are ranked: {publisher.expected_error()}"

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Keys beyond the contribution bound, how often a unit counts, and rows without an owner."""
        each = [] if unit.column is None else [f"each {unit.column!r} counted once for each key"]
        few = f"keys of {self.column!r} selected privately, so that there may be fewer than {self.k}"
        return [*truncation_scope(self, unit, groups, rows=False), *each, few, *owner_scope(unit)]

    @property
    def agreement(self) -> Agreement:
        """Nothing."""
        return Agreement()

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Groups, where a unit may have more of them than count."""
        return Truncation(owners=True) if choosing else None
