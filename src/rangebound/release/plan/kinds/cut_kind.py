"""Questions about other questions: what share of something was dropped or clipped before the noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rangebound.release.noise.allocation import Sensitivity
from rangebound.release.noise.estimate import Fractional
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import Names
from rangebound.release.plan.kinds.joint_kind import JointKind
from rangebound.release.plan.kinds.kind import Agreement, Clipping, Truncation
from rangebound.release.plan.measure import Values
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval


class CutKind(JointKind):
    """A question about other questions, made by `report_clipping`: what share of something was cut before the noise.

    It is about the questions named in `about`, all of which ask for the same rows, grouped by `over`. Where it is about
    them `pooled`, they do not: then it is about all rows, or all that meet the conditions that they share.
    """

    made: ClassVar[bool] = True

    about: Annotated[Names, Field(min_length=1)]
    over: Names = ()
    pooled: Literal[True] | None = None

    @abstractmethod
    def looked_at(self, unit: Unit, groups: float) -> int:
        """How many rows of one unit add to the coordinates, over all groups together, at most."""

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """`looked_at` for a unit that is added or removed, in L1 and L2, since its two coordinates are of all groups.

        A unit adds two numbers that are not negative, and at most m = `looked_at` together (proved there), to the two
        coordinates of the whole table. What other units do moves none of its own. So a unit that is added or removed
        moves them by at most m in L1 and in L2; one that is replaced by at most 2 m in L1, and by at most sqrt(2) m in
        L2, since the inner product of two non-negative vectors is not negative.
        """
        most, times = self.looked_at(unit, groups), 2 if unit.replaced else 1
        return Sensitivity(cell=Fraction(times * most), groups=1, square=Fraction(times * most**2))

    @property
    def counted_by(self) -> tuple[str, ...]:
        """The grouping of the questions that it is about."""
        return self.over

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
        """What the questions that it is about read, and these are checked themselves."""
        return None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of `where`."""
        return self.where

    def misfit(self, unit: Unit) -> str:
        """It can always be asked."""
        return ""

    def known_rows(self, unit: Unit) -> int | None:
        """Not public: it is about rows within the contribution bounds, or their values."""
        return None

    def _made_of(self, parts: Sequence[Fractional]) -> Fractional:
        return parts[0]

    @property
    def _scale(self) -> float:
        return 1.0

    @property
    def subject(self) -> tuple[str, str]:
        """Nothing more: its name and scope say it."""
        return "", ""

    @property
    def agreement(self) -> Agreement:
        """Nothing."""
        return Agreement()

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Nothing is asked about what was cut from a question about cuts."""
        return None

    @property
    def clipping(self) -> Clipping | None:
        """Nothing."""
        return None
