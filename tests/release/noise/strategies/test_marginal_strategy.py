"""Marginal strategies: cost against all neighbours, answers against dense least squares, the lemma of the lattice.

Designed scales against optima found otherwise: the closed form of the least error, and dense matrices.
"""

import math
import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from rangebound.errors import ArgumentError
from rangebound.release.noise.joint_loss import Contributions
from rangebound.release.noise.strategies import marginal_strategy
from rangebound.release.noise.strategies.marginal_strategy import MarginalStrategy, design_marginals
from tests.release.noise.strategies.dense_optimum import optimum
from tests.release.noise.strategies.neighbours import moves

WORKLOADS = [
    ((2, 3), ((0,), (1,))),
    ((2, 3), ((0, 1),)),
    ((2, 2, 2), ((0, 1), (2,))),
    ((3, 1, 2), ((), (0, 1), (2,))),
    ((2, 2, 3), ((0, 1), (1, 2), (0, 2))),
    ((2, 3, 2), ((0,),)),
]


def marginal(sizes, attributes):
    return tensor(np.eye(n) if i in attributes else np.ones((1, n)) for i, n in enumerate(sizes))


def tensor(factors):
    found = np.ones((1, 1))
    for each in factors:
        found = np.kron(found, each)
    return found


def measured(strategy):
    """What is published, as one matrix on the finest cells, and the covariance of its noise."""
    rows, covariances = [], []
    for residual, scale in zip(strategy.residuals, strategy.scales, strict=True):
        sizes = [strategy.sizes[i] for i in residual]
        minus_last = tensor(np.hstack([np.eye(n - 1), -np.ones((n - 1, 1))]) for n in sizes)
        rows.append(math.prod(sizes) * minus_last @ marginal(strategy.sizes, residual))
        covariances.append(scale**2 * minus_last @ minus_last.T)
    full = np.zeros((sum(map(len, rows)),) * 2)
    at = 0
    for each in covariances:
        full[at : at + len(each), at : at + len(each)] = each
        at += len(each)
    return np.vstack(rows), full


def worst_neighbour(strategy):
    """The largest v' G v over all neighbouring datasets."""
    matrix, covariance = measured(strategy)
    square = matrix.T @ np.linalg.solve(covariance, matrix)
    found = moves(len(square), strategy.contributions)
    return ((found @ square) * found).sum(axis=1).max()


@pytest.mark.few(18)
@pytest.mark.parametrize(("sizes", "wanted"), WORKLOADS)
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("replaced", [False, True])
def test_no_neighbour_costs_more_than_the_strategy_says(sizes, wanted, cells, replaced):
    rows = 2 if cells < 3 else 1
    bounds = Contributions(rows=rows, cells=cells, replaced=replaced)
    strategy = design_marginals(sizes, wanted, budget=Fraction(1, 2), contributions=bounds)
    found = worst_neighbour(strategy)
    assert found <= float(strategy.cost) * (1 + 1e-9)
    assert 0.5 * (1 - 1e-8) <= strategy.cost <= Fraction(1, 2)
    if cells == 1:
        assert found >= 0.99999 * float(strategy.cost)  # nothing is charged that no unit can cost


@pytest.mark.parametrize(("sizes", "wanted"), WORKLOADS[:5:2])
def test_a_length_of_r_times_the_root_of_g_is_not_enough_for_coarse_marginals(sizes, wanted):
    """The control: a unit in g cells was said to move a marginal by r sqrt(g); some neighbour is farther."""
    one = design_marginals(sizes, wanted, budget=1.0)
    bounds = Contributions(cells=3)
    strategy = MarginalStrategy(sizes=sizes, wanted=wanted, contributions=bounds, scales=one.scales)
    claimed = bounds.cells * one.cost
    assert worst_neighbour(strategy) > 1.01 * claimed
    assert worst_neighbour(strategy) <= strategy.cost * (1 + 1e-9)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("cells", [1, 2, 3])
def test_the_bound_for_very_many_attributes_covers_the_enumeration(monkeypatch, cells, replaced):
    bounds = Contributions(cells=cells, replaced=replaced)
    for sizes, wanted in WORKLOADS:
        exact = design_marginals(sizes, wanted, budget=1.0, contributions=bounds)
        with monkeypatch.context() as changed:
            changed.setattr(marginal_strategy, "ENUMERATED", -1)
            marginal_strategy._best_scales.cache_clear()
            loose = MarginalStrategy(sizes=sizes, wanted=wanted, contributions=bounds, scales=exact.scales)
            assert loose.cost >= exact.cost
            designed = design_marginals(sizes, wanted, budget=1.0, contributions=bounds)
            assert designed.cost <= 1
        assert worst_neighbour(designed) <= 1 + 1e-9
    marginal_strategy._best_scales.cache_clear()


@pytest.mark.parametrize(("sizes", "wanted"), WORKLOADS)
def test_answers_are_those_of_dense_generalised_least_squares(sizes, wanted):
    random = np.random.default_rng(7)
    table = random.integers(0, 50, sizes)
    strategy = design_marginals(sizes, wanted, budget=0.3, weights=range(1, len(wanted) + 1))
    counts = [(marginal(sizes, each) @ table.ravel()).reshape([sizes[i] for i in each]) for each in wanted]
    drawn = strategy.draw(counts)
    matrix, covariance = measured(strategy)
    weighted = np.linalg.solve(np.linalg.cholesky(covariance), np.eye(len(covariance)))
    cells = np.linalg.lstsq(weighted @ matrix, weighted @ drawn, rcond=None)[0]
    spread = np.linalg.pinv(matrix.T @ np.linalg.solve(covariance, matrix))
    rows = np.concatenate([marginal(sizes, each) for each in wanted])
    np.testing.assert_allclose(strategy.answers(drawn).values, rows @ cells, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(np.diag(rows @ spread @ rows.T), strategy.variances, rtol=1e-7)


def test_noise_that_is_shifted_by_the_kernel_publishes_the_same(monkeypatch):
    """The lemma: w = n_B (v - P_B v) is whole, D w = 0, and what is left of n_B v has the length that is charged."""
    random = np.random.default_rng(3)
    for sizes in [(2,), (3, 4), (2, 3, 5)]:
        total = math.prod(sizes)
        project = tensor(np.eye(n) - 1 / n for n in sizes)
        for _ in range(20):
            v = random.integers(-2, 3, total)
            exact = total * v - total * project @ v
            w = np.rint(exact).astype(int)
            np.testing.assert_allclose(exact, w, atol=1e-9)
            noisy = np.round(random.normal(size=total) * 7).astype(int)
            shifted = marginal_strategy._differences((noisy + w).reshape(sizes).astype(object))
            assert (shifted == marginal_strategy._differences(noisy.reshape(sizes).astype(object))).all()
            assert np.linalg.norm(total * v - w) == pytest.approx(total * np.linalg.norm(project @ v))
    broken = np.round(noisy + w * 0.5).astype(int)  # the control: a shift that is not on the lattice shows
    assert (marginal_strategy._differences(broken.reshape(sizes).astype(object)) != shifted).any()


def test_large_counts_are_exact_and_arrays_that_cannot_have_been_drawn_are_refused():
    strategy = design_marginals((2,), [(0,)], budget=1e4)
    answer = strategy.answers(strategy.draw([[2**31, 2**30]]))
    assert np.abs(answer.values - [2**31, 2**30]).max() < 0.1
    huge = strategy.draw([[2**70, 0]])  # clamped where doubles end
    assert strategy.admits(huge)
    assert huge.tolist() == [2.0**53 * noise.step for noise in strategy.noises]
    strategy = design_marginals((2, 3), [(0, 1)], budget=1.0)
    drawn = strategy.draw([np.zeros((2, 3))])
    assert strategy.admits(drawn)
    assert not strategy.admits(drawn[:-1])
    off = np.array([*drawn[:-1], drawn[-1] + strategy.noises[-1].step / 2])
    assert not strategy.admits(off)
    with pytest.raises(ArgumentError, match="drawn"):
        strategy.answers(off)


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
