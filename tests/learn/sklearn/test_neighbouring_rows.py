"""Neighbouring tables: what one row moves each released sum by, in whole numbers, given all that was released before.

Every fit runs twice, with a row and without it. The noise is exchanged for a recording: the first fit draws, and the
second gets the numbers of the first, whatever its own sums are. So both fits see the same releases, and the sums before
the noise are compared, in Python's own integers.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import rangebound as rb
from rangebound.learn.sklearn import (
    PCA,
    KMeans,
    LinearRegression,
    LogisticRegression,
    QuantileTransformer,
    RandomForestClassifier,
    RandomForestRegressor,
    linear_models,
    row_sums,
)
from rangebound.learn.sklearn.row_sums import QUANTA
from rangebound.privacy.gdp import largest_mu

CLASSES, TARGETS = {"classes": [0, 1, 2]}, {"target_bounds": (-1.0, 2.0)}
# Settings at their limits, and usual ones.
SETTINGS: list[tuple[Any, dict[str, Any]]] = [
    *((LinearRegression, {**TARGETS, "clip": clip}) for clip in (None, 1e-9, 0.3, 1.0)),
    *((PCA, {"components": 1, "clip": clip}) for clip in (1e-9, 0.3, 1.0)),
    *((KMeans, {"clusters": clusters, "steps": 3, "clip": clip}) for clusters, clip in ((1, 1.0), (5, 1e-9), (3, 0.4))),
    (LogisticRegression, {**CLASSES, "steps": 4}),
    (LogisticRegression, {**CLASSES, "steps": 4, "clip": 1e-9, "learning_rate": 1e50, "penalty": 1e50}),
    (LogisticRegression, {**CLASSES, "steps": 4, "clip": 1.0, "learning_rate": 1e50}),
    (LogisticRegression, {**CLASSES, "steps": 1, "learning_rate": 1e-300}),
    *((RandomForestClassifier, {**CLASSES, "depth": depth, "trees": trees}) for depth, trees in ((1, 1), (3, 7))),
    *((RandomForestRegressor, {**TARGETS, "depth": depth, "trees": trees}) for depth, trees in ((1, 1), (3, 100))),
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
    for size, features in ((1, 2), (2, 1), (3, 7), (9, 2), (4, 20)):
        x, y = draw.uniform(-2.0, 12.0, (size, features)), draw.integers(-1, 4, size).astype(float)
        yield x, y
        odd = draw.random(x.shape) < 0.4
        yield np.where(odd, draw.choice(ODD, x.shape), x), np.where(odd[:, 0], draw.choice(ODD, size), y)
        yield np.repeat(x[:1], size, axis=0), np.repeat(y[:1], size)
        yield draw.choice([0.0, 10.0], x.shape), draw.choice([0.0, 2.0], size)


def largest_moves(kind: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, seed: int) -> list[Fraction]:
    """The largest squared move of each sum by the first row, in squares of what the noise is made for."""
    largest: list[Fraction] = []
    spent = Fraction(0)
    for x, y in tables(seed):
        recorded = Recorded()
        monkeypatch.setattr(row_sums, "noisy", recorded)
        monkeypatch.setattr(row_sums, "_BLOCK", 16)  # several blocks
        monkeypatch.setattr(linear_models, "_FEW", 0.0 if settings.get("clip") else 1e9)  # not the mean alone
        estimator = kind(epsilon=1.0, bounds=(0.0, 10.0), **settings)
        estimator.fit(x, y)
        count, recorded.again = len(recorded.sums), True
        estimator.fit(x[1:], y[1:])
        monkeypatch.undo()
        assert len(recorded.sums) == 2 * count
        moves = [
            Fraction(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)), QUANTA**2)
            for one, other in zip(recorded.sums[:count], recorded.sums[count:], strict=True)
        ]
        largest = [max(pair) for pair in zip(moves, largest or moves, strict=True)]
        # what is drawn around zeros, as the first centres are, is about nobody
        noisy = [each for each, drawn in zip(recorded.mus, recorded.sums, strict=False) if any(drawn)]
        spent = max(spent, sum(Fraction(each) ** 2 for each in noisy))
    allowed = Fraction(largest_mu(Fraction(1), Fraction(1, 10**6))) ** 2
    assert spent <= allowed
    assert float(spent) == pytest.approx(float(allowed), rel=1e-9)
    return largest


@pytest.mark.few(7)
@pytest.mark.parametrize(("kind", "settings"), SETTINGS, ids=str)
def test_one_row_moves_every_sum_by_its_norm_at_most_and_all_releases_cost_mu(
    kind: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = [each for each in largest_moves(kind, settings, monkeypatch, len(settings)) if each]
    assert max(moves) <= 1
    assert max(moves) > Fraction(999, 1000)  # attained
    assert min(moves) > Fraction(1, 10)  # and no far smaller norm would do
    before = 2 if kind is LogisticRegression and "learning_rate" not in settings else 1  # the number of rows, products
    others = {LinearRegression: 3 if settings.get("clip") else 2, PCA: 1, QuantileTransformer: 1}
    assert len(moves) == (before + settings["steps"] if "steps" in settings else others.get(kind, 2))


def dearest(kind: Any, settings: dict[str, Any], neighbours: str, monkeypatch: pytest.MonkeyPatch) -> float:
    """The largest mu of all releases of a fit together, over what is paid for, where a row is another or nothing."""
    draw, largest = np.random.default_rng(11), Fraction(0)
    for x, y in tables(7):
        other = x.copy(), y.copy()
        blank = neighbours == "zero-out"
        other[0][0] = math.nan if blank else draw.choice([0.0, 10.0, 5.0], x.shape[1])
        other[1][0] = math.nan if blank else draw.choice([0.0, 1.0, -1.0, 2.0])
        recorded = Recorded()
        monkeypatch.setattr(row_sums, "noisy", recorded)
        monkeypatch.setattr(linear_models, "_FEW", 0.0 if settings.get("clip") else 1e9)
        estimator = kind(epsilon=1.0, bounds=(0.0, 10.0), neighbours=neighbours, **settings)
        estimator.fit(x, y)
        recorded.again = True
        estimator.fit(*other)
        monkeypatch.undo()
        pairs = zip(recorded.sums[: len(recorded.mus)], recorded.sums[len(recorded.mus) :], recorded.mus, strict=True)
        spent = sum(
            Fraction(mu) ** 2 * Fraction(sum((a - b) ** 2 for a, b in zip(one, two, strict=True)), QUANTA**2)
            for one, two, mu in pairs
        )
        largest = max(largest, Fraction(spent))
    return float(largest / Fraction(largest_mu(Fraction(1), Fraction(1, 10**6))) ** 2)


@pytest.mark.few(12)
@pytest.mark.parametrize("neighbours", ["zero-out", "replace-one"])
@pytest.mark.parametrize(("kind", "settings"), SETTINGS, ids=str)
def test_a_row_that_is_another_or_nothing_costs_no_more_than_is_paid(
    kind: Any, settings: dict[str, Any], neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly all of it where no two rows are at an obtuse angle, and their directions come near a right one."""
    right = kind in (LinearRegression, PCA, RandomForestClassifier, RandomForestRegressor)
    right = right and settings != {**TARGETS, "clip": 1.0}  # only the farthest corner is as long as that
    assert (0.7 if right else 0.01) < dearest(kind, settings, neighbours, monkeypatch) <= 1.0


@pytest.mark.parametrize("fault", ["a row of nothing is in the middle", "one row's part for two"])
def test_control_such_rows_cost_more(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    neighbours, settings = "replace-one", {"clusters": 3, "steps": 3, "clip": 0.4}
    with pytest.MonkeyPatch.context() as patch:
        if fault == "a row of nothing is in the middle":
            neighbours = "zero-out"
            patch.setattr(row_sums, "present", lambda x: x)
        else:
            patch.setattr("rangebound.learn.sklearn.private_estimator._RELATIONS", {neighbours: (True, 1)})
        assert dearest(KMeans, settings, neighbours, monkeypatch) > 1.0


CLIPPED = row_sums.clipped
BROKEN: dict[str, tuple[Any, Any, Any]] = {
    "rounded to the nearest quantum": (
        LinearRegression, {**TARGETS, "clip": 0.3},
        lambda rows, norm, copies=1: np.rint(row_sums.shortened(rows, norm / math.sqrt(copies)) * (QUANTA / norm)),
    ),
    "not shortened": (KMeans, {"clip": 0.4}, lambda rows, norm, copies=1: np.trunc(rows * (QUANTA / norm))),
    "gradients": (
        LogisticRegression, {**CLASSES, "steps": 4}, lambda rows, norm, copies=1: np.trunc(rows * (QUANTA / norm)),
    ),
    "as many copies as trees": (
        RandomForestClassifier, CLASSES, lambda rows, norm, copies=1: CLIPPED(rows, norm / math.sqrt(copies)),
    ),
    "one in each feature": (
        QuantileTransformer, {}, lambda rows, norm, copies=1: CLIPPED(rows, norm / math.sqrt(copies)),
    ),
}  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("name", BROKEN)
def test_control_rows_that_are_not_clipped_so_move_it_by_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, settings, clip = BROKEN[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sums, "clipped", lambda *given: clip(*given).astype(np.int64))
        assert max(largest_moves(kind, settings, monkeypatch, 3)) > 1


@pytest.mark.parametrize("clip", [1e-10, 1e-154, 5e-324])
@pytest.mark.parametrize("kind", [LinearRegression, PCA, KMeans, LogisticRegression])
def test_a_clip_whose_square_is_no_ordinary_double_is_refused(kind: Any, clip: float) -> None:
    more = TARGETS if kind is LinearRegression else CLASSES if kind is LogisticRegression else {}
    with pytest.raises(rb.errors.ArgumentError, match=r"clip=.*at least 1e-09"):
        kind(bounds=(0, 10), clip=clip, **more).fit(np.zeros((4, 2)), [0, 1, 0, 1])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shortened", [True, False])
def test_no_number_that_is_not_finite_becomes_a_whole_one(wrong: float, shortened: bool, monkeypatch: Any) -> None:
    """As a whole number it would be 2^63 or 0, by the processor: a sum of these reveals whether their number is odd."""
    if not shortened:
        monkeypatch.setattr(row_sums, "shortened", lambda rows, norm: rows)
    with np.errstate(invalid="ignore"), pytest.raises(AssertionError, match="not finite"):
        row_sums.clipped(np.array([[0.5, wrong]]), 1.0)
