"""The recursion against all adaptive adversaries of small finite mechanisms, enumerated in fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from rangebound.accounting.adaptive.kernel_cover import Kernels, cover
from rangebound.accounting.adaptive.recursion import Adversary, AdversaryValues, make_step

Law = tuple[Fraction, ...]
Pair = tuple[Law, Law]


def law(*weights: int) -> Law:
    return tuple(Fraction(w, sum(weights)) for w in weights)


def both(*laws: Law) -> list[Pair]:
    """Every ordered pair of different laws."""
    return [(p, q) for p in laws for q in laws if p != q]


# Few outputs, so that all strategies of three steps can be enumerated: pairs to the power 1 + outputs + outputs^2.
COINS = both(law(1, 3), law(1, 1))
LOPSIDED = [(law(1, 9), law(1, 2)), (law(1, 2), law(1, 9)), (law(3, 2), law(1, 1))]
THREE = [(law(4, 1, 1), law(2, 3, 1)), (law(2, 3, 1), law(4, 1, 1)), (law(1, 1, 2), law(1, 2, 1))]
HOLES = [(law(1, 0, 5), law(1, 1, 4)), (law(1, 1, 4), law(1, 0, 5))]  # an output that one of the two cannot have
SHORTEST = {"coins": COINS, "lopsided": LOPSIDED, "three": THREE, "holes": HOLES}


def prefixes(outputs: int, k: int) -> list[tuple[int, ...]]:
    return [each for length in range(k) for each in product(range(outputs), repeat=length)]


def enumerated(pairs: list[Pair], k: int, x: Fraction) -> Fraction:
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


def recursed(pairs: list[Pair], k: int, x: Fraction) -> Fraction:
    """The recursion, in fractions: V_j(x) = max over pairs of the sum of p V_(j-1)(x q/p)."""
    if k == 0:
        return max(1 - x, Fraction(0))
    return max(
        sum((p * recursed(pairs, k - 1, x * q / p) for p, q in zip(*pair, strict=True) if p), Fraction(0))
        for pair in pairs
    )


class Finite:
    """One pair of finite laws as a row."""

    def __init__(self, pair: Pair) -> None:
        self.p, self.q = (np.asarray(each, dtype=np.float64) for each in pair)

    def slack(self, levels: np.ndarray) -> np.ndarray:
        return np.zeros(len(levels))

    def at(self, levels: np.ndarray) -> np.ndarray:
        return np.maximum(self.p - np.exp(levels)[:, None] * self.q, 0.0).sum(axis=1)[None, :] + 1e-15


def largest(pairs: list[Pair]) -> float:
    return max(abs(math.log(a / b)) for pair in pairs for a, b in zip(*pair, strict=True) if a and b) * (1.0 + 1e-12)


def on_grid(pairs: list[Pair], step: float) -> Kernels:
    found = cover([Finite(pair) for pair in pairs], step, largest(pairs), np.asarray([0.5, 1.0, 2.0]), 0.0)
    assert found is not None
    return found


def strategies(name: str, k: int) -> int:
    pairs = SHORTEST[name]
    return len(pairs) ** len(prefixes(len(pairs[0][0]), k))


AFFORDABLE = [(name, k) for name in SHORTEST for k in (1, 2, 3) if strategies(name, k) <= 3_000]


@pytest.mark.parametrize(("name", "k"), AFFORDABLE)
def test_the_recursion_is_the_best_of_all_adaptive_adversaries(name, k):
    pairs = SHORTEST[name]
    for x in (Fraction(1), Fraction(5, 2)):
        assert recursed(pairs, k, x) == enumerated(pairs, k, x)


def test_the_oracle_reaches_three_steps():
    assert {("coins", 3), ("lopsided", 3), ("holes", 2), ("three", 2)} <= set(AFFORDABLE)


def test_an_adversary_that_adapts_gains_over_every_fixed_choice():
    """Otherwise the recursion would have nothing to find: one pair for each step, chosen beforehand, has less."""
    x = Fraction(3, 2)
    fixed = Fraction(0)
    for choice in product(LOPSIDED, repeat=3):
        total = Fraction(0)
        for outputs in product(range(2), repeat=3):
            p = math.prod((pair[0][y] for pair, y in zip(choice, outputs, strict=True)), start=Fraction(1))
            q = math.prod((pair[1][y] for pair, y in zip(choice, outputs, strict=True)), start=Fraction(1))
            total += max(p - x * q, Fraction(0))
        fixed = max(fixed, total)
    assert recursed(LOPSIDED, 3, x) > fixed


def value(kernels: Kernels, k: int, epsilon: float) -> AdversaryValues:
    return Adversary((make_step(kernels, k),), epsilon, 1e-6).value()


@pytest.mark.parametrize("name", ["coins", "lopsided", "three"])
@pytest.mark.parametrize("step", [0.3, 0.05, 0.01])
def test_the_grid_is_above_and_near(name, step):
    pairs = SHORTEST[name]
    kernels = on_grid(pairs, step)
    for k, x in product((1, 2, 3), (Fraction(1), Fraction(4, 3), Fraction(2), Fraction(7, 2))):
        exact = recursed(pairs, k, x)
        found = value(kernels, k, math.log(x)).at(math.log(x))
        assert exact <= Fraction(found)
        assert found <= float(exact) + k * step * (0.5 + step)


def test_the_grid_is_above_random_mechanisms():
    random = np.random.default_rng(16)
    for _ in range(40):
        laws = [law(*random.integers(1, 9, 3).tolist()) for _ in range(3)]
        pairs = both(*laws)
        if not pairs:
            continue
        x = Fraction(int(random.integers(8, 30)), 10)
        assert recursed(pairs, 2, x) <= Fraction(value(on_grid(pairs, 0.07), 2, math.log(x)).at(math.log(x)))


def rounded(pairs: list[Pair], step: float, way: Callable[[float], int]) -> Kernels:
    """Every loss moved to a point of the grid, all of its mass."""
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
        exact = recursed(LOPSIDED, k, x)
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
        < recursed([pair], 1, Fraction(math.exp(level)))
        for level in (-0.9, 0.0, 0.9)
    ]
    assert any(found)


def test_two_kinds_of_steps_are_taken_in_any_order():
    """The adversary also chooses which kind is next: at least what every order of the two has."""

    def mixed(order: str, x: Fraction) -> Fraction:
        if not order:
            return max(1 - x, Fraction(0))
        pairs = SHORTEST["lopsided" if order[0] == "a" else "coins"]
        return max(
            sum((p * mixed(order[1:], x * q / p) for p, q in zip(*pair, strict=True)), Fraction(0)) for pair in pairs
        )

    steps = (make_step(on_grid(LOPSIDED, 0.02), 2), make_step(on_grid(COINS, 0.02), 2))
    for x in (Fraction(1), Fraction(3, 2), Fraction(2)):
        exact = max(mixed(order, x) for order in ("aabb", "abab", "abba", "baab", "baba", "bbaa"))
        found = Adversary(steps, math.log(x), 1e-6).value().at(math.log(x))
        assert exact <= Fraction(found) <= exact + Fraction(1, 50)


def test_a_step_without_a_choice_comes_first():
    one = [LOPSIDED[0]]
    steps = (make_step(on_grid(one, 0.02), 2), make_step(on_grid(COINS, 0.02), 2))
    assert [step.adaptive for step in steps] == [False, True]
    seen: list[tuple[int, int]] = []
    found = Adversary(steps, 0.2, 1e-6).value(lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    swapped = Adversary(steps[::-1], 0.2, 1e-6).value()
    assert found.at(0.2) == swapped.at(0.2)


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
