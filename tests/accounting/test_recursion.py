"""The recursion, of small finite mechanisms, tables and grids, against all adversaries that adapt, in fractions."""

import math
from fractions import Fraction
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import MechanismEvent, adaptive_accountant, best_accountant
from rangebound.accounting import pair_rows as rows_of_pairs
from rangebound.accounting.adaptive_accountant import Adversary, AdversaryValues, make_step
from rangebound.accounting.kernel_cover import Kernels, cover
from rangebound.accounting.pair_rows import pair_rows
from rangebound.mechanisms.finite import TOTAL
from rangebound.mechanisms.finite.pair_numbers import InputPairs, neighbours
from rangebound.privacy.worst import pair_profile
from rangebound.values.ball import precision
from tests.mechanisms.finite.random_tables import random_table


def law(*weights):
    return tuple(Fraction(w, sum(weights)) for w in weights)


def both(*laws):
    return [(p, q) for p in laws for q in laws if p != q]


# Few outputs, so that all strategies of three steps can be enumerated: pairs to the power 1 + outputs + outputs^2.
COINS = both(law(1, 3), law(1, 1))
LOPSIDED = [(law(1, 9), law(1, 2)), (law(1, 2), law(1, 9)), (law(3, 2), law(1, 1))]
THREE = [(law(4, 1, 1), law(2, 3, 1)), (law(2, 3, 1), law(4, 1, 1)), (law(1, 1, 2), law(1, 2, 1))]
HOLES = [(law(1, 0, 5), law(1, 1, 4)), (law(1, 1, 4), law(1, 0, 5))]  # an output that one of the two cannot have
SHORTEST = {"coins": COINS, "lopsided": LOPSIDED, "three": THREE, "holes": HOLES}


def prefixes(outputs, k):
    return [each for length in range(k) for each in product(range(outputs), repeat=length)]


def enumerated(pairs, k, x):
    """The largest hockey stick of all adversaries that choose a pair after every transcript, one by one."""
    outputs = len(pairs[0][0])
    past = prefixes(outputs, k)
    best = Fraction(0)
    for choice in product(pairs, repeat=len(past)):
        chosen = dict(zip(past, choice, strict=True))
        total = Fraction(0)
        for transcript in product(range(outputs), repeat=k):
            p = q = Fraction(1)
            for i, output in enumerate(transcript):
                a, b = chosen[transcript[:i]]
                p, q = p * a[output], q * b[output]
            total += max(p - x * q, Fraction(0))
        best = max(best, total)
    return best


class Finite:
    def __init__(self, pair):
        self.p, self.q = (np.asarray(each, dtype=np.float64) for each in pair)

    def slack(self, levels):
        return np.zeros(len(levels))

    def at(self, levels):
        return np.maximum(self.p - np.exp(levels)[:, None] * self.q, 0.0).sum(axis=1)[None, :] + 1e-15


def largest(pairs):
    return max(abs(math.log(a / b)) for pair in pairs for a, b in zip(*pair, strict=True) if a and b) * (1.0 + 1e-12)


def on_grid(pairs, step):
    found = cover([Finite(pair) for pair in pairs], step, largest(pairs), np.asarray([0.5, 1.0, 2.0]), 0.0)
    return found


def strategies(name, k):
    pairs = SHORTEST[name]
    return len(pairs) ** len(prefixes(len(pairs[0][0]), k))


AFFORDABLE = [(name, k) for name in SHORTEST for k in (1, 2, 3) if strategies(name, k) <= 3_000]
assert {("coins", 3), ("lopsided", 3), ("holes", 2), ("three", 2)} <= set(AFFORDABLE)


@pytest.mark.few(5)
@pytest.mark.parametrize(("name", "k"), AFFORDABLE)
def test_the_recursion_is_the_best_of_all_adaptive_adversaries(name, k):
    pairs = SHORTEST[name]
    for x in (Fraction(1), Fraction(5, 2)):
        assert recursed([pairs] * k, x) == enumerated(pairs, k, x)


def value(kernels, k, epsilon):
    return Adversary((make_step(kernels, k),), epsilon, 1e-6).value()


@pytest.mark.few(5)
@pytest.mark.parametrize("name", ["coins", "lopsided", "three"])
@pytest.mark.parametrize("step", [0.3, 0.05, 0.01])
def test_the_grid_is_above_and_near(name, step):
    pairs = SHORTEST[name]
    kernels = on_grid(pairs, step)
    for k, x in product((1, 2, 3), (Fraction(1), Fraction(4, 3), Fraction(2), Fraction(7, 2))):
        exact = recursed([pairs] * k, x)
        found = value(kernels, k, math.log(x)).at(math.log(x))
        assert exact <= Fraction(found)
        assert found <= float(exact) + k * step * (0.5 + step)


def rounded(pairs, step, way):
    top = math.ceil(largest(pairs) / step) + 1
    mass = np.zeros((len(pairs), 2 * top + 1))
    for i, pair in enumerate(pairs):
        for p, q in zip(*pair, strict=True):
            mass[i, way(math.log(p / q) / step) + top] += p
    return Kernels(step, -top, mass, np.zeros(len(pairs)))


def test_losses_rounded_down_are_caught_by_the_oracle():
    """The control: a loss on the grid point below instead of split between two gives too small a value."""
    short = 0
    for k, x in product((2, 3), (Fraction(1), Fraction(4, 3), Fraction(2))):
        exact = recursed([LOPSIDED] * k, x)
        assert Fraction(value(rounded(LOPSIDED, 0.1, math.ceil), k, math.log(x)).at(math.log(x))) >= exact
        short += Fraction(value(rounded(LOPSIDED, 0.1, math.floor), k, math.log(x)).at(math.log(x))) < exact
    assert short >= 4


def test_losses_split_in_the_wrong_scale_are_caught_by_the_oracle():
    """The control of the scale: a split that keeps the mean of e^L, and so lowers that of e^-L too little, is short."""
    pair = COINS[0]
    step, top = 0.9, 3
    mass = np.zeros((1, 2 * top + 1))
    for p, q in zip(*pair, strict=True):
        loss = math.log(p / q)
        low = math.floor(loss / step)
        share = (math.exp(loss) - math.exp(low * step)) / (math.exp((low + 1) * step) - math.exp(low * step))
        mass[0, low + top] += float(p) * (1.0 - share)
        mass[0, low + 1 + top] += float(p) * share
    found = [
        Fraction(value(Kernels(step, -top, mass, np.zeros(1)), 1, level).at(level))
        < recursed([[pair]], Fraction(math.exp(level)))
        for level in (-0.9, 0.0, 0.9)
    ]
    assert any(found)


def test_two_kinds_of_steps_are_taken_in_any_order():
    """The adversary also chooses which kind is next: at least what every order of the two has."""
    orders = set(permutations((0, 0, 1, 1)))
    steps = (make_step(on_grid(LOPSIDED, 0.02), 2), make_step(on_grid(COINS, 0.02), 2))
    for x in (Fraction(1), Fraction(3, 2), Fraction(2)):
        exact = max(recursed([(LOPSIDED, COINS)[kind] for kind in order], x) for order in orders)
        found = Adversary(steps, math.log(x), 1e-6).value().at(math.log(x))
        assert exact <= Fraction(found) <= exact + Fraction(1, 50)


def test_values_between_the_points_of_the_grid():
    values = AdversaryValues(0.5, -1, np.asarray([0.9, 0.5, 0.2, 0.2]))
    assert values.at(-0.5) == pytest.approx(0.9)
    assert values.at(-5.0) == 1.0
    assert values.at(40.0) == pytest.approx(0.2)
    middle = values.at(0.25)
    assert middle == pytest.approx(0.5 - 0.3 * math.expm1(0.25) / math.expm1(0.5))
    assert values.at(values.root(middle)) <= middle * (1.0 + 1e-8)
    assert values.root(0.95) == -0.5
    assert values.root(0.1) == math.inf


def recursed(steps, x):
    """The same by V_j(x) = max over pairs of the sum of p V_(j-1)(x q/p); a list of pairs for each step."""

    @cache
    def value(done, x):
        if done == len(steps):
            return max(1 - x, Fraction(0))
        return max(
            sum((p * value(done + 1, x * q / p) for p, q in zip(*pair, strict=True) if p), Fraction(0))
            for pair in steps[done]
        )

    return value(0, x)


LEVELS = np.asarray([-1.5, -0.3, 0.0, 1e-9, 0.2, 1.0, 4.0])


def exact_pairs(table):
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


def small_table(seed):
    """Three or four inputs and three outputs, whose pairs differ in shape: no pair is the worst at every epsilon."""
    random = np.random.default_rng(seed)
    rows = random.dirichlet([4.0, 4.0, 4.0], size=3)
    query = rb.Query(range=rb.Interval(0, 2), sensitivity=1.0)
    return rb.Table.from_probabilities(query=query, inputs=range(3), outputs=range(3), probabilities=rows)


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("k", [2, 3])
def test_the_recursion_is_never_below_the_best_adversary_of_a_table_and_near(seed, k):
    table = small_table(seed)
    event = MechanismEvent(mechanism=table, times=k)
    for share in (0.2, 0.5):
        epsilon = share * k * table.epsilon()
        exact = float(recursed([exact_pairs(table)] * k, Fraction(math.exp(epsilon))))
        found = adaptive_accountant.delta_within(event, epsilon, 0.0, 1.0)
        assert exact <= found <= exact * 1.03 + 1e-9
        both = rb.compose(event).delta(epsilon)
        assert both.lower <= exact <= both.upper


def with_one_pair(table, pair, epsilon, monkeypatch):
    """The value of two uses for an adversary that has one pair of inputs, in both orders."""
    only = InputPairs(np.asarray(pair), np.asarray(pair[::-1]))
    with monkeypatch.context() as patched:
        patched.setattr(rows_of_pairs, "neighbours", lambda reach: only)
        for cached in ("_rows", "_kernels"):
            patched.setattr(adaptive_accountant, cached, getattr(adaptive_accountant, cached).__wrapped__)
        return adaptive_accountant.delta_within(MechanismEvent(mechanism=table, times=2), epsilon, 0.0, 1.0)


def test_control_an_adversary_without_the_worst_pairs_falls_below(monkeypatch):
    """Were some pairs forgotten, the value would be too small, and the oracle above would show it."""
    short = 0
    for seed in range(8):
        table = small_table(seed)
        epsilon = 0.3 * table.epsilon()
        exact = float(recursed([exact_pairs(table)] * 2, Fraction(math.exp(epsilon))))
        short += min(with_one_pair(table, pair, epsilon, monkeypatch) for pair in ((0, 1), (1, 2))) < exact
    assert short >= 6


@pytest.mark.slow
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
