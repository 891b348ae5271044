"""Every number and closed form of THEORY section 2 (Laplace) and the Laplace numbers of section 4, from the library."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

import rangebound as rb
from rangebound.privacy.unions import laplace_union
from tests.crosscheck.compare import TIGHT, agree
from tests.crosscheck.oracle import Oracle

INF = math.inf


def scale(width: float, epsilon: float, delta: float = 0.0, notion: str = "dp") -> float:
    """The calibrated scale of truncated Laplace noise on [0, width], sensitivity 1."""
    query = rb.Query(range=rb.Interval(0, width), sensitivity=1.0)
    return rb.calibrate(noise=rb.Laplace, query=query, epsilon=epsilon, delta=delta, notion=notion).noise.scale


# Closed forms of a pair. A, d, B are lengths in scales: end to left location, between the two, right location to end.


def kept(a: mp.mpf, d: mp.mpf, b: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """Twice the kept mass at the left and the right location."""
    return 2 - mp.exp(-a) - mp.exp(-d - b), 2 - mp.exp(-a - d) - mp.exp(-b)


def renyi(order: float, a: mp.mpf, d: mp.mpf, b: mp.mpf) -> mp.mpf:
    """D_order(left || right)."""
    o = mp.mpf(order)
    zu, zv = kept(a, d, b)
    integral = (
        mp.exp((o - 1) * d) * (1 - mp.exp(-a))
        + (mp.exp((o - 1) * d) - mp.exp(-o * d)) / (2 * o - 1)
        + mp.exp(-o * d) * (1 - mp.exp(-b))
    )
    return (mp.log(integral) + (o - 1) * mp.log(zv) - o * mp.log(zu)) / (o - 1)


def stick(epsilon: float, a: mp.mpf, d: mp.mpf, b: mp.mpf) -> mp.mpf:
    """The hockey stick left -> right."""
    zu, zv = kept(a, d, b)
    y = min((d + mp.log(zv / zu) - mp.mpf(epsilon)) / 2, d)
    return (2 * (1 - mp.exp(-y)) - mp.exp(-a) * (1 - mp.exp(-2 * y))) / zu if y > 0 else mp.mpf(0)


@pytest.mark.parametrize("ends", [(0.0, 3.0), (0.0, INF), (-INF, 3.0)], ids=str)
@pytest.mark.parametrize("pair", [(0.5, 1.5), (0.0, 3.0), (-1.0, 2.0), (2.9, 3.4), (0.0, 1e-7)], ids=str)
def test_the_closed_forms_of_a_pair(pair: tuple[float, float], ends: tuple[float, float]) -> None:
    noise = rb.Laplace(scale=0.7)
    query = rb.Query(range=rb.Interval(-9, 9), sensitivity=1.0)
    mechanism = rb.Mechanism(noise=noise, query=query, support=rb.Interval(*ends))
    left, right = map(mechanism.law, pair)
    with mp.workdps(60):
        u, v = (min(max(mp.mpf(x), mp.mpf(ends[0])), mp.mpf(ends[1])) for x in pair)
        s = mp.mpf(0.7)
        a, d, b = (u - mp.mpf(ends[0])) / s, (v - u) / s, (mp.mpf(ends[1]) - v) / s
        for order in (1.1, 2.0, 10.0):
            agree(rb.renyi(left, right, order), renyi(order, a, d, b), rel=1e-13, floor=1e-40)
            agree(rb.renyi(right, left, order), renyi(order, b, d, a), rel=1e-13, floor=1e-40)
        for epsilon in (0.0, 0.3, 1.2):
            agree(rb.hockey_stick(left, right, epsilon), stick(epsilon, a, d, b), rel=1e-13, floor=1e-40)
            agree(rb.hockey_stick(right, left, epsilon), stick(epsilon, b, d, a), rel=1e-13, floor=1e-40)
        zu, zv = kept(a, d, b)
        both = max(rb.renyi(left, right, INF), rb.renyi(right, left, INF))
        agree(both, d + abs(mp.log(zv / zu)), rel=1e-13, floor=1e-40)


def test_a_misprint_in_a_closed_form_is_caught() -> None:
    """A control: 1/(1 - 2a) for 1/(2a - 1), as fu2023 prints it."""
    with mp.workdps(40):
        a, d, b = map(mp.mpf, (1, 1, 2))
        o = mp.mpf(2)
        zu, zv = kept(a, d, b)
        wrong = mp.exp(d) * (1 - mp.exp(-a)) - (mp.exp(d) - mp.exp(-2 * d)) / 3 + mp.exp(-2 * d) * (1 - mp.exp(-b))
        wrong = mp.log(wrong) + mp.log(zv) - o * mp.log(zu)
        with pytest.raises(AssertionError):
            agree(renyi(2.0, a, d, b), wrong, rel=1e-9)


# Scales.


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, 3.0, 50.0])
def test_the_interval_that_is_all_sensitivity_needs_the_plain_scale(epsilon: float) -> None:
    assert scale(1.0, epsilon) == pytest.approx(1.0 / epsilon, rel=1e-15)
    assert scale(1.5, epsilon) > 1.0 / epsilon


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, 3.0, 50.0])
def test_the_half_line(epsilon: float) -> None:
    query = rb.Query(range=rb.Interval(0, INF), sensitivity=2.5)
    found = rb.calibrate(noise=rb.Laplace, query=query, epsilon=epsilon).noise.scale
    with mp.workdps(40):
        agree(found, mp.mpf(2.5) / mp.log1p(mp.expm1(mp.mpf(epsilon)) / 2), rel=1e-14)


@pytest.mark.parametrize(
    ("width", "epsilon", "delta", "exact", "paper"),
    [(1.0, 1.0, 0.01, 0.852126, 0.990050), (10.0, 0.1, 0.01, 10.1898, 17.0362), (10.0, 1.0, 1e-3, 1.52620, 1.60967)],
)
def test_scales_with_a_delta(width: float, epsilon: float, delta: float, exact: float, paper: float) -> None:
    """Below holohan2018's sufficient ones: `paper` solves its condition (3.1)."""
    found = scale(width, epsilon, delta)
    assert found == pytest.approx(exact, rel=5e-6)
    assert found < paper
    # its condition: b = D / (eps - ln C - ln(1 - delta)), C = C(D, b) the ratio of the kept masses
    b = paper
    ratio = (1 - 0.5 * (math.exp(-1 / b) + math.exp(-(width - 1) / b))) / (1 - 0.5 * (1 + math.exp(-width / b)))
    assert b == pytest.approx(1.0 / (epsilon - math.log(ratio) - math.log1p(-delta)), rel=2e-5)


def test_the_half_line_with_a_delta() -> None:
    assert scale(INF, 1.0, 0.01) == pytest.approx(1.3553172, rel=5e-8)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-15), (0.1, 1e-6), (1.0, 0.4), (50.0, 1e-3)])
def test_plain_laplace_with_a_delta(epsilon: float, delta: float) -> None:
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=2.5)
    found = rb.calibrate(noise=rb.Laplace, query=query, bounding=rb.UNBOUNDED, epsilon=epsilon, delta=delta)
    with mp.workdps(40):
        exact = mp.mpf(2.5) / (mp.mpf(epsilon) - 2 * mp.log(1 - mp.mpf(delta)))
        agree(found.noise.scale, exact, rel=TIGHT)
        assert mp.mpf(found.noise.scale) >= exact


# Unions: s * epsilon / D in the two notions.


@pytest.mark.parametrize(
    ("support", "metric", "dp"),
    [
        (rb.Union((-INF, 0), (1, INF)), 1.353482, 1.238391),
        (rb.Union((-INF, 0), (10, INF)), 1.987041, 1.610197),
        (rb.Union((0, 1), (1.6, 2.6)), 2.0, 1.302636),
        (rb.Interval(0, 10), 2.0, 1.611560),
    ],
    ids=str,
)
def test_unions_in_both_notions(support: object, metric: float, dp: float) -> None:
    query = rb.Query(range=support, sensitivity=1.0)
    for notion, exact in (("metric", metric), ("dp", dp)):
        found = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0, notion=notion)
        assert found.noise.scale == pytest.approx(exact, abs=6e-7)
    lowers, uppers = zip(*support.spans, strict=True)
    assert laplace_union.metric_scale(lowers, uppers, 1.0, 1.0) == pytest.approx(metric, abs=6e-7)
    assert laplace_union.dp_scale(lowers, uppers, 1.0, 1.0) == pytest.approx(dp, abs=6e-7)


def test_answers_in_a_gap_need_more() -> None:
    """THEORY has 1.97820, from pairs inside the gap alone; a pair that has one answer just outside it needs more."""
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    support = rb.Union((-INF, 0), (10, INF))
    found = rb.calibrate(noise=rb.Laplace, query=query, support=support, epsilon=1.0)
    assert found.noise.scale == pytest.approx(1.97820, abs=3e-4)
    theory, ours = (Oracle(rb.Laplace(scale=x), support, rb.TRUNCATE) for x in (1.97820, found.noise.scale))
    assert theory.renyi(9.0, 10.0, INF) == pytest.approx(1.0, abs=5e-6)
    assert theory.renyi(9.02, 10.02, INF) > 1.0001
    losses = [ours.renyi(p, p + 1.0, INF) for p in (9.0, 9.01, 9.015, 9.02, 9.025, 9.03)]
    assert 1.0 - 1e-5 < max(losses) <= 1.0


# croft2022's variable scale on the half-line.


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1.65e-4), (0.5, 3.06e-4), (1.0, 1.56e-4), (2.0, 1.55e-5), (5.0, 8.31e-9)]
)
def test_the_variable_scale_gives_a_delta_and_no_pure_epsilon(epsilon: float, delta: float) -> None:
    query = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
    mechanism = rb.VariableScaleLaplace(query=query, epsilon=epsilon)
    assert mechanism.epsilon() == INF
    assert mechanism.delta(epsilon) == pytest.approx(delta, rel=4e-3)


def test_the_constants_of_the_variable_scale() -> None:
    for epsilon, sensitivity in ((1.0, 1.0), (0.3, 2.0)):
        query = rb.Query(range=rb.Interval(0, INF), sensitivity=sensitivity)
        mechanism = rb.VariableScaleLaplace(query=query, epsilon=epsilon)
        unit = sensitivity / epsilon
        assert float(mechanism.scale(0.0)) == pytest.approx(1.585954172178 * unit, rel=1e-12)
        assert float(mechanism.scale(unit)) == pytest.approx(1.3020171356 * unit, rel=1e-10)
        assert float(mechanism.scale(1e4 * unit)) == pytest.approx(unit, rel=1e-3)


def test_from_epsilon_two_on_the_uniform_scale_is_smaller() -> None:
    for epsilon in (2.0, 3.0, 6.0):
        query = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
        uniform = rb.calibrate(noise=rb.Laplace, query=query, epsilon=epsilon).noise.scale
        assert uniform < float(rb.VariableScaleLaplace(query=query, epsilon=epsilon).scale(0.0))


# Section 4.


def test_truncated_laplace_may_exceed_the_untruncated_curve() -> None:
    query = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
    half = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query)
    free = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, bounding=rb.UNBOUNDED)
    assert max(
        rb.renyi(half.law(0.0), half.law(1.0), 10.0), rb.renyi(half.law(1.0), half.law(0.0), 10.0)
    ) == pytest.approx(1.16272, abs=6e-6)
    assert rb.renyi(free.law(0.0), free.law(1.0), 10.0) == pytest.approx(0.92868, abs=6e-6)
