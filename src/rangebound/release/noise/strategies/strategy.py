"""What a strategy is: measure exact counts, answer from the measurements, and say what that costs.

Strategies for workloads: which numbers to measure with noise, so that all wanted answers together are accurate. A
strategy is made of public facts, turns exact counts into noisy measurements on a public lattice, and those into
unbiased answers with their variances, in arithmetic that every machine does alike. It knows nothing of plans and SQL.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.release.noise.draw import Bits
from rangebound.release.noise.joint_loss import Contributions, JointLoss, NoiseAccount
from rangebound.release.noise.strategies.lattice_noise import (
    ExactAnswers,
    LatticeNoise,
    Wholes,
    admits,
    gaussian_reach,
    wholes,
)
from rangebound.sampling.entropy import secure_bits
from rangebound.values.array_types import Floats

LARGER = 1.0 + 2.0**-51
"""A factor for scales that are right but for their last bits."""
_ROUNDS = 100
_CLOSE = Fraction(1 - 1e-9)  # of a budget that is not left unused
_LONG = 64  # numbers of a strategy that a certificate lists; more of them by their SHA-256


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """Exact finest counts in, noisy measurements on a lattice, an unbiased answer for every number of a workload.

    Measurements, answers and variances are flat: one after the other in an order that is public.

    Guarantee: what `draw` returns is private at `cost`: mu-GDP with mu^2 = `cost` in a Gaussian account, `cost`-private
    in a pure one, for all neighbouring datasets; `answers` follow from it alone.
    """

    account: NoiseAccount
    contributions: Contributions

    @property
    @abstractmethod
    def noises(self) -> Sequence[LatticeNoise]:
        """The noise of its measurements."""

    @property
    @abstractmethod
    def cost(self) -> Fraction:
        """An upper bound of mu^2 or of epsilon, over all neighbouring datasets."""

    @property
    @abstractmethod
    def steps(self) -> Floats:
        """The distance of neighbouring points of the lattice of each measurement."""

    @abstractmethod
    def draw(self, counts: Any, bits: Bits = secure_bits) -> Floats:
        """Noisy measurements of the exact counts of all finest cells: one array of them, or tables of their sums."""

    @abstractmethod
    def answers(self, drawn: npt.ArrayLike) -> ExactAnswers:
        """An unbiased answer for every number of the workload, in exact arithmetic from published measurements."""

    @property
    @abstractmethod
    def variances(self) -> Floats:
        """The variance of each answer."""

    @abstractmethod
    def words(self) -> str:
        """The strategy in a few words."""

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Its name under `strategy`, and its numbers as plain data."""

    @property
    def loss(self) -> JointLoss:
        """What one unit can lose by all measurements, which several of its cells may move at once."""
        return JointLoss(square=self.cost, epsilon=None)

    def radii(self, level: float) -> Floats:
        """How far each answer is from the truth with probability `level`."""
        return np.asarray(gaussian_reach(level) * np.sqrt(self.variances))

    @property
    def size(self) -> int:
        """How many measurements there are."""
        return len(self.steps)

    def admits(self, drawn: npt.ArrayLike) -> bool:
        """Whether `draw` can return this: as many measurements, every one on its lattice."""
        array = np.asarray(drawn, dtype=np.float64)
        return array.shape == self.steps.shape and admits(array, self.steps)

    def in_steps(self, drawn: npt.ArrayLike) -> Wholes:
        """Published measurements in steps again; numbers that cannot have been published are refused."""
        if not self.admits(drawn):
            raise ArgumentError("drawn: must be the array that draw returned")
        return wholes(np.asarray(drawn, dtype=np.float64) / self.steps)


S = TypeVar("S", bound=Strategy)


def within_budget(
    make: Callable[[tuple[float, ...]], S], scales: npt.ArrayLike, limit: Fraction, larger: Callable[[float], float]
) -> S:
    """The strategy with scales in these proportions, as small as the budget allows.

    `larger` is the factor for scales whose cost has a ratio to the limit.

    Guarantee: `cost` is at most the limit, in exact arithmetic.
    """
    found = np.asarray(scales, dtype=np.float64)
    for _ in range(_ROUNDS):
        made = make(tuple(found.tolist()))
        if limit * _CLOSE <= made.cost <= limit:
            return made
        found = found * larger(float(made.cost / limit))
    raise Unsatisfiable(f"budget={float(limit)!r}: no scales were found that cost as much and not more")


def listed(values: Sequence[float]) -> object:
    """Numbers of a strategy as plain data: a list, or the SHA-256 of a long one."""
    if len(values) <= _LONG:
        return list(values)
    return {"numbers": len(values), "sha256": hashlib.sha256(repr(tuple(values)).encode()).hexdigest()}
