"""The trade-off curve of a privacy profile: the least miss rate at a false positive rate.

An attacker knows two neighbouring datasets, sees what was published, and decides which of the two it was made of. A
test has a false positive rate alpha and a miss rate beta. All follows from the privacy profile

    delta(epsilon) = sup over ordered pairs (P, Q) of neighbours of sup over sets A of P(A) - e^epsilon Q(A).

Take A where the test says "P": 1 - beta <= e^epsilon alpha + delta(epsilon). Neighbours are symmetric, so P and Q may
change places: 1 - alpha <= e^epsilon beta + delta(epsilon). Solved for beta, every epsilon >= 0 is two lines that no
test gets below, and

    f(alpha) = sup over epsilon >= 0 of max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha))

is the least miss rate that the profile allows [wasserman2010] [dong2022]. For one pair and its mirror image it
is attained. For many pairs it is the largest convex function below the curves of all of them: the profile is the
conjugate of f, the supremum of conjugates is that of the infimum, and a conjugate knows the convex hull alone. So it is
attained everywhere if one pair is the worst at every epsilon, and else where the hull touches a curve.

Any finite set of epsilons gives a bound that holds, and so does a delta that is too large. So no search here can make a
risk too small: it can only miss a part of the best line.

The smallest mu of Gaussian differential privacy: lines at finitely many epsilons make a polygon below the curve. The
curve of N(0, 1) against N(mu, 1) is convex, so it is below a polygon if it is below its corners: at (alpha, beta) that
takes mu >= z(alpha) + z(beta), where z is the upper quantile of N(0, 1). So the largest of these is a mu that holds.
New lines cut off the corner that needs most, until one epsilon alone is seen to need as much. Both curves are their
own mirror images, so that epsilons of zero and more are enough. The polygon ends at (0, 1) where delta is 0 from some
epsilon on. Where it is not, no finite set of lines says anything about alpha near 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from rangebound.errors import ArgumentError
from rangebound.privacy.gdp import delta_of_mu, mu_of_pure, upper_quantile
from rangebound.values import arguments
from rangebound.values.array_types import np
from rangebound.values.ball import PRECISIONS, ZERO, Ball, ball, down, precision, refine, up
from rangebound.values.roots import boundary

Profile = Callable[[float], float]
"""The delta at every epsilon >= 0, over all ordered pairs of neighbours; never too small."""

TOLERANCE = 1e-9
"""How far below the best line a miss rate may be, absolute."""
_FARTHEST = 700.0  # of epsilon: beyond this no double needs a line
_MOST_STEPS = 100


def best_line(
    delta: Profile,
    pure: float,
    false_positives: float,
    known: dict[float, float] | None = None,
    tolerance: float = TOLERANCE,
) -> tuple[float, float]:
    """The least miss rate at this false positive rate, rounded down; before it the epsilon whose line it is.

    `pure` is an epsilon where delta is 0, or inf; a negative epsilon is that of P and Q exchanged. The miss rate is at
    most `tolerance` below what the profile allows. `known` has deltas by their epsilons; the search begins
    with these, and puts those that it finds beside them.

    With t = e^epsilon a line is 1 - D(t) - t alpha, where D(t) = delta(log t), and D(t) = 1 - t + t delta(-log t) for
    t < 1. D is convex in t with slopes from -1 to 0, so the lines are a concave function of t, with slopes from -alpha
    to 1 - alpha. Between two points that were looked at it is below the chords before and after, drawn on; the next
    one to be looked at is where these are highest, until that is no more than the best line found.

    >>> best_line(lambda epsilon: max(0.0, 0.25 * (1.0 - epsilon)), 1.0, 0.5)[1]
    0.25
    """
    found = {} if known is None else known

    def line(x: float) -> float:
        if abs(x) not in found:
            found[abs(x)] = delta(abs(x))
        return _line(found[abs(x)], x, false_positives)

    reach = min(pure, _FARTHEST)
    starts = [-min(reach, 1.0), 0.0, min(reach, 1.0), *(sign * each for each in sorted(found) for sign in (-1.0, 1.0))]
    best, height = highest_line(line, false_positives, starts, tolerance, reach)
    return best, max(height, 0.0)


def highest_line(
    line: Profile, false_positives: float, starts: Sequence[float], tolerance: float, reach: float = _FARTHEST
) -> tuple[float, float]:
    """The epsilon from -reach to reach whose line is highest at this false positive rate, and the height there.

    The search begins with `starts`, and ends where no other line can be more than `tolerance` higher, or after many
    lines. The heights are a concave function of e^epsilon, with slopes from -alpha to 1 - alpha.
    """
    seen = {math.exp(x): (line(x), x) for x in starts}

    def best() -> float:
        return max(seen.values())[0]

    for sign in (-1.0, 1.0):  # far from 0 a line may not be worth its time: only as long as they rise
        x = sign * max(sign * each for _, each in seen.values())
        while sign * x < reach and seen[math.exp(x)][0] >= best():
            x = sign * min(max(2.0 * sign * x, 1.0), reach)
            seen[math.exp(x)] = line(x), x
    for _ in range(_MOST_STEPS if len(seen) > 1 else 0):
        t, height = _peak(sorted((at, each) for at, (each, _) in seen.items()), false_positives)
        if t in seen or not t > 0.0 or height <= max(best(), 0.0) + tolerance:
            break
        seen[t] = line(math.log(t)), math.log(t)
    height, x = max(seen.values())
    return x, height


def _line(delta: float, x: float, false_positives: float) -> float:
    def evaluate() -> Ball:
        rest = 1 - ball(delta)
        if x >= 0.0:
            return rest - ball(x).exp() * ball(false_positives)
        return ball(x).exp() * (rest - ball(false_positives))

    return down(refine(evaluate))


def _peak(points: list[tuple[float, float]], false_positives: float) -> tuple[float, float]:
    """Where a concave function through these points may be highest between them, and how high."""
    slopes = [(h - g) / (t - s) for (s, g), (t, h) in itertools.pairwise(points)]
    slopes = [1.0 - false_positives, *slopes, -false_positives]
    peaks = []
    for at, ((s, g), (t, h)) in enumerate(itertools.pairwise(points)):
        rise, fall = slopes[at], slopes[at + 2]
        meet = s + (h - g - fall * (t - s)) / (rise - fall) if rise > fall else s
        meet = min(max(meet, s), t)
        peaks.append((g + rise * (meet - s), meet))
    height, t = max(peaks)
    return t, height


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

    The profile D of an ordered pair (P, Q) at t = e^epsilon, D(t) = sup over A of P(A) - t Q(A), is convex in t, falls
    from D(0) = 1 with slopes from -1 to 0, and is nowhere below 1 - t. The pair's least miss rate at a false positive
    rate alpha is the largest value of the concave function g(t) = 1 - D(t) - t alpha over all t >= 0, by the lemma of
    Neyman and Pearson. At finitely many t that were looked at, g is known; between two of them it is below the chord
    before, drawn on, and below the chord after. So it is below every mixture of these two lines, which is a line: its
    larger end is a bound. A convex function that is nowhere above D gives a larger g, and so a miss rate that is
    attained all the same. That is what the profile of a pair rounded down to a grid is.

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


def share(name: str, value: object) -> float:
    """The number, if it lies in [0, 1].

    >>> share("prior", 0.25)
    0.25
    """
    number = arguments.finite(name, value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value)
    if not 0.0 <= number <= 1.0:
        raise ArgumentError(f"{name}={arguments.shown(value)}: must lie in [0, 1]")
    return abs(number)


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
