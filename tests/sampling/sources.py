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
    """Every noise, bounding and support that fit together."""
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


def name(value) -> str:
    if isinstance(value, rb.Mechanism):
        return f"{value.noise}-{value.support}-{value.bounding}-{value.query.range}"
    return repr(value)
