"""Laplace noise, density e^{-|x|/b} / (2b), and the same conditioned to stay within a limit of zero [geng2020]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from flint import arb

from rangebound.errors import ArgumentError
from rangebound.laws.family import BallNoise, Curve, Noise
from rangebound.values import arguments
from rangebound.values.ball import (
    INFINITY,
    Ball,
    End,
    ball,
    is_taylor,
    kinked,
    largest,
    refine,
    rising,
    smallest,
    up,
    value_of,
)
from rangebound.values.numeric import Array, ldexpm1, log_sum, namespace

_LOG_2 = math.log(2.0)


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Laplace(Noise):
    """Laplace noise of scale `b`: density e^{-|x|/b} / (2b).

    Example:
    >>> import numpy as np
    >>> round(float(Laplace(scale=2.0).log_pdf(np.asarray(0.0))), 4)
    -1.3863
    """

    name: ClassVar[str] = "laplace"
    curve: ClassVar[Curve] = Curve.LINEAR
    pure: ClassVar[bool] = True

    scale: float

    @property
    def extent(self) -> float:
        return math.inf

    @property
    def untruncated(self) -> Laplace:
        return self

    @property
    def kinks(self) -> tuple[float, ...]:
        return (0.0,)

    def in_balls(self) -> LaplaceInBalls:
        return LaplaceInBalls(self)

    def decay(self, start: Array) -> Array:
        return namespace(start).zeros_like(start) + self.scale

    def log_pdf(self, x: Array) -> Array:
        return -abs(x) / self.scale - math.log(2.0 * self.scale)

    def log_mass(self, lower: Array, upper: Array, location: Array) -> Array:
        xp = namespace(lower, upper, location)
        a, b = (lower - location) / self.scale, (upper - location) / self.scale
        width = (upper - lower) / self.scale
        outside = -xp.maximum(xp.maximum(a, -b), xp.zeros_like(width)) + ldexpm1(-width)
        both = xp.stack(
            xp.broadcast_arrays(ldexpm1(xp.minimum(a, xp.zeros_like(a))), ldexpm1(-xp.maximum(b, xp.zeros_like(b)))),
            axis=-1,
        )
        return xp.where((a < 0.0) & (b > 0.0), log_sum(both), outside) - _LOG_2

    def reach(self, lower: Array, log_mass: Array, location: Array) -> Array:
        xp = namespace(lower, log_mass, location)
        b = self.scale
        a = (lower - location) / b
        left = xp.where(xp.isinf(a), location + b * (log_mass + _LOG_2), 0.0)
        finite = xp.where(xp.isinf(a), xp.zeros_like(a), a)
        grown = log_mass + _LOG_2 - xp.minimum(finite, xp.zeros_like(a))
        softened = xp.maximum(grown, xp.zeros_like(grown)) + xp.log1p(xp.exp(-abs(grown)))  # log(1 + e^grown)
        left = xp.where(xp.isinf(a), left, lower + b * softened)
        rest = xp.exp(xp.minimum(log_mass + _LOG_2 + xp.maximum(a, xp.zeros_like(a)), xp.zeros_like(log_mass)))
        used = -xp.expm1(xp.minimum(a, xp.zeros_like(a)))  # twice the mass of [lower, location]
        shrunk = xp.where(a < 0.0, rest - used, rest)
        shrunk = xp.clip(shrunk, 0.0, 1.0 - 2.0**-53)
        right = xp.maximum(lower, location) - b * xp.log1p(-shrunk)
        return xp.where((a < 0.0) & (rest <= used), left, right)

    def crossing(self, p: Array, q: Array, level: Array) -> Array:
        """For p < q: where log g(x-p) - log g(x-q) falls through `level`, clipped to [p, q]."""
        xp = namespace(p, q, level)
        return xp.clip(0.5 * (p + q - level * self.scale), p, q)

    def log_renyi_integral(self, p: Array, q: Array, order: float, lower: Array, upper: Array) -> Array:
        xp = namespace(p, q, lower, upper)
        b, a = self.scale, order
        low, high = xp.minimum(p, q), xp.maximum(p, q)
        none = xp.zeros_like(p + q)  # plain numbers alone would be single precision to PyTorch
        first = xp.where(p < q, none + a, none + (1.0 - a))  # the exponent of the noise whose centre is on the left
        gap = (high - low) / b
        rate = 2.0 * first - 1.0  # the integrand falls like e^{-rate (x - low)/b} between the centres

        def piece(start: Array, end: Array, falling: Array) -> Array:
            start, end = xp.broadcast_arrays(start, end)
            width = xp.where(end > start, end - start, xp.zeros_like(end)) / b * abs(falling)
            return ldexpm1(-width) - xp.log(abs(falling))

        zero = xp.zeros_like(gap)
        one = zero + 1.0
        edge = xp.minimum(upper, low)
        left = -(low - edge) / b - (1.0 - first) * gap + piece(xp.minimum(lower, low), edge, one)
        edge = xp.maximum(lower, high)
        right = -(edge - high) / b - first * gap + piece(edge, xp.maximum(upper, high), one)
        start, end = xp.clip(lower, low, high), xp.clip(upper, low, high)
        at = xp.where(rate > 0.0, start, end)
        middle = -(1.0 - first) * gap - rate * (at - low) / b + piece(start, end, rate)
        logs = xp.stack(xp.broadcast_arrays(left, middle, right), axis=-1)
        return log_sum(logs) - _LOG_2


class LaplaceInBalls(BallNoise):
    """Laplace noise in balls."""

    @property
    def steepness(self) -> Ball:
        return 1 / self.scale

    def pdf(self, y: Ball) -> Ball:
        at = value_of(y)
        if at <= 0 or at >= 0:
            return ((y if at <= 0 else -y) / self.scale).exp() / (2 * self.scale)
        value = rising(arb.exp, -abs(at) / self.scale) / (2 * self.scale)
        return kinked(y, value, (value / self.scale).union(-value / self.scale)) if is_taylor(y) else value

    def cdf(self, y: Ball) -> Ball:
        at = value_of(y)
        if at <= 0:
            return (y / self.scale).exp() / 2
        if at >= 0:
            return 1 - (-y / self.scale).exp() / 2
        value = (at.lower() / self.scale).exp() / 2
        value = value.union(1 - (-at.upper() / self.scale).exp() / 2)
        return kinked(y, value, self.pdf(at)) if is_taylor(y) else value

    def score(self, y: Ball) -> Ball:
        """-(log g)'(y), a plain ball: sign(y)/b."""
        return y.sgn() / self.scale

    def score_moments(self, lower: End, upper: End) -> tuple[Ball, Ball, Ball]:
        low, high = (ball(0.0) if end is None else self.pdf(end) for end in (lower, upper))
        mass = self.mass(lower, upper)
        return mass, low - high, mass / (self.scale * self.scale)

    def partial_moments(self, start: Ball, end: End) -> tuple[Ball, Ball, Ball]:
        b = self.scale

        def tail(y: Ball) -> tuple[Ball, Ball, Ball]:
            weight = (-y / b).exp() / 2
            return weight, weight * (y + b), weight * (y * y + 2 * b * y + 2 * b * b)

        near = tail(start)
        far = (ball(0.0),) * 3 if end is None else tail(end)
        return near[0] - far[0], near[1] - far[1], near[2] - far[2]

    def log_ratio(self, y: End, d: Ball) -> Ball:
        """log g(y) - log g(y - d) for d > 0; `y` None means far to the left."""
        if y is None:
            return d / self.scale
        return smallest(largest(d - 2 * y, -d), d) / self.scale

    def thresholds(self, p: Ball, d: Ball, level: Ball) -> list[Ball]:
        return [p + smallest(largest((d - level * self.scale) / 2, ball(0.0)), d)]

    def renyi_integral(self, p: Ball, d: Ball, order: Ball, lower: End, upper: End) -> Ball:
        b, zero = self.scale, ball(0.0)
        start = None if lower is None else lower - p
        end = None if upper is None else upper - p

        def fall(y: End, rate: Ball) -> Ball:
            return zero if y is None else (-y * rate / b).exp()

        def below(y: Ball) -> Ball:
            return (smallest(y, zero) / b).exp()

        def clip(y: End, otherwise: Ball) -> Ball:
            return otherwise if y is None else smallest(largest(y, zero), d)

        def above(y: End) -> End:
            return None if y is None else largest(y - d, zero)

        rate, one = 2 * order - 1, ball(1.0)
        near, far = ((order - 1) * d / b).exp() / 2, (-order * d / b).exp() / 2
        left = (one if end is None else below(end)) - (zero if start is None else below(start))
        middle = (fall(clip(start, zero), rate) - fall(clip(end, d), rate)) / rate
        right = fall(zero if start is None else above(start), one) - fall(above(end), one)
        return near * (left + middle) + far * right


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class TruncatedLaplacian(Noise):
    """Noise with density proportional to e^{-|x|/b} on [-limit, limit] and zero outside [geng2020, Def 3].

    Example:
    >>> import numpy as np
    >>> float(TruncatedLaplacian(scale=1.0, limit=9.2).log_pdf(np.asarray(9.3)))
    -inf
    """

    name: ClassVar[str] = "truncated_laplacian"
    curve: ClassVar[Curve] = Curve.LINEAR
    pure: ClassVar[bool] = False

    scale: float
    limit: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "limit", arguments.positive("limit", self.limit))
        if not math.isfinite(self.limit / self.scale) or self.limit / self.scale < 1e-12:
            raise ArgumentError(f"limit={self.limit}: must be between 1e-12 and 1e308 scales (scale={self.scale})")

    @property
    def extent(self) -> float:
        return self.limit

    @property
    def kinks(self) -> tuple[float, ...]:
        return (-self.limit, 0.0, self.limit)

    @classmethod
    def calibrated(cls, scale: float, epsilon: float, delta: float) -> Self:
        """With the published ratio of limit to scale: ln(1 + (e^eps - 1)/(2 delta)), rounded up [geng2020, Def 3]."""
        ratio = up(refine(lambda: (ball(epsilon).expm1() / (2 * ball(delta))).log1p()))
        return cls(scale=scale, limit=ratio * scale)

    @classmethod
    def refusal(cls, epsilon: float, delta: float) -> str | None:
        if 0.0 < delta < 0.5:
            return None
        return (
            f"delta={delta}: truncated Laplacian noise needs a delta in (0, 1/2), "
            "because near its limit an output is possible for one of two neighbours only; "
            "use Laplace for pure privacy"
        )

    def in_balls(self) -> TruncatedLaplacianInBalls:
        return TruncatedLaplacianInBalls(self)

    def decay(self, start: Array) -> Array:
        return self.untruncated.decay(start)

    @property
    def untruncated(self) -> Laplace:
        return Laplace(scale=self.scale)

    @property
    def _log_normaliser(self) -> float:
        return math.log(-math.expm1(-self.limit / self.scale))

    def log_pdf(self, x: Array) -> Array:
        """log of the density at `x`; -inf beyond the limit."""
        xp = namespace(x)
        return xp.where(abs(x) <= self.limit, self.untruncated.log_pdf(x) - self._log_normaliser, -xp.inf)

    def log_mass(self, lower: Array, upper: Array, location: Array) -> Array:
        xp = namespace(lower, upper, location)
        lower, upper, location = xp.broadcast_arrays(lower, upper, location)
        start, end = location - self.limit, location + self.limit
        mass = self.untruncated.log_mass(xp.clip(lower, start, end), xp.clip(upper, start, end), location)
        whole = (lower <= start) & (upper >= end)
        return xp.where(whole, xp.zeros_like(mass), mass - self._log_normaliser)

    def reach(self, lower: Array, log_mass: Array, location: Array) -> Array:
        xp = namespace(lower, log_mass, location)
        start = xp.maximum(lower, location - self.limit)
        return xp.minimum(
            self.untruncated.reach(start, log_mass + self._log_normaliser, location), location + self.limit
        )

    def crossing(self, p: Array, q: Array, level: Array) -> Array:
        """For p < q: where log g(x-p) - log g(x-q) falls through `level`: never left of where q's noise begins."""
        xp = namespace(p, q, level)
        inner = self.untruncated.crossing(p, q, level)
        begins, ends = q - self.limit, p + self.limit
        inner = xp.where(level * self.scale > q - p, begins, inner)
        inner = xp.where(level * self.scale < p - q, ends, inner)
        return xp.maximum(xp.minimum(inner, ends), begins)

    def log_renyi_integral(self, p: Array, q: Array, order: float, lower: Array, upper: Array) -> Array:
        """log of the integral over [lower, upper] of g(x-p)^order g(x-q)^(1-order); inf where only p's lives."""
        xp = namespace(p, q, lower, upper)
        start = xp.clip(lower, p - self.limit, p + self.limit)
        end = xp.clip(upper, p - self.limit, p + self.limit)
        both_start, both_end = xp.maximum(start, q - self.limit), xp.minimum(end, q + self.limit)
        escapes = (end > start) & ((both_start > start) | (both_end < end))
        renyi_integral = self.untruncated.log_renyi_integral(p, q, order, start, end) - self._log_normaliser
        return xp.where(escapes, xp.inf, renyi_integral)


class TruncatedLaplacianInBalls(BallNoise):
    """Truncated Laplacian noise in balls."""

    def __init__(self, noise: TruncatedLaplacian) -> None:
        super().__init__(noise)
        self._untruncated = noise.untruncated.in_balls()
        self._limit = ball(noise.limit)
        self._normaliser = -(-self._limit / self.scale).expm1()

    @property
    def limit(self) -> Ball:
        return self._limit

    @property
    def normaliser(self) -> Ball:
        return self._normaliser

    @property
    def untruncated(self) -> LaplaceInBalls:
        return self._untruncated

    @property
    def steepness(self) -> Ball:
        return INFINITY

    def pdf(self, y: Ball) -> Ball:
        distance = abs(value_of(y))
        if distance > self.limit:
            return ball(0.0)
        if distance <= self.limit:
            return self._untruncated.pdf(y) / self._normaliser
        value = (self._untruncated.pdf(value_of(y)) / self._normaliser).union(ball(0.0))
        return kinked(y, value, arb.nan()) if is_taylor(y) else value

    def cdf(self, y: Ball) -> Ball:
        at = value_of(y)
        if at <= -self.limit:
            return ball(0.0)
        if at >= self.limit:
            return ball(1.0)
        if abs(at) <= self.limit:
            beyond = (-self.limit / self.scale).exp() / 2
            return (self._untruncated.cdf(y) - beyond) / self._normaliser
        inside = at.lower().max(-self.limit).union(at.upper().min(self.limit))
        value = self.cdf(inside.lower().max(-self.limit)).union(self.cdf(inside.upper().min(self.limit)))
        return kinked(y, value, self.pdf(at)) if is_taylor(y) else value

    def score(self, y: Ball) -> Ball:
        return self._untruncated.score(y)

    def score_moments(self, lower: End, upper: End) -> tuple[Ball, Ball, Ball]:
        """Those of the density inside the limit; the edges that it has at the limit are left to the caller."""
        mass, first, second = self._untruncated.score_moments(self._inside(lower, -1), self._inside(upper, 1))
        return mass / self._normaliser, first / self._normaliser, second / self._normaliser

    def partial_moments(self, start: Ball, end: End) -> tuple[Ball, Ball, Ball]:
        if start >= self._limit:
            return ball(0.0), ball(0.0), ball(0.0)
        found = self._untruncated.partial_moments(start, self._inside(end, 1))
        return found[0] / self._normaliser, found[1] / self._normaliser, found[2] / self._normaliser

    def _inside(self, end: End, sign: int) -> Ball:
        """An end, or the limit on its side where it lies beyond or is infinite."""
        if end is None:
            return sign * self._limit
        return end.max(-self._limit).min(self._limit)

    def log_ratio(self, y: End, d: Ball) -> Ball:
        """log g(y) - log g(y - d) for d > 0 where g(y) > 0; `y` None means as far left as the noise goes."""
        if y is None or value_of(y) - d < -self.limit:
            return INFINITY
        if value_of(y) - d >= -self.limit:
            return self._untruncated.log_ratio(y, d)
        return arb.nan()

    def thresholds(self, p: Ball, d: Ball, level: Ball) -> list[Ball]:
        """Where the log-ratio falls through `level`, where the right one's noise begins, where the left one's ends."""
        begins = p + (d - self.limit)
        ends = p + self.limit
        inner = [smallest(largest(t, begins), ends) for t in self._untruncated.thresholds(p, d, level)]
        return [begins, *inner, ends]

    def renyi_integral(self, p: Ball, d: Ball, order: Ball, lower: End, upper: End) -> Ball:
        """Integral over [lower, upper] of g(x-p)^order g(x-p-d)^(1-order); infinite where only the left one lives."""
        position = value_of(p)
        starts = position - self.limit if lower is None else largest(lower, position - self.limit)
        ends = position + self.limit if upper is None else smallest(upper, position + self.limit)
        if ends <= starts:
            return ball(0.0)
        begins = position + (d - self.limit)
        if starts < begins and starts < ends:
            return INFINITY
        if not starts >= begins:
            return arb.nan()
        top = p + self.limit
        end = top if upper is None else smallest(upper, top)
        return self._untruncated.renyi_integral(p, d, order, lower, end) / self._normaliser
