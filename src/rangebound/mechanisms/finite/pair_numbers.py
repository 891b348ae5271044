"""What neighbouring rows of a table leak: loss, hockey-stick and Renyi divergence, over all pairs of neighbours.

There are no positions to search: the pairs of neighbouring inputs are finitely many, and each is a sum over the
outputs. Sums of weights are whole numbers and exact; floats only sort out which pairs and outputs need a closer
comparison. With x = e^epsilon, delta is the largest P(A) - x Q(A) over all pairs of neighbours and sets A of outputs.
For one pair the best sets are the outputs with the largest ratios P(y)/Q(y); the points (Q(A), P(A)) of all pairs have
an upper hull, and one of its corners is the best for every x.

A claim is proved by comparing every weight with those of all neighbouring inputs, in whole numbers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from flint import arb, fmpq

from rangebound.errors import ArgumentError, CertificateInvalid, ClaimFalse, Undecided
from rangebound.mechanisms.finite.weights import (
    BINARY_PLACES,
    BITS,
    CLOSE,
    TOTAL,
    Exponential,
    epsilon_private,
    exponential,
    extremes,
)
from rangebound.privacy.proof import Proof, Theorem
from rangebound.privacy.setting import Claim
from rangebound.values.array_types import Floats, Indices, Integers, np, npt
from rangebound.values.ball import ZERO, Ball, ball, precision, up
from rangebound.values.numeric import rounded_down, rounded_up

_CHUNK = 1 << 16  # weights at a time: they stay in the processor's cache
_HULL_CHUNK = 1 << 18
_BELOW = 1024  # units: a point that is less than this above the hull is left out
SLACK = 2.0**-46
"""What outputs of nearly equal ratios in the wrong order, and points that were left out, can add to delta."""
_BITS = 192
_CLOSER = 4096  # pairs that are compared in whole numbers at most
_BEYOND = 45  # binary places: outputs that are too close for floats at a ratio are not at one so much above it
_BLOCK = 4  # inputs whose pairs are looked at together, at least
_LOG_ERROR = 2.0**-44  # of an exponent of a moment, for each unit of the order and one more
_LARGEST_EXPONENT = 600.0  # e^600 and e^-600 are doubles, and so are sums of them
_LOG_TOTAL = math.log(TOTAL)
_ROUNDED = 2.0**-47  # relative: more than the roundings of a term of a Renyi sum, its logarithm and its exponential


class InputPairs(NamedTuple):
    """Ordered pairs of neighbouring inputs, by their numbers."""

    first: Indices
    second: Indices

    def of(self, chosen: npt.NDArray[np.bool_] | Indices) -> InputPairs:
        """Some of them."""
        return InputPairs(self.first[chosen], self.second[chosen])


def neighbours(reach: Integers) -> InputPairs:
    """Every ordered pair of two different neighbouring inputs.

    >>> [each.tolist() for each in neighbours(np.array([1, 2, 2]))]
    [[0, 1, 1, 2], [1, 2, 0, 1]]
    """
    counts = reach - np.arange(len(reach))
    left = np.repeat(np.arange(len(reach)), counts)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    right = left + 1 + np.arange(len(left)) - starts
    return InputPairs(np.concatenate([left, right]), np.concatenate([right, left]))


class Stick(NamedTuple):
    """The hockey-stick divergence of the worst pair at a ratio: P(A) - ratio Q(A), A the outputs where it is positive.

    `mass` and `other` are P(A) and Q(A) in units of 2^-62, and `units` is an upper bound on the divergence, in units of
    2^-222.
    """

    units: int
    mass: int
    other: int
    pair: tuple[int, int]

    @property
    def delta(self) -> float:
        """The divergence, rounded up."""
        return min(rounded_up(Fraction(self.units, TOTAL << BINARY_PLACES)), 1.0)


def worst_ratio(weights: Integers, reach: Integers) -> Fraction | None:
    """The largest ratio of an output's probabilities under neighbouring inputs, exactly; None where it is infinite.

    >>> worst_ratio(np.array([[3, 1], [1, 3]]), np.array([1, 1]))
    Fraction(3, 1)
    """
    largest, smallest = extremes(weights, reach)
    used = largest > 0
    if (used & (smallest == 0)).any():
        return None
    ratios = largest[used] / smallest[used]
    near = np.flatnonzero(ratios >= ratios.max() * (1.0 - CLOSE))
    pairs = np.unique(np.stack([largest[used][near], smallest[used][near]], axis=1), axis=0)
    return max(Fraction(large, small) for large, small in pairs.tolist())


def worst_pair(weights: Integers, reach: Integers) -> tuple[int, int]:
    """Neighbouring inputs with the largest ratio, the one with the larger probability first; some pair if it is 1."""
    largest, smallest = extremes(weights, reach)
    with np.errstate(divide="ignore", invalid="ignore"):  # the difference is exact, also where the ratio is nearly 1
        excess = np.where(largest > 0, (largest - smallest) / smallest, 0.0)
    row, column = np.unravel_index(int(np.argmax(excess)), excess.shape)
    window = weights[row : reach[row] + 1, column]
    return int(row + np.argmax(window)), int(row + np.argmin(window))


def input_profile(weights: Integers, pair: tuple[int, int]) -> Callable[[float], Ball]:
    """The profile of two rows of a table at an epsilon of any sign, exact but for the last of 160 binary places."""
    one = InputPairs(np.array([pair[0]]), np.array([pair[1]]))

    def at(epsilon: float) -> Ball:
        stick = stick_at(weights, one, exponential(Fraction(epsilon)))
        return arb(fmpq(stick.units, TOTAL << BINARY_PLACES)) - arb(0, 2.0**-96)

    return at


def pure_epsilon(weights: Integers, reach: Integers) -> float:
    """The smallest pure epsilon, rounded up; infinite where there is none."""
    ratio = worst_ratio(weights, reach)
    return math.inf if ratio is None else logarithm(ratio)


def logarithm(ratio: Fraction) -> float:
    """ln of a fraction of at least 1, rounded up.

    >>> logarithm(Fraction(1)), logarithm(Fraction(3)) >= math.log(3)
    (0.0, True)
    """
    with precision(_BITS):
        return max(up(arb(fmpq(ratio.numerator, ratio.denominator)).log()), 0.0)


def stick_at(weights: Integers, pairs: InputPairs, ratio: Exponential) -> Stick:
    """The worst of the pairs at a ratio, e^epsilon.

    For every pair, floats choose the outputs A with P(y) > ratio Q(y), and P(A) and Q(A) are summed in whole numbers.
    An output that is too close for floats counts towards a bound on what they may have missed. Only pairs that may be
    the worst by that bound are compared in whole numbers.

    Guarantee: never below the largest divergence, and at most 2^-100 above it; unless more than 4,096 pairs are within
    2^-48 of the worst and close for floats, in which case it is at most 2^-48 above.
    """
    masses, others, missed = _sums(weights, pairs, ratio.double)
    value = masses - ratio.double * others
    noise = 2.0**-50 * (masses + ratio.double * others)
    best = Stick(0, 0, 0, (0, 0))
    order = np.argsort(-(value + missed + noise), kind="stable")
    bound = (value + missed + noise)[order]
    floor = -1.0
    for rank, at in enumerate(order.tolist()):
        if bound[rank] <= floor:
            break
        i, j = int(pairs.first[at]), int(pairs.second[at])
        mass, other = int(masses[at]), int(others[at])
        spare = 0
        if missed[at]:
            if rank < _CLOSER:
                both = zip(weights[i].tolist(), weights[j].tolist(), strict=True)
                inside = [(one, two) for one, two in both if not ratio.at_most(one, two)]
                mass, other = sum(one for one, _ in inside), sum(two for _, two in inside)
            else:
                spare = math.ceil(missed[at]) << BINARY_PLACES
        units = (mass << BINARY_PLACES) - ratio.lower * other + spare
        if units > best.units:
            best = Stick(units, mass, other, (i, j))
        floor = max(floor, float(value[at] - noise[at]))
    return best


def _sums(weights: Integers, pairs: InputPairs, ratio: float) -> tuple[Integers, Integers, Floats]:
    """P(A) and Q(A) of every pair, and how much floats may have missed by putting an output on the wrong side."""
    count = len(pairs.first)
    masses, others, missed = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    step = max(_CHUNK // weights.shape[1], 1)
    for start in range(0, count, step):
        here = slice(start, start + step)
        p, q = weights[pairs.first[here]], weights[pairs.second[here]]
        scaled = ratio * q
        inside = p > scaled
        masses[here] = np.where(inside, p, 0).sum(axis=1)
        others[here] = np.where(inside, q, 0).sum(axis=1)
        near = np.abs(p - scaled) <= CLOSE * p
        near &= p > 0
        missed[here] = np.where(near, p, 0).sum(axis=1) * (2.0 * CLOSE) if near.any() else 0.0
    return masses, others, missed


def delta_at(weights: Integers, reach: Integers, epsilon: Fraction) -> float:
    """The smallest delta at epsilon over all pairs of neighbours, rounded up."""
    worst = worst_ratio(weights, reach)
    bound = exponential(epsilon)
    if worst is not None and bound.at_most(worst.numerator, worst.denominator):
        return 0.0
    return stick_at(weights, neighbours(reach), bound).delta


def epsilon_at(weights: Integers, reach: Integers, delta: float) -> float:
    """The smallest epsilon at delta over all pairs of neighbours, rounded up; infinite where there is none.

    delta as a function of x = e^epsilon is the largest of finitely many falling lines P(A) - x Q(A), so Newton's
    method from x = 1 rises to the solution and ends on the line that crosses delta last.
    Where `stick_at` is above the divergence, so is this: by 2^-44 at most, and never above the pure epsilon.
    """
    pure = pure_epsilon(weights, reach)
    if delta == 0.0:
        return pure
    goal = math.floor(Fraction(delta) * (TOTAL << BINARY_PLACES))
    pairs, units = neighbours(reach), 1 << BINARY_PLACES
    while True:
        found = stick_at(weights, pairs, Exponential(units, units / (1 << BINARY_PLACES)))
        if found.units <= goal:
            return min(logarithm(Fraction(units, 1 << BINARY_PLACES)), pure)
        above = (found.mass << BINARY_PLACES) - goal - units * found.other
        if above <= 0:  # only what floats may have missed is above the goal; it is near this ratio
            units += (units >> _BEYOND) + 1
        elif found.other:
            units += -(above // -found.other)
        else:
            return math.inf


def renyi_at(weights: Integers, reach: Integers, order: float) -> float:
    """The largest Renyi divergence of an order above 1 over all pairs of neighbours, rounded up.

    With L the privacy loss of an output, it is ln E_P[e^((a-1) L)] / (a-1). Where all (a-1) L are small the sum is one
    of expm1((a-1) L), so that nothing cancels. Only pairs that may be the worst are summed that way: the moments of all
    pairs, with a bound on their errors, are a product of two matrices.
    """
    if math.isinf(order):
        return pure_epsilon(weights, reach)
    largest, smallest = extremes(weights, reach)
    if ((largest > 0) & (smallest == 0)).any():
        return math.inf
    pairs, worst = _contenders(weights, reach, order), 0.0
    step = max(_CHUNK // weights.shape[1], 1)
    for start in range(0, len(pairs.first), step):
        here = slice(start, start + step)
        worst = max(worst, _renyi(weights[pairs.first[here]], weights[pairs.second[here]], order - 1.0))
    return worst


def _contenders(weights: Integers, reach: Integers, order: float) -> InputPairs:
    """The pairs of neighbours whose Renyi divergence may be the largest; neighbours have their zeros in common.

    Guarantee: the pair with the largest divergence is one of them.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    size = max(int((reach - np.arange(len(reach))).max()), _BLOCK)
    found, least = [], -math.inf
    for start in range(0, len(reach), size):
        block = reach[start : start + size] - start
        local = np.arange(int(block[-1]) + 1)
        local[: len(block)] = block  # pairs that begin in this block; inputs beyond it are only their second
        pairs = neighbours(local)
        moments = _log_moments(logs[start : start + len(local)], order)
        error = (order + 1.0) * _LOG_ERROR + (weights.shape[1] + 4.0) * 2.0**-51
        values = np.full(len(pairs.first), math.inf) if moments is None else moments[pairs.first, pairs.second]
        least = max(least, float(np.max(values, initial=-math.inf, where=np.isfinite(values))) - error)
        found.append((InputPairs(pairs.first + start, pairs.second + start), values + error))
    kept = [pairs.of(upper >= least) for pairs, upper in found]
    return InputPairs(np.concatenate([each.first for each in kept]), np.concatenate([each.second for each in kept]))


def _log_moments(logs: Floats, order: float) -> Floats | None:
    """ln of sum over y of p^a q^(1-a) for all rows p and q of logarithms, but for a constant; None beyond doubles.

    Every output has a unit of its own, s, halfway between its largest and its smallest weight: the terms are
    s (p/s)^a (q/s)^(1-a). A logarithm is at most 43 and off by 2^-47, and so is each difference of two; hence the
    exponents are off by less than (a + 1) 2^-44 together. Sums of positive terms are off by 2^-52 for each of them.
    """
    used = np.isfinite(logs)
    ever = used.any(axis=0)
    top, bottom = np.where(ever, logs.max(axis=0), 0.0), np.where(used, logs, math.inf).min(axis=0)
    unit = 0.5 * (top + np.where(ever, bottom, 0.0))
    offset = np.where(used, logs - unit, 0.0)
    if order * float(np.abs(offset).max()) > _LARGEST_EXPONENT:
        return None
    first = np.where(used, np.exp(order * offset + unit - _LOG_TOTAL), 0.0)
    second = np.where(used, np.exp((1.0 - order) * offset), 0.0)
    with np.errstate(divide="ignore", over="ignore"):  # of rows that are not neighbours, or are worth a closer look
        found: Floats = np.log(first @ second.T)
    return found


def _renyi(p: Integers, q: Integers, power: float) -> float:
    """The largest divergence of rows of weights, in doubles, with more than their errors added."""
    used = p > 0
    if (used & (q == 0)).any():
        return math.inf
    one, two = np.where(used, p, 1), np.where(used, q, 1)
    # The logarithm of 1 + (p - q)/q where that is near 1, since p - q is exact; of p/q where it is far from 1.
    close = np.abs(one - two) <= two // 2
    z = power * np.where(close, np.log1p(np.where(close, one - two, 0) / two), np.log(one / two))
    chances = p / float(TOTAL)
    top = z.max(axis=1)
    with np.errstate(over="ignore"):
        small = (chances * np.expm1(np.minimum(z, 1.0))).sum(axis=1)
        wrong = (chances * np.abs(z) * np.exp(np.clip(z, 0.0, 1.0))).sum(axis=1) * _ROUNDED
    near = np.log1p(np.maximum(small + wrong, 0.0))
    far = top + np.log((chances * np.exp(z - top[:, None])).sum(axis=1))
    far = far + _ROUNDED * (1.0 + np.abs(z).max(axis=1))
    values = np.where(top <= 1.0, near, far) / power * (1.0 + _ROUNDED)
    return float(values.max(initial=0.0))


@dataclass(frozen=True)
class ProfileHull:
    """The profile at every epsilon at once: the corners of the hull, Q(A) and P(A) in units of 2^-62, both rising, and
    the slopes between them, falling.
    """

    others: tuple[int, ...]
    masses: tuple[int, ...]
    slopes: tuple[float, ...]

    def delta(self, epsilon: float) -> Ball:
        """An upper bound on delta at epsilon, at most 2^-46 above it, at the precision in force."""
        x = ball(epsilon).exp()
        level = float(x.mid())
        near = bisect_left(self.slopes, -level, key=lambda slope: -slope)  # the first corner with a flatter slope after
        best = ZERO
        for i in range(max(near - 1, 0), min(near + 2, len(self.masses))):
            best = best.max((ZERO + self.masses[i] - x * self.others[i]) / 2**BITS)
        return best + ball(SLACK)


def profile_hull(weights: Integers, reach: Integers) -> ProfileHull:
    """The hull of all pairs of neighbours, in both directions.

    >>> flip = np.array([[3 << 60, 1 << 60], [1 << 60, 3 << 60]])
    >>> hull = profile_hull(flip, np.array([1, 1]))
    >>> float(hull.delta(0.0).mid()), hull.slopes[0]
    (0.5, 3.0)
    """
    pairs = neighbours(reach)
    corners = [(0, 0), (TOTAL, TOTAL)]
    step = max(_HULL_CHUNK // weights.shape[1], 1)
    for start in range(0, len(pairs.first), step):
        here = slice(start, start + step)
        p, q = weights[pairs.first[here]], weights[pairs.second[here]]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(p > 0, p / q, 0.0)
        order = np.argsort(-ratios, axis=1)
        masses = np.cumsum(np.take_along_axis(p, order, axis=1), axis=1).reshape(-1)
        others = np.cumsum(np.take_along_axis(q, order, axis=1), axis=1).reshape(-1)
        known: Floats = np.interp(others, [x for x, _ in corners], [y for _, y in corners])
        above = masses > known + _BELOW
        fresh = np.unique(np.stack([others[above], masses[above]], axis=1), axis=0)
        corners = _hull(sorted({*corners, *map(tuple, fresh.tolist())}))
    others_of, masses_of = zip(*corners, strict=True)
    slopes = tuple(float(Fraction(y1 - y0, x1 - x0)) for (x0, y0), (x1, y1) in pairwise(corners))
    return ProfileHull(tuple(others_of), tuple(masses_of), slopes)


def _hull(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The upper hull of points in rising order, by whole-number cross products; of equal abscissae the highest."""
    kept: list[tuple[int, int]] = []
    for x, y in points:
        if kept and kept[-1][0] == x:
            kept.pop()
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2], kept[-1]
            if (x1 - x0) * (y - y0) < (y1 - y0) * (x - x0):
                break
            kept.pop()
        kept.append((x, y))
    return kept


WORK = 400_000_000
"""Comparisons of two weights that the check of a claim with a delta may take: about ten seconds."""


def check(weights: Integers, reach: Integers, claim: Claim, proof: Proof) -> None:
    """Compare all weights again; raises CertificateInvalid where that does not prove the claim."""
    if proof.theorem is not Theorem.ALL_WEIGHTS:
        raise CertificateInvalid(f"theorem={proof.theorem.name}: does not apply to a table")
    if proof.bits != BINARY_PLACES or proof.cells:
        raise CertificateInvalid(f"bits={proof.bits}: must be {BINARY_PLACES}, without cells")
    if not holds(weights, reach, claim):
        raise CertificateInvalid(f"{claim.terms}: not true of this table")


def refutation(
    weights: Integers, reach: Integers, inputs: tuple[float, ...], claim: Claim, needs: float
) -> ClaimFalse | Undecided:
    """What to raise about a claim that was not proved, where the table `needs` that epsilon: a pair that refutes it.

    The pair is one of inputs, not of true answers: some neighbouring true answers go to them.
    """
    bound = exponential(Fraction(claim.epsilon))
    worst = stick_at(weights, neighbours(reach), bound)
    least = (worst.mass - Fraction(bound.lower + 1, 1 << BINARY_PLACES) * worst.other) / TOTAL
    if least <= Fraction(claim.delta):
        return Undecided(
            f"{claim.terms}: too close to the truth for {BINARY_PLACES} binary places. Claim a little more, such as "
            f"epsilon={needs}",
            lower=claim.epsilon,
            upper=needs,
        )
    i, j = worst_pair(weights, reach) if claim.pure else worst.pair
    pair, delta = (inputs[i], inputs[j]), rounded_down(least)
    # Of the smallest epsilon this is the next double above, so it is not below the one before.
    lower = max(math.nextafter(needs, 0.0) if math.isfinite(needs) else needs, claim.epsilon)
    return ClaimFalse(
        f"{claim.terms}: not true of this table. Neighbouring true answers that go to the inputs {pair[0]} and "
        f"{pair[1]} need epsilon >= {lower} with that delta, or delta >= {delta} with that epsilon",
        pair=pair,
        epsilon=lower,
        delta=delta,
    )


def holds(weights: Integers, reach: Integers, claim: Claim) -> bool:
    """Whether a claim is true; False where it is closer to the truth than 160 binary places."""
    claim = claim.ordinary()
    epsilon = Fraction(claim.epsilon)
    if epsilon_private(weights, reach, epsilon):
        return True
    if claim.pure:
        return False
    pairs = 2 * int((reach - range(len(reach))).sum())
    if pairs * weights.shape[1] > WORK:
        raise ArgumentError(
            f"{claim.terms}: with a delta, {pairs} pairs of inputs are compared at {weights.shape[1]} outputs each, "
            f"and a check may take at most {WORK} comparisons"
        )
    return delta_at(weights, reach, epsilon) <= claim.delta
