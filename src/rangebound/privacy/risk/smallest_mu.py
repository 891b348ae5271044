"""The smallest mu of Gaussian differential privacy that a privacy profile allows.

Lines at finitely many epsilons make a polygon below the trade-off curve (`tradeoff_curve`). The curve of N(0, 1)
against N(mu, 1) is convex, so it is below a polygon if it is below its corners: at (alpha, beta) that takes
mu >= z(alpha) + z(beta), where z is the upper quantile of N(0, 1). So the largest of these is a mu that holds. New
lines cut off the corner that needs most, until one epsilon alone is seen to need as much. Both curves are their own
mirror images, so that epsilons of zero and more are enough.

The polygon ends at (0, 1) where delta is 0 from some epsilon on. Where it is not, no finite set of lines says anything
about alpha near 0.
"""

from __future__ import annotations

import itertools
import math

from rangebound.privacy.gdp import delta_of_mu, mu_of_pure, upper_quantile
from rangebound.privacy.risk.tradeoff_curve import Profile
from rangebound.values.ball import PRECISIONS, Ball, ball, precision, refine, up
from rangebound.values.roots import boundary

Line = tuple[float, float]
"""An epsilon and its delta."""

CLOSE = 1e-7
"""How far above the smallest mu the answer may be, relative."""

_MOST_LINES = 400
_LARGEST = 1e6  # of mu: what needs more is as good as published


def smallest_mu(delta: Profile, pure: float, known: float = math.inf, close: float = CLOSE) -> tuple[float, float]:
    """The smallest mu for which a profile is mu-GDP, never too small, and the epsilon that needs most of it.

    `known` is one for which it surely is; `pure` is an epsilon at which delta is 0. Where that is inf, `known` is all
    there is. `close` is how far above the smallest it may be, relative.

    >>> mu, epsilon = smallest_mu(lambda epsilon: max(0.0, 0.25 * (1.0 - epsilon)), 1.0)
    >>> round(mu, 3), round(epsilon, 1)
    (0.711, 0.5)
    """
    at_zero = delta(0.0)
    if at_zero == 0.0:
        return 0.0, 0.0
    if math.isinf(pure):
        return known, 0.0
    lines = {0.0: at_zero, pure: 0.0}
    most = min(known, mu_of_pure(pure))
    least, most_needed_at = attained_mu(0.0, at_zero, most), 0.0
    while len(lines) < _MOST_LINES and most > least * (1.0 + close):
        needed, first, second = _worst_corner(lines)
        most = min(most, needed)
        epsilon = _tangent(first, second, most)
        if epsilon in lines:
            break
        lines[epsilon] = delta(epsilon)
        least, most_needed_at = max((least, most_needed_at), (attained_mu(epsilon, lines[epsilon], most), epsilon))
    return min(most, _worst_corner(lines)[0]), most_needed_at


def _tangent(first: Line, second: Line, mu: float) -> float:
    """The epsilon at which the curve of mu is tangent at the corner: mu z(alpha) - mu^2 / 2, between the two epsilons.

    Of a line there, and its delta, the largest mu that is needed at all is known soonest.
    """
    with precision(PRECISIONS[0]):
        alpha, _ = _corner(first, second)
        found = float((ball(mu) * upper_quantile(alpha) - ball(mu) ** 2 / 2).mid())
    margin = 1e-3 * (second[0] - first[0])
    return min(max(found, first[0] + margin), second[0] - margin)


def _corner(first: Line, second: Line) -> tuple[Ball, Ball]:
    """Where the lines of two epsilons meet: false positive rate and miss rate."""
    (flat, delta_flat), (steep, delta_steep) = first, second
    alpha = (ball(delta_flat) - ball(delta_steep)) / (ball(steep).exp() - ball(flat).exp())
    return alpha, 1 - ball(delta_flat) - ball(flat).exp() * alpha


def _need(first: Line, second: Line) -> float:
    """The mu that the corner of two lines needs, rounded up."""

    def evaluate() -> Ball:
        alpha, beta = _corner(first, second)
        return upper_quantile(alpha) + upper_quantile(beta)

    return up(refine(evaluate))


def _worst_corner(lines: dict[float, float]) -> tuple[float, Line, Line]:
    """The mu that the corners of the polygon need, and the two lines whose corner needs most."""
    polygon = _polygon(lines)
    return max((_need(first, second), first, second) for first, second in itertools.pairwise(polygon))


def _polygon(lines: dict[float, float]) -> list[Line]:
    """The lines whose corners are surely in order from right to left; they are the corners of the highest of these.

    A line that is not surely the highest anywhere is left out: fewer lines are a lower polygon. The first line may
    meet the second beyond the diagonal, where the mirror image is higher; there its corner asks for more than need be.
    """
    kept: list[Line] = []
    with precision(PRECISIONS[0]):
        for each in sorted(lines.items()):
            if kept and not each[1] < kept[-1][1]:
                continue
            while len(kept) > 1 and not _corner(kept[-1], each)[0] < _corner(kept[-2], kept[-1])[0]:
                kept.pop()
            kept.append(each)
    return kept


def attained_mu(epsilon: float, delta: float, likely: float = 1.0) -> float:
    """The mu whose own profile has this delta at epsilon, rounded down: no smaller one will do.

    `likely` is one that may be enough; it saves time.

    >>> round(attained_mu(0.0, delta_of_mu(0.5, epsilon=0.0)), 6)
    0.5
    """
    if delta <= 0.0:
        return 0.0
    high = likely
    while delta_of_mu(high, epsilon=epsilon) < delta and high < _LARGEST:
        high *= 2.0
    return boundary(lambda mu: delta_of_mu(mu, epsilon=epsilon) >= delta, 0.0, high, 0.1 * CLOSE)[0]
