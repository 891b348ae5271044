"""Mechanisms of every kind, calibrated so that a scale cut by a tenth can be seen in two million outputs."""

from dataclasses import replace
from functools import cache

import rangebound as rb

INTERVAL = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
UNION = rb.Query(range=rb.Union((0, 4), (6, 10)), sensitivity=1.0)
WIDE = rb.Interval(-10, 20)
GRID = rb.Grid(step=0.5, within=rb.Interval(0, 10))

# Truncated to the range itself, a Laplace law has its largest loss at a single point: it shows at a large epsilon only.
CASES = {
    "truncated Laplace": (rb.Laplace, INTERVAL, None, rb.TRUNCATE, 3.0, 0.0),
    "truncated Laplace, delta": (rb.Laplace, INTERVAL, None, rb.TRUNCATE, 1.0, 0.01),
    "truncated Laplace, wider support": (rb.Laplace, INTERVAL, WIDE, rb.TRUNCATE, 1.0, 0.0),
    "Laplace on a union": (rb.Laplace, UNION, None, rb.TRUNCATE, 3.0, 0.0),
    "Laplace on a grid": (rb.Laplace, INTERVAL, GRID, rb.TRUNCATE, 1.0, 0.0),
    "clamped Laplace": (rb.Laplace, INTERVAL, None, rb.RECTIFY, 1.0, 0.0),
    "rounded Laplace": (rb.Laplace, INTERVAL, GRID, rb.QUANTIZE, 1.0, 0.0),
    "unbounded Laplace": (rb.Laplace, INTERVAL, None, rb.UNBOUNDED, 1.0, 0.0),
    "truncated Gaussian": (rb.Gaussian, INTERVAL, None, rb.TRUNCATE, 1.0, 0.01),
    "Gaussian on a union": (rb.Gaussian, UNION, None, rb.TRUNCATE, 1.0, 0.01),
    "Gaussian on a grid": (rb.Gaussian, INTERVAL, GRID, rb.TRUNCATE, 1.0, 0.01),
    "clamped Gaussian": (rb.Gaussian, INTERVAL, None, rb.RECTIFY, 1.0, 0.01),
    "rounded Gaussian": (rb.Gaussian, INTERVAL, GRID, rb.QUANTIZE, 1.0, 0.01),
    "unbounded Gaussian": (rb.Gaussian, INTERVAL, None, rb.UNBOUNDED, 1.0, 0.01),
    "truncated truncated Laplacian": (rb.TruncatedLaplacian, INTERVAL, None, rb.TRUNCATE, 1.0, 0.01),
    "clamped truncated Laplacian": (rb.TruncatedLaplacian, INTERVAL, None, rb.RECTIFY, 1.0, 0.01),
    "rounded truncated Laplacian": (rb.TruncatedLaplacian, INTERVAL, GRID, rb.QUANTIZE, 1.0, 0.01),
    "unbounded truncated Laplacian": (rb.TruncatedLaplacian, INTERVAL, None, rb.UNBOUNDED, 1.0, 0.01),
}


@cache
def mechanism(name: str) -> tuple[rb.Mechanism, float, float]:
    """A calibrated mechanism with the guarantee it was calibrated for."""
    family, query, support, bounding, epsilon, delta = CASES[name]
    made = rb.calibrate(noise=family, query=query, support=support, bounding=bounding, epsilon=epsilon, delta=delta)
    return made, epsilon, delta


def cut(made: rb.Mechanism, share: float = 0.9) -> rb.Mechanism:
    """The same with less noise, by default a tenth less."""
    lengths = {name: share * value for name, value in vars(made.noise).items()}
    return replace(made, noise=replace(made.noise, **lengths))
