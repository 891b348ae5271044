"""Pairs at the extremes against mpmath: epsilon 1e-9 to 50, sensitivity/width 1e-6 to 1, 50 scales outside."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from rangebound.privacy.pairs.divergences import renyi_formula, stick_formula
from tests.crosscheck.compare import TIGHT, agree
from tests.crosscheck.extremes import NOTHING, Pair, draw
from tests.crosscheck.oracle import oracle
from tests.matrix.routes import FLOOR, renyi_floor
from tests.thinning import some

INF = math.inf
BATCHES, BATCH = 8, 25
ORDERS = (1.5, 2.0, 10.0, 100.0)


def compare(pair: Pair) -> None:
    """The numbers of one pair in ball arithmetic: to 1e-9 relative at any size, and never understated."""
    mechanism, p, q, epsilon, order = pair
    true = oracle(mechanism, pair.digits)
    laws = mechanism.law(p), mechanism.law(q)
    with mp.workdps(pair.digits):
        for what, ours, exact in (
            ("stick", rb.hockey_stick(*laws, epsilon), true.stick(p, q, epsilon)),
            ("renyi", rb.renyi(*laws, order), true.renyi(p, q, order)),
            ("loss", rb.renyi(*laws, INF), true.renyi(p, q, INF)),
        ):
            agree(ours, exact, rel=TIGHT, floor=NOTHING, what=(what, pair))
            # a grid's cells are cut at the doubles next to the midpoints, which the oracle has exactly
            slack = 1e-13 if isinstance(mechanism.support, rb.Grid) else 0.0
            assert mp.mpf(ours) >= exact * (1 - mp.mpf(slack)) - mp.mpf(NOTHING), (what, pair)
        if not isinstance(mechanism.noise, rb.TruncatedLaplacian):
            agree(mechanism.fisher(p), true.fisher(p), rel=TIGHT, floor=NOTHING, what=("fisher", pair))


@pytest.mark.parametrize("batch", some(range(BATCHES), of=3))
def test_pairs_in_ball_arithmetic(batch: int) -> None:
    generator = np.random.default_rng([121, batch])
    for _ in range(BATCH):
        compare(draw(generator))


@pytest.mark.parametrize("batch", some(range(4), of=2))
def test_batches_of_pairs(batch: int) -> None:
    """Formulas over doubles against the balls, which the test above compares with mpmath."""
    generator = np.random.default_rng([122, batch])
    for _ in range(400):
        mechanism, p, q, epsilon, _ = pair = draw(generator)
        order = float(generator.choice(ORDERS))
        laws = mechanism.law(p), mechanism.law(q)
        at = laws[0].location[None], laws[1].location[None]
        stick = stick_formula(mechanism.noise, mechanism.shape, *at, epsilon)[0]
        agree(stick, rb.hockey_stick(*laws, epsilon), rel=TIGHT, floor=FLOOR, what=pair)
        renyi = renyi_formula(mechanism.noise, mechanism.shape, *at, order)[0]
        exact = rb.renyi(*laws, order)
        if math.isfinite(exact):
            agree(renyi, exact, rel=TIGHT, floor=renyi_floor(*laws, order), what=(order, pair))


def test_a_misprinted_formula_is_caught() -> None:
    """A control: fu2023's factor 1/(1-2a) for 1/(2a-1) in the Laplace divergence."""
    mechanism = rb.Mechanism(
        noise=rb.Laplace(scale=1.0),
        query=rb.Query(range=rb.Interval(-9, 9), sensitivity=1.0),
        bounding=rb.UNBOUNDED,
    )
    exact = oracle(mechanism).renyi(0.0, 1.0, 2.0)

    def divergence(factor: float) -> float:
        near, far = math.exp(1.0), math.exp(-2.0)
        return math.log(0.5 * near + 0.5 * far + 0.5 * (near - far) * factor)

    agree(divergence(1.0 / 3.0), exact)
    with pytest.raises(AssertionError):
        agree(divergence(-1.0 / 3.0), exact)
