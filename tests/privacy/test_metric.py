"""Metric privacy: the rate is the largest slope of any log-density, and calibration meets it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.errors import RangeboundError
from rangebound.privacy.metric import worst_score

INF = math.inf
SUPPORTS = {
    "interval": (rb.Interval(0, 3), rb.TRUNCATE),
    "union": (rb.Union((0, 1), (1.6, 2.6)), rb.TRUNCATE),
    "grid": (rb.Grid(step=0.5, within=rb.Interval(0, 3)), rb.TRUNCATE),
    "clamped": (rb.Interval(0, 3), rb.RECTIFY),
    "rounded": (rb.Grid(step=0.5, within=rb.Interval(0, 3)), rb.QUANTIZE),
}
NOISES = {"laplace": rb.Laplace(scale=0.9), "gaussian": rb.Gaussian(scale=0.9)}


def rates(mechanism: rb.Mechanism, answers: np.ndarray, step: float) -> np.ndarray:
    """|change of the log-probability| per unit of the answer, over short steps, at every output."""
    near, far = mechanism.law(answers), mechanism.law(answers + step)
    outputs = [end for span in mechanism.shape.spans for end in span if math.isfinite(end)]
    outputs += np.linspace(0.0, 3.0, 13).tolist()
    found = [np.zeros(len(answers))]
    for x in outputs:
        a, b = near.log_pdf(x), far.log_pdf(x)
        live = ~np.isneginf(a)
        found.append(np.where(live, np.abs(np.where(live, a, 0.0) - np.where(live, b, 0.0)), 0.0))
    a, b = near.atoms[1], far.atoms[1]
    if a.shape[-1]:
        found += list(np.abs(np.log(a) - np.log(b)).T)
    return np.max(found, axis=0) / step


@pytest.mark.parametrize("place", SUPPORTS)
@pytest.mark.parametrize("name", NOISES)
def test_the_rate_is_the_steepest_slope(name: str, place: str) -> None:
    support, bounding = SUPPORTS[place]
    answers = support if isinstance(support, rb.Union) else rb.Interval(0, 3)
    query = rb.Query(range=answers, sensitivity=1.0)
    mechanism = rb.Mechanism(noise=NOISES[name], query=query, support=support, bounding=bounding)
    rate = worst_score(mechanism.setting)
    step = 1e-6
    dense = np.concatenate(
        [np.linspace(a, b - step, 400) for a, b in answers.spans]
        + [np.array([x, x - step]) for x in (0.5, 1.0, 2.5) if place == "grid"]
    )
    seen = rates(mechanism, dense, step).max()
    assert seen <= rate * (1.0 + 1e-8)
    assert seen >= rate * (1.0 - 1e-4)


@pytest.mark.parametrize("place", SUPPORTS)
@pytest.mark.parametrize("name", NOISES)
def test_a_metric_mechanism_bounds_every_pair_by_its_distance(name: str, place: str) -> None:
    support, bounding = SUPPORTS[place]
    answers = support if isinstance(support, rb.Union) else rb.Interval(0, 3)
    query = rb.Query(range=answers, sensitivity=0.5)
    mechanism = rb.calibrate(
        noise=type(NOISES[name]), query=query, support=support, bounding=bounding, epsilon=1.0, notion="metric"
    )
    assert worst_score(mechanism.setting) * 0.5 <= 1.0
    generator = np.random.default_rng(91)
    places = query.clip(generator.uniform(0.0, 3.0, size=(60, 2)))
    for p, q in places:
        if p != q:
            assert rb.renyi(mechanism.law(p), mechanism.law(q), INF) <= abs(p - q) / 0.5 * (1.0 + 1e-12)
    assert mechanism.epsilon() <= 1.0
    smaller = type(mechanism.noise)(scale=mechanism.noise.scale * (1.0 - 1e-8))
    less = rb.Mechanism(noise=smaller, query=query, support=support, bounding=bounding)
    assert worst_score(less.setting) * 0.5 > 1.0


@pytest.mark.parametrize("answers", [rb.Interval(0, 3), rb.Interval(0, INF), rb.Interval(-INF, 2)])
def test_with_an_end_the_metric_scale_is_twice_the_plain_one(answers: rb.Interval) -> None:
    query = rb.Query(range=answers, sensitivity=0.5)
    mechanism = rb.calibrate(noise=rb.Laplace, query=query, epsilon=0.8, notion="metric")
    assert mechanism.noise.scale == pytest.approx(2.0 * 0.5 / 0.8, rel=1e-12)


def test_without_an_end_it_is_the_plain_one() -> None:
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=0.5)
    mechanism = rb.calibrate(noise=rb.Laplace, query=query, epsilon=0.8, notion="metric", bounding=rb.UNBOUNDED)
    assert mechanism.noise.scale == pytest.approx(0.5 / 0.8, rel=1e-12)


def test_there_is_no_rate_where_a_tail_or_an_edge_shows() -> None:
    query = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
    assert worst_score(rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=query).setting) == INF
    limited = rb.TruncatedLaplacian(scale=1.0, limit=5.0)
    assert worst_score(rb.Mechanism(noise=limited, query=query).setting) == INF


def test_a_delta_is_refused() -> None:
    query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    with pytest.raises(RangeboundError, match="delta"):
        rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0, delta=0.1, notion="metric")
