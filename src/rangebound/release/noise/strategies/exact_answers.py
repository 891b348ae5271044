"""Answers in exact arithmetic: whole numbers over one denominator, so that every machine finds the same doubles."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rangebound.release.noise.strategies.lattice_noise import Wholes
from rangebound.values.array_types import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactAnswers:
    """The answers `numerators / denominator`: unbiased, unclamped, and adding up exactly where the truth does.

    >>> answers = ExactAnswers(numerators=np.array([1, -5], dtype=object), denominator=4)
    >>> answers.values.tolist(), answers.fractions()[1]
    ([0.25, -1.25], Fraction(-5, 4))
    """

    numerators: Wholes
    denominator: int

    @property
    def values(self) -> Floats:
        """The nearest doubles."""
        nearest = [each / self.denominator for each in self.numerators.ravel().tolist()]
        return np.array(nearest, dtype=np.float64).reshape(self.numerators.shape)

    def fractions(self) -> list[Fraction]:
        """The answers themselves, in the order of the flattened array."""
        return [Fraction(each, self.denominator) for each in self.numerators.ravel().tolist()]
