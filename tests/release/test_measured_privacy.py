"""Measured privacy: releases of one small plan of each shape, attacked by what best tells two neighbours apart.

For every plan the pair of neighbours with the largest loss of some is taken, and for every release the logarithm of the
likelihood ratio of all that was drawn, which no other function of the published table beats. `rangebound.audit` turns
many of these into a lower bound of epsilon at the plan's delta. It must not exceed the plan's epsilon, but come near
it; with half the noise (or a quarter, where there are few releases) it must exceed it.
"""

import datetime
import itertools
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from rangebound.audit import attack
from rangebound.laws.family import Curve
from rangebound.release.budget_split import allocations
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher
from rangebound.release.noise.partition_selection import ThresholdSelection
from rangebound.release.noise.quantiles import QuantilePublisher
from rangebound.release.noise.strategies.strategy import LatticeNoise
from rangebound.release.noise.workload_publisher import WorkloadPublisher
from rangebound.release.plan.groupings import blocks
from rangebound.release.plan.toml import make_plan
from rangebound.release.prepare import prepare, prepared
from rangebound.sampling.entropy import secure_bits
from tests.release.pair_loss import strategy_of, weights_of

SURE = 1.0 - 1e-6
"""The probability with which a bound of a private release is below its epsilon: in one of a million tests it is not."""
PURE, GAUSSIAN = {"epsilon": 2.0}, {"epsilon": 2.0, "delta": 0.05}
DAYS = [datetime.date(2025, 1, 28) + datetime.timedelta(days=at) for at in range(7)]
KEYS = {"sex": ["f", "m"], "city": ["a", "b", "c", "d"], "day": DAYS}
LEVELS = [{"name": "region", "members": {"west": ["a", "d"], "east": ["b", "c"]}}]
PEOPLE = {"column": "person", "rows": 2, "groups": 3}
CROSSTAB = {"kind": "crosstab", "by": ["sex", "city"]}
HIERARCHY = {"kind": "hierarchy", "by": ["city"], "levels": LEVELS}
SERIES = {"kind": "series", "by": ["day"]}
MEDIAN = {"kind": "median", "column": "x", "range": [0, 4], "step": 1.0, "interval_share": 0.0, "weight": 1.0}
SHAPES = {
    "a count": (PURE, {}, [{"kind": "count"}]),
    "counts": (GAUSSIAN, {"column": "person", "rows": 1, "groups": 4}, [{"kind": "count", "by": ["city"]}] * 2),
    "crosstab": (GAUSSIAN, PEOPLE, [CROSSTAB]),
    "hierarchy": (GAUSSIAN, PEOPLE, [HIERARCHY]),
    "series": (GAUSSIAN, PEOPLE, [SERIES]),
    "pure crosstab": (PURE, PEOPLE, [CROSSTAB]),
    "pure hierarchy": (PURE, PEOPLE, [HIERARCHY]),
    "pure series": (PURE, PEOPLE, [SERIES]),
    "replaced crosstab": (GAUSSIAN, {**PEOPLE, "neighbours": "replace", "size": 9}, [CROSSTAB]),
    "quantile and count": (GAUSSIAN, {}, [MEDIAN, {"kind": "count", "weight": 4.0}]),
    "pure quantile and count": (PURE, {}, [MEDIAN, {"kind": "count", "weight": 4.0}]),
    "selected keys": (GAUSSIAN, {"column": "person", "rows": 1, "groups": 2}, [{"kind": "count", "by": ["town"]}]),
}


def plan_of(name):
    budget, unit, asked = SHAPES[name]
    queries = [{**each, "name": f"q{at}"} for at, each in enumerate(asked)]
    used = {column for each in asked for column in each.get("by", [])}
    keys = {column: each for column, each in KEYS.items() if column in used}
    return make_plan({"unit": unit, "budget": budget, "keys": keys, "query": queries})


def moves(plan, cells):
    """What one unit can add to the finest cells, with all rows in any of its groups; or put in place of others."""
    unit, own = plan.unit, min(plan.unit.groups, cells)
    every = [
        np.array([unit.rows * (at in some) for at in range(cells)])
        for some in itertools.combinations(range(cells), own)
    ]
    return [one - two for one, two in itertools.product(every, every)] if unit.replaced else every


def pair_of(plan, index, publisher):
    """The coordinates of both tables in all groups of a question: 20 rows each, and what the worst unit adds."""
    if isinstance(publisher, QuantilePublisher):  # values that are tied at both ends, and one row more
        some = (Fraction(5), Fraction(0), Fraction(0), Fraction(0), Fraction(5))
        return [some], [(*some[:-1], Fraction(6))]
    block = next(each for each in blocks(plan) if index in each.questions)
    cells = 2 if block.keys is None else len(block.keys)
    found = moves(plan, cells)
    if isinstance(publisher, WorkloadPublisher):
        losses = strategy_of(publisher, cells).losses(np.array(found, dtype=float))
        worst = found[int(losses.argmax())]
    else:
        worst = found[0]
    start = 20 + np.maximum(-worst, 0)
    return [(Fraction(int(each)),) for each in start], [(Fraction(int(each)),) for each in start + worst]


class Sampled:
    """Noise of the real source, drawn in long runs: one by one it would take minutes."""

    def __init__(self):
        self.left, self.draw = {}, LatticeNoise.draw

    def __call__(self, noise, count, bits):
        key = (noise.account, noise.scale)
        own, at = self.left.get(key, (np.zeros(0, dtype=object), 0))
        if at + count > len(own):
            own, at = self.draw(noise, 20_000, bits), 0
        self.left[key] = own, at + count
        return own[at : at + count].copy()


def score(publisher, pair):
    """A function of what was drawn for all groups, one draw a row: the logarithm of the likelihood ratio."""
    if isinstance(publisher, WorkloadPublisher):
        cells = len(pair[0])
        found, (one, two) = strategy_of(publisher, cells), (np.array(each, dtype=float).ravel() for each in pair)
        if found.pure:
            scales = np.abs(found.noise).sum(axis=1)
            return lambda y: ((np.abs(y - found.counts @ one) - np.abs(y - found.counts @ two)) / scales).sum(axis=1)
        slope = np.linalg.solve(found.noise @ found.noise.T, found.counts @ (two - one))
        return lambda y: y @ slope
    if isinstance(publisher, QuantilePublisher):
        points = [publisher.grid.points[at] for at in publisher.grid.candidates]
        ((one,), (two,)) = (weights_of(publisher, each[0]) for each in pair)
        table = dict(zip(points, np.log(two / one).tolist(), strict=True))
        return lambda y: np.array([table[each] for each in y[:, 0].tolist()])
    one, two = (np.array(each, dtype=float).ravel() for each in pair)
    mechanism = publisher.mechanism
    if isinstance(publisher, DiscreteLaplacePublisher) or mechanism.noise.curve is Curve.LINEAR:
        scale = mechanism.scale if isinstance(publisher, DiscreteLaplacePublisher) else mechanism.noise.scale
        return lambda y: ((np.abs(y - one) - np.abs(y - two)) / scale).sum(axis=1)
    assert mechanism.noise.curve is Curve.QUADRATIC
    return lambda y: y @ (two - one) / mechanism.noise.scale**2


def draws_of(publisher, truths, count):
    """All that is drawn for all groups, in this many releases; one a row."""
    if isinstance(publisher, WorkloadPublisher):
        source = Sampled()
        with mock.patch.object(LatticeNoise, "draw", lambda *given: source(*given)):
            made = [publisher.draw(truths, secure_bits)[0] for _ in range(count)]
        return np.array([[each for draw in group for each in draw] for group in made])
    made = publisher.draw(list(truths) * count, secure_bits)
    return np.array(made, dtype=float).reshape(count, -1)


def attacked(name, draws, *, noise=1.0):
    """The lower bound of epsilon, from this many releases with so much of their noise."""
    plan = plan_of(name)
    ready = prepare(plan)
    assert bool(ready.allocation.mu) == (plan.budget.delta > 0), name
    if noise != 1.0:
        shares = {
            at: replace(each, mu=each.mu / noise, epsilon=each.epsilon / noise)
            for at, each in ready.allocation.questions.items()
        }
        ready = prepared(plan, replace(ready.allocation, questions=shares))
    pairs = [pair_of(plan, index, each) for index, each in enumerate(ready.publishers)]
    scores = [score(*each) for each in zip(ready.publishers, pairs, strict=True)]

    def release(answer, count):
        found = np.zeros(count)
        for publisher, pair, own in zip(ready.publishers, pairs, scores, strict=True):
            found += own(draws_of(publisher, pair[int(answer)], count))
        return np.round(found, 9)  # what is left of the order of additions tells nothing

    budget = plan.budget
    return attack(release, pair=(0.0, 1.0), epsilon=budget.epsilon, delta=budget.delta, draws=draws, confidence=SURE)


FEW, MANY = 2000, 20_000
OFTEN = ["a count", "quantile and count"]
LATER = [pytest.param(name, FEW, 0.0, marks=pytest.mark.slow) for name in ("counts", "crosstab", "hierarchy", "series")]
OPEN = [name for name in SHAPES if name != "selected keys"]
LONG = [pytest.param(name, MANY, 0.4, marks=pytest.mark.long) for name in OPEN]


@pytest.mark.claim("privacy")
@pytest.mark.parametrize(("name", "draws", "near"), [*((name, FEW, 0.0) for name in OFTEN), *LATER, *LONG])
def test_no_attack_shows_more_than_the_epsilon_of_a_plan_and_less_noise_is_seen(name, draws, near):
    found = attacked(name, draws)
    print(name, found.epsilon, found.hits)
    assert not found.refutes, str(found)
    assert found.epsilon >= near * found.claimed
    assert attacked(name, draws, noise=0.5 if draws == MANY else 0.25).refutes


def selecting(draws, *, noise=1.0, lowered=0.0):
    """Keys that a noisy count selects: two that both tables have, and one that only the unit's rows have."""
    plan = plan_of("selected keys")
    ready = prepared(plan, allocations(plan)[-1])
    selection, share = ready.selections["town",], ready.allocation.questions[0]
    assert isinstance(selection, ThresholdSelection)
    if noise != 1.0:
        ready = prepared(plan, replace(ready.allocation, questions={0: replace(share, mu=share.mu / noise)}))
    selection, publisher = replace(selection, threshold=selection.threshold - lowered), ready.publishers[0]
    near = Fraction(int(selection.threshold))

    def release(answer, count):
        """What is published of a key near the threshold, which has a row more in one table, and of one that is new."""
        found = []
        truths = [(near + int(answer),), *([(Fraction(1),)] if answer else [])]
        drawn = np.array(publisher.draw(truths * count, secure_bits)).reshape(count, len(truths)).tolist()
        for row in drawn:
            named = selection.named([[(each,)] for each in row])
            found.append(1e6 if 1 in named else row[0] if 0 in named else 0.0)
        return np.array(found)

    budget = plan.budget
    return attack(release, pair=(0.0, 1.0), epsilon=budget.epsilon, delta=budget.delta, draws=draws, confidence=SURE)


@pytest.mark.claim("privacy")
@pytest.mark.parametrize("draws", [10_000, pytest.param(400_000, marks=pytest.mark.long)])
def test_keys_that_a_noisy_count_selects_show_no_more_than_the_plan_and_a_low_threshold_is_seen(draws):
    found = selecting(draws)
    print("selected keys", found.epsilon, found.hits)
    assert not found.refutes, str(found)
    assert selecting(draws, noise=0.5).epsilon > found.epsilon
    assert selecting(draws, lowered=1e9).refutes
