"""Designed scales against optima found otherwise: the closed form of the least error, and dense matrices."""

import math
import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from rangebound.errors import ArgumentError
from rangebound.release.noise.strategies.contributions import Contributions
from rangebound.release.noise.strategies.marginal_design import design_marginals
from tests.release.noise.strategies.dense_optimum import optimum


def ways(count, sizes):
    return [each for k in sizes for each in combinations(range(count), k)]


def root_mean_square(strategy):
    cells = [math.prod(strategy.sizes[i] for i in each) for each in strategy.wanted]
    return math.sqrt(sum(v * n for v, n in zip(strategy.variances(), cells, strict=True)) / sum(cells))


def least_error(sizes, wanted):
    """The least root mean square error at mu = 1: the sum of sqrt(c v) over residuals, by the root of the cells."""
    residuals = {part for each in wanted for k in range(len(each) + 1) for part in combinations(each, k)}
    total = 0.0
    for residual in residuals:
        own = math.prod(1 - 1 / sizes[i] for i in residual)
        loads = [
            math.prod(sizes[i] for i in each) / math.prod(sizes[i] ** 2 for i in each if i not in residual)
            for each in wanted
            if set(residual) <= set(each)
        ]
        total += own * math.sqrt(sum(loads))
    return total / math.sqrt(sum(math.prod(sizes[i] for i in each) for each in wanted))


@pytest.mark.parametrize("sizes", [(100, 50, 7, 4, 2), (100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)])
@pytest.mark.parametrize("orders", [(1,), (2,), (3,), (0, 1, 2, 3)])
def test_errors_are_those_of_the_closed_form(sizes, orders):
    wanted = ways(len(sizes), orders)
    strategy = design_marginals(sizes, wanted, budget=1.0)
    assert root_mean_square(strategy) == pytest.approx(least_error(sizes, wanted), rel=1e-6)


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [((2, 3), ((0,), (1,))), ((2, 3, 2), ((0, 1), (2,))), ((4, 3), ((), (0,), (0, 1))), ((2, 2, 3), ((0,), (1, 2)))],
)
def test_total_variance_is_the_optimum_over_all_gram_matrices(sizes, wanted):
    weights = [1.0 + at for at in range(len(wanted))]
    square = np.zeros((math.prod(sizes),) * 2)
    for weight, attributes in zip(weights, wanted, strict=True):
        rows = np.ones((1, 1))
        for i, n in enumerate(sizes):
            rows = np.kron(rows, np.eye(n) if i in attributes else np.ones((1, n)))
        square += weight * rows.T @ rows
    least = optimum(square)
    strategy = design_marginals(sizes, wanted, budget=1.0, weights=weights)
    cells = [math.prod(sizes[i] for i in each) for each in wanted]
    total = sum(w * n * v for w, n, v in zip(weights, cells, strategy.variances(), strict=True))
    assert least * (1 - 1e-6) <= total <= least * (1 + 1e-5)
    plain = design_marginals(sizes, wanted, budget=1.0, weights=weights[::-1])  # the control: for other weights
    other = sum(w * n * v for w, n, v in zip(weights, cells, plain.variances(), strict=True))
    assert other > least * (1 + 1e-4)


@pytest.mark.parametrize("bounds", [Contributions(cells=3), Contributions(cells=2, replaced=True)])
def test_scales_for_many_contributions_are_a_minimum(bounds):
    """No change of one scale, rescaled to the same cost, has less total variance; the scales for one cell have more."""
    sizes, wanted = (3, 4, 2), [(0, 1), (2,), (1,)]

    def total(scales):
        changed = type(best)(sizes=sizes, wanted=tuple(wanted), contributions=bounds, scales=tuple(scales))
        cells = [math.prod(sizes[i] for i in each) for each in wanted]
        return float(changed.cost) * sum(v * n for v, n in zip(changed.variances(), cells, strict=True))

    best = design_marginals(sizes, wanted, budget=1.0, contributions=bounds)
    least = total(best.scales)
    for at in range(len(best.scales)):
        for factor in (0.97, 1.03):
            scales = list(best.scales)
            scales[at] *= factor
            assert total(scales) >= least * (1 - 1e-6)
    assert total(design_marginals(sizes, wanted, budget=1.0).scales) > least * 1.001


def test_the_program_finds_the_closed_form_where_there_is_one():
    closed = design_marginals((3, 4), [(0,), (1,), (0, 1)], budget=1.0)
    from rangebound.release.noise.strategies import marginal_design

    own = np.array([math.prod(1 - 1 / (3, 4)[i] for i in each) for each in closed.residuals])
    loads = own * np.array(
        [marginal_design._spread((3, 4), closed.wanted, (1.0, 1.0, 1.0), each) for each in closed.residuals]
    )
    found = marginal_design._program((3, 4), closed.residuals, loads / loads.max(), Contributions())
    np.testing.assert_allclose(found / found[0], np.sqrt(loads / own) / np.sqrt(loads / own)[0], rtol=1e-4)


def test_all_one_and_two_way_marginals_of_twelve_attributes_take_seconds():
    wanted = ways(12, (1, 2))
    begin = time.process_time()
    strategy = design_marginals((10,) * 12, wanted, budget=0.05)
    answers = strategy.answers(strategy.draw([np.full((10,) * len(each), 7) for each in wanted]))
    assert time.process_time() - begin < 5.0
    assert sum(each.values.size for each in answers) == 120 + 66 * 100
    assert root_mean_square(strategy) < 0.82 * math.sqrt(78 / 0.05)  # one Gaussian account for 78 separate tables


@pytest.mark.parametrize("bounds", [Contributions(cells=5), Contributions(cells=2, replaced=True)])
def test_very_many_attributes_need_no_table_of_all_their_sets(bounds):
    wanted = ways(30, (1, 2))
    begin = time.process_time()
    strategy = design_marginals((4,) * 30, wanted, budget=1.0, contributions=bounds)
    assert time.process_time() - begin < 20.0
    assert 1 - 1e-8 <= strategy.cost <= 1
    one = design_marginals((4,) * 30, wanted, budget=1.0)
    far = bounds.cells * (1 + bounds.replaced)  # what group privacy would say
    assert root_mean_square(strategy) <= 1.001 * far * root_mean_square(one)


def test_a_budget_is_met_from_below_and_the_error_scales_with_it():
    one = design_marginals((3, 2), [(0, 1)], budget=Fraction(1, 3))
    two = design_marginals((3, 2), [(0, 1)], budget=Fraction(4, 3))
    assert one.cost <= Fraction(1, 3) < one.cost * Fraction(1 + 1e-8)
    assert one.variances()[0] == pytest.approx(4 * two.variances()[0], rel=1e-6)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, math.inf]])
def test_weights_are_positive_and_one_for_each_marginal(weights):
    with pytest.raises(ArgumentError, match="weights"):
        design_marginals((2, 2), [(0,), (1,)], budget=1.0, weights=weights)


@pytest.mark.parametrize("budget", [0.0, -1.0, math.inf, math.nan])
def test_a_budget_is_positive_and_finite(budget):
    with pytest.raises(ArgumentError, match="budget"):
        design_marginals((2, 2), [(0,), (1,)], budget=budget)
