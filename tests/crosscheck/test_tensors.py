"""The same formulas on torch tensors: equal to NumPy's, and differentiable."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.privacy.pairs.divergences import renyi_formula, stick_formula
from tests.matrix.cells import ALLOWED, Cell, places

torch = pytest.importorskip("torch")

EQUAL = 1e-12
CELLS = [cell for cell in ALLOWED if cell.range == "larger" or (cell.support == "line" and cell.range == "equal")]
SMOOTH = [cell for cell in CELLS if cell.noise != "truncated_laplacian"]


def pairs(mechanism: rb.Mechanism, seed: int, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs of true answers, the first ones equal."""
    p, q = places(mechanism, 2 * count, seed).reshape(2, count)
    q[:2] = p[:2]
    return p, q


def tensor(x: np.ndarray, *, grad: bool = False) -> object:
    """The array as a float64 tensor."""
    return torch.tensor(x, dtype=torch.float64, requires_grad=grad)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_pair_formulas_are_numpys(cell: Cell) -> None:
    mechanism = cell.mechanism()
    p, q = pairs(mechanism, seed=141)
    for epsilon in (-0.3, 0.0, 0.7):
        ours = stick_formula(mechanism.noise, mechanism.shape, tensor(p), tensor(q), epsilon)
        assert ours.dtype == torch.float64
        theirs = stick_formula(mechanism.noise, mechanism.shape, p, q, epsilon)
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=EQUAL, atol=1e-15)
    for order in (1.5, 6.0, math.inf):
        ours = renyi_formula(mechanism.noise, mechanism.shape, tensor(p), tensor(q), order)
        theirs = renyi_formula(mechanism.noise, mechanism.shape, p, q, order)
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=EQUAL, atol=1e-13)


@pytest.mark.parametrize(
    "noise",
    [rb.Laplace(scale=0.8), rb.Gaussian(scale=0.8), rb.TruncatedLaplacian(scale=0.8, limit=3.0)],
    ids=["laplace", "gaussian", "truncated_laplacian"],
)
def test_noise_functions_are_numpys(noise: object) -> None:
    generator = np.random.default_rng(142)
    lower = generator.normal(scale=3.0, size=60)
    upper = lower + np.exp(generator.uniform(-20.0, 3.0, size=60))
    at = generator.normal(scale=3.0, size=60)
    lower[:5], upper[5:10] = -math.inf, math.inf
    x = generator.normal(size=60)
    np.testing.assert_allclose(noise.log_pdf(tensor(x)).numpy(), noise.log_pdf(x), rtol=EQUAL)
    ours = noise.log_mass(tensor(lower), tensor(upper), tensor(at)).numpy()
    np.testing.assert_allclose(ours, noise.log_mass(lower, upper, at), rtol=EQUAL, atol=1e-15)


def differences(function: object, p: np.ndarray, step: float) -> np.ndarray:
    """Central differences of fourth order."""
    return (8.0 * (function(p + step) - function(p - step)) - (function(p + 2 * step) - function(p - 2 * step))) / (
        12.0 * step
    )


@pytest.mark.parametrize("order", [1.5, 6.0])
@pytest.mark.parametrize("cell", SMOOTH, ids=str)
def test_the_gradient_of_the_renyi_divergence(cell: Cell, order: float) -> None:
    mechanism = cell.mechanism()
    p, q = pairs(mechanism, seed=143, count=12)
    p, q = _away_from_kinks(mechanism, p[2:], q[2:])
    variable = tensor(p, grad=True)
    renyi_formula(mechanism.noise, mechanism.shape, variable, tensor(q), order).sum().backward()
    slopes = differences(lambda x: renyi_formula(mechanism.noise, mechanism.shape, x, q, order), p, 1e-4)
    assert np.isfinite(variable.grad.numpy()).all()
    np.testing.assert_allclose(variable.grad.numpy(), slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("cell", SMOOTH, ids=str)
def test_the_gradient_of_the_hockey_stick(cell: Cell) -> None:
    mechanism = cell.mechanism()
    p, q = pairs(mechanism, seed=144, count=12)
    p, q = _away_from_kinks(mechanism, p[2:], q[2:])
    variable = tensor(p, grad=True)
    stick_formula(mechanism.noise, mechanism.shape, variable, tensor(q), 0.2).sum().backward()
    slopes = differences(lambda x: stick_formula(mechanism.noise, mechanism.shape, x, q, 0.2), p, 1e-4)
    assert np.isfinite(variable.grad.numpy()).all()
    np.testing.assert_allclose(variable.grad.numpy(), slopes, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("cell", SMOOTH, ids=str)
def test_no_gradient_is_nan_at_equal_locations(cell: Cell) -> None:
    mechanism = cell.mechanism()
    at = places(mechanism, 4, seed=145)
    variable = tensor(at, grad=True)
    renyi_formula(mechanism.noise, mechanism.shape, variable, tensor(at), 2.0).sum().backward()
    assert not torch.isnan(variable.grad).any()


def test_a_wrong_gradient_is_caught() -> None:
    """A control: the gradient with respect to the other location is not this one."""
    mechanism = Cell("gaussian", "truncate", "interval", "larger").mechanism()
    p, q = np.array([0.2]), np.array([0.9])
    variable = tensor(q, grad=True)
    renyi_formula(mechanism.noise, mechanism.shape, tensor(p), variable, 2.0).sum().backward()
    slopes = differences(lambda x: renyi_formula(mechanism.noise, mechanism.shape, x, q, 2.0), p, 1e-4)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(variable.grad.numpy(), slopes, rtol=1e-6, atol=1e-8)


def _away_from_kinks(mechanism: rb.Mechanism, p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs at which a derivative exists: the first location is next to no end, point or cut, nor to the second."""
    shape = mechanism.shape
    marks = [x for pair in (*shape.spans, *shape.cells) for x in pair if math.isfinite(x)] + list(shape.points)
    clear = np.abs(p - q) > 0.01
    if isinstance(mechanism.noise, rb.Laplace):
        for x in marks:
            clear &= np.abs(p - x) > 0.01
    assert clear.any()
    return p[clear], q[clear]
