"""The truth, slowly: every number of a mechanism from its definition, in mpmath with 80 digits or as many as asked for.

Nothing here comes from the library but the mechanism's own parts: noise, support, bounding. The line is cut where
a density has a kink, a jump or an end. On each piece the log-densities are polynomials of degree two at most, so a set
like {p > e^epsilon q} is found piece by piece, without the monotone likelihood ratio that the library builds on, and
masses are plain differences of distribution functions, which cancel without harm at this precision.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import mpmath as mp

import rangebound as rb

DIGITS = 80
Number = Any


def exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    def precise(self: Oracle, *args: Any) -> Any:
        with mp.workdps(self.digits):
            return function(self, *args)

    return precise


class Oracle:
    """What is true of a mechanism's laws and of pairs of them; locations are taken as they are, never clipped."""

    def __init__(self, noise: Any, support: Any, bounding: Any, digits: int = DIGITS) -> None:
        self.digits = digits
        self._seen: dict[Number, Number] = {}
        with mp.workdps(digits):
            self.kind = type(noise)
            self.scale = mp.mpf(noise.scale)
            self.limit = mp.mpf(noise.limit) if self.kind is rb.TruncatedLaplacian else mp.inf
            points = [mp.mpf(float(x)) for x in support.points] if isinstance(support, rb.Grid) else []
            spans = [] if points else [(mp.mpf(a), mp.mpf(b)) for a, b in support.spans]
            line = spans == [(-mp.inf, mp.inf)]
            self.restricted = bounding is rb.TRUNCATE and not line
            self.spans, self.points, self.cells = spans, points, []
            if bounding is rb.RECTIFY:
                ((low, high),) = spans
                ends = [(low, (-mp.inf, low)), (high, (high, mp.inf))]
                self.points = [x for x, _ in ends if mp.isfinite(x)]
                self.cells = [cell for x, cell in ends if mp.isfinite(x)]
            if bounding is rb.QUANTIZE:
                cuts = [-mp.inf, *((a + b) / 2 for a, b in itertools.pairwise(points)), mp.inf]
                self.cells = list(itertools.pairwise(cuts))

    def log_density(self, y: Number) -> Number:
        """log g(y) of the noise; -inf beyond the limit."""
        if abs(y) > self.limit:
            return -mp.inf
        if self.kind is rb.Gaussian:
            return -((y / self.scale) ** 2) / 2 - mp.log(self.scale) - mp.log(2 * mp.pi) / 2
        return -abs(y) / self.scale - mp.log(2 * self.scale) - mp.log(self._kept())

    def mass_of_noise(self, a: Number, b: Number) -> Number:
        """Probability of [a, b] under the noise, by plain differences on the side of the smaller tail."""
        if a > b:
            return mp.mpf(0)
        if a >= 0:
            return self._cdf(-a) - self._cdf(-b)
        if b <= 0:
            return self._cdf(b) - self._cdf(a)
        return 1 - self._cdf(a) - self._cdf(-b)

    @exactly
    def norm(self, q: float) -> Number:
        """What truncation keeps; 1 for a map of the noise."""
        q = mp.mpf(q)
        if not self.restricted:
            return mp.mpf(1)
        if self.points:
            return mp.fsum(mp.exp(self.log_density(x - q)) for x in self.points)
        return mp.fsum(self.mass_of_noise(a - q, b - q) for a, b in self.spans)

    @exactly
    def atoms(self, q: float) -> list[Number]:
        q = mp.mpf(q)
        if self.cells:
            return [self.mass_of_noise(a - q, b - q) for a, b in self.cells]
        return [mp.exp(self.log_density(x - q)) / self.norm(q) for x in self.points]

    @exactly
    def log_pdf(self, q: float, x: float) -> Number:
        x, q = mp.mpf(x), mp.mpf(q)
        inside = any(a <= x <= b for a, b in self.spans) and mp.isfinite(x)
        return self.log_density(x - q) - mp.log(self.norm(q)) if inside else -mp.inf

    @exactly
    def pdf(self, q: float, x: float) -> Number:
        return mp.exp(self.log_pdf(q, x))

    @exactly
    def mass(self, q: float, low: float, high: float) -> Number:
        """Probability of the closed interval [low, high] under the law at q."""
        q, low, high = mp.mpf(q), mp.mpf(low), mp.mpf(high)
        parts = [
            self.mass_of_noise(max(a, low) - q, min(b, high) - q) / self.norm(q)
            for a, b in self.spans
            if max(a, low) < min(b, high)
        ]
        atoms = [w for x, w in zip(self.points, self.atoms(q), strict=True) if low <= x <= high]
        return mp.fsum([*parts, *atoms])

    @exactly
    def moments(self, q: float) -> dict[str, Number]:
        """Mean, variance, bias, mae and mse, from antiderivatives on either side of q."""
        q = mp.mpf(q)
        parts = []
        for a, b in self.spans:
            for start, end in ((a - q, min(b - q, mp.mpf(0))), (max(a - q, mp.mpf(0)), b - q)):
                if start < end:
                    parts.append(self._partial_moments(start, end))
        norm = self.norm(q)
        parts = [tuple(each / norm for each in part) for part in parts]
        for x, weight in zip(self.points, self.atoms(q), strict=True):
            parts.append((weight, weight * (x - q), weight * (x - q) ** 2))
        bias, mse = mp.fsum(m1 for _, m1, _ in parts), mp.fsum(m2 for _, _, m2 in parts)
        mae = mp.fsum(abs(m1) for _, m1, _ in parts)
        return {"mean": q + bias, "variance": mse - bias**2, "bias": bias, "mae": mae, "mse": mse}

    @exactly
    def stick(self, p: float, q: float, epsilon: float) -> Number:
        """Integral of the positive part of the law at p minus e^epsilon times the law at q."""
        p, q, epsilon = mp.mpf(p), mp.mpf(q), mp.mpf(epsilon)
        weight = mp.exp(epsilon)
        total = [max(a - weight * b, mp.mpf(0)) for a, b in zip(self.atoms(p), self.atoms(q), strict=True)]
        zp, zq = self.norm(p), self.norm(q)
        for a, b in self._pieces(p, q):
            for low, high in self._where_above(p, q, a, b, epsilon + mp.log(zp) - mp.log(zq)):
                total.append(self.mass_of_noise(low - p, high - p) / zp)
                total.append(-weight * self.mass_of_noise(low - q, high - q) / zq)
        return _sum(total)

    @exactly
    def renyi(self, p: float, q: float, order: float) -> Number:
        """log of the integral of p^order q^(1-order), over order - 1; for order inf the largest log-ratio."""
        p, q, order = mp.mpf(p), mp.mpf(q), mp.mpf(order)
        zp, zq = self.norm(p), self.norm(q)
        atoms = [(a, b) for a, b in zip(self.atoms(p), self.atoms(q), strict=True) if a > 0]
        pieces = [(a, b) for a, b in self._pieces(p, q) if self._alive(p, a, b)]
        if any(b == 0 for _, b in atoms) or any(not self._alive(q, a, b) for a, b in pieces):
            return mp.inf
        if mp.isinf(order):
            ends = [self._log_ratio(p, q, x, a, b) for a, b in pieces for x in (a, b)]
            return max(
                [_sum([x, -mp.log(zp), mp.log(zq)], 1) for x in ends]
                + [_sum([mp.log(a), -mp.log(b)], 1) for a, b in atoms]
            )
        logs = [order * mp.log(a) + (1 - order) * mp.log(b) for a, b in atoms]
        logs += [self._log_blend(p, q, order, a, b) - order * mp.log(zp) - (1 - order) * mp.log(zq) for a, b in pieces]
        top = max(logs)
        size = max(abs(top), order * abs(mp.log(zp)), order * abs(mp.log(zq)), mp.mpf(1))
        return _sum([top, mp.log(mp.fsum(mp.exp(x - top) for x in logs))], size) / (order - 1)

    def fisher(self, q: float) -> Number:
        """The curvature of the divergence, from a pair so close that a kink between the two does not matter."""
        deeper = copy.copy(self)
        deeper.digits = self.digits + 270
        with mp.workdps(deeper.digits):
            step = self.scale * mp.mpf(10) ** -120
            return deeper.renyi(mp.mpf(q) - step, mp.mpf(q) + step, 2) / (2 * step) ** 2

    def _cdf(self, y: Number) -> Number:
        if self.kind is rb.Gaussian:
            key = (y, mp.mp.dps)
            if key not in self._seen:
                self._seen[key] = mp.erfc(-y / (self.scale * mp.sqrt(2))) / 2
            return self._seen[key]
        if y <= -self.limit:
            return mp.mpf(0)
        if y >= self.limit:
            return mp.mpf(1)
        below = mp.exp(y / self.scale) / 2 if y <= 0 else 1 - mp.exp(-y / self.scale) / 2
        return (below - mp.exp(-self.limit / self.scale) / 2) / self._kept()

    def _kept(self) -> Number:
        return mp.mpf(1) if self.limit == mp.inf else -mp.expm1(-self.limit / self.scale)

    def _pieces(self, p: Number, q: Number) -> list[tuple[Number, Number]]:
        marks = [p, q]
        if self.limit != mp.inf:
            marks += [p - self.limit, p + self.limit, q - self.limit, q + self.limit]
        pieces = []
        for a, b in self.spans:
            ends = sorted({a, b, *(x for x in marks if a < x < b)})
            pieces += list(itertools.pairwise(ends))
        return pieces

    def _inner(self, a: Number, b: Number) -> Number:
        """Some finite place inside the piece."""
        if mp.isinf(a) and mp.isinf(b):
            return mp.mpf(0)
        if mp.isinf(a) or mp.isinf(b):
            return b - self.scale if mp.isinf(a) else a + self.scale
        return (a + b) / 2

    def _alive(self, q: Number, a: Number, b: Number) -> bool:
        return bool(abs(self._inner(a, b) - q) < self.limit)

    def _log_ratio(self, p: Number, q: Number, x: Number, a: Number, b: Number) -> Number:
        """log g(x-p) - log g(x-q) for x in the piece, by its slope there: also at an infinite end."""
        at = self._inner(a, b)
        here = self.log_density(at - p) - self.log_density(at - q)
        if self.kind is rb.Gaussian:
            slope = (p - q) / self.scale**2
        else:
            slope = (mp.sign(at - q) - mp.sign(at - p)) / self.scale
        return here if slope == 0 else here + slope * (x - at)

    def _where_above(self, p: Number, q: Number, a: Number, b: Number, level: Number) -> list[tuple[Number, Number]]:
        """The part of a piece where the log-ratio is above a level; it is linear there."""
        if not self._alive(p, a, b):
            return []
        if not self._alive(q, a, b):
            return [(a, b)]
        low, high = (self._log_ratio(p, q, x, a, b) - level for x in (a, b))
        if low <= 0 and high <= 0:
            return []
        if low >= 0 and high >= 0:
            return [(a, b)]
        at = self._inner(a, b)
        here = self._log_ratio(p, q, at, a, b) - level
        slope = self._log_ratio(p, q, at + self.scale, a, b) - level - here
        root = at - here / slope * self.scale
        return [(a, root)] if low > 0 else [(root, b)]

    def _log_blend(self, p: Number, q: Number, order: Number, a: Number, b: Number) -> Number:
        if self.kind is rb.Gaussian:
            centre = order * p + (1 - order) * q
            rest = order * p**2 + (1 - order) * q**2 - centre**2
            return -rest / (2 * self.scale**2) + mp.log(self.mass_of_noise(a - centre, b - centre))
        at = self._inner(a, b)
        slope = -(order * mp.sign(at - p) + (1 - order) * mp.sign(at - q)) / self.scale
        height = order * self.log_density(at - p) + (1 - order) * self.log_density(at - q)
        if slope == 0:
            return height + mp.log(b - a)
        return height + mp.log((mp.exp(slope * (b - at)) - mp.exp(slope * (a - at))) / slope)

    def _partial_moments(self, a: Number, b: Number) -> tuple[Number, Number, Number]:
        """Integrals of g, y g and y^2 g over [a, b], which does not reach across zero."""
        if b <= 0:
            m0, m1, m2 = self._partial_moments(-b, -a)
            return m0, -m1, m2
        s, b = self.scale, min(b, self.limit)
        if a >= b:
            return mp.mpf(0), mp.mpf(0), mp.mpf(0)
        low = mp.exp(self.log_density(a))
        high = mp.mpf(0) if mp.isinf(b) else mp.exp(self.log_density(b))
        m0 = self.mass_of_noise(a, b)
        end = mp.mpf(0) if mp.isinf(b) else b
        if self.kind is rb.Gaussian:
            return m0, s**2 * (low - high), s**2 * (m0 + a * low - end * high)
        m1 = s * (a + s) * low - s * (end + s) * high
        m2 = s * (a**2 + 2 * s * a + 2 * s**2) * low - s * (end**2 + 2 * s * end + 2 * s**2) * high
        return m0, m1, m2


def _sum(terms: list[Number], size: Number = 0) -> Number:
    """The sum; exactly zero where nothing is left but rounding: of the terms, or of what they were made of (`size`)."""
    total = mp.fsum(terms)
    size = max([mp.mpf(size), *map(abs, terms)])
    if mp.isinf(total):
        return total
    return total if abs(total) > size * mp.mpf(10) ** (10 - mp.mp.dps) else mp.mpf(0)


def oracle(mechanism: rb.Mechanism, digits: int = DIGITS) -> Oracle:
    return Oracle(mechanism.noise, mechanism.support, mechanism.bounding, digits)
