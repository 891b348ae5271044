"""A number that is public: it is published as the plan states it, whatever the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rangebound.errors import CertificateInvalid
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.draw import Bits, Coordinates, Draw, Reading
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union


@dataclass(frozen=True, kw_only=True)
class PublicConstant:
    """A number that is published as the plan states it; it costs nothing.

    Guarantee: 0-private, since the table is not looked at.
    """

    value: float

    @property
    def width(self) -> int:
        return 1

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        return [[(self.value,)] for _ in truths]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether every draw is the number, to the last bit."""
        return all(tuple(map(repr, draw)) == (repr(self.value),) for draw in draws)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The number, with an interval of no width."""
        return [[Reading(values=draw, intervals=((draw[0], draw[0]),)) for draw in group] for group in draws]

    def bias(
        self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool
    ) -> Floats:
        """None: it is not random, and its interval is the number itself."""
        return np.zeros_like(lower)

    def expected_error(self, scale: float = 1.0, form: str = "{} (root mean square)") -> str:
        return form.format("0")

    @property
    def mse(self) -> float:
        return 0.0

    @property
    def half_width(self) -> float | None:
        return 0.0

    def words(self) -> str:
        return "no mechanism, since it is public"

    def to_dict(self) -> dict[str, object]:
        return {"public": {"value": self.value}}

    def loss(self, share: BudgetShare) -> JointLoss:
        return JointLoss()

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a number that a unit can change."""
        if found.cell:
            raise CertificateInvalid("has a sensitivity that is too small")
