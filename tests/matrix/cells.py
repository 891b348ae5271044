"""The cube: every noise, bounding and support; the query's range equal to the support, smaller, larger, disjoint."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import rangebound as rb
from tests.thinning import covering

INF = math.inf
LINE = rb.Interval(-INF, INF)

NOISES = {
    "laplace": rb.Laplace(scale=0.8),
    "gaussian": rb.Gaussian(scale=0.8),
    "truncated_laplacian": rb.TruncatedLaplacian(scale=0.8, limit=7.0),
}
BOUNDINGS = {"truncate": rb.TRUNCATE, "rectify": rb.RECTIFY, "quantize": rb.QUANTIZE, "unbounded": rb.UNBOUNDED}

# Each support with the ranges to ask it for. A range equal to a grid is its hull, and nothing lies outside a line.
SUPPORTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "interval": (
        rb.Interval(-1, 2),
        {
            "equal": rb.Interval(-1, 2),
            "smaller": rb.Interval(-0.25, 1.5),
            "larger": rb.Interval(-3, 4),
            "disjoint": rb.Interval(2.5, 4.5),
            "line": LINE,
        },
    ),
    "upper_half_line": (
        rb.Interval(0.5, INF),
        {
            "equal": rb.Interval(0.5, INF),
            "smaller": rb.Interval(1, 4),
            "larger": rb.Interval(-2, INF),
            "disjoint": rb.Interval(-3, -1),
            "line": LINE,
        },
    ),
    "lower_half_line": (
        rb.Interval(-INF, 0.25),
        {
            "equal": rb.Interval(-INF, 0.25),
            "smaller": rb.Interval(-2, 0),
            "larger": rb.Interval(-INF, 3),
            "disjoint": rb.Interval(1, 3),
            "line": LINE,
        },
    ),
    "line": (LINE, {"equal": LINE, "smaller": rb.Interval(-1, 2)}),
    "union": (
        rb.Union((-2, -1), (0, 0.75), (1.5, 3)),
        {
            "equal": rb.Union((-2, -1), (0, 0.75), (1.5, 3)),
            "smaller": rb.Union((-1.5, -1), (0, 0.5)),
            "larger": rb.Interval(-3, 4),
            "disjoint": rb.Interval(-0.9, -0.1),
            "line": LINE,
        },
    ),
    "open_union": (
        rb.Union((-INF, -1), (1, INF)),
        {
            "equal": rb.Union((-INF, -1), (1, INF)),
            "smaller": rb.Union((-2, -1), (1, 3)),
            "larger": LINE,
            "disjoint": rb.Interval(-0.75, 0.75),
        },
    ),
    "grid": (
        rb.Grid(step=0.5, within=rb.Interval(-1, 2)),
        {
            "equal": rb.Interval(-1, 2),
            "smaller": rb.Interval(0, 1.25),
            "larger": rb.Interval(-2, 4),
            "disjoint": rb.Interval(2.5, 4.5),
            "line": LINE,
        },
    ),
}

# What is refused, and the words that say why.
REASONS = {
    ("rectify", "union"): "clamping leaves values in the gaps",
    ("rectify", "open_union"): "clamping leaves values in the gaps",
    ("rectify", "grid"): "clamping does not reach the points",
    **{("quantize", name): "nothing to round to" for name in SUPPORTS if name != "grid"},
    **{("unbounded", name): "unbounded noise leaves every support" for name in SUPPORTS if name != "line"},
}


class Cell(NamedTuple):
    """One cell of the cube, by the names of its parts."""

    noise: str
    bounding: str
    support: str
    range: str

    def mechanism(self) -> rb.Mechanism:
        """The mechanism of the cell; refused ones raise here."""
        support, ranges = SUPPORTS[self.support]
        query = rb.Query(range=ranges[self.range], sensitivity=1.0)
        return rb.Mechanism(noise=NOISES[self.noise], query=query, support=support, bounding=BOUNDINGS[self.bounding])

    def reason(self) -> str | None:
        """Why the cell is refused, or None where it is allowed."""
        if (self.bounding, self.support) in REASONS:
            return REASONS[self.bounding, self.support]
        if self.noise == "truncated_laplacian" and self.bounding == "truncate":
            if self.support == "grid":
                return "would depend on the true answer"
            bounded = self.support in ("interval", "upper_half_line", "lower_half_line", "union")
            if self.range == "line" and bounded:
                return "cannot reach the support from every true answer"
        return None

    def __str__(self) -> str:
        return "-".join(self)


CUBE = [
    Cell(noise, bounding, support, answers)
    for noise, bounding, support in itertools.product(NOISES, BOUNDINGS, SUPPORTS)
    for answers in SUPPORTS[support][1]
]
ALLOWED = [cell for cell in CUBE if cell.reason() is None]
REFUSED = [cell for cell in CUBE if cell.reason() is not None]


def parts(cell: Cell) -> Iterator[Hashable]:
    """What a cell has that a formula may depend on: its law (noise, bounding, support), and every two of its parts."""
    yield cell[:3]
    yield from itertools.combinations(enumerate(cell), 2)


def each_cell(cells: Iterable[Cell]) -> pytest.MarkDecorator:
    """Cells for a test; by default so few that every law and every two parts are met."""
    return pytest.mark.parametrize("cell", covering(cells, parts), ids=str)


every_cell = each_cell(ALLOWED)


def every_cell_with(name: str, values: Iterable[float]) -> pytest.MarkDecorator:
    """The same beside values of another argument, each of which is met with every part."""
    pairs = covering(
        itertools.product(ALLOWED, values), lambda pair: [*parts(pair[0]), *((part, pair[1]) for part in pair[0])]
    )
    cases = [pytest.param(*each.values[0], marks=each.marks) for each in pairs]
    return pytest.mark.parametrize(("cell", name), cases, ids=str)


def places(mechanism: rb.Mechanism, count: int, seed: int) -> np.ndarray:
    """Random true answers of a mechanism; an infinite range is cut twelve scales beyond its support."""
    generator = np.random.default_rng(seed)
    reach = 12.0 * mechanism.noise.scale
    ends = [x for span in mechanism.support.spans for x in span if math.isfinite(x)] or [0.0]
    low, high = min(ends) - reach, max(ends) + reach
    spans = np.asarray([(max(a, low), min(b, high)) for a, b in mechanism.query.range.spans])
    chosen = generator.integers(len(spans), size=count)
    fraction = generator.uniform(size=count)
    return spans[chosen, 0] + fraction * (spans[chosen, 1] - spans[chosen, 0])
