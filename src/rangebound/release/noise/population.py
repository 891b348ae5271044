"""Intervals for the population that the units of a table were drawn from, by inversion of a test of every answer.

Of counts, for any number of rows: see `expected_counts`. Of all others, by the sampling of sums:

at the true answer x the units are independent draws of a number d(x) of mean 0, and the noisy coordinates show their
sum with noise: its law is that of sampling, taken as normal, and of the noise, which is known. The interval has all x
at which what is seen is not too large for both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from rangebound.laws.boundings import Bounding
from rangebound.laws.family import Curve
from rangebound.release.noise.draw import AddedNoise, Draw, Publisher
from rangebound.release.noise.noisy_coordinates import MechanismPublisher
from rangebound.release.noise.strategies.strategy import gaussian_reach, laplace_radius
from rangebound.release.noise.workload_publisher import WorkloadPublisher
from rangebound.release.plan.kinds.facts import Linear, Sampled, SampledCounts
from rangebound.release.plan.statistic import Pair
from rangebound.values.array_types import Bools, Floats

_VARIANCE_PART = 0.1  # of what the level leaves: how often noise may make the bound on the sampling variance too small
_APART = (1e-3, 5e-3)  # relative: scales of noise that are nearer are moved apart, upwards; of up to three, and of more
_NORMAL = 1e3  # times the scale of noise: a root of the variance from which on their sum is as good as normal
_NONE = 1e-100  # a scale of noise that is not there
_MANY = 1e12  # rows, from which on binomial laws are taken for those of infinitely many, which are wider
_NOISE_PART, _ROWS_PART = 0.4, 0.02  # of what the level leaves: for the noise of a count, and for that of all rows
_MEAN_PART = 0.2  # of what the level leaves: for the mean that another answer depends on
_COARSE, _FINE, _ROUNDS = 128, 32, 6


def added_noise(publisher: Publisher) -> AddedNoise | None:
    """The noise of a publisher whose coordinates have Laplace or Gaussian noise that is at most clamped; else None."""
    if not isinstance(publisher, MechanismPublisher):
        return None
    mechanism, noise = publisher.mechanism, publisher.mechanism.noise
    clamped = mechanism.bounding in (Bounding.RECTIFY, Bounding.UNBOUNDED)
    if not clamped or noise.curve not in (Curve.LINEAR, Curve.QUADRATIC) or math.isfinite(noise.extent):
        return None
    slack = (publisher.step or noise.scale * 2.0**-20) + publisher.grain
    return AddedNoise(noise=noise, level=publisher.level, slack=slack)


def answer_interval(sampled: Sampled, draw: Draw, added: AddedNoise, level: float) -> Pair:
    """An interval for the answer in the population, also of one that depends on a mean: then for all plausible means.

    A fifth of what the level leaves is for the mean. The ends and the middle of its interval stand for all of it: what
    is left out is a part of their distance that falls with the number of rows. Edge cases: it has all answers where a
    coordinate was clamped, as those that are not above 0 may have been; what else there is holds no less often.
    """
    if sampled.given is None:
        return population_interval(sampled, draw, added, level)
    lower, upper = sampled.given(0.5).ends
    if all(each > 0.0 for each in draw):
        low, high = population_interval(sampled, draw, added, 1.0 - _MEAN_PART * (1.0 - level))
        rest = 1.0 - (1.0 - _MEAN_PART) * (1.0 - level)
        means = low, (low + high) / 2.0, high
        ends = [population_interval(sampled.given(mean), draw, added, rest) for mean in means]
        lower, upper = min(low for low, _ in ends), max(high for _, high in ends)
    return sampled.shown(lower), sampled.shown(upper)


def population_interval(
    sampled: Sampled, draw: Draw, added: AddedNoise, level: float, *, sampling: bool = True
) -> Pair:
    """An interval for the answer in the population: the hull of all answers that are `plausible`.

    Guarantee: exact for the noise, asymptotic for sampling, since the sum over units is taken as normal. It holds all
    answers that the coordinates would leave before they were clamped at 0. Lies within `sampled.ends`. Without
    `sampling` it is for the table, and holds the true answer, moved between the ends, as often as `level` says.
    Edge cases: where noise hides whether there are rows at all, all of the range is in it.
    """
    found = partial(plausible, sampled, draw, added, level, sampling=sampling)
    return _hull(found, sampled, draw, _ends(sampled, draw, added, level))


def plausible(
    sampled: Sampled,
    draw: Sequence[float | Floats],
    added: AddedNoise,
    level: float,
    x: Floats,
    *,
    sampling: bool = True,
) -> Bools:
    """Whether answers are left in: D(x) with noise is not beyond what N(0, v) and noise exceed with 1 - level.

    The sampling variance v is an upper bound: what the linear form of it is with its noise, and as much more as that
    noise exceeds with a tenth of 1 - level. This tenth and the rest of 1 - level add up to it.
    """
    own, spread, left = sampled.deviation(x), sampled.variance(x), 1.0 - level
    part = _VARIANCE_PART * left if sampling and any(np.any(each) for each in spread[1:]) else 0.0
    bound = np.zeros(())
    if sampling:
        bound = _at(spread, draw) + _moved(spread, added.slack)
        bound = np.maximum(bound + (reach(spread[1:], added, part) if part else 0.0), 0.0)
    seen = np.abs(_at(own, draw)) - _moved(own, added.slack)
    found: Bools = (seen <= 0.0) | (2.0 * tail(own[1:], bound, added, seen) >= left - part)
    return found


def _at(form: Linear, draw: Sequence[float | Floats]) -> Floats:
    """A linear form of the noisy coordinates."""
    found: Floats = form[0] + sum(each * value for each, value in zip(form[1:], draw, strict=True))
    return found


def _moved(form: Linear, slack: float) -> Floats:
    """What rounding the coordinates can move a linear form by."""
    found: Floats = slack * sum((np.abs(each) for each in form[1:]), np.zeros(()))
    return found


def _ends(sampled: Sampled, draw: Draw, added: AddedNoise, level: float) -> Pair:
    """The ends of the answers; where they are infinite, so far from the draw that no answer there is plausible.

    A sum S of expectation x has a variance of at most c x + c^2, so with x = 4 S + 64 k (c + scale) and
    k = 1 - ln(1 - level) the distance x - S is at least 3 x / 4, above 8 sqrt(c x k) / 2 + 24 k scale.
    """
    lower, upper = sampled.ends
    if math.isfinite(lower) and math.isfinite(upper):
        return lower, upper
    most = float(np.sqrt(_at(sampled.variance(np.zeros(1)), draw))[0])
    far = 4.0 * abs(draw[0]) + 64.0 * (1.0 - math.log(1.0 - level)) * (most + added.noise.scale)
    return max(lower, -far), min(upper, far)


def _hull(plausible: Callable[[Floats], Bools], sampled: Sampled, draw: Draw, ends: Pair) -> Pair:
    """The hull of the plausible answers, rounded outwards: those of a grid, which is made finer at the two ends."""
    lower, upper = ends
    if not lower < upper:
        return lower, upper
    middle = _unseen(sampled, draw, ends)
    if middle is None or not plausible(np.array([middle]))[0]:
        return lower, upper
    return _last(plausible, middle, lower), _last(plausible, middle, upper)


def _unseen(sampled: Sampled, draw: Draw, ends: Pair) -> float | None:
    """The answer at which D is 0, or the end on that side; None where D does not fall, since there seem no rows."""
    lower, upper = ends
    first, last = _at(sampled.deviation(np.array(ends)), draw).tolist()
    share = first / (first - last) if first > last else None
    return None if share is None else min(max(lower + (upper - lower) * share, lower), upper)


def estimated(sampled: Sampled, draw: Draw) -> float:
    """The answer that noisy coordinates make, between two finite ends: their middle where there seem to be no rows."""
    found = _unseen(sampled, draw, sampled.ends)
    return sum(sampled.ends) / 2.0 if found is None else found


def _last(plausible: Callable[[Floats], Bools], inside: float, end: float) -> float:
    """The end, or a point just beyond the last plausible one on the way there."""
    for parts in (_COARSE, *[_FINE] * _ROUNDS):
        points = inside + (end - inside) * (np.arange(parts + 1) / parts)
        points[-1] = end
        at = int(np.flatnonzero(np.append(True, plausible(points[1:])))[-1])
        if at == parts:
            return end
        inside, end = float(points[at]), float(points[at + 1])
    return end


def reach(form: tuple[Floats, ...], added: AddedNoise, part: float) -> Floats:
    """What a linear form of the noise exceeds with probability `part`, less than a half, at most.

    The logarithm of the tail of log-concave noise is concave, so that a step of Newton's ends at or beyond its root.
    """
    scales = added.noise.scale * np.abs(np.stack(np.broadcast_arrays(*form)))
    length = np.sqrt((scales**2).sum(axis=0))
    if added.noise.curve is Curve.QUADRATIC:
        found: Floats = statistics.NormalDist().inv_cdf(1.0 - part) * length
        return found
    apart, weights = _mixture(scales)
    at: Floats = length
    for _ in range(5):
        each = weights * np.exp(-at / apart) / 2.0
        beyond = each.sum(axis=0)
        at = at + np.log(beyond / part) * beyond / (each / apart).sum(axis=0)
    return at


def tail(form: tuple[Floats, ...], variance: Floats, added: AddedNoise, seen: Floats) -> Floats:
    """P(Z + noise > seen) for Z of the law N(0, variance) and a linear form of independent noise; seen >= 0.

    A sum of Laplace noise of different scales is a mixture of Laplace laws of these scales, with weights that may be
    negative (`_mixture`), and for one of scale A, r = sqrt(variance),
    P = Phi(-s/r) + e^(r^2/2A^2) (e^(-s/A) Phi(s/r - r/A) - e^(s/A) Phi(-s/r - r/A)) / 2.
    Where r is above 1,000 A it is that of N(0, r^2 + 2 A^2) but for 1e-9 of it; the formula would lose more digits.
    """
    from scipy import special  # an import of rangebound stays light

    scales = added.noise.scale * np.abs(np.stack(np.broadcast_arrays(*form)))
    if added.noise.curve is Curve.QUADRATIC:
        total = np.sqrt(variance + (scales**2).sum(axis=0))
        found: Floats = special.ndtr(-seen / total)
        return found
    apart, weights = _mixture(scales)
    root = np.maximum(np.sqrt(variance), 1e-6 * apart[-1])
    normal = root > _NORMAL * apart
    far, ratio = seen / root, np.where(normal, 0.0, root / apart)
    rising = special.log_ndtr(far - ratio) + ratio**2 / 2.0 - seen / apart
    falling = special.log_ndtr(-far - ratio) + ratio**2 / 2.0 + np.where(normal, 0.0, seen / apart)
    one = special.ndtr(-far) + (np.exp(rising) - np.exp(falling)) / 2.0
    one = np.where(normal, special.ndtr(-seen / np.hypot(root, math.sqrt(2.0) * apart)), one)
    found = (weights * one).sum(axis=0)
    return found


def _mixture(scales: Floats) -> tuple[Floats, Floats]:
    """The scales of a sum of Laplace noise from the least, moved apart upwards, and the weights of their mixture.

    The characteristic function prod 1 / (1 + A_i^2 s^2) has partial fractions w_i / (1 + A_i^2 s^2), with
    w_i = prod over j of A_i^2 / (A_i^2 - A_j^2). Larger scales have larger tails.
    """
    apart, least = np.sort(scales, axis=0), _APART[len(scales) > 3]
    apart[0] = np.maximum(apart[0], np.maximum(least * apart[-1], _NONE))
    for at in range(1, len(apart)):
        apart[at] = np.maximum(apart[at], apart[at - 1] * (1.0 + least))
    squares = apart**2
    weights = np.ones_like(apart)
    for one in range(len(apart)):
        for other in range(len(apart)):
            if one != other:
                weights[one] *= squares[one] / (squares[one] - squares[other])
    return apart, weights


def counted(publisher: Publisher, group: Sequence[Draw], level: float) -> tuple[Floats, Floats, float]:
    """The ends of intervals for all counts of a group, and how many rows there are at most, for `expected_counts`."""
    level, of_rows = 1.0 - _NOISE_PART * (1.0 - level), 1.0 - _ROWS_PART * (1.0 - level)
    if isinstance(publisher, WorkloadPublisher):
        return publisher.counted(group, level, of_rows)
    added, own = added_noise(publisher), len(group)
    assert isinstance(publisher, MechanismPublisher)
    assert added is not None
    if added.noise.curve is Curve.QUADRATIC:
        far = gaussian_reach(of_rows) * math.sqrt(own) * added.noise.scale
    else:
        far = float(laplace_radius([own * added.noise.scale**2], [added.noise.scale], of_rows)[0])
    values = np.array([each[0] for each in group])
    lower, upper = replace(publisher, level=level).intervals(values)
    return lower, upper, max(float(values.sum()) + far + own * added.slack, 0.0)


def expected_counts(
    lower: Floats, upper: Floats, rows: float, sampled: SampledCounts, level: float
) -> tuple[Floats, Floats]:
    """What is to be expected of as many rows as there are, `rows` at most, by the ends of intervals for the counts.

    A count of expectation x is at least x + 1, or at most x - 1, no more often than a binomial one of more rows and the
    same expectation is [hoeffding1956]: the ends are those of Clopper and Pearson, unless they are nearer to the count
    than 1. Units of up to r rows add r numbers from 0 to 1 each: twice as likely, and rounded outwards [jogdeo1968].

    Guarantee: holds what is expected as often as `level` says, for any number of rows, where `counted` gave the ends.
    """
    from scipy import special  # an import of rangebound stays light

    side, each = (1.0 - _NOISE_PART - _ROWS_PART) * (1.0 - level) / 2.0, float(sampled.rows)
    if sampled.single:
        least, most = np.ceil(lower), np.floor(upper)
    else:
        side, least, most = side / 2.0, np.floor(lower / each), np.ceil(upper / each)
    least, most = np.maximum(least, 0.0), np.maximum(most, 0.0)
    some, more = np.maximum(least, 1.0), most + 1.0
    if rows < _MANY:
        whole = max(math.floor(rows), 1)
        low = whole * special.betaincinv(np.minimum(some, whole), np.maximum(whole - some + 1.0, 1.0), side)
        high = whole * special.betaincinv(np.minimum(more, whole), np.maximum(whole - most, 1.0), 1.0 - side)
        high = np.where(most >= whole, np.maximum(most, whole), high)
    else:
        low, high = special.gammaincinv(some, side), special.gammaincinv(more, 1.0 - side)
    return each * np.minimum(low, np.maximum(least - 1.0, 0.0)), each * np.maximum(high, more)
