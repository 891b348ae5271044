"""Upper bounds on the trade-off curve of one pair of neighbours: miss rates that some test attains.

The profile D of an ordered pair (P, Q) at t = e^epsilon, D(t) = sup over A of P(A) - t Q(A), is convex in t, falls from
D(0) = 1 with slopes from -1 to 0, and is nowhere below 1 - t. The pair's least miss rate at a false positive rate alpha
is the largest value of the concave function g(t) = 1 - D(t) - t alpha over all t >= 0, by the lemma of Neyman and
Pearson. At finitely many t that were looked at, g is known; between two of them it is below the chord before, drawn on,
and below the chord after. So it is below every mixture of these two lines, which is a line: its larger end is a bound.

A convex function that is nowhere above D gives a larger g, and so a miss rate that is attained all the same. That is
what the profile of a pair rounded down to a grid is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from rangebound.privacy.risk.tradeoff_curve import TOLERANCE, highest_line
from rangebound.values.ball import ZERO, Ball, ball, up

PairProfile = Callable[[float], Ball]
"""The delta of one ordered pair of neighbours at an epsilon of any sign, enclosed; or a convex one, no larger."""


Point = tuple[Ball, Ball]
"""A t = e^epsilon, and the height of its line."""


def turned(profile: PairProfile) -> PairProfile:
    """The profile of the same pair in the other order: H_t(Q || P) = 1 - t + t H_(1/t)(P || Q)."""
    return lambda epsilon: 1 - ball(epsilon).exp() * (1 - profile(-epsilon))


def mirrored(half: PairProfile) -> PairProfile:
    """The profile of a pair that leaks as much in either order, from its values at epsilons of zero and more."""
    other = turned(half)
    return lambda epsilon: half(epsilon) if epsilon >= 0.0 else other(epsilon)


def attained_miss_rate(
    profile: PairProfile, false_positives: float, near: float = 0.0, tolerance: float = TOLERANCE
) -> float:
    """A miss rate that a test of this pair attains or betters at this false positive rate, rounded up.

    Guarantee: never below the least miss rate of the pair, and at most `tolerance` above it where the profile is known
    that well. `near` is an epsilon close to the best line; it decides how long the search takes, and proves nothing.

    >>> from rangebound.values.ball import ball
    >>> coin = mirrored(lambda epsilon: ((ball(1.0).exp() - ball(epsilon).exp()) / (ball(1.0).exp() + 1)).max(0))
    >>> round(attained_miss_rate(coin, 0.1), 6)
    0.728172
    """
    rate, known = ball(false_positives), dict[float, Ball]()

    def line(epsilon: float) -> Ball:
        if epsilon not in known:
            known[epsilon] = _height(profile, epsilon, rate)
        return known[epsilon]

    highest_line(lambda x: float(line(x).mid()), false_positives, [near - 1.0, near, near + 1.0], tolerance)
    return min(max(_ceiling(sorted(known.items()), rate), 0.0), 1.0)


def _height(profile: PairProfile, epsilon: float, rate: Ball) -> Ball:
    t = ball(epsilon).exp()
    return 1 - profile(epsilon).max(1 - t).max(ZERO) - t * rate


def _ceiling(points: list[tuple[float, Ball]], rate: Ball) -> float:
    """A number that the concave function through these points is nowhere above; it is 0 at t = 0."""
    row = [(ZERO, ZERO), *((ball(epsilon).exp(), height) for epsilon, height in points)]
    slopes = [1 - rate, *((h - g) / (t - s) for (s, g), (t, h) in itertools.pairwise(row))]
    last, height = row[-1]
    # Beyond the last point it falls, if it fell before that; else delta is zero or more, and no more is known.
    beyond = up(height) if slopes[-1] <= 0 else up(1 - last * rate)
    slopes.append(-rate)
    # Slopes that are hardly known, of points too close to each other, are no worse than those that all curves have.
    steepest, flattest = (1 - rate).upper(), (-rate).lower()
    rises = [min(each.upper(), steepest) if each.is_finite() else steepest for each in slopes]
    falls = [max(each.lower(), flattest) if each.is_finite() else flattest for each in slopes]
    tops = [
        _between(first, second, rise, fall)
        for (first, second), rise, fall in zip(itertools.pairwise(row), rises, falls[2:], strict=False)
    ]
    return max(beyond, *tops)


def _between(first: Point, second: Point, rise: Ball, fall: Ball) -> float:
    """A bound between two points, from a slope that is not below that at the first, and one not above at the second."""
    (s, g), (t, h) = first, second
    steep, flat = float(rise), float(fall)
    share = ball(min(max(-flat / (steep - flat), 0.0), 1.0) if steep > flat else 0.5)  # the mixture that is level
    ends = (share * (g + rise * (x - s)) + (1 - share) * (h + fall * (x - t)) for x in (s, t))
    return max(map(up, ends))
