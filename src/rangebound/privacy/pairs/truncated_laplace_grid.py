"""Truncated Laplace on the points of a grid, in ball arithmetic (see `exact` and `laplace_pair`)."""

from __future__ import annotations

import bisect
from collections.abc import Collection

from flint import arb

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.laplace_pair import Parts, sharp_stick
from rangebound.privacy.pairs.laplace_points import LaplaceSums
from rangebound.privacy.pairs.truncated_grid import TruncatedGrid
from rangebound.values.ball import ZERO, Ball, ball, down, is_taylor, tightened, up, value_of

_MORE = 1.001


_FEW = 8  # events that are distinguished
_BEST = -1  # the name of the best event of all, where they are not


class TruncatedLaplaceGrid(TruncatedGrid):
    """Truncated Laplace on the points of a grid; with `open_ends`, on every longer grid of the same step at once."""

    def __init__(self, noise: Noise, shape: Shape, *, open_ends: bool = False) -> None:
        super().__init__(noise, shape)
        beyond: tuple[Ball, Ball] = (ZERO, ZERO)
        if open_ends:
            ends = (shape.points[:2], shape.points[-2:])
            ratios = [((ball(a) - ball(b)) / self.noise.scale).exp() for a, b in ends]
            # More than any number of points there weigh, a little off their places or not.
            beyond = ZERO.union(_MORE * ratios[0] / (1 - ratios[0])), ZERO.union(_MORE * ratios[1] / (1 - ratios[1]))
        self._sums = LaplaceSums(self.points, shape.points, self.noise, beyond)

    def parts(self, p: Ball, d: Ball) -> Parts:
        """The points as the pair (p, p + d) sees them."""
        return self._sums.parts(p, d)

    def right_of(self, p: Ball) -> Ball:
        """Probability of an output at or above p at the location p."""
        return self._sums.share_right(down(p)) if p.is_exact() else super().right_of(p)

    def loss(self, p: Ball, d: Ball) -> Ball:
        """Pure epsilon of the pair in this direction."""
        change = self.change(p, d)
        return self.noise.log_ratio(self.points[0] - p, d) + change if value_of(change).is_finite() else change

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """Renyi divergence of P from Q of an order above 1."""
        total, parts = self._sums.renyi_integral(p, d, order), self.parts(p, d)
        distance = d / self.noise.scale
        normaliser = parts.normaliser(distance)
        if not (value_of(total) > 0 and value_of(normaliser) > 0):
            return arb.nan()
        return (total.log() - normaliser.log()) / (order - 1) + parts.change(distance)

    def sticks(self, p: Ball, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """The events of the first k points, for every k that may be the best (or `only`), each smooth between kinks."""
        distance = d / self.noise.scale
        change = self.change(p, d)
        if is_taylor(p) and is_taylor(change) and not p[0].is_exact():
            change = tightened(change, lambda at: self.change(at, d), p[0])
        if not value_of(change).is_finite():
            return {0: change}
        y = (distance - epsilon + change) / 2
        if value_of(y) <= 0:
            return {0: ZERO}
        if not only:
            t = value_of(p) + value_of(y) * self.noise.scale
            first, last = bisect.bisect_left(self._places, down(t)), bisect.bisect_right(self._places, up(t))
            only = range(first, last + 1) if last - first <= _FEW else (_BEST,)
        return {
            k: sharp_stick(lambda at: self.parts(at, d), p, distance, epsilon)
            if k == _BEST
            else self._sums.parts(p, d, k).event(distance, y)
            for k in only
        }

    def change(self, p: Ball, d: Ball) -> Ball:
        """log Z(p+d) - log Z(p)."""
        return self.parts(p, d).change(d / self.noise.scale)
