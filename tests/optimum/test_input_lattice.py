"""Lattices whose distances are exact, on the side that each use needs."""

from fractions import Fraction

import pytest

import rangebound as rb
from rangebound.mechanisms.finite import reach
from rangebound.optimum.input_lattice import (
    first_neighbours,
    fitting_parts,
    limit_inputs,
    limit_inputs_from_both_ends,
    table_inputs,
)

RANGES = [
    rb.Interval(0, 10),
    rb.Interval(0.1, 0.7),
    rb.Interval(-3.3, 12.9),
    rb.Interval(1e6, 1e6 + 5),
    rb.Union((0.1, 1.3), (2.2, 3.7)),
]


@pytest.mark.few(23)
@pytest.mark.parametrize("answers", RANGES, ids=str)
@pytest.mark.parametrize("sensitivity", [0.1, 0.3, 1 / 3])
@pytest.mark.parametrize("parts", [1, 3, 8])
def test_tables_round_at_no_cost_and_points_of_a_limit_are_neighbours_as_far_as_it_reaches(answers, sensitivity, parts):
    step = Fraction(sensitivity) / parts
    inputs, points = table_inputs(answers, step), limit_inputs(answers, step, 200)
    assert all(any(lower <= each <= upper for lower, upper in answers.spans) for each in (*inputs, *points))
    last = reach(answers, sensitivity, inputs)
    assert max(last[i] - i for i in range(len(inputs))) <= parts + (len(answers.spans) - 1)
    first = first_neighbours(rb.Query(range=answers, sensitivity=sensitivity), points)
    inside = [j - i for j, i in enumerate(first) if j >= parts and points[j] - points[j - parts] < 1.01 * sensitivity]
    assert inside
    assert min(inside) == parts
    for j, i in enumerate(first):
        assert Fraction(points[j]) - Fraction(points[i]) <= Fraction(sensitivity)
        assert i == 0 or Fraction(points[j]) - Fraction(points[i - 1]) > Fraction(sensitivity)


@pytest.mark.parametrize(("lower", "upper", "sensitivity"), [(0.0, 7.7, 1.0), (3.0, 10.3, 0.7), (1e6, 1e6 + 5.3, 0.3)])
def test_points_from_both_ends_are_two_lattices_in_turn(lower, upper, sensitivity):
    inputs = limit_inputs_from_both_ends(rb.Interval(lower, upper), Fraction(sensitivity) / 4)
    assert inputs[0] >= lower
    assert inputs[-1] <= upper
    assert inputs[-1] - inputs[0] == pytest.approx(upper - lower, rel=1e-9)
    first = first_neighbours(rb.Query(range=rb.Interval(lower, upper), sensitivity=sensitivity), inputs)
    assert {j - i for j, i in enumerate(first) if j >= 8} == {8}


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 4.0, 12.0, 700.0])
@pytest.mark.parametrize("most", [1, 2, 5, 64])
def test_parts_that_fit_are_neither_too_many_nor_few(epsilon, most):
    assert most / 2 - 1 < fitting_parts(epsilon, most) <= most
