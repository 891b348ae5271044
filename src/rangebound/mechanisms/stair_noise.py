"""Staircase noise in whole steps, exactly: its probabilities in balls, the privacy of its worst pair, and its draw.

With `steps` = k steps to a sensitivity, `plateau` = r steps to the first stair and rho = e^-epsilon, the noise X has

    P(X = x) = a rho^level(|x|),  level(i) = floor((i + k - r) / k),  a = (1 - rho) / ((2 r - 1)(1 - rho) + 2 k rho).

So P(X >= m + k) = rho P(X >= m) for m >= 0, and every sum over tails is that of one period times a geometric series.
All terms are positive, so nothing cancels in `StairSums`, which has masses, tails and partial moments over arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

from flint import arb, fmpq

from rangebound.values.array_types import Floats, np, npt
from rangebound.values.ball import Ball, precision, refine, up
from rangebound.values.numeric import rounded_up

_FIRST, _MORE, _GUARD = 128, 64, 128  # bits of the first comparison, of every further one, and of precision beyond
_LEAST = 2**64  # first bits from here on say a uniform number to 2^-64 of itself
_LOG_2 = math.log(2.0)
_SAFE = 2.0**-40  # doubles are off by far less: a logarithm, a sum and a product, each by a few times 2^-53


def magnitude(scale: float | Fraction, bits: Bits) -> int:
    """|X| drawn exactly: floor(-scale ln(u (1 + r) / 2)), not below 0, for a uniform u that is known as far as needed.

    Doubles decide where this is farther from a whole number than all they can be off by, ball arithmetic elsewhere. A
    scale that is not a double is rounded to one for the former alone, which is off by far less than they allow for.
    """
    known = bits(_FIRST)
    found = _floor_of_doubles(float(scale), known)
    return _floor_of_balls(scale, known, bits) if found is None else max(found, 0)


def _floor_of_doubles(scale: float, known: int) -> int | None:
    """The same for all u whose first bits these are; None where doubles might be wrong about it."""
    if known < _LEAST:
        return None
    uniform = math.log(known) - _FIRST * _LOG_2
    value = -scale * (uniform + math.log((1.0 + math.exp(-1.0 / scale)) / 2.0))
    unsure = _SAFE * (scale * (1.0 - uniform) + 1.0)
    found = math.floor(value - unsure)
    return found if found == math.floor(value + unsure) else None


def _floor_of_balls(scale: float | Fraction, known: int, bits: Bits) -> int:
    """The same, with more bits of u where they are needed.

    u lies between two neighbouring fractions of 2^n; if both give the same whole number in ball arithmetic, that is the
    answer, else more bits of u are drawn.
    """
    size = _FIRST
    while True:
        with precision(size + _GUARD):
            rate = 1 / (arb(fmpq(scale.numerator, scale.denominator)) if isinstance(scale, Fraction) else arb(scale))
            half = ((1 + (-rate).exp()) / 2).log()
            found = {_floor(known + end, size, half, rate) for end in (0, 1)}
        if len(found) == 1 and None not in found:
            (only,) = found
            assert only is not None
            return max(only, 0)
        size, known = size + _MORE, known << _MORE | bits(_MORE)


def _floor(numerator: int, size: int, half: Ball, rate: Ball) -> int | None:
    """The whole number below -(ln u + half) / rate, if the ball around it has just one."""
    if numerator == 0:
        return None
    value = -(arb(fmpq(numerator, 1 << size)).log() + half) / rate
    low, high = value.lower().floor(), value.upper().floor()
    return int(str(low.unique_fmpz())) if low == high else None


_GONE = 800.0  # e^-800 is zero in doubles: tails beyond this many levels add nothing
_SERIES = 0.01  # below it a sum of j rho^j is taken as a series, above it the closed form loses less than 1e-11


@dataclass(frozen=True)
class StairSums:
    """Sums over staircase noise with `steps` steps to a level, `plateau` to the first one, and the level ratio e^-rate.

    >>> round(float(StairSums(1, 1, 1.0).mass(np.asarray(0.0))), 6)  # discrete Laplace noise of scale 1
    0.462117
    """

    steps: int
    plateau: int
    rate: float

    @cached_property
    def rho(self) -> float:
        """The ratio of the masses of two successive levels."""
        return math.exp(-self.rate)

    @cached_property
    def top(self) -> float:
        """P(X = 0), the largest mass."""
        loss = -math.expm1(-self.rate)
        return loss / ((2 * self.plateau - 1) * loss + 2.0 * self.steps * self.rho)

    @cached_property
    def _tails(self) -> Floats:
        """P(X >= m) for m = 0, ..., k: the sum of the masses from m to k - 1 and of all periods after."""
        weights = np.where(np.arange(self.steps) < self.plateau, 1.0, self.rho)
        rest = weights.sum() * self.rho / -math.expm1(-self.rate)
        inside = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
        found: Floats = self.top * (inside + rest)
        return found

    @cached_property
    def _firsts(self) -> Floats:
        """The sum of P(X >= m) over m = 1, ..., s, for s = 0, ..., k."""
        return np.append(0.0, np.cumsum(self._tails[1:]))

    @cached_property
    def _seconds(self) -> Floats:
        """The sum of (2 m - 1) P(X >= m) over m = 1, ..., s, for s = 0, ..., k."""
        return np.append(0.0, np.cumsum((2.0 * np.arange(1, self.steps + 1) - 1.0) * self._tails[1:]))

    def mass(self, place: Floats) -> Floats:
        """P(X = place), for whole numbers."""
        level = np.floor((np.abs(place) + (self.steps - self.plateau)) / self.steps)
        return self.top * np.exp(-self.rate * level)

    def tail(self, place: Floats) -> Floats:
        """P(X >= place), for whole numbers from 0 on."""
        level, within = self._split(place)
        found: Floats = np.exp(-self.rate * level) * self._tails[within]
        return found

    def first(self, room: Floats) -> Floats:
        """E min(X+, room), for whole numbers from 0 on, or infinity."""
        level, within = self._split(room)
        found: Floats = self._firsts[-1] * self._series(level) + np.exp(-self.rate * level) * self._firsts[within]
        return found

    def second(self, room: Floats) -> Floats:
        """E min(X+, room)^2, for whole numbers from 0 on, or infinity."""
        level, within = self._split(room)
        whole = self._seconds[-1] * self._series(level) + 2.0 * self.steps * self._firsts[-1] * self._rising(level)
        part = self._seconds[within] + 2.0 * self.steps * level * self._firsts[within]
        found: Floats = whole + np.exp(-self.rate * level) * part
        return found

    def _split(self, place: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Whole periods and the steps left over; places where nothing is left are all one."""
        near = np.minimum(place, self.steps * math.ceil(_GONE / self.rate))
        level = np.floor(near / self.steps)
        return level, np.clip(near - level * self.steps, 0, self.steps).astype(np.int64)

    def _series(self, level: Floats) -> Floats:
        """The sum of rho^j over j < level."""
        return np.expm1(-self.rate * level) / math.expm1(-self.rate)

    def _rising(self, level: Floats) -> Floats:
        """The sum of j rho^j over j < level."""
        loss = -math.expm1(-self.rate)
        far = (
            self.rho * self._series(np.maximum(level - 1.0, 0.0)) - (level - 1.0) * np.exp(-self.rate * level)
        ) / loss
        last = level - 1.0
        powers = [
            last * level / 2.0,
            last * level * (2.0 * last + 1.0) / 6.0,
            (last * level / 2.0) ** 2,
            last * level * (2.0 * last + 1.0) * (3.0 * last * level - 1.0) / 30.0,
            (last * level) ** 2 * (2.0 * last * level - 1.0) / 12.0,
        ]
        near = sum((-self.rate) ** i / math.factorial(i) * each for i, each in enumerate(powers))
        return np.where(level <= 0.0, 0.0, np.where(self.rate * level < _SERIES, near, far))


def best_plateau(steps: int, rate: float, squared: bool) -> int:
    """The plateau, in steps, of the staircase noise with the smallest mean absolute (or squared) error on the line.

    Guarantee: the smallest over all whole numbers from 1 to `steps`, up to the last digits of doubles. In the limit
    of small steps the share of the plateau is 1 / (1 + e^(epsilon / 2)) for the absolute error [geng2016].

    >>> best_plateau(1, 1.0, False), best_plateau(1000, 2.0, False)
    (1, 269)
    """
    rho, loss = math.exp(-rate), -math.expm1(-rate)
    place = np.arange(steps, dtype=np.float64)
    # Over one period i < k and the levels j: sums of rho^j (i + j k), or of its square.
    zero, one, two = 1.0 / loss, rho / loss**2, rho * (1.0 + rho) / loss**3
    sums = place * zero + steps * one
    if squared:
        sums = place**2 * zero + 2.0 * steps * place * one + steps**2 * two
    high, low = np.cumsum(sums), sums.sum()
    plateau = np.arange(1, steps + 1)
    top = 1.0 / (2 * plateau - 1 + 2.0 * steps * rho / loss)
    return int(plateau[np.argmin(top * (high + rho * (low - high)))])


_LARGEST = 10**300  # of the rates that are written as doubles
_STEEPEST = 1000.0  # e^-1000 is zero in doubles, and so is what a steeper rate leaves beyond the plateau

Bits = Callable[[int], int]


@dataclass(frozen=True)
class StairNoise:
    """Noise X in whole steps, P(X = x) in proportion to e^(-rate level), level = floor((|x| + k - plateau) / k).

    k is `steps`. True answers of neighbouring datasets are at most d = levels * k steps apart. With k = 1 and plateau 1
    it is discrete Laplace noise, with levels = 1 staircase noise: one of `steps` and `levels` is 1.

    Let rho = e^-rate. The privacy loss of the outcome x between answers d apart, in units of the rate, is `levels` for
    x <= 0, -levels for x >= d, and levels - 2 j - [i >= plateau] - [i > k - plateau] for x = j k + i between,
    0 <= i < k. So it never rises with x, and the best tests are half-lines: with s = min(plateau, k - plateau + 1),
    those up to j k + s - 1 for j < levels. (Where k = 1 these are all; where levels = 1 the other outcomes between have
    loss 0.) With M = P(X <= s - 1) their probabilities are

        P(X <= j k + s - 1) = 1 - rho^j (1 - M),    P(X + d <= j k + s - 1) = rho^(levels - j) M.

    Answers that are closer leak less. With levels = 1 the loss of a pair j <= k steps apart is -rate, 0 or rate, since
    a level changes by at most one. Where it is rate for j, it is for k: for x <= 0 always, for 0 < x < k if
    x < plateau <= k - x, for x >= k never. So the pair at k steps is the worst in every sense, and its outcomes of loss
    rate are a half-line, which clamping leaves as it is, as long as both answers lie in the support.
    """

    steps: int
    plateau: int
    levels: int
    rate: Fraction

    @property
    def pure(self) -> Fraction:
        """The pure epsilon."""
        return self.levels * self.rate

    @cached_property
    def sums(self) -> StairSums:
        """Masses, tails and partial moments, in doubles."""
        return StairSums(self.steps, self.plateau, float(self.rate) if self.rate < _STEEPEST else _STEEPEST)

    def mass(self, place: int) -> Ball:
        """P(X = place)."""
        return self._top * (-_exact(self.rate) * ((abs(place) + self.steps - self.plateau) // self.steps)).exp()

    def tail(self, place: int) -> Ball:
        """P(X >= place)."""
        if place < 0:
            return 1 - self.tail(1 - place)
        rate, k, r = _exact(self.rate), self.steps, self.plateau
        rho, loss = (-rate).exp(), -(-rate).expm1()
        level, within = divmod(place, k)
        inside = max(r - within, 0) + (k - max(within, r)) * rho
        return self._top * (inside + (r + (k - r) * rho) * rho / loss) * (-rate * level).exp()

    @property
    def _top(self) -> Ball:
        """P(X = 0)."""
        rate = _exact(self.rate)
        loss = -(-rate).expm1()
        return loss / ((2 * self.plateau - 1) * loss + 2 * self.steps * (-rate).exp())

    @property
    def _most(self) -> Ball:
        """M: the probability of the largest loss, where answers are one level apart."""
        return (1 + (2 * min(self.plateau, self.steps - self.plateau + 1) - 1) * self._top) / 2

    def cut(self, j: int) -> tuple[Ball, Ball]:
        """P(X > c) and P(X + d <= c) for the half-line up to c = j k + s - 1."""
        rate, most = _exact(self.rate), self._most
        return (-rate * j).exp() * (1 - most), (-rate * (self.levels - j)).exp() * most

    def _best(self, epsilon: Fraction) -> int:
        """The j of the half-line that leaks most: the last of those whose loss is above epsilon."""
        return max(math.ceil((self.levels - epsilon / self.rate) / 2) - 1, 0)

    def near(self, epsilon: float, far: int) -> list[int]:
        """The half-line that leaks most, and up to `far` of them on either side."""
        best = self._best(Fraction(epsilon))
        return [best, *range(max(best - far, 0), best), *range(best + 1, min(best + far + 1, self.levels))]

    def _leaked(self, j: int, epsilon: Ball) -> Ball:
        """What the half-line j leaks."""
        rate, most = _exact(self.rate), self._most
        return 1 - (-rate * j).exp() * (1 - most) - (epsilon - rate * (self.levels - j)).exp() * most

    def profile(self, epsilon: Ball) -> Ball:
        """The privacy profile as a ball, for an epsilon between 0 and the pure one that is one number.

        Every half-line is a lower bound, so that one next to the best does no harm.
        """
        best = math.ceil(float((self.levels - epsilon / _exact(self.rate)).mid()) / 2)
        near = range(max(best - 2, 0), min(best, self.levels - 1) + 1) or range(1)
        found = [self._leaked(j, epsilon) for j in near]
        for each in found[1:]:
            found[0] = found[0].max(each)
        return found[0]

    def delta(self, epsilon: float) -> float:
        """The privacy profile, rounded up."""
        exact = Fraction(epsilon)
        if exact >= self.pure:
            return 0.0
        return min(up(refine(lambda: self._leaked(self._best(exact), arb(epsilon)))), 1.0)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that holds with this delta, rounded up.

        The profile is the largest of `_leaked(j, epsilon)` over j. Its own j grows as epsilon falls past the breaks;
        the first j at whose lower break the profile is above `delta` is found by bisection, the equation solved there
        and, in case a comparison was too close to tell, at its neighbours.
        """
        if delta == 0.0:
            return rounded_up(self.pure)
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0, (self.levels - 1) // 2
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._exceeds(middle, delta) else (middle + 1, high)
        near = range(max(low - 1, 0), min(low + 1, (self.levels - 1) // 2) + 1)
        return max(0.0, *(up(refine(partial(self._solved, j, delta))) for j in near))

    def _exceeds(self, j: int, delta: float) -> bool:
        """Whether the profile is above `delta` where j + 1 begins not to count."""
        last = max(self.levels - 2 * j - 2, 0)
        return bool(refine(lambda: self._leaked(j, _exact(last * self.rate)) - arb(delta)) > 0)

    def _solved(self, j: int, delta: float) -> Ball:
        """The epsilon at which `_leaked` is delta, or 0."""
        rate, most = _exact(self.rate), self._most
        inner = 1 - arb(delta) - (-rate * j).exp() * (1 - most)
        return (inner / most).log() + rate * (self.levels - j) if inner > 0 else arb(0)

    def divergence(self, order: float) -> float:
        """The largest Renyi divergence of one order, rounded up."""
        if math.isinf(order):
            return self.epsilon(0.0)
        return min(up(refine(lambda: self._excess(arb(order)).log1p() / (arb(order) - 1))), self.epsilon(0.0))

    @property
    def information(self) -> Ball:
        """The chi^2 divergence between the laws at answers that are one level apart."""
        return replace(self, levels=1)._excess(arb(2))

    def _excess(self, order: Ball) -> Ball:
        """The moment of a likelihood ratio less 1: the sum of p(x)^order p(x - d)^(1 - order), which is 1 at order 1.

        Of the loss `levels` there is the probability M, of its negative M rho^levels, and (2 M - 1) rho^j of
        levels - 2 j between: a geometric sum. The rest, 1 - M (1 + rho) times rho^j, has the loss levels - 2 j - 1.
        That is nothing where k = 1, and has no loss where levels = 1.
        """
        rate, most, m = _exact(self.rate), self._most, self.levels
        high, low = ((order - 1) * rate * m).expm1(), (-(order - 1) * rate * m).expm1()
        ends = most * high + most * (-rate * m).exp() * low
        if m == 1:
            return ends
        ratio, rho = -rate * (2 * order - 1), (-rate).exp()
        moments = (high + 1) * (ratio.exp() - (ratio * m).exp()) / -ratio.expm1()
        return ends + (2 * most - 1) * (moments - (rho - (-rate * m).exp()) / -(-rate).expm1())

    @cached_property
    def _scale(self) -> float | Fraction:
        """1 / rate, exactly; as a double if it is one, which is faster."""
        exact = 1 / self.rate
        return float(exact) if exact <= _LARGEST and Fraction(float(exact)) == exact else exact

    def draw(self, bits: Bits) -> int:
        """X, drawn exactly.

        A level of either sign is drawn with probability proportional to e^(-rate |level|), and an offset from as many
        as the widest level has places. Level 0 has 2 plateau - 1 places, every other one k; an offset beyond is drawn
        again, with its level. So every place has a probability in proportion to that of its level.
        """
        k, first = self.steps, self.plateau
        while True:
            level = magnitude(self._scale, bits) * (1 - 2 * bits(1))
            offset = _uniform(max(k, 2 * first - 1), bits)
            if level == 0 and offset < 2 * first - 1:
                return offset - (first - 1)
            if level and offset < k:
                size = (abs(level) - 1) * k + first + offset
                return size if level > 0 else -size


def _uniform(count: int, bits: Bits) -> int:
    """A whole number below `count`, each equally likely."""
    size = (count - 1).bit_length()
    while True:
        found = bits(size) if size else 0
        if found < count:
            return found


def _exact(value: Fraction) -> Ball:
    return arb(fmpq(value.numerator, value.denominator))
