"""Sums over rows, each clipped in Euclidean length, released with Gaussian noise of one account.

A row becomes a vector that depends on this row alone. It is shortened to `norm` if it is longer, and rounded towards
zero to whole numbers of quanta, 2^-26 of `norm` each. Its length is then checked in whole numbers. The sum of whole
numbers is exact in any order, so adding or removing one row moves it by at most 2^26 quanta in Euclidean length, to the
last bit: the sensitivity is `norm`. What is beyond 2^53 quanta, more than 10^8 rows, is clamped to that, which moves no
two sums further apart.

Gaussian noise of scale norm/mu on each coordinate makes a sum mu-GDP: the lattice that it is published on is
post-processing. Several sums, each chosen with knowledge of those before, are together mu-GDP for the root of the sum
of the squares of their mu [dong2022, smith2022]; and mu-GDP is (epsilon, delta)-private for `gdp.largest_mu`, which is
exact [balle2018].

Vectors are computed column by column, never by a matrix product: in a table of another size that would round a row's
numbers differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.boundings import UNBOUNDED
from rangebound.laws.family import Noise
from rangebound.laws.gaussian import Gaussian
from rangebound.laws.laplace import Laplace
from rangebound.ledger.amount import promised
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.privacy.gdp import largest_mu
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers
from rangebound.values.numeric import root_down, rounded_up
from rangebound.values.support import Interval, Query

QUANTA = 2**26
"""The length that a row is clipped to, in quanta."""
_LARGEST = 2**53
_LEAST = 1e-9  # of a clip: its square, and that over 2^26, are ordinary doubles
_SHORTER = 1.0 - 2.0**-20
_BLOCK = 1 << 21  # numbers at a time
_NARROWEST = 1e-100


def budget_mu(epsilon: object, delta: object) -> tuple[float, float, float]:
    """Epsilon, delta, and the largest mu that they have room for.

    Edge cases: delta = 0 is refused, since Gaussian noise has no pure epsilon.
    """
    first, second = arguments.positive("epsilon", epsilon), arguments.probability("delta", delta)
    if not second:
        raise ArgumentError("delta=0: must be positive, because the noise is Gaussian; 1e-6 is common")
    return first, second, largest_mu(promised(first), promised(second))


def part(mu: float, share: Fraction) -> float:
    """The mu of one release that takes this share of the squares, rounded down."""
    return root_down(Fraction(mu) ** 2 * share)


def apart(changed: int, width: int) -> Fraction:
    """The largest squared distance of neighbours' sums, in squares of `norm`, if no two rows are at an obtuse angle.

    Proof: |a - b|^2 = |a|^2 + |b|^2 - 2 a.b, where a.b >= 0 but for rounding `width` numbers by at most 4 quanta each:
    2 a.b >= -2 (2 4 sqrt(width) 2^26 + 16 width), which is above -2^52 2^-21 (sqrt(width) + 1) for a width below 2^40.
    Counts are such rows, and so are products of pairs: those of x and y have the inner product (x.y)^2.
    """
    return Fraction(1) if changed == 1 else 2 + Fraction(math.isqrt(width) + 1, 2**21)


def shortened(rows: Floats, norm: float) -> Floats:
    """Each row, scaled down to the length `norm` where it is longer, but for rounding."""
    squares = np.zeros(len(rows))
    for column in rows.T:
        squares += column * column
    return rows * (norm / np.maximum(np.sqrt(squares), norm))[:, None]


def clipped(rows: Floats, norm: float, copies: int = 1) -> Integers:
    """Each row, shortened to `norm` where it is longer, as whole numbers of quanta.

    Guarantee: a vector with `copies` of a row in it is no longer than 2^26 quanta, and no row depends on another.
    """
    quanta: Floats = np.trunc(shortened(rows, norm / math.sqrt(copies)) * (QUANTA / norm))
    if not (np.abs(quanta) <= 2 * QUANTA).all():  # NaN is not; as whole numbers these would be any at all
        raise AssertionError("unexpected row that is not finite; nothing was released; this is a bug, please report it")
    found: Integers = quanta.astype(np.int64)
    while True:
        longer = copies * (found * found).sum(axis=1) > QUANTA**2
        if not longer.any():
            return found
        found[longer] = np.trunc(found[longer] * _SHORTER).astype(np.int64)


def total(rows: Floats, vectors: Callable[[Floats], Floats], norm: float) -> Integers:
    """The sum of the clipped vectors of all rows, in quanta; the vectors are made for some rows at a time."""
    width = vectors(rows[:0]).shape[1]
    found: Integers = np.zeros(width, dtype=np.int64)
    block = max(1, _BLOCK // max(width, 1))
    for start in range(0, len(rows), block):
        found += clipped(vectors(rows[start : start + block]), norm).sum(axis=0)
    return found


def noisy(sums: Integers, norm: float, mu: float) -> Floats:
    """The sums with Gaussian noise, in the unit of `norm`; mu-GDP if one row moves them by 2^26 quanta at most."""
    return drawn(sums, Gaussian(scale=rounded_up(QUANTA / Fraction(mu)))) * norm


def drawn(sums: Integers, noise: Noise) -> Floats:
    """The sums, clamped to 2^53, with this noise on each; noise and sums in quanta, the result in units of 2^26."""
    held = np.clip(sums, -_LARGEST, _LARGEST).astype(np.float64)
    query = Query(range=Interval(-math.inf, math.inf), sensitivity=float(QUANTA))
    return Mechanism(noise=noise, query=query, bounding=UNBOUNDED).release(held) / QUANTA


@dataclass(frozen=True, kw_only=True)
class SumNoise:
    """The noise on each of several sums in quanta, and what all of them cost together: `mu` only if it is Gaussian."""

    noise: Laplace | Gaussian
    epsilon: float
    delta: float
    mu: float

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise, in units of 2^26 quanta."""
        return self.noise.scale / QUANTA * (math.sqrt(2.0) if isinstance(self.noise, Laplace) else 1.0)


def sum_noise(epsilon: object, delta: object, family: object, longest: Fraction, squares: Fraction) -> SumNoise:
    """The noise for (epsilon, delta) and this family; with None the one of less variance, Laplace without a delta.

    Guarantee: if a neighbour moves the sums, in units of 2^26 quanta, by at most `longest` in absolute values and the
    root of `squares` in length, all of them together are (epsilon, delta)-private; with Laplace noise epsilon-private.
    Proof: independent Laplace noise of scale b on each changes a density by at most exp(sum |change|/b), and b is at
    least longest/epsilon. Gaussian noise of scale s is (length/s)-GDP [dong2022], and s is at least sqrt(squares)/mu.

    >>> sum_noise(2.0, 0.0, None, Fraction(3), Fraction(3)).noise.scale == 1.5 * QUANTA
    True
    """
    if family is not None and family is not Laplace and family is not Gaussian:
        raise ArgumentTypeError(
            f"noise={arguments.shown(family)}: must be the class rb.Laplace or rb.Gaussian, or None"
        )
    first, second = arguments.positive("epsilon", epsilon), arguments.probability("delta", delta)
    plain = Laplace(scale=rounded_up(QUANTA * longest / promised(first)))
    found = SumNoise(noise=plain, epsilon=first, delta=0.0, mu=math.inf)
    if family is Laplace or (family is None and not second):
        return found
    _, _, mu = budget_mu(epsilon, delta)
    normal = Gaussian(scale=rounded_up(QUANTA / Fraction(root_down(Fraction(mu) ** 2 / squares))))
    other = SumNoise(noise=normal, epsilon=first, delta=second, mu=mu)
    return found if family is None and found.deviation <= other.deviation else other


def products(rows: Floats) -> Floats:
    """The products of all pairs of a row's numbers: squares, and sqrt(2) times what is off the diagonal.

    Guarantee: the Euclidean length of a vector of products is the square of that of the row.
    """
    first, second = np.triu_indices(rows.shape[1])
    weights = np.where(first == second, 1.0, math.sqrt(2.0))
    return rows[:, first] * rows[:, second] * weights


def moments(rows: Floats, norm: float) -> Integers:
    """The sum of the products of each row clipped to `norm`, in quanta of norm^2."""
    return total(rows, lambda block: products(shortened(block, norm)), norm**2)


def symmetric(values: Floats, size: int) -> Floats:
    """The symmetric matrix whose products these are."""
    first, second = np.triu_indices(size)
    found: Floats = np.zeros((size, size))
    found[first, second] = values / np.where(first == second, 1.0, math.sqrt(2.0))
    found[second, first] = found[first, second]
    return found


def scores(rows: Floats, weights: Floats) -> Floats:
    """The rows times the weights, column by column, so that no row's numbers depend on how many rows there are."""
    found: Floats = np.zeros((len(rows), weights.shape[1]))
    for column, weight in zip(rows.T, weights, strict=True):
        found += column[:, None] * weight
    return found


def ranges(bounds: object, features: int) -> tuple[Floats, Floats]:
    """The lower and upper end of each feature: a pair of numbers, or of arrays with one number for each feature."""
    if bounds is None:
        raise ArgumentError(
            "bounds=None: the range of the features must be given, from public knowledge; a range taken from "
            "the data leaks its extremes"
        )
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise ArgumentTypeError(
            f"bounds={arguments.shown(bounds)}: must be a pair, all lower ends and all upper ends: ([0, 1], [5, 9])"
        )
    lower, upper = (arguments.reals("bounds", each) for each in bounds)
    if any(each.ndim > 1 or (each.ndim and each.shape != (features,)) for each in (lower, upper)):
        numbers = arguments.counted(features, "number")
        raise ArgumentError(f"bounds: must be two numbers, or two arrays of {numbers}, one for each feature")
    lower, upper = np.broadcast_to(lower, (features,)), np.broadcast_to(upper, (features,))
    if not (lower < upper).all() or not np.isfinite(upper - lower).all():
        raise ArgumentError(f"bounds={arguments.shown(bounds)}: each lower end must be below its upper end")
    if not ((upper - lower >= _NARROWEST) & (upper - lower <= 1.0 / _NARROWEST)).all():
        raise ArgumentError(
            f"bounds={arguments.shown(bounds)}: must be between {_NARROWEST:g} and {1.0 / _NARROWEST:g} wide, or "
            "variances would not fit into doubles; change the unit"
        )
    return lower, upper


def scaled(x: Floats, lower: Floats, upper: Floats) -> Floats:
    """The values clipped to their range and scaled to [0, 1]."""
    return np.clip((np.clip(x, lower, upper) - lower) / (upper - lower), 0.0, 1.0)


def centred(x: Floats, lower: Floats, upper: Floats) -> Floats:
    """The values clipped to their range and scaled to [-1, 1]; a missing value is the middle of its range, 0."""
    inside = scaled(x, lower, upper)
    return np.where(np.isnan(inside), 0.0, 2.0 * inside - 1.0)


def present(x: Floats) -> Floats:
    """The rows with any value: one of nothing but missing values adds nothing to a sum, as a row that is zeroed out."""
    return x[~np.isnan(x).all(axis=1)]


def fraction(name: str, value: object) -> float:
    """A number in [1e-9, 1], such as the part of the largest length that rows are clipped to."""
    number = arguments.positive(name, value)
    if number > 1.0:
        raise ArgumentError(f"{name}={number}: must be at most 1")
    if number < _LEAST:
        raise ArgumentError(f"{name}={number}: must be at least {_LEAST:g}; hardly anything of a row would be left")
    return number


def whole(name: str, value: object, most: int) -> int:
    """A whole number from 1 on, such as that of steps."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(f"{name}={arguments.shown(value)}: must be an integer")
    if not 1 <= value <= most:
        raise ArgumentError(f"{name}={value}: must lie between 1 and {most}")
    return int(value)


def spread(rows: Floats, clip: float, mu: float, known: int | None = None) -> tuple[float, Floats, Floats]:
    """The noisy count of rows in [-1, 1], and the noisy mean and standard deviation of each feature.

    A vector (1, features, their squares) longer than clip sqrt(2 features + 1) is scaled down, and counts for less. The
    count is `known` where it is public and no vector is clipped. Where noise hides rows, means are drawn to the middle.

    Guarantee: mu-GDP for adding or removing a row. Means lie in [-1, 1] and deviations in [0, 1].
    """
    features = rows.shape[1]
    norm = clip * math.sqrt(2 * features + 1)
    sums = total(rows, lambda some: np.column_stack([np.ones(len(some)), some, some * some]), norm)
    found, noise = noisy(sums, norm, mu), norm / mu
    count = max(float(known or found[0]), noise)
    weight = count**2 / (count**2 + 3.0 * noise**2)  # a mean somewhere in [-1, 1] has the variance 1/3
    mean: Floats = np.clip(weight * found[1 : features + 1] / count, -1.0, 1.0)
    square = weight * found[features + 1 :] / count + (1.0 - weight) / 3.0
    return count, mean, np.sqrt(np.clip(square - mean**2, 0.0, 1.0))


def normals(shape: tuple[int, ...]) -> Floats:
    """Standard normal numbers, drawn like the noise, for what is chosen at random and published."""
    return noisy(np.zeros(shape, dtype=np.int64), 1.0, 1.0)
