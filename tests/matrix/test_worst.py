"""The worst case of every cell: a narrow enclosure, never below any pair, and attained to six digits by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.errors import ArgumentError
from rangebound.privacy.worst import Worst, worst_delta, worst_epsilon, worst_loss, worst_renyi
from tests.matrix.brute import Number, delta_at, loss, random_pairs, renyi_at, scan
from tests.matrix.cells import ALLOWED, BOUNDINGS, CUBE, NOISES, REFUSED, SUPPORTS, Cell, every_cell_with, quick_cells
from tests.matrix.deadline import PATIENCE_S, deadline

WIDTH = 1e-6  # the widest enclosure, relative
NOTHING = 1e-30  # a worst case below this is zero
ROUNDING = 1e-13  # absolute error of the pair formulas in doubles, a few logarithms long
FARTHEST = 1e-3  # how much of a supremum at infinity is still missing at the far end of the scan
PAIRS = 400


def is_enclosure(worst: Worst) -> None:
    """Fail unless the ends are in order, and as near to each other as they should be."""
    assert 0.0 <= worst.lower <= worst.upper, worst
    if math.isinf(worst.upper):
        assert math.isinf(worst.lower), f"{worst}: nothing shows that it is infinite"
    elif worst.upper > NOTHING:
        assert worst.upper - worst.lower <= WIDTH * worst.upper, worst


def covers(mechanism: rb.Mechanism, worst: Worst, number: Number, seed: int) -> None:
    """Fail unless the upper end is at least what every pair leaks, and little more than the worst one."""
    values = number(*random_pairs(mechanism, PAIRS, seed))
    assert worst.upper >= values.max() * (1.0 - 1e-10) - ROUNDING, (worst, values.max())
    best, pair = scan(mechanism, number)
    if np.isfinite(worst.pair).all():  # a peak may be too narrow for a scan; the pair itself shows whether it is there
        best = max(best, float(number(*np.asarray(worst.pair)[:, None])[0]))
    assert worst.upper >= best * (1.0 - 1e-8) - ROUNDING, (worst, best, pair)
    if math.isfinite(worst.upper):
        endless = isinstance(mechanism.noise, rb.Gaussian) and not mechanism.query.range.bounded
        slack = FARTHEST if endless else 2.0 * WIDTH  # the worst pair may be infinitely far out
        assert worst.upper <= best * (1.0 + slack) + ROUNDING, (worst, best, pair)


def attained(mechanism: rb.Mechanism, worst: Worst, value: float) -> None:
    """Fail unless the pair is one of neighbours and has the lower end of the enclosure."""
    p, q = worst.pair
    assert abs(p - q) <= mechanism.query.sensitivity * (1.0 + 1e-12)
    assert value == pytest.approx(worst.lower, rel=1e-8, abs=ROUNDING)


@pytest.mark.few(9)
@quick_cells(ALLOWED)
def test_pure_epsilon(cell: Cell) -> None:
    mechanism = cell.mechanism()
    with deadline(cell):
        worst = worst_loss(mechanism.setting)
    is_enclosure(worst)
    covers(mechanism, worst, loss(mechanism), seed=21)
    if math.isinf(worst.upper):
        near, far = (scan(mechanism, loss(mechanism, far=reach))[0] for reach in (30.0, 300.0))
        if not mechanism.query.range.bounded:  # farther out than a scan in floats can see
            out, step = 1e4 * mechanism.noise.scale, mechanism.query.sensitivity
            pairs = [(s * a, s * b) for s in (-1, 1) for a, b in ((out + step, out), (out, out + step))]
            far = max(far, *(rb.renyi(*map(mechanism.law, pair), math.inf) for pair in pairs))
        assert far > 1e3 or far > 5.0 * near, "nothing grows without limit"
    assert mechanism.epsilon() == worst.upper


NUMBERS = {"delta": (worst_delta, delta_at, rb.hockey_stick), "renyi": (worst_renyi, renyi_at, rb.renyi)}


@pytest.mark.few(14)
@every_cell_with("number", [("delta", 0.5), ("delta", 2.0), ("renyi", 1.5), ("renyi", 8.0)])
def test_delta_and_renyi(cell: Cell, number: tuple[str, float]) -> None:
    mechanism, (worst_of, of_pairs, of_laws), level = cell.mechanism(), NUMBERS[number[0]], number[1]
    # Seen from far outside, the atoms of a rounded Gaussian vary so fast that many cells are needed.
    patience = 60.0 if (str(cell), number) == ("gaussian-quantize-grid-line", ("renyi", 8.0)) else PATIENCE_S
    with deadline(cell, patience):
        worst = worst_of(mechanism.setting, level)
    is_enclosure(worst)
    covers(mechanism, worst, of_pairs(mechanism, level), seed=22)
    if 0.0 < worst.lower < math.inf and np.isfinite(worst.pair).all():
        attained(mechanism, worst, of_laws(*map(mechanism.law, worst.pair), level))


@pytest.mark.few(9)
@quick_cells(ALLOWED)
def test_epsilon_at_a_delta(cell: Cell) -> None:
    mechanism, delta = cell.mechanism(), 1e-3
    with deadline(cell):
        worst = worst_epsilon(mechanism.setting, delta)
    is_enclosure(worst)
    if math.isinf(worst.upper):
        assert scan(mechanism, delta_at(mechanism, 40.0))[0] > delta
    else:
        assert scan(mechanism, delta_at(mechanism, worst.upper))[0] <= delta * (1.0 + 1e-8) + ROUNDING
    if 1e-6 < worst.upper < math.inf:
        less = worst.upper * (1.0 - 1e-5)
        at_pair = np.isfinite(worst.pair).all() and rb.hockey_stick(*map(mechanism.law, worst.pair), less)
        assert at_pair > delta or scan(mechanism, delta_at(mechanism, less))[0] > delta


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "cell", [cell for cell in ALLOWED if cell.range == "equal" and cell.noise != "truncated_laplacian"], ids=str
)
def test_the_methods_of_a_mechanism_publish_the_upper_end(cell: Cell) -> None:
    mechanism = cell.mechanism()
    assert mechanism.delta(0.5) == worst_delta(mechanism.setting, 0.5).upper
    assert mechanism.epsilon(1e-3) == worst_epsilon(mechanism.setting, 1e-3).upper
    orders = np.array([1.5, math.inf])
    assert mechanism.rdp(orders).tolist() == [worst_renyi(mechanism.setting, 1.5).upper, mechanism.epsilon()]


def test_brute_force_catches_an_understated_worst_case() -> None:
    """A control: holohan2018 looks at the ends alone, and with a delta the worst position is inside."""
    mechanism = Cell("laplace", "truncate", "interval", "equal").mechanism()
    at_end = rb.hockey_stick(mechanism.law(-1.0), mechanism.law(0.0), 1.0)
    true = worst_delta(mechanism.setting, 1.0)
    assert at_end < true.lower
    with pytest.raises(AssertionError):
        covers(mechanism, Worst(at_end, at_end, (-1.0, 0.0)), delta_at(mechanism, 1.0), seed=22)
    with pytest.raises(AssertionError):
        covers(mechanism, Worst(0.5, 0.5, (-1.0, 0.0)), delta_at(mechanism, 1.0), seed=22)


def test_a_wide_enclosure_is_caught() -> None:
    with pytest.raises(AssertionError):
        is_enclosure(Worst(0.1, 0.1001, (0.0, 1.0)))
    with pytest.raises(AssertionError):
        is_enclosure(Worst(0.0, math.inf, (0.0, 1.0)))


def test_the_cube_is_whole() -> None:
    assert len(CUBE) == len(ALLOWED) + len(REFUSED) == len(set(CUBE))
    assert {cell[:3] for cell in CUBE} == {(n, b, s) for n in NOISES for b in BOUNDINGS for s in SUPPORTS}


@pytest.mark.few(108)
@pytest.mark.parametrize("cell", REFUSED, ids=str)
def test_a_cell_that_makes_no_sense_is_refused_with_the_reason(cell: Cell) -> None:
    with pytest.raises(ArgumentError, match=cell.reason()):
        cell.mechanism()
