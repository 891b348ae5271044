"""Windows of positions, bounds from Chebyshev points, discs: what is cut is covered, rounding is allowed for."""

import math
import operator

import mpmath
import numpy as np
import pytest

from rangebound.privacy.windows import gaussian_windows as tested
from rangebound.privacy.windows.chebyshev import UNIT, Discs, difference, exactly, lebesgue, nodes, tops, truncation
from rangebound.privacy.windows.gaussian_windows import bounds, folded, highest, nodes_of, windows_of


def some(*pairs, rho=32.0):
    return windows_of([(a, b, 1.0, k, 0, rho) for k, (a, b) in enumerate(pairs)])


def test_parts_share_their_ends_and_cover_the_whole():
    parts = some((-1.0, 0.3), (2.0, 2.0)).cut(np.asarray([7, 3]))
    assert (parts.start[0], parts.end[6]) == (-1.0, 0.3)
    assert (parts.end[:6] == parts.start[1:7]).all()
    assert (parts.start[7:] == 2.0).all()
    assert (parts.end[7:] == 2.0).all()


@pytest.mark.parametrize("at", [0.0, 1e-3, 1.0, 1e6, -1e12])
@pytest.mark.parametrize("width", [0.0, 1e-9, 1.0])
def test_the_nodes_reach_over_both_ends_of_a_window(at, width):
    window = some((at, at + width))
    p, _ = nodes_of(window, 20)
    assert p.min() <= at
    assert p.max() >= at + width


def tent(p):
    return 1.0 - (p - 0.3) ** 2


def evaluated(windows):
    p, _ = nodes_of(windows, 20)
    return bounds(windows, tent(p), np.zeros_like(p), 20, 0.0, None)


def test_the_supremum_over_windows_is_enclosed():
    found = highest(some((-1.0, 0.0), (0.0, 2.0)), evaluated, None)
    assert found.lower <= 1.0 <= found.upper <= 1.0 + 1e-9
    assert found.line == 1
    assert found.place == pytest.approx(0.3, abs=1e-4)


@pytest.mark.parametrize("field", ["upper", "lower", "rounding"])
def test_what_is_not_a_number_is_never_a_bound(field):
    """One window of several that is not known leaves the supremum unknown."""

    def unknown(windows):
        found = evaluated(windows)
        value = getattr(found, field).copy()
        value[0] = math.nan
        return found._replace(**{field: value})

    assert highest(some((-1.0, 0.0), (0.0, 2.0)), unknown, None) is None
    assert highest(some((-1.0, 0.0), (0.0, 2.0)), unknown, 0.5) is None


def test_a_bound_that_smaller_windows_cannot_improve_ends_the_search():
    """What the polynomial misses does not shrink: it must not be halved until nothing is left of the time."""
    rounds = []

    def vague(windows):
        rounds.append(windows.start.size)
        p, _ = nodes_of(windows, 20)
        return bounds(windows, 0.0 * p, np.zeros_like(p), 20, 1e-30, None)

    highest(some((-1.0, 0.0), (0.0, 2.0)), vague, None)
    assert len(rounds) <= 2


def test_too_many_windows_are_given_up(monkeypatch):
    monkeypatch.setattr(tested, "_MOST", 3)

    def vague(windows):
        found = evaluated(windows)
        return found._replace(upper=found.upper + 1.0)

    assert highest(some((-1.0, 0.0), (0.0, 2.0)), vague, None) is None


@pytest.mark.parametrize("at", [0.0, 1e3, 1e9])
def test_rounded_nodes_are_allowed_for(at):
    """A steep line: values belong to rounded places, and the bound covers the exact end all the same."""
    window = some((at, at + 1e-3))
    p, _ = nodes_of(window, 20)
    found = bounds(window, 1e3 * (p - at), np.zeros_like(p), 20, 0.0, None)
    assert found.upper[0] >= 1.0
    off = UNIT * (abs(at) + 3.0 * window.radius[0]) / window.radius[0]
    # an error of `off` in a node, times the slope in the window, times the Lebesgue constant
    assert found.upper[0] - 1.0 >= lebesgue(20) * off * 0.5


def test_nodes_that_rounding_moves_too_far_tell_nothing():
    window = some((1e9, 1e9), rho=4.0)
    p, _ = nodes_of(window, 120)
    assert math.isinf(bounds(window, 0.0 * p, np.zeros_like(p), 120, 0.0, None).rounding[0])


def test_one_step_stands_for_the_middle_and_no_less():
    found = folded(some((0.0, 100.0)), (20.0, 80.0), 1.0, (-2.0, 0.0, 1.0))
    ends = sorted(zip(found.start, found.end, strict=True))
    assert ends[0] == (0.0, 22.0)
    assert ends[1][0] == 22.0
    assert 23.0 < ends[1][1] < 23.001
    assert ends[2] == (79.0, 100.0)
    assert folded(some((0.0, 100.0)), None, 1.0, (0.0,)).start.size == 1


MESH = np.linspace(-1.0, 1.0, 200_001)
CURVES = {
    "inner peak": lambda x: 1.0 - (x - 0.2) ** 2,
    "at an end": lambda x: np.exp(2.0 * x),
    "negative": lambda x: -np.cosh(x - 0.3),
    "two peaks": lambda x: np.cos(4.0 * x) + 0.01 * x,
    "flat": lambda x: 1.0 + 1e-12 * x,
}


@pytest.mark.parametrize("degree", [24, 48])
def test_the_bound_is_above_the_largest_value_and_close_to_it(degree):
    values = np.stack([curve(nodes(degree)) for curve in CURVES.values()])
    for bound, attained, place, curve in zip(*tops(values), CURVES.values(), strict=True):
        largest = curve(MESH).max()
        assert attained <= largest + 1e-9 * abs(largest)
        assert largest <= bound + 1e-15
        assert bound <= largest + 2e-8 * abs(largest)
        assert curve(place) >= largest - 1e-6 * abs(largest)


def test_a_floor_leaves_rows_below_it_rough_but_true():
    values = np.stack([np.cos(4.0 * nodes(24)), 2.0 + np.cos(4.0 * nodes(24))])
    bounds = tops(values, floor=2.9).upper
    assert bounds[0] >= 1.0
    assert 3.0 <= bounds[1] <= 3.0 + 1e-7


def test_the_truncation_error_of_a_pole_is_covered_and_a_larger_ellipse_is_not():
    """1/(x - a) has its pole at a: inside the ellipse of any rho above a + sqrt(a^2 - 1) the theorem says nothing."""
    a, degree = 1.5, 12
    rho = 2.0  # reaches to (rho + 1/rho)/2 = 1.25
    bound = 1.0 / (a - 1.25)
    coefficients = np.polynomial.chebyshev.chebfit(nodes(degree), 1.0 / (nodes(degree) - a), degree)
    error = np.abs(np.polynomial.chebyshev.chebval(MESH, coefficients) - 1.0 / (MESH - a)).max()
    assert error <= bound * truncation(degree, rho)
    assert error > bound * truncation(degree, 8.0)  # the control: outside the theorem


def test_errors_of_values_grow_by_the_lebesgue_constant_at_most():
    dice = np.random.default_rng(1)
    for degree in (6, 24, 48):
        signs = dice.choice([-1.0, 1.0], size=(200, degree + 1))
        for row in signs:
            coefficients = np.polynomial.chebyshev.chebfit(nodes(degree), row, degree)
            assert np.abs(np.polynomial.chebyshev.chebval(MESH[::100], coefficients)).max() <= lebesgue(degree) + 1e-9


DICE = np.random.default_rng(11)
COUNT = 200


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(50):
        yield


def discs(low, high, wide):
    return Discs(DICE.uniform(low, high, COUNT), wide * DICE.uniform(0.0, 1.0, COUNT))


def points(of):
    angles = DICE.uniform(0.0, 2.0 * np.pi, COUNT)
    return [
        mpmath.mpf(m) + mpmath.mpf(r) * mpmath.expj(mpmath.mpf(a)) * (1 - mpmath.mpf(10) ** -30)
        for m, r, a in zip(of.mid, of.rad, angles, strict=True)
    ]


def within(found, exact):
    return [abs(z - mpmath.mpf(m)) <= mpmath.mpf(r) for z, m, r in zip(exact, found.mid, found.rad, strict=True)]


PAIRS = {"plus": operator.add, "minus": operator.sub, "times": operator.mul, "over": operator.truediv}
SINGLES = {"exp": mpmath.exp, "expm1": lambda z: mpmath.exp(z) - 1, "log": mpmath.log}


@pytest.mark.few(8)
@pytest.mark.parametrize("wide", [0.0, 1e-14, 1e-3, 0.4])
@pytest.mark.parametrize("name", PAIRS)
def test_results_of_two_discs_hold_those_of_their_points(name, wide):
    first, second = discs(-3.0, 3.0, wide), discs(0.5, 2.0, wide)
    found = PAIRS[name](first, second)
    assert all(within(found, [PAIRS[name](x, y) for x, y in zip(points(first), points(second), strict=True)]))


@pytest.mark.few(16)
@pytest.mark.parametrize("wide", [0.0, 1e-14, 1e-3, 0.4])
@pytest.mark.parametrize("name", SINGLES)
@pytest.mark.parametrize("size", [1.0, 1e-9])
def test_functions_of_discs_hold_those_of_their_points(name, wide, size):
    of = discs(0.5, 3.0, wide)
    of = Discs(of.mid * size, of.rad * size) if name != "log" else of
    found = getattr(of, name)()
    assert all(within(found, [SINGLES[name](z) for z in points(of)]))
    assert np.isfinite(found.rad).all()


def test_running_sums_and_differences():
    terms = Discs(DICE.uniform(0.0, 1.0, (3, 300)), np.full((3, 300), 1e-12))
    found = terms.summed()
    for row in range(3):
        total = mpmath.mpf(0)
        for k in range(300):
            total += mpmath.mpf(terms.mid[row, k]) + mpmath.mpf(1e-12)
            assert abs(total - mpmath.mpf(found.mid[row, k])) <= mpmath.mpf(found.rad[row, k])
    x, y = DICE.uniform(-1e6, 1e6, COUNT), DICE.uniform(-1.0, 1.0, COUNT)
    exact = [mpmath.mpf(a) - mpmath.mpf(b) for a, b in zip(x, y, strict=True)]
    assert all(within(difference(x, y), exact))


def test_nothing_is_known_where_a_divisor_or_a_logarithm_may_be_zero():
    near = Discs(np.asarray([1.0, 0.5, -1.0]), np.asarray([1.0, 0.6, 0.1]))
    assert np.isnan((exactly(np.ones(3)) / near).rad[:2]).all()
    assert np.isnan(near.log().rad).all()
    assert (near.log().top == np.inf).all()


def test_the_control_without_the_part_for_rounding_some_point_is_left_out():
    x, y = exactly(DICE.uniform(0.5, 2.0, COUNT)), exactly(DICE.uniform(0.5, 2.0, COUNT))
    exact = [mpmath.mpf(a) / mpmath.mpf(b) for a, b in zip(x.mid, y.mid, strict=True)]
    found = x / y
    assert all(within(found, exact))
    assert not all(within(Discs(found.mid, np.zeros(COUNT)), exact))
