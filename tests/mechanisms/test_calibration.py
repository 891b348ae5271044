"""Calibration: the smallest scale, on the private side, for every cell that makes sense."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import rangebound as rb
from rangebound.errors import ClaimFalse, RangeboundError, Unsatisfiable
from tests.crosscheck.oracle import Oracle

INF = math.inf
COUNT = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
HALF = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
LINE = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
UNION = rb.Query(range=rb.Union((0, 1), (1.5, 2.5)), sensitivity=1.0)
GRID = rb.Grid(step=2.5, within=rb.Interval(0, 10))


def cell(noise, query=COUNT, bounding=rb.TRUNCATE, epsilon=1.0, delta=0.0, support=None):
    made = {"noise": noise, "query": query, "support": support, "bounding": bounding}
    return {**made, "epsilon": epsilon, "delta": delta}


CELLS = {
    "Laplace, interval": cell(rb.Laplace),
    "Laplace, interval, small epsilon": cell(rb.Laplace, epsilon=1e-6),
    "Laplace, interval, delta": cell(rb.Laplace, epsilon=0.5, delta=1e-3),
    "Laplace, half-line": cell(rb.Laplace, HALF),
    "Laplace, half-line, delta": cell(rb.Laplace, HALF, delta=0.01),
    "Laplace, line": cell(rb.Laplace, LINE, rb.UNBOUNDED),
    "Laplace, line, delta": cell(rb.Laplace, LINE, rb.UNBOUNDED, delta=0.01),
    "Laplace, union": cell(rb.Laplace, UNION),
    "Laplace, union, delta": cell(rb.Laplace, UNION, delta=0.01),
    "Laplace, clamped": cell(rb.Laplace, bounding=rb.RECTIFY),
    "Laplace, clamped, delta": cell(rb.Laplace, bounding=rb.RECTIFY, delta=0.01),
    "Laplace, rounded": cell(rb.Laplace, bounding=rb.QUANTIZE, support=GRID),
    "Laplace, grid": cell(rb.Laplace, support=GRID),
    "Laplace, wider support": cell(rb.Laplace, support=rb.Interval(-5, 20)),
    "Gaussian, interval": cell(rb.Gaussian),
    "Gaussian, interval, delta": cell(rb.Gaussian, delta=1e-3),
    "Gaussian, half-line, delta": cell(rb.Gaussian, HALF, delta=1e-3),
    "Gaussian, line, delta": cell(rb.Gaussian, LINE, rb.UNBOUNDED, delta=1e-6),
    "Gaussian, clamped, delta": cell(rb.Gaussian, bounding=rb.RECTIFY, delta=1e-6),
    "Gaussian, rounded, delta": cell(rb.Gaussian, bounding=rb.QUANTIZE, support=GRID, delta=1e-3),
    "Gaussian, grid": cell(rb.Gaussian, support=GRID),
    "Gaussian, elsewhere, delta": cell(rb.Gaussian, support=rb.Interval(12, 20), delta=1e-3),
    "truncated Laplacian, line": cell(rb.TruncatedLaplacian, LINE, rb.UNBOUNDED, delta=1e-6),
    "truncated Laplacian, clamped": cell(rb.TruncatedLaplacian, bounding=rb.RECTIFY, delta=1e-6),
    "truncated Laplacian, interval": cell(rb.TruncatedLaplacian, delta=1e-3),
    "truncated Laplacian, rounded": cell(rb.TruncatedLaplacian, bounding=rb.QUANTIZE, support=GRID, delta=1e-3),
}


def louder(mechanism, factor):
    """The same mechanism with its noise scaled by a factor, the reach of limited noise included."""
    noise = {field.name: getattr(mechanism.noise, field.name) * factor for field in dataclasses.fields(mechanism.noise)}
    return dataclasses.replace(mechanism, noise=type(mechanism.noise)(**noise))


@pytest.mark.few(7)
@pytest.mark.parametrize("request_", CELLS.values(), ids=CELLS)
def test_a_calibrated_mechanism_certifies_and_one_percent_less_noise_does_not(request_, within):
    epsilon, delta = request_["epsilon"], request_["delta"]
    with within(10.0):
        mechanism = rb.calibrate(**request_)
        certificate = rb.certify(mechanism, epsilon, delta)
        assert rb.verify(certificate.to_json()) == certificate
        assert mechanism.delta(epsilon) <= delta if delta else mechanism.epsilon() <= epsilon
    assert type(mechanism.noise) is request_["noise"]
    assert mechanism.query == request_["query"]
    assert mechanism.bounding is request_["bounding"]
    quieter = louder(mechanism, 0.99)
    with within(10.0), pytest.raises(ClaimFalse) as caught:
        rb.certify(quieter, epsilon, delta)
    a, b = caught.value.pair
    assert math.isfinite(a)
    assert math.isfinite(b)
    assert abs(a - b) <= quieter.query.sensitivity * (1 + 1e-12)
    one, other = quieter.law(a), quieter.law(b)
    if delta:
        assert rb.hockey_stick(one, other, epsilon) > delta
    else:
        assert rb.renyi(one, other, INF) > epsilon


@pytest.mark.parametrize("name", ["Laplace, interval", "Laplace, interval, delta", "Gaussian, interval, delta"])
def test_the_scale_is_the_smallest_to_nine_digits(name):
    request_ = CELLS[name]
    with pytest.raises(ClaimFalse):
        rb.certify(louder(rb.calibrate(**request_), 1 - 2e-9), request_["epsilon"], request_["delta"])


@settings(max_examples=30)
@given(st.floats(1e-9, 50), st.floats(1e-3, 1e3), st.floats(1e-6, 1))
def test_pure_laplace_on_an_interval_is_private_between_its_limits(epsilon, width, part):
    query = rb.Query(range=rb.Interval(0, width), sensitivity=width * part)
    mechanism = rb.calibrate(noise=rb.Laplace, query=query, epsilon=epsilon)
    assert mechanism.epsilon() <= epsilon
    natural = query.sensitivity / epsilon
    assert natural * (1 - 1e-9) <= mechanism.noise.scale <= 2 * natural * (1 + 1e-9)


@pytest.mark.parametrize("query", [COUNT, HALF, UNION, LINE], ids=lambda query: repr(query.range))
def test_the_metric_notion_implies_the_ordinary_one_and_costs_no_less(query):
    bounding = rb.UNBOUNDED if query is LINE else rb.TRUNCATE
    metric = rb.calibrate(noise=rb.Laplace, query=query, bounding=bounding, epsilon=1.0, notion="metric")
    ordinary = rb.calibrate(noise=rb.Laplace, query=query, bounding=bounding, epsilon=1.0)
    assert metric.noise.scale >= ordinary.noise.scale * (1 - 1e-9)
    assert rb.certify(metric, 1.0).epsilon == 1.0
    for a, b in ((0.0, 0.5), (0.0, 0.25), (0.5, 1.0)):
        for p, q in ((a, b), (b, a)):
            assert rb.renyi(metric.law(p), metric.law(q), INF) <= abs(a - b) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (cell(rb.Gaussian, LINE, rb.UNBOUNDED), "Gaussian"),
        (cell(rb.Gaussian, HALF), "Gaussian"),
        (cell(rb.Gaussian, COUNT, rb.UNBOUNDED), "Gaussian"),
        (cell(rb.Gaussian, LINE, rb.RECTIFY, support=rb.Interval(0, 10)), "Gaussian"),
        (cell(rb.TruncatedLaplacian), "delta=0"),
        (cell(rb.TruncatedLaplacian, delta=0.5), "delta=0.5"),
    ],
)
def test_what_nothing_can_reach_is_refused_with_the_reason(request_, reason, within):
    with within(10.0), pytest.raises(Unsatisfiable, match=reason):
        rb.calibrate(**request_)


@pytest.mark.parametrize(
    "request_",
    [
        cell(rb.Gaussian, bounding=rb.RECTIFY),
        cell(rb.Gaussian, bounding=rb.QUANTIZE, support=GRID),
        cell(rb.Gaussian, LINE, support=rb.Interval(0, 10)),
    ],
    ids=["clamped", "rounded", "truncated, answers on the line"],
)
def test_gaussian_noise_is_purely_private_where_no_tail_shows(request_, within):
    with within(20.0):
        found = rb.calibrate(**request_)
    assert 0.999 < found.epsilon() / request_["epsilon"] <= 1.0


def test_limited_noise_grows_until_it_reaches_the_support():
    """The first scale that is tried leaves the support out of reach; a larger one is private and must be found."""
    query, support = rb.Query(range=rb.Interval(1, 11), sensitivity=2.0), rb.Interval(0, 1.5)
    ratio = math.log1p(math.expm1(3.0) / 2e-3)
    known = rb.Mechanism(noise=rb.TruncatedLaplacian(scale=1.5, limit=1.5 * ratio), query=query, support=support)
    assert known.delta(3.0) <= 1e-3
    found = rb.calibrate(noise=rb.TruncatedLaplacian, query=query, support=support, epsilon=3.0, delta=1e-3)
    assert found.noise.scale <= 1.5


def test_limited_noise_that_just_reaches_a_union_is_not_taken_without_a_proof():
    # At the least scales that reach the support the worst pair lies where no quick look goes.
    query = rb.Query(range=rb.Interval(0, 38.1), sensitivity=0.71)
    support = rb.Union((13.1, 13.4), (23.2, 25.1), (32.3, 34.6))
    found = rb.calibrate(noise=rb.TruncatedLaplacian, query=query, support=support, epsilon=2.8, delta=3.6e-7)
    assert found.delta(2.8) <= 3.6e-7
    truth = Oracle(found.noise, found.support, found.bounding, 40)
    positions = [0.01 * k for k in range(3740)]
    assert max(truth.stick(p + 0.71, p, 2.8) for p in positions[::20] + positions[600:700]) <= 3.6e-7
    # The control: the scale at which a quick look sees nothing leaks hundreds of times as much.
    scale = query.sensitivity / 2.8 * 4.0
    ratio = found.noise.limit / found.noise.scale
    small = rb.TruncatedLaplacian(scale=scale, limit=ratio * scale)
    assert Oracle(small, support, found.bounding, 40).stick(6.787561770766464, 6.077561770766464, 2.8) > 9e-5


def test_a_law_that_never_changes_needs_no_noise_and_says_so():
    """Truncated Laplace noise seen from outside its support says nothing: there is no smallest scale."""
    with pytest.raises(RangeboundError, match=r"^(?!no scale)"):
        rb.calibrate(noise=rb.Laplace, query=COUNT, support=rb.Interval(20, 30), epsilon=1.0)


@pytest.mark.parametrize("advantage", [1e-3, 0.05, 0.5])
def test_an_advantage_has_the_scale_of_its_closed_form(advantage):
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=3.0)
    laplace = rb.calibrate(noise=rb.Laplace, query=query, bounding=rb.UNBOUNDED, advantage=advantage)
    assert laplace.noise.scale == pytest.approx(1.5 / -math.log1p(-advantage), rel=1e-8)
    gaussian = rb.calibrate(noise=rb.Gaussian, query=query, bounding=rb.RECTIFY, advantage=advantage)
    assert gaussian.noise.scale == pytest.approx(1.5 / norm.ppf(0.5 + 0.5 * advantage), rel=1e-8)
    assert max(laplace.advantage(), gaussian.advantage()) <= advantage


def test_an_advantage_on_a_range_needs_its_scale_and_no_less_and_is_certified():
    m = rb.calibrate(noise=rb.Laplace, query=COUNT, advantage=0.05)
    assert m.advantage() <= 0.05 < louder(m, 1 - 1e-8).advantage()
    assert rb.verify(rb.certify(m).to_json()).claim == rb.Claim(epsilon=0.0, delta=0.05)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"advantage": 0.1, "epsilon": 1.0}, "must be given alone"),
        ({"advantage": 0.1, "delta": 1e-6}, "must be given alone"),
        ({"advantage": 0.1, "notion": "metric"}, "must be given alone"),
        ({"epsilon": 1.0, "delta": 0.1, "notion": "metric"}, r"delta=0\.1"),
        ({"advantage": 0.0}, "must be positive"),
        ({"advantage": 1.0}, r"must lie in \[0, 1\)"),
        ({"advantage": 0.1, "noise": rb.TruncatedLaplacian}, "not for an advantage"),
        ({}, "epsilon is missing"),
    ],
)
def test_targets_that_do_not_go_together_are_refused(wrong, message):
    with pytest.raises(RangeboundError, match=message):
        rb.calibrate(**{"noise": rb.Laplace, "query": COUNT, **wrong})
