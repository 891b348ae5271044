"""Smooth tables: the shape as a property of whole numbers, and its price."""

import numpy as np
import pytest

import rangebound as rb
from rangebound.optimum.smooth_table import is_smooth, smooth, smooth_weights
from tests.optimum.designs import least_error


def falls_away(table):
    """Every row falls away from its input on both sides, without a spike at the ends: the definition, in integers."""
    for here, row in zip(table.inputs, table.weights.tolist(), strict=True):
        left = [weight for y, weight in zip(table.outputs, row, strict=True) if y <= here]
        right = [weight for y, weight in zip(table.outputs, row, strict=True) if y >= here]
        if left != sorted(left) or right != sorted(right, reverse=True):
            return False
    return True


def error(table, at):
    if isinstance(table.query.range, rb.Grid) and at == "average":
        return float(table.error(np.array(table.inputs)).mae.mean())
    return (table.worst_error() if at == "worst" else table.average_error()).mae


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("answers", "sensitivity", "epsilon"),
    [
        (rb.Grid(step=0.1, within=rb.Interval(0, 2)), 0.3, 2.0),
        (rb.Interval(0, 5), 1.0, 1.0),
        (rb.Interval(-1, 2), 1.0, 0.2),
        (rb.Union((0, 2), (3, 4)), 1.5, 1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("at", ["worst", "average"])
def test_a_smooth_table_falls_away_from_the_truth_and_is_private(answers, sensitivity, epsilon, at):
    query = rb.Query(range=answers, sensitivity=sensitivity)
    step = None if isinstance(answers, rb.Grid) else 0.25
    table = rb.optimal(query=query, epsilon=epsilon, at=at, step=step)
    assert falls_away(table)
    assert table.is_private(epsilon)
    assert table.claim == rb.Claim(epsilon=epsilon)
    free = rb.optimal(query=query, epsilon=epsilon, at=at, step=step, shape="free")
    one, other = error(table, at), error(free, at)
    assert free.limit.value < one
    assert other < 1.002 * one


def test_a_free_table_is_not_smooth():
    query = rb.Query(range=rb.Interval(0, 2), sensitivity=1.0)
    assert not falls_away(rb.optimal(query=query, epsilon=0.5, step=0.25, shape="free"))


@pytest.mark.parametrize("half", [True, False])
def test_halves_and_wholes_have_the_same_error(half):
    x = np.arange(7.0)
    losses = np.abs(x[:, None] - x)[None]
    last = np.minimum(np.arange(7) + 2, 6)
    table = smooth(losses, None, last, 1.0, x, x, half)
    risk = (table * losses[0]).sum(axis=1).max()
    assert risk == pytest.approx((smooth(losses, None, last, 1.0, x, x, not half) * losses[0]).sum(axis=1).max())
    assert least_error(losses, np.maximum(np.arange(7) - 2, 0), 1.0) <= risk * (1.0 + 1e-9)


def test_units_that_rounding_put_in_the_wrong_place_go_to_the_mode():
    x = np.arange(4.0)
    weights = np.array([[7, 5, 6, 2], [5, 9, 3, 3]])
    made = smooth_weights(weights, x[:2], x)
    assert made.tolist() == [[8, 5, 5, 2], [5, 9, 3, 3]]
    assert is_smooth(made, x[:2], x)
    assert not is_smooth(weights, x[:2], x)
