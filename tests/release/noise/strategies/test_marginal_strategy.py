"""Marginal strategies: cost against all neighbours, answers against dense least squares, the lemma of the lattice."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.release.noise.strategies import marginal_strategy
from rangebound.release.noise.strategies.contributions import Contributions
from rangebound.release.noise.strategies.marginal_design import design_marginals
from rangebound.release.noise.strategies.marginal_strategy import MarginalStrategy, residuals_of

WORKLOADS = [
    ((2, 3), ((0,), (1,))),
    ((2, 3), ((0, 1),)),
    ((2, 2, 2), ((0, 1), (2,))),
    ((3, 1, 2), ((), (0, 1), (2,))),
    ((2, 2, 3), ((0, 1), (1, 2), (0, 2))),
    ((2, 3, 2), ((0,),)),
]


def marginal(sizes, attributes):
    """The matrix that sums the finest cells to a marginal."""
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


def gram(strategy):
    matrix, covariance = measured(strategy)
    return matrix.T @ np.linalg.solve(covariance, matrix)


def worst_neighbour(strategy):
    """The largest v' G v over all neighbouring datasets, one by one."""
    square, bounds = gram(strategy), strategy.contributions
    size = len(square)
    moves = [
        np.bincount(cells, weights=rows, minlength=size)
        for g in range(bounds.cells + 1)
        for cells in combinations(range(size), g)
        for rows in product(range(1, bounds.rows + 1), repeat=g)
    ]
    if bounds.replaced:
        all_moves = np.array(moves)
        own = np.einsum("ni,ij,nj->n", all_moves, square, all_moves)
        return (own[:, None] + own[None, :] - 2 * all_moves @ square @ all_moves.T).max()
    return max(v @ square @ v for v in moves)


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
            changed.setattr("rangebound.release.noise.strategies.marginal_design.ENUMERATED", -1)
            loose = MarginalStrategy(sizes=sizes, wanted=wanted, contributions=bounds, scales=exact.scales)
            assert loose.cost >= exact.cost
            designed = design_marginals(sizes, wanted, budget=1.0, contributions=bounds)
            assert designed.cost <= 1
        assert worst_neighbour(designed) <= 1 + 1e-9


@pytest.mark.parametrize(("sizes", "wanted"), WORKLOADS)
def test_answers_are_those_of_dense_generalised_least_squares(sizes, wanted):
    random = np.random.default_rng(7)
    table = random.integers(0, 50, sizes)
    strategy = design_marginals(sizes, wanted, budget=0.3, weights=range(1, len(wanted) + 1))
    counts = [(marginal(sizes, each) @ table.ravel()).reshape([sizes[i] for i in each]) for each in wanted]
    drawn = strategy.draw(counts)
    matrix, covariance = measured(strategy)
    weighted = np.linalg.solve(np.linalg.cholesky(covariance), np.eye(len(covariance)))
    noisy = np.concatenate([each.ravel() for each in drawn])
    cells = np.linalg.lstsq(weighted @ matrix, weighted @ noisy, rcond=None)[0]
    spread = np.linalg.pinv(matrix.T @ np.linalg.solve(covariance, matrix))
    for attributes, answer, variance in zip(wanted, strategy.answers(drawn), strategy.variances(), strict=True):
        rows = marginal(sizes, attributes)
        np.testing.assert_allclose(answer.values.ravel(), rows @ cells, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(np.diag(rows @ spread @ rows.T), variance, rtol=1e-7)


def test_answers_add_up_exactly():
    strategy = design_marginals((3, 4, 2), [(0,), (0, 1), (1, 2)], budget=1.0)
    one, two, other = strategy.answers(strategy.draw([np.ones(3), np.ones((3, 4)), np.ones((4, 2))]))
    numerators, ratio = two.numerators.sum(axis=1), two.denominator // one.denominator
    assert (numerators == one.numerators * ratio).all()
    assert sum(other.fractions()) == sum(one.fractions())


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


def test_the_draw_has_the_variance_and_the_mean_that_are_stated():
    """False alarms below 1e-6: 400 draws of 26 cells, chi-squared within 6 standard deviations."""
    strategy = design_marginals((2, 4), [(0,), (0, 1)], budget=4.0)
    truths = [np.array([30, 12]), np.array([[10, 10, 5, 5], [0, 0, 12, 0]])]
    errors = [
        [answer.values - truth for answer, truth in zip(strategy.answers(strategy.draw(truths)), truths, strict=True)]
        for _ in range(400)
    ]
    for at, variance in enumerate(strategy.variances()):
        found = np.array([each[at] for each in errors])
        means = found.mean(axis=0) / math.sqrt(variance / 400)
        assert np.abs(means).max() < 6.0
        ratio = (found**2).mean(axis=0) / variance
        assert np.abs(ratio - 1).max() < 6.5 * math.sqrt(2 / 400)


def test_large_counts_are_exact_and_clamped_where_doubles_end():
    strategy = design_marginals((2,), [(0,)], budget=1e4)
    (answer,) = strategy.answers(strategy.draw([[2**31, 2**30]]))
    assert np.abs(answer.values - [2**31, 2**30]).max() < 0.1
    huge = strategy.draw([[2**70, 0]])
    assert strategy.admits(huge)
    assert [each.item() for each in huge] == [2.0**53 * noise.step for noise in strategy.noises]


def test_arrays_that_cannot_have_been_drawn_are_refused():
    strategy = design_marginals((2, 3), [(0, 1)], budget=1.0)
    drawn = strategy.draw([np.zeros((2, 3))])
    assert strategy.admits(drawn)
    assert not strategy.admits(drawn[:-1])
    assert not strategy.admits([*drawn[:-1], drawn[-1][:, :1]])
    off = [*drawn[:-1], drawn[-1] + strategy.noises[-1].step / 2]
    assert not strategy.admits(off)
    with pytest.raises(ArgumentError, match="drawn"):
        strategy.answers(off)


@pytest.mark.parametrize(
    ("sizes", "wanted", "match"),
    [
        ((2, 3), [], "wanted"),
        ((2, 3), [(0,), (0,)], "wanted"),
        ((2, 3), [(1, 0)], "wanted"),
        ((2, 3), [(2,)], "wanted"),
        ((0, 3), [(0,)], "sizes"),
    ],
)
def test_workloads_that_do_not_exist_are_refused(sizes, wanted, match):
    with pytest.raises(ArgumentError, match=match):
        design_marginals(sizes, wanted, budget=1.0)


def test_wrong_numbers_are_refused():
    with pytest.raises(ArgumentError, match="scales"):
        MarginalStrategy(sizes=(2,), wanted=((0,),), contributions=Contributions(), scales=(1.0,))
    strategy = design_marginals((2,), [(0,)], budget=1.0)
    with pytest.raises(ArgumentError, match="counts"):
        strategy.draw([])
    with pytest.raises(ArgumentError, match="counts"):
        strategy.draw([np.zeros(3)])
    with pytest.raises(ArgumentTypeError, match="rows"):
        Contributions(rows=True)
    with pytest.raises(ArgumentError, match="cells"):
        Contributions(cells=0)


def test_residuals_are_the_downward_closure():
    assert residuals_of((2, 2, 2), [(0, 1), (2,)]) == ((), (0,), (1,), (2,), (0, 1))
