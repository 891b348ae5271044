"""croft2022's half-line mechanism, whose scale depends on the true answer: as published, with its true guarantee.

Inside, lengths are in units of sensitivity/epsilon, epsilon being the one the mechanism was built for: a true answer
lies t above the end of the half-line, and a neighbour at most epsilon from it. In these units the scale is a function
of t alone, and falls from 1.586 to 1.

What the published formulas solve for: at the end of the half-line the density falls like e^{-t} with the true answer.
Take neighbours a at t and b at t + d. Their scales are A >= B, and ln f_a(x) - ln f_b(x) starts at d and is linear
between the end of the half-line, t, t + d and infinity, with the slopes -(1/B - 1/A), -(1/A + 1/B) and 1/B - 1/A. The
last one is positive: the ratio of the two densities has no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from rangebound.errors import ArgumentError
from rangebound.values import arguments
from rangebound.values.array_types import Floats, np, npt
from rangebound.values.support import Interval, Query

# -W(-1/(2e)), W the principal branch of the Lambert function. 1/(e * _W) is the scale at the end of the half-line.
_W = 0.23196095298653444
_AT_END = 1.0 / (math.e * _W)

# The search below is numerical. Its formulas are good to about 1e-12 and its maxima are smooth, so that the position
# of a maximum, found to 1e-7 or better, costs nothing; a part in a million is far more than both.
_MARGIN = 1e-6
_SMALLEST = 1e-290  # a delta below this is reported as this
_FARTHEST = 1e300  # from far less on, the scale is 1
_POSITIONS, _SHARES = 80, 40  # the grid of the search
_STARTS, _ROUNDS = 8, 14  # how many of its points are refined, and how often
_LAST = 1.0 - 1e-6  # the last position that is refined: a million units out
_FAR = 1e4  # e^{-_FAR} is zero


@arguments.brief
@dataclass(frozen=True, init=False, repr=False)
class VariableScaleLaplace:
    """Laplace noise truncated to a half-line, with a scale that falls with the distance from its end, as published.

    With i the distance in sensitivities D, s1 = -D/(e epsilon W(-1/(2e))) at the end, and farther out
    s(i) = -i D e^{i epsilon} s1 / (W_Z(-2 i D e^{-i epsilon} e^{-i D e^{-i epsilon}/s1} / s1) e^{i epsilon} s1 + i D),
    W_Z being the principal branch of the Lambert function up to i = 1/epsilon and the branch -1 beyond.

    Guarantee: NOT the pure epsilon that was published: in the free tail the densities of two scales have an unbounded
    ratio. `epsilon()` is therefore infinite. `delta(epsilon)` is what the mechanism does guarantee.
    Assumes: the query's range is a half-line, and the noise is truncated to it.
    Edge cases: an answer outside the range is clipped to it; any other range than a half-line is refused.

    >>> query = Query(range=Interval(0, math.inf), sensitivity=1.0)
    >>> mechanism = VariableScaleLaplace(query=query, epsilon=1.0)
    >>> mechanism.scale([0.0, 1.0, 10.0]).round(6).tolist()
    [1.585954, 1.302017, 1.026492]
    >>> mechanism.epsilon(), round(mechanism.delta(1.0), 6)
    (inf, 0.000156)

    Source: [croft2022, Thm 1], formulas 32 and 33; the theorem is false.
    """

    query: Query
    built_for: float

    def __init__(self, *, query: Query, epsilon: float) -> None:
        arguments.instance("query", query, Query, "a Query")
        span = query.range
        if not isinstance(span, Interval) or math.isinf(span.lower) == math.isinf(span.upper):
            raise ArgumentError(f"query.range={span}: must be a half-line: an Interval with exactly one infinite end")
        positive = arguments.positive("epsilon", epsilon)
        if not 1e-300 < query.sensitivity / positive < 1e300:
            raise ArgumentError(f"epsilon={positive}: needs a scale that does not fit into a double")
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "built_for", positive)

    def __repr__(self) -> str:
        return f"VariableScaleLaplace(query={self.query}, epsilon={self.built_for})"

    def scale(self, location: npt.ArrayLike) -> Floats:
        """The scale of the noise at a true answer.

        >>> query = Query(range=Interval(-math.inf, 5), sensitivity=2.0)
        >>> round(float(VariableScaleLaplace(query=query, epsilon=0.5).scale(5.0)), 6)
        6.343817
        """
        with np.errstate(over="ignore"):
            t = np.minimum(self._distance(location) / self._unit, _FARTHEST)
        return _scale(t) * self._unit

    def pdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> Floats:
        """Density of the published number at `x`: e^{-|x-q|/s} / (s (2 - e^{-distance/s})) in the range, 0 outside.

        >>> query = Query(range=Interval(0, math.inf), sensitivity=1.0)
        >>> VariableScaleLaplace(query=query, epsilon=1.0).pdf([-1.0, 0.0], 0.0).round(6).tolist()
        [0.0, 0.630535]
        """
        place, at = arguments.together(arguments.reals("x", x), self.query.clip(arguments.hidden("location", location)))
        scale = self.scale(at)
        with np.errstate(over="ignore"):
            away, reach = np.abs(place - at) / scale, self._distance(at) / scale
        density = np.exp(-away) / (scale * (1.0 - np.expm1(-reach)))
        span = self.query.range.hull
        return np.where((place >= span.lower) & (place <= span.upper), density, 0.0)

    def epsilon(self, delta: float = 0.0) -> float:
        """Smallest epsilon that holds with `delta`: infinite for 0, since no pure epsilon does.

        Guarantee: `self.delta` at the returned epsilon is at most `delta`.
        Assumes: as `delta`.
        Edge cases: 0 when `delta` is at least the largest total variation distance; infinite below 1e-290.

        >>> query = Query(range=Interval(0, math.inf), sensitivity=1.0)
        >>> round(VariableScaleLaplace(query=query, epsilon=1.0).epsilon(1e-3), 3)
        0.998
        """
        from scipy.optimize import brentq

        delta = arguments.probability("delta", delta)
        if delta <= _SMALLEST * (1.0 + _MARGIN):
            return math.inf
        lower, upper = 0.0, self.built_for
        if self.delta(lower) <= delta:
            return 0.0
        while self.delta(upper) > delta:
            lower, upper = upper, 2.0 * upper
        goal = math.log(delta)
        root = brentq(
            lambda epsilon: math.log(self.delta(epsilon)) - goal, lower, upper, xtol=1e-11 * upper, rtol=1e-11
        )
        step = 0.0
        while (epsilon := min(root + step, upper)) < upper and self.delta(epsilon) > delta:
            step = 2.0 * step + 1e-11 * upper
        return float(epsilon)

    def delta(self, epsilon: float) -> float:
        """Smallest delta that holds with `epsilon`: the supremum over all neighbours of both hockey-stick divergences.

        delta = sup over t >= 0 and 0 < d <= sensitivity of max(H(a||b), H(b||a)).

        Guarantee: rounded up by a part in a million.
        Assumes: the maximum is found by a dense grid and refinement; this is a numerical search, not a proof. The scale
        depends on the answer, so the farthest neighbour need not be the worst and every distance is searched.
        Edge cases: values below 1e-290 are reported as 1e-290, since delta is never 0.

        >>> query = Query(range=Interval(0, math.inf), sensitivity=1.0)
        >>> round(VariableScaleLaplace(query=query, epsilon=0.5).delta(0.5), 6)
        0.000306
        """
        level = arguments.nonnegative("epsilon", epsilon)
        return min(max(_worst(self.built_for, level), _SMALLEST) * (1.0 + _MARGIN), 1.0)

    @property
    def _unit(self) -> float:
        return self.query.sensitivity / self.built_for

    def _distance(self, location: npt.ArrayLike) -> Floats:
        """How far the true answers lie from the end of the half-line."""
        span = self.query.range.hull
        end = span.lower if math.isfinite(span.lower) else span.upper
        return np.abs(self.query.clip(arguments.hidden("location", location)) - end)


def _lambert(t: Floats) -> tuple[Floats, Floats]:
    """y = -W_Z(-2 r e^{-r}) with r = t e^{-t} e _W, and y - 1; principal branch up to t = 1, branch -1 beyond.

    At t = 1 the branches meet, and there y is the square root of an argument that cancels. So near it y - 1 is found
    from the same equation in the form F(y - 1) = F(t - 1) - _W (1 - e^{-F(t-1)}), F(u) = u - ln(1 + u).
    """
    from scipy.special import lambertw

    y = np.empty_like(t)
    r = _remainder(t)
    argument = -2.0 * r * np.exp(-r)
    low, high, huge = t <= 0.5, (t >= 1.5) & (t <= 500.0), t > 500.0
    y[low], y[high] = -lambertw(argument[low], 0).real, -lambertw(argument[high], -1).real
    # Beyond, the argument underflows. y - ln y = t - ln t - _W + r has its root next to t, where Newton starts.
    far = t[huge]
    target = far - np.log(far) - _W + r[huge]
    for _ in range(3):
        far = far - (far - np.log(far) - target) / (1.0 - 1.0 / far)
    y[huge] = far
    near = ~(low | high | huge)
    excess_near = _lambert_near_branch_point(t[near] - 1.0)
    y[near] = 1.0 + excess_near
    excess = np.asarray(y - 1.0)
    excess[near] = excess_near
    return y, excess


def _lambert_near_branch_point(u: Floats) -> Floats:
    """y - 1 for t = 1 + u, |u| <= 1/2."""
    f = _minus_log(u)
    target = f + _W * np.expm1(-f)
    v = np.copysign(np.sqrt(2.0 * target), u) + 2.0 / 3.0 * target
    for _ in range(5):
        safe = np.where(v == 0.0, 1.0, v)
        v = np.where(v == 0.0, 0.0, v - (_minus_log(v) - target) * (1.0 + v) / safe)
    return v


def _remainder(t: Floats) -> Floats:
    return math.e * _W * t * np.exp(-t)


def _scale(t: Floats) -> Floats:
    """The scale at t, in units of sensitivity/epsilon."""
    y, _ = _lambert(t)
    away = t > 1e-300
    return np.where(away, t / np.where(away, y - _remainder(t), 1.0), _AT_END)


def _log_slope(t: Floats) -> Floats:
    """Derivative of ln _scale: (y - t)/(t (y - 1)), from differentiating y - ln y = r - ln 2r."""
    y, excess = _lambert(t)
    difference = np.where(np.abs(t - 1.0) < 0.5, excess - (t - 1.0), y - t)
    bottom = t * excess
    inside = np.abs(bottom) > 1e-300
    limit = np.where(t < 0.5, 1.0 - 2.0 * math.e * _W, 1.0 - 1.0 / math.sqrt(1.0 - _W))
    return np.where(inside, difference / np.where(inside, bottom, 1.0), limit)


def _log_fall(t: Floats, d: Floats) -> Floats:
    """ln of the scale at t over the scale at t + d, to full relative precision however small d is."""
    nodes, weights = np.polynomial.legendre.leggauss(5)
    short = d < 0.25
    places = t[short, None] + d[short, None] * (0.5 + 0.5 * nodes)
    fall = np.empty_like(t)
    fall[short] = -0.5 * d[short] * (_log_slope(places) @ weights)
    fall[~short] = np.log(_scale(t[~short]) / _scale(t[~short] + d[~short]))
    return np.maximum(fall, 0.0)


def _worst(built_for: float, level: float) -> float:
    """Supremum over all neighbours: a grid over position and distance, then ever finer grids around its best points."""
    position, share, pair = _grid(built_for)
    values = _divergence(pair, level)
    best = _highest_peaks(values.reshape(_POSITIONS, _SHARES))
    centre_p, centre_k = position[best, None], share[best, None]
    found = float(values.max())
    # all steps of a small square, in grid steps; the first square reaches a step and a half around its centre
    step_p, step_k = (each.ravel() / 2.0 for each in np.meshgrid(np.arange(-3.0, 4.0), np.arange(-3.0, 4.0)))
    for shrink in 0.4 ** np.arange(_ROUNDS):
        p = np.clip(centre_p + step_p * shrink / _POSITIONS, 0.0, _LAST)
        k = np.clip(centre_k + step_k * shrink * 2.0 / _SHARES, 1e-9, 1.0)
        values = _divergence(_pair(*_place(p.ravel(), k.ravel(), built_for)), level).reshape(p.shape)
        top = values.argmax(axis=1)[:, None]
        centre_p, centre_k = np.take_along_axis(p, top, axis=1), np.take_along_axis(k, top, axis=1)
        found = max(found, float(values.max()))
    at_infinity = -math.expm1(min(0.5 * (level - built_for), 0.0))  # plain Laplace noise, neighbours at full distance
    return max(found, at_infinity)


def _highest_peaks(values: Floats) -> npt.NDArray[np.intp]:
    """Where the highest local maxima of a grid are, in the order of its flattened points."""
    edge = np.pad(values, 1, constant_values=-1.0)
    beside = (edge[2:, 1:-1], edge[:-2, 1:-1], edge[1:-1, 2:], edge[1:-1, :-2])
    peaks = np.where(values >= np.max(beside, axis=0), values, -1.0)
    return np.argsort(peaks, axis=None)[-_STARTS:]


@lru_cache(maxsize=8)
def _grid(built_for: float) -> tuple[Floats, Floats, _Pair]:
    position = np.repeat(np.arange(_POSITIONS) / _POSITIONS, _SHARES)
    share = np.tile(np.arange(1, _SHARES + 1) / _SHARES, _POSITIONS) ** 2
    return position, share, _pair(*_place(position, share, built_for))


def _place(position: Floats, share: Floats, built_for: float) -> tuple[Floats, Floats]:
    """The pair (t, d) at a point of the unit square, which holds all pairs but those at infinity."""
    return position / (1.0 - position), built_for * share


def _divergence(pair: _Pair, level: float) -> Floats:
    """The larger of H(a||b) and H(b||a)."""
    with np.errstate(over="ignore"):  # a crossing may lie beyond all doubles, and then weighs nothing
        return np.maximum(_lower_over_upper(pair, level), _upper_over_lower(pair, level))


@dataclass(frozen=True, eq=False)
class _Pair:
    """Neighbours a at t and b at t + d: their scales, peaks, and the log-ratio of their densities at its kinks."""

    t: Floats
    d: Floats
    scale_a: Floats
    scale_b: Floats
    fall: Floats  # ln(scale_a/scale_b)
    split: Floats  # 1/scale_b - 1/scale_a, the slope of the log-ratio outside [t, t + d]
    steep: Floats  # 1/scale_a + 1/scale_b, the slope between
    peak_a: Floats
    peak_b: Floats
    ratio_t: Floats  # ln f_a/f_b at t and, where it is least, at t + d
    ratio_least: Floats


def _pair(t: Floats, d: Floats) -> _Pair:
    fall = _log_fall(t, d)
    scale_a = _scale(t)
    scale_b = scale_a * np.exp(-fall)
    split, steep = np.expm1(fall) / scale_a, 1.0 / scale_a + 1.0 / scale_b
    norm_a, norm_b = 1.0 - np.expm1(-t / scale_a), 1.0 - np.expm1(-(t + d) / scale_b)
    ratio_t = d - split * t
    return _Pair(
        t=t,
        d=d,
        scale_a=scale_a,
        scale_b=scale_b,
        fall=fall,
        split=split,
        steep=steep,
        peak_a=1.0 / (scale_a * norm_a),
        peak_b=1.0 / (scale_b * norm_b),
        ratio_t=ratio_t,
        ratio_least=ratio_t - steep * d,
    )


def _lower_over_upper(pair: _Pair, level: float) -> Floats:
    """H(a||b): the free tail, where the ratio grows again, and the stretch next to the end of the half-line."""
    a, b = pair.scale_a, pair.scale_b
    # From the crossing on, f_a and e^level f_b start equal and fall at the rates 1/A and 1/B: (A - B) f_a(crossing).
    falls = pair.fall > 0.0
    wait = (level - pair.ratio_least) / np.where(falls, np.expm1(pair.fall), 1.0)
    tail = np.where(falls, a * -np.expm1(-pair.fall) * pair.peak_a * np.exp(-pair.d / a - wait), 0.0)
    # The crossing lies at or below t: from it down to the end of the half-line.
    splits = pair.split > 0.0
    crossing = np.where(splits, (pair.d - level) / np.where(splits, pair.split, 1.0), 0.0)
    crossing = np.clip(crossing, 0.0, pair.t)
    near = pair.peak_a * np.exp(-(pair.t - crossing) / a) * _lag(a, pair.split, crossing)
    # The crossing lies between t and t + d: all below t, then from t to the crossing.
    over = np.maximum(pair.ratio_t - level, 0.0)
    below = -np.expm1(-over) * b * -np.expm1(-pair.t / b) + _lag(a, pair.split, pair.t)
    reach = over / pair.steep
    between = a * _risen(reach / a) + np.exp(-reach / a) * b * _second(-reach / b)
    return tail + np.where(pair.ratio_t > level, pair.peak_a * (below + between), near)


def _upper_over_lower(pair: _Pair, level: float) -> Floats:
    """H(b||a): around t + d, where b has its peak. (At t it is b that is less likely, so the set ends above t.)"""
    a, b = pair.scale_a, pair.scale_b
    over = np.maximum(-pair.ratio_least - level, 0.0)
    splits = pair.split > over / _FAR
    reach = np.where(splits, over / np.where(splits, pair.split, 1.0), _FAR)
    # integral over s in [0, reach] of e^{-s/B} (1 - e^{-over} e^{split s}); it is at least half of its first part
    right = -np.expm1(-over) * b * -np.expm1(-reach / b) - np.exp(-over) * _lag(a, pair.split, reach)
    reach = over / pair.steep
    left = b * _risen(reach / b) + np.exp(-reach / b) * a * _second(-reach / a)
    return np.where(over > 0.0, pair.peak_b * (right + left), 0.0)


def _lag(slow: Floats, split: Floats, reach: Floats) -> Floats:
    """Integral over s in [0, reach] of e^{-s/slow} - e^{-s (1/slow + split)}, without cancellation."""
    x, h = reach / slow, split * reach
    total = x + h
    some = total > 0.0
    share = np.where(x > 0.0, h * _risen(x) / np.where(x > 0.0, x, 1.0), 0.0) + np.exp(-x) * _second(-h)
    return np.where(some, reach * share / np.where(some, total, 1.0), 0.0)


def _risen(x: Floats) -> Floats:
    """1 - (1 + x) e^{-x} for x >= 0, without cancellation."""
    return np.where(x > 1.0, 1.0 - (1.0 + x) * np.exp(-x), np.exp(-x) * _second(np.minimum(x, 1.0)))


def _second(x: Floats) -> Floats:
    """e^x - 1 - x, without cancellation."""
    small = np.abs(x) < 0.5
    z = np.where(small, x, 0.0)
    series = np.ones_like(z)
    for k in range(15, 2, -1):
        series = 1.0 + series * z / k
    return np.where(small, 0.5 * z * z * series, np.expm1(x) - x)


def _minus_log(u: Floats) -> Floats:
    """u - ln(1 + u) for |u| <= 1/2 or so, without cancellation: with w = u/(2 + u), u w - 2 (w^3/3 + w^5/5 + ...)."""
    w = u / (2.0 + u)
    square = w * w
    series = np.zeros_like(u)
    for k in range(37, 2, -2):
        series = 1.0 / k + square * series
    return u * w - 2.0 * w * square * series
