"""Laws over the cube and at the extremes against mpmath: densities, masses, quantiles, moments and errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from tests.crosscheck.compare import TIGHT, agree
from tests.crosscheck.extremes import Pair, draw
from tests.crosscheck.oracle import Oracle, oracle
from tests.matrix.cells import ALLOWED, Cell, places, quick_cells
from tests.thinning import some

INF = math.inf
BATCHES, BATCH = 30, 5
SMALLEST = 1e-290  # below this a double has no room for nine digits
CHANCES = (1e-12, 1e-3, 0.3, 0.5, 0.8, 1.0 - 1e-9)


def outputs(mechanism: rb.Mechanism, at: float) -> list[float]:
    """Places in every span: its ends, next to them, inside, the nearest to the location; and a scale beyond."""
    scale, found = mechanism.noise.scale, []
    for lower, upper in mechanism.shape.spans or [(mechanism.support.hull.lower, mechanism.support.hull.upper)]:
        low = lower if math.isfinite(lower) else min(at, upper) - 2.9 * scale
        high = upper if math.isfinite(upper) else max(at, lower) + 2.9 * scale
        found += [low, high, low + 0.3 * (high - low), low + 1e-7 * (high - low), min(max(at, low), high)]
        found += [low - scale, high + scale]
    return sorted(set(found))


def cases(batch: int) -> list[tuple[Pair, Oracle]]:
    generator = np.random.default_rng([131, batch])
    pairs = [draw(generator) for _ in range(BATCH)]
    return [(pair, oracle(pair.mechanism, pair.digits)) for pair in pairs]


def densities_and_masses(mechanism: rb.Mechanism, at: float, true: Oracle) -> None:
    law, places = mechanism.law(at), outputs(mechanism, at)
    for x in places:
        agree(law.cdf(x), true.mass(at, -mp.inf, x), floor=SMALLEST, what=("cdf", x, at))
        agree(law.sf(x), true.mass(at, x, mp.inf), floor=SMALLEST, what=("sf", x, at))
        agree(law.pdf(x), true.pdf(at, x), floor=SMALLEST, what=("pdf", x, at))
        agree(law.log_pdf(x), true.log_pdf(at, x), floor=1.0, what=("log_pdf", x, at))
    for a, b in itertools.pairwise(places):
        agree(law.mass(a, b), true.mass(at, a, b), floor=SMALLEST, what=("mass", a, b, at))


def moments_and_errors(mechanism: rb.Mechanism, at: float, true: Oracle) -> None:
    """Of one law, and of a batch in doubles: there 1e-9 of the law's own spread where the value is smaller."""
    law, error, moments = mechanism.law(at), mechanism.error(at), true.moments(at)
    agree(law.mean, moments["mean"], what=("mean", at))
    agree(law.variance, moments["variance"], floor=1e-100, what=("variance", at))
    for name in ("bias", "mae", "mse"):
        agree(getattr(error, name), moments[name], floor=1e-100, what=(name, at))
    batch, spread = mechanism.law(np.array([at])), float(mp.sqrt(moments["variance"]))
    agree(batch.mean[0], moments["mean"], floor=spread, what=("mean of a batch", at))
    agree(batch.variance[0], moments["variance"], floor=1e-100, what=("variance of a batch", at))


def quantiles(mechanism: rb.Mechanism, at: float, true: Oracle) -> None:
    """The x returned is within 1e-9 of the true quantile, by what the distribution function is there."""
    law = mechanism.law(at)
    floor = 0.0 if mechanism.support.bounded else mechanism.noise.scale  # x may be any number, also near 0
    for chance in CHANCES:
        x = float(law.quantile(chance))
        assert any(low <= x <= high for low, high in mechanism.support.spans), (chance, x)
        with mp.workdps(true.digits):
            short = mp.mpf(chance) - true.mass(at, -mp.inf, x)  # positive: x is too small
            over = (1 - true.mass(at, x, mp.inf)) - mp.mpf(chance)  # positive: x is too large
            if max(short, over) <= 0:
                continue  # an atom, or exact
            move = (abs(mp.mpf(x)) + floor) * mp.mpf(TIGHT)
            nearer = mp.mpf(x) + (move if short > 0 else -move)
            reached = true.mass(at, -mp.inf, nearer)
            assert (reached >= chance) if short > 0 else (reached <= chance), (chance, x, at)


CHECKS = [densities_and_masses, moments_and_errors, quantiles]


@pytest.mark.few(1)
@pytest.mark.parametrize("batch", some(range(BATCHES), of=3))
@pytest.mark.parametrize("check", CHECKS)
def test_laws_at_the_extremes(check: Callable[..., None], batch: int) -> None:
    for pair, true in cases(batch):
        check(pair.mechanism, pair.p, true)


@pytest.mark.few(9)
@quick_cells(ALLOWED)
def test_laws_of_the_cube(cell: Cell) -> None:
    mechanism = cell.mechanism()
    for at in places(mechanism, 2, seed=1).tolist():
        pair = Pair(mechanism, at, at, 1.0, 2.0)
        true = oracle(mechanism, pair.digits)
        for check in CHECKS:
            check(mechanism, at, true)
        for name in ("bias", "mae", "mse"):  # to more digits than at the extremes
            agree(getattr(mechanism.error(at), name), true.moments(at)[name], rel=1e-13, floor=1e-12, what=name)


@quick_cells(ALLOWED)
def test_a_batch_of_laws_is_what_the_single_laws_are_and_nothing_lies_at_infinity(cell: Cell) -> None:
    mechanism = cell.mechanism()
    at = places(mechanism, 4, seed=4)
    batch, singles = mechanism.law(at), [mechanism.law(x) for x in at]
    for name in ("pdf", "cdf", "sf", "log_pdf", "quantile"):
        expected = [float(getattr(law, name)(0.3)) for law in singles]
        np.testing.assert_allclose(getattr(batch, name)(0.3), expected, rtol=1e-13, err_msg=name)
    np.testing.assert_allclose(batch.atoms[1], [law.atoms[1] for law in singles], rtol=1e-13)
    for law in (singles[0], batch):
        for x, below in ((-INF, 0.0), (INF, 1.0)):
            np.testing.assert_allclose(law.cdf(x), below, rtol=0.0, atol=1e-14)
            np.testing.assert_allclose(law.sf(x), 1.0 - below, rtol=0.0, atol=1e-14)
            assert (law.mass(x, x) == 0.0).all()
            assert (law.pdf(x) == 0.0).all()


def test_a_misplaced_law_is_caught() -> None:
    """A control: a location that is off in its tenth digit fails the same comparisons."""
    generator = np.random.default_rng(132)
    pair = next(p for p in (draw(generator) for _ in range(999)) if p.mechanism.bounding is rb.UNBOUNDED)
    true = oracle(pair.mechanism)
    law = pair.mechanism.law(pair.p + 1e-8 * pair.mechanism.noise.scale)
    x = pair.p - 2.0 * pair.mechanism.noise.scale
    with pytest.raises(AssertionError):
        agree(law.cdf(x), true.mass(pair.p, -mp.inf, x))
    with pytest.raises(AssertionError):
        agree(law.pdf(x), true.pdf(pair.p, x))
