"""The worst case by brute force: all neighbouring pairs of a dense scan that zooms in on its best places.

Only the laws and the pair formulas are used, which have tests of their own, and no theorem about positions but one: a
neighbour farther away reveals more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

import rangebound as rb
from rangebound.privacy.pairs.divergences import renyi_formula, stick_formula

Pairs = tuple[np.ndarray, np.ndarray]
Number = Callable[[np.ndarray, np.ndarray], np.ndarray]

ZOOMS, POINTS = 2, 301
REACH, FAR = 12.0, (100.0, 1e4)  # in scales beyond the support: what an infinite range is cut to, and stretches beyond


TINY = 1e-290  # atoms below this are lost to underflow


def neighbours(mechanism: rb.Mechanism, p: np.ndarray, direction: float) -> np.ndarray:
    """For each true answer the farthest one within the sensitivity, to the right (+1) or to the left (-1)."""
    reach = p + direction * mechanism.query.sensitivity
    best = p
    for lower, upper in mechanism.query.range.spans:
        there = np.clip(reach, lower, upper)
        ahead = direction * (reach - there) >= 0.0
        best = np.where(ahead & (direction * (there - best) > 0.0), there, best)
    return best


def scan(mechanism: rb.Mechanism, number: Number) -> tuple[float, tuple[float, float]]:
    """The largest number over all positions, both neighbours and both directions, and the pair that has it."""
    best, pair = -math.inf, (math.nan, math.nan)
    for low, high in _spans(mechanism):
        for direction in (1.0, -1.0):
            for swap in (False, True):
                value, where = _zoom(mechanism, number, low, high, direction, swap)
                if value > best:
                    best, pair = value, where
    return best, pair


def _zoom(
    mechanism: rb.Mechanism, number: Number, low: float, high: float, direction: float, swap: bool
) -> tuple[float, tuple[float, float]]:
    best, pair = -math.inf, (math.nan, math.nan)
    start, end = low, high
    for _ in range(ZOOMS):
        p = np.linspace(start, end, POINTS)
        q = neighbours(mechanism, p, direction)
        values = number(q, p) if swap else number(p, q)
        at = int(np.argmax(values))
        if values[at] > best:
            best = float(values[at])
            pair = (float(q[at]), float(p[at])) if swap else (float(p[at]), float(q[at]))
        if math.isinf(best):
            break
        step = (end - start) / (POINTS - 1)
        start, end = max(low, float(p[at]) - 2.0 * step), min(high, float(p[at]) + 2.0 * step)
    return best, pair


def random_pairs(mechanism: rb.Mechanism, count: int, seed: int) -> Pairs:
    """Random pairs of true answers within the sensitivity, at any distance and in either order."""
    generator = np.random.default_rng(seed)
    spans = np.asarray(_spans(mechanism))
    p = generator.uniform(*spans[generator.integers(len(spans), size=count)].T)
    toward = neighbours(mechanism, p, 1.0), neighbours(mechanism, p, -1.0)
    other = np.where(generator.uniform(size=count) < 0.5, *toward)
    inside = p + generator.uniform(size=count) * (other - p)
    q = np.where(_contains(mechanism, inside), inside, other)
    return np.where(generator.uniform(size=count) < 0.5, (p, q), (q, p))


def delta_at(mechanism: rb.Mechanism, epsilon: float) -> Number:
    return lambda p, q: stick_formula(mechanism.noise, mechanism.shape, p, q, epsilon)


def renyi_at(mechanism: rb.Mechanism, order: float) -> Number:
    return lambda p, q: renyi_formula(mechanism.noise, mechanism.shape, p, q, order)


def loss(mechanism: rb.Mechanism, far: float = 30.0) -> Number:
    """The pure epsilon of pairs: the largest log-ratio seen at ends, kinks, atoms, and `far` scales out."""

    def number(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        laws = mechanism.law(p), mechanism.law(q)
        ratios = [np.zeros(len(p))]
        for x in _outputs(mechanism, p, q, far):
            a, b = (law.log_pdf(x) for law in laws)
            ratios.append(np.where(np.isneginf(a), 0.0, a - np.where(np.isneginf(a), 0.0, b)))
        (_, a), (_, b) = laws[0].atoms, laws[1].atoms
        with np.errstate(divide="ignore"):
            for i in range(a.shape[-1]):
                seen = a[:, i] > TINY
                ratios.append(
                    np.where(seen, np.log(np.where(seen, a[:, i], 1.0)) - np.log(np.where(seen, b[:, i], 1.0)), 0.0)
                )
        return np.max(ratios, axis=0)

    return number


def _outputs(mechanism: rb.Mechanism, p: np.ndarray, q: np.ndarray, far: float) -> list[np.ndarray]:
    ends = [x for span in mechanism.shape.spans for x in span]
    away = far * mechanism.noise.scale
    marks = [np.full(len(p), x) for x in ends if math.isfinite(x)]
    marks += [np.minimum(p, q) - away, np.maximum(p, q) + away] if mechanism.shape.spans else []
    if isinstance(mechanism.noise, rb.TruncatedLaplacian):
        inner = mechanism.noise.limit * (1.0 - 1e-12)
        marks += [p - inner, p + inner, q - inner, q + inner]
    return marks


def _spans(mechanism: rb.Mechanism) -> list[tuple[float, float]]:
    """The range of true answers, cut some scales beyond the support where it is infinite.

    Gaussian noise may be worst ever farther out; the stretches beyond show that.
    """
    ends = [x for span in mechanism.support.spans for x in span if math.isfinite(x)] or [0.0]
    reaches = [x * mechanism.noise.scale for x in (REACH, *FAR)]
    low, high = min(ends) - reaches[0], max(ends) + reaches[0]
    spans = [(max(a, low), min(b, high)) for a, b in mechanism.query.range.spans]
    if isinstance(mechanism.noise, rb.Gaussian) and not mechanism.query.range.bounded:
        hull = mechanism.query.range.hull
        for near, far in itertools.pairwise(reaches):
            spans += [(min(ends) - far, min(ends) - near)] if math.isinf(hull.lower) else []
            spans += [(max(ends) + near, max(ends) + far)] if math.isinf(hull.upper) else []
    return spans


def _contains(mechanism: rb.Mechanism, x: np.ndarray) -> np.ndarray:
    return np.any([(x >= a) & (x <= b) for a, b in mechanism.query.range.spans], axis=0)
