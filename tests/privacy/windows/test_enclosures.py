"""Series about a wide cell of positions cover the value and every derivative at the positions inside it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rangebound as rb
from rangebound.ball import Ball, ball, down, is_taylor, precision, span, taylor, up, value_of
from rangebound.privacy.pairs.exact import family, stick

INF = math.inf
ORDER = 4


class Cell:
    """A random mechanism with a cell of positions; often across the ends of its support."""

    def __init__(self, generator: np.random.Generator) -> None:
        width, lower = float(10.0 ** generator.uniform(-0.5, 1.0)), float(2.0 * generator.normal())
        scale = float(10.0 ** generator.uniform(-1.0, 1.0))
        limit = max(scale * float(generator.uniform(2.0, 9.0)), 3.0 * width)
        noise = generator.choice([0, 1, 2])
        self.noise = [
            rb.Laplace(scale=scale),
            rb.Gaussian(scale=scale),
            rb.TruncatedLaplacian(scale=scale, limit=limit),
        ][noise]
        supports = [
            rb.Interval(lower, lower + width),
            rb.Interval(lower, INF),
            rb.Interval(-INF, lower),
            rb.Union((lower, lower + width), (lower + 1.3 * width, lower + 2.0 * width)),
            rb.Union((-INF, lower), (lower + 0.3 * width, lower + width)),
            rb.Grid(step=width / int(generator.integers(2, 9)), within=rb.Interval(lower, lower + width)),
        ]
        query = rb.Query(range=rb.Interval(lower - width, lower + 2.0 * width), sensitivity=width)
        support = supports[generator.integers(5 if noise == 2 else 6)]
        self.mechanism = rb.Mechanism(noise=self.noise, query=query, support=support)
        self.start = float(generator.uniform(lower - width, lower + 2.0 * width))
        self.end = self.start + float(width * 10.0 ** generator.uniform(-4.0, 0.0))
        self.d = ball(float(width * 10.0 ** generator.uniform(-3.0, 0.3)))
        self.epsilon = ball(float(generator.choice([0.0, 0.05, 0.5, 2.0])))

    def inside(self) -> Iterator[Ball]:
        """Positions of the cell, its ends among them."""
        for share in (0.0, 0.3, 0.5, 0.77, 1.0):
            yield ball(min(max(self.start + share * (self.end - self.start), self.start), self.end))


def cells(seed: int, count: int) -> Iterator[Cell]:
    generator = np.random.default_rng([161, seed])
    for _ in range(count):
        yield Cell(generator)


def covers(wide: Any, exact: Any) -> bool:
    """Whether a series covers another in all that both know."""
    if not (is_taylor(wide) and is_taylor(exact) and wide[0].is_finite()):
        return not value_of(wide).is_finite() or bool(value_of(wide).overlaps(value_of(exact)))
    known = [k for k in range(ORDER) if wide[k].is_finite() and exact[k].is_finite()]
    return all(wide[k].overlaps(exact[k]) for k in known)


@pytest.mark.parametrize("seed", range(2))
def test_series_of_the_loss_and_the_renyi_divergence(seed: int) -> None:
    with precision(128):
        for cell in cells(seed, 250):
            kind = family(cell.noise, cell.mechanism.shape)
            for function in (lambda p: kind.loss(p, cell.d), lambda p: kind.renyi(p, cell.d, ball(3.0))):  # noqa: B023
                wide = function(taylor(span(cell.start, cell.end), ORDER))
                for p in cell.inside():
                    assert covers(wide, function(taylor(p, ORDER))), (cell.mechanism, cell.start, cell.end, p, cell.d)


@pytest.mark.parametrize("seed", range(2))
def test_branches_of_the_hockey_stick(seed: int) -> None:
    with precision(128):
        for cell in cells(seed, 250):
            kind = family(cell.noise, cell.mechanism.shape)
            wide = kind.sticks(taylor(span(cell.start, cell.end), ORDER), cell.d, cell.epsilon)
            top = max(0.0, *(up(value_of(each)) for each in wide.values()))
            for p in cell.inside():
                what = (cell.mechanism, cell.start, cell.end, p, cell.d, cell.epsilon)
                assert down(stick(kind, p, cell.d, cell.epsilon)) <= top, what
                near = kind.sticks(taylor(p, ORDER), cell.d, cell.epsilon, wide)
                if all(is_taylor(each) for each in itertools.chain(wide.values(), near.values())):
                    assert all(covers(wide[name], near[name]) for name in wide), what


def test_a_cell_that_is_too_narrow_is_caught() -> None:
    """A control: the series about a narrow cell does not cover what lies beyond it."""
    cell = next(iter(cells(0, 1)))
    kind = family(rb.Gaussian(scale=1.0), rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=cell.mechanism.query).shape)
    with precision(128):
        wide = kind.loss(taylor(span(0.0, 0.01), ORDER), ball(0.5))
        assert covers(wide, kind.loss(taylor(ball(0.005), ORDER), ball(0.5)))
        assert not covers(wide, kind.loss(taylor(ball(1.0), ORDER), ball(0.5)))
