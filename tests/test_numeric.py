"""Arrays of any kind: log(1 - e^x), log-sums, and the library an array belongs to."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.special

from rangebound.numeric import ldexpm1, log_sum, namespace, special
from tests.crosscheck.compare import agree


@pytest.mark.parametrize("x", [-1e-300, -1e-17, -1e-9, -0.3, -math.log(2.0), -0.7, -3.0, -40.0, -700.0])
def test_ldexpm1_does_not_cancel(x: float) -> None:
    with mp.workdps(400):
        agree(ldexpm1(np.asarray(x)), mp.log(-mp.expm1(mp.mpf(x))), rel=1e-15)


def test_ldexpm1_at_its_ends() -> None:
    assert ldexpm1(np.asarray(0.0)) == -np.inf
    assert ldexpm1(np.asarray(-np.inf)) == 0.0


def test_ldexpm1_where_the_plain_form_fails() -> None:
    """A control: log(1 - e^x) as it is written loses all digits that the comparison asks for."""
    x = -1e-12
    with mp.workdps(60), pytest.raises(AssertionError):
        agree(math.log(1.0 - math.exp(x)), mp.log(-mp.expm1(mp.mpf(x))), rel=1e-9)


def test_log_sum_is_stable_and_knows_nothing_from_zero() -> None:
    generator = np.random.default_rng(1)
    logs = generator.normal(scale=300.0, size=(50, 6))
    np.testing.assert_allclose(log_sum(logs), scipy.special.logsumexp(logs, axis=-1), rtol=1e-15)
    assert log_sum(np.full(3, -np.inf)) == -np.inf
    assert log_sum(np.array([-np.inf, 2.0])) == 2.0
    assert log_sum(np.array([-1e4, -1e4])) == pytest.approx(-1e4 + math.log(2.0), rel=1e-15)


def test_numpy_arrays_get_scipy() -> None:
    assert special(np.zeros(2)) is scipy.special
    assert namespace(np.zeros(2), 1.0).__name__.endswith("numpy")


def test_torch_tensors_get_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([-1e-12, -0.5, -30.0], dtype=torch.float64)
    assert special(x) is torch.special
    np.testing.assert_allclose(ldexpm1(x).numpy(), ldexpm1(x.numpy()), rtol=1e-15)
    np.testing.assert_allclose(log_sum(x).numpy(), log_sum(x.numpy()), rtol=1e-15)
