"""Neighbouring tables: what one row moves each released sum by, in whole numbers, given all that was released before.

Every fit runs twice, with a row and without it. The noise is exchanged for a recording: the first fit draws, and the
second gets the numbers of the first, whatever its own sums are. So both fits see the same releases, and the sums before
the noise are compared, in Python's own integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import rangebound as rb
from rangebound.learn.sklearn import (
    PCA,
    KMeans,
    LinearRegression,
    LogisticRegression,
    QuantileTransformer,
    RandomForestClassifier,
    RandomForestRegressor,
    row_sums,
)
from rangebound.learn.sklearn.row_sums import QUANTA

CLASSES, TARGETS = {"classes": [0, 1, 2]}, {"target_bounds": (-1.0, 2.0)}
# Settings at their limits, and usual ones.
SETTINGS: list[tuple[Any, dict[str, Any]]] = [
    *((LinearRegression, {**TARGETS, "clip": clip}) for clip in (1e-9, 0.3, 1.0)),
    *((PCA, {"components": 1, "clip": clip}) for clip in (1e-9, 0.3, 1.0)),
    *((KMeans, {"clusters": clusters, "steps": 3, "clip": clip}) for clusters, clip in ((1, 1.0), (5, 1e-9), (3, 0.4))),
    (LogisticRegression, {**CLASSES, "steps": 4}),
    (LogisticRegression, {**CLASSES, "steps": 4, "clip": 1e-9, "learning_rate": 1e50, "penalty": 1e50}),
    (LogisticRegression, {**CLASSES, "steps": 4, "clip": 1.0, "learning_rate": 1e50}),
    (LogisticRegression, {**CLASSES, "steps": 1, "learning_rate": 1e-300}),
    *((RandomForestClassifier, {**CLASSES, "depth": depth, "trees": trees}) for depth, trees in ((1, 1), (3, 7))),
    *((RandomForestRegressor, {**TARGETS, "depth": depth, "trees": trees}) for depth, trees in ((1, 1), (3, 7))),
    *((QuantileTransformer, {"bins": bins}) for bins in (1, 7)),
]
ODD = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -0.0, 3.0, 10.0]


class Recorded:
    """Sums before the noise, each with its mu; the first fit draws, the second gets the same numbers."""

    def __init__(self) -> None:
        self.sums: list[list[int]] = []
        self.mus: list[float] = []
        self.drawn: list[Any] = []
        self.again = False
        self._release = row_sums.noisy

    def __call__(self, sums: Any, norm: float, mu: float) -> Any:
        place = len(self.sums) - (len(self.drawn) if self.again else 0)
        self.sums.append([int(each) for each in np.ravel(sums)])
        if self.again:
            return self.drawn[place]
        self.mus.append(mu)
        self.drawn.append(self._release(sums, norm, mu))
        return self.drawn[-1]


def tables(seed: int) -> Iterator[tuple[Any, Any]]:
    """Small tables, with odd cells, equal rows, rows of one, and none but the row that is removed."""
    draw = np.random.default_rng(seed)
    for size in (1, 2, 3, 9):
        x, y = draw.uniform(-2.0, 12.0, (size, 2)), draw.integers(-1, 4, size).astype(float)
        yield x, y
        odd = draw.random(x.shape) < 0.4
        yield np.where(odd, draw.choice(ODD, x.shape), x), np.where(odd[:, 0], draw.choice(ODD, size), y)
        yield np.repeat(x[:1], size, axis=0), np.repeat(y[:1], size)
        yield draw.choice([0.0, 10.0], x.shape), draw.choice([0.0, 2.0], size)


def largest_move(kind: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, seed: int) -> Fraction:
    """The largest squared move of a sum by the first row, in squares of what the noise is made for."""
    largest = Fraction(0)
    for x, y in tables(seed):
        recorded = Recorded()
        monkeypatch.setattr(row_sums, "noisy", recorded)
        estimator = kind(epsilon=1.0, bounds=(0.0, 10.0), **settings)
        estimator.fit(x, y)
        count, recorded.again = len(recorded.sums), True
        estimator.fit(x[1:], y[1:])
        monkeypatch.undo()
        assert len(recorded.sums) == 2 * count
        for one, other in zip(recorded.sums[:count], recorded.sums[count:], strict=True):
            largest = max(largest, Fraction(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)), QUANTA**2))
        noisy = [each for each, drawn in zip(recorded.mus, recorded.sums, strict=False) if any(drawn)]
        assert sum(Fraction(each) ** 2 for each in noisy) <= Fraction(row_sums.budget_mu(1.0, 1e-6)[2]) ** 2
    return largest


@pytest.mark.parametrize(("kind", "settings"), SETTINGS, ids=str)
def test_one_row_moves_every_sum_by_its_norm_at_most(
    kind: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = largest_move(kind, settings, monkeypatch, len(settings))
    assert moved <= 1
    assert moved > Fraction(1, 10)  # and no far smaller norm would do


def test_control_rows_that_are_rounded_to_the_nearest_quantum_move_it_by_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(rows: Any, norm: float, copies: int = 1) -> Any:
        return np.rint(row_sums.shortened(rows, norm / math.sqrt(copies)) * (QUANTA / norm)).astype(np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sums, "clipped", rounded)
        assert largest_move(LinearRegression, {**TARGETS, "clip": 0.3}, monkeypatch, 3) > 1


@pytest.mark.parametrize("clip", [1e-10, 1e-154, 1e-160, 1e-300, 5e-324])
@pytest.mark.parametrize("kind", [LinearRegression, PCA, KMeans, LogisticRegression])
def test_a_clip_whose_square_is_no_ordinary_double_is_refused(kind: Any, clip: float) -> None:
    more = TARGETS if kind is LinearRegression else CLASSES if kind is LogisticRegression else {}
    with pytest.raises(rb.errors.ArgumentError, match=r"clip=.*at least 1e-09"):
        kind(bounds=(0, 10), clip=clip, **more).fit(np.zeros((4, 2)), [0, 1, 0, 1])


@pytest.mark.parametrize("setting", ["learning_rate", "penalty"])
def test_settings_that_would_overflow_are_refused(setting: str) -> None:
    with pytest.raises(rb.errors.ArgumentError, match=f"{setting}=1e.308: must be at most"):
        LogisticRegression(bounds=(0, 10), **CLASSES, **{setting: 1e308}).fit(np.zeros((4, 2)), [0, 1, 0, 1])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_no_number_that_is_not_finite_becomes_a_whole_one(wrong: float) -> None:
    """As a whole number it would be 2^63 or 0, by the processor: a sum of these reveals whether their number is odd."""
    for shortened in (True, False):
        with pytest.MonkeyPatch.context() as patch, np.errstate(invalid="ignore"):
            if not shortened:
                patch.setattr(row_sums, "shortened", lambda rows, norm: rows)
            with pytest.raises(AssertionError, match="not finite"):
                row_sums.clipped(np.array([[0.5, wrong]]), 1.0)
