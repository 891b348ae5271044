"""Calibrated scales at the extremes: plugged into mpmath they are private, and a billionth less is not."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import mpmath as mp
import pytest

import rangebound as rb
from rangebound.privacy.worst import worst_delta, worst_loss
from tests.crosscheck.compare import TIGHT
from tests.crosscheck.oracle import oracle
from tests.matrix.deadline import deadline
from tests.thinning import some

INF = math.inf
LOWER, WIDTH = 0.3, 10.0
DIGITS = 120
ROUNDING = mp.mpf(10) ** (20 - DIGITS)  # of the oracle
EPSILONS = (1e-9, 1e-3, 1.0, 50.0)
RATIOS = (1e-6, 1e-2, 0.3, 1.0)
TARGETS = (
    (1e-9, 1e-15),
    (1e-9, 1e-10),
    (0.1, 0.4),
    (0.1, 1e-15),
    (1.0, 1e-6),
    (20.0, 1e-3),
    (50.0, 1e-15),
    (50.0, 0.4),
)

INTERVAL = rb.Interval(LOWER, LOWER + WIDTH)
HALF_LINE = rb.Interval(LOWER, INF)
LINE = rb.Interval(-INF, INF)
UNION = rb.Union((LOWER, 3.3), (6.3, LOWER + WIDTH))
GRID = rb.Grid(step=2.0, within=INTERVAL)

PLACES = [
    (rb.TRUNCATE, INTERVAL),
    (rb.TRUNCATE, HALF_LINE),
    (rb.TRUNCATE, UNION),
    (rb.TRUNCATE, GRID),
    (rb.RECTIFY, INTERVAL),
    (rb.QUANTIZE, GRID),
    (rb.UNBOUNDED, LINE),
]
APPROXIMATE = [
    *((noise, *place) for noise in (rb.Laplace, rb.Gaussian) for place in PLACES),
    *((rb.TruncatedLaplacian, *place) for place in PLACES if place not in PLACES[2:4]),
]
PURE = [case for case in APPROXIMATE if case[0] is rb.Laplace or (case[0] is rb.Gaussian and case[2].bounded)]


def name(case: Any) -> str:
    if isinstance(case, tuple) and len(case) == 3:
        places = {id(INTERVAL): "interval", id(HALF_LINE): "half-line", id(UNION): "union", id(GRID): "grid"}
        return f"{case[0].__name__}-{case[1].value}-{places.get(id(case[2]), 'line')}"
    return str(case)


def calibrated(case: Any, epsilon: float, delta: float, ratio: float) -> rb.Mechanism:
    """The mechanism of a cell for a target, within reasonable time."""
    noise, bounding, support = case
    answers = {id(GRID): INTERVAL, id(LINE): INTERVAL}.get(id(support), support)
    query = rb.Query(range=answers, sensitivity=WIDTH * ratio)
    with deadline((name(case), epsilon, delta, ratio)):
        return rb.calibrate(noise=noise, query=query, support=support, bounding=bounding, epsilon=epsilon, delta=delta)


def scaled(mechanism: rb.Mechanism, factor: float) -> rb.Mechanism:
    lengths = {key: value * factor for key, value in vars(mechanism.noise).items()}
    return dataclasses.replace(mechanism, noise=type(mechanism.noise)(**lengths))


def exact_pairs(mechanism: rb.Mechanism, *named: tuple[float, float]) -> list[tuple[mp.mpf, mp.mpf]]:
    """Pairs exactly one sensitivity apart (or as far as the range goes): at the ends of spans, and the named ones."""
    sensitivity = mp.mpf(mechanism.query.sensitivity)
    spans = mechanism.query.range.spans
    starts = [(mp.mpf(end), side) for span in spans for end in span if math.isfinite(end) for side in (1, -1)]
    for p, q in named:
        if math.isfinite(p) and math.isfinite(q) and p != q:
            starts.append((mp.mpf(p), 1 if q > p else -1))
    pairs = []
    for p, side in starts:
        reach = p + side * sensitivity
        others = [min(max(reach, mp.mpf(a)), mp.mpf(b)) for a, b in spans]
        others = [x for x in others if 0 < side * (x - p) <= sensitivity]
        if others:
            q = max(others, key=lambda x: side * x)
            pairs += [(p, q), (q, p)]
    return pairs


def each(*lists: Any, of: int) -> pytest.MarkDecorator:
    """Every `of`-th combination by default, where `of` shares no factor with how many values a list has."""
    return pytest.mark.parametrize(
        "asked", some(itertools.product(*lists), of=of), ids=lambda asked: "-".join(map(name, asked))
    )


@pytest.mark.few(10)
@each(PURE, EPSILONS, RATIOS, of=5)
def test_pure(asked: Any) -> None:
    case, epsilon, ratio = asked
    mechanism = calibrated(case, epsilon, 0.0, ratio)
    true, less = oracle(mechanism, DIGITS), oracle(scaled(mechanism, 1.0 - TIGHT), DIGITS)
    with deadline(asked):
        pair = worst_loss(mechanism.setting).pair
    with mp.workdps(DIGITS):
        pairs = exact_pairs(mechanism, pair)
        if case[2] is LINE:
            pairs = [(mp.mpf(0), mp.mpf(mechanism.query.sensitivity))]
        loss = max(true.renyi(p, q, mp.inf) for p, q in pairs)
        assert loss <= mp.mpf(epsilon) * (1 + ROUNDING), mechanism
        assert loss >= mp.mpf(epsilon) * (1 - mp.mpf(TIGHT)), mechanism
        assert max(less.renyi(p, q, mp.inf) for p, q in pairs) > mp.mpf(epsilon), mechanism


@pytest.mark.few(4)
@each(APPROXIMATE, TARGETS, RATIOS, of=5)
def test_approximate(asked: Any) -> None:
    case, (epsilon, delta), ratio = asked
    mechanism = calibrated(case, epsilon, delta, ratio)
    smaller = scaled(mechanism, 1.0 - TIGHT)
    with deadline(asked):
        pair = worst_delta(smaller.setting, epsilon).pair
    with mp.workdps(DIGITS):
        pairs = exact_pairs(mechanism, pair)
        true, less = oracle(mechanism, DIGITS), oracle(smaller, DIGITS)
        assert max(true.stick(p, q, epsilon) for p, q in pairs) <= mp.mpf(delta) * (1 + ROUNDING), mechanism
        assert max(less.stick(p, q, epsilon) for p, q in pairs) > mp.mpf(delta), mechanism


def test_a_scale_that_is_too_small_or_too_large_is_caught() -> None:
    """A control: the same bounds fail for a scale that is off by 3e-9 in either direction."""
    mechanism = calibrated(PURE[0], 1.0, 0.0, 0.3)
    with mp.workdps(DIGITS):
        pairs = exact_pairs(mechanism)
        small, large = (
            max(oracle(scaled(mechanism, factor), DIGITS).renyi(p, q, mp.inf) for p, q in pairs)
            for factor in (1.0 - 3e-9, 1.0 + 3e-9)
        )
        assert small > 1.0
        assert large < 1.0 - TIGHT
