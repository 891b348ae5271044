"""Questions that publish counts of many groups together with sums of them: crosstabs, hierarchies, series."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

from pydantic import model_validator

from rangebound.errors import ArgumentError, PlanError, Unsatisfiable
from rangebound.release.noise.allocation import BudgetShare, LossForm, Sensitivity
from rangebound.release.noise.draw import Columns, Coordinates, Draw, Reading
from rangebound.release.noise.estimate import Estimate, held
from rangebound.release.noise.publishers import Publisher
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.workload_publisher import Measurements, WorkloadPublisher, budget_of_share
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import HALF_LINE
from rangebound.release.plan.kinds.kind import Agreement, Clipping, Kind, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.measure import Counted, Found, GroupSums, Measures, Rows, Values
from rangebound.release.plan.sensitivity import of_counts
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

MOST_NUMBERS = 200_000
"""Numbers that one workload publishes at most."""
_SMALL = 2.0**-10
_WHOLE = BudgetShare(epsilon=0.0, delta=0.0, groups=1, parts=1)
_EFFORT = 100  # steps of 10 milliseconds for a strategy that is found again


class WorkloadKind(Kind):
    """Counts of rows by public keys, with sums of them: measured by one strategy, published as numbers that add up.

    Contribution bounds hold on the finest grouping, `by`, as they do for a count by these columns. With `unbiased` the
    answers before they were made to add up, which may be negative, are published beside, from the same draw.
    """

    together: ClassVar[bool] = True

    unbiased: bool | None = None

    @model_validator(mode="after")
    def _plain(self) -> WorkloadKind:
        if self.support is not None:
            raise ValueError("support: is not for this kind, whose numbers are all that are not negative and add up")
        if self.step is not None:
            raise ValueError("step: is not for this kind, whose numbers are whole")
        return self

    @abstractmethod
    def measurements(
        self, columns: Columns, account: NoiseAccount, budget: Fraction, contributions: Contributions
    ) -> Measurements:
        """The best strategy within a budget."""

    @property
    def natural(self) -> Interval:
        """The half-line."""
        return HALF_LINE

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

    def misfit(self, unit: Unit) -> str:
        """It can always be asked."""
        return ""

    def misfit_of_keys(self, columns: Columns) -> str:
        """Its groups are public, and not too many with their sums."""
        for name, keys in zip(self.by, columns, strict=True):
            if not keys:
                return f"by: the keys of {name!r} must be public for kind {self.kind!r}; list them in keys"
        if self.numbers(columns, 0.0) > MOST_NUMBERS:
            return f"by: has over {MOST_NUMBERS} numbers, with all sums; take fewer columns or keys"
        return ""

    def measures(self, unit: Unit, groups: float) -> Measures:
        """The rows within the contribution bounds."""
        return GroupSums(rows=Rows(where=self.where), of={"n": Counted()})

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """The count."""
        return (Fraction(found.get("n", 0)),)

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """That of the finest counts: r rows in each group, L1 r g and L2 r sqrt(g).

        What the sums of them move by is in the cost of the strategy, which is computed for the same bounds.
        """
        return of_counts(unit.most_rows, unit, groups)

    def known_rows(self, unit: Unit) -> int | None:
        """Never: rows of other keys do not count."""
        return None

    @property
    def parts(self) -> tuple[str, ...]:
        """One number a group, without a name; `labels` has the sums too."""
        return ("",)

    @property
    def draws(self) -> int:
        """One: the strategy's cost is that of all numbers."""
        return 1

    @property
    def interval_part(self) -> float:
        """Nothing: the intervals follow from the noise."""
        return 0.0

    @property
    def uses_delta(self) -> bool:
        """Not in plain sums: the noise is Laplace's."""
        return False

    @property
    def loss(self) -> LossForm:
        """That of Gaussian noise."""
        return LossForm.GAUSSIAN

    def publisher(
        self, unit: Unit, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns
    ) -> Publisher:
        """The strategy with the least total variance, and the projection of its answers."""
        account, budget = budget_of_share(share)
        cells = 1
        for keys in columns:
            cells *= len(keys)
        bounds = Contributions(rows=unit.most_rows, cells=min(unit.groups, cells), replaced=unit.replaced)
        try:
            return WorkloadPublisher(measured=self.measurements(columns, account, budget, bounds), level=level)
        except (ArgumentError, Unsatisfiable) as reason:
            raise PlanError(f"weight: {reason}", field="weight") from None

    def excess_variance(self, unit: Unit, found: Sensitivity, columns: Columns, *, gaussian: bool) -> float:
        """That of the strategy: its variance is proportional to 1 / mu^2, and nearly so to 1 / epsilon^2.

        In plain sums it is compared at a scale where discrete Laplace noise has the variance of continuous noise.
        """
        plain = replace(_WHOLE, groups=found.groups)
        share = replace(plain, mu=1.0) if gaussian else replace(plain, epsilon=_SMALL / found.groups)
        variance = self.publisher(unit, found, share, level=0.5, columns=columns).mse
        return variance / float(found.square if gaussian else 2 * found.total**2 / Fraction(_SMALL) ** 2)

    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The projected number, and its interval."""
        (value,), ((lower, upper),) = reading.values, reading.intervals
        return held(value, lower, upper, self.allowed)

    def unclamped_number(self, draws: Draw) -> float | None:
        """None: its draws are measurements, from which all numbers are made together; see `unclamped_numbers`."""
        return None

    def unclamped_numbers(self, publisher: Publisher, draws: Sequence[Draw]) -> list[float] | None:
        """The unbiased answers, where the plan asks for them.

        Guarantee: the mean of each is the exact number, to 2^-60 of its noise.
        """
        assert isinstance(publisher, WorkloadPublisher)
        return publisher.unclamped(draws) if self.unbiased else None

    def bias(self, publisher: Publisher, unit: Unit, lower: Floats, upper: Floats) -> Floats | None:
        """The bound of the projection, over all tables; None where there is none, as for three columns with margins."""
        return publisher.bias(lower, upper, self.allowed, None, whole=True)

    @property
    def effort(self) -> tuple[Hashable, float]:
        """A strategy that is found again, and a projection."""
        return self.name, _EFFORT

    @property
    def subject(self) -> tuple[str, str]:
        """Nothing more."""
        return "", ""

    def no_margin(self, unit: Unit) -> str:
        """One can be asked: the interval of an unbiased answer follows from the noise alone."""
        return ""

    def half_width(self, publisher: Publisher, unit: Unit) -> float | None:
        """That of the widest interval of an unbiased answer.

        An interval is wider where its number, made to add up with all others, has left it; it holds the true one then
        no less.
        """
        return publisher.half_width

    def expected_error(self, publisher: Publisher) -> str:
        """The error of each level of sums."""
        return publisher.expected_error()

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Groups and rows beyond the contribution bounds, and rows without an owner."""
        return [*truncation_scope(self, unit, groups, rows=True), *owner_scope(unit)]

    @property
    def agreement(self) -> Agreement:
        """Its numbers agree with each other as they are."""
        return Agreement()

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Rows."""
        return Truncation()

    @property
    def clipping(self) -> Clipping | None:
        """Nothing: it has no range."""
        return None
