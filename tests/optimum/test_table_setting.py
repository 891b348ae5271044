"""Designs in doubles: how many inputs there are, and which of them are blocks."""

import rangebound as rb
from rangebound.optimum.limit_proof import LimitedError, Over
from rangebound.optimum.table_setting import TableShape, table_setting


def setting(answers, sensitivity, epsilon):
    query = rb.Query(range=answers, sensitivity=sensitivity)
    return table_setting(query, epsilon, LimitedError.MAE, Over.WORST, TableShape.SMOOTH, None, None)


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
