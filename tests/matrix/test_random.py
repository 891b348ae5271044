"""Thousands of random mechanisms and pairs: closed form against numerical integration."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

import rangebound as rb
from tests.matrix.routes import FLOOR, renyi_floor, renyi_routes, same_route, stick_routes

BATCHES, BATCH = 12, 140  # each case compares a hockey stick and a Renyi divergence
BY_DEFAULT = 4
INF = math.inf


class Case(NamedTuple):
    """A random mechanism, a pair of true answers, an epsilon and an order."""

    mechanism: rb.Mechanism
    p: float
    q: float
    epsilon: float
    order: float


def draw(generator: np.random.Generator) -> Case:
    """A case: noise, bounding and support at random, locations inside the support or some scales beyond it."""
    while True:
        scale = float(np.exp(generator.uniform(-3, 3)))
        width = float(scale * np.exp(generator.uniform(-3, 3)))
        start = float(generator.normal() * scale)
        support, bounding = _bounded_output(generator, start, width)
        low, high = start - 3.0 * scale, start + width + 3.0 * scale
        p, q = (float(x) for x in generator.uniform(low, high, size=2))
        noise = _noise(generator, scale, reach=3.0 * scale + width)
        if isinstance(noise, rb.TruncatedLaplacian) and bounding is rb.TRUNCATE and isinstance(support, rb.Grid):
            continue
        query = rb.Query(range=rb.Interval(low, high), sensitivity=scale)
        mechanism = rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)
        epsilon = float(np.exp(generator.uniform(-6, 1)))
        return Case(mechanism, p, q, epsilon, float(1.0 + np.exp(generator.uniform(-2, 3))))


def _noise(
    generator: np.random.Generator, scale: float, reach: float
) -> rb.Laplace | rb.Gaussian | rb.TruncatedLaplacian:
    kind = generator.integers(3)
    if kind == 2:
        return rb.TruncatedLaplacian(scale=scale, limit=reach * float(generator.uniform(1.0, 1.5)))
    return (rb.Laplace, rb.Gaussian)[kind](scale=scale)


def _bounded_output(generator: np.random.Generator, start: float, width: float) -> tuple[object, object]:
    end = start + width
    inner = np.sort(generator.uniform(start, end, size=4)).tolist()
    choices = [
        (rb.Interval(start, end), rb.TRUNCATE),
        (rb.Interval(start, INF), rb.TRUNCATE),
        (rb.Interval(-INF, end), rb.TRUNCATE),
        (rb.Union((start, inner[0]), (inner[1], inner[2]), (inner[3], end)), rb.TRUNCATE),
        (rb.Union((-INF, inner[0]), (inner[1], INF)), rb.TRUNCATE),
        (rb.Grid(step=width / 7, within=rb.Interval(start, end)), rb.TRUNCATE),
        (rb.Interval(start, end), rb.RECTIFY),
        (rb.Interval(start, INF), rb.RECTIFY),
        (rb.Interval(-INF, end), rb.RECTIFY),
        (rb.Grid(step=width / 7, within=rb.Interval(start, end)), rb.QUANTIZE),
        (rb.Interval(-INF, INF), rb.UNBOUNDED),
    ]
    return choices[generator.integers(len(choices))]


def compare(case: Case) -> int:
    """Compare all routes; how many of the two numbers were large enough for a relative comparison."""
    p, q = case.mechanism.law(case.p), case.mechanism.law(case.q)
    sticks, renyis = stick_routes(p, q, case.epsilon), renyi_routes(p, q, case.order)
    floor = renyi_floor(p, q, case.order)
    same_route(sticks, case)
    same_route(renyis, case, floor)
    return (sticks[0] >= FLOOR) + (floor <= renyis[0] < INF)


@pytest.mark.parametrize(
    "batch", [*range(BY_DEFAULT), *(pytest.param(each, marks=pytest.mark.long) for each in range(BY_DEFAULT, BATCHES))]
)
def test_closed_form_and_quadrature_agree_on_random_cases(batch: int) -> None:
    generator = np.random.default_rng([20240611, batch])
    compared = sum(compare(draw(generator)) for _ in range(BATCH))
    assert compared >= math.ceil(2000 / BATCHES), "too few cases were compared relatively"
