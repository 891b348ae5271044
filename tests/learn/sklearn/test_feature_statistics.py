"""Counts, sums and squares of columns: what one row moves them by, their noise, and that they follow the data."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import rangebound as rb
from rangebound.learn.sklearn import GaussianNB, MeanEstimator, StandardScaler, row_sums
from rangebound.learn.sklearn.feature_statistics import FeatureSums
from rangebound.learn.sklearn.row_sums import QUANTA, sum_noise
from rangebound.privacy.gdp import is_private

ODD = [math.nan, math.inf, -math.inf, 5e-324, 0.0, -0.0, 0.5, 1.0, 0.1, 1.0 - 2.0**-53]
SUMS = [
    FeatureSums(features=features, degree=degree, classes=classes, rows=rows, changed=changed)
    for features in (1, 4) for degree in (1, 2) for classes, rows in ((None, None), (3, None), (None, 9))
    for changed in (1, 2)
]  # fmt: skip
ENDS = np.zeros(1), np.ones(1)


def moves(sums: FeatureSums, numbers: Any = None) -> tuple[Fraction, Fraction]:
    """The most that a neighbour moves the sums by, in absolute values and in squares, in Python's own integers.

    Neighbours are two rows, or a row and none; in every other trial all features have the same value, of these some for
    which one of the bounds is attained.
    """
    draw, most = np.random.default_rng(5), (Fraction(0), Fraction(0))
    ends = [0.0, 1.0, 0.25, 0.5, math.nan]
    for at in range(300):
        x = draw.random((2, sums.features)) if at % 2 else np.tile(draw.choice([*ODD, *ends], (2, 1)), sums.features)
        x = np.where(draw.random(x.shape) < 0.3, draw.choice(ODD, x.shape), x) if at % 4 > 1 else x
        codes = draw.integers(-1, sums.classes, 2) if sums.classes else np.zeros(2, dtype=np.int64)
        one, other = (sums.total(x[k : k + 1], *ENDS, codes[k : k + 1]).tolist() for k in (0, 1))
        moved = [Fraction(a - b * (sums.changed - 1), QUANTA) for a, b in zip(one, other, strict=True)]
        most = max(most[0], sum(map(abs, moved))), max(most[1], sum(each**2 for each in moved))
    return most


@pytest.mark.few(5)
@pytest.mark.parametrize("sums", SUMS, ids=str)
def test_one_row_moves_all_sums_together_by_what_the_noise_is_made_for(sums: FeatureSums) -> None:
    found = moves(sums)
    assert all(each <= most for each, most in zip(found, sums.lengths, strict=True))
    assert all(each >= most * Fraction(999, 1000) for each, most in zip(found, sums.lengths, strict=True))  # attained
    if sums.changed == 2:  # the control: noise for one row would be too little
        assert all(each > most for each, most in zip(found, replace(sums, changed=1).lengths, strict=True))


def test_control_numbers_rounded_to_the_nearest_quantum_move_them_by_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = FeatureSums(features=4, degree=2)
    monkeypatch.setattr(
        "rangebound.learn.sklearn.feature_statistics.np.trunc", lambda values: np.rint(values) + (values > 0.5)
    )
    assert moves(sums)[0] > sums.lengths[0]


@pytest.mark.parametrize("neighbours", ["add-remove", "zero-out", "replace-one"])
@pytest.mark.parametrize("kind", [MeanEstimator, StandardScaler, GaussianNB])
@pytest.mark.parametrize("noise", [rb.Laplace, rb.Gaussian])
def test_the_noise_that_is_drawn_is_for_what_a_neighbour_moves(
    kind: Any, noise: Any, neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rows of opposite ends are exchanged, or one is taken away: the change over the scale is no more than paid."""
    drawn: list[tuple[Any, Any]] = []
    release = row_sums.drawn
    monkeypatch.setattr(row_sums, "drawn", lambda sums, noise: drawn.append((sums, noise)) or release(sums, noise))
    rows, labels = np.array([[0.0, 0.0, 0.0], [0.3, 0.4, 1.0], [1.0, 1.0, 1.0]]), [0, 1, 1]
    more: dict[str, Any] = {"classes": [0, 1]} if kind is GaussianNB else {}
    options = {"epsilon": 0.7, "delta": 1e-5, "noise": noise, "neighbours": neighbours, **more}
    made = kind(bounds=(0, 1), **options)
    made.fit(rows, labels)
    if neighbours == "replace-one":
        made.fit(np.concatenate([rows[1:], rows[2:]]), [1, 1, 1])
        if kind is not GaussianNB:  # x^2 is the same at both ends
            rows[2] = [-0.5, -0.5, -0.5]
    elif neighbours == "zero-out":
        made.fit(np.concatenate([np.full((1, 3), math.nan), rows[1:]]), [7 if kind is GaussianNB else 0, 1, 1])
    else:
        made.fit(rows[1:], labels[1:])
    (before, law), (after, again) = drawn
    assert law == again
    changes = [Fraction(int(a) - int(b)) for a, b in zip(before, after, strict=True)]
    if noise is rb.Laplace:
        loss = sum(map(abs, changes)) / Fraction(law.scale)
        assert Fraction(7, 10) / 2 < loss <= Fraction(7, 10)
    else:
        mu = math.sqrt(sum(each**2 for each in changes)) / law.scale
        assert is_private(mu * (1 - 1e-12), 0.7, 1e-5)
        assert not is_private(3.0 * mu, 0.7, 1e-5)


def test_noise_of_less_variance_is_chosen_and_charged_for_what_it_is() -> None:
    few, many = (sum_noise(1.0, 1e-6, None, Fraction(d), Fraction(d)) for d in (2, 200))
    assert isinstance(few.noise, rb.Laplace)
    assert (few.epsilon, few.delta, few.mu) == (1.0, 0.0, math.inf)
    assert isinstance(many.noise, rb.Gaussian)
    assert (many.epsilon, many.delta) == (1.0, 1e-6)
    assert is_private(many.mu, 1.0, 1e-6)
    assert many.mu * many.noise.scale >= math.sqrt(200.0) * QUANTA * (1 - 1e-15)
    assert sum_noise(1.0, 0.0, None, Fraction(200), Fraction(200)).noise.scale == 200.0 * QUANTA
    with pytest.raises(rb.errors.ArgumentError, match="delta=0: must be positive, because the noise is Gaussian"):
        sum_noise(1.0, 0.0, rb.Gaussian, Fraction(2), Fraction(2))


def error(kind: Any, rows: int, name: str, **options: Any) -> float:
    """The root mean squared error of a statistic of one feature, in units of the range."""
    x = np.random.default_rng(rows).beta(3.0, 5.0, (rows, 1))
    truth = x.mean() if name == "mean_" else x.var()
    found = [getattr(kind(bounds=(0, 1), **options).fit(x), name)[0] - truth for _ in range(150)]
    return float(np.sqrt(np.mean(np.square(found))))


@pytest.mark.few(3)
@pytest.mark.parametrize("neighbours", ["add-remove", "zero-out", "replace-one"])
@pytest.mark.parametrize(
    ("kind", "name"), [(MeanEstimator, "mean_"), (StandardScaler, "mean_"), (StandardScaler, "var_")]
)
def test_the_error_falls_with_the_number_of_rows(kind: Any, name: str, neighbours: str) -> None:
    """By the number itself; at 20,000 rows and epsilon 1 it is below that of one Laplace of scale 4 over the rows."""
    small, large = (error(kind, rows, name, neighbours=neighbours) for rows in (1000, 20_000))
    assert large < 5.7 / 20_000
    assert small > 7.0 * large  # 20 times as large, but for what chance does in seven standard deviations


@pytest.mark.parametrize("rows", [None, 50])
def test_without_noise_estimates_are_those_of_numpy(rows: int | None) -> None:
    x = np.random.default_rng(1).random((50, 3))
    sums = FeatureSums(features=3, degree=2, rows=rows)
    noise = sum_noise(1e9, 0.0, None, *sums.lengths)
    total = sums.total(x, np.zeros(3), np.ones(3), np.zeros(50, dtype=np.int64))
    found = sums.estimates(total / QUANTA, noise, 1, 1e-9)
    np.testing.assert_allclose(found["mean"], x.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found["variance"], x.var(axis=0), atol=1e-6)
    halved = sums.estimates(total / QUANTA, noise, 100, 1e-9)["mean"]  # divided by a larger public number
    np.testing.assert_allclose(halved - 0.5, (x.mean(axis=0) - 0.5) / 2.0, atol=1e-6)
