"""Peaked tables: private and smooth for all pairs, no worse than the program over all entries, and near the limit."""

import numpy as np
import pytest

import rangebound as rb
from rangebound.optimum import best_table, peaked_table
from rangebound.optimum.limit_proof import LimitedError, Over
from rangebound.optimum.peaked_table import peaked
from rangebound.optimum.smooth_table import is_smooth, smooth
from rangebound.optimum.table_setting import TableShape, table_setting
from tests.optimum.designs import cells, check_smooth_and_private, excess
from tests.optimum.test_smooth_table import falls_away

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
    monkeypatch.setattr(peaked_table, "_ROUNDS", 1)
    with pytest.raises(rb.Unsatisfiable):  # the control: the program itself has no table now
        best_table._smooth(fine)
    table = best_table._smooth_or_coarser(fine, LimitedError.MAE, Over.WORST, None)
    assert 40 < len(table.inputs) < 0.3 * len(fine.inputs)
    assert table.is_private(2.0)
    assert falls_away(table)
