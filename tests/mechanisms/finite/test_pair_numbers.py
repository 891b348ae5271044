"""Privacy numbers of tables against their definition, in exact fractions and 60 digits."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

import rangebound as rb
from rangebound.mechanisms.finite import pair_numbers
from rangebound.mechanisms.finite.pair_numbers import SLACK, profile_hull
from rangebound.mechanisms.finite.weights import TOTAL
from rangebound.values.ball import precision, up
from tests.mechanisms.finite import brute_force
from tests.mechanisms.finite.random_tables import random_table
from tests.thinning import crossed

TABLES = range(40)


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(60):
        yield


def truth(seed, zeros=True):
    table = random_table(np.random.default_rng(seed), zeros)
    pairs = brute_force.neighbouring_inputs(table.inputs, table.query.range.spans, table.query.sensitivity)
    return table, table.weights.tolist(), pairs


def least_above(value, exact):
    """Whether a double is the least one that is not below an exact number, or the next."""
    return mpf(value) >= exact and mpf(math.nextafter(math.nextafter(value, -math.inf), -math.inf)) < exact


@pytest.mark.few(15)
@pytest.mark.parametrize("seed", TABLES)
def test_epsilon_and_delta_are_exact_and_the_hull_is_close(seed):
    table, weights, pairs = truth(seed)
    ratio, pure = brute_force.ratio(weights, pairs), table.epsilon()
    finite = ratio != math.inf
    assert least_above(pure, mp.log(mpf(ratio.numerator) / ratio.denominator)) if finite else pure == math.inf
    assert table.is_private(pure if finite else 700.0) == finite
    assert pure == 0.0 or not table.is_private(math.nextafter(math.nextafter(min(pure, 700.0), 0.0), 0.0))
    hull = profile_hull(table.weights, table.reach)
    for epsilon in (0.0, 1e-9, 0.1, 0.7, 2.0, 10.0, 50.0, 80.0, *([pure, pure * 0.999] if finite else [])):
        exact = brute_force.delta(weights, pairs, epsilon)
        assert exact <= mpf(table.delta(epsilon)) <= exact * (1 + mpf(2) ** -51) + mpf(2) ** -100
        with precision(192):
            assert exact <= mpf(up(hull.delta(epsilon))) <= exact + 2.1 * SLACK
    for delta in (1e-12, 1e-3, 0.05, 0.4):
        found = table.epsilon(delta)
        if math.isinf(found):
            assert brute_force.delta(weights, pairs, 100.0) > delta
            continue
        assert brute_force.delta(weights, pairs, found) <= delta
        lower = found * (1 - 1e-14) - 1e-300
        assert found == 0.0 or brute_force.delta(weights, pairs, lower) > delta * (1 - mpf(10) ** -10)


def all_pairs(table, order):
    pairs = pair_numbers.neighbours(table.reach)
    return pair_numbers._renyi(table.weights[pairs.first], table.weights[pairs.second], order - 1.0)


@pytest.mark.few(10)
@crossed({"zeros": [True, False], "seed": TABLES})
def test_renyi_is_rounded_up_a_little_and_no_worst_pair_is_left_out(seed, zeros):
    table, weights, pairs = truth(seed, zeros)
    for order in (1.0001, 1.5, 2.0, 16.0, 1e4):
        exact = brute_force.renyi(weights, pairs, order)
        found = mpf(table.rdp(order))
        assert found >= exact
        assert found == exact or found <= exact * (1 + mpf(10) ** -9) + mpf(10) ** -11
        assert table.rdp(order) == all_pairs(table, order)
    assert table.rdp(math.inf) == table.epsilon()
    if pairs and not zeros:
        i, j = pair_numbers.worst_pair(table.weights, table.reach)
        here = max(Fraction(p, q) for p, q in zip(weights[i], weights[j], strict=True))
        assert float(here) == pytest.approx(float(brute_force.ratio(weights, pairs)), rel=1e-12)


def stairs(count, k, epsilon):
    query = rb.Query(range=rb.Interval(0, (count - 1) / k), sensitivity=1.0)
    inputs = np.arange(count) / k
    points, chances = rb.Staircase.calibrated(query=query, epsilon=epsilon, step=1 / k).law(inputs).atoms
    return rb.Table.from_probabilities(query=query, inputs=inputs, outputs=points, probabilities=chances)


def test_few_pairs_of_a_large_table_are_looked_at_closely_and_none_is_missed():
    """The bar is 5 times fewer sums; at n = 321 a call took 0.1 to 0.3 s and takes 0.01."""
    for k, epsilon in ((8, 1.0), (32, 1.0), (16, 0.5)):
        table = stairs(121, k, epsilon)
        for order in (1.5, 8.0, 500.0):
            kept = len(pair_numbers._contenders(table.weights, table.reach, order).first)
            assert kept < len(pair_numbers.neighbours(table.reach).first) / 5
            assert table.rdp(order) == all_pairs(table, order)


def test_control_wrong_moments_lose_the_worst_pair(monkeypatch):
    """Were the moments wrong, the worst pair would be left out, and the comparison above would show it."""
    table = stairs(81, 8, 1.0)
    right = table.rdp(2.0)
    real = pair_numbers._log_moments
    monkeypatch.setattr(pair_numbers, "_log_moments", lambda logs, order: -real(logs, order))
    assert table.rdp(2.0) < right


def test_control_a_weaker_ratio_is_told_from_the_true_one():
    """One unit of 2^-62 more or less is seen: the brute force and the package agree on it, and doubles would not."""
    half = TOTAL // 2
    near = np.array([[half, half], [half + 1, half - 1]])
    reach = np.array([1, 1])
    assert pair_numbers.worst_ratio(near, reach) == max(Fraction(half + 1, half), Fraction(half, half - 1))
    stick = pair_numbers.stick_at(near, pair_numbers.neighbours(reach), pair_numbers.exponential(Fraction(0)))
    assert stick.delta == 2.0**-62
    assert (near / TOTAL)[0].tolist() == (near / TOTAL)[1].tolist()


@pytest.mark.few(1)
@pytest.mark.parametrize("delta", [1e-3, 1e-16, 1e-30])
def test_the_search_for_epsilon_ends_where_more_pairs_tie_than_are_compared_in_whole_numbers(delta):
    """80 inputs that are all neighbours, with the same law but for the place of its peak: 6,320 pairs."""
    answers = rb.Query(range=rb.Interval(0, 79), sensitivity=79.0)
    rows = (1.0 + (math.e - 1.0) * np.eye(80)) / (79.0 + math.e)
    table = rb.Table.from_probabilities(query=answers, inputs=range(80), outputs=range(80), probabilities=rows)
    found = table.epsilon(delta)
    p, q = (mpf(int(table.weights[0, at])) / TOTAL for at in (0, 1))
    assert mp.log((p - delta) / q) <= found <= table.epsilon()
    assert found <= mp.log((p - delta) / q) + 2.0**-43


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-160, 1e-50])
def test_a_tiny_epsilon_is_next_to_none(epsilon):
    answers = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    flip = [[3 << 60, 1 << 60], [1 << 60, 3 << 60]]
    table = rb.Table(query=answers, inputs=(0, 1), outputs=(0, 1), weights=flip)
    assert 0.5 >= table.delta(epsilon) >= brute_force.delta(flip, [(0, 1), (1, 0)], epsilon)
    assert not table.is_private(epsilon)
    same = rb.Table(query=answers, inputs=(0, 1), outputs=(0, 1), weights=[flip[0]] * 2)
    assert rb.verify(rb.certify(same, epsilon=epsilon).to_json()).epsilon == epsilon


def test_control_a_hull_without_the_worst_pair_is_below_the_profile():
    weights = np.array([[3 << 60, 1 << 60], [1 << 60, 3 << 60], [1 << 60, 3 << 60]])
    whole = profile_hull(weights, np.array([1, 2, 2]))
    without = profile_hull(weights, np.array([0, 2, 2]))
    assert math.isclose(float(whole.delta(0.0).mid()), 0.5, abs_tol=1e-12)
    assert float(without.delta(0.0).mid()) < 1e-12
