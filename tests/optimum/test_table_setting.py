"""Designs in doubles: how many inputs there are, and which of them are blocks."""

import numpy as np
import pytest

import rangebound as rb
from rangebound.optimum.limit_proof import LimitedError, Over
from rangebound.optimum.table_setting import TableShape, scales_of, table_setting


def setting(answers, sensitivity, epsilon, loss=LimitedError.MAE, at=Over.WORST, shape=TableShape.SMOOTH):
    query = rb.Query(range=answers, sensitivity=sensitivity)
    return table_setting(query, epsilon, loss, at, shape, None, None)


@pytest.mark.parametrize(
    ("epsilon", "loss", "at", "inputs", "wide"),
    [
        (0.5, LimitedError.MAE, Over.WORST, 81, False),  # all entries
        (1.0, LimitedError.MAE, Over.WORST, 161, False),  # peaked
        (4.0, LimitedError.MAE, Over.WORST, 321, True),  # boundary layers
        (4.0, LimitedError.MSE, Over.WORST, 200, False),
        (2.0, LimitedError.MAE, Over.AVERAGE, 321, True),
    ],
)
def test_the_wider_the_range_for_the_noise_the_more_inputs(epsilon, loss, at, inputs, wide):
    found = setting(rb.Interval(0, 10), 1.0, epsilon, loss, at)
    assert (len(found.inputs), found.wide) == (inputs, wide)
    assert found.half
    assert found.band >= int((found.last - np.arange(inputs)).max())


def test_a_grid_has_its_own_inputs_and_a_union_no_middle():
    grid = setting(rb.Grid(step=1, within=rb.Interval(0, 100)), 1.0, 0.5)
    assert (len(grid.inputs), grid.wide) == (101, True)
    union = setting(rb.Union((0, 40), (41, 90)), 1.0, 0.5)
    assert not union.wide
    assert not union.half


def test_parts_of_a_range_without_neighbours_in_each_other_are_blocks():
    found = setting(rb.Union((0, 2), (5, 7)), 1.0, 1.0)
    blocks = found.blocks
    assert [block.start for block in blocks] == [0, len(found.inputs) // 2]
    outputs, part = found.part(blocks[1])
    assert part.inputs[0] >= 5.0
    assert part.outputs[0] >= 5.0
    assert len(outputs) == len(part.outputs)


def test_the_width_is_counted_in_scales_of_the_noise():
    assert scales_of(rb.Query(range=rb.Interval(-1, 4), sensitivity=0.5), 2.0) == 20.0
