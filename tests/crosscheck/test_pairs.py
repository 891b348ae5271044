"""Pairs against mpmath, over the cube and at the extremes: epsilon 1e-9 to 50, sensitivity/width 1e-6 to 1, 50 scales
outside. Three routes to every number lead to one: ball arithmetic, formulas over arrays of doubles, and the oracle.
"""

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
from tests.matrix.cells import ALLOWED, Cell, places, quick_cells
from tests.thinning import some

INF = math.inf
BATCHES, BATCH = 40, 5
ORDERS = (1.5, 2.0, 10.0, 100.0)
# Doubles hold a normalised density to a few 1e-16, so formulas in doubles carry that much absolute error into a number
# that is a small difference. Below this size they are compared absolutely, 1e-9 times this size apart at most. A Renyi
# divergence is a difference of logarithms times order/(order - 1): its floor grows with them.
FLOOR = 3e-6


def balls_agree(pair: Pair) -> None:
    """The numbers of one pair in ball arithmetic: to 1e-13 relative at any size, and never understated."""
    mechanism, p, q, epsilon, order = pair
    true = oracle(mechanism, pair.digits)
    laws = mechanism.law(p), mechanism.law(q)
    with mp.workdps(pair.digits):
        for what, ours, exact in (
            ("stick", rb.hockey_stick(*laws, epsilon), true.stick(p, q, epsilon)),
            ("renyi", rb.renyi(*laws, order), true.renyi(p, q, order)),
            ("loss", rb.renyi(*laws, INF), true.renyi(p, q, INF)),
        ):
            agree(ours, exact, rel=1e-13, floor=NOTHING, what=(what, pair))
            # a grid's cells are cut at the doubles next to the midpoints, which the oracle has exactly
            slack = 1e-13 if isinstance(mechanism.support, rb.Grid) else 0.0
            assert mp.mpf(ours) >= exact * (1 - mp.mpf(slack)) - mp.mpf(NOTHING), (what, pair)
        if not isinstance(mechanism.noise, rb.TruncatedLaplacian):
            agree(mechanism.fisher(p), true.fisher(p), rel=1e-13, floor=NOTHING, what=("fisher", pair))


def formulas_agree(pair: Pair) -> None:
    mechanism, p, q, epsilon, order = pair
    laws = mechanism.law(p), mechanism.law(q)
    at = laws[0].location[None], laws[1].location[None]
    stick = stick_formula(mechanism.noise, mechanism.shape, *at, epsilon)[0]
    agree(stick, rb.hockey_stick(*laws, epsilon), rel=TIGHT, floor=FLOOR, what=pair)
    floor = FLOOR * order / (order - 1.0) * (1.0 + max(abs(float(law.log_norm)) for law in laws))
    renyi = renyi_formula(mechanism.noise, mechanism.shape, *at, order)[0]
    agree(renyi, rb.renyi(*laws, order), rel=TIGHT, floor=floor, what=pair)


@pytest.mark.few(1)
@pytest.mark.parametrize("batch", some(range(BATCHES), of=3))
def test_pairs_in_ball_arithmetic(batch: int) -> None:
    generator = np.random.default_rng([121, batch])
    for _ in range(BATCH):
        balls_agree(draw(generator))


@pytest.mark.few(1)
@pytest.mark.parametrize("batch", some(range(16), of=2))
def test_batches_of_pairs(batch: int) -> None:
    generator = np.random.default_rng([122, batch])
    for _ in range(100):
        formulas_agree(draw(generator)._replace(order=float(generator.choice(ORDERS))))


@pytest.mark.few(9)
@quick_cells(ALLOWED)
def test_pairs_of_the_cube(cell: Cell) -> None:
    mechanism = cell.mechanism()
    numbers = zip((0.02, 0.2, 0.9, 2.5), (1.1, 2.0, 6.5, 30.0), strict=True)
    for (a, b), others in zip(places(mechanism, 8, seed=11).reshape(-1, 2).tolist(), numbers, strict=True):
        for p, q in ((a, b), (b, a)):
            pair = Pair(mechanism, p, q, *others)
            balls_agree(pair)
            formulas_agree(pair)
    same = mechanism.law(a)
    assert rb.hockey_stick(same, same, 0.0) == rb.renyi(same, same, 2.0) == 0.0


def test_a_misprinted_formula_and_one_wrong_direction_are_caught() -> None:
    """Controls: fu2023's factor 1/(1-2a) for 1/(2a-1) in the Laplace divergence; a pair the wrong way round."""
    query = rb.Query(range=rb.Interval(-9, 9), sensitivity=1.0)
    mechanism = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, bounding=rb.UNBOUNDED)
    exact = oracle(mechanism).renyi(0.0, 1.0, 2.0)

    def divergence(factor: float) -> float:
        near, far = math.exp(1.0), math.exp(-2.0)
        return math.log(0.5 * near + 0.5 * far + 0.5 * (near - far) * factor)

    agree(divergence(1.0 / 3.0), exact)
    with pytest.raises(AssertionError):
        agree(divergence(-1.0 / 3.0), exact)
    bounded = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=rb.Interval(0, 5))
    with pytest.raises(AssertionError):
        agree(rb.hockey_stick(bounded.law(0.0), bounded.law(1.0), 0.5), oracle(bounded).stick(1.0, 0.0, 0.5))
