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


def asked(support: Any, smaller: Any, larger: Any = None, disjoint: Any = None, line: Any = LINE) -> tuple[Any, Any]:
    """A support with the ranges to ask it for: one equal to a grid is its hull, and nothing lies outside a line."""
    ranges = {"equal": support.hull if isinstance(support, rb.Grid) else support, "smaller": smaller}
    ranges |= {"larger": larger, "disjoint": disjoint, "line": line}
    return support, {name: each for name, each in ranges.items() if each is not None}


SPAN, BESIDE = rb.Interval(-1, 2), rb.Interval(2.5, 4.5)
UNION, OPEN = rb.Union((-2, -1), (0, 0.75), (1.5, 3)), rb.Union((-INF, -1), (1, INF))
SUPPORTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "interval": asked(SPAN, rb.Interval(-0.25, 1.5), rb.Interval(-3, 4), BESIDE),
    "upper_half_line": asked(rb.Interval(0.5, INF), rb.Interval(1, 4), rb.Interval(-2, INF), rb.Interval(-3, -1)),
    "lower_half_line": asked(rb.Interval(-INF, 0.25), rb.Interval(-2, 0), rb.Interval(-INF, 3), rb.Interval(1, 3)),
    "line": asked(LINE, SPAN, line=None),
    "union": asked(UNION, rb.Union((-1.5, -1), (0, 0.5)), rb.Interval(-3, 4), rb.Interval(-0.9, -0.1)),
    "open_union": asked(OPEN, rb.Union((-2, -1), (1, 3)), LINE, rb.Interval(-0.75, 0.75), line=None),
    "grid": asked(rb.Grid(step=0.5, within=SPAN), rb.Interval(0, 1.25), rb.Interval(-2, 4), BESIDE),
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
        support, ranges = SUPPORTS[self.support]
        query = rb.Query(range=ranges[self.range], sensitivity=1.0)
        return rb.Mechanism(noise=NOISES[self.noise], query=query, support=support, bounding=BOUNDINGS[self.bounding])

    def reason(self) -> str | None:
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


def quick_cells(cells: Iterable[Cell]) -> pytest.MarkDecorator:
    """The same for a slow test: by default every support with its boundings, every noise beside each, every range."""
    listed = covering(cells, parts)
    kept = [each.values[0] for each in listed if not each.marks]
    later = {each.values[0] for each in covering(kept, lambda cell: [cell[1:3], cell[:2], cell.range]) if each.marks}
    cases = [
        pytest.param(*each.values, marks=[pytest.mark.slow] if each.values[0] in later else each.marks)
        for each in listed
    ]
    return pytest.mark.parametrize("cell", cases, ids=str)


def every_cell_with(name: str, values: Iterable[Hashable]) -> pytest.MarkDecorator:
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
