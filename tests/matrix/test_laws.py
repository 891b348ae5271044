"""Every law of every cell is a probability distribution, and its methods agree with each other and with integration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad_vec

import rangebound as rb
from tests.matrix.cells import Cell, every_cell, places

CHANCES = np.array([0.0, 1e-9, 0.003, 0.2, 0.5, 0.731, 0.999, 1.0 - 1e-9, 1.0])


def outputs(mechanism: rb.Mechanism, location: float) -> np.ndarray:
    """Places on the line to look at: across the support, its ends, and a little beyond."""
    reach = 8.0 * mechanism.noise.scale
    ends = [x for span in mechanism.support.spans for x in span if math.isfinite(x)]
    low, high = min([*ends, location]) - reach, max([*ends, location]) + reach
    return np.unique(np.concatenate([np.linspace(low, high, 200), ends, [location]]))


def integrals(law: rb.Law) -> np.ndarray:
    """The mass, the mean and the second moment about the mean, by adaptive quadrature and sums over the atoms."""
    at, scale = float(law.location), law.noise.scale
    points, weights = law.atoms
    mean = float(law.mean)

    def powers(x: float) -> np.ndarray:
        return float(law.pdf(x)) * np.array([1.0, x, (x - mean) ** 2])

    total = np.array([weights.sum(), weights @ points, weights @ (points - mean) ** 2])
    marks = [at, *([at - law.noise.limit, at + law.noise.limit] if hasattr(law.noise, "limit") else [])]
    for lower, upper in law.shape.spans:
        low, high = max(lower, min(at, upper) - 45.0 * scale), min(upper, max(at, lower) + 45.0 * scale)
        cuts = sorted({low, high, *(x for x in marks if low < x < high)})
        for a, b in itertools.pairwise(cuts):
            total = total + quad_vec(powers, a, b, epsrel=1e-10, epsabs=1e-13, limit=400)[0]
    return total


@every_cell
def test_mass_one_and_moments_as_integration_has_them(cell: Cell) -> None:
    mechanism = cell.mechanism()
    for at in places(mechanism, 2, seed=1):
        law = mechanism.law(at)
        mass, mean, second = integrals(law)
        assert mass == pytest.approx(1.0, abs=1e-9)
        assert mean == pytest.approx(float(law.mean), rel=1e-8, abs=1e-8 * mechanism.noise.scale)
        assert second == pytest.approx(float(law.variance), rel=1e-7)
        assert float(law.mass(-math.inf, math.inf)) == pytest.approx(1.0, abs=1e-14)


@every_cell
def test_the_distribution_function_rises_and_meets_its_tail(cell: Cell) -> None:
    mechanism = cell.mechanism()
    for at in places(mechanism, 3, seed=2):
        law = mechanism.law(at)
        x = outputs(mechanism, at)
        below, above = law.cdf(x), law.sf(x)
        assert (np.diff(below) >= -1e-15).all()
        assert (np.diff(above) <= 1e-15).all()
        assert ((below >= 0.0) & (below <= 1.0)).all()
        points, weights = law.atoms
        at_x = (weights * (points == x[:, None])).sum(axis=-1) if len(points) else np.zeros(len(x))
        np.testing.assert_allclose(below + above, 1.0 + at_x, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(law.mass(x[:-1], x[1:]), below[1:] - below[:-1] + at_x[:-1], rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(np.exp(law.log_pdf(x)), law.pdf(x), rtol=1e-15)


@every_cell
def test_quantiles_invert_the_distribution_function(cell: Cell) -> None:
    mechanism = cell.mechanism()
    for at in places(mechanism, 3, seed=3):
        law = mechanism.law(at)
        x = law.quantile(CHANCES)
        assert (np.diff(x) >= 0.0).all()
        inner = np.isfinite(x)
        x, chances = x[inner], CHANCES[inner]
        assert (law.cdf(x) >= chances - 1e-12).all()
        assert (1.0 - law.sf(x) <= chances + 1e-12).all()
        spans = np.asarray(mechanism.support.spans)
        in_span = ((x[:, None] >= spans[:, 0]) & (x[:, None] <= spans[:, 1])).any(axis=-1)
        assert in_span.all(), "a quantile lies outside the support"


@every_cell
def test_nothing_lies_at_infinity(cell: Cell) -> None:
    mechanism = cell.mechanism()
    for law in (mechanism.law(places(mechanism, 1, seed=5)[0]), mechanism.law(places(mechanism, 3, seed=5))):
        for x, below in ((-math.inf, 0.0), (math.inf, 1.0)):
            np.testing.assert_allclose(law.cdf(x), below, rtol=0.0, atol=1e-14)
            np.testing.assert_allclose(law.sf(x), 1.0 - below, rtol=0.0, atol=1e-14)
            assert (law.mass(x, x) == 0.0).all()
            assert (law.pdf(x) == 0.0).all()


@every_cell
def test_a_batch_of_laws_is_what_the_single_laws_are(cell: Cell) -> None:
    mechanism = cell.mechanism()
    at = places(mechanism, 4, seed=4)
    batch, singles = mechanism.law(at), [mechanism.law(x) for x in at]
    x = 0.3
    for name in ("pdf", "cdf", "sf", "log_pdf"):
        together = getattr(batch, name)(x)
        np.testing.assert_allclose(
            together, [float(getattr(law, name)(x)) for law in singles], rtol=1e-13, err_msg=name
        )
    np.testing.assert_allclose(batch.mean, [float(law.mean) for law in singles], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(batch.variance, [float(law.variance) for law in singles], rtol=1e-11)
    np.testing.assert_allclose(batch.quantile(0.3), [float(law.quantile(0.3)) for law in singles], rtol=1e-13)
    np.testing.assert_allclose(batch.atoms[1], [law.atoms[1] for law in singles], rtol=1e-13)


def test_the_comparison_catches_a_wrong_law() -> None:
    """A control: the same integrals of a law with a misplaced centre do not give its mean."""
    mechanism = Cell("laplace", "truncate", "interval", "equal").mechanism()
    _, mean, second = integrals(mechanism.law(0.2))
    other = mechanism.law(0.2 + 1e-6)
    assert mean != pytest.approx(float(other.mean), rel=1e-8, abs=1e-8)
    assert second != pytest.approx(float(mechanism.law(0.3).variance), rel=1e-7)
