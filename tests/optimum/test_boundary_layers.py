"""Boundary layers: private and smooth over wide ranges, with the error of the staircase between them."""

from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.mechanisms.finite.weights import exponential
from rangebound.optimum.boundary_layers import layered
from tests.optimum.designs import cells, check_smooth_and_private
from tests.optimum.test_smooth_table import falls_away
from tests.thinning import crossed

CASES = [(60, 2, 8.0), (401, 16, 1.0), (201, 1, 0.2), (97, 32, 4.0), (150, 3, 0.7), (41, 1, 1.0)]


@pytest.mark.few(3)
@crossed({"count, steps, epsilon": CASES, "squared": [False, True], "average": [False, True]})
def test_every_pair_of_neighbours_is_private_and_every_row_falls_away(count, steps, epsilon, squared, average):
    losses, last = cells(np.arange(float(count)), steps, squared)
    table = layered(losses, np.full(losses.shape[:2], 0.5 / count) if average else None, steps, epsilon)
    check_smooth_and_private(table, last, epsilon, 1e-9)
    if not squared and not average:  # the layers have no more error than the middle
        risks = np.einsum("ty,qty->qt", table, losses).max(axis=0)
        assert risks.max() < risks[count // 2] * 1.001


def asked(answers, sensitivity=1.0, **others):
    return {"query": rb.Query(range=answers, sensitivity=sensitivity), **others}


@pytest.mark.claim("optimum")
@pytest.mark.few(1)
# The last two were 7 and 12 % above it: on eight inputs to a sensitivity, and with stairs in the middle.
@pytest.mark.parametrize(
    ("options", "objective"),
    [
        (asked(rb.Grid(step=0.01, within=rb.Interval(0, 2)), 0.05, epsilon=2.0), "mae"),
        (asked(rb.Interval(0, 10), epsilon=4.0), "mae"),
        (asked(rb.Interval(-3, 6.2), 0.3, epsilon=2.0), "mae"),
        (asked(rb.Grid(step=1, within=rb.Interval(0, 400)), epsilon=1.0), "mae"),
        (asked(rb.Union((0, 2), (3, 10)), 1.5, epsilon=1.5), "mae"),
        (asked(rb.Interval(0, 10), epsilon=2.0, step=1 / 16), "mse"),
    ],
    ids=["grid", "layers", "uneven layers", "counts", "peaked union", "peaked squares"],
)
def test_a_fine_table_is_private_and_smooth_in_whole_numbers_and_near_the_limit(options, objective):
    table, epsilon, hull = rb.optimal(**options, objective=objective), options["epsilon"], options["query"].range.hull
    assert len(table.inputs) > 95
    assert falls_away(table)
    assert table.is_private(epsilon)
    assert not table.is_private(0.999 * epsilon)
    assert table.limit.value < getattr(table.worst_error(), objective) < 1.05 * table.limit.value
    assert {table.outputs[0], table.outputs[-1]} == {hull.lower, hull.upper}


@pytest.mark.slow
def test_a_table_of_a_thousand_inputs_is_private_for_all_pairs():
    """In Python's own whole numbers, without the windows of `is_private`."""
    table = rb.optimal(**asked(rb.Interval(0, 1000), epsilon=0.3))
    assert len(table.inputs) == 1001
    assert falls_away(table)
    bound = exponential(Fraction(0.3))
    for one, two in zip(table.weights[:-1:25].tolist(), table.weights[1::25].tolist(), strict=True):
        assert all(bound.at_most(a, b) and bound.at_most(b, a) for a, b in zip(one, two, strict=True))


def test_layers_that_meet_are_refused():
    with pytest.raises(rb.Unsatisfiable, match="too few scales of the noise"):
        layered(cells(np.arange(40.0), 8)[0], None, 8, 0.2)


@pytest.mark.parametrize(
    "changed",
    [{"at": np.ones(321)}, {"epsilon": 1.0}, asked(rb.Union((0, 4), (4.5, 10)))],
    ids=["weights", "narrow", "union"],
)
def test_more_inputs_than_one_program_takes_need_a_wide_range(changed):
    with pytest.raises(rb.ArgumentError, match="use a larger step"):
        rb.optimal(**(asked(rb.Interval(0, 10), epsilon=4.0, step=1 / 32) | changed))
