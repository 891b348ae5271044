"""The array formulas on PyTorch tensors: the same numbers as NumPy, and a gradient."""

import numpy as np
import pytest
import torch

import rangebound as rb
from rangebound.privacy.pair import renyi_formula, stick_formula

P = np.array([0.5, 2.0, 3.5, 6.0, 9.5])
Q = np.array([1.5, 1.0, 4.5, 7.0, 8.5])
CELLS = [
    (noise, bounding)
    for noise in (rb.Laplace(scale=1.3), rb.Gaussian(scale=1.7))
    for bounding in (rb.TRUNCATE, rb.RECTIFY, rb.UNBOUNDED)
]


def shape_of(noise, bounding):
    return rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0), bounding=bounding).shape


@pytest.mark.parametrize(("noise", "bounding"), CELLS)
def test_tensors_give_the_numbers_of_arrays(noise, bounding):
    shape = shape_of(noise, bounding)
    for formula, argument in ((stick_formula, 0.3), (renyi_formula, 4.0)):
        ours = formula(noise, shape, torch.tensor(P), torch.tensor(Q), argument).numpy()
        assert ours == pytest.approx(formula(noise, shape, P, Q, argument), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize(("noise", "bounding"), CELLS[:4])
def test_the_gradient_is_the_slope(noise, bounding):
    shape = shape_of(noise, bounding)
    p = torch.tensor(P, requires_grad=True)
    renyi_formula(noise, shape, p, torch.tensor(Q), 4.0).sum().backward()
    step = 1e-6
    up, down = (renyi_formula(noise, shape, P + s * step, Q, 4.0) for s in (1, -1))
    assert p.grad is not None
    assert p.grad.numpy() == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-7)
