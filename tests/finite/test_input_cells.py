"""Which answers go to which input, and which inputs are neighbours: by Theorem and by trying answers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.finite import cells, reach
from rangebound.finite.input_cells import pieces, thresholds
from tests.finite import brute_force
from tests.finite.random_tables import random_table


def pairs(found):
    return {(i, j) for i, last in enumerate(found.tolist()) for j in range(i + 1, last + 1)}


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


def test_a_gap_parts_inputs_by_the_distance_of_its_ends():
    days = rb.Union((1, 5), (8, 12))
    inputs = [*range(1, 6), *range(8, 13)]
    assert reach(days, 3.0, inputs).tolist() == [3, 4, 4, 4, 5, 8, 9, 9, 9, 9]
    assert reach(days, 2.99, inputs).tolist()[4] == 4


def test_an_input_without_answers_is_refused():
    with pytest.raises(rb.ArgumentError, match=r"inputs=6.5: no answer of the range"):
        reach(rb.Union((1, 5), (8, 12)), 3.0, [1.0, 5.0, 6.5, 8.0])
    with pytest.raises(rb.ArgumentError, match=r"inputs=30.0: no answer"):
        reach(rb.Interval(0, 10), 1.0, [0.0, 10.0, 30.0])


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
    # A table that is 1-private by the true pairs and not by those of half-even rounding.
    rho = math.exp(-1.0)
    noise = np.array([[rho ** abs(i - j) for j in range(5)] for i in range(5)])
    noise /= noise.sum(axis=1, keepdims=True)
    query = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
    table = rb.Table.from_probabilities(query=query, inputs=inputs, outputs=inputs, probabilities=noise, epsilon=1.3)
    assert table.epsilon() <= 1.3
    loss = np.abs(np.log(table.weights[0] / table.weights[2])).max()
    assert loss > 1.9
