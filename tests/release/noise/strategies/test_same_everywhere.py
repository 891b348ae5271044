"""Answers and variances to the last bit: a certificate's reader on another machine must find the same doubles.

The digests were made on one machine. One that fails here would refuse certificates that are right.
"""

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest

from rangebound.release.noise.joint_loss import Contributions, NoiseAccount
from rangebound.release.noise.strategies.marginal_strategy import MarginalStrategy
from rangebound.release.noise.strategies.series_strategies import BlockStrategy, FactorStrategy
from rangebound.release.noise.strategies.tree_strategy import Tree, TreeStrategy
from tests.release.noise.strategies.sums_of_days import running_totals

ONE = Contributions(rows=2, cells=3, replaced=True)


def numbers(count, step=1.0):
    """Numbers that look random, in multiples of a step: the same on every machine."""
    return np.array([((7919 * at * at + 104729 * at) % 20011 - 10005) * step for at in range(count)])


def marginals():
    strategy = MarginalStrategy(
        sizes=(3, 5, 2), wanted=((0, 1), (2,), (1, 2)), contributions=ONE, scales=(2.5, 3.1, 7.7, 0.3, 30.0, 11.0)
    )
    sizes = [math.prod(strategy.sizes[i] - 1 for i in each) for each in strategy.residuals]
    drawn = [numbers(size, noise.step) for size, noise in zip(sizes, strategy.noises, strict=True)]
    return strategy, strategy.answers(np.concatenate(drawn)).values, strategy.cell_variances


def factor():
    rows = tuple((*(1 + (3 * i * i + 5 * j) % 97 * (-1) ** j for j in range(i)), 211) for i in range(60))
    strategy = FactorStrategy(factor=rows, ranges=running_totals(60), contributions=ONE, scale=321.7)
    return strategy, strategy.answers(numbers(60, strategy.noise.step)).values, strategy.variances


def blocks():
    strategy = BlockStrategy(
        length=30, block=7, ranges=running_totals(30), contributions=ONE, cell_scale=1.7, block_scale=2.9
    )
    return strategy, strategy.answers(numbers(35)).values, strategy.variances


def tree():
    parents = (-1, *(0,) * 4, *(1 + at % 4 for at in range(50)), *(5 + at * at % 50 for at in range(200)))
    scales = tuple(0.0 if at == 2 else 0.4 + (at % 13) / 3 for at in range(len(parents)))
    strategy = TreeStrategy(tree=Tree(parents=parents), account=NoiseAccount.GAUSSIAN, contributions=ONE, scales=scales)
    drawn = numbers(len(strategy.measured), max(noise.step for noise in strategy.noises))
    return strategy, strategy.answers(drawn).values, strategy.variances


RUNS = {marginals: (400, 2), factor: (1000, 2), blocks: (3000, 5), tree: (200, 2)}  # and the fourth moment less 1
DIGESTS = {
    marginals: "8d647f10e94854d4",
    factor: "b2915c767a598cc2",
    blocks: "d10d7e24acbb8290",
    tree: "a670724b4dbb3670",
}


@pytest.mark.parametrize("case", DIGESTS, ids=lambda case: case.__name__)
def test_answers_variances_and_costs_are_the_same_to_the_last_bit(case):
    strategy, answers, variances = case()
    texts = [each.hex() for part in (answers, variances) for each in np.asarray(part).tolist()]
    assert hashlib.sha256(f"{texts} {strategy.cost}".encode()).hexdigest()[:16] == DIGESTS[case]


@pytest.mark.slow
@pytest.mark.parametrize("case", DIGESTS, ids=lambda case: case.__name__)
def test_errors_of_draws_have_the_stated_variances(case):
    """False alarms below 1e-9: each answer within 9 standard errors."""
    strategy, answers, _ = case()
    runs, moment = RUNS[case]
    if case in (factor, blocks):
        many, length = replace(strategy, series=runs), len(strategy.factor) if case is factor else strategy.length
        errors = many.answers(many.draw(np.zeros((runs, length), dtype=int))).values.reshape(runs, -1)
    else:
        truth = strategy.by_marginal(0 * answers) if case is marginals else np.zeros(len(strategy.tree.leaves), int)
        errors = np.array([strategy.answers(strategy.draw(truth)).values for _ in range(runs)])
    assert np.abs(errors.mean(axis=0) / np.sqrt(strategy.variances / runs)).max() < 8
    assert np.abs((errors**2).mean(axis=0) / strategy.variances - 1).max() < 9 * np.sqrt(moment / runs)
