"""Gaussian noise: the normal density with standard deviation s."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from flint import arb

from rangebound.laws.family import BallNoise, Curve, Noise
from rangebound.values import arguments
from rangebound.values.array_types import legendre
from rangebound.values.ball import INFINITY, Ball, End, ball, is_taylor, rising
from rangebound.values.numeric import Array, as_in, ldexpm1, log_ndtr, log_sum, namespace, special

_LOG_ROOT_2_PI = 0.5 * math.log(2.0 * math.pi)
_FAR = 1e150


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Gaussian(Noise):
    """Gaussian noise of standard deviation `s`.

    Example:
    >>> import numpy as np
    >>> round(float(np.exp(Gaussian(scale=1.0).log_mass(np.asarray(-1.96), np.asarray(1.96), np.asarray(0.0)))), 4)
    0.95
    """

    name: ClassVar[str] = "gaussian"
    curve: ClassVar[Curve] = Curve.QUADRATIC
    pure: ClassVar[bool] = False

    scale: float

    @property
    def extent(self) -> float:
        return math.inf

    @property
    def untruncated(self) -> Gaussian:
        return self

    @property
    def kinks(self) -> tuple[float, ...]:
        return ()

    def in_balls(self) -> GaussianInBalls:
        return GaussianInBalls(self)

    def decay(self, start: Array) -> Array:
        """The scale, and less far out, where the log-density is steep."""
        xp = namespace(start)
        return self.scale / xp.maximum(start / self.scale, xp.ones_like(start))

    def log_pdf(self, x: Array) -> Array:
        z = namespace(x).clip(x / self.scale, -_FAR, _FAR)  # so that the square fits into a double
        return -0.5 * z * z - (math.log(self.scale) + _LOG_ROOT_2_PI)

    def log_mass(self, lower: Array, upper: Array, location: Array) -> Array:
        """log of the probability that `location` + noise falls into [lower, upper].

        Both ends are mirrored into the lower tail, where log_ndtr keeps its relative accuracy; a difference
        that would cancel (a narrow span) is a Gauss-Legendre sum instead.
        """
        width = (upper - lower) / self.scale
        return self._log_mass((lower - location) / self.scale, (upper - location) / self.scale, width)

    def _log_mass(self, a: Array, b: Array, width: Array) -> Array:
        """log of the probability of [a, b] in units of the scale; the width comes separately, with all its digits."""
        xp = namespace(a, b)
        flip = a > -b
        a, b = xp.where(flip, -b, a), xp.where(flip, -a, b)
        top = log_ndtr(b)
        gone = xp.isinf(top)  # so far out that even the logarithm overflows: no mass
        gap = log_ndtr(a) - xp.where(gone, xp.zeros_like(top), top)
        wide = top + ldexpm1(xp.minimum(gap, xp.zeros_like(top)))
        narrow = (width < 1.0) & (abs(a) * width < 4.0)
        if not bool(xp.any(narrow)):
            return wide
        middle = 0.5 * (xp.where(narrow, a, xp.zeros_like(top)) + xp.where(narrow, b, xp.zeros_like(top)))
        half = xp.where(narrow, 0.5 * width, 1.0 + xp.zeros_like(top))
        nodes, weights = (as_in(top, each) for each in legendre(20))
        h = half[..., None] * nodes
        inner = xp.sum(weights * xp.exp(-(middle[..., None] + 0.5 * h) * h), axis=-1)
        empty = half == 0.0
        summed = -0.5 * middle * middle - _LOG_ROOT_2_PI + xp.log(xp.where(empty, 1.0, half) * inner)
        return xp.where(narrow, xp.where(empty, -xp.inf, summed), wide)

    def reach(self, lower: Array, log_mass: Array, location: Array) -> Array:
        xp, sp = namespace(lower, log_mass, location), special(lower, log_mass, location)
        start = (lower - location) / self.scale
        below, above = log_ndtr(start), log_ndtr(-start)
        both = log_sum(xp.stack(xp.broadcast_arrays(below, log_mass), axis=-1))
        left = sp.ndtri_exp(xp.minimum(both, xp.zeros_like(both)))
        rest = above + ldexpm1(xp.minimum(log_mass - above, xp.zeros_like(both)))
        right = -sp.ndtri_exp(rest)
        z = xp.where(both < math.log(0.5), left, right)
        x = xp.maximum(location + self.scale * z, lower + xp.zeros_like(z))
        # Far outside, the location has no digits left for so short a way: go by the density at the start instead.
        start_at = xp.where(xp.isinf(lower), location, lower) + xp.zeros_like(z)
        known = xp.isfinite(x) & xp.isfinite(log_mass) & ~xp.isinf(lower)
        off = self.log_mass(start_at, xp.where(known, x, start_at), location) - xp.where(known, log_mass, 0.0)
        rough = known & ~(abs(off) < 0.1)
        jump = xp.exp(xp.clip(xp.where(rough, log_mass - self.log_pdf(start_at - location), 0.0), None, 700.0))
        x = xp.where(rough & (jump < 0.1 * self.scale / (1.0 + abs(start))), start_at + jump, x)
        for _ in range(2):  # Newton steps on the mass itself, which does not cancel
            ok = xp.isfinite(x) & xp.isfinite(log_mass)
            at = xp.where(ok, x, xp.maximum(lower, location))
            off = self.log_mass(lower, at, location) - xp.where(ok, log_mass, 0.0)
            ok = ok & (abs(off) < 0.1)
            step = xp.exp(xp.where(ok, log_mass - self.log_pdf(at - location), 0.0)) * xp.expm1(xp.where(ok, off, 0.0))
            x = xp.where(ok, xp.maximum(at - step, lower + xp.zeros_like(at)), x)
        return x

    def crossing(self, p: Array, q: Array, level: Array) -> Array:
        gap = q - p
        return 0.5 * (p + q) - level * self.scale * (self.scale / gap)

    def log_renyi_integral(self, p: Array, q: Array, order: float, lower: Array, upper: Array) -> Array:
        gap = (q - p) / self.scale
        # The ends as seen from p and then from p + (1 - order)(q - p): that point itself may have too few digits.
        a, b = ((end - p) / self.scale - (1.0 - order) * gap for end in (lower, upper))
        return 0.5 * order * (order - 1.0) * gap * gap + self._log_mass(a, b, (upper - lower) / self.scale)


class GaussianInBalls(BallNoise):
    """Gaussian noise in balls."""

    def __init__(self, noise: Gaussian) -> None:
        super().__init__(noise)
        self._shrink = 1 / (self.scale * ball(2.0).sqrt())
        self._height = 1 / (self.scale * (2 * arb.pi()).sqrt())
        self._known: dict[tuple[object, ...], Ball] = {}

    @property
    def steepness(self) -> Ball:
        return INFINITY

    def pdf(self, y: Ball) -> Ball:
        z = y * self._shrink
        return (-(z * z)).exp() * self._height

    def cdf(self, y: Ball) -> Ball:
        if not is_taylor(y):
            return rising(self._cdf, y)
        if not y[0].is_exact():
            return (y * -self._shrink).erfc() / 2
        return (self.pdf(y) * y.derivative()).integral() + self._cdf(y[0])

    def _cdf(self, y: Ball) -> Ball:
        """The same at an exact offset; the ends of a cell are the ends of its neighbours and come up again."""
        if not y.is_finite():
            return (-y).erfc() / 2
        key = y.man_exp()
        if key not in self._known:
            self._known[key] = rising(arb.erfc, y * -self._shrink) / 2  # erfc of a ball far out never ends
        return self._known[key]

    def score(self, y: Ball) -> Ball:
        return y / (self.scale * self.scale)

    def score_moments(self, lower: End, upper: End) -> tuple[Ball, Ball, Ball]:
        zero = ball(0.0)
        low, high = (zero if end is None else self.pdf(end) for end in (lower, upper))
        mass, variance = self.mass(lower, upper), self.scale * self.scale
        edge = (zero if lower is None else lower * low) - (zero if upper is None else upper * high)
        return mass, low - high, (mass + edge) / variance

    def partial_moments(self, start: Ball, end: End) -> tuple[Ball, Ball, Ball]:
        low, high = self.pdf(start), ball(0.0) if end is None else self.pdf(end)
        mass, variance = self.mass(start, end), self.scale * self.scale
        second = variance * (mass + start * low - (ball(0.0) if end is None else end * high))
        return mass, variance * (low - high), second

    def log_ratio(self, y: End, d: Ball) -> Ball:
        """log g(y) - log g(y - d) for d > 0; `y` None means far to the left."""
        if y is None:
            return INFINITY
        return (d - 2 * y) * (d / (2 * self.scale * self.scale))

    def thresholds(self, p: Ball, d: Ball, level: Ball) -> list[Ball]:
        return [p + (d / 2 - level * self.scale * self.scale / d)]

    def renyi_integral(self, p: Ball, d: Ball, order: Ball, lower: End, upper: End) -> Ball:
        centre = p + (1 - order) * d
        ratio = d / self.scale
        start = None if lower is None else lower - centre
        end = None if upper is None else upper - centre
        return self.mass(start, end) * (order * (order - 1) * ratio * ratio / 2).exp()
