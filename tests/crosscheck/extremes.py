"""Mechanisms at the edge of what is asked for: sensitivity/width from 1e-6 to 1, epsilon from 1e-9 to 50, locations up
to 50 scales outside the support.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import rangebound as rb

INF = math.inf
EPSILONS = (1e-9, 1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0, 50.0)
RATIOS = (1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0)  # sensitivity over width
OUTSIDE = (0.0, 1.0, 10.0, 50.0)  # scales beyond the support
ORDERS = (1.0 + 1e-6, 1.5, 2.0, 10.0, 100.0)
NOTHING = 1e-100  # what is smaller is compared with this: the oracle's digits end somewhere
LOWER, WIDTH = 0.3, 10.0  # the hull of every bounded support


class Pair(NamedTuple):
    """A mechanism and two neighbouring locations of it, with an epsilon and an order to compare them at."""

    mechanism: rb.Mechanism
    p: float
    q: float
    epsilon: float
    order: float

    @property
    def digits(self) -> int:
        """Digits that leave many when a Gaussian tail is subtracted from one: e^{-50^2/2} = 1e-543."""
        ends = [x for span in self.mechanism.support.spans for x in span if math.isfinite(x)] or [0.0]
        away = max(0.0, min(ends) - min(self.p, self.q), max(self.p, self.q) - max(ends)) / self.mechanism.noise.scale
        return 160 + round(min(away, 60.0) ** 2 / 4.6 if isinstance(self.mechanism.noise, rb.Gaussian) else 0.0)


def supports(generator: np.random.Generator) -> list[tuple[Any, Any]]:
    low, high = LOWER, LOWER + WIDTH
    a, b = sorted(generator.uniform(low, high, size=2).tolist())
    grid = rb.Grid(step=WIDTH / 5, within=rb.Interval(low, high))
    return [
        (rb.Interval(low, high), rb.TRUNCATE),
        (rb.Interval(low, INF), rb.TRUNCATE),
        (rb.Interval(-INF, high), rb.TRUNCATE),
        (rb.Union((low, a), (b, high)), rb.TRUNCATE),
        (rb.Union((-INF, a), (b, INF)), rb.TRUNCATE),
        (grid, rb.TRUNCATE),
        (rb.Interval(low, high), rb.RECTIFY),
        (rb.Interval(low, INF), rb.RECTIFY),
        (rb.Interval(-INF, high), rb.RECTIFY),
        (grid, rb.QUANTIZE),
        (rb.Interval(-INF, INF), rb.UNBOUNDED),
    ]


def draw(generator: np.random.Generator) -> Pair:
    """A random extreme: the scale is about what the epsilon asks for, the location at, in or outside the support."""
    while True:
        epsilon, ratio = float(generator.choice(EPSILONS)), float(generator.choice(RATIOS))
        sensitivity = WIDTH * ratio
        options = supports(generator)
        support, bounding = options[generator.integers(len(options))]
        scale = sensitivity / epsilon * float(np.exp(generator.uniform(-1, 1)))
        noise = _noise(generator, scale)
        inside = float(LOWER + WIDTH * generator.choice([0.0, 1.0, generator.uniform()]))
        away = scale * float(generator.choice(OUTSIDE))
        p = inside if away == 0.0 else float(generator.choice([LOWER - away, LOWER + WIDTH + away]))
        q = p + sensitivity * float(generator.choice([-1.0, 1.0]))
        if p == q or not _sensible(noise, support, bounding, (p, q)):
            continue
        answers = rb.Interval(-INF, INF) if bounding is rb.UNBOUNDED else rb.Interval(min(p, q), max(p, q))
        query = rb.Query(range=answers, sensitivity=sensitivity)
        mechanism = rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)
        return Pair(mechanism, p, q, epsilon, float(generator.choice(ORDERS)))


def _noise(generator: np.random.Generator, scale: float) -> Any:
    kind = generator.integers(5)
    if kind == 4:
        return rb.TruncatedLaplacian(scale=scale, limit=scale * float(generator.choice([4.0, 30.0, 60.0])))
    return (rb.Laplace, rb.Gaussian)[kind % 2](scale=scale)


def _sensible(noise: Any, support: Any, bounding: Any, locations: tuple[float, float]) -> bool:
    """Truncated noise of limited reach needs the support in reach."""
    if not isinstance(noise, rb.TruncatedLaplacian) or bounding is not rb.TRUNCATE:
        return True
    if isinstance(support, rb.Grid):
        return False
    (low, high), *more = support.spans
    return not more and all(low - noise.limit < x < high + noise.limit for x in locations)
