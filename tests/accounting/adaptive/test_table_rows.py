"""Tables and grids in the recursion: rows against fractions and balls, values against all adversaries."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import MechanismEvent, SampledEvent, best_accountant
from rangebound.accounting.adaptive import adaptive_accountant, table_rows
from rangebound.accounting.adaptive.pair_rows import pair_rows
from rangebound.ball import precision
from rangebound.finite import TOTAL
from rangebound.finite.pair_numbers import InputPairs, neighbours
from rangebound.privacy.pair_profile import pair_profile
from tests.finite.random_tables import random_table

LEVELS = np.asarray([-1.5, -0.3, 0.0, 1e-9, 0.2, 1.0, 4.0])


def exact_pairs(table):
    """All ordered pairs of laws of neighbouring inputs, in fractions."""
    pairs = neighbours(table.reach)
    rows = [tuple(Fraction(int(w), TOTAL) for w in row) for row in table.weights]
    return [(rows[i], rows[j]) for i, j in zip(pairs.first, pairs.second, strict=True)]


def stick(pair, x):
    return sum((max(p - x * q, Fraction(0)) for p, q in zip(*pair, strict=True)), Fraction(0))


@pytest.mark.parametrize("seed", range(30))
def test_rows_are_all_pairs_of_a_table_and_a_little_above(seed):
    table = random_table(np.random.default_rng(seed), zeros=False)
    rows = pair_rows(table) or ()
    found = [row for each in rows for row in each.at(LEVELS).tolist()]
    exact = [[float(stick(pair, Fraction(math.exp(x)))) for x in LEVELS] for pair in exact_pairs(table)]
    assert len(found) == len(exact)
    missing = list(found)
    for true in exact:
        row = min(missing, key=lambda each, true=true: max(map(abs, np.subtract(each, true))))
        missing.remove(row)
        assert all(a >= b - 1e-15 * max(1.0, math.exp(x)) for a, b, x in zip(row, true, LEVELS, strict=True))
        assert row == pytest.approx(true, abs=1e-11)


def test_a_table_with_an_infinite_loss_has_no_rows():
    bit = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    table = rb.Table(query=bit, inputs=(0, 1), outputs=(0, 1), weights=[[TOTAL, 0], [TOTAL // 2, TOTAL // 2]])
    assert pair_rows(table) is None
    found = rb.compose((table, 2)).epsilon(1e-6)
    assert found.upper == math.inf


GRIDS = {
    "laplace": (rb.Laplace(scale=4.0), rb.Interval(0, 5), 1, 1.0),
    "laplace, far": (rb.Laplace(scale=2.0), rb.Interval(-3, 9), 0.5, 2.0),
    "gaussian": (rb.Gaussian(scale=2.0), rb.Interval(0, 6), 1, 1.0),
    "two points": (rb.Gaussian(scale=1.0), rb.Interval(0, 1), 1, 1.0),
}


@pytest.mark.parametrize("name", GRIDS)
def test_rows_of_a_grid_are_those_of_the_exact_pairs(name):
    noise, within, step, sensitivity = GRIDS[name]
    points = rb.Grid(step=step, within=within)
    m = rb.Mechanism(noise=noise, query=rb.Query(range=points, sensitivity=sensitivity))
    forth, back = pair_rows(m)
    apart = round(sensitivity / step)
    answers = points.points.tolist()
    pairs = list(zip(answers, answers[apart:], strict=False))
    for rows, order in ((forth, 1), (back, -1)):
        for pair, row in zip(pairs, rows.at(LEVELS).tolist(), strict=True):
            with precision(128):
                exact = [float(pair_profile(m.noise, m.shape, pair[::order])(x).mid()) for x in LEVELS.tolist()]
            assert all(a >= b - 1e-15 * max(1.0, math.exp(x)) for a, b, x in zip(row, exact, LEVELS, strict=True))
            assert row == pytest.approx(exact, abs=1e-10)


def test_grids_without_a_rule_have_no_rows():
    query = rb.Query(range=rb.Grid(step=1, within=rb.Interval(0, 5)), sensitivity=1.0)
    laplace = rb.Laplace(scale=1.0)
    assert pair_rows(rb.Mechanism(noise=laplace, query=query, bounding=rb.QUANTIZE)) is None
    assert pair_rows(rb.Mechanism(noise=rb.Laplace(scale=1e-3), query=query)) is None


def best_adversary(table, k, epsilon):
    """V_k over all adversaries that adapt, in fractions: V_j(x) = max over pairs of the sum of p V_(j-1)(x q/p)."""
    pairs = exact_pairs(table)

    @cache
    def value(j, x):
        if j == 0:
            return max(1 - x, Fraction(0))
        return max(
            sum((p * value(j - 1, x * q / p) for p, q in zip(*pair, strict=True) if p), Fraction(0)) for pair in pairs
        )

    return value(k, Fraction(math.exp(epsilon)))


def small_table(seed):
    """Three or four inputs and three outputs, whose pairs differ in shape: no pair is the worst at every epsilon."""
    random = np.random.default_rng(seed)
    rows = random.dirichlet([4.0, 4.0, 4.0], size=3)
    query = rb.Query(range=rb.Interval(0, 2), sensitivity=1.0)
    return rb.Table.from_probabilities(query=query, inputs=range(3), outputs=range(3), probabilities=rows)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("k", [2, 3])
def test_the_recursion_is_never_below_the_best_adversary_of_a_table_and_near(seed, k):
    table = small_table(seed)
    event = MechanismEvent(mechanism=table, times=k)
    for share in (0.2, 0.5):
        epsilon = share * k * table.epsilon()
        exact = float(best_adversary(table, k, epsilon))
        found = adaptive_accountant.delta_within(event, epsilon, 0.0, 1.0)
        assert exact <= found <= exact * 1.03 + 1e-9
        both = rb.compose(event).delta(epsilon)
        assert both.lower <= exact <= both.upper


def with_one_pair(table, pair, epsilon, monkeypatch):
    """The value of two uses for an adversary that has one pair of inputs, in both orders."""
    only = InputPairs(np.asarray(pair), np.asarray(pair[::-1]))
    for cached in (adaptive_accountant._rows, adaptive_accountant._kernels):
        cached.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(table_rows, "neighbours", lambda reach: only)
        found = adaptive_accountant.delta_within(MechanismEvent(mechanism=table, times=2), epsilon, 0.0, 1.0)
    for cached in (adaptive_accountant._rows, adaptive_accountant._kernels):
        cached.cache_clear()
    return found


def test_control_an_adversary_without_the_worst_pairs_falls_below(monkeypatch):
    """Were some pairs forgotten, the value would be too small, and the oracle above would show it."""
    short = 0
    for seed in range(8):
        table = small_table(seed)
        epsilon = 0.3 * table.epsilon()
        exact = float(best_adversary(table, 2, epsilon))
        short += min(with_one_pair(table, pair, epsilon, monkeypatch) for pair in ((0, 1), (1, 2))) < exact
    assert short >= 6


def test_the_best_fixed_pair_of_another_accountant_is_below_and_near():
    """Google's accountant composes one pair; an adversary that adapts has at least the best of these."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    points = rb.Grid(step=1, within=rb.Interval(0, 5))
    m = rb.Mechanism(noise=rb.Laplace(scale=4.0), query=rb.Query(range=points, sensitivity=1.0))
    outputs, chances = m.law(points.points).atoms
    delta, times, best = 1e-6, 52, 0.0
    for i in range(len(outputs) - 1):
        for p, q in ((chances[i], chances[i + 1]), (chances[i + 1], chances[i])):
            one = pld.from_two_probability_mass_functions(
                dict(enumerate(np.log(p))),
                dict(enumerate(np.log(q))),
                pessimistic_estimate=False,
                value_discretization_interval=1e-4,
            )
            best = max(best, one.self_compose(times).get_epsilon_for_delta(delta))
    found = best_accountant.every_epsilon(MechanismEvent(mechanism=m, times=times), delta)
    assert best < found.adaptive < 1.03 * best
    assert found.adaptive < min(found.pld.upper, found.renyi)


def test_sampled_tables_lie_between_a_pair_and_the_other_accountants():
    table = small_table(1)
    event = SampledEvent(mechanism=table, rate=0.3, times=40)
    found = best_accountant.every_epsilon(event, 1e-5)
    assert found.pld.lower <= found.adaptive <= min(found.pld.upper, found.renyi)
    assert found.adaptive < 0.999 * min(found.pld.upper, found.renyi)
