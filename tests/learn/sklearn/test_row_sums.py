"""Sums of clipped rows: their sensitivity in whole numbers, their noise, and that no row depends on another."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, norm

from rangebound.learn.sklearn import row_sums
from rangebound.learn.sklearn.linear_models import gradient_rows, gradients
from rangebound.learn.sklearn.row_sums import QUANTA
from rangebound.learn.sklearn.transformers import squared_distances
from rangebound.privacy.gdp import is_private


def squared(whole: Any) -> int:
    """The squared length of a vector of whole numbers, in Python's own."""
    return sum(int(each) ** 2 for each in np.ravel(whole))


@pytest.mark.parametrize("length", [1.0, 0.3, 1e-3, math.pi])
def test_no_clipped_row_is_too_long_and_long_ones_reach_the_norm(length: float) -> None:
    draw = np.random.default_rng(1)
    rows = draw.standard_normal((300, 7)) * 10.0 ** draw.uniform(-4, 4, (300, 1))
    found = row_sums.clipped(rows, length)
    lengths = np.sqrt((rows**2).sum(axis=1))
    for row, own in zip(found, lengths, strict=True):
        assert squared(row) <= QUANTA**2
        aim = min(1.0, own / length) * QUANTA
        assert math.sqrt(squared(row)) == pytest.approx(aim, abs=3 + aim * 2e-6)
    plain = np.rint(rows / np.maximum(lengths, length)[:, None] * QUANTA)  # the control: rounded to nearest
    assert any(squared(row) > QUANTA**2 for row in plain)


def test_rows_that_float_arithmetic_leaves_too_long_are_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sums, "shortened", lambda rows, norm: rows)
    found = row_sums.clipped(np.array([[1.0, 1e-3], [0.6, 0.6]]), 1.0)
    assert [squared(row) <= QUANTA**2 for row in found] == [True, True]
    assert found[1].tolist() == [math.trunc(0.6 * QUANTA)] * 2


@pytest.mark.parametrize("of_rows", ["scores", "clipped", "squared_distances", "gradients"])
def test_a_row_is_the_same_whoever_is_beside_it(of_rows: str) -> None:
    draw = np.random.default_rng(2)
    rows, weights = draw.uniform(-1, 1, (61, 33)), draw.standard_normal((33, 5))
    if of_rows == "gradients":
        rows = gradient_rows(rows[:, :32], draw.integers(0, 5, 61), np.full(32, -1.0), np.ones(32))
    found: Any = {
        "scores": lambda part: row_sums.scores(part, weights),
        "clipped": lambda part: row_sums.clipped(part, 0.7),
        "squared_distances": lambda part: squared_distances(part, weights.T),
        "gradients": lambda part: gradients(part, 5.0 * weights),
    }[of_rows]
    whole = found(rows)
    assert all((found(rows[i:j])[0] == whole[i]).all() for i in range(61) for j in (i + 1, 61))


def test_control_chances_by_the_largest_score_of_all_rows_depend_on_others() -> None:
    scores = 5.0 * np.random.default_rng(3).standard_normal((67, 4))
    whole, alone = (np.exp2(scores - top) for top in (scores.max(), scores.max(axis=1, keepdims=True)))
    chances = [each / each.sum(axis=1, keepdims=True) for each in (whole, alone)]
    assert (chances[0] != chances[1]).any()


def test_the_noise_is_gaussian_of_the_stated_scale() -> None:
    mu, length = 0.5, 3.0
    drawn = row_sums.noisy(np.full(40_000, QUANTA, dtype=np.int64), length, mu)
    assert kstest(drawn, norm(loc=length, scale=length / mu).cdf).pvalue > 1e-11
    assert kstest(drawn, norm(loc=length, scale=1.2 * length / mu).cdf).pvalue < 1e-11  # the control


def test_sums_beyond_the_doubles_are_clamped() -> None:
    held = row_sums.noisy(np.array([2**62, -(2**62), 2**53]), 1.0, 1.0)
    np.testing.assert_allclose(held, [2.0**27, -(2.0**27), 2.0**27], atol=10.0)


def test_the_parts_of_a_budget_are_together_no_more_than_it() -> None:
    epsilon, delta, mu = row_sums.budget_mu(0.1, 1e-6)
    assert is_private(mu, Fraction(1, 10), Fraction(1, 10**6))
    assert not is_private(mu * (1 + 1e-9), Fraction(epsilon), Fraction(delta))
    for steps in (1, 3, 20, 1000):
        each = row_sums.part(mu, Fraction(1, steps))
        assert steps * Fraction(each) ** 2 <= Fraction(mu) ** 2
        assert steps * each**2 == pytest.approx(mu**2)


def test_missing_values_are_in_the_middle_and_others_are_clipped() -> None:
    x = np.array([[math.nan, -5.0, 7.0, 2.5, math.inf, -math.inf]]).T
    ends = np.zeros(1), np.full(1, 5.0)
    assert row_sums.centred(x, *ends)[:, 0].tolist() == [0.0, -1.0, 1.0, 0.0, 1.0, -1.0]
