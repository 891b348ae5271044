"""Errata of [holohan2018]: the bounded Laplace mechanism. Each docstring starts with the entry in papers/errata.md."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import pytest

import rangebound as rb
from tests.errata import brute_force

TIGHT = 1e-9


def query(width: float) -> rb.Query:
    return rb.Query(range=rb.Interval(0.0, width), sensitivity=1.0)


def calibrated(width: float, epsilon: float, delta: float = 0.0) -> rb.Mechanism:
    return rb.calibrate(noise=rb.Laplace, query=query(width), epsilon=epsilon, delta=delta)


def plain(epsilon: float, delta: float) -> float:
    """The smallest scale on the whole line."""
    line = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    return rb.calibrate(noise=rb.Laplace, query=line, bounding=rb.UNBOUNDED, epsilon=epsilon, delta=delta).noise.scale


def law(location: Any, scale: Any, width: Any) -> brute_force.Law:
    return brute_force.truncated(brute_force.laplace, location, scale, (0, width))


def worst_stick(scale: float, width: float, epsilon: float, positions: list[float]) -> Any:
    """The largest hockey stick over pairs at distance 1 that start at these positions, in both directions."""
    best = mp.mpf(0)
    for at in positions:
        one, other = law(at, scale, width), law(at + 1.0, scale, width)
        best = max(best, brute_force.stick(one, other, epsilon), brute_force.stick(other, one, epsilon))
    return best


@brute_force.precisely
def right_side(scale: Any, width: Any, epsilon: Any, delta: Any) -> Any:
    """Right-hand side of (3.1), sensitivity 1: also the fixed-point operator (4.1)."""
    mass = [law(at, scale, width).norm for at in (0, 1)]
    return 1 / (mp.mpf(epsilon) - mp.log(mass[1] / mass[0]) - mp.log(1 - mp.mpf(delta)))


@brute_force.precisely
def printed_scale(width: float, epsilon: float, delta: float) -> float:
    """The fixed point b*, from b_0 upwards."""
    low = 1 / (mp.mpf(epsilon) - mp.log(1 - mp.mpf(delta)))
    ends = (low, right_side(low, width, epsilon, delta) + mp.mpf("1e-9"))
    return float(mp.findroot(lambda b: right_side(b, width, epsilon, delta) - b, ends, solver="anderson", tol=1e-28))


def algorithm_1(width: float, epsilon: float) -> float:
    """Algorithm 1 as printed, in double precision, for delta = 0 and sensitivity 1."""

    def kept(q: float, b: float) -> float:
        return 1.0 - 0.5 * (math.exp(-q / b) + math.exp(-(width - q) / b))

    def f(b: float) -> float:
        return 1.0 / (epsilon - math.log(kept(1.0, b) / kept(0.0, b)))

    left = 1.0 / epsilon
    right = f(left)
    b, size = left, (left + right) * 2.0
    while size > right - left:
        size = right - left
        b = (left + right) / 2.0
        value = f(b)
        left = b if value >= b else left
        right = b if value <= b else right
    return b


def exact_loss(scale: float, width: float) -> Any:
    """Largest log-ratio between the laws at 0 and at 1, which is the worst pair."""
    return brute_force.loss(law(0, scale, width), law(1, scale, width), points=0)


def bracketed(scale: float, width: float, epsilon: float, delta: float, worst: float) -> bool:
    """Whether this scale is private at the worst position and one smaller by 1e-9 is not."""
    return (
        worst_stick(scale * (1.0 - TIGHT), width, epsilon, [worst])
        > delta
        >= worst_stick(scale, width, epsilon, [worst])
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("width", "epsilon", "delta", "printed", "true", "worst"),
    [
        (1.0, 1.0, 0.01, 0.990050, 0.852126, 0.0),
        (10.0, 0.1, 0.01, 17.0362, 10.1898, 1.6989391),
        (10.0, 1.0, 1e-3, 1.60967, 1.52620, 0.04636737),
        (100.0, 1e-3, 0.1, 18.3150, 4.72319, 49.0782359),
    ],
)
def test_the_published_scale_is_up_to_four_times_too_large(
    width: float, epsilon: float, delta: float, printed: float, true: float, worst: float
) -> None:
    """holohan2018-theorem-3-5-noise: (3.1) is sufficient, and its fixed point is not the smallest private scale."""
    published, smallest = printed_scale(width, epsilon, delta), calibrated(width, epsilon, delta).noise.scale
    assert published == pytest.approx(printed, rel=1e-5)
    assert smallest == pytest.approx(true, rel=1e-5)
    assert bracketed(smallest, width, epsilon, delta, worst)
    scan = [(width - 1.0) * k / 4 for k in range(5)] if width > 1.0 else [0.0]
    assert worst_stick(smallest, width, epsilon, scan) <= delta
    assert worst_stick(published, width, epsilon, [worst]) < 0.8 * delta  # the published scale leaves delta unspent


def test_the_condition_holds_without_privacy_where_its_denominator_is_negative() -> None:
    """holohan2018-theorem-3-5-negative: at a tiny scale (3.1) reads `b >= a negative number`."""
    scale, width, epsilon = 0.01, 10.0, 0.1
    assert -2.0 < right_side(scale, width, epsilon, 0.0) < 0.0 < scale  # the printed condition is met
    true = exact_loss(scale, width)
    assert true > 1000.0 * epsilon
    m = rb.Mechanism(noise=rb.Laplace(scale=scale), query=query(width))
    assert m.epsilon() == pytest.approx(float(true), rel=TIGHT)
    assert m.epsilon() == pytest.approx(100.693147, rel=1e-8)
    assert m.delta(epsilon) > 0.999


@pytest.mark.parametrize(("epsilon", "delta", "true"), [(1.0, 0.01, 0.980295), (0.1, 0.3, 1.229483)])
def test_plain_laplace_needs_less_than_the_required_scale(epsilon: float, delta: float, true: float) -> None:
    """holohan2018-plain-laplace: D/(eps - ln(1 - delta)) is sufficient; the smallest scale has twice the logarithm."""
    printed, smallest = 1.0 / (epsilon - math.log1p(-delta)), plain(epsilon, delta)
    assert round(smallest, 6) == true  # to its last digit
    assert smallest == pytest.approx(1.0 / (epsilon - 2.0 * math.log1p(-delta)), rel=TIGHT)
    assert printed > 1.009 * smallest
    pairs = {b: [brute_force.free(brute_force.laplace, q, b) for q in (0, 1)] for b in (printed, smallest)}
    assert float(brute_force.stick(*pairs[smallest], epsilon)) == pytest.approx(delta, rel=TIGHT)
    assert brute_force.stick(*pairs[printed], epsilon) < 0.6 * delta


@pytest.mark.parametrize(
    ("width", "epsilon", "delta", "bounded", "unbounded", "worst"),
    [(1.0, 1.0, 0.01, 0.852126, 0.980295, 0.0), (10.0, 1e-3, 0.1, 4.59241, 4.72320, 4.4823708)],
)
def test_bounding_can_need_less_noise_than_plain_laplace(
    width: float, epsilon: float, delta: float, bounded: float, unbounded: float, worst: float
) -> None:
    """holohan2018-corollary-4-5: with delta > 0 the bounded mechanism may have a smaller scale than the plain one."""
    ours, standard = calibrated(width, epsilon, delta).noise.scale, plain(epsilon, delta)
    assert f"{ours:.6g}" == f"{bounded:.6g}"
    assert f"{standard:.6g}" == f"{unbounded:.6g}"
    assert ours < 0.975 * standard  # the smallest plain scale, not only the larger one that the paper compares with
    assert ours < 0.975 / (epsilon - math.log1p(-delta))
    assert bracketed(ours, width, epsilon, delta, worst)
    line = [brute_force.free(brute_force.laplace, q, ours) for q in (0, 1)]
    assert brute_force.stick(*line, epsilon) > 1.02 * delta  # plain Laplace with this scale is not private


def test_the_published_algorithm_loses_its_digits_at_small_epsilon() -> None:
    """holohan2018-algorithm-1-precision: in double precision the scale it returns at tiny epsilon is not private."""
    width, excess = 10.0, []
    for epsilon in (3e-9, 1e-9, 1e-10, 1e-11):
        excess.append(float(exact_loss(algorithm_1(width, epsilon), width)) / epsilon)
        ours = calibrated(width, epsilon).noise.scale
        assert 1.0 - TIGHT <= exact_loss(ours, width) / mp.mpf(epsilon) <= 1.0
    assert max(excess) > 1.8
    # control: at ordinary epsilon the same code is accurate
    assert float(exact_loss(algorithm_1(width, 1.0), width)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.slow
def test_the_published_algorithm_may_stop_below_the_root() -> None:
    """holohan2018-algorithm-1-rounding: the last bit of the returned scale may lie on the side that is not private."""
    width, late = 10.0, 0
    for k in range(1, 13):
        epsilon = k / 10
        published = exact_loss(algorithm_1(width, epsilon), width) / mp.mpf(epsilon)
        assert abs(published - 1) < 1e-13  # the error is a matter of the last bits
        late += published > 1
        ours = exact_loss(calibrated(width, epsilon).noise.scale, width) / mp.mpf(epsilon)
        assert 1.0 - TIGHT <= ours <= 1
    assert late >= 1


def test_half_the_epsilon_is_four_times_the_variance() -> None:
    """holohan2018-doubled-variance: eps = 2 eps' doubles the scale, and so multiplies the variance by four."""
    line = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    variances = []
    for epsilon in (1.0, 0.5):
        noise = brute_force.free(brute_force.laplace, 0, 1 / mp.mpf(epsilon))
        variances.append(float(brute_force.integral(lambda x, noise=noise: x * x * noise.density(x), noise)))
        m = rb.Mechanism(noise=rb.Laplace(scale=1.0 / epsilon), query=line, bounding=rb.UNBOUNDED)
        assert float(m.law(0.0).variance) == pytest.approx(variances[-1], rel=TIGHT)
    assert variances[1] / variances[0] == pytest.approx(4.0, rel=TIGHT)


def test_truncated_names_the_clamped_mechanism() -> None:
    """holohan2018-truncated: what the paper calls truncated is clamping, and the two differ in law and in privacy."""
    width, scale = 10.0, 1.0
    clamped = [brute_force.rectified(brute_force.laplace, q, scale, 0, width) for q in (0, 1)]
    resampled = [law(q, scale, width) for q in (0, 1)]
    for bounding, pair, true in ((rb.RECTIFY, clamped, 1.0), (rb.TRUNCATE, resampled, 1.489850)):
        m = rb.Mechanism(noise=rb.Laplace(scale=scale), query=query(width), bounding=bounding)
        assert m.epsilon() == pytest.approx(true, rel=1e-6)
        seen = max(brute_force.loss(*pair, points=20), brute_force.loss(*pair[::-1], points=20))
        assert m.epsilon() == pytest.approx(float(seen), rel=TIGHT)
    points, weights = (
        rb.Mechanism(noise=rb.Laplace(scale=scale), query=query(width), bounding=rb.RECTIFY).law(0.0).atoms
    )
    assert points.tolist() == [0.0, width]
    assert weights[0] == pytest.approx(float(clamped[0].atoms[0]), rel=TIGHT) == pytest.approx(0.5, rel=TIGHT)
