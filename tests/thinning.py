"""A part of many cases by default, all of them with the long tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def some(cases: Iterable[Any], *, of: int) -> list[Any]:
    """Every `of`-th case by default; the others are marked `long`."""
    return [_marked((case,), at % of > 0) for at, case in enumerate(cases)]


def some_pairs(first: Iterable[Any], second: Iterable[Any], *, of: int) -> list[Any]:
    """Every `of`-th pair by default, shifted from row to row, so that every value of either side is met."""
    rows, columns = list(first), list(second)
    if of > len(columns):
        raise ValueError(f"of={of}: a row of {len(columns)} would be left out")
    return [
        _marked((row, column), (at + across) % of > 0)
        for (at, row), (across, column) in itertools.product(enumerate(rows), enumerate(columns))
    ]


def _marked(values: tuple[Any, ...], long: bool) -> Any:
    return pytest.param(*values, marks=[pytest.mark.long] * long)
