"""The same formulas on torch tensors: equal to NumPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rangebound.privacy.pairs.divergences import renyi_formula, stick_formula
from tests.matrix.cells import ALLOWED, Cell, places

torch = pytest.importorskip("torch")

CELLS = [cell for cell in ALLOWED if cell.range == "larger" or (cell.support == "line" and cell.range == "equal")]
NUMBERS = [(stick_formula, each, 1e-15) for each in (-0.3, 0.0, 0.7)]
NUMBERS += [(renyi_formula, each, 1e-13) for each in (1.5, 6.0, math.inf)]


@pytest.mark.few(4)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_pair_formulas_are_numpys(cell: Cell) -> None:
    mechanism = cell.mechanism()
    p, q = places(mechanism, 80, seed=141).reshape(2, 40)
    q[:2] = p[:2]
    for formula, number, atol in NUMBERS:
        ours = formula(mechanism.noise, mechanism.shape, *map(torch.from_numpy, (p, q)), number)
        assert ours.dtype == torch.float64
        theirs = formula(mechanism.noise, mechanism.shape, p, q, number)
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12, atol=atol)
