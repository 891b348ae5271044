"""What a strategy is: measure exact counts, answer from the measurements, and say what that costs.

Strategies for workloads: which numbers to measure with noise, so that all wanted answers together are accurate. A
strategy is made of public facts, turns exact counts into noisy measurements on a public lattice, and those into
unbiased answers with their variances, in arithmetic that every machine does alike. It knows nothing of plans and SQL.

Noise on a public lattice: the measurements of a strategy are whole numbers, and so is their noise, in steps.

A whole number plus continuous noise, rounded to multiples of a step that divides 1, is the whole number plus the
rounded noise. So noise is drawn at zero and added in exact arithmetic: no count is too large, and the time of a draw
says nothing about one.

How far a weighted sum of discrete Laplace draws is from zero, at most, with a given probability.

For S = sum of w_k X_k, X_k discrete Laplace noise of scale b_k, let c_k = |w_k| b_k. Even moments of X_k are not above
p! b_k^p, those of continuous Laplace noise of the same scale: with h = 1 / (2 b_k), E X^p is p! 2 tanh(h) times the sum
of (2 h + 2 pi i n)^-(p + 1) over all whole n (the moment generating function, by its poles), where n = 0 alone gives
p! b_k^p tanh(h) / h; a test compares the two over scales and orders. E S^p is a sum of products of even moments with
positive weights, so it is at most that of the same sum of continuous Laplace noise, whose even cumulants are

    (2 j)! / j  sum of c_k^(2 j)  <=  (2 j)! / j  m^(2 j - 2)  q,   q >= sum of c_k^2,  m >= max of c_k.

Moments grow with these cumulants, and P(|S| >= r) <= E S^p / r^p for every even p.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from flint import arb

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.laws.boundings import Bounding
from rangebound.laws.gaussian import Gaussian
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.stair_noise import magnitude
from rangebound.release.noise.draw import Bits
from rangebound.release.noise.joint_loss import Contributions, JointLoss, NoiseAccount
from rangebound.release.plan.fields import LINE
from rangebound.sampling.entropy import secure_bits
from rangebound.values.array_types import Floats
from rangebound.values.ball import precision, up
from rangebound.values.numeric import rounded_up
from rangebound.values.support import Query

Wholes = npt.NDArray[np.object_]
"""Arrays of Python's whole numbers, which have no largest one."""

_FINENESS = 12  # a step is at most 2^-12 of the scale, which adds 5e-9 to the variance
_MOST = 2**53  # steps; every whole number up to here is a double
_WIDER, _ROUNDED = 1.0 + 2.0**-21, 15.0 * 2.0**-_FINENESS  # of sums of rounded Gaussian noise; see `gaussian_reach`
_WIDEST = 2.0**44  # 512 times this is 2^53: noise of multiples of 2 or more would not hide the last bits of a count


@dataclass(frozen=True, kw_only=True)
class LatticeNoise:
    """Noise of one `scale`, in steps of a power of two that is at most 1.

    In a Gaussian account it is Gaussian noise rounded to the step, in a pure one discrete Laplace noise with step 1.

    Guarantee: drawn exactly, symmetric about zero (so that sums of it are unbiased); `variance` is not below the true
    one, and above it by less than 1e-9 of it.

    >>> (
    ...     LatticeNoise(account=NoiseAccount.GAUSSIAN, scale=3.0).step,
    ...     LatticeNoise(account=NoiseAccount.PURE, scale=3.0).step,
    ... )
    (0.00048828125, 1.0)
    """

    account: NoiseAccount
    scale: float

    def __post_init__(self) -> None:
        if not 2.0**-500 < self.scale < 2.0**500:
            raise ArgumentError(f"scale={self.scale!r}: must be between 2^-500 and 2^500")
        if self.account is NoiseAccount.GAUSSIAN and self.scale > _WIDEST:
            raise ArgumentError(
                f"scale={self.scale!r}: must be at most 2^44, so that doubles hold Gaussian noise exactly"
            )

    @property
    def step(self) -> float:
        """The distance of neighbouring points of the lattice."""
        if self.account is NoiseAccount.PURE:
            return 1.0
        return min(1.0, 2.0 ** (math.frexp(self.scale)[1] - 1 - _FINENESS))

    @cached_property
    def variance(self) -> float:
        """The variance of one draw, rounded up; the same double on every machine."""
        if self.account is NoiseAccount.GAUSSIAN:  # rounding adds step^2 / 12, but for less than e^(-2 pi^2 4^12)
            return rounded_up(Fraction(self.scale) ** 2 + Fraction(self.step) ** 2 / 12 * (1 + Fraction(1, 2**60)))
        with precision(192):
            ratio = (-1 / arb(self.scale)).exp()
            return up(2 * ratio / (1 - ratio) ** 2)

    def draw(self, count: int, bits: Bits) -> Wholes:
        """This many independent draws, in steps.

        Gaussian noise takes its random words from the source of every release, discrete noise takes `bits`.
        """
        if self.account is NoiseAccount.PURE:  # never a double, which would round the noise and not the noisy count
            return wholes(
                np.array([magnitude(self.scale, bits) * (1 - 2 * bits(1)) for _ in range(count)], dtype=object)
            )
        query = Query(range=LINE, sensitivity=1.0)
        normal = Mechanism(noise=Gaussian(scale=self.scale), query=query, bounding=Bounding.UNBOUNDED)
        return wholes(normal.release(np.zeros(count), step=self.step) / self.step if count else np.zeros(0))

    def measured(self, exact: Wholes, bits: Bits) -> Wholes:
        """Exact whole numbers with noise of their own each, in steps."""
        array = np.asarray(exact, dtype=object)
        noise = self.draw(array.size, bits).reshape(array.shape)
        return np.asarray(noise + array * int(1 / self.step), dtype=object)


def gaussian_reach(level: float) -> float:
    """How many standard deviations a sum of rounded Gaussian noise stays within, with probability `level` or more.

    Let S = sum a_i Z_i, where Z_i is Gaussian noise of scale s_i rounded to the step h_i <= 2^-12 s_i, and let d be the
    standard deviation of S. Add independent W = sum a_i W_i to it, where W_i is normal of scale 1.5 h_i: by Poisson
    summation the density of Z_i + W_i is that of G_i + U_i + W_i (G_i normal of scale s_i, U_i uniform on a step) times
    a factor between 1 - e^-43 and 1 + e^-43. So, with w = 9 2^-12 d, which is six standard deviations of W or more, and
    v = 6 2^-12 d, where Hoeffding's inequality bounds the sum of the a_i U_i,

        P(|S| > t) <= P(|S + W| > t - w) / P(|W| <= w)  and  P(|S + W| > r) <= (P(|N| > r - v) + e^-71) (1 + n e^-43)

    for n terms and a normal N of variance at most d^2 (1 + 2^-22). `papers/numerics.md` has the steps.

    >>> round(gaussian_reach(0.95), 4)
    1.9636
    """
    outside = (1.0 - level) * (1.0 - 2.0**-26)
    return -statistics.NormalDist().inv_cdf(outside / 2.0) * _WIDER + _ROUNDED


def gaussian_beyond(far: Floats) -> Floats:
    """How often such a sum is above this many standard deviations at most: what `gaussian_reach` inverts."""
    from scipy import special  # an import of rangebound stays light

    return np.asarray(special.ndtr(-(far - _ROUNDED) / _WIDER) / (1.0 - 2.0**-26))


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactAnswers:
    """The answers `numerators / denominator`: unbiased, unclamped, and adding up exactly where the truth does.

    >>> answers = ExactAnswers(numerators=np.array([1, -5], dtype=object), denominator=4)
    >>> answers.values.tolist()
    [0.25, -1.25]
    """

    numerators: Wholes
    denominator: int | Wholes

    @property
    def values(self) -> Floats:
        """The nearest doubles, which are the same on every machine."""
        return np.asarray(self.numerators / self.denominator, dtype=np.float64)


def wholes(values: npt.ArrayLike) -> Wholes:
    """An array of Python's whole numbers, from numbers that are whole; others are an error, and not shown.

    >>> wholes([1.0, -2.0]).tolist()
    [1, -2]
    """
    array = np.asarray(values)
    exact = np.array([int(each) for each in array.ravel().tolist()], dtype=object).reshape(array.shape)
    assert (exact == array).all()
    return exact


def clamped_counts(counts: npt.ArrayLike, length: int, most: int, series: int = 1) -> Wholes:
    """Finest counts, one row per series, as whole numbers between -most and most.

    Clamping them moves no neighbour farther.
    """
    bounded: Wholes = np.minimum(np.maximum(wholes(counts), -most), most)
    return bounded.reshape(series, length)


def published(steps: Wholes, step: float) -> Floats:
    """Numbers in steps as the doubles that are published, clamped where doubles would not be exact.

    >>> published(wholes([3, -(2**60)]), 0.5).tolist()
    [1.5, -4503599627370496.0]
    """
    doubles = [float(min(max(each, -_MOST), _MOST)) for each in steps.ravel().tolist()]
    return np.array(doubles, dtype=np.float64).reshape(steps.shape) * step + 0.0


def admits(values: Floats, step: float | Floats) -> bool:
    """Whether all of the numbers can be published: multiples of the step, not beyond the clamp, no negative zero.

    >>> admits(np.array([1.5, -2.0]), 0.5), admits(np.array([1.25]), 0.5), admits(np.array([-0.0]), 0.5)
    (True, False, False)
    """
    steps = values / step
    exact = np.isfinite(steps) & (steps == np.floor(steps)) & (np.abs(steps) <= _MOST)
    return bool((exact & ~((values == 0.0) & np.signbit(values))).all())


_ORDERS = 12  # even moments up to twice this; more of them help only beyond a level of 0.9999
_SLACK = 1.0 + 1e-9  # for what doubles round


def laplace_radius(squares: npt.ArrayLike, largest: npt.ArrayLike, level: float) -> Floats:
    """Radii within which such sums lie with probability `level`, from bounds of the sum and the largest of c_k^2.

    `squares` bounds the sum of c_k^2, `largest` the largest c_k; arrays have one number for each sum.

    Guarantee: at least `level` for every sum of independent discrete or continuous Laplace noise within these bounds.
    Edge cases: sums without noise have the radius 0.

    >>> one = laplace_radius([1.0], [1.0], 0.95)  # the exact radius of one draw is 3.0
    >>> many = laplace_radius([1.0], [0.01], 0.95)  # of very many draws 2.77, that of normal noise
    >>> round(float(one[0]), 2), round(float(many[0]), 2)
    (4.68, 3.66)
    """
    total, most = np.asarray(squares, dtype=np.float64), np.asarray(largest, dtype=np.float64)
    ratio = np.divide(most**2, total, out=np.ones(np.broadcast(most, total).shape), where=total > 0.0)
    best = np.full(ratio.shape, math.inf)
    for half, moment in enumerate(_moments(np.minimum(ratio, 1.0)), 1):
        best = np.minimum(best, (moment / (1.0 - level)) ** (0.5 / half))
    return np.asarray(best * np.sqrt(total) * _SLACK)


def measured_radius(scale: float, level: float) -> float:
    """How far discrete Laplace noise is from zero with probability `level`, at most: a whole number.

    P(|X| >= k) = 2 a^k / (1 + a) with a = exp(-1 / scale).

    >>> measured_radius(10.0, 0.95)
    30.0
    """
    ratio = math.exp(-1.0 / scale)
    wanted = (1.0 - level) * (1.0 + ratio) / 2.0
    return float(max(math.ceil(-scale * math.log(wanted) + 1e-9) - 1, 0))


def excess_of_continuous(noises: Iterable[LatticeNoise]) -> float:
    """By how much 2 scale^2, the variance of continuous Laplace noise, is above that of discrete noise, at most."""
    return max(max(2.0 * each.scale**2 / each.variance, 1.0) * _SLACK for each in noises)


def _moments(ratio: Floats) -> list[Floats]:
    """The moments of orders 2, 4, ... for sums with q = 1 and m^2 = `ratio`, from cumulants."""
    cumulants = [math.factorial(2 * j) / j * ratio ** (j - 1) for j in range(1, _ORDERS + 1)]
    moments = [np.ones_like(ratio)]
    for n in range(1, _ORDERS + 1):
        parts = [math.comb(2 * n - 1, 2 * j - 1) * cumulants[j - 1] * moments[n - j] for j in range(1, n + 1)]
        moments.append(np.asarray(sum(parts)))
    return moments[1:]


LARGER = 1.0 + 2.0**-51
"""A factor for scales that are right but for their last bits."""
_ROUNDS = 100
_CLOSE = Fraction(1 - 1e-9)  # of a budget that is not left unused
_LONG = 64  # numbers of a strategy that a certificate lists; more of them by their SHA-256


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """Exact finest counts in, noisy measurements on a lattice, an unbiased answer for every number of a workload.

    Measurements, answers and variances are flat: one after the other in an order that is public.

    Guarantee: what `draw` returns is private at `cost`: mu-GDP with mu^2 = `cost` in a Gaussian account, `cost`-private
    in a pure one, for all neighbouring datasets; `answers` follow from it alone.
    """

    account: NoiseAccount
    contributions: Contributions

    @property
    @abstractmethod
    def noises(self) -> Sequence[LatticeNoise]:
        """The noise of its measurements."""

    @property
    @abstractmethod
    def cost(self) -> Fraction:
        """An upper bound of mu^2 or of epsilon, over all neighbouring datasets."""

    @property
    @abstractmethod
    def steps(self) -> Floats:
        """The distance of neighbouring points of the lattice of each measurement."""

    @abstractmethod
    def draw(self, counts: Any, bits: Bits = secure_bits) -> Floats:
        """Noisy measurements of the exact counts of all finest cells: one array of them, or tables of their sums."""

    @abstractmethod
    def answers(self, drawn: npt.ArrayLike) -> ExactAnswers:
        """An unbiased answer for every number of the workload, in exact arithmetic from published measurements."""

    @property
    @abstractmethod
    def variances(self) -> Floats:
        """The variance of each answer."""

    @abstractmethod
    def words(self) -> str:
        """The strategy in a few words."""

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Its name under `strategy`, and its numbers as plain data."""

    @property
    def loss(self) -> JointLoss:
        """What one unit can lose by all measurements, which several of its cells may move at once."""
        return JointLoss(square=self.cost, epsilon=None)

    def radii(self, level: float) -> Floats:
        """How far each answer is from the truth with probability `level`."""
        return np.asarray(gaussian_reach(level) * np.sqrt(self.variances))

    @property
    def size(self) -> int:
        """How many measurements there are."""
        return len(self.steps)

    def admits(self, drawn: npt.ArrayLike) -> bool:
        """Whether `draw` can return this: as many measurements, every one on its lattice."""
        array = np.asarray(drawn, dtype=np.float64)
        return array.shape == self.steps.shape and admits(array, self.steps)

    def in_steps(self, drawn: npt.ArrayLike) -> Wholes:
        """Published measurements in steps again; numbers that cannot have been published are refused."""
        if not self.admits(drawn):
            raise ArgumentError("drawn: must be the array that draw returned")
        return wholes(np.asarray(drawn, dtype=np.float64) / self.steps)


S = TypeVar("S", bound=Strategy)


def within_budget(
    make: Callable[[tuple[float, ...]], S], scales: npt.ArrayLike, limit: Fraction, larger: Callable[[float], float]
) -> S:
    """The strategy with scales in these proportions, as small as the budget allows.

    `larger` is the factor for scales whose cost has a ratio to the limit.

    Guarantee: `cost` is at most the limit, in exact arithmetic.
    """
    found = np.asarray(scales, dtype=np.float64)
    for _ in range(_ROUNDS):
        made = make(tuple(found.tolist()))
        if limit * _CLOSE <= made.cost <= limit:
            return made
        found = found * larger(float(made.cost / limit))
    raise Unsatisfiable(f"budget={float(limit)!r}: no scales were found that cost as much and not more")


def listed(values: Sequence[float]) -> object:
    """Numbers of a strategy as plain data: a list, or the SHA-256 of a long one."""
    if len(values) <= _LONG:
        return list(values)
    return {"numbers": len(values), "sha256": hashlib.sha256(repr(tuple(values)).encode()).hexdigest()}
