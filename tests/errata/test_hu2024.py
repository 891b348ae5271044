"""Errata of [hu2024]: Gaussian mechanisms with bounded support. Each docstring starts with its entry in the docs."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import mpmath as mp
import pytest

import rangebound as rb
from tests.errata import brute_force

TIGHT = 1e-9
LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
UNIT = rb.Interval(-1.0, 1.0)

# Support [-1, 1] and sigma = 1 unless said otherwise.


def mechanism(bounding: Any, scale: float = 1.0) -> rb.Mechanism:
    support = None if bounding is rb.UNBOUNDED else UNIT
    return rb.Mechanism(noise=rb.Gaussian(scale=scale), query=LINE, support=support, bounding=bounding)


@cache
def law(bounding: Any, at: Any) -> brute_force.Law:
    if bounding is rb.RECTIFY:
        return brute_force.rectified(brute_force.gaussian, at, 1.0, -1.0, 1.0)
    return brute_force.truncated(brute_force.gaussian, at, 1.0, (-1.0, 1.0))


@cache
def divergence(bounding: Any, one: float, other: float, order: float = 2.0) -> float:
    """Renyi divergence by quadrature, checked against the library."""
    brute = float(brute_force.renyi(law(bounding, one), law(bounding, other), order))
    m = mechanism(bounding)
    assert rb.renyi(m.law(one), m.law(other), order) == pytest.approx(brute, rel=TIGHT)
    return brute


def kept(x: float) -> float:
    """Delta(x) of Lemma 4.4."""
    return float(mp.ncdf(1.0 - x) - mp.ncdf(-1.0 - x))


@pytest.mark.parametrize(
    ("at", "shift", "order", "printed", "true"),
    [(3.0, 1.0, 1.5, -3.040867, 0.076929), (-0.3, 0.7, 3.5, 1.647801, 0.227641)],
)
def test_the_divergence_of_truncated_gaussians(
    at: float, shift: float, order: float, printed: float, true: float
) -> None:
    """hu2024-eq-6: the main text has the wrong argument and the wrong exponent; Appendix B has the right formula."""
    free = order * shift**2 / 2.0
    first = kept(at + shift) / kept(at)
    as_printed = free + math.log(first * (kept((1.0 - order) * (shift + at)) / kept(at)) ** (1.0 - order))
    right = free + math.log(first) + math.log(kept(at + (1.0 - order) * shift) / kept(at)) / (order - 1.0)
    brute = divergence(rb.TRUNCATE, at, at + shift, order)
    assert right == pytest.approx(brute, rel=TIGHT)
    assert (as_printed, brute) == pytest.approx((printed, true), rel=1e-5)


def test_the_fisher_information_of_the_rectified_gaussian() -> None:
    """hu2024-eq-4: the interior term has the wrong sign, so the printed value is negative here."""
    at = 0.3
    low, high = -1.0 - at, 1.0 - at
    pdf, cdf = (lambda x: float(mp.npdf(x))), (lambda x: float(mp.ncdf(x)))
    atoms = pdf(low) ** 2 / cdf(low) + pdf(high) ** 2 / cdf(-high)
    edges = low * pdf(low) - high * pdf(high)
    printed = atoms + cdf(-high) - cdf(-low) + edges
    corrected = atoms + cdf(high) - cdf(low) + edges
    brute = float(brute_force.fisher(lambda q: law(rb.RECTIFY, q), at))
    assert corrected == pytest.approx(brute, rel=TIGHT)
    assert corrected == pytest.approx(0.926221023019974, rel=1e-12)
    assert printed == pytest.approx(-0.396251, rel=1e-5)
    assert mechanism(rb.RECTIFY).fisher(at) == pytest.approx(brute, rel=TIGHT)


def test_the_fisher_loss_is_the_square_root_of_the_norm() -> None:
    """hu2024-definition-2-4: the matrix norm must be bounded by eta^2, or the Cramer-Rao statement is false."""
    scale = 2.0
    information = float(brute_force.fisher(lambda q: brute_force.free(brute_force.gaussian, q, scale), 0.3))
    assert information == pytest.approx(1.0 / scale**2, rel=TIGHT)
    assert mechanism(rb.UNBOUNDED, scale).fisher(0.3) == pytest.approx(information, rel=TIGHT)
    noise = brute_force.free(brute_force.gaussian, 0.0, scale)
    variance = float(brute_force.integral(lambda x: x * x * noise.density(x), noise))  # of the output, unbiased
    assert variance == pytest.approx(4.0, rel=TIGHT)
    assert 1.0 / information**2 == pytest.approx(16.0, rel=TIGHT)  # what eta = ||I|| promises, four times too much
    assert 1.0 / math.sqrt(information) ** 2 == pytest.approx(variance, rel=TIGHT)  # eta = ||I||^(1/2)


def test_one_direction_does_not_bound_the_other() -> None:
    """hu2024-definition-2-3: one divergence is bounded, but the privacy of Definition 2.2 needs both."""
    forward, backward = divergence(rb.RECTIFY, -2.0, -1.0), divergence(rb.RECTIFY, -1.0, -2.0)
    assert (forward, backward) == pytest.approx((0.390390, 0.930706), rel=1e-5)
    # Definition 2.2 at epsilon = 1: its first inequality holds with delta = 0, its second needs one of 0.127
    deltas = [float(brute_force.stick(law(rb.RECTIFY, p), law(rb.RECTIFY, q), 1.0)) for p, q in ((-2, -1), (-1, -2))]
    assert deltas == pytest.approx([0.0, 0.126937], abs=1e-6)
    m = mechanism(rb.RECTIFY)
    assert rb.hockey_stick(m.law(-1.0), m.law(-2.0), 1.0) == pytest.approx(deltas[1], rel=TIGHT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounding", "printed", "true"), [(rb.RECTIFY, 0.731971, 0.930706), (rb.TRUNCATE, 0.174840, 0.248149)]
)
def test_the_shift_may_be_worse_the_other_way(bounding: Any, printed: float, true: float) -> None:
    """hu2024-section-4-2-shift: both directions at +c do not suffice; a record may also move the answer by -c."""
    at, c = 2.0, 1.0
    up = max(divergence(bounding, at, at + c), divergence(bounding, at + c, at))
    down = max(divergence(bounding, at, at - c), divergence(bounding, at - c, at))
    assert (up, down) == pytest.approx((printed, true), rel=1e-5)
    # monotone in the distance, so +-c is all there is: no smaller shift is worse
    for share in (-0.9, -0.5, 0.4, 0.9):
        x = at + share * c
        assert max(divergence(bounding, at, x), divergence(bounding, x, at)) < max(up, down)


def test_per_instance_accounting_undercounts() -> None:
    """hu2024-proposition-5-1: one shift and one direction give less than the mechanism leaks."""
    c = 1.0

    def printed(location: list[float]) -> float:
        return sum(divergence(rb.RECTIFY, x, x + c) for x in location)

    def right(location: list[float]) -> float:
        forward = sum(max(divergence(rb.RECTIFY, x, x + s) for s in (c, -c)) for x in location)
        backward = sum(max(divergence(rb.RECTIFY, x + s, x) for s in (c, -c)) for x in location)
        return max(forward, backward)

    assert (printed([-2.0]), right([-2.0])) == pytest.approx((0.390390, 0.930706), rel=1e-5)
    location = [-2.0, 2.0]
    assert (printed(location), right(location)) == pytest.approx((1.122361, 1.861412), rel=1e-5)
    # a record that contributes (+c, -c) reaches the right value: products add, so a sum of divergences is exact
    reached = divergence(rb.RECTIFY, -1.0, -2.0) + divergence(rb.RECTIFY, 1.0, 2.0)
    assert reached == pytest.approx(right(location), rel=TIGHT)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("clip", "farthest", "missed"),
    [(1.0, 5.0, 0.978), (0.005, 5.0, 0.0210), (0.005, 3.0, 0.0120), (0.005, 1.0, 0.0032), (0.001, 5.0, 0.0042)],
)
def test_how_much_the_printed_account_misses_depends_on_the_clip(clip: float, farthest: float, missed: float) -> None:
    """hu2024-proposition-5-1: 98 % at clip = scale, little at the ratios of the paper's own trainings."""
    m = mechanism(rb.RECTIFY)
    worst = 0.0
    for at in (x * farthest / 20.0 for x in range(-20, 21)):
        printed = rb.renyi(m.law(at), m.law(at + clip), 2.0)
        ways = [(at, at + s) for s in (clip, -clip)] + [(at + s, at) for s in (clip, -clip)]
        worst = max(worst, 1.0 - printed / max(rb.renyi(m.law(a), m.law(b), 2.0) for a, b in ways))
    assert worst == pytest.approx(missed, rel=0.02)
    # the end of the locations is the worst of them, and there by quadrature
    low = -farthest
    short = divergence(rb.RECTIFY, low, low + clip)
    ways = [divergence(rb.RECTIFY, low + s, low) for s in (clip, -clip)] + [divergence(rb.RECTIFY, low, low - clip)]
    assert 1.0 - short / max(short, *ways) == pytest.approx(worst, rel=1e-3)


def test_the_fisher_line_lets_coordinates_cancel() -> None:
    """hu2024-algorithm-1-fisher: the norm of eta^T J may be 0 where that of diag(eta) J is not."""
    at, jacobian = 0.3, (1.0, -1.0)
    information = mechanism(rb.TRUNCATE).fisher(at)
    eta = math.sqrt(information)
    printed = sum(eta * j for j in jacobian) ** 2
    right = sum((eta * j) ** 2 for j in jacobian)
    assert printed == 0.0
    # the release of two coordinates, at at + z and at - z, seen as one law of the record z
    step = mp.mpf("1e-6")

    def joint(x: Any, y: Any, z: Any) -> Any:
        return one[z].density(x) * other[z].density(y)

    one = {k: law(rb.TRUNCATE, mp.mpf(at) + k * step) for k in (-1, 0, 1)}
    other = {k: law(rb.TRUNCATE, mp.mpf(at) - k * step) for k in (-1, 0, 1)}
    with mp.workdps(20):
        brute = mp.quad(
            lambda x, y: ((joint(x, y, 1) - joint(x, y, -1)) / (2 * step)) ** 2 / joint(x, y, 0),
            [-1, 1],
            [-1, 1],
            method="gauss-legendre",
            maxdegree=4,
        )
    assert float(brute) == pytest.approx(right, rel=TIGHT)
    assert right == pytest.approx(0.574262, rel=1e-5)


@pytest.mark.slow
def test_an_even_split_of_an_l2_bound_undercounts() -> None:
    """hu2024-l2-clipping: under an L2 bound the split over the coordinates is free; the even one is not worst."""
    c, location = 1.0, (0.0, 5.0)

    def spent(shifts: tuple[float, float]) -> float:
        pairs = [(x, x + s) for x, s in zip(location, shifts, strict=True)]
        forward = sum(divergence(rb.RECTIFY, *pair) for pair in pairs)
        backward = sum(divergence(rb.RECTIFY, *pair[::-1]) for pair in pairs)
        return max(forward, backward)

    even = max(spent((s * c / math.sqrt(2.0), t * c / math.sqrt(2.0))) for s in (1, -1) for t in (1, -1))
    one = spent((c, 0.0))
    whole = max(spent((s * c, t * c)) for s in (1, -1) for t in (1, -1))
    assert (even, one, whole) == pytest.approx((0.458618, 0.897750, 0.901350), rel=1e-5)
    assert even < 0.55 * one  # the same L2 norm, and more leaks
    assert one <= whole  # the L-infinity count, sound for both


def test_far_away_the_truncated_gaussian_is_not_uniform() -> None:
    """hu2024-uniform-limit: with the answer far outside the output piles up at the near end."""
    at = 10.0
    with mp.workdps(brute_force.DIGITS):
        far = law(rb.TRUNCATE, at)
        top = float(mp.quad(far.density, [mp.mpf("0.5"), 1]))
    assert top == pytest.approx(0.990701, rel=1e-5)  # 0.25 if all values were about equally likely
    ours = mechanism(rb.TRUNCATE).law(at)
    assert float(ours.sf(0.5)) == pytest.approx(top, rel=TIGHT)
    assert float(ours.mean) == pytest.approx(0.891477, rel=1e-5)


def printed_density(x: float, mean: float, scale: float, lower: float, upper: float) -> float:
    """Eq. 1 with its exponents; atoms are left out."""
    inside = 1 if lower < x < upper else 0
    return float((mp.npdf(x, mean, scale)) ** inside)


def test_the_printed_density_does_not_vanish_outside() -> None:
    """hu2024-eq-1: a product of powers with exponent 0 is 1, so the density is 1 outside the support."""
    assert printed_density(0.2, 0.3, 1.0, -1.0, 1.0) == pytest.approx(
        float(law(rb.RECTIFY, 0.3).density(0.2)), rel=TIGHT
    )
    assert printed_density(5.0, 0.3, 1.0, -1.0, 1.0) == 1.0
    ours = mechanism(rb.RECTIFY).law(0.3)
    assert float(ours.pdf(5.0)) == 0.0
    brute = law(rb.RECTIFY, 0.3)
    inside = float(brute_force.integral(brute.density, brute))
    assert inside + float(sum(brute.atoms.values())) == pytest.approx(1.0, rel=TIGHT)  # nothing is left for the outside
    assert ours.atoms[1].tolist() == pytest.approx([float(w) for w in brute.atoms.values()], rel=TIGHT)
