"""Smooth tables: the shape as a property of whole numbers, and its price."""

from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.mechanisms.finite.weights import exponential
from rangebound.optimum import best_table, smooth_table
from rangebound.optimum.limit_proof import LimitedError, Over
from rangebound.optimum.smooth_table import is_smooth, layered, peaked, smooth, smooth_weights
from rangebound.optimum.table_setting import TableShape, table_setting
from tests.optimum.designs import cells, check_smooth_and_private, excess, least_error
from tests.thinning import crossed


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


EVEN = np.arange(41.0) / 4.0
GAP = np.concatenate((np.arange(9.0) / 4.0, 3.0 + np.arange(21.0) / 4.0))


@pytest.mark.few(4)
@pytest.mark.parametrize(("inputs", "half"), [(EVEN, True), (EVEN, False), (EVEN[:40], True), (GAP, False)])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_every_pair_is_private_every_row_falls_away_and_every_column_is_peaked(inputs, half, squared, average):
    losses, last = cells(inputs, 1.5, squared)
    prior = np.full(losses.shape[:2], 0.5 / len(inputs)) if average else None
    table = peaked(losses, prior, last, 1.5, inputs, inputs, half, 8)
    check_smooth_and_private(table, last, 1.5, 1e-8)
    for here, column in enumerate(table.T):
        assert (np.diff(column[: here + 1]) > -1e-8).all()
        assert (np.diff(column[here:]) < 1e-8).all()


@pytest.mark.slow
@pytest.mark.parametrize(("inputs", "half"), [(EVEN, True), (GAP, False)])
@pytest.mark.parametrize("squared", [False, True])
def test_peaks_and_a_band_cost_nearly_nothing_where_the_noise_is_narrow(inputs, half, squared):
    """The second route is the program over all entries and all pairs."""
    losses, last = cells(inputs, 1.0, squared)
    every = smooth(losses, None, last, 2.0, inputs, inputs, half)
    least = (losses * every).sum(axis=2).max()
    wide, narrow = (peaked(losses, None, last, 2.0, inputs, inputs, half, band) for band in (len(inputs), 4))
    risks = [(losses * each).sum(axis=2).max() for each in (wide, narrow)]
    assert least * (1.0 - 1e-6) < risks[0] < 1.002 * least
    assert risks[0] * (1.0 - 1e-6) < risks[1] < 1.001 * risks[0]


@pytest.mark.parametrize("half", [True, False])
def test_an_output_between_two_inputs_is_as_likely_at_either(half):
    outputs = np.arange(0.25, 5.0, 0.5)
    inputs = np.arange(11.0) / 2.0
    losses = np.abs(inputs[:, None] - outputs)[None]
    last = np.minimum(np.arange(11) + 2, 10)
    table = peaked(losses, None, last, 1.0, inputs, outputs, half, 4)
    assert excess(table, last, 1.0) < 1e-8
    assert is_smooth(np.round(table * 1e7).astype(np.int64), inputs, outputs)
    assert [table[i, i] for i in range(10)] == pytest.approx([table[i + 1, i] for i in range(10)])


@pytest.mark.slow
def test_where_a_solver_does_not_end_soon_a_table_has_fewer_inputs(monkeypatch):
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    fine = table_setting(query, 2.0, LimitedError.MAE, Over.WORST, TableShape.SMOOTH, None, None)
    monkeypatch.setattr(smooth_table, "_ROUNDS", 1)
    with pytest.raises(rb.Unsatisfiable):  # the control: the program itself has no table now
        best_table._smooth(fine)
    table = best_table._smooth_or_coarser(fine, LimitedError.MAE, Over.WORST, None)
    assert 40 < len(table.inputs) < 0.3 * len(fine.inputs)
    assert table.is_private(2.0)
    assert falls_away(table)


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
