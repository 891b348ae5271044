"""Boundary layers: private and smooth over wide ranges, with the error of the staircase between them."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import rangebound as rb
from rangebound.finite.weights import exponential
from rangebound.optimum.boundary_layers import StairLattice, layered
from tests.optimum.test_smooth_table import falls_away
from tests.thinning import crossed

CASES = [(401, 16, 1.0), (201, 1, 0.2), (97, 32, 4.0), (150, 3, 0.7), (60, 2, 8.0), (41, 1, 1.0)]


def losses(count, squared=False):
    """Of real answers: at both ends of every cell of width 1."""
    x = np.arange(float(count))
    ends = np.clip(np.stack((x - 0.5, x + 0.5)), 0.0, count - 1.0)
    away = np.abs(ends[:, :, None] - x)
    return away**2 if squared else away


@cache
def layered_table(count, steps, epsilon, squared, average):
    loss = losses(count, squared)
    return layered(loss, np.full(loss.shape[:2], 0.5 / count) if average else None, steps, epsilon)


def worst_ratio(table, steps):
    """The largest excess of an entry over e^epsilon times that of a neighbour, over all pairs: the definition."""
    return lambda epsilon: max(
        float((one - np.exp(epsilon) * two).max())
        for apart in range(1, steps + 1)
        for one, two in ((table[apart:], table[:-apart]), (table[:-apart], table[apart:]))
    )


@crossed({"count, steps, epsilon": CASES, "squared": [False, True], "average": [False, True]})
def test_every_pair_of_neighbours_is_private_and_every_row_falls_away(count, steps, epsilon, squared, average):
    table = layered_table(count, steps, epsilon, squared, average)
    assert table.sum(axis=1) == pytest.approx(1.0)
    assert worst_ratio(table, steps)(epsilon) < 1e-9
    assert worst_ratio(table, steps)(0.98 * epsilon) > 1e-5  # the control: less epsilon is too little
    for here, row in enumerate(table):
        assert (np.diff(row[: here + 1]) > -1e-9).all()
        assert (np.diff(row[here:]) < 1e-9).all()


@pytest.mark.parametrize(("count", "steps", "epsilon"), CASES)
def test_the_layers_have_no_more_error_than_the_middle(count, steps, epsilon):
    table = layered_table(count, steps, epsilon, False, False)
    risks = np.einsum("ty,qty->qt", table, losses(count)).max(axis=0)
    assert risks.max() < risks[count // 2] * 1.001


@pytest.mark.parametrize(("count", "steps", "epsilon"), CASES)
def test_rows_of_the_middle_are_staircases_with_flat_ends(count, steps, epsilon):
    lattice = StairLattice(last=count - 1, steps=steps, epsilon=epsilon, plateau=steps // 3)
    rows = range(lattice.first, count - lattice.first)
    table = np.array([lattice.row(at) for at in rows])
    assert table.sum(axis=1) == pytest.approx(1.0)
    assert worst_ratio(table, steps)(epsilon) < 1e-15
    for at, row in zip(rows, table, strict=True):
        assert (np.diff(row[: at + 1]) > -1e-15).all()
        assert (np.diff(row[at:]) < 1e-15).all()
    flatter = np.array([StairLattice(last=count - 1, steps=steps, epsilon=epsilon, plateau=0).row(at) for at in rows])
    if steps >= 3:
        assert not np.allclose(table, flatter)


def test_a_flat_part_that_is_narrower_is_not_smooth():
    """The control: with one output less at the end, what is flat is higher than the next step."""

    class Narrow(StairLattice):
        flat = 5

    wide = StairLattice(last=200, steps=16, epsilon=1.0, plateau=5)
    assert wide.flat == 10
    rows = [Narrow(last=200, steps=16, epsilon=1.0, plateau=5).row(at) for at in range(30, 60)]
    assert any((np.diff(row[:30]) < -1e-4).any() for row in rows)


@pytest.mark.parametrize(
    ("answers", "sensitivity", "epsilon", "bar"),
    [
        (rb.Interval(0, 10), 1.0, 4.0, 1.05),
        (rb.Interval(-3, 6.2), 0.3, 2.0, 1.05),
        (rb.Grid(step=1, within=rb.Interval(0, 400)), 1.0, 1.0, 1.05),
        (rb.Grid(step=0.01, within=rb.Interval(0, 2)), 0.05, 2.0, 1.05),
    ],
    ids=str,
)
def test_a_wide_table_is_private_and_smooth_in_whole_numbers_and_near_the_limit(answers, sensitivity, epsilon, bar):
    table = rb.optimal(query=rb.Query(range=answers, sensitivity=sensitivity), epsilon=epsilon)
    assert len(table.inputs) > 121
    assert falls_away(table)
    assert table.is_private(epsilon)
    assert not table.is_private(0.999 * epsilon)
    assert table.limit.value < table.worst_error().mae < bar * table.limit.value
    assert {table.outputs[0], table.outputs[-1]} == {answers.hull.lower, answers.hull.upper}


def test_a_table_of_a_thousand_inputs_is_private_for_all_pairs():
    """In Python's own whole numbers, without the windows of `is_private`."""
    table = rb.optimal(query=rb.Query(range=rb.Interval(0, 1000), sensitivity=1.0), epsilon=0.3)
    assert len(table.inputs) == 1001
    assert falls_away(table)
    bound = exponential(Fraction(0.3))
    for one, two in zip(table.weights[:-1:25].tolist(), table.weights[1::25].tolist(), strict=True):
        assert all(bound.at_most(a, b) and bound.at_most(b, a) for a, b in zip(one, two, strict=True))


def test_layers_that_meet_are_refused():
    with pytest.raises(rb.Unsatisfiable, match="too few scales of the noise"):
        layered(losses(40), None, 8, 0.2)


@pytest.mark.parametrize(
    "changed",
    [{"at": np.ones(321)}, {"epsilon": 1.0}, {"query": rb.Query(range=rb.Union((0, 4), (4.5, 10)), sensitivity=1.0)}],
    ids=["weights", "narrow", "union"],
)
def test_more_inputs_than_one_program_takes_need_a_wide_range(changed):
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    with pytest.raises(rb.ArgumentError, match="use a larger step"):
        rb.optimal(**({"query": query, "epsilon": 4.0, "step": 1 / 32} | changed))
