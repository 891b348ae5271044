"""Metric privacy: the rate is the largest slope of any log-density, and calibration meets it."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import rangebound as rb
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


@pytest.mark.parametrize(("answers", "factor"), [((0, 3), 2), ((0, INF), 2), ((-INF, 2), 2), ((-INF, INF), 1)])
def test_with_an_end_the_metric_scale_is_twice_the_plain_one(answers, factor):
    query = rb.Query(range=rb.Interval(*answers), sensitivity=0.5)
    mechanism = rb.calibrate(noise=rb.Laplace, query=query, epsilon=0.8, notion="metric")
    assert mechanism.noise.scale == pytest.approx(factor * 0.5 / 0.8, rel=1e-12)


def calibrated(name, place):
    support, bounding = SUPPORTS[place]
    query = rb.Query(range=support if place == "union" else rb.Interval(0, 3), sensitivity=0.5)
    return rb.calibrate(
        noise=type(NOISES[name]), query=query, support=support, bounding=bounding, epsilon=1.0, notion="metric"
    )


def refuted(mechanism, epsilon):
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


@pytest.mark.few(5)
@pytest.mark.parametrize("place", SUPPORTS)
@pytest.mark.parametrize("name", NOISES)
def test_a_calibrated_mechanism_is_certified_at_its_own_target_and_refuted_below(name, place):
    mechanism = calibrated(name, place)
    pair, needs = steepest_pair(mechanism.setting)
    assert 0.99 < needs <= worst_score(mechanism.setting) * 0.5 <= 1.0
    assert pair[0] != pair[1]
    for p, q in mechanism.query.clip(np.random.default_rng(91).uniform(0.0, 3.0, size=(60, 2))):
        assert p == q or rb.renyi(mechanism.law(p), mechanism.law(q), INF) <= abs(p - q) / 0.5 * (1.0 + 1e-12)
    assert mechanism.epsilon() <= 1.0
    less = replace(mechanism, noise=type(mechanism.noise)(scale=mechanism.noise.scale * (1.0 - 1e-8)))
    assert worst_score(less.setting) * 0.5 > 1.0
    certificate = rb.certify(mechanism, epsilon=1.0, notion="metric")
    assert rb.verify(certificate.to_json()) == certificate
    assert "Certificate of metric privacy with epsilon 1 of" in str(certificate)
    assert refuted(mechanism, 0.999).epsilon == pytest.approx(1.0, rel=1e-4)


def test_a_union_of_many_spans():
    ends = np.cumsum(np.random.default_rng(8).uniform(0.2, 1.0, 120)).tolist()
    union = rb.Union(*zip(ends[::2], ends[1::2], strict=True))
    for spans in (union, rb.Union((-INF, -1.0), *union.spans, (ends[-1] + 1.0, INF))):
        mechanism = rb.calibrate(
            noise=rb.Laplace, query=rb.Query(range=spans, sensitivity=1.0), epsilon=1.0, notion="metric"
        )
        assert rb.verify(rb.certify(mechanism, 1.0, notion="metric").to_json()).epsilon == 1.0
        refuted(mechanism, 0.9999)


@pytest.mark.parametrize("noise", [rb.Gaussian(scale=1.0), rb.TruncatedLaplacian(scale=1.0, limit=5.0)], ids=str)
@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.RECTIFY, rb.UNBOUNDED])
def test_where_there_is_no_rate_a_pair_shows_it(noise, bounding):
    mechanism = rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(0, INF), sensitivity=1.0), bounding=bounding)
    assert worst_score(mechanism.setting) == INF
    assert refuted(mechanism, 40.0).epsilon > 40.0


def test_a_metric_certificate_cannot_be_made_from_an_ordinary_one():
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    made = (rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0, notion=notion) for notion in ("dp", "metric"))
    one, two = (json.loads(rb.certify(each).to_json()) for each in made)
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


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_score_does_not_depend_on_where_the_range_lies(noise):
    queries = [rb.Query(range=rb.Interval(lower, lower + 2.0), sensitivity=1.0) for lower in (0.0, 7.0, -5.0)]
    at = [worst_score(rb.Mechanism(noise=noise, query=query).setting) for query in queries]
    assert at == pytest.approx([at[0]] * 3, rel=1e-12)
    assert at[0] > 0.0
