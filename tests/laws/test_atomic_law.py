"""Finite laws: probabilities that are exact, at one true answer and at many."""

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.laws.atomic_law import FiniteLaw

POINTS = np.array([-1.0, 0.0, 2.5])
WEIGHTS = np.array([[1, 2, 5], [0, 8, 0]])


def law(rows):
    return FiniteLaw(POINTS, WEIGHTS, 8, np.asarray(rows))


def test_one_law():
    one = law(0)
    assert [each.tolist() for each in one.atoms] == [POINTS.tolist(), [0.125, 0.25, 0.625]]
    assert one.cdf([-2.0, -1.0, 0.0, 2.0, 3.0]).tolist() == [0.0, 0.125, 0.375, 0.375, 1.0]
    assert one.sf([-2.0, -1.0, 0.0, 2.0, 3.0]).tolist() == [1.0, 1.0, 0.875, 0.625, 0.0]
    assert one.mass(-1.0, 0.0).item() == 0.375
    assert one.pdf(0.0).item() == 0.0
    assert one.log_pdf([0.0, 1.0]).tolist() == [-math.inf] * 2
    assert one.mean.item() == pytest.approx(-0.125 + 0.625 * 2.5)
    assert one.variance.item() == pytest.approx(0.125 + 0.625 * 6.25 - one.mean.item() ** 2)


def test_quantiles_are_the_least_numbers_with_enough_mass():
    one = law(0)
    assert one.quantile([0.0, 0.125, 0.126, 0.375, 0.3751, 1.0]).tolist() == [-1.0, -1.0, 0.0, 0.0, 2.5, 2.5]
    assert law(1).quantile([0.0, 1.0]).tolist() == [0.0, 0.0]  # never a number that cannot be published


def test_wrong_arguments_are_refused():
    with pytest.raises(rb.ArgumentError, match="must be in order"):
        law(0).mass(1.0, 0.0)
    with pytest.raises(rb.ArgumentError, match=r"must lie in \[0, 1\]"):
        law(0).quantile(1.5)
    assert "rows" not in repr(law(1))
