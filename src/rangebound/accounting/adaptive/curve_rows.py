"""Rows of hockey-stick curves along a line of pairs, as they are and on a Poisson sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rangebound.values.array_types import Floats

Curve = Callable[[Floats], Floats]  # of levels (epsilons) that are zero or more, a row for each pair


@dataclass(frozen=True, eq=False)
class PairRows:
    """Curves of the pairs (P, Q) along a line: `forth` is an upper bound of H(P || Q), `back` of H(Q || P).

    `places` are the distances of the first answer from the left end of the line (from its right end where the left one
    is infinite), in scales.
    """

    places: Floats
    forth: Curve
    back: Curve
    most: float

    def slack(self, levels: Floats) -> Floats:
        """What a pair between two rows may have more than their mixture."""
        return np.full(len(levels), self.most)

    def at(self, levels: Floats) -> Floats:
        """The curves of (P, Q) at epsilons of any sign: H_x(P || Q) = 1 - x + x H_(1/x)(Q || P) for x = e^epsilon."""
        falling = levels < 0.0
        found = self.forth(np.where(falling, 0.0, levels))
        if falling.any():
            below = levels[falling]
            found[:, falling] = -np.expm1(below) + np.exp(below) * self.back(-below)
        return found


@dataclass(frozen=True, eq=False)
class SampledRows:
    """The same for a step on a Poisson sample: with the person against without, or the other way round (`removed`).

    H_x((1-p) Q + p P || Q) = p H_y(P || Q) with y = (x - 1 + p)/p, and 1 - x where y <= 0 [zhu2022, Thm 11].
    """

    rows: PairRows
    rate: float
    removed: bool

    def slack(self, levels: Floats) -> Floats:
        """What a pair between two rows may have more than their mixture."""
        most = self.rate * self.rows.slack(levels)
        return most * np.exp(levels) if self.removed else most

    def at(self, levels: Floats) -> Floats:
        """The curves at epsilons of any sign."""
        if not self.removed:
            return self._added(levels)
        return -np.expm1(levels) + np.exp(levels) * self._added(-levels)

    def _added(self, levels: Floats) -> Floats:
        shift = np.expm1(levels) / self.rate
        inside = shift > -1.0
        found = self.rate * self.rows.at(np.log1p(np.where(inside, shift, 0.0)))
        found[:, ~inside] = -np.expm1(levels[~inside])
        return found
