"""Laplace noise rounded to a grid, in ball arithmetic: Renyi sums over thousands of cells in a few steps.

In units of the scale, left of both locations the two densities have the ratio e^d and right of both e^-d, so the cells
there count together. A cell [l, l + w] between the two adds

    e^{(2a-1) p + (a-1) d} e^{-(2a-1) l} (1 - e^-w)^a (e^w - 1)^(1-a) / 2

to the sum of P^a Q^(1-a) (p the left location), of which only the first factor depends on the positions. What is left
are the cells in which one of the two locations lies. Noise that is cut at a limit has the same masses over the mass
that it keeps, but for the outermost cells, which lack what is beyond the limit.
"""

from __future__ import annotations

import bisect
import itertools

from rangebound.laws.family import BallNoise
from rangebound.privacy.pairs.span_ends import shifted
from rangebound.values.ball import Ball, ball, down, power, up, value_of


class RoundedLaplace:
    """The cells of a grid that are not the outermost, and sums over them; `whole` is the noise without its limit."""

    def __init__(self, cuts: list[float], whole: BallNoise) -> None:
        self.cuts, self._whole = cuts, whole
        self._places = [ball(cut) for cut in cuts]
        self._known: dict[str, list[Ball]] = {}

    def inner(self, p: Ball, d: Ball, order: Ball) -> tuple[Ball, list[tuple[float, float]]]:
        """The sum over the inner cells that do not meet one of the two locations, and the cells that do."""
        low, high = value_of(p), value_of(p) + d
        last = len(self.cuts) - 1
        left = min(max(bisect.bisect_right(self.cuts, down(low)) - 1, 0), last)  # the last cut left of both
        right = min(max(bisect.bisect_left(self.cuts, up(high)), 0), last)  # the first cut right of both
        first = min(max(bisect.bisect_left(self.cuts, up(low)), left), right)  # between these two cuts surely inside
        final = min(max(bisect.bisect_right(self.cuts, down(high)) - 1, left), right)
        first, final = (first, final) if first <= final else (right, right)
        edge = ((order - 1) * d / self._whole.scale).exp()
        total: Ball = ball(0.0)
        if left > 0:
            total = total + edge * self._mass(0, left, p)
        if right < last:
            total = total + self._mass(right, last, p) / edge
        if first < final:
            steep = self._steep(order)
            fast = ((p - self._places[0]) * ((2 * order - 1) / self._whole.scale)).exp()
            total = total + fast * edge * (steep[first] - steep[final]) / 2
        loose = [*itertools.pairwise(self.cuts[left : first + 1]), *itertools.pairwise(self.cuts[final : right + 1])]
        return total, loose

    def _mass(self, start: int, end: int, p: Ball) -> Ball:
        return self._whole.mass(shifted(self._places[start], p), shifted(self._places[end], p))

    def _steep(self, order: Ball) -> list[Ball]:
        """Sums from the right of the factors that do not depend on the positions."""
        key = str(order)
        if key not in self._known:
            b, rate = self._whole.scale, 2 * order - 1
            terms = []
            for low, high in itertools.pairwise(self._places):
                width = (high - low) / b
                size = power(-(-width).expm1(), order) * power(width.expm1(), 1 - order)
                terms.append((-(low - self._places[0]) * rate / b).exp() * size)
            self._known = {key: list(itertools.accumulate(reversed(terms), initial=ball(0.0)))[::-1]}
        return self._known[key]
