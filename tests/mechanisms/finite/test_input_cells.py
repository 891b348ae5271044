"""Which answers go to which input, which inputs are neighbours, and what an interval of inputs covers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.mechanisms.finite import TOTAL, cells, reach
from rangebound.mechanisms.finite.input_cells import intervals, pieces, thresholds
from tests.mechanisms.finite import brute_force
from tests.mechanisms.finite.random_tables import random_table

BIT = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)


def pairs(found):
    return {(i, j) for i, last in enumerate(found.tolist()) for j in range(i + 1, last + 1)}


@pytest.mark.few(15)
@pytest.mark.parametrize("seed", range(80))
def test_neighbours_are_those_that_some_answers_go_to(seed):
    table = random_table(np.random.default_rng(seed))
    expected = brute_force.neighbouring_inputs(table.inputs, table.query.range.spans, table.query.sensitivity)
    assert pairs(table.reach) == expected


@pytest.mark.parametrize(("sensitivity", "steps"), [(1.0, 4), (0.25, 1), (0.3, 2), (0.1, 1), (0.99, 4), (1.01, 5)])
def test_on_a_lattice_the_reach_is_the_sensitivity_in_steps_rounded_up(sensitivity, steps):
    inputs = np.arange(41) / 4.0
    assert reach(rb.Interval(0, 10), sensitivity, inputs).tolist() == [min(i + steps, 40) for i in range(41)]


def test_points_of_a_grid_are_neighbours_up_to_the_sensitivity_in_decimals():
    grid = rb.Grid(step=0.01, within=rb.Interval(0, 1))
    inputs = grid.points.tolist()
    assert reach(grid, 0.05, inputs).tolist() == [min(i + 5, 100) for i in range(101)]
    # As an interval some answers near 6 steps apart are neighbours: the doubles near 0.05 do not fit exactly.
    assert (reach(rb.Interval(0, 1), 0.05, inputs) - np.arange(101)).max() == 6
    assert reach(grid, 0.049, inputs).tolist() == [min(i + 4, 100) for i in range(101)]


def test_thresholds_are_the_first_doubles_that_go_up():
    inputs = (0.0, 0.1, 0.30000000000000004, 1e300)
    for value, (low, high) in zip(thresholds(inputs), itertools.pairwise(inputs), strict=True):
        middle = (Fraction(low) + Fraction(high)) / 2
        assert Fraction(value) >= middle > Fraction(math.nextafter(value, -math.inf))


def test_cells_and_their_pieces_cover_the_range():
    days = rb.Union((1, 5), (8, 12))
    found = cells(days, (1.0, 9.0))
    assert [(each.lower, each.upper, each.closed) for each in found] == [(1, 5, False), (5, 12, True)]
    assert pieces(days, found[1]) == [(5, 5), (8, 12)]
    assert cells(rb.Interval(0, math.inf), (0.0, 2.0))[1].upper == math.inf


def test_control_ties_rounded_half_even_break_privacy():
    """Answers 0.5 and 1.5 are neighbours. Half-even rounding sends them two inputs apart, half-up does not."""
    inputs = np.arange(5.0)
    allowed = pairs(reach(rb.Interval(0, 4), 1.0, inputs))
    at = np.arange(0.0, 4.01, 0.125)
    up = np.searchsorted(thresholds(inputs), at, side="right")
    even = np.rint(at).astype(int)

    def seen(places):
        return {
            tuple(sorted((int(places[i]), int(places[j]))))
            for i in range(len(at))
            for j in range(len(at))
            if abs(at[i] - at[j]) <= 1.0 and places[i] != places[j]
        }

    assert seen(up) <= allowed
    assert (0, 2) in seen(even) - allowed


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


@pytest.mark.few(30)
@pytest.mark.parametrize("seed", range(60))
def test_answers_are_covered_with_the_probability_that_is_promised_and_neighbours_are_near(seed):
    table = random_table(np.random.default_rng(seed))
    for level in LEVELS:
        lower, upper = table.confidence_interval(table.outputs, level)
        hull = table.query.range.hull
        assert (hull.lower <= lower).all()
        assert (lower <= upper).all()
        assert (upper <= hull.upper).all()
        assert coverage(table, (lower, upper)) >= Fraction(level)
    for i, last in enumerate(table.reach.tolist()):
        for a, b in ((x, y) for j in range(i + 1, last + 1) for x, y in ((i, j), (j, i))):
            pair = table.neighbouring_answers(a, b)
            assert table._rows(np.asarray(pair)).tolist() == [a, b]
            assert table.query.clip(pair).tolist() == list(pair)
            # The doubles of two ends of cells may be rounded apart.
            assert abs(pair[0] - pair[1]) <= table.query.sensitivity * (1 + 1e-12)


def test_intervals_of_a_lower_level_are_too_narrow_for_a_higher_one():
    """The control: coverage is measured, and falls below the level where intervals are made for less."""
    short = [
        coverage(table, table.confidence_interval(table.outputs, 0.3)) < Fraction(9, 10)
        for table in (random_table(np.random.default_rng(seed)) for seed in range(60))
    ]
    assert sum(short) > 10


def test_a_tail_of_exactly_its_share_is_compatible_and_one_unit_less_is_not():
    for unit, expected in ((0, 0.0), (1, 0.5)):
        rare = TOTAL // 4 - unit  # of a level of 1/2: each tail has a quarter
        weights = [[TOTAL - rare, rare], [TOTAL // 2, TOTAL // 2]]
        table = rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 1), weights=weights)
        assert table.confidence_interval(1.0, 0.5)[0] == expected


def test_an_output_that_is_rare_everywhere_gives_one_input():
    weights = [[TOTAL - 2, 2], [TOTAL - 1, 1]]
    table = rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 9), weights=weights)
    assert table.confidence_interval(9.0) == (0.0, 0.0)
    assert [each.tolist() for each in intervals(table.weights, table._cells, table.inputs, 0.95)] == [[0, 0], [1, 0]]


def test_what_is_never_published_is_refused():
    table = rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 1), weights=[[2**61, 2**61]] * 2)
    for wrong in (0.5, -1.0, 2.0, [0.0, 0.5]):
        with pytest.raises(rb.ArgumentError, match="is never published"):
            table.confidence_interval(wrong)
    with pytest.raises(rb.ArgumentError, match="level"):
        table.confidence_interval(0.0, 1.0)
