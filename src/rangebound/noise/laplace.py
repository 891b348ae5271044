"""Laplace noise: density e^{-|x|/b} / (2b)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rangebound import arguments
from rangebound.numeric import Array, ldexpm1, log_sum, namespace

_LOG_2 = math.log(2.0)


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Laplace:
    """Laplace noise of scale `b`: density e^{-|x|/b} / (2b).

    Example:
    >>> import numpy as np
    >>> round(float(Laplace(scale=2.0).log_pdf(np.asarray(0.0))), 4)
    -1.3863
    """

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", arguments.positive("scale", self.scale))

    def log_pdf(self, x: Array) -> Array:
        """log of the density at `x`."""
        return -abs(x) / self.scale - math.log(2.0 * self.scale)

    def log_pdf_slope(self, x: Array) -> Array:
        """Derivative of `log_pdf`: -sign(x)/b, and 0 at the kink."""
        return -namespace(x).sign(x) / self.scale

    def log_mass(self, lower: Array, upper: Array, location: Array) -> Array:
        """log of the probability that `location` + noise falls into [lower, upper]."""
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
        """The x for which [lower, x] has mass e^log_mass; NaN-free where the mass to the right suffices."""
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
        """For p < q: where log g(x-p) - log g(x-q) falls through `level`, kept between p and q."""
        xp = namespace(p, q, level)
        return xp.clip(0.5 * (p + q - level * self.scale), p, q)

    def log_blend(self, p: Array, q: Array, order: float, lower: Array, upper: Array) -> Array:
        """log of the integral over [lower, upper] of g(x-p)^order g(x-q)^(1-order)."""
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
