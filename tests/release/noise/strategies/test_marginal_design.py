"""Designed scales against optima found otherwise: the closed form of the least error, and dense matrices."""

import math
import time
from itertools import combinations

import numpy as np
import pytest

from rangebound.release.noise.strategies.contributions import Contributions
from rangebound.release.noise.strategies.marginal_design import design_marginals
from tests.release.noise.strategies.dense_optimum import optimum
from tests.release.noise.strategies.test_marginal_strategy import marginal


def total_variance(strategy, weights=None):
    totals = [each.sum() for each in strategy.by_marginal(strategy.variances)]
    return totals @ np.array(weights or np.ones(len(totals)))


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [((2, 3), ((0,), (1,))), ((2, 3, 2), ((0, 1), (2,))), ((4, 3), ((), (0,), (0, 1))), ((2, 2, 3), ((0,), (1, 2)))],
)
def test_total_variance_is_the_optimum_over_all_gram_matrices(sizes, wanted):
    weights = [1.0 + at for at in range(len(wanted))]
    square = np.zeros((math.prod(sizes),) * 2)
    for weight, attributes in zip(weights, wanted, strict=True):
        rows = marginal(sizes, attributes)
        square += weight * rows.T @ rows
    least = optimum(square)
    strategy, plain = (design_marginals(sizes, wanted, budget=1.0, weights=own) for own in (weights, weights[::-1]))
    assert least * (1 - 1e-6) <= total_variance(strategy, weights) <= least * (1 + 1e-5)
    assert total_variance(plain, weights) > least * (1 + 1e-4)  # the control: for other weights


@pytest.mark.parametrize("bounds", [Contributions(cells=3), Contributions(cells=2, replaced=True)])
def test_scales_for_many_contributions_are_a_minimum(bounds):
    """No change of one scale, rescaled to the same cost, has less total variance; the scales for one cell have more."""
    sizes, wanted = (3, 4, 2), [(0, 1), (2,), (1,)]

    def total(scales):
        changed = type(best)(sizes=sizes, wanted=tuple(wanted), contributions=bounds, scales=tuple(scales))
        return float(changed.cost) * total_variance(changed)

    best = design_marginals(sizes, wanted, budget=1.0, contributions=bounds)
    least = total(best.scales)
    for at in range(len(best.scales)):
        for factor in (0.97, 1.03):
            scales = list(best.scales)
            scales[at] *= factor
            assert total(scales) >= least * (1 - 1e-6)
    assert total(design_marginals(sizes, wanted, budget=1.0).scales) > least * 1.001


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [Contributions(cells=5), Contributions(cells=2, replaced=True)])
def test_very_many_attributes_need_no_table_of_all_their_sets(bounds):
    wanted = [each for k in (1, 2) for each in combinations(range(30), k)]
    begin = time.process_time()
    strategy = design_marginals((4,) * 30, wanted, budget=1.0, contributions=bounds)
    assert time.process_time() - begin < 20.0
    assert 1 - 1e-8 <= strategy.cost <= 1
    one = design_marginals((4,) * 30, wanted, budget=1.0)
    far = bounds.cells * (1 + bounds.replaced)  # what group privacy would say
    assert total_variance(strategy) <= (1.001 * far) ** 2 * total_variance(one)
