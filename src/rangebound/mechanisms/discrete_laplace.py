"""Discrete Laplace noise: whole-number noise for counts, clamped to a support and drawn exactly.

Rounding continuous noise to whole numbers adds a twelfth to its variance; noise that is whole from the start does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from flint import arb

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.error import Error
from rangebound.laws.lattice_law import LatticeLaw
from rangebound.laws.stair_sums import StairSums
from rangebound.privacy.claim import Claim
from rangebound.privacy.risk import MechanismRisk, PairProfile, mirrored
from rangebound.sampling.entropy import secure_bits
from rangebound.sampling.geometric_magnitude import magnitude
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.ball import ZERO, Ball, down, refine, up
from rangebound.values.numeric import rounded_up
from rangebound.values.query import Query
from rangebound.values.serial import number, parse_number
from rangebound.values.support import Interval, is_line

_LARGEST_SCALE = 1e150
_FAR = 350.0  # from here on the error is below 1e-300
_UNSEEN = 1e-20  # probability that a law leaves out
_MOST_POINTS = 1 << 22
_CUTS = 2  # on either side of the best one that are looked at too
_ANSWERS = 100_000  # more true answers than this are not looked at one by one
Bits = Callable[[int], int]

_LINE = Interval(-math.inf, math.inf)


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(MechanismRisk):
    """A whole number plus noise X with P(X = k) proportional to e^(-|k| / scale), clamped to the ends of `support`.

    The noise is also called two-sided geometric. The true answer is a whole number, which a unit moves by at most
    `sensitivity`; it may lie outside the support.

    `claim` is what `calibrated` or `choose` made it for, or None, as for a `Mechanism`.

    Guarantee: (sensitivity / scale)-private, in pure form, since neighbouring answers differ by whole numbers and
    clamping is post-processing [ghosh2012]. Privacy numbers are exact for the clamped law and rounded to the safe side.
    Assumes: true answers are whole numbers, and the sensitivity is true.
    Edge cases: a support whose ends are not whole numbers is refused; without one, any whole number can be published.

    >>> import rangebound as rb
    >>> m = rb.DiscreteLaplace(scale=2.0, sensitivity=1, support=rb.Interval(0, math.inf))
    >>> m.epsilon(), round(m.epsilon(delta=0.01), 4)
    (0.5, 0.4838)
    >>> m.release(42) >= 0.0
    True
    """

    scale: float
    sensitivity: int = 1
    support: Interval = _LINE
    claim: Claim | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", arguments.positive("scale", self.scale))
        if self.scale > _LARGEST_SCALE:
            raise ArgumentError(
                f"scale={self.scale!r}: must be at most {_LARGEST_SCALE:g}, so that every draw is a double"
            )
        arguments.instance("support", self.support, Interval, "an Interval, such as rb.Interval(0, 100)")
        if isinstance(self.sensitivity, bool) or not isinstance(self.sensitivity, int):
            raise ArgumentTypeError(f"sensitivity={arguments.shown(self.sensitivity)}: must be a whole number (int)")
        if self.sensitivity < 1:
            raise ArgumentError(
                f"sensitivity={arguments.shown(self.sensitivity)}: must be a whole number from 1; "
                "a query that no one can change needs no noise"
            )
        if any(math.isfinite(end) and end != math.floor(end) for end in (self.support.lower, self.support.upper)):
            raise ArgumentError(f"support={self.support}: must end at whole numbers, since answers are whole numbers")

    @classmethod
    def calibrated(cls, *, sensitivity: int = 1, epsilon: float, support: Interval = _LINE) -> DiscreteLaplace:
        """The mechanism with the smallest scale that is epsilon-private.

        Guarantee: sensitivity / scale <= epsilon, exactly; the next smaller double does not have that.
        Edge cases: an epsilon so small that no double is the scale is refused.

        >>> DiscreteLaplace.calibrated(sensitivity=1, epsilon=0.5, support=Interval(0, math.inf)).scale
        2.0
        """
        target = arguments.positive("epsilon", epsilon)
        scale = rounded_up(Fraction(sensitivity) / Fraction(target))
        return cls(scale=scale, sensitivity=sensitivity, support=support).with_claim(Claim(epsilon=target))

    @property
    def exact_epsilon(self) -> Fraction:
        """The pure epsilon, sensitivity / scale.

        >>> DiscreteLaplace(scale=2.0).exact_epsilon
        Fraction(1, 2)
        """
        return Fraction(self.sensitivity) / Fraction(self.scale)

    @property
    def step(self) -> float:
        """How far apart true answers are: they are whole numbers.

        >>> DiscreteLaplace(scale=1.0).step
        1.0
        """
        return 1.0

    @property
    def query(self) -> Query:
        """The question whose answers it publishes: they lie in the support, and are whole numbers.

        >>> DiscreteLaplace(scale=1.0, support=Interval(0, 9)).query.range
        Interval(lower=0.0, upper=9.0)
        """
        return Query(range=self.support, sensitivity=float(self.sensitivity))

    @property
    def spikes(self) -> bool:
        """Whether the ends of the support collect all that fell beyond them: everywhere but on the whole line."""
        return not is_line(self.support)

    def with_claim(self, claim: Claim | None) -> DiscreteLaplace:
        """The same mechanism with another claim, or with none; a claim is proved by `rangebound.certify` alone."""
        if claim is not None:
            arguments.instance("claim", claim, Claim, "a Claim, such as rb.Claim(epsilon=1.0), or None")
        found = copy(self)
        object.__setattr__(found, "claim", claim)
        return found

    def epsilon(self, delta: float = 0.0) -> float:
        """The smallest epsilon that holds with this delta for all neighbouring datasets.

        Guarantee: never below the true value, and less than 1e-12 relative above it.
        Edge cases: sensitivity / scale without a delta; 0 where the delta is at least the total variation distance.

        >>> DiscreteLaplace(scale=2.0).epsilon()
        0.5
        """
        delta = arguments.probability("delta", delta)
        if delta == 0.0:
            return up(arb(self.sensitivity) / arb(self.scale))
        if self.delta(0.0) <= delta:
            return 0.0
        # The profile is the largest of _profile(k, epsilon) over k. Its own k grows as epsilon falls past the breaks;
        # the first k at whose lower break the profile is above `delta` is found by bisection, the equation solved there
        # and, in case a comparison was too close to tell, at its neighbours.
        low, high = 0, (self.sensitivity - 1) // 2
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._exceeds(middle, delta) else (middle + 1, high)
        near = range(max(low - 1, 0), min(low + 1, (self.sensitivity - 1) // 2) + 1)
        return max(up(refine(partial(self._solved, k, delta))) for k in near)

    def _exceeds(self, k: int, delta: float) -> bool:
        """Whether the profile is above `delta` where k + 1 begins not to count: at epsilon (d - 2 k - 2) / scale."""
        last = max(self.sensitivity - 2 * k - 2, 0)
        return bool(refine(lambda: self._profile(k, arb(last) / arb(self.scale)) - arb(delta)) > 0)

    def delta(self, epsilon: float) -> float:
        """The privacy profile: the smallest delta that holds with this epsilon for all neighbouring datasets.

        With r = e^(-1/scale), d the sensitivity and k the largest whole number below (d - epsilon scale) / 2:
        delta(epsilon) = 1 - (r^(k + 1) + e^epsilon r^(d - k)) / (1 + r).

        Guarantee: never below the true value, which is attained whatever the support, and less than 1e-12 above it.
        Edge cases: 0 from the pure epsilon on.

        >>> round(DiscreteLaplace(scale=2.0).delta(0.25), 6), DiscreteLaplace(scale=2.0).delta(0.5)
        (0.137688, 0.0)
        """
        epsilon = arguments.nonnegative("epsilon", epsilon)
        cut = (self.sensitivity - Fraction(epsilon) * Fraction(self.scale)) / 2
        if cut <= 0:
            return 0.0
        k = math.ceil(cut) - 1
        return min(up(refine(lambda: self._profile(k, arb(epsilon)))), 1.0)

    def profile(self, epsilon: Ball) -> Ball:
        """The privacy profile as a ball, for an epsilon between 0 and sensitivity / scale that is one number.

        Outcomes up to k leak most for one k; every other one is a lower bound, so that a k next to it does no harm.
        """
        cut = float((self.sensitivity - epsilon * arb(self.scale)).mid()) / 2
        last = self.sensitivity - 1
        near = range(max(math.ceil(cut) - 2, 0), min(math.ceil(cut), last) + 1) or range(1)
        found = [self._profile(k, epsilon) for k in near]
        best = found[0]
        for each in found[1:]:
            best = best.max(each)
        return best

    def _profile(self, k: int, epsilon: Ball) -> Ball:
        """P(X <= k) - e^epsilon P(X <= k - d), for 0 <= k < d: what outcomes up to k leak."""
        rate = 1 / arb(self.scale)
        above, below = (-rate * (k + 1)).exp(), (epsilon - rate * (self.sensitivity - k)).exp()
        return 1 - (above + below) / (1 + (-rate).exp())

    def _solved(self, k: int, delta: float) -> Ball:
        """The epsilon at which `_profile` is delta: ln((1 - delta) (1 + r) - r^(k + 1)) + (d - k) / scale, or 0."""
        rate = 1 / arb(self.scale)
        inner = (1 - arb(delta)) * (1 + (-rate).exp()) - (-rate * (k + 1)).exp()
        return inner.log() + rate * (self.sensitivity - k) if inner > 0 else arb(0)

    @overload
    def rdp(self, alpha: float) -> float: ...

    @overload
    def rdp(self, alpha: Sequence[float] | Floats) -> Floats: ...

    def rdp(self, alpha: float | Sequence[float] | Floats) -> float | Floats:
        """The Renyi curve: the largest divergence of order `alpha` (one or an array) over all neighbouring datasets.

        With r = e^(-1/scale), q = r^(2 alpha - 1) and d the sensitivity, e^((alpha - 1) divergence) is

            (r^((1 - alpha) d) (1 + (1 - r) (q - q^d) / (1 - q)) + r^(alpha d)) / (1 + r).

        Guarantee: never below the true value, which is attained by every support as wide as the sensitivity, and less
        than 1e-12 above it.
        Edge cases: order inf is the pure epsilon; orders of 1 and below are refused.

        >>> DiscreteLaplace(scale=2.0).rdp([2.0, 8.0]).round(4).tolist()
        [0.2273, 0.4324]
        """
        return arguments.at_orders(alpha, self._divergence)

    def _divergence(self, order: float) -> float:
        """The largest divergence of one order."""
        if math.isinf(order):
            return self.epsilon()
        return min(
            up(refine(lambda: self._moment(arb(order), self.sensitivity).log() / (arb(order) - 1))), self.epsilon()
        )

    def _moment(self, order: Ball, distance: int) -> Ball:
        """The moment of a likelihood ratio: the sum of p(x)^order p(x - d)^(1 - order), for answers d apart.

        For x <= 0 the ratio is r^-d, for x >= d it is r^d, and between r^(2 x - d): a geometric sum.
        """
        rate = 1 / arb(self.scale)
        r, ratio = (-rate).exp(), -rate * (2 * order - 1)
        high, low = (rate * distance * (order - 1)).exp(), (-rate * distance * order).exp()
        between = (ratio.exp() - (ratio * distance).exp()) / -ratio.expm1()
        return (high * (1 + -(-rate).expm1() * between) + low) / (1 + r)

    @overload
    def fisher(self, answer: float) -> float: ...

    @overload
    def fisher(self, answer: Sequence[float] | Floats) -> Floats: ...

    def fisher(self, answer: npt.ArrayLike) -> float | Floats:
        """Information of the published number about the true answer, at `answer` (one or an array).

        Answers are whole numbers, so it is that of Hammersley, Chapman and Robbins: the chi^2 divergence from the law
        at the next whole number. An unbiased estimate of the answer has a variance of at least its inverse.

        Guarantee: rounded up; clamping only makes it smaller.
        Assumes: nothing about the data; it is about one answer, private itself, and no guarantee for anyone.

        >>> round(DiscreteLaplace(scale=2.0).fisher(3), 4)
        0.2553
        """
        shape = arguments.answers(answer, -math.inf, math.inf).shape
        found = up(refine(lambda: self._moment(arb(2), 1) - 1))
        return np.full(shape, found) if shape else found

    def law(self, answer: npt.ArrayLike) -> LatticeLaw:
        """The distribution of the published number when the true answer is `answer` (a whole number or an array).

        Guarantee: it is the law that `release` draws from, its probabilities in doubles.
        Edge cases: whole numbers farther off than noise that has a probability below 1e-20 are left out.

        >>> [each.round(4).tolist() for each in DiscreteLaplace(scale=1.0, support=Interval(0, 2)).law(0).atoms]
        [[0.0, 1.0, 2.0], [0.7311, 0.17, 0.0989]]
        """
        true = _whole_answers(answer)
        far = math.ceil(-math.log(_UNSEEN) * self.scale) + 1.0
        inside = np.clip(true, self.support.lower, self.support.upper)
        low = max(float(inside.min(initial=math.inf)) - far, self.support.lower)
        high = min(float(inside.max(initial=-math.inf)) + far, self.support.upper)
        if high - low > _MOST_POINTS:
            raise ArgumentError(f"scale={self.scale}: its law has more than {_MOST_POINTS} points; ask `pmf` for some")
        points = np.arange(low, high + 1.0)
        sums = StairSums(1, 1, 1.0 / self.scale)
        away = points - true[..., None]
        below = np.where(away >= 0.0, 1.0 - sums.tail(np.abs(away) + 1.0), sums.tail(np.abs(away)))
        above = np.where(away <= 0.0, 1.0 - sums.tail(np.abs(away) + 1.0), sums.tail(np.abs(away)))
        ends = np.where(
            points == self.support.lower, below, np.where(points == self.support.upper, above, sums.mass(away))
        )
        return LatticeLaw(points, ends)

    @property
    def _is_wide(self) -> bool:
        """Whether both answers of a pair fit into the support: then clamping hides nothing of the worst pair."""
        return self.support.upper - self.support.lower >= self.sensitivity

    def _attack_pairs(self, epsilon: float) -> tuple[PairProfile, ...]:
        """In a narrower support another pair is the worst at each epsilon, and all but one cut of its outcomes may go.

        Answers may lie outside of the support, so every cut is seen of some pair.
        """
        pure = self.exact_epsilon
        if not self._is_wide:
            cut = (self.sensitivity - Fraction(epsilon) * Fraction(self.scale)) / 2
            best = max(math.ceil(cut) - 1, 0)
            near = (best, *range(max(best - _CUTS, 0), min(best + _CUTS + 1, self.sensitivity)))
            return tuple(partial(self._cut_profile, k) for k in dict.fromkeys(near))
        return (mirrored(lambda x: self.profile(arb(x)) if x < pure else ZERO),)

    def _cut_profile(self, k: int, epsilon: float) -> Ball:
        """What a pair leaks of which only whether the noise of the first answer is above k is seen."""
        rate, t = 1 / arb(self.scale), arb(epsilon).exp()
        above, below = ((-rate * each).exp() / (1 + (-rate).exp()) for each in (k + 1, self.sensitivity - k))
        return (1 - above - t * below).max(above - t * (1 - below)).max(1 - t).max(ZERO)

    def _attack_pure_below(self) -> float:
        return down(refine(lambda: arb(self.sensitivity) / arb(self.scale)))

    def worst_pair(self) -> tuple[float, float]:
        """Two neighbouring true answers with the largest privacy loss: the sensitivity apart, near an end if any.

        >>> DiscreteLaplace(scale=1.0, sensitivity=3, support=Interval(0, 9)).worst_pair()
        (0.0, 3.0)
        """
        lower, upper, apart = self.support.lower, self.support.upper, float(self.sensitivity)
        start = lower if math.isfinite(lower) else upper - apart if math.isfinite(upper) else 0.0
        return start, start + apart

    def is_private(self, epsilon: float) -> bool:
        """Whether it is epsilon-private, exactly.

        >>> m = DiscreteLaplace(scale=10.0)
        >>> m.is_private(0.1), m.is_private(0.09)  # the double 0.1 is above a tenth
        (True, False)
        """
        return self.sensitivity <= Fraction(self.scale) * Fraction(arguments.nonnegative("epsilon", epsilon))

    def pmf(self, value: float, answer: int) -> float:
        """The probability that `value` is published where the true answer is `answer`.

        >>> m = DiscreteLaplace(scale=1.0, support=Interval(0, math.inf))
        >>> round(m.pmf(0, 0), 6), round(m.pmf(3, 0), 6), m.pmf(-1, 0)
        (0.731059, 0.023007, 0.0)
        """
        published, true = arguments.finite("value", value), _whole(answer)
        if not self.can_draw(published):
            return 0.0
        k = int(published) - true
        at_lower, at_upper = published == self.support.lower, published == self.support.upper

        def mass() -> Ball:
            rate = 1 / arb(self.scale)
            r = (-rate).exp()
            if at_lower or at_upper:  # all that fell beyond the end, P(X <= k) or P(X >= k)
                side = -k if at_lower else k
                tail = (-rate * abs(side)).exp() / (1 + r)
                return tail if side >= 0 else 1 - r * tail
            return (1 - r) / (1 + r) * (-rate * abs(k)).exp()

        return float(refine(mass))

    @property
    def mse(self) -> float:
        """The mean squared error far from the ends: 2 r / (1 - r)^2, r = e^(-1/scale); clamping makes it no larger.

        >>> round(DiscreteLaplace(scale=1.0).mse, 6)
        1.841347
        """
        half = 0.5 / self.scale
        return 0.5 / math.sinh(half) ** 2 if half < _FAR else 0.0

    @overload
    def error(self, answer: float) -> Error[float]: ...

    @overload
    def error(self, answer: Sequence[float] | Floats) -> Error[Floats]: ...

    def error(self, answer: float | Sequence[float] | Floats) -> Error[float] | Error[Floats]:
        """Bias, mean absolute and mean squared error of the published number at a whole true answer (one or an array).

        Edge cases: at an answer outside the support they are the errors of the published number, which lies inside.

        >>> m = DiscreteLaplace(scale=1.0, support=Interval(0, math.inf))
        >>> m.error(0).bias == m.error(0).mae, round(m.error(10**9).mse, 6)
        (True, 1.841347)
        >>> m.error([0, 10]).mae.round(4).tolist()
        [0.4255, 0.8509]
        """
        answers = _whole_answers(answer)
        found = [self._error(int(each)) for each in answers.reshape(-1).tolist()]
        if not answers.ndim:
            return found[0]
        return Error(
            bias=np.asarray([each.bias for each in found]).reshape(answers.shape),
            mae=np.asarray([each.mae for each in found]).reshape(answers.shape),
            mse=np.asarray([each.mse for each in found]).reshape(answers.shape),
        )

    def _error(self, true: int) -> Error[float]:
        lower, upper = self.support.lower, self.support.upper
        missed = int(max(lower - true, true - upper, 0))  # outside the support so much cannot be avoided
        if missed:
            one, two = self._moments(missed, upper - lower)
            off = float(missed)
            return Error(bias=math.copysign(off + one, lower - true), mae=off + one, mse=off**2 + 2.0 * off * one + two)
        (down_one, down_two), (up_one, up_two) = self._moments(0, true - lower), self._moments(0, upper - true)
        return Error(bias=up_one - down_one, mae=up_one + down_one, mse=up_two + down_two)

    def worst_error(self) -> Error[float]:
        """The largest bias, mean absolute and mean squared error over the whole numbers of the support.

        Guarantee: attained at some answer; of more than 100,000 answers those near the ends, in the middle and at equal
        distances between are looked at.

        >>> round(DiscreteLaplace(scale=1.0, support=Interval(0, 100)).worst_error().mae, 4)
        0.8509
        """
        found = self._errors(self._answers())
        return Error(bias=float(np.abs(found.bias).max()), mae=float(found.mae.max()), mse=float(found.mse.max()))

    def average_error(self) -> Error[float]:
        """The errors averaged over the whole numbers of the support; the bias is the average of its absolute value.

        Edge cases: a support that is not bounded has no such average and is refused.

        >>> round(DiscreteLaplace(scale=1.0, support=Interval(0, 100)).average_error().mae, 4)
        0.8376
        """
        if not self.support.bounded:
            raise ArgumentError(f"range={self.support}: must be bounded for an average over it")
        answers = self._answers()
        found, weights = self._errors(answers), np.append(np.diff(answers), 1.0)
        total = weights.sum()
        return Error(
            bias=float((np.abs(found.bias) * weights).sum() / total),
            mae=float((found.mae * weights).sum() / total),
            mse=float((found.mse * weights).sum() / total),
        )

    def _answers(self) -> Floats:
        """Whole numbers of the support: all of them, or those near its ends, in the middle and a few between."""
        far = math.ceil(60.0 * self.scale) + 4.0
        ends = [end for end in (self.support.lower, self.support.upper) if math.isfinite(end)] or [0.0]
        low = self.support.lower if math.isfinite(self.support.lower) else min(ends) - far
        high = self.support.upper if math.isfinite(self.support.upper) else max(ends) + far
        if high - low < _ANSWERS:
            return np.arange(low, high + 1.0)
        near, middle = np.arange(_ANSWERS // 4), math.floor((low + high) / 2.0) + np.arange(-100.0, 101.0)
        between = np.floor(np.linspace(low, high, _ANSWERS // 4))
        return np.unique(np.concatenate([low + near, middle, between, high - near]))

    def _errors(self, true: Floats) -> Error[Floats]:
        """The errors at whole answers in the support, in doubles."""
        sums = StairSums(1, 1, 1.0 / self.scale)
        above, below = self.support.upper - true, true - self.support.lower
        return Error(
            bias=sums.first(above) - sums.first(below),
            mae=sums.first(above) + sums.first(below),
            mse=sums.second(above) + sums.second(below),
        )

    def _moments(self, start: int, room: float) -> tuple[float, float]:
        """E Y and E Y^2 for Y = min(max(X - start, 0), room), by P(X >= k) = r^k / (1 + r) for k >= 0.

        Sums of r^(start + j) and (2 j - 1) r^(start + j) over j from 1 to room, divided by 1 + r.
        """

        def terms(second: bool) -> Ball:
            rate = 1 / arb(self.scale)
            r = (-rate).exp()
            last = (-rate * int(room)).exp() if math.isfinite(room) else arb(0)
            first = r * (-rate * start).exp() / (1 + r)
            if not second:
                return first * (1 - last) / (1 - r)
            tail = last * ((2 * int(room) + 1) - (2 * int(room) - 1) * r) if math.isfinite(room) else arb(0)
            return first * (1 + r - tail) / (1 - r) ** 2

        if room <= 0:
            return 0.0, 0.0
        return float(refine(lambda: terms(False))), float(refine(lambda: terms(True)))

    def reach(self, level: float) -> float:
        """The smallest k with |X| <= k at probability `level`, or one more: P(|X| > k) = 2 r^(k+1) / (1 + r).

        Guarantee: rounded up, at every scale.

        >>> DiscreteLaplace(scale=1.0).reach(0.95)
        3.0
        """
        r = math.exp(-1.0 / self.scale)
        near = math.ceil(-self.scale * math.log((1.0 - level) * (1.0 + r) / 2.0) - 1.0 + 1e-9)

        def exact() -> Ball:
            rate = 1 / arb(self.scale)
            return -(((1 - arb(level)) * (1 + (-rate).exp()) / 2).log()) / rate - 1

        # Published intervals have the first number, in doubles; where the scale is large these round it too low.
        return max(0.0, float(near), float(math.ceil(up(refine(exact)))))

    def confidence_interval(self, published: npt.ArrayLike, level: float = 0.95) -> Any:
        """An interval for the true answer, given the published number (or a pair of arrays, given an array).

        Guarantee: covers each true answer inside the support with probability at least `level`; inside the support.
        Edge cases: a true answer outside the support is covered once moved to its nearest end.

        >>> DiscreteLaplace(scale=1.0, support=Interval(0, 50)).confidence_interval(2.0)
        (0.0, 5.0)
        """
        numbers = arguments.reals("published", published)
        wide = self.reach(arguments.probability("level", level))
        lower = np.clip(numbers - wide, self.support.lower, self.support.upper)
        upper = np.clip(numbers + wide, self.support.lower, self.support.upper)
        return (lower, upper) if numbers.ndim else (lower.item(), upper.item())

    def release(self, answer: npt.ArrayLike) -> Any:
        """Publish: one draw for each whole true answer, a number for a number and an array for an array.

        Guarantee: distributed exactly as the law. The random bits come from the operating system; no call takes a seed.
        Assumes: each true answer is published once: a second draw is a second release.
        Edge cases: what is not a whole number is refused before anything is drawn.

        >>> m = DiscreteLaplace(scale=1.0, support=Interval(0, 20))
        >>> bool(((m.release([0, 10, 20]) % 1) == 0).all())
        True
        """
        true = _whole_answers(answer)
        published = draw(self, true, secure_bits)
        return published if true.ndim else published.item()

    def can_draw(self, value: float) -> bool:
        """Whether a number can be drawn: a whole one in the support; not the negative zero.

        >>> DiscreteLaplace(scale=1.0).can_draw(3.0), DiscreteLaplace(scale=1.0).can_draw(3.5)
        (True, False)
        """
        inside = math.isfinite(value) and self.support.lower <= value <= self.support.upper
        return inside and value == math.floor(value) and str(value) != "-0.0"

    def to_dict(self) -> dict[str, object]:
        """The mechanism as plain data, for JSON or TOML.

        >>> m = DiscreteLaplace(scale=2.0, sensitivity=3, support=Interval(0, math.inf))
        >>> DiscreteLaplace.from_dict(m.to_dict()) == m
        True
        """
        ends = [number(each) for each in (self.support.lower, self.support.upper)]
        plain = {"scale": self.scale, "sensitivity": self.sensitivity, "support": ends}
        return {"geometric": plain, **({} if self.claim is None else {"claim": self.claim.to_dict()})}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> DiscreteLaplace:
        """The mechanism that `to_dict` wrote; wrong data gets the errors of the constructor, and so does a field more.

        >>> DiscreteLaplace.from_dict(
        ...     {"geometric": {"scale": 1.0, "sensitivity": 1, "support": [0.0, "inf"]}}
        ... ).epsilon()
        1.0
        """
        match data:
            case {
                "geometric": {"scale": scale, "sensitivity": sensitivity, "support": [lower, upper], **more},
                **rest,
            } if not (more or rest.keys() - {"claim"}):
                support = Interval(parse_number(lower), parse_number(upper))
                found = cls(scale=scale, sensitivity=sensitivity, support=support)
                return found.with_claim(Claim.from_dict(rest["claim"])) if "claim" in rest else found
        raise ArgumentError(f"data={arguments.shown(data)}: must be what DiscreteLaplace.to_dict writes")


def _whole_answers(answer: object) -> Floats:
    """True answers that are whole numbers; no error shows one."""
    true = arguments.answers(answer, -math.inf, math.inf)
    if (true != np.floor(true)).any():
        raise ArgumentError("answer: must be a whole number; round it yourself, and add that to the sensitivity")
    return true


def _whole(answer: object) -> int:
    """One true answer as a whole number; no error shows it."""
    true = arguments.answers(answer, -math.inf, math.inf)
    if true.ndim:
        raise ArgumentTypeError(f"answer of type {type(answer).__name__}: must be one number")
    if true != np.floor(true):
        raise ArgumentError("answer: must be a whole number")
    return int(true)


def draw(mechanism: DiscreteLaplace, answers: Floats, bits: Bits) -> Floats:
    """One draw for each whole true answer, with the given random bits.

    The sum is of whole numbers and becomes a double at the end: rounding, like clamping, is then post-processing.
    """
    drawn = [int(each) + magnitude(mechanism.scale, bits) * (1 - 2 * bits(1)) for each in answers.flat]
    doubles = np.array([float(each) for each in drawn], dtype=np.float64).reshape(answers.shape)
    return np.clip(doubles, mechanism.support.lower, mechanism.support.upper)
