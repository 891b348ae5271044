"""The second route: hockey stick, Renyi divergence and Fisher information of a pair by numerical integration.

Nothing here knows a closed form of a mass or a threshold: only log-densities, panels and Gauss-Legendre sums. It is
what the theorems are tested against, and slow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rangebound.law import Law

Floats = npt.NDArray[np.float64]
LogFunction = Callable[[Floats], Floats]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(30)
_DEPTH = 45.0  # what is e^-45 of the largest is left out
_PANELS = 80


def stick_quadrature(p: Law, q: Law, epsilon: float) -> float:
    """sup over sets of p(A) - e^epsilon q(A), as the integral of the positive part."""
    (points, a), (_, b) = p.atoms, q.atoms
    total = float(np.sum(np.maximum(a - math.exp(epsilon) * b, 0.0))) if len(points) else 0.0
    norm_p, norm_q = _log_norm(p), _log_norm(q)

    def excess(x: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            log_p = p.noise.log_pdf(x - p.location) - norm_p
            gap = epsilon + q.noise.log_pdf(x - q.location) - norm_q - log_p
        positive = (gap < 0.0) & (log_p > -np.inf)
        return np.where(positive, log_p + _log1mexp(np.where(positive, gap, -1.0)), -np.inf)

    for lower, upper in p.shape.spans:
        turn = _turning_point(excess, lower, upper, p, q)
        total += math.exp(_log_integral(excess, lower, upper, [*_breaks(p), *_breaks(q), *turn], p.noise.scale))
    return total


def renyi_quadrature(p: Law, q: Law, alpha: float) -> float:
    """log of the integral of p^alpha q^(1-alpha), over alpha - 1."""
    (points, a), (_, b) = p.atoms, q.atoms
    logs = []
    if len(points):
        with np.errstate(divide="ignore"):
            log_a, log_b = np.log(a), np.log(b)
        if (np.isneginf(log_b) & ~np.isneginf(log_a)).any():
            return math.inf
        live = ~np.isneginf(log_a)
        logs += (alpha * log_a[live] + (1.0 - alpha) * log_b[live]).tolist()
    norm_p, norm_q = _log_norm(p), _log_norm(q)

    def blend(x: Floats) -> Floats:
        log_p = p.noise.log_pdf(x - p.location) - norm_p
        log_q = q.noise.log_pdf(x - q.location) - norm_q
        gone, escaped = np.isneginf(log_p), np.isneginf(log_q)
        inner = alpha * np.where(gone, 0.0, log_p) + (1.0 - alpha) * np.where(escaped, 0.0, log_q)
        return np.where(gone, -np.inf, np.where(escaped, np.inf, inner))

    for lower, upper in p.shape.spans:
        logs.append(_log_integral(blend, lower, upper, [*_breaks(p), *_breaks(q)], p.noise.scale))
    if math.inf in logs:
        return math.inf
    top = max(logs)
    total = math.fsum(math.exp(x - top) for x in logs)
    return float((top + math.log(total)) / (alpha - 1.0))


def _log_norm(law: Law) -> float:
    if not law.shape.normalised:
        return 0.0
    if law.shape.points:
        return float(law.log_norm)
    logs = [
        _log_integral(lambda x: law.noise.log_pdf(x - law.location), a, b, _breaks(law), law.noise.scale)
        for a, b in law.shape.spans
    ]
    top = max(logs)
    return top + math.log(math.fsum(math.exp(x - top) for x in logs))


def _breaks(law: Law) -> list[float]:
    """Where the density has a kink or a jump."""
    at, limit = float(law.location), getattr(law.noise, "limit", None)
    return [at] if limit is None else [at - limit, at, at + limit]


def _turning_point(excess: LogFunction, lower: float, upper: float, p: Law, q: Law) -> list[float]:
    """The one place inside the span where the excess becomes zero, by bisection on being zero or not."""
    ends = [*_breaks(p), *_breaks(q)]
    reach = 60.0 * p.noise.scale
    low, high = max(lower, min(ends) - reach), min(upper, max(ends) + reach)
    if not low < high:
        return []
    grid = np.linspace(low, high, 4001)
    live = excess(grid) > -np.inf
    turns = []
    for i in np.nonzero(live[1:] != live[:-1])[0]:
        a, b = float(grid[i]), float(grid[i + 1])
        while True:
            middle = 0.5 * (a + b)
            if not a < middle < b:
                break
            if bool(excess(np.asarray([middle]))[0] > -np.inf) == bool(live[i]):
                a = middle
            else:
                b = middle
        turns.append(a)
    return turns


def _log_integral(log_function: LogFunction, lower: float, upper: float, breaks: list[float], scale: float) -> float:
    """log of the integral of exp(log_function) over [lower, upper]; -inf where it vanishes."""
    inner = sorted({x for x in breaks if lower < x < upper})
    ends = [lower, *inner, upper]
    if math.isinf(lower):
        ends[0] = _far(log_function, inner[0] if inner else min(upper, 0.0), -scale)
    if math.isinf(upper):
        ends[-1] = _far(log_function, inner[-1] if inner else max(ends[0], 0.0), scale)
    logs: list[float] = []
    for a, b in itertools.pairwise(ends):
        a, b = _window(log_function, a, b)
        edges = np.linspace(a, b, _PANELS + 1)
        half = 0.5 * (b - a) / _PANELS
        x = (0.5 * (edges[:-1] + edges[1:]))[:, None] + half * _NODES
        values = log_function(x)
        top = float(values.max())
        if top == math.inf:
            return math.inf
        if top > -math.inf and half > 0.0:
            logs.append(top + math.log(half * float(np.sum(_WEIGHTS * np.exp(values - top)))))
    if not logs:
        return -math.inf
    top = max(logs)
    return top + math.log(math.fsum(math.exp(x - top) for x in logs))


def _far(log_function: LogFunction, start: float, step: float) -> float:
    """A place so far out that nothing is left: a thousand scales, then farther while the function still rises."""
    while True:
        x = start + step * np.linspace(0.0, 1000.0, 4001)
        values = log_function(x)
        if values[-1] < values.max() - _DEPTH or not np.isfinite(values).any():
            return float(x[-1])
        step *= 4.0


def _window(log_function: LogFunction, a: float, b: float) -> tuple[float, float]:
    """The part of [a, b] that matters, narrowed until it fills the window."""
    for _ in range(40):
        x = np.linspace(a, b, 2001)
        values = log_function(x[1:-1])
        top = values.max()
        if not np.isfinite(top):
            return a, b
        live = np.nonzero(values > top - _DEPTH)[0]
        low, high = float(x[live[0]]), float(x[min(live[-1] + 2, 2000)])
        if high - low > 0.5 * (b - a):
            return low, high
        a, b = low, high
    return a, b


def _log1mexp(x: Floats) -> Floats:
    """log(1 - e^x) for x < 0."""
    return np.where(x > -0.7, np.log(-np.expm1(x)), np.log1p(-np.exp(np.minimum(x, -0.7))))
