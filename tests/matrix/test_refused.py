"""Cells that make no sense are refused with the reason; all others are built."""

from __future__ import annotations

import pytest

from rangebound.errors import ArgumentError
from tests.matrix.cells import ALLOWED, BOUNDINGS, CUBE, NOISES, REFUSED, SUPPORTS, Cell


def test_the_cube_is_whole() -> None:
    assert len(CUBE) == len(ALLOWED) + len(REFUSED) == len(set(CUBE))
    assert {cell[:3] for cell in CUBE} == {(n, b, s) for n in NOISES for b in BOUNDINGS for s in SUPPORTS}


@pytest.mark.parametrize("cell", REFUSED, ids=str)
def test_a_cell_that_makes_no_sense_is_refused_with_the_reason(cell: Cell) -> None:
    with pytest.raises(ArgumentError, match=cell.reason()):
        cell.mechanism()


def test_every_other_cell_is_built() -> None:
    for cell in ALLOWED:
        mechanism = cell.mechanism()
        assert mechanism.support is not None
        assert hash(mechanism) == hash(cell.mechanism())
