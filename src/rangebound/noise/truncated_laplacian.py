"""Truncated Laplacian noise: Laplace noise conditioned to stay within a limit of zero [geng2020]."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rangebound import arguments
from rangebound.errors import ArgumentError
from rangebound.noise.laplace import Laplace
from rangebound.numeric import Array, namespace


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class TruncatedLaplacian:
    """Noise with density proportional to e^{-|x|/b} on [-limit, limit] and zero outside [geng2020, Def 3].

    Example:
    >>> import numpy as np
    >>> float(TruncatedLaplacian(scale=1.0, limit=9.2).log_pdf(np.asarray(9.3)))
    -inf
    """

    scale: float
    limit: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", arguments.positive("scale", self.scale))
        object.__setattr__(self, "limit", arguments.positive("limit", self.limit))
        if not math.isfinite(self.limit / self.scale) or self.limit / self.scale < 1e-12:
            raise ArgumentError(f"limit={self.limit}: must be between 1e-12 and 1e308 scales (scale={self.scale})")

    @property
    def untruncated(self) -> Laplace:
        """The Laplace noise of which this one is a part."""
        return Laplace(scale=self.scale)

    @property
    def _log_kept(self) -> float:
        return math.log(-math.expm1(-self.limit / self.scale))

    def log_pdf(self, x: Array) -> Array:
        """log of the density at `x`; -inf beyond the limit."""
        xp = namespace(x)
        return xp.where(abs(x) <= self.limit, self.untruncated.log_pdf(x) - self._log_kept, -xp.inf)

    def log_pdf_slope(self, x: Array) -> Array:
        """Derivative of `log_pdf` inside the limit."""
        return self.untruncated.log_pdf_slope(x)

    def log_mass(self, lower: Array, upper: Array, location: Array) -> Array:
        """log of the probability that `location` + noise falls into [lower, upper]."""
        xp = namespace(lower, upper, location)
        lower, upper, location = xp.broadcast_arrays(lower, upper, location)
        start, end = location - self.limit, location + self.limit
        mass = self.untruncated.log_mass(xp.clip(lower, start, end), xp.clip(upper, start, end), location)
        whole = (lower <= start) & (upper >= end)
        return xp.where(whole, xp.zeros_like(mass), mass - self._log_kept)

    def reach(self, lower: Array, log_mass: Array, location: Array) -> Array:
        """The x for which [lower, x] has mass e^log_mass; NaN-free where the mass to the right suffices."""
        xp = namespace(lower, log_mass, location)
        start = xp.maximum(lower, location - self.limit)
        return xp.minimum(self.untruncated.reach(start, log_mass + self._log_kept, location), location + self.limit)

    def crossing(self, p: Array, q: Array, level: Array) -> Array:
        """For p < q: where log g(x-p) - log g(x-q) falls through `level`: never left of where q's noise begins."""
        xp = namespace(p, q, level)
        inner = self.untruncated.crossing(p, q, level)
        begins, ends = q - self.limit, p + self.limit
        inner = xp.where(level * self.scale > q - p, begins, inner)
        inner = xp.where(level * self.scale < p - q, ends, inner)
        return xp.maximum(xp.minimum(inner, ends), begins)

    def log_blend(self, p: Array, q: Array, order: float, lower: Array, upper: Array) -> Array:
        """log of the integral over [lower, upper] of g(x-p)^order g(x-q)^(1-order); inf where only p's lives."""
        xp = namespace(p, q, lower, upper)
        start = xp.clip(lower, p - self.limit, p + self.limit)
        end = xp.clip(upper, p - self.limit, p + self.limit)
        both_start, both_end = xp.maximum(start, q - self.limit), xp.minimum(end, q + self.limit)
        escapes = (end > start) & ((both_start > start) | (both_end < end))
        blend = self.untruncated.log_blend(p, q, order, start, end) - self._log_kept
        return xp.where(escapes, xp.inf, blend)
