"""A noise family that the package does not know: logistic noise, in one file.

The density is e^{-y}/(1 + e^{-y})^2 for y = x/scale. Its tails are those of Laplace noise, so it has a pure epsilon.
With t = F(y), the distribution function, g(y)/g(y - d) = e^{-d} (t + (1 - t) e^d)^2: all of a pair is elementary in t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from flint import arb

from rangebound.laws.family import BallNoise, Curve, Noise
from rangebound.values import arguments
from rangebound.values.ball import Ball, ball, rising, value_of
from rangebound.values.numeric import Array, ldexpm1, namespace


@dataclass(frozen=True, kw_only=True)
class Logistic(Noise):
    name: ClassVar[str] = "logistic"
    curve: ClassVar[Curve] = Curve.OTHER
    pure: ClassVar[bool] = True

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", arguments.positive("scale", self.scale))

    @property
    def extent(self) -> float:
        return math.inf

    @property
    def untruncated(self) -> Logistic:
        return self

    @property
    def kinks(self) -> tuple[float, ...]:
        return ()

    @classmethod
    def calibrated(cls, scale: float, epsilon: float, delta: float) -> Self:
        return cls(scale=scale)

    @classmethod
    def refusal(cls, epsilon: float, delta: float) -> str | None:
        return None

    def in_balls(self) -> LogisticInBalls:
        return LogisticInBalls(self)

    def decay(self, start: Array) -> Array:
        return namespace(start).zeros_like(start) + self.scale

    def log_pdf(self, x: Array) -> Array:
        y = abs(x) / self.scale
        return -y - 2.0 * namespace(x).log1p(namespace(x).exp(-y)) - math.log(self.scale)

    def log_mass(self, lower: Array, upper: Array, location: Array) -> Array:
        """F(b) - F(a) = F(b) F(-a) (1 - e^{a-b}): nothing cancels."""
        a, b = (lower - location) / self.scale, (upper - location) / self.scale
        return self._log_cdf(b) + self._log_cdf(-a) + ldexpm1((lower - upper) / self.scale)

    def reach(self, lower: Array, log_mass: Array, location: Array) -> Array:
        xp = namespace(lower, log_mass, location)
        below = xp.exp(self._log_cdf((lower - location) / self.scale)) + xp.exp(log_mass)
        above = xp.exp(self._log_cdf((location - lower) / self.scale)) - xp.exp(log_mass)
        return location + self.scale * (xp.log(below) - xp.log(xp.maximum(above, xp.zeros_like(above))))

    def crossing(self, p: Array, q: Array, level: Array) -> Array:
        xp = namespace(p, q, level)
        d = (q - p) / self.scale
        k = xp.exp(0.5 * (xp.clip(level, -d, d) + d))
        return p - self.scale * (xp.log(k - 1.0) - xp.log(xp.exp(d) - k))

    def log_renyi_integral(self, p: Array, q: Array, order: float, lower: Array, upper: Array) -> Array:
        """With t = F(x - p): the integral of e^{-d(a-1)} (t + (1-t) e^d)^(2a-2), d with the sign of q - p."""
        xp = namespace(p, q, lower, upper)
        d = (q - p) / self.scale

        def at(end: Array) -> Array:
            t = xp.exp(self._log_cdf((end - p) / self.scale))
            return (t + (1.0 - t) * xp.exp(d)) ** (2.0 * order - 1.0)

        return -d * (order - 1.0) + xp.log((at(lower) - at(upper)) / (xp.expm1(d) * (2.0 * order - 1.0)))

    def _log_cdf(self, y: Array) -> Array:
        xp = namespace(y)
        return xp.minimum(y, xp.zeros_like(y)) - xp.log1p(xp.exp(-abs(y)))


class LogisticInBalls(BallNoise):
    @property
    def steepness(self) -> Ball:
        return 1 / self.scale

    def pdf(self, y: Ball) -> Ball:
        z = y / self.scale
        return 1 / ((z.exp() + 2 + (-z).exp()) * self.scale)

    def cdf(self, y: Ball) -> Ball:
        return 1 / (1 + (-y / self.scale).exp())

    def score(self, y: Ball) -> Ball:
        return rising(arb.tanh, y / (2 * self.scale)) / self.scale

    def score_moments(self, lower: Any, upper: Any) -> tuple[Ball, Ball, Ball]:
        low, high = (ball(0.0) if end is None else self.pdf(end) for end in (lower, upper))
        first, last = (
            ball(-1.0) if lower is None else self._odd(lower),
            ball(1.0) if upper is None else self._odd(upper),
        )
        second = (last * last * last - first * first * first) / (6 * self.scale * self.scale)
        return self.mass(lower, upper), low - high, second

    def _odd(self, y: Ball) -> Ball:
        """2 F(y) - 1."""
        return (y / (2 * self.scale)).tanh()

    def partial_moments(self, start: Ball, end: Ball | None) -> tuple[Ball, Ball, Ball]:
        """By parts from the tail S = 1 - F: its integral is log(1 + e^-y), and that one's a dilogarithm."""
        s = self.scale

        def tail(y: Ball) -> tuple[Ball, Ball, Ball]:
            z = y / s
            above, once, twice = self.sf(y), (-z).exp().log1p() * s, -(-(-z).exp()).polylog(2) * s * s
            return above, y * above + once, y * y * above + 2 * (y * once + twice)

        near = tail(start)
        far = (ball(0.0),) * 3 if end is None else tail(end)
        return near[0] - far[0], near[1] - far[1], near[2] - far[2]

    def log_ratio(self, y: Any, d: Ball) -> Any:
        """-d + 2 log(F + (1 - F) e^d)."""
        if y is None:
            return d / self.scale
        t, distance = self.cdf(y), d / self.scale
        return 2 * (t + (1 - t) * distance.exp()).log() - distance

    def thresholds(self, p: Any, d: Ball, level: Any) -> list[Any]:
        """Where e^{-y} = (k - 1)/(e^d - k), k = e^{(level + d)/2}; where there is none, any place will do."""
        distance = d / self.scale
        if value_of(level) >= distance:
            return [p]
        if value_of(level) <= -distance:
            return [p + d]
        k = ((level + distance) / 2).exp()
        above, below = k - 1, distance.exp() - k
        if not (value_of(above) > 0 and value_of(below) > 0):
            return [p + arb.nan()]
        return [p - self.scale * (above.log() - below.log())]

    def renyi_integral(self, p: Any, d: Ball, order: Ball, lower: Any, upper: Any) -> Any:
        distance = d / self.scale
        power = 2 * order - 1

        def at(end: Any, otherwise: Ball) -> Any:
            t = otherwise if end is None else self.cdf(end - p)
            return ((t + (1 - t) * distance.exp()).log() * power).exp()

        whole = at(lower, ball(0.0)) - at(upper, ball(1.0))
        return (-(order - 1) * distance).exp() * whole / (distance.expm1() * power)
