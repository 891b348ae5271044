"""The privacy profile of an epoch in which each person takes part in one of T steps, chosen at random.

Let mu be the sensitivity over the scale of the Gaussian noise of a step. An epoch with a person against one without is
dominated by the pair P, Q of laws of T numbers [chua2025]: under Q all are standard normal, under P one of them, each
with probability 1/T, has mean mu. (Given the other people, a step moves by at most the sensitivity, in a direction
that may depend on what came before; it is a function of its number and of fresh noise, the same under P and Q.) Their
likelihood ratio is a mean of independent lognormal numbers,

    L = (Y_1 + ... + Y_T)/T,   Y = e^(mu Z - mu^2/2),   H_x(P || Q) = E_Q (L - x)+,   H_x(Q || P) = E_Q (1 - x L)+.

Both are expectations under Q of convex functions of L that are not negative, so they only grow if the law of the sum is
replaced by an upper bound in convex order (`lognormal_sum`). Where a sum was cut off, the first is at most the mean of
L and the second at most 1: what is lost counts with an infinite privacy loss.

**The law of a sum of independent lognormal numbers**, on a grid of equal ratios, bounded from above in convex order. A
law is a row of masses at 0 and at the points e^(step i). It is an upper bound of the true one for every function that
is convex and not negative: its expectation is no smaller. That stays so

- if a mass between two points goes to these such that its mean stays (Jensen);
- if a mass becomes larger, as by rounding up;
- for the sum of two independent numbers, each with such a bound: given one of them, the function is convex in the
  other.

The sum of e^(step i) and e^(step j) is e^(step max(i, j)) times a number that depends on |i - j| alone, so the splits
of all sums are one short table, found in balls. All terms are positive, so the round-off of a mass is relative to it:
far out in the tails as many digits are known as in the middle. The more summands there are, the narrower the law is and
the finer its grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from rangebound.accounting.pld.step_profile import Profile
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values.array_types import Floats
from rangebound.values.ball import Ball, ball, precision, up

_LARGEST = 15.0  # mu: beyond, the numbers of an epoch are too large for doubles
_SMALLEST = 1e-9  # mu: below, the points of an epoch are too near to each other, and a larger mu leaks no less
_BITS = 128
_ERROR = 1e-12  # relative, of running sums, their weights and the exponential function; and of a loss
_POINTS = 3000  # of a grid, about
_FINEST = 2.0**-40  # step
_TAIL = 1e-32  # what a cut leaves out, at most
_LOWEST = -12.0  # deviations: what is below becomes 0 or the first point
_SUM_BITS = 160
_BLOCK = 64  # distances that are added up before they are added to all
_UNIT = 2.0**-53


class AllocationProfile:
    """Upper bounds on the profile of an epoch at every epsilon from 0 on, in both directions.

    >>> one, many = AllocationProfile(1.0, 1), AllocationProfile(1.0, 100)
    >>> round(float(one.forth(1.0).mid()), 4), round(float(many.forth(0.2).mid()), 4)
    (0.1269, 0.0046)
    """

    def __init__(self, mu: float, steps: int) -> None:
        law = lognormal_sum(mu, steps)
        self.lost = law.lost
        self._losses = law.logarithms - math.log(steps)
        ratios = np.exp(law.logarithms) / steps
        self._above = [running_sums(each[::-1])[::-1] for each in (law.mass * ratios, law.mass)]
        self._below = [running_sums(each) + zero for each, zero in ((law.mass, law.zero), (law.mass * ratios, 0.0))]

    def forth(self, epsilon: float) -> Ball:
        """H_x(P || Q) at x = e^epsilon, from the points above x: E_Q (L - x)+."""
        start = int(np.searchsorted(self._losses, epsilon, side="right"))
        near = int(np.searchsorted(self._losses, epsilon - _ERROR))  # they may be above x, by that much
        wrong = 2.0 * _ERROR * float(self._above[0][near]) if near < len(self._losses) else 0.0
        mean, chance = (float(each[start]) if start < len(each) else 0.0 for each in self._above)
        return ball(min(max(mean - math.exp(epsilon) * chance, 0.0) + wrong + self.lost, 1.0))

    def back(self, epsilon: float) -> Ball:
        """H_x(Q || P) at x = e^epsilon, from the points below 1/x: E_Q (1 - x L)+."""
        end = int(np.searchsorted(self._losses, -epsilon)) - 1
        near = int(np.searchsorted(self._losses, -epsilon + _ERROR, side="right")) - 1
        if end < 0:
            return ball(min(float(self._below[0][max(near, 0)]) + self.lost, 1.0))
        chance, mean = (float(each[end]) for each in self._below)
        wrong = 2.0 * _ERROR * float(self._below[0][near])
        return ball(min(max(chance - math.exp(epsilon) * mean, 0.0) + wrong + self.lost, 1.0))


_profile = lru_cache(maxsize=16)(AllocationProfile)


def allocated(plain: Profile, mechanism: Mechanism, steps: int) -> Profile:
    """The profile of an epoch of this many steps of Gaussian noise on the line; `plain` is that of one such step.

    An epoch leaks no more than the step in which the person is, since which one it is only adds uncertainty: the
    smaller bound counts.
    """
    with precision(_BITS):
        mu = max(up(ball(mechanism.query.sensitivity) / ball(mechanism.noise.scale)), _SMALLEST)
    if mu > _LARGEST:
        return plain
    found = _profile(mu, steps)

    def at(epsilon: float) -> Ball:
        if epsilon >= 0.0:
            return found.forth(epsilon).min(plain(epsilon))
        return 1 - ball(epsilon).exp() * (1 - found.back(-epsilon).min(plain(-epsilon)))

    return at


@dataclass(frozen=True, kw_only=True)
class SumLaw:
    """Masses of a sum at e^(step (first + i)), i = 0, 1, ..., and at 0; upper bounds, as the module says.

    `lost` bounds what was cut off at the upper end, as `lognormal_sum` says.
    """

    step: float
    first: int
    mass: Floats
    zero: float
    lost: float

    @property
    def logarithms(self) -> Floats:
        """Those of the points, exactly."""
        return self.step * np.arange(self.first, self.first + len(self.mass), dtype=np.float64)


def lognormal_sum(mu: float, count: int) -> SumLaw:
    """An upper bound in convex order on the law of Y_1 + ... + Y_count, Y = e^(mu Z - mu^2/2), Z standard normal.

    `lost` is about what was cut off where a sum of k of the numbers is large: with p and q the mean of that sum there,
    over k, and its probability, it is the sum over all k at which that was done of p + count q / k. There are at most
    count / k such sums. So it bounds the probability that any of them was cut off, and the mean of the whole sum, over
    its number, where one was: of one sum of k numbers that is (k p + (count - k) q) / count.

    >>> found = lognormal_sum(1.0, 100)
    >>> bool(abs(found.mass.sum() - 1) < 1e-9), bool(abs((found.mass * np.exp(found.logarithms)).sum() - 100) < 1e-7)
    (True, True)
    """
    sums = {1: _one(mu, count)}

    def of(number: int) -> SumLaw:
        if number not in sums:
            half = of(number // 2)
            sums[number] = _cut(_added(half, half if number % 2 == 0 else of(number - number // 2)), number, count)
        return sums[number]

    found = of(count)
    # Rounding up makes all probabilities, and the mean, larger than they are: a little, or that much.
    larger = max(found.mass.sum() + found.zero, (found.mass * np.exp(found.logarithms)).sum() / count, 1.0)
    lost = sum(each.lost for each in sums.values()) * float(larger) * (1.0 + 1e-3)
    return replace(found, lost=lost)


def _one(mu: float, count: int) -> SumLaw:
    """One number: each cell of the grid split between its ends."""
    from scipy.special import ndtr

    z = 4.0
    while (lost := float(ndtr(-z) + count * ndtr(-(mu + z)))) > _TAIL:
        z += 0.05
    lowest, highest = mu * _LOWEST - 0.5 * mu * mu, mu * z + 0.5 * mu * mu
    step = 2.0 ** math.ceil(math.log2((highest - lowest) / _POINTS))
    first, last = math.floor(lowest / step), math.ceil(highest / step)
    mass = np.zeros(last - first + 1)
    with precision(_SUM_BITS):
        ratio = ball(step).expm1()
        below = _tails(first * step, mu)
        rest = below[0][1] / ball(first * step).exp()
        zero, mass[0] = up(below[0][0] - rest), up(rest)
        for at in range(last - first):
            above, point = _tails((first + at + 1) * step, mu), ball((first + at) * step).exp()
            sides = (1 if above[0][k] > 0.5 else 0 for k in (0, 1))  # where the difference does not cancel
            chance, mean = ((above[side][k] - below[side][k]) * (1 - 2 * side) for k, side in enumerate(sides))
            right = (mean / point - chance) / ratio
            mass[at] += max(up(chance - right), 0.0)
            mass[at + 1] = max(up(right), 0.0)
            below = above
    return SumLaw(step=step, first=first, mass=mass * (1.0 + 4 * _UNIT), zero=zero, lost=lost * (1.0 + 1e-9))


def _tails(logarithm: float, mu: float) -> tuple[tuple[Ball, Ball], tuple[Ball, Ball]]:
    """The probability of Y below and above a point, each with the part of its mean that lies there."""
    shift, root = ball(mu), ball(2.0).sqrt()
    z = (ball(logarithm) / shift + shift / 2) / root
    moved = z - shift / root
    return ((-z).erfc() / 2, (-moved).erfc() / 2), (z.erfc() / 2, moved.erfc() / 2)


@lru_cache(maxsize=64)
def _splits(step: float, nearest: int, farthest: int) -> tuple[list[int], list[float], list[float]]:
    """How 1 + e^(-step d) lies between two points, for those distances d from `nearest` on at which it passes one.

    The number of the lower point, and the parts that go to the lower and to the upper point, rounded up.
    """
    places, lower, upper = [], [], []
    with precision(_SUM_BITS):
        width, ratio, fall = ball(step), ball(step).expm1(), (-ball(step)).exp()
        small = (-nearest * ball(step)).exp()
        for _ in range(nearest, farthest + 1):
            if small < ratio:
                break
            whole = (small.log1p() / width).lower().floor().unique_fmpz()
            assert whole is not None  # the floor of an exact number
            place = int(whole)
            part = ((1 + small) * (-place * width).exp() - 1) / ratio
            places.append(place)
            lower.append(max(up(1 - part), 0.0))
            upper.append(max(up(part), 0.0))
            small = small * fall
    return places, lower, upper


def _added(one: SumLaw, two: SumLaw) -> SumLaw:
    """The sum of two independent numbers."""
    step = min(one.step, two.step)
    one, two = sorted((_refined(one, step), _refined(two, step)), key=lambda law: law.first)
    p, q, apart = one.mass, two.mass, two.first - one.first
    nearest, farthest = max(apart - len(p) + 1, 0), max(apart + len(q), len(p) - apart) - 1
    places, lower, upper = _splits(step, nearest, farthest)
    far = nearest + len(places)  # from there on the sum lies between the larger number and the next point

    def place(distance: int) -> int:
        return places[distance - nearest] if distance < far else 0

    base = two.first + place(apart)  # the least sum of two points, and above the largest
    top = max(one.first + len(p), two.first + len(q)) + place(abs(apart + len(q) - len(p)))
    found = np.zeros(top - base + 1)
    shifts = range(0 if one is two else max(apart - len(p) + 1, 1 - far), min(apart + len(q), far))
    for begin in range(0, len(shifts), _BLOCK):
        block = np.zeros(len(found))
        for shift in shifts[begin : begin + _BLOCK]:  # of the second number from the first
            i, j = max(apart - shift, 0), max(shift - apart, 0)
            size = min(len(p) - i, len(q) - j)
            pairs = p[i : i + size] * q[j : j + size] * (2.0 if one is two and shift else 1.0)
            d = abs(shift) - nearest
            at = (two.first + j if shift >= 0 else one.first + i) + places[d] - base
            block[at : at + size] += pairs * lower[d]
            block[at + 1 : at + 1 + size] += pairs * upper[d]
        found += block
    for small, large, gap, first in ((p, q, apart, two.first), (q, p, -apart, one.first)):
        start = max(far - gap, 0)  # of the larger numbers that have smaller ones so far away
        if start < len(large):
            away = np.arange(gap + start, gap + len(large))
            reach = np.minimum(away - far, len(small) - 1)
            chance = running_sums(small)[reach]
            means = running_sums(small * np.exp(step * np.arange(len(small), dtype=np.float64)))[reach]
            part = np.minimum(means / (np.exp(step * away.astype(np.float64)) * math.expm1(step)), chance)
            doubt = chance * (64 + 4 * math.isqrt(len(small))) * _UNIT
            at, size = first + start - base, len(large) - start
            found[at : at + size] += large[start:] * (chance - part + doubt)
            found[at + 1 : at + 1 + size] += large[start:] * (part + doubt)
    zero = one.zero * two.zero
    for mass, other, first in ((p, two.zero, one.first), (q, one.zero, two.first)):  # beside a 0
        low = min(max(base - first, 0), len(mass))  # what is below the first point goes there or to 0
        under = mass[:low] * np.exp(step * np.arange(first - base, first - base + low, dtype=np.float64))
        found[first + low - base : first + len(mass) - base] += other * mass[low:]
        found[0] += other * float(under.sum())
        zero += other * float((mass[:low] - under * (1.0 - 1e-14)).sum())
    more = 1.0 + (4 * _BLOCK + 4 * len(shifts) / _BLOCK + 4 * math.isqrt(len(found)) + 64) * _UNIT
    return SumLaw(step=step, first=base, mass=found * more, zero=zero * (1.0 + 1e-12), lost=0.0)


def _cut(law: SumLaw, number: int, count: int) -> SumLaw:
    """The same without the points far out: those above are lost, those below become 0 or the first point that stays."""
    values = np.exp(law.logarithms)
    means, chances = (running_sums(each[::-1])[::-1] for each in (law.mass * values / number, law.mass))
    last = int(np.argmax(means + chances * (count / number) <= _TAIL))
    last = last if last else len(values)
    lost = float(means[last] + chances[last] * (count / number)) if last < len(values) else 0.0
    first = min(int(np.argmax(running_sums(law.mass) > _TAIL)), last - 1)
    mass, small = law.mass[first:last].copy(), law.mass[:first]
    mass[0] += float((small * values[:first]).sum()) / values[first] * (1.0 + 1e-12)
    zero = law.zero + float((small * (1.0 - values[:first] / values[first] * (1.0 - 1e-14))).sum()) * (1.0 + 1e-12)
    step = law.step
    while (2.0 * len(mass) * law.step / step) <= _POINTS and step > _FINEST:
        step /= 2.0
    return _refined(
        SumLaw(step=law.step, first=law.first + first, mass=mass, zero=zero, lost=lost * (1.0 + 1e-9)), step
    )


def _refined(law: SumLaw, step: float) -> SumLaw:
    """The same on a grid with more points between those that there are."""
    times = round(law.step / step)
    if times == 1:
        return law
    mass = np.zeros(times * (len(law.mass) - 1) + 1)
    mass[::times] = law.mass
    return SumLaw(step=step, first=law.first * times, mass=mass, zero=law.zero, lost=law.lost)


def running_sums(values: Floats) -> Floats:
    """Running sums, in two levels, so that the error is that of some hundred additions."""
    side = math.isqrt(len(values)) + 1
    rows = np.zeros(side * side)
    rows[: len(values)] = values
    rows = np.cumsum(rows.reshape(side, side), axis=1)
    rows[1:] += np.cumsum(rows[:-1, -1])[:, None]
    return rows.reshape(-1)[: len(values)]
