"""Tables as publishers: exact rounding, intervals that hold by the law, bounds on the bias, and claims refused."""

import functools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from rangebound.errors import ArgumentError, PlanError
from rangebound.mechanisms.finite import TOTAL, Table, cells
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.table_publisher import best_table
from rangebound.release.plan.kinds.facts import OneCoordinate
from rangebound.release.plan.statistic import Sensitivity
from rangebound.sampling.entropy import secure_bits
from rangebound.values.support import Interval, Union
from tests.release.noise.refusals import refusal
from tests.thinning import crossed


def sensitivity(cell):
    return Sensitivity(cell=Fraction(cell), groups=1, square=Fraction(cell) ** 2)


def share(epsilon):
    return BudgetShare(epsilon=epsilon, delta=0.0, groups=1, parts=1)


def best(range_, cell=1, epsilon=1.0, *, whole=True, support=None, step=None, level=0.95):
    one = OneCoordinate(range=range_, whole=whole, support=support or range_, step=step)
    return best_table(one, sensitivity(cell), share(epsilon), confidence=level)


COUNTS, REALS, GAPS = Interval(0, 12), Interval(-2, 2), Union((0, 4), (7, 12))
DESIGNS = {
    "counts": {"range_": COUNTS},
    "pairs": {"range_": COUNTS, "cell": 2, "step": 3.0},
    "gaps": {"range_": COUNTS, "cell": 2, "support": GAPS},
    "reals": {"range_": REALS, "cell": Fraction(4, 3), "whole": False},
    "steps": {"range_": REALS, "cell": 2, "whole": False, "step": 0.5},
}


@functools.cache
def made(name, epsilon=1.0, level=0.95):
    return best(**DESIGNS[name], epsilon=epsilon, level=level)


def answers(publisher):
    """True answers at both ends of all cells, where errors and coverage are worst, and in the middle."""
    found = []
    for cell in cells(publisher.table.query.range, publisher.table.inputs):
        lower, upper = Fraction(cell.lower), Fraction(cell.upper)
        last = upper if cell.closed else upper - (upper - lower) / 1000
        found += [lower, (lower + upper) / 2, last]
    return found


def coverage(publisher, truth):
    weights = publisher.table.weights[publisher.row(truth)]
    holds = [lower <= truth <= upper for lower, upper in map(publisher.intervals.get, publisher.table.outputs)]
    return Fraction(sum(int(weight) for weight, good in zip(weights, holds, strict=True) if good), TOTAL)


@pytest.mark.few(3)
@crossed({"name": DESIGNS, "level": [0.5, 0.95, 0.999]})
def test_intervals_hold_every_true_answer_as_often_as_they_say(name, level):
    publisher = made(name, level=level)
    assert min(coverage(publisher, truth) for truth in answers(publisher)) >= Fraction(level)
    low = made("counts", level=0.8)  # the control
    assert min(coverage(low, truth) for truth in answers(low)) < Fraction(0.95)


@pytest.mark.parametrize("name", DESIGNS)
def test_a_true_answer_goes_to_its_nearest_input_and_of_two_to_the_upper_one(name):
    publisher = made(name)
    inputs = [Fraction(each) for each in publisher.table.inputs]
    for truth in [*answers(publisher), Fraction(-100), Fraction(100)]:
        best = min(abs(each - truth) for each in inputs)
        assert publisher.row(truth) == max(at for at, each in enumerate(inputs) if abs(each - truth) == best)


def test_neighbours_one_third_apart_stay_neighbours_in_exact_arithmetic():
    table = made("reals").table
    for at, one in enumerate(answers(made("reals"))):
        far = made("reals").row(one + Fraction(4, 3))
        assert far <= table.reach[made("reals").row(one)], at


@pytest.mark.few(1)
@pytest.mark.parametrize("name", DESIGNS)
def test_draws_are_outputs_in_the_support_and_have_the_law_of_their_row(name):
    publisher = made(name)
    truths = [(Fraction(2),)] * 20_000
    drawn = publisher.draw(truths, secure_bits)
    assert publisher.can_draw(*(group[0] for group in drawn))
    numbers = np.array([group[0][0] for group in drawn])
    row = publisher.table.weights[publisher.row(Fraction(2))] / TOTAL
    for output, chance in zip(publisher.table.outputs, row, strict=True):
        found, spread = (numbers == output).mean(), np.sqrt(chance * (1 - chance) / len(numbers))
        assert abs(found - chance) < 7 * spread + 1e-3  # once in 10^10 draws


def test_what_no_row_gives_is_no_draw():
    publisher = made("counts")
    assert not publisher.can_draw((0.5,))
    assert not publisher.can_draw((-0.0,))
    assert not publisher.can_draw((1.0, 2.0))
    never = np.zeros((2, 2), dtype=np.int64)
    never[:, 0] = TOTAL
    query = replace(publisher.query, sensitivity=12.0)
    other = replace(publisher, given=Table(query=query, inputs=(0.0, 12.0), outputs=(0.0, 1.0), weights=never))
    assert other.can_draw((0.0,))
    assert not other.can_draw((1.0,))


@pytest.mark.parametrize("name", DESIGNS)
def test_no_bias_is_above_its_bound_and_the_bound_is_attained(name):
    publisher = made(name)
    truths = np.array([float(each) for each in answers(publisher)])
    errors = np.abs(publisher.table.error(truths).bias)
    lower, upper = np.minimum.outer(truths, truths).ravel(), np.maximum.outer(truths, truths).ravel()
    bounds = publisher.bias(lower, upper, publisher.table.query.range.hull, None, whole=False)
    inside = (truths >= lower[:, None]) & (truths <= upper[:, None])
    worst = np.where(inside, errors, 0.0).max(axis=1)
    assert (worst <= bounds).all()
    wide = publisher.bias(truths[:1], truths[-1:], publisher.table.query.range.hull, None, whole=False)
    assert wide[0] < publisher.table.worst_error().bias * 1.02 + 0.02


def test_what_is_less_private_or_of_another_design_is_refused():
    publisher, own = made("counts", 0.7), share(0.7)
    publisher.check(sensitivity(1), own)
    table, weights = publisher.table, publisher.table.weights.copy()
    weights[6, weights[6].argmax()] += weights[6, 0]
    weights[6, 0], halves = 0, tuple(each / 2.0 for each in table.outputs)
    for given, cell, stated, words in [
        (None, 1, share(0.6999), "less private"),
        (None, 2, own, "sensitivity that is too small"),
        (None, 1, replace(own, mu=1.0), "Gaussian account"),
        (made("pairs", 0.7).table, 1, own, "another range or sensitivity"),
        (made("counts", 1.2).table, 1, own, "less private"),
        (replace(table, outputs=tuple(each + 1.0 for each in table.outputs)), 1, own, "outside the support"),
        (replace(table, outputs=halves), 1, own, "fractions where answers are whole"),
        (replace(table, weights=weights), 1, own, "less private"),
    ]:
        assert words in refusal(replace(publisher, given=given), sensitivity(cell), stated)


def test_a_large_epsilon_has_the_table_of_8():
    publisher = made("counts", 90.0)
    assert publisher.epsilon == 8.0
    publisher.check(sensitivity(1), share(90.0))
    assert publisher.mae < 1e-3


def test_what_has_no_table_is_refused():
    with pytest.raises(ArgumentError, match="two ends"):
        best(Interval(0, np.inf))
    for whole, words in ((True, "more than 401 whole numbers"), (False, "more than 400 sensitivities wide")):
        with pytest.raises(ArgumentError, match=rf"no table here.*{words}.*narrower support"):
            best(Interval(0, 10_000), whole=whole)
    for support in (GAPS, Interval(1, 12)):
        with pytest.raises(ArgumentError, match=r"step=2\.0"):
            best(COUNTS, support=support, step=2.0)


@pytest.mark.slow
def test_a_table_that_noise_beats_is_refused():
    with pytest.raises(PlanError, match="noise has less error"):
        assert best(Interval(0, 390), epsilon=6.0, whole=False).table
