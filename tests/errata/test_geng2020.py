"""Errata of [geng2020]: the truncated Laplacian mechanism. Each docstring starts with its entry in papers/errata.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import pytest

import rangebound as rb
from papers.geng2020._additive_noise import additive_noise_limits
from tests.errata import brute_force

TIGHT = 1e-9
LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)

# Sensitivity 1 throughout.


def reach(epsilon: float, delta: float) -> float:
    """A of Definition 3: where the noise ends."""
    return math.log1p(math.expm1(epsilon) / (2.0 * delta)) / epsilon


@brute_force.precisely
def density(epsilon: float, delta: float) -> Callable[[Any], Any]:
    """The density of Definition 3; normalised by quadrature."""
    end = mp.mpf(reach(epsilon, delta))
    mass = 2 * mp.quad(lambda x: mp.exp(-epsilon * x), [0, end / 8, end / 2, end])
    return lambda x: mp.exp(-epsilon * abs(x)) / mass if abs(x) <= end else mp.mpf(0)


@brute_force.precisely
def mass(epsilon: float, delta: float, lower: Any, upper: Any) -> Any:
    """Probability that the noise falls into [lower, upper], on one side of 0."""
    end = reach(epsilon, delta)
    lower, upper = max(mp.mpf(lower), -end), min(mp.mpf(upper), end)
    return mp.quad(density(epsilon, delta), [lower, upper]) if lower < upper else mp.mpf(0)


@brute_force.precisely
def moment(epsilon: float, delta: float, power: int) -> Any:
    f, end = density(epsilon, delta), mp.mpf(reach(epsilon, delta))
    return 2 * mp.quad(lambda x: x**power * f(x), [0, end / 8, end / 2, end])


def steps(epsilon: float, delta: float) -> tuple[float, float, float]:
    """a and b of Section 4, and the n that solves sum_{k<n} a b^k = 1/2."""
    a, b = (delta + math.expm1(epsilon) / 2.0) * math.exp(-epsilon), math.exp(-epsilon)
    return a, b, math.log1p(-(1.0 - b) / (2.0 * a)) / math.log(b)


def lower_bound(epsilon: float, delta: float, n: int, power: int) -> float:
    a, b, _ = steps(epsilon, delta)
    return 2.0 * a * sum(b**k * k**power for k in range(n))


def gaussian_scale(epsilon: float, delta: float) -> float:
    """The smallest scale of Gaussian noise [balle2018]."""
    m = rb.calibrate(noise=rb.Gaussian, query=LINE, bounding=rb.UNBOUNDED, epsilon=epsilon, delta=delta)
    return m.noise.scale


@pytest.mark.parametrize(
    ("epsilon", "delta", "n"), [(0.1, 0.15, 3.005265), (0.1, 0.1, 4.225546), (0.01, 0.4, 1.248445)]
)
def test_rounding_the_number_of_steps_up_breaks_the_lower_bounds(epsilon: float, delta: float, n: float) -> None:
    """geng2020-theorem-4-rounding: with n rounded up the `lower bounds` lie above what the mechanism achieves."""
    real = steps(epsilon, delta)[2]
    assert real == pytest.approx(n, rel=1e-6)
    # the mechanism is private: no set beats delta at the full shift, and one reaches it
    end = reach(epsilon, delta)
    assert float(mass(epsilon, delta, end - 1.0, end)) == pytest.approx(delta, rel=TIGHT)
    limits = additive_noise_limits(epsilon=epsilon, delta=delta)
    for power, upper, lower in (
        (1, limits.amplitude, limits.amplitude_at_least),
        (2, limits.power, limits.power_at_least),
    ):
        achieved = float(moment(epsilon, delta, power))
        assert upper == pytest.approx(achieved, rel=TIGHT)
        assert lower_bound(epsilon, delta, math.ceil(real), power) > 1.04 * achieved
        assert lower_bound(epsilon, delta, math.floor(real), power) < achieved
        assert lower == pytest.approx(lower_bound(epsilon, delta, math.floor(real), power), rel=TIGHT, abs=1e-300)
    assert lower_bound(0.1, 0.15, 4, 1) > 1.22 * moment(0.1, 0.15, 1)


def ratios(epsilon: float, delta: float) -> tuple[float, float]:
    """Amplitude and power of the truncated Laplacian over those of the smallest Gaussian."""
    scale = gaussian_scale(epsilon, delta)
    pair = [brute_force.free(brute_force.gaussian, q, scale) for q in (0, 1)]
    assert float(brute_force.stick(*pair, epsilon)) == pytest.approx(delta, rel=1e-7)  # it spends all of delta
    amplitude, power = (float(moment(epsilon, delta, k)) for k in (1, 2))
    limits = additive_noise_limits(epsilon=epsilon, delta=delta)
    assert (limits.amplitude, limits.power) == pytest.approx((amplitude, power), rel=TIGHT)
    return amplitude / (scale * math.sqrt(2.0 / math.pi)), power / scale**2


@pytest.mark.slow
def test_the_gaussian_wins_at_large_delta() -> None:
    """geng2020-all-regimes: truncated Laplacian noise is smaller on the grid that was plotted, not everywhere."""
    assert ratios(10.0, 1e-6) == pytest.approx((0.2316, 0.0683), abs=1e-4)
    assert max(ratios(0.1, 0.1)) < 0.87
    assert ratios(1.35, 0.394)[0] < 1.0 < ratios(1.35, 0.396)[0]  # the amplitude crosses at delta = 0.395
    assert ratios(1.9, 0.401)[1] < 1.0 < ratios(1.9, 0.403)[1]  # the power crosses at delta = 0.402
    amplitude, power = ratios(2.0, 0.45)
    assert amplitude == pytest.approx(1.0166, abs=1e-4)
    assert power == pytest.approx(1.0506, abs=1e-4)


def test_the_gaussian_may_decay_faster() -> None:
    """geng2020-decay-rate: inside the plotted grid there are noises at which the Gaussian density falls faster."""
    epsilon, delta, x = 0.1, 1e-3, 35.0
    f, gauss = density(epsilon, delta), brute_force.free(brute_force.gaussian, 0, gaussian_scale(epsilon, delta))
    assert x + 1.0 < reach(epsilon, delta)
    ours, theirs = (float(mp.log(g(mp.mpf(x)) / g(mp.mpf(x + 1.0)))) for g in (f, gauss.density))
    assert ours == pytest.approx(epsilon, rel=TIGHT)
    assert theirs == pytest.approx(0.117196, rel=1e-5)
    noise = rb.TruncatedLaplacian(scale=1.0 / epsilon, limit=reach(epsilon, delta))
    pdf = rb.Mechanism(noise=noise, query=LINE, bounding=rb.UNBOUNDED).law(0.0).log_pdf([x, x + 1.0])
    assert float(pdf[0] - pdf[1]) == pytest.approx(ours, rel=TIGHT)


def test_the_proof_names_the_wrong_set_for_smaller_shifts() -> None:
    """geng2020-theorem-1-proof: for a shift d < D the best set is [A - d, inf), and the stated maximum is not one."""
    epsilon, delta, shift = 1.0, 0.01, 0.5
    end = reach(epsilon, delta)
    printed_set = mass(epsilon, delta, end - 1.0, end) - mp.exp(epsilon) * mass(epsilon, delta, end - 1.0 + shift, end)
    printed_value = mass(epsilon, delta, end - 1.0, end - 1.0 + shift)
    true = mass(epsilon, delta, end - shift, end)
    assert float(printed_set) == pytest.approx(-2.6262e-4, rel=1e-3)
    assert float(printed_value) == pytest.approx(6.2246e-3, rel=1e-4)
    assert float(true) == pytest.approx(3.7754e-3, rel=1e-4)
    assert printed_set < true < printed_value <= delta  # the conclusion stands
    noise = rb.TruncatedLaplacian(scale=1.0 / epsilon, limit=end)
    m = rb.Mechanism(noise=noise, query=LINE, bounding=rb.UNBOUNDED)
    assert rb.hockey_stick(m.law(0.0), m.law(shift), epsilon) == pytest.approx(float(true), rel=1e-8)
    assert m.delta(epsilon) == pytest.approx(delta, rel=1e-8)


def condition_9(epsilon: float, delta: float, n: int, cells: int) -> float:
    """Left-hand side of (9) less L(1), for the discrete cost of the proof of Theorem 4 with N cells."""
    b = steps(epsilon, delta)[1]

    def cost(i: int) -> float:
        return (2.0 * i - 1.0) / (2.0 * cells) if i >= 1 else 0.0

    terms = (b**i * (2.0 * cost(i * cells) - cost(1 + (i - 1) * cells) - cost(1 + i * cells)) for i in range(1, n))
    return sum(terms) - cost(1)


def test_the_number_of_cells_in_the_proof_is_too_small() -> None:
    """geng2020-condition-9: N >= a + 2 cells do not satisfy (9); N >= 2 + a/(1 - 2a) do."""
    epsilon = 2.0
    # a(1 + b) = 1/2 makes n = 2 exactly, as the paper assumes
    delta = math.exp(epsilon) / (2.0 * (1.0 + math.exp(-epsilon))) - math.expm1(epsilon) / 2.0
    a, _, n = steps(epsilon, delta)
    assert n == pytest.approx(2.0, rel=TIGHT)
    assert (a, delta) == pytest.approx((0.440399, 0.059601), abs=1e-6)
    cells = 3
    printed = ((cells - 2) / a - 1.0) / (2.0 * cells)
    true = condition_9(epsilon, delta, 2, cells)
    assert cells >= a + 2.0
    assert printed > 0.2
    assert true == pytest.approx(-0.121555, rel=1e-5)
    assert true == pytest.approx(((cells - 2) * (1.0 / a - 2.0) - 1.0) / (2.0 * cells), rel=TIGHT)
    enough = math.ceil(2.0 + a / (1.0 - 2.0 * a))
    assert enough == 6
    assert condition_9(epsilon, delta, 2, enough - 1) < 0.0 < condition_9(epsilon, delta, 2, enough)
    # so the theorem stands for any N large enough, and so does the bound
    limits = additive_noise_limits(epsilon=epsilon, delta=delta * (1.0 + 1e-12))
    assert limits.amplitude_at_least < limits.amplitude


def test_the_gaussian_density_lacks_a_factor_of_two() -> None:
    """geng2020-gaussian-density: the decay rate of N(0, s^2) noise is the square root of the one in Section 3."""
    scale, x = 1.5, 2.0
    gauss = brute_force.free(brute_force.gaussian, 0, scale)
    variance = brute_force.integral(lambda y: y * y * gauss.density(y), gauss)
    assert float(variance) == pytest.approx(scale**2, rel=TIGHT)  # s is the standard deviation, as in Section 6
    true = float(gauss.density(mp.mpf(x)) / gauss.density(mp.mpf(x + 1.0)))
    printed = math.exp((1.0 + 2.0 * x) / scale**2)
    assert (printed, true) == pytest.approx((9.227814, 3.037732), rel=1e-6)
    assert true == pytest.approx(math.sqrt(printed), rel=TIGHT)
    pdf = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=LINE, bounding=rb.UNBOUNDED).law(0.0).pdf([x, x + 1.0])
    assert float(pdf[0] / pdf[1]) == pytest.approx(true, rel=TIGHT)
