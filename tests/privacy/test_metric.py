"""Metric privacy: the rate is the largest slope of any log-density, and calibration meets it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.errors import RangeboundError
from rangebound.privacy.metric import steepest_pair, worst_score
from tests.crosscheck.oracle import oracle

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


# --- certificates -----------------------------------------------------------------------------------------------------


def calibrated(name: str, place: str, answers: object = None, sensitivity: float = 0.5) -> rb.Mechanism:
    support, bounding = SUPPORTS[place]
    answers = answers or (support if isinstance(support, rb.Union) else rb.Interval(0, 3))
    query = rb.Query(range=answers, sensitivity=sensitivity)
    return rb.calibrate(
        noise=type(NOISES[name]), query=query, support=support, bounding=bounding, epsilon=1.0, notion="metric"
    )


def refuted(mechanism: rb.Mechanism, epsilon: float) -> rb.ClaimFalse:
    """The refutation of a metric claim, held against 80 digits."""
    with pytest.raises(rb.ClaimFalse, match="metric") as caught:
        rb.certify(mechanism, epsilon, notion="metric")
    a, b = caught.value.pair
    assert float(mechanism.query.clip(a)) == a != b == float(mechanism.query.clip(b))
    true, steps = oracle(mechanism), abs(a - b) / mechanism.query.sensitivity
    assert true.renyi(a, b, INF) > epsilon * steps
    assert true.renyi(a, b, INF) >= caught.value.epsilon * steps * (1.0 - 1e-14)
    assert true.stick(a, b, epsilon * steps) >= caught.value.delta
    return caught.value


@pytest.mark.parametrize("place", SUPPORTS)
@pytest.mark.parametrize("name", NOISES)
def test_a_metric_claim_is_certified_at_its_own_target_and_refuted_below(name: str, place: str) -> None:
    mechanism = calibrated(name, place)
    certificate = rb.certify(mechanism, epsilon=1.0, notion="metric")
    text = certificate.to_json()
    assert rb.verify(text) == certificate
    assert json.loads(text)["notion"] == "metric"
    assert "Certificate of metric privacy with epsilon 1 of" in str(certificate)
    assert refuted(mechanism, 0.999).epsilon == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("answers", [rb.Interval(-1, 5), rb.Interval(-INF, INF), rb.Union((0.5, 1), (2, 2.5))], ids=str)
@pytest.mark.parametrize("place", ["interval", "union", "grid"])
def test_other_ranges_of_answers(place: str, answers: object) -> None:
    mechanism = calibrated("laplace", place, answers)
    assert rb.verify(rb.certify(mechanism, 1.0, notion="metric").to_json()).epsilon == 1.0
    generator = np.random.default_rng(5)
    places = mechanism.query.clip(generator.uniform(-1.0, 4.0, size=(40, 2)))
    for p, q in places[places[:, 0] != places[:, 1]].tolist():
        assert oracle(mechanism).renyi(p, q, INF) <= abs(p - q) / 0.5 * (1.0 + 1e-12)


def test_a_union_of_many_spans() -> None:
    ends = np.cumsum(np.random.default_rng(8).uniform(0.2, 1.0, 300)).tolist()
    union = rb.Union(*zip(ends[::2], ends[1::2], strict=True))
    for spans in (union, rb.Union((-INF, -1.0), *union.spans, (ends[-1] + 1.0, INF))):
        mechanism = rb.calibrate(
            noise=rb.Laplace, query=rb.Query(range=spans, sensitivity=1.0), epsilon=1.0, notion="metric"
        )
        assert rb.verify(rb.certify(mechanism, 1.0, notion="metric").to_json()).epsilon == 1.0
        refuted(mechanism, 0.9999)


def test_an_ordinary_guarantee_is_no_metric_one() -> None:
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    mechanism = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0)
    assert rb.certify(mechanism, 1.0).epsilon == 1.0
    assert refuted(mechanism, 1.0).epsilon > 1.2


@pytest.mark.parametrize("noise", [rb.Gaussian(scale=1.0), rb.TruncatedLaplacian(scale=1.0, limit=5.0)], ids=str)
@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.RECTIFY, rb.UNBOUNDED])
def test_where_there_is_no_rate_a_pair_shows_it(noise: object, bounding: object) -> None:
    mechanism = rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(0, INF), sensitivity=1.0), bounding=bounding)
    assert worst_score(mechanism.setting) == INF
    assert refuted(mechanism, 40.0).epsilon > 40.0


def test_a_metric_certificate_cannot_be_made_from_an_ordinary_one() -> None:
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    ordinary = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0)
    metric = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0, notion="metric")
    one, two = (json.loads(rb.certify(m, 1.0, notion=n).to_json()) for m, n in ((ordinary, "dp"), (metric, "metric")))
    assert one["format"] == "rangebound certificate 1"
    assert "notion" not in one
    assert two["format"] == "rangebound certificate 2"
    for changes in (
        {**two, "mechanism": one["mechanism"]},  # less noise than the claim needs
        {**two, "epsilon": 0.999},
        {**two, "theorem": one["theorem"]},
        {**two, "notion": "dp"},  # each claim is written in one way
        {**two, "format": one["format"]},
        {key: value for key, value in two.items() if key != "notion"},
        {**one, "format": two["format"]},
        {**one, "format": two["format"], "notion": "metric"},
        {**one, "notion": "dp"},
        {**one, "theorem": two["theorem"]},
        {**two, "delta": 0.1},
        {**two, "notion": "everything"},
        {**two, "cells": [[0, 0.0, 9.0]]},
    ):
        with pytest.raises(rb.CertificateInvalid):
            rb.verify(json.dumps(changes))
    assert rb.verify(json.dumps({**two, "epsilon": 1.5})).epsilon == 1.5  # a weaker claim is true, too


def test_a_metric_claim_has_no_delta() -> None:
    mechanism = calibrated("laplace", "interval")
    with pytest.raises(RangeboundError, match="delta"):
        rb.certify(mechanism, 1.0, 1e-6, notion="metric")
    with pytest.raises(RangeboundError, match="notion"):
        rb.certify(mechanism, 1.0, notion="all")


def test_the_steepest_pair_needs_no_more_than_the_rate() -> None:
    for place in SUPPORTS:
        mechanism = calibrated("laplace", place)
        pair, needs = steepest_pair(mechanism.setting)
        assert 0.99 < needs <= worst_score(mechanism.setting) * 0.5
        assert pair[0] != pair[1]


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_score_does_not_depend_on_where_the_range_lies(noise):
    at = [
        worst_score(
            rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(lower, lower + 2.0), sensitivity=1.0)).setting
        )
        for lower in (0.0, 7.0, -5.0)
    ]
    assert at == pytest.approx([at[0]] * 3, rel=1e-12)
    assert at[0] > 0.0
