"""How far the projection moves numbers on average: the bounds hold in simulations, and simpler ones do not."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from rangebound.release.noise.bias import (
    energy_drift,
    free_drift,
    gaussian_moments,
    laplace_moments,
    tree_drift,
)
from rangebound.release.noise.projection import Identities, project
from rangebound.release.noise.strategies.tree_strategy import Tree
from rangebound.release.prepare import prepare
from rangebound.sampling.entropy import secure_bits
from tests.release.noise.strategies.test_tree_design import incidence
from tests.release.noise.test_projection import leaves_of
from tests.release.noise.test_workload_publisher import ACCOUNTS, PEOPLE, plan_of
from tests.release.output.asked import asked
from tests.thinning import crossed

CHANCE = 6.0  # standard errors that a mean may be off by: 2e-9 a number


def random_tree(random, leaves, middle):
    parents = np.concatenate([np.arange(middle), random.integers(0, middle, leaves - middle)]) + 1
    return Tree(parents=(-1, *[0] * middle, *np.sort(parents).tolist()))


def nearest(matrix, weights, answers):
    """The nearest numbers that add up and are not negative, by another solver."""
    roots = np.sqrt(weights)
    leaves, _ = optimize.nnls(roots[:, None] * matrix, roots * answers)
    return leaves


def dual(matrix, weights, answers):
    """g of the module's docstring."""
    return matrix.T @ (weights * (matrix @ nearest(matrix, weights, answers) - answers))


def test_leaves_are_never_raised_and_multipliers_fall_as_counts_rise():
    random = np.random.default_rng(2)
    for _ in range(100):
        tree = random_tree(random, 12, 4)
        matrix, weights = incidence(tree), 10.0 ** random.uniform(-2, 0, len(tree))
        noise, counts = random.normal(0, 5, 12), random.choice([0.0, 0.0, 3.0, 50.0], 12)
        leaves = nearest(matrix, weights, matrix @ (counts + noise))
        assert (leaves <= np.maximum(counts + noise, 0.0) + 1e-8).all()
        with_counts, without = dual(matrix, weights, matrix @ (counts + noise)), dual(matrix, weights, matrix @ noise)
        assert (with_counts >= -1e-8).all()
        assert (with_counts <= without + 1e-8).all()


def test_control_cells_of_a_two_way_table_are_raised():
    """Crossing margins do not have the property of trees: a bound for trees would be wrong for them."""
    random, raised = np.random.default_rng(3), 0
    rows = [[float(at // 3 == row) for at in range(9)] for row in range(3)]
    columns = [[float(at % 3 == column) for at in range(9)] for column in range(3)]
    matrix = np.array([*np.eye(9).tolist(), *rows, *columns])
    for _ in range(100):
        cells = random.normal(0, 5, 9)
        found = nearest(matrix, np.ones(15), matrix @ cells)
        raised += bool((found > np.maximum(cells, 0.0) + 1e-6).any())
    assert raised > 10


def truths(leaves):
    yield np.zeros(leaves)
    yield np.arange(leaves) % 2.0
    yield np.full(leaves, 1000.0)
    yield np.where(np.arange(leaves) == 0, 1000.0, 0.0)
    yield np.where(np.arange(leaves) % 10 == 0, 20.0, 0.0)


class Noise:
    """Noise of leaves that is independent but for its total, which is as small as if the root had been measured."""

    def __init__(self, tree, spreads, root):
        self.matrix, self.spreads, self.root = incidence(tree), spreads, root
        count = len(spreads)
        mixed = self.matrix @ (np.eye(count) - 1.0 / count)
        self.variances = mixed**2 @ spreads**2 + (self.matrix.sum(axis=1) / count * root) ** 2

    def published(self, counts, runs, random):
        found, weights = [], np.ones(len(self.variances))
        for _ in range(runs):
            noise = random.normal(0.0, self.spreads)
            noise += (random.normal(0.0, self.root) - noise.sum()) / len(noise)
            found.append(self.matrix @ nearest(self.matrix, weights, self.matrix @ (counts + noise)))
        return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(("leaves", "root"), [(8, 2.0), (8, 20.0), (120, 3.0), (120, 60.0)])
def test_the_bounds_of_a_tree_hold_in_simulations(leaves, root):
    random = np.random.default_rng(4)
    tree = random_tree(random, leaves, 4)
    noise = Noise(tree, random.choice([2.0, 5.0], leaves), root)
    drift = tree_drift(tree.levels, tree.places, noise.variances, gaussian_moments(), np.arange(len(tree)))
    for counts in truths(leaves):
        exact, found = noise.matrix @ counts, noise.published(counts, 150, random)
        mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(len(found))
        bound = replace(drift, rounding=np.zeros(len(tree))).bound(exact, exact)
        assert (np.abs(mean - exact) <= bound + CHANCE * error + 1e-6).all()
        assert mean[0] - exact[0] >= -CHANCE * error[0] - 1e-6  # the root is never moved down


def test_control_the_bias_of_clamping_is_no_bound_for_what_adds_up():
    """One large leaf among a hundred empty ones is moved down by more than clamping moves any number up."""
    tree = Tree(parents=(-1, *[0] * 100))
    noise, large = Noise(tree, np.full(100, 5.0), 2.0), np.where(np.arange(100) == 0, 1000.0, 0.0)
    found = noise.published(large, 300, np.random.default_rng(5))[:, 1]
    moved, error = 1000.0 - found.mean(), found.std() / np.sqrt(300)
    assert moved > free_drift(noise.variances).up[1] + CHANCE * error
    drift = tree_drift(tree.levels, tree.places, noise.variances, gaussian_moments(), np.arange(len(tree)))
    assert moved < drift.down[1] < energy_drift(noise.variances, Identities.of([(0, range(1, 101))])).down[1]


@pytest.mark.slow
@crossed({"name": ["two columns", "no margins", "tree", "days of both"], "account": ACCOUNTS})
def test_the_mean_of_what_is_published_is_within_the_bound(name, account):
    """The whole path from counts to published numbers, in whole numbers: empty, tiny and large cells."""
    plan = plan_of(name, ACCOUNTS[account], PEOPLE)
    publisher = prepare(plan).publishers[0]
    cells = int(np.prod([len(keys) for keys in plan.columns(plan.query[0].by)]))
    exact = publisher.measured
    for counts in truths(cells):
        drawn = [publisher.draw([(int(each),) for each in counts], secure_bits) for _ in range(40)]
        numbers = np.array([[each.values[0] for each in publisher.read(each)[0]] for each in drawn])
        answers = np.array([publisher.unclamped(each[0]) for each in drawn])
        error = answers.std(axis=0) / np.sqrt(len(drawn))
        bound = publisher.bias(*[sums_of(exact, counts)] * 2, plan.query[0].allowed, None, whole=True)
        assert (np.abs(numbers.mean(axis=0) - sums_of(exact, counts)) <= bound + CHANCE * error).all()
        assert (np.abs(answers.mean(axis=0) - sums_of(exact, counts)) <= CHANCE * error).all()  # and is unbiased


def sums_of(measured, counts):
    sums = measured.workload.sums
    parts = [sums.parts[first:stop].tolist() for first, stop in itertools.pairwise(sums.starts)]
    return leaves_of(len(measured.variances), list(zip(sums.totals.tolist(), parts, strict=True))) @ counts


def test_numbers_that_were_clamped_are_projected_though_they_add_up_when_rounded():
    """Rounded and clamped answers that happen to add up need not be near the projection: the bound is about that."""
    copies = [(12 * copy + at, [at]) for copy in range(1, 100) for at in range(12)]  # of leaves, which then weigh more
    sums = Identities.of([(1200, list(range(12))), *copies])
    answers = np.array([-4.6, *[10.42] * 11, -4.6 + 11 * 10.42])
    clamped = np.maximum(np.rint(answers), 0.0)
    assert clamped[:12].sum() == clamped[12]
    matrix = np.array([*np.eye(12).tolist(), [1.0] * 12])
    found = project([*answers[:12].tolist() * 100, answers[12]], sums).numbers[[*range(12), 1200]]
    exact = matrix @ nearest(matrix, np.array([*[1.0] * 12, 0.01]), answers)
    assert (np.abs(found - exact) < 1.0).all()
    assert abs(clamped[12] - exact[12]) > 3.0


def test_a_hierarchy_with_nearly_no_noise_has_a_bound_of_its_bias():
    """Its higher moments are beyond the doubles, relative to so small a variance; the second one is not."""
    assert laplace_moments(9.0) == [math.factorial(order) * 4.5 ** (order / 2) for order in range(2, 25, 2)]
    assert laplace_moments(1e39)[0] == pytest.approx(1e39)
    assert laplace_moments(1e39)[-1] == math.inf
    levels = [{"name": "z", "members": {"x": ["a", "b"], "y": ["c"]}}]
    tree = {"kind": "hierarchy", "by": ["k"], "levels": levels}
    none, much = (prepare(asked(tree, epsilon=each, keys={"k": list("abc")})).publishers[0] for each in (100.0, 0.5))
    assert (none.drift.up > 0.0).all()
    assert (none.drift.up < 1e-3).all()
    near, far = (much.bias(np.zeros(6), np.full(6, each), None, None, whole=True) for each in (0.0, 1e9))
    assert (near <= far).all()  # bounds grow with the interval
    assert (far > 0.5).all()
