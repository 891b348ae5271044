"""Laplace noise truncated to a union of spans: its exact privacy and its smallest scale, in time linear in the gaps.

Everything is computed from kept mass, never from "one minus what the gaps take": sums of positive numbers keep
their relative accuracy when a span is a billionth of the scale wide or a gap is thousands of scales wide.

Notation, lengths in units of the scale: at a true answer q, `right` = integral over the allowed x > q of e^{-(x-q)},
`left` the same for x < q; each lies in [0, 1], and the noise keeps the mass Z(q) = (left + right)/2. On any allowed
stretch right' = right - 1 and left' = 1 - left, on a gap right' = right and left' = -left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from rangebound.errors import ArgumentError
from rangebound.laws.family import Noise
from rangebound.privacy.pairs.truncated_laplace import top_loss, top_stick
from rangebound.privacy.setting import Claim
from rangebound.privacy.span_masses import (
    Pairs,
    Spans,
    allowed,
    between_spans,
    masses_at,
    places,
    spans_of,
    worst_pairs,
)
from rangebound.values.array_types import Floats, Indices, np
from rangebound.values.ball import PRECISIONS, ball, precision
from rangebound.values.roots import boundary, falling_root, first_above
from rangebound.values.support import Interval

_SMALLEST = 1e-290  # well above the numbers that have lost relative precision to underflow

# How many of the worst pairs join the active ones at a stop of the search for the least scale, and the steps in
# which it looks for the next stop.
_CROWD = 1000
_STRIDE = 2.0 ** (1 / 32)

_ROUNDING = 1e-12  # of a profile from arrays: far above the round-off of its dozen operations


def dp_pair(lowers: Floats, uppers: Floats, scale: float, sensitivity: float) -> tuple[float, tuple[float, float]]:
    """Smallest epsilon for which any two answers at distance at most the sensitivity differ by at most e^epsilon.

    epsilon = max over q < q' in the spans, q' - q <= D, of (q' - q)/s + |ln Z(q) - ln Z(q')|; and the pair of answers
    that attains it, the lower one first.

    Guarantee: rounded up by a bound on the rounding errors (`_margin`), so never understated. Both answers are in the
    spans, to the rounding of a double. Their loss is epsilon but for the margin and that rounding: evaluate it before
    you rely on it.
    Assumes: true answers lie in the spans, and the noise is truncated to the same spans.
    Edge cases: when the spans fit into one sensitivity the worst pair is the first and the last allowed number;
    when gaps forbid every pair at distance D, the pairs at the largest possible distance count.

    >>> epsilon, pair = dp_pair(np.array([0.0, 1.6]), np.array([1.0, 3.0]), scale=1.3, sensitivity=1.0)
    >>> round(epsilon, 3), pair
    (1.074, (2.0, 3.0))

    Source: [croft2022, Sec. 4.2], with the ordinary notion of privacy in place of its own.
    """
    spans = spans_of(lowers, uppers, sensitivity)
    pairs = worst_pairs(spans)
    losses = _losses(spans, pairs, scale)
    return _rounded_up(float(losses.max()), len(spans.widths)), places(spans, pairs, int(losses.argmax()))


def metric_scale(lowers: Floats, uppers: Floats, epsilon: float, sensitivity: float) -> float:
    """Smallest scale at which `metric_loss` is at most `epsilon`: between D/epsilon and 2D/epsilon.

    Guarantee: `metric_loss` at the returned scale is at most `epsilon`; a scale smaller by 1e-9 is too small.
    Assumes: true answers lie in the spans, and the noise is truncated to the same spans; at most a million gaps, beyond
    which the margin for rounding passes 1e-9.
    Edge cases: 2D/epsilon without a search when the support is bounded on either side.

    The loss falls strictly as the scale grows, at least as fast as scale^(-1/2), so the root is the only one: write the
    loss at the worst end as 2kD * left/(left + right), k = 1/scale. Its logarithmic derivative in k is
    1 - k(E - F) right/(left + right), E and F the mean distances of the mass on the left and on the right. That no
    other q has a larger left/right gives, by Gronwall's inequality, tails e^{-2 right x/(left + right)} or thinner for
    the mass on the left, so k E right/(left + right) <= 1/2.

    >>> lowers, uppers = np.array([[-math.inf, 0.0], [10.0, math.inf]]).T
    >>> round(metric_scale(lowers, uppers, epsilon=1.0, sensitivity=1.0), 6)
    1.987041

    Source: [croft2022, Thm 2 and Thm 3].
    """
    spans = spans_of(lowers, uppers, sensitivity)
    lowest, highest = _bracket(epsilon, sensitivity, len(spans.widths))
    if not (spans.mass_below and spans.mass_above):
        return highest
    return _crossing(partial(metric_loss, spans), epsilon, lowest, highest)


def dp_scale(lowers: Floats, uppers: Floats, epsilon: float, sensitivity: float) -> float:
    """Smallest scale at which `dp_pair` loses at most `epsilon`: between d/epsilon and 2d/epsilon.

    d is the largest distance between two allowed answers that does not exceed the sensitivity; gaps may keep it
    below the sensitivity, and with it the scale below D/epsilon.

    Guarantee: the loss at the returned scale is at most `epsilon`; a scale smaller by 1e-9 is too small.
    Assumes: as `dp_pair`; at most a million gaps, beyond which the margin for rounding passes 1e-9.
    Edge cases: between narrow spans far from the rest a LARGER scale may leak more, since it brings the far mass
    into play. So evaluate a larger scale again before using it. The search walks upwards in steps of 2 % and looks
    into every dip it sees: private scales below the returned one can only exist in a dip narrower than a step.
    At each stop the worst pairs join the active ones, and the next stop is where the active ones first become private:
    no scale before that can be. It ends when the worst pair is private too, at the latest when it is an active one.

    >>> lowers, uppers = np.array([[0.0, 1e-4], [1.0, 1.0001], [100.0, 101.0]]).T
    >>> [round(dp_pair(lowers, uppers, scale, 1.5)[0], 3) for scale in (8.0, 10.0, 12.0)]
    [0.127, 0.119, 0.13]
    >>> round(dp_scale(np.array([0.0, 1.6]), np.array([1.0, 2.6]), epsilon=1.0, sensitivity=1.0), 6)
    1.302636

    Source: [croft2022, Sec. 4.2], with the ordinary notion of privacy in place of its own.
    """
    spans = spans_of(lowers, uppers, sensitivity)
    pairs, count = worst_pairs(spans), len(spans.widths)
    scale, highest = _bracket(epsilon, float(pairs.distance.max()), count)
    active: Indices = np.empty(0, dtype=np.intp)
    while scale < highest:
        losses = _losses(spans, pairs, scale)
        if _rounded_up(float(losses.max()), count) <= epsilon:
            break
        crowd = min(_CROWD, losses.size)
        active = np.union1d(active, np.argpartition(losses, -crowd)[-crowd:])
        some = Pairs._make(each[active] for each in pairs)

        def loss(scale: float, some: Pairs = some) -> float:
            return _rounded_up(float(_losses(spans, some, scale).max()), count)

        scale = _next_private(loss, epsilon, scale, highest)
    return scale


def metric_loss(spans: Spans, scale: float) -> float:
    """Smallest epsilon for which any two answers at distance i * sensitivity differ by at most e^{i epsilon}.

    epsilon = (D/s) * max over the ends q of the spans of 2 max(left, right)/(left + right).
    With L and R the mass of the gaps on either side, a right end gives (D/s)(1-2L)/(1-L-R), as croft2022 has it.

    Guarantee: rounded up by a bound on the rounding errors (`_margin`), so never understated.
    Edge cases: a support with a lower or an upper end gives exactly 2D/s (rounded up), the whole line D/s.
    An infinite end carries no condition of its own. The conditions of croft2022's Lemma 9 are redundant: ln Z is
    concave on a span, convex on a gap and smooth between, so it is steepest at an end of a span [croft2022, Thm 2].

    >>> lowers, uppers = np.array([[-math.inf, 0.0], [1.0, math.inf]]).T
    >>> round(metric_loss(spans_of(lowers, uppers, sensitivity=1.0), scale=1.353482), 6)
    1.0
    """
    masses = masses_at(spans, scale)
    # The mass on the inner side of each lower end, then on the inner side of each upper end.
    own = np.concatenate((masses.own, masses.own))
    inner = own + (1.0 - own) * np.concatenate((masses.after, masses.before))
    outer = np.concatenate((masses.before, masses.after))
    total = inner + outer
    # A total of zero is a span too narrow for a double beside its scale: count the most that it can lose.
    safe = np.where(total > 0.0, total, 1.0)
    share = np.where(total > 0.0, np.maximum(inner, outer) / safe, 1.0)
    return _rounded_up(2.0 * float(share.max()) * (spans.sensitivity / scale), len(spans.widths))


def _losses(spans: Spans, pairs: Pairs, scale: float) -> Floats:
    """distance + |ln Z(q) - ln Z(q')| of each pair, without cancellation."""
    masses = masses_at(spans, scale)
    with np.errstate(over="ignore"):
        distance = pairs.distance / scale
        below_first, above_second = allowed(pairs.below_first / scale), allowed(pairs.above_second / scale)
        above_first, below_second = -np.expm1(-pairs.above_first / scale), -np.expm1(-pairs.below_second / scale)
    left = above_first + (1.0 - above_first) * masses.before[pairs.first]
    right = below_first.from_below + below_first.passed * masses.after[pairs.first]
    left_there = above_second.from_above + above_second.passed * masses.before[pairs.second]
    right_there = below_second + (1.0 - below_second) * masses.after[pairs.second]
    # The mass at the lower answer is left + right, at the upper left_there + right_there, and each is the other's
    # but for the stretch from q to q': right = stretch.from_below + e^{-distance} right_there, and its mirror image.
    stretch = below_first.then(between_spans(spans, pairs, masses, scale)).then(above_second)
    skew = np.where(pairs.first == pairs.second, 0.0, stretch.skew)
    change = np.abs(-np.expm1(-distance) * (right_there - left) + skew)
    least = np.minimum(left + right, left_there + right_there)
    # ln Z is nowhere steeper than 1. That bound also stands in where a mass is too small for a double.
    tiny = least < _SMALLEST
    change_of_log = np.where(tiny, distance, np.log1p(change / np.where(tiny, 1.0, least)))
    losses: Floats = distance + np.minimum(change_of_log, distance)
    return losses


def _rounded_up(loss: float, count: int) -> float:
    """The loss or more: by the relative margin, and never below the numbers that have full relative precision."""
    return max(loss, _SMALLEST) * (1.0 + _margin(count))


def _margin(count: int) -> float:
    """Relative bound on the rounding error of a loss over `count` spans.

    Masses come from sums of positive terms: each of at most `count` steps of a recurrence adds less than 4 half-ulps
    (exponential, two products, sum). The loss built from them is well conditioned: it lies between distance and twice
    the distance, and no difference in it is larger than the distance. 64 covers the few dozen operations left.
    """
    return (64.0 + 4.0 * count) * 2.0**-53


def _next_private(loss: Callable[[float], float], epsilon: float, scale: float, highest: float) -> float:
    """The next scale above `scale` at which `loss` is at most `epsilon`, by steps of `_STRIDE`."""
    from scipy.optimize import minimize_scalar

    stops = [scale / _STRIDE, scale]  # one step back, so that a dip right after `scale` has two sides
    losses = [loss(stop) for stop in stops]
    while stops[-1] < highest:
        stops.append(min(stops[-1] * _STRIDE, highest))
        losses.append(loss(stops[-1]))
        if losses[-1] <= epsilon:
            return _crossing(loss, epsilon, stops[-2], stops[-1])
        if losses[-2] < min(losses[-3], losses[-1]):
            bottom = float(minimize_scalar(loss, bounds=(stops[-3], stops[-1]), method="bounded").x)
            if loss(bottom) <= epsilon:
                return _crossing(loss, epsilon, stops[-3], bottom)
    return highest


def _bracket(epsilon: float, distance: float, count: int) -> tuple[float, float]:
    """Scales between which the least one lies, for a loss between distance/scale and twice that."""
    lowest = distance / epsilon
    highest = 2.0 * lowest * (1.0 + _margin(count)) * (1.0 + 2.0**-48)
    if epsilon < 2.0 * _SMALLEST or not _SMALLEST < lowest < highest < math.inf:
        raise ArgumentError(f"epsilon={epsilon}: needs a scale that does not fit into a double")
    return lowest, highest


def _crossing(loss: Callable[[float], float], epsilon: float, lowest: float, highest: float) -> float:
    """A private scale where `loss` falls through `epsilon`; `lowest` is not private, `highest` is."""

    def excess(log_stretch: float) -> float:
        return math.log(loss(lowest * math.exp(log_stretch)) / epsilon)

    root = lowest * math.exp(falling_root(excess, 0.0, math.log(highest / lowest), absolute=1e-13))
    # The root is known to about 1e-13; go up until the loss, evaluated and not inferred, is small enough.
    step = 0.0
    while (scale := min(root * (1.0 + step), highest)) < highest and loss(scale) > epsilon:
        step = 2.0 * step + 2.0**-50
    return scale


def interval_scale(answers: Interval, epsilon: float, sensitivity: float) -> float:
    """On [l, u] = the query's range: the fixed point of [holohan2018, Thm 3.5], on the safe side.

    With x = 1/b and W = u - l the worst pair (l, l + D) has the loss
    D x + ln(1 + (1 - e^{-Dx})(1 - e^{-(W-D)x})/(1 - e^{-Wx})), rising in x. Newton's steps in floats find the root; one
    evaluation in ball arithmetic decides on which side of it the answer lies.

    Guarantee: private, and the smallest scale to 1e-12 relative.
    Edge cases: one end may be infinite.

    >>> interval_scale(Interval(0, 10), 1.0, 1.0) > 1.0
    True
    """
    rest, width = math.inf, answers.width
    if answers.bounded:  # exactly: the width of two doubles need not be one
        exact = Fraction(answers.upper) - Fraction(answers.lower) - Fraction(sensitivity)
        rest = float(exact) if exact < 10**308 else math.inf
    x = epsilon / sensitivity if rest <= 0.0 else 0.5 * epsilon / sensitivity
    for _ in range(60):
        near, far = -math.expm1(-sensitivity * x), -math.expm1(-rest * x)
        whole = -math.expm1(-width * x)
        lift = near * far / whole
        value = sensitivity * x + math.log1p(lift) - epsilon
        bent = (1.0 - near) * sensitivity * far + (near * (1.0 - far) * rest if math.isfinite(rest) else 0.0)
        shrink = lift * (1.0 - whole) * width if math.isfinite(width) else 0.0
        step = value / (sensitivity + (bent - shrink) / whole / (1.0 + lift))
        x -= step
        if abs(step) <= 1e-15 * x:
            break
    exact_width = (
        ball(sensitivity) if rest <= 0.0 else ball(answers.upper) - ball(answers.lower) if answers.bounded else None
    )

    def private(scale: float) -> bool:
        inverse = 1 / ball(scale)
        loss = ball(sensitivity) * inverse
        if exact_width is None:
            loss = loss + (-(-loss).expm1()).log1p()
        elif rest > 0.0:
            ratio = (
                (-loss).expm1() * (-(exact_width - sensitivity) * inverse).expm1() / -(-exact_width * inverse).expm1()
            )
            loss = loss + ratio.log1p()
        return bool(loss <= epsilon)

    with precision(PRECISIONS[0]):
        return first_above(1.0 / x, private)


def universal_scale(claim: Claim, sensitivity: float, noise: Callable[[float], Noise]) -> float:
    """The scale at which no truncated law of a purely private family exceeds an ordinary claim, whatever its support.

    Guarantee: rounded up.

    >>> from rangebound.laws.families import Laplace
    >>> round(universal_scale(Claim(epsilon=1.0), 1.0, lambda scale: Laplace(scale=scale)), 4)
    2.0
    """

    def private(scale: float) -> bool:
        d = noise(scale).in_balls().log_ratio(None, ball(sensitivity))
        return bool((top_loss(d) if claim.pure else top_stick(d, ball(claim.epsilon))) <= claim.limit)

    with precision(PRECISIONS[1]):
        low = high = sensitivity / claim.epsilon
        while not private(high):
            low, high = high, 2.0 * high
        while private(low):
            low, high = 0.5 * low, low
        return boundary(private, low, high, 1e-12)[1]


def interval_profile(width: float, d: float) -> Callable[[float], float] | None:
    """The profile of Laplace noise truncated to the query's bounded interval, from a dense row of positions.

    In units of the scale, with the pair at distances A from the left end and d from each other, the stick is the
    largest of F_t(A) - e^eps F_t(A + d) over the thresholds t, F_t(q) = N/Z the truncated distribution function. Each
    has a second derivative in A of at least -M, M = (2/z + 2) + e^eps (5 + 2/z), z = 1 - e^-W, because |N'| <= N,
    |Z'| <= Z, N'' >= -2, Z'' = Z - 2 and Z >= z. So is their supremum bent downward by at most M, and at its
    largest, where it is flat or at an end, it is at most M w^2/8 above its largest value on a row of spacing w.

    Edge cases: None where the row is too coarse to say much.
    """
    if not (1e-6 < width < 300.0 and d > 1e-9):
        return None
    count = int(min(max(2000 * width / math.sqrt(min(d, 1.0)), 2000), 40000)) if width > d else 1
    a = np.linspace(0.0, max(width - d, 0.0), count)
    b = np.maximum(width - d - a, 0.0)
    z = -math.expm1(-width)
    norm_p = -np.expm1(-a) - np.expm1(-(d + b))
    norm_q = -np.expm1(-(a + d)) - np.expm1(-b)
    reach = d + np.log(norm_q / norm_p)
    spacing = (width - d) / (count - 1) if count > 1 else 0.0

    def best(epsilon: float) -> float:
        y = np.clip((reach - epsilon) / 2.0, 0.0, d)
        return float(((-2.0 * np.expm1(-y) + np.exp(-a) * np.expm1(-2.0 * y)) / norm_p).max()) * (1.0 + _ROUNDING)

    def room(epsilon: float) -> float:
        bend = (2.0 / z + 2.0) + math.exp(epsilon) * (5.0 + 2.0 / z)
        return 1e-14 * (1.0 + d + epsilon) / z + bend * spacing**2 / 8.0

    return (lambda epsilon: best(epsilon) + room(epsilon)) if room(0.0) <= 2e-5 * best(0.0) else None
