"""What the tests of the draw share: a source that repeats itself, and mechanisms of every kind."""

from __future__ import annotations

import math

import numpy as np

import rangebound as rb

INF = math.inf


class Repeating:
    """A source of words for tests. `release` takes no source, so this one cannot reach it."""

    def __init__(self, seed: int) -> None:
        self._words = np.random.default_rng(seed)

    def fill(self, words):
        words[:] = self._words.integers(0, 2**64, words.shape, dtype=np.uint64)

    def word(self) -> int:
        return int(self._words.integers(0, 2**64, dtype=np.uint64))


def words(count: int, seed: int) -> np.ndarray:
    found = np.empty(count, dtype=np.uint64)
    Repeating(seed).fill(found)
    return found


NOISES = (rb.Laplace(scale=0.8), rb.Gaussian(scale=0.8), rb.TruncatedLaplacian(scale=0.8, limit=7.0))
SUPPORTS = (
    rb.Interval(-1, 2),
    rb.Interval(0.1, 0.7),
    rb.Interval(0.5, INF),
    rb.Interval(-INF, 0.25),
    rb.Interval(-INF, INF),
    rb.Union((-2, -1), (0, 0.75), (1.5, 3)),
    rb.Union((-INF, -1), (0, 0.75), (1.5, INF)),
    rb.Grid(step=0.1, within=rb.Interval(-1, 2)),
    rb.Grid(step=3.0, within=rb.Interval(-1, 2)),
)
RANGES = (rb.Interval(-3, 4), rb.Interval(0, 1), rb.Union((-2, -1), (0, 0.75)))


def mechanisms(ranges=RANGES) -> list[rb.Mechanism]:
    found = []
    for noise in NOISES:
        for support in SUPPORTS:
            for bounding in (rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE, rb.UNBOUNDED):
                for answers in ranges:
                    query = rb.Query(range=answers, sensitivity=1.0)
                    try:
                        found.append(rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding))
                    except rb.ArgumentError:
                        continue
    return found


def random_mechanisms(count: int) -> list[tuple[rb.Mechanism, float | None]]:
    """Parameters from a fixed seed: all noises, boundings and supports, scales and places over many powers of ten."""
    rng = np.random.default_rng(20)
    found: list[tuple[rb.Mechanism, float | None]] = []
    while len(found) < count:
        scale = 10.0 ** rng.uniform(-6, 6)
        start = rng.normal() * 10.0 ** rng.uniform(-3, 6)
        ends = start + np.cumsum(scale * 10.0 ** rng.uniform(-2, 2, 6))
        noise = [
            rb.Laplace(scale=scale),
            rb.Gaussian(scale=scale),
            rb.TruncatedLaplacian(scale=scale, limit=scale * rng.uniform(1, 30)),
        ][rng.integers(3)]
        support = [
            rb.Interval(ends[0], ends[1]),
            rb.Interval(ends[0], INF),
            rb.Interval(-INF, INF),
            rb.Union(*ends.reshape(3, 2).tolist()),
            rb.Grid(step=(ends[1] - ends[0]) / rng.integers(1, 40), within=rb.Interval(ends[0], ends[1])),
        ][rng.integers(5)]
        bounding = [rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE, rb.UNBOUNDED][rng.integers(4)]
        query = rb.Query(range=rb.Interval(ends[0] - scale * rng.uniform(0, 2), ends[1]), sensitivity=scale)
        steps = [None, None, float(f"{scale * 10 ** rng.uniform(-4, 1):.2g}"), 1.0]
        step = None if isinstance(support, rb.Grid) else steps[rng.integers(4)]
        try:
            found.append((rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding), step))
        except rb.ArgumentError:
            continue
    return found


def name(value) -> str:
    if isinstance(value, rb.Mechanism):
        return f"{value.noise}-{value.support}-{value.bounding}-{value.query.range}"
    return repr(value)
