"""Functions of noisy moments of two columns: their ratio, their correlation, and the line through them.

The interval of a ratio of two sums that share their noise inverts a test of every ratio [fieller1954]; correlation and
line have intervals by simulation of the noise. Their coordinates are sums over rows of (ALPHA, BETA u, BETA v,
GAMMA u^2, GAMMA v^2, 2 GAMMA u v), where u = x + y - 1 and v = x - y for x and y from 0 to 1 over their ranges.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rangebound.laws.family import Curve
from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.draw import AddedNoise, Estimate, Form, Publisher, Reading, farthest, held, nearest
from rangebound.release.plan.fields import LINE
from rangebound.release.plan.kinds.two_columns import ALPHA, BETA, GAMMA, Line, Ratio, TwoColumnsKind, far
from rangebound.release.plan.statistic import Columns, Pair, Sensitivity
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Bools, Floats

_HALVINGS = 80
_EQUAL = 1e-6  # two scales that differ by less are taken as the larger one


def ratio_interval(
    p: float, q: float, added: AddedNoise, *, lower: float, upper: float
) -> tuple[float, tuple[float, float]]:
    """The ratio (P + Q) / (P - Q) of coordinates with noise p and q, and an interval for it within two ends.

    At the true ratio R the sum (1 - R) P + (1 + R) Q is 0, so that (1 - R) p + (1 + R) q is noise alone, whose law is
    known. The interval has the ratios at which that is not too large to be noise: of all that the data allow, none is
    lost, however small the denominator is. Where p - q is not positive, all ratios are in it.

    Guarantee: it holds the true ratio, moved between the ends, with probability `added.level` at least.

    >>> from rangebound.laws.families import Laplace
    >>> added = AddedNoise(noise=Laplace(scale=1.0), level=0.95, slack=0.0)
    >>> value, (lower, upper) = ratio_interval(150.0, -50.0, added, lower=0.0, upper=10.0)
    >>> value, round(lower, 3), round(upper, 3)
    (0.5, 0.477, 0.524)
    """
    below = max(p - q, added.noise.scale)  # a denominator that noise may have made is no smaller than that noise
    value = min(max((p + q) / below, lower), upper)
    if p - q <= 0.0:
        return value, (lower, upper)

    def plausible(ratio: float) -> bool:
        a, b = abs(1.0 - ratio), abs(1.0 + ratio)
        seen = abs((1.0 - ratio) * p + (1.0 + ratio) * q) - added.slack * (a + b)
        return seen <= 0.0 or _tail(added, a, b, seen) >= 1.0 - added.level

    zero = (p + q) / (p - q)  # plausible, since nothing is seen there
    ends = _last(plausible, zero, lower), _last(plausible, zero, upper)
    least, most = (min(max(end, lower), upper) for end in ends)
    return value, (least, most)


def _last(plausible: Callable[[float], bool], inside: float, end: float) -> float:
    """The last plausible ratio on the way from one that is to an end; rounded away from it."""
    if plausible(end):
        return end
    outside = end
    for _ in range(_HALVINGS):
        middle = inside + (outside - inside) / 2
        if plausible(middle):
            inside = middle
        else:
            outside = middle
    return outside


def _tail(added: AddedNoise, a: float, b: float, seen: float) -> float:
    """P(|a X + b Y| > seen) for two independent draws of the noise, with a, b >= 0; rounded up where it is rounded.

    Laplace noise of the scales A > B: the characteristic function 1 / ((1 + A^2 s^2) (1 + B^2 s^2)) is
    (A^2 / (1 + A^2 s^2) - B^2 / (1 + B^2 s^2)) / (A^2 - B^2), so the tail is the same mixture of e^(-t / A) and
    e^(-t / B); for A = B it is (1 + t / (2 A)) e^(-t / A).
    """
    scale = added.noise.scale
    if added.noise.curve is Curve.QUADRATIC:
        return math.erfc(seen / (math.sqrt(2.0) * scale * math.hypot(a, b)))
    large, small = max(a, b) * scale, min(a, b) * scale
    if large - small <= _EQUAL * large:
        return (1.0 + seen / (2.0 * large)) * math.exp(-seen / large)
    rest = small**2 * math.exp(-seen / small) if small > 0.0 else 0.0
    return (large**2 * math.exp(-seen / large) - rest) / (large**2 - small**2)


DRAWS = 2**13
_ENOUGH = 20  # draws beyond each end; for rarer ones intervals come from those of the coordinates
_FINE = 2.0**20


@dataclass(frozen=True, kw_only=True)
class NoisyMoments:
    """The number of rows, and means, variances and covariance of x and y, from 0 to 1 over their ranges; many at once.

    Noise can make the number of rows and the variances 0 or negative, and then the others mean nothing.
    """

    rows: Floats
    x: Floats
    y: Floats
    xx: Floats
    yy: Floats
    xy: Floats


Answers = tuple[Floats, Bools]
"""What is asked of many moments, and where it has an answer."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """Intervals of all moments, which hold together; None where there may be no rows."""

    x: Pair
    y: Pair
    xx: Pair
    yy: Pair
    xy: Pair


ALL = (-math.inf, math.inf)


def moments(coordinates: Floats) -> NoisyMoments:
    """Moments from coordinates in the last axis."""
    alpha, beta, gamma = map(float, (ALPHA, BETA, GAMMA))
    rows = coordinates[..., 0] / alpha
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        u, v = coordinates[..., 1] / beta / rows, coordinates[..., 2] / beta / rows
        uu, vv = coordinates[..., 3] / gamma / rows - u * u, coordinates[..., 4] / gamma / rows - v * v
        uv = coordinates[..., 5] / (2.0 * gamma) / rows - u * v
    return NoisyMoments(
        rows=rows,
        x=(u + v + 1.0) / 2.0,
        y=(u - v + 1.0) / 2.0,
        xx=(uu + vv) / 4.0 + uv / 2.0,
        yy=(uu + vv) / 4.0 - uv / 2.0,
        xy=(uu - vv) / 4.0,
    )


def correlation(found: NoisyMoments) -> Answers:
    """The correlation, where there are rows and both variances are positive."""
    there = (found.rows > 0.0) & (found.xx > 0.0) & (found.yy > 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.clip(found.xy / np.sqrt(found.xx * found.yy), -1.0, 1.0), there


def slope(found: NoisyMoments) -> Answers:
    """The slope of the line of least squares, where there are rows and the variance of x is positive."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return found.xy / found.xx, (found.rows > 0.0) & (found.xx > 0.0)


def steadied(reading: Reading) -> NoisyMoments:
    """The moments of a draw, whose variances are at least as large as noise makes them half of the time.

    So a variance that is nothing but noise leaves a correlation and a slope near 0, not a quotient of two errors. A
    draw without rows has the moments of values in the middle of their ranges.
    """
    assert reading.added is not None
    own, drawn = moments(np.array(reading.values)), _simulated(reading.values, reading.added)
    if not own.rows > 0.0:
        middle, none = np.array(0.5), np.array(0.0)
        return NoisyMoments(rows=none, x=middle, y=middle, xx=np.array(1.0), yy=np.array(1.0), xy=none)
    valid = drawn.rows > 0.0
    xx, yy = (
        np.maximum(one, np.median(np.abs(many[valid] - one))) for one, many in ((own.xx, drawn.xx), (own.yy, drawn.yy))
    )
    x, y = np.clip(own.x, 0.0, 1.0), np.clip(own.y, 0.0, 1.0)
    return NoisyMoments(rows=own.rows, x=x, y=y, xx=xx, yy=yy, xy=own.xy)


def interval(reading: Reading, found: Answers, bounded: Callable[[], Pair], support: Pair) -> Pair:
    """An interval for an answer: where it lies for the coordinates of the draw less simulated noise.

    `found` has the answers for all of these, and where there are any. The true coordinates are those that were drawn
    less the noise, whose law is public, so coordinates that are likely are made by taking simulated noise away. Those
    without an answer count as beyond both ends. An answer that is a quotient of two linear forms with a positive
    denominator lies below R where one linear form is negative: for such ones the interval is as exact as the
    simulation. It is the same for every table with the same draw, since the simulated noise is fixed.

    Edge cases: at levels beyond what this many draws can tell, such as those of many intervals that hold at once, it is
    what `bounded` makes of the intervals of all coordinates.
    """
    added = reading.added
    assert added is not None
    expected = (1.0 - added.level) / 2.0 * DRAWS
    if expected < _ENOUGH:
        low, high = bounded()
        return min(max(low, support[0]), support[1]), min(max(high, support[0]), support[1])
    values, there = found
    at = max(math.floor(expected - math.sqrt(expected)), 0)
    low = np.partition(np.where(there, values, -math.inf), at)[at]
    high = np.partition(np.where(there, values, math.inf), DRAWS - 1 - at)[DRAWS - 1 - at]
    return max(float(low), support[0]), min(float(high), support[1])


def box(reading: Reading) -> Box | None:
    """Intervals of the moments, by interval arithmetic on those of the coordinates."""
    alpha, beta, gamma = map(float, (ALPHA, BETA, GAMMA))
    rows, *others = reading.intervals
    if rows[0] <= 0.0:
        return None
    ends = rows[0] / alpha, rows[1] / alpha
    units = beta, beta, gamma, gamma, 2.0 * gamma
    u, v, uu, vv, uv = (over((low / unit, high / unit), ends) for (low, high), unit in zip(others, units, strict=True))
    suu, svv, suv = less(uu, times(u, u)), less(vv, times(v, v)), less(uv, times(u, v))
    quarter = ((suu[0] + svv[0]) / 4.0, (suu[1] + svv[1]) / 4.0)
    return Box(
        x=((u[0] + v[0] + 1.0) / 2.0, (u[1] + v[1] + 1.0) / 2.0),
        y=((u[0] - v[1] + 1.0) / 2.0, (u[1] - v[0] + 1.0) / 2.0),
        xx=(quarter[0] + suv[0] / 2.0, quarter[1] + suv[1] / 2.0),
        yy=(quarter[0] - suv[1] / 2.0, quarter[1] - suv[0] / 2.0),
        xy=((suu[0] - svv[1]) / 4.0, (suu[1] - svv[0]) / 4.0),
    )


def correlation_bounds(found: Box | None) -> Pair:
    """An interval of the correlation."""
    if found is None or found.xx[0] <= 0.0 or found.yy[0] <= 0.0:
        return -1.0, 1.0
    spread = tuple(math.sqrt(one * two) for one, two in zip(found.xx, found.yy, strict=True))
    low, high = over(found.xy, (spread[0], spread[1]))
    return max(low, -1.0), min(high, 1.0)


def times(one: Pair, two: Pair) -> Pair:
    """An interval of products."""
    ends = [a * b for a in one for b in two]
    return min(ends), max(ends)


def less(one: Pair, two: Pair) -> Pair:
    """An interval of differences."""
    return one[0] - two[1], one[1] - two[0]


def over(one: Pair, positive: Pair) -> Pair:
    """An interval of quotients by positive numbers."""
    least, most = positive
    return one[0] / (most if one[0] > 0.0 else least), one[1] / (least if one[1] > 0.0 else most)


@lru_cache(maxsize=2)
def _simulated(values: tuple[float, ...], added: AddedNoise) -> NoisyMoments:
    """Moments that may be true ones: those of the coordinates of a draw, less noise.

    Every answer of one draw, and its interval, ask for the same.
    """
    return moments(likely(values, added))


def likely(values: tuple[float, ...], added: AddedNoise) -> Floats:
    """Coordinates that may be true ones: those of a draw, less noise."""
    noise = _noise(len(values), gaussian=added.noise.curve is Curve.QUADRATIC)
    return np.asarray(np.array(values) - added.noise.scale * noise)


def variances(coordinates: Floats, rows: int | None) -> Answers:
    """Variances of values from 0 to 1, from sums of (1 - x)^2, 2 x (1 - x) and x^2; the first is not there with `rows`.

    Edge cases: coordinates that noise made impossible have the nearest variance that there can be, from 0 to 1 / 4.
    """
    total = coordinates.sum(axis=-1) if rows is None else np.full(coordinates.shape[:-1], float(rows))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        middle, square = coordinates[..., -2] / total, coordinates[..., -1] / total
        return np.clip(square - (square + middle / 2.0) ** 2, 0.0, 0.25), total > 0.0


@lru_cache(maxsize=4)
def _noise(width: int, *, gaussian: bool) -> Floats:
    """`DRAWS` draws of noise of scale 1, the same always: from the digest of a constant text.

    Rounded to 2^-20, so that logarithms which differ in their last bits make the same numbers.
    """
    digits = hashlib.shake_256(b"rangebound: noise of moments").digest(8 * DRAWS * width)
    uniform = ((np.frombuffer(digits, dtype="<u8") >> np.uint64(12)) + 0.5) / 2.0**52
    if gaussian:
        from scipy import special  # an import of rangebound stays light

        drawn = special.ndtri(uniform)
    else:
        drawn = np.sign(uniform - 0.5) * -np.log1p(-2.0 * np.abs(uniform - 0.5))
    found = np.asarray(np.round(drawn * _FINE) / _FINE).reshape(DRAWS, width)
    return np.asfortranarray(found)  # a coordinate's numbers are read together


@dataclass(frozen=True)
class TwoColumnsForm(Form):
    """Coordinates that may be negative, with noise that is not clamped."""

    question: TwoColumnsKind

    loss, draws = LossForm.GAUSSIAN, 1  # the coordinates get noise together

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """Noise on the scale of the joint sensitivity, not clamped, since coordinates may be negative."""
        return publishers.joint_coordinates(
            found,
            share,
            support=LINE,
            width=len(self.question.coordinates({}, self.unit)),
            parts=1,
            confidence=level,
            shared=len(self.question.parts),
        )

    @abstractmethod
    def estimate(self, reading: Reading) -> Estimate:
        """The answer that the noisy coordinates make.

        Guarantee: it lies in the support, on the step and in its interval.
        """

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """The farthest that a number in the support can be from a true answer in the interval: so is its mean."""
        return farthest(lower, upper, self.question.allowed)

    def expected_error(self, publisher: Publisher) -> str:
        """The noise on each coordinate; what it does to the answer depends on the data."""
        count = len(self.question.coordinates({}, Unit()))
        form = f"by the data; each coordinate (of {count}), to which a row adds 1 at most, has an error of {{}}"
        return publisher.expected_error(1.0, f"{form} (root mean square)")


@dataclass(frozen=True)
class RatioForm(TwoColumnsForm):
    """The ratio of two sums."""

    question: Ratio

    def estimate(self, reading: Reading) -> Estimate:
        """The ratio that the noisy coordinates make; see `ratio_interval`.

        Guarantee: it lies in the support, on the step and in its interval.
        """
        assert reading.added is not None
        asked, hull = self.question, self.question.allowed.hull
        scale = far(asked.numerator) / far(asked.denominator)
        p, q = reading.values
        value, ends = ratio_interval(p, q, reading.added, lower=hull.lower / scale, upper=hull.upper / scale)
        lower, upper = (end * scale for end in ends)
        return held(nearest(value * scale, asked.allowed, asked.step), lower, upper, asked.allowed)


@dataclass(frozen=True)
class CorrelationForm(TwoColumnsForm):
    """Pearson's correlation."""

    def estimate(self, reading: Reading) -> Estimate:
        """The correlation of the noisy moments, with an interval by simulation; see `interval`.

        Guarantee: it lies in the support, on the step and in its interval.
        """
        asked, hull = self.question, self.question.allowed.hull
        value, _ = correlation(steadied(reading))
        assert reading.added is not None
        found = correlation(_simulated(reading.values, reading.added))
        ends = interval(reading, found, lambda: correlation_bounds(box(reading)), (hull.lower, hull.upper))
        return held(nearest(float(value), asked.allowed, asked.step), *ends, asked.allowed)


@dataclass(frozen=True)
class LineForm(TwoColumnsForm):
    """The slope and the intercept of the line of least squares."""

    question: Line

    def estimate(self, reading: Reading) -> Estimate:
        """The slope or the intercept by the noisy moments, with an interval by simulation; see `interval`.

        Guarantee: it lies in its support, on the step and in its interval. Only a support that the plan states cuts the
        interval: where x varies very little, the true line can be steeper than any that is published.
        """
        asked, allowed = self.question, self.question.supports[reading.part]
        answer, bounded = ((self._slope, self._slopes), (self._intercept, self._intercepts))[reading.part]
        value = float(answer(steadied(reading))[0])
        answers = LINE if (asked.slopes, asked.intercepts)[reading.part] is None else allowed
        assert reading.added is not None
        found = answer(_simulated(reading.values, reading.added))
        ends = interval(reading, found, lambda: bounded(box(reading)), (answers.lower, answers.upper))
        return held(nearest(value, allowed, asked.step), *ends, answers)

    def earlier_estimate(self, reading: Reading) -> Estimate:
        """The same with an interval that is cut to the support."""
        found = self.estimate(reading)
        return held(found.value, found.lower, found.upper, self.question.supports[reading.part])

    @property
    def _unit(self) -> float:
        """A slope of 1 between the ranges, in the units of the columns."""
        return self.question.y.bounds.width / self.question.x.bounds.width

    def _slope(self, found: NoisyMoments) -> Answers:
        value, there = slope(found)
        return value * self._unit, there

    def _intercept(self, found: NoisyMoments) -> Answers:
        """The mean of y less the slope times the mean of x, in the units of the columns."""
        slope, there = self._slope(found)
        x, y = self.question.x.bounds, self.question.y.bounds
        with np.errstate(invalid="ignore", over="ignore"):
            return y.lower + y.width * found.y - slope * (x.lower + x.width * found.x), there

    def _slopes(self, found: Box | None) -> Pair:
        low, high = ALL if found is None or found.xx[0] <= 0.0 else over(found.xy, found.xx)
        return low * self._unit, high * self._unit

    def _intercepts(self, found: Box | None) -> Pair:
        slopes, x, y = self._slopes(found), self.question.x.bounds, self.question.y.bounds
        if found is None or slopes == ALL:
            return ALL
        x_mean, y_mean = (
            (ends.lower + ends.width * low, ends.lower + ends.width * high)
            for ends, (low, high) in ((x, found.x), (y, found.y))
        )
        return less(y_mean, times(slopes, x_mean))

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """None: slopes and intercepts lie in two supports, and no bound is known that both have."""
        return None
