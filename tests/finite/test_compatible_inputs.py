"""Confidence intervals of tables: coverage in fractions over random tables, and intervals that are too narrow."""

from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.finite import TOTAL
from rangebound.finite.compatible_inputs import intervals
from tests.finite.random_tables import random_table

LEVELS = (0.05, 0.5, 0.9, 0.999)


def ends(table, input_number):
    """The ends of the answers that go to an input, the upper one inside the cell."""
    cell = table._cells[input_number]
    inside = float(cell.upper) if cell.closed else np.nextafter(float(cell.upper), -np.inf)
    return float(cell.lower), inside


def coverage(table, found):
    """The smallest probability, over all inputs and both ends of their cells, that an interval holds the answer."""
    lower, upper = found
    worst = Fraction(1)
    for i, row in enumerate(table.weights.tolist()):
        for answer in ends(table, i):
            held = sum(weight for weight, a, b in zip(row, lower, upper, strict=True) if a <= answer <= b)
            worst = min(worst, Fraction(held, TOTAL))
    return worst


@pytest.mark.parametrize("seed", range(60))
def test_every_answer_is_covered_with_the_probability_that_is_promised(seed):
    table = random_table(np.random.default_rng(seed))
    for level in LEVELS:
        lower, upper = table.confidence_interval(table.outputs, level)
        hull = table.query.range.hull
        assert (hull.lower <= lower).all()
        assert (lower <= upper).all()
        assert (upper <= hull.upper).all()
        assert coverage(table, (lower, upper)) >= Fraction(level)


def test_intervals_of_a_lower_level_are_too_narrow_for_a_higher_one():
    """The control: coverage is measured, and falls below the level where intervals are made for less."""
    short = [
        coverage(table, table.confidence_interval(table.outputs, 0.3)) < Fraction(9, 10)
        for table in (random_table(np.random.default_rng(seed)) for seed in range(60))
    ]
    assert sum(short) > 10


def test_a_tail_of_exactly_its_share_is_compatible_and_one_unit_less_is_not():
    query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    for unit, expected in ((0, 0.0), (1, 0.5)):
        rare = TOTAL // 4 - unit  # of a level of 1/2: each tail has a quarter
        weights = [[TOTAL - rare, rare], [TOTAL // 2, TOTAL // 2]]
        table = rb.Table(query=query, inputs=(0, 1), outputs=(0, 1), weights=weights)
        assert table.confidence_interval(1.0, 0.5)[0] == expected


def test_an_output_that_is_rare_everywhere_gives_one_input():
    query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    weights = [[TOTAL - 2, 2], [TOTAL - 1, 1]]
    table = rb.Table(query=query, inputs=(0, 1), outputs=(0, 9), weights=weights)
    assert table.confidence_interval(9.0) == (0.0, 0.0)
    assert [each.tolist() for each in intervals(table.weights, table._cells, table.inputs, 0.95)] == [[0, 0], [1, 0]]


def test_what_is_never_published_is_refused():
    query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    table = rb.Table(query=query, inputs=(0, 1), outputs=(0, 1), weights=[[2**61, 2**61]] * 2)
    for wrong in (0.5, -1.0, 2.0, [0.0, 0.5]):
        with pytest.raises(rb.ArgumentError, match="is never published"):
            table.confidence_interval(wrong)
    with pytest.raises(rb.ArgumentError, match="level"):
        table.confidence_interval(0.0, 1.0)


def test_neighbouring_answers_go_to_their_inputs_and_are_within_the_sensitivity():
    checked = 0
    for seed in range(60):
        table = random_table(np.random.default_rng(seed))
        for i, last in enumerate(table.reach.tolist()):
            for j in range(i + 1, last + 1):
                for a, b in ((i, j), (j, i)):
                    pair = table.neighbouring_answers(a, b)
                    assert table._rows(np.asarray(pair)).tolist() == [a, b]
                    assert table.query.clip(pair).tolist() == list(pair)
                    # The doubles of two ends of cells may be rounded apart.
                    assert abs(pair[0] - pair[1]) <= table.query.sensitivity * (1 + 1e-12)
                    checked += 1
    assert checked > 100
