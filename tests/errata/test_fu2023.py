"""Errata of [fu2023]: truncated mechanisms and Renyi privacy. Each docstring starts with its entry in the docs."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

import rangebound as rb
from tests.errata import brute_force

TIGHT = 1e-9


def laplace_mechanism(scale: float, support: rb.Interval, top: float = 1.0) -> rb.Mechanism:
    """Truncated Laplace as in Algorithm 2: answers in [0, mu], outputs in the support."""
    query = rb.Query(range=rb.Interval(0.0, top), sensitivity=top)
    return rb.Mechanism(noise=rb.Laplace(scale=scale), query=query, support=support)


def pair(scale: float, lower: float, upper: float, top: float = 1.0) -> list[brute_force.Law]:
    return [brute_force.truncated(brute_force.laplace, q, scale, (lower, upper)) for q in (0.0, top)]


def untruncated(order: float, scale: float, top: float = 1.0) -> float:
    """Eq. 6: the divergence of two Laplace laws on the line."""
    rise, fall = math.exp((order - 1.0) * top / scale), math.exp(-order * top / scale)
    return math.log((order * rise + (order - 1.0) * fall) / (2.0 * order - 1.0)) / (order - 1.0)


@pytest.mark.parametrize(("order", "true"), [(2.0, 0.308994), (2.5, 0.369264), (10.0, 0.723804)])
def test_the_divergence_inside_has_the_wrong_sign(order: float, true: float) -> None:
    """fu2023-eqs-21-23: as printed the logarithm is of a negative number; 2a - 1 belongs where 1 - 2a stands."""
    scale, lower, upper = 0.5, 0.2, 0.7
    ratio = math.exp(-(upper - lower) / scale)

    def argument(factor: float, exponent: float) -> float:
        return (math.exp(-(1.0 - exponent) * (upper - lower) / scale) - ratio**order) / (1.0 - ratio) / factor

    assert argument(1.0 - 2.0 * order, lower) < 0.0  # as printed: 1/(1 - 2 alpha), and the end a in the exponent
    assert argument(1.0 - 2.0 * order, order) < 0.0
    half_corrected = math.log(argument(2.0 * order - 1.0, lower)) / (order - 1.0)
    corrected = math.log(argument(2.0 * order - 1.0, order)) / (order - 1.0)
    p, q = pair(scale, lower, upper)
    brute = float(brute_force.renyi(p, q, order))
    assert brute == pytest.approx(true, rel=1e-5)
    assert abs(half_corrected - brute) > 0.1
    assert corrected == pytest.approx(brute, rel=TIGHT)
    assert float(brute_force.renyi(q, p, order)) == pytest.approx(brute, rel=TIGHT)  # eq. 23
    m = laplace_mechanism(scale, rb.Interval(lower, upper))
    assert rb.renyi(m.law(0.0), m.law(1.0), order) == pytest.approx(brute, rel=TIGHT)
    assert brute < untruncated(order, scale)  # Theorem 4.1 itself is right in this case


def sides_of_theorem_4_3(order: float, scale: float, width: float, top: float) -> tuple[float, float]:
    """Both sides of the inequality of Theorem 4.3; the printed right-hand side is that of mu = 1."""
    left = math.exp((order - 1.0) * width / scale) - math.exp(-order * width / scale)
    rise, fall = math.exp((order - 1.0) * top / scale), math.exp(-order * top / scale)
    return left / -math.expm1(-width / scale), order * rise + (order - 1.0) * fall


def test_the_inequality_needs_an_interval_no_longer_than_mu() -> None:
    """fu2023-theorem-4-3: the stated condition b > a > mu is neither needed nor enough; b - a <= mu is."""
    left, right = sides_of_theorem_4_3(2.0, 1.0, width=3.0, top=1.0)  # mu = 1, a = 2, b = 5: b > a > mu
    assert (left, right) == pytest.approx((21.135324, 5.571899), rel=1e-6)
    for order in (1.0, 1.5, 2.0, 10.0, 32.0):
        for scale in (0.3, 1.0, 5.0):
            for top in (0.5, 1.0, 2.0):
                for share in (1e-3, 0.2, 0.7, 1.0):
                    left, right = sides_of_theorem_4_3(order, scale, share * top, top)
                    assert left <= right * (1.0 + 1e-12)
    # what the printed condition describes is Theorem 4.1's second case, where nothing at all leaks
    p, q = pair(1.0, 2.0, 5.0)
    assert abs(brute_force.renyi(p, q, 2.0)) < 1e-25
    m = laplace_mechanism(1.0, rb.Interval(2.0, 5.0))
    assert rb.renyi(m.law(0.0), m.law(1.0), 2.0) == 0.0


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("lower", "upper", "order", "true", "plain"),
    [
        (0.0, math.inf, 10.0, 1.162720, 0.928683),
        (-5.0, 0.9, 10.0, 1.037545, 0.928683),
        (-3.0, 3.0, 2.0, 0.621621, 0.619121),
    ],
)
def test_truncated_laplace_can_exceed_the_untruncated_curve(
    lower: float, upper: float, order: float, true: float, plain: float
) -> None:
    """fu2023-theorem-4-1-scope: outside the three cases the curve of plain Laplace is not a bound."""
    p, q = pair(1.0, lower, upper)
    brute = float(max(brute_force.renyi(p, q, order), brute_force.renyi(q, p, order)))
    assert brute == pytest.approx(true, rel=1e-5)
    line = [brute_force.free(brute_force.laplace, at, 1.0) for at in (0.0, 1.0)]
    assert float(brute_force.renyi(*line, order)) == pytest.approx(untruncated(order, 1.0), rel=TIGHT)
    assert untruncated(order, 1.0) == pytest.approx(plain, rel=1e-5)
    assert brute > 1.004 * untruncated(order, 1.0)
    m = laplace_mechanism(1.0, rb.Interval(lower, upper))
    assert m.rdp(order) == pytest.approx(brute, rel=1e-6)
    assert max(rb.renyi(m.law(0.0), m.law(1.0), order), rb.renyi(m.law(1.0), m.law(0.0), order)) == pytest.approx(
        brute, rel=TIGHT
    )


def test_truncated_gaussian_can_exceed_the_untruncated_curve_with_a_gap() -> None:
    """fu2023-theorem-3-1-scope: the bound alpha/(2 sigma^2) is for an interval, not for a support with a gap."""
    order, scale = 2.0, 1.0
    ceiling = order / (2.0 * scale**2)
    spans = ((-math.inf, -1.0), (1.0, math.inf))
    laws = [brute_force.truncated(brute_force.gaussian, q, scale, *spans) for q in (-0.5, 0.5)]
    brute = float(brute_force.renyi(*laws, order))
    assert brute == pytest.approx(1.6199, rel=1e-4)
    assert brute > 1.6 * ceiling
    query = rb.Query(range=rb.Interval(-0.5, 0.5), sensitivity=1.0)
    gap = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, support=rb.Union(*spans))
    assert rb.renyi(gap.law(-0.5), gap.law(0.5), order) == pytest.approx(brute, rel=TIGHT)
    assert gap.rdp(order) == pytest.approx(brute, rel=1e-6)
    # control: on an interval the theorem holds
    inside = [brute_force.truncated(brute_force.gaussian, q, scale, (-1.0, 1.0)) for q in (-0.5, 0.5)]
    assert brute_force.renyi(*inside, order) < 0.3 * ceiling


def test_the_number_of_draws_gives_the_answer_away() -> None:
    """fu2023-resampling: drawing until a value fits takes a time that depends on the true answer."""
    scale, lower, upper = 1.0, 1.1, 1.2
    p, q = pair(scale, lower, upper)
    assert abs(brute_force.renyi(p, q, 2.0)) < 1e-25  # Theorem 4.1, second case: the value itself says nothing
    accept = [float(each.norm) for each in (p, q)]
    assert accept == pytest.approx([0.01583844, 0.04305333], rel=1e-6)
    assert [1.0 / each for each in accept] == pytest.approx([63.138, 23.227], rel=1e-4)  # draws on average

    def count_loss(draws: int) -> float:
        """Log-ratio of the chance of exactly this many draws."""
        chances = [(draws - 1) * math.log1p(-each) + math.log(each) for each in accept]
        return chances[0] - chances[1]

    assert round(count_loss(300), 3) == 7.385  # to its last digit
    assert count_loss(3000) > 80.0  # no epsilon holds
    m = laplace_mechanism(scale, rb.Interval(lower, upper))
    assert m.epsilon() == 0.0
    quantiles = [m.law(at).quantile([0.1, 0.5, 0.9]) for at in (0.0, 1.0)]  # one draw, by inversion, for any answer
    assert quantiles[0].tolist() == pytest.approx(quantiles[1].tolist(), rel=1e-12)
    with mp.workdps(brute_force.DIGITS):
        middle = mp.quad(p.density, [mp.mpf(lower), mp.mpf(float(quantiles[0][1]))])
    assert float(middle) == pytest.approx(0.5, rel=TIGHT)
