"""Unions of spans: against croft2022's numbers, dense scans over pairs, 50-digit arithmetic, and each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.privacy.unions.laplace_union import dp_epsilon, dp_scale, metric_epsilon, metric_scale

INF = math.inf
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    lowers: Floats
    uppers: Floats
    scale: float
    sensitivity: float

    def of(self, epsilon: Callable[..., float]) -> float:
        return epsilon(self.lowers, self.uppers, self.scale, self.sensitivity)

    def mirrored(self) -> Case:
        return Case(-self.uppers[::-1], -self.lowers[::-1], self.scale, self.sensitivity)

    def moved(self, shift: float) -> Case:
        return Case(self.lowers + shift, self.uppers + shift, self.scale, self.sensitivity)

    def stretched(self, factor: float) -> Case:
        return Case(self.lowers * factor, self.uppers * factor, self.scale * factor, self.sensitivity * factor)


def random_case(rng: np.random.Generator, spread: float = 1.5, gaps: int = 5, small: float = 1.0) -> Case:
    """Widths, gaps and sensitivity spread over orders of magnitude; either end infinite every other time."""
    while True:
        count = int(rng.integers(0, gaps))
        ends = np.cumsum(np.exp(spread * rng.normal(size=2 * count + 2)))
        lowers, uppers = ends[::2].copy(), ends[1::2].copy()
        if (lowers < uppers).all() and (uppers[:-1] < lowers[1:]).all():
            break
    lowers[0] = -INF if rng.random() < 0.5 else lowers[0]
    uppers[-1] = INF if rng.random() < 0.5 else uppers[-1]
    sensitivity = float(np.exp(spread * rng.normal()))
    return Case(lowers, uppers, sensitivity * float(np.exp(rng.uniform(-1.0, math.log(small) + 1.5))), sensitivity)


# --- croft2022's constants ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lowers", "uppers", "metric", "dp"),
    [
        ([-INF, 1.0], [0.0, INF], 1.353482, 1.238391),
        ([-INF, 10.0], [0.0, INF], 1.987041, 1.610197),
        ([0.0, 1.6], [1.0, 2.6], 2.0, 1.302636),
        ([0.0], [10.0], 2.0, 1.611560),
    ],
)
def test_known_scales(lowers: list[float], uppers: list[float], metric: float, dp: float) -> None:
    assert metric_scale(lowers, uppers, epsilon=1.0, sensitivity=1.0) == pytest.approx(metric, abs=6e-7)
    assert dp_scale(lowers, uppers, epsilon=1.0, sensitivity=1.0) == pytest.approx(dp, abs=6e-7)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, 1.0, 5.0, 50.0])
def test_one_span_has_closed_forms(epsilon: float) -> None:
    half_line = 2.0 / math.log1p(math.expm1(epsilon) / 2.0)
    for lowers, uppers in (([3.0], [INF]), ([-INF], [3.0])):
        assert dp_scale(lowers, uppers, epsilon, sensitivity=2.0) == pytest.approx(half_line, rel=1e-12)
        assert metric_scale(lowers, uppers, epsilon, sensitivity=2.0) == pytest.approx(4.0 / epsilon, rel=1e-12)
    for scale in (dp_scale, metric_scale):
        assert scale([-INF], [INF], epsilon, 2.0) == pytest.approx(2.0 / epsilon, rel=1e-12)
    # holohan2018: with the sensitivity as wide as the interval the plain scale is enough
    assert dp_scale([0.0], [2.0], epsilon, sensitivity=2.0) == pytest.approx(2.0 / epsilon, rel=1e-12)


# --- brute force ----------------------------------------------------------------------------------------------------


def kept_mass(q: Floats, lowers: Floats, uppers: Floats, scale: float) -> Floats:
    """Z(q) the direct way: a difference of distribution functions for every span."""

    def cdf(x: Floats) -> Floats:
        z = (x - q[:, None]) / scale
        return np.where(z < 0.0, 0.5 * np.exp(np.minimum(z, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(z, 0.0)))

    total: Floats = (cdf(uppers) - cdf(lowers)).sum(axis=1)
    return total


def scan(case: Case, points: int = 120) -> tuple[float, float]:
    """Both epsilons from a dense scan over pairs of answers: lower bounds, and close ones."""
    lowers, uppers, distance = case.lowers, case.uppers, case.sensitivity
    finite = np.concatenate((lowers, uppers))
    finite = finite[np.isfinite(finite)] if np.isfinite(finite).any() else np.zeros(1)
    low = np.where(np.isinf(lowers), finite.min() - 3 * distance, lowers)
    high = np.where(np.isinf(uppers), finite.max() + 3 * distance, uppers)
    inner = np.linspace(low, high, points).ravel()
    step = 1e-3 * np.minimum(high - low, case.scale)
    near = np.concatenate((low + step, high - step))  # for the slopes at the ends
    shifted = np.concatenate((finite + distance, finite - distance))
    allowed = ((shifted[:, None] >= lowers) & (shifted[:, None] <= uppers)).any(axis=1)
    q = np.sort(np.concatenate((inner, near, finite, shifted[allowed])))
    log_mass = np.log(kept_mass(q, lowers, uppers, case.scale))
    apart = q[None, :] - q[:, None]
    losses = apart / case.scale + np.abs(log_mass[None, :] - log_mass[:, None])
    dp = np.where((apart >= 0.0) & (apart <= distance * (1.0 + 1e-12)), losses, 0.0).max()
    far = apart * np.exp(log_mass.min()) > 1e-9 * case.scale  # closer ones drown in rounding
    metric = (losses[far] / apart[far]).max() * distance
    return float(metric), float(dp)


def assert_matches_scan(dp: Callable[..., float], metric: Callable[..., float], cases: int) -> None:
    rng = np.random.default_rng(20)
    for _ in range(cases):
        case = random_case(rng)
        metric_scan, dp_scan = scan(case)
        assert dp_scan * (1.0 - 1e-9) <= case.of(dp) <= dp_scan * (1.0 + 3e-3), case
        assert metric_scan * (1.0 - 1e-5) <= case.of(metric) <= metric_scan * (1.0 + 1e-2), case


def test_random_unions_match_a_dense_scan() -> None:
    assert_matches_scan(dp_epsilon, metric_epsilon, cases=150)


def only_the_noise(lowers: Floats, uppers: Floats, scale: float, sensitivity: float) -> float:
    """A plausible mistake: the normalisation forgotten."""
    return sensitivity / scale


def only_the_ends(lowers: Floats, uppers: Floats, scale: float, sensitivity: float) -> float:
    """A plausible mistake: pairs that start at an end of a span, as if the worst one always did."""
    q = lowers[np.isfinite(lowers)]
    q = q if q.size else np.zeros(1)
    other = q + sensitivity
    inside = ((other[:, None] >= lowers) & (other[:, None] <= uppers)).any(axis=1)
    here, there = (np.log(kept_mass(x, lowers, uppers, scale)) for x in (q[inside], other[inside]))
    return float(sensitivity / scale + np.abs(here - there).max(initial=0.0))


@pytest.mark.parametrize("mistake", [only_the_noise, only_the_ends, metric_epsilon])
def test_control_the_scan_catches_a_wrong_dp_formula(mistake: Callable[..., float]) -> None:
    with pytest.raises(AssertionError):
        assert_matches_scan(mistake, metric_epsilon, cases=40)


@pytest.mark.parametrize("mistake", [only_the_noise, dp_epsilon])
def test_control_the_scan_catches_a_wrong_metric_formula(mistake: Callable[..., float]) -> None:
    with pytest.raises(AssertionError):
        assert_matches_scan(dp_epsilon, mistake, cases=40)


def test_the_worst_pair_has_an_answer_at_an_end() -> None:
    """While a pair slides between ends, |ln Z(q + D) - ln Z(q)| is largest at one of the two places where it stops."""
    rng = np.random.default_rng(21)
    turned = 0
    for _ in range(300):
        case = random_case(rng)
        ends = np.concatenate((case.lowers, case.uppers))
        ends = ends[np.isfinite(ends)]
        stops = np.unique(np.concatenate((ends, ends - case.sensitivity)))
        for low, high in pairwise(stops):
            middle = 0.5 * (low + high)
            both = np.array([middle, middle + case.sensitivity])
            if ((both[:, None] >= case.lowers) & (both[:, None] <= case.uppers)).any(axis=1).all():
                q = np.linspace(low, high, 40)
                logs = [np.log(kept_mass(q + d, case.lowers, case.uppers, case.scale)) for d in (0.0, case.sensitivity)]
                change = logs[1] - logs[0]
                turned += bool((np.diff(change) > 1e-9).any() and (np.diff(change) < -1e-9).any())
                assert np.abs(change).max() <= max(abs(change[0]), abs(change[-1])) + 1e-9
    assert turned > 10, "control: the change does turn inside, just not where it is largest"


# --- 60 digits ------------------------------------------------------------------------------------------------------


def exact_masses(case: Case) -> Callable[[mpf], tuple[mpf, mpf]]:
    spans = [(mpf(float(a)), mpf(float(b))) for a, b in zip(case.lowers, case.uppers, strict=True)]
    scale = mpf(case.scale)

    def masses(q: mpf) -> tuple[mpf, mpf]:
        """Left and right kept mass, each in [0, 1]."""
        left = [mp.exp(-(q - min(b, q)) / scale) - mp.exp(-(q - a) / scale) for a, b in spans if a < q]
        right = [mp.exp(-(max(a, q) - q) / scale) - mp.exp(-(b - q) / scale) for a, b in spans if b > q]
        return mp.fsum(left), mp.fsum(right)

    return masses


def exact_metric(case: Case) -> mpf:
    masses = exact_masses(case)
    ends = [mpf(float(x)) for x in (*case.lowers, *case.uppers) if math.isfinite(x)]
    shares = [max(both) / mp.fsum(both) for both in map(masses, ends)]
    return 2 * mpf(case.sensitivity) / mpf(case.scale) * max([mpf(1) / 2, *shares])


def exact_dp(case: Case, parts: int = 6) -> mpf:
    """All segments between breakpoints: their ends, and a golden-section search for an extremum of ln Z(q+D)/Z(q)."""
    masses, distance, scale = exact_masses(case), mpf(case.sensitivity), mpf(case.scale)
    lowers, uppers = ([mpf(float(x)) for x in each] for each in (case.lowers, case.uppers))
    finite = [x for x in (*lowers, *uppers) if mp.isfinite(x)]

    def allowed(q: mpf) -> bool:
        return any(a <= q <= b for a, b in zip(lowers, uppers, strict=True))

    def log_ratio(q: mpf, other: mpf) -> mpf:
        return mp.log(mp.fsum(masses(other)) / mp.fsum(masses(q)))

    best = distance / scale if mp.isinf(lowers[0]) or mp.isinf(uppers[-1]) else mpf(0)
    for q in finite:
        reach = [x for x in finite if q < x <= q + distance] + ([q + distance] if allowed(q + distance) else [])
        best = max([best, *((other - q) / scale + abs(log_ratio(q, other)) for other in reach)])
        if allowed(q - distance):
            best = max(best, distance / scale + abs(log_ratio(q - distance, q)))
    breaks = sorted({x for end in finite for x in (end, end - distance)})
    for low, high in pairwise(breaks):
        middle = (low + high) / 2
        if allowed(middle) and allowed(middle + distance):
            grid = [low + (high - low) * k / parts for k in range(parts + 1)]
            for sign in (1, -1):
                top = golden(lambda q, sign=sign: sign * log_ratio(q, q + distance), grid)
                best = max(best, distance / scale + top)
    return best


def golden(function: Callable[[mpf], mpf], grid: list[mpf]) -> mpf:
    values = [function(q) for q in grid]
    k = values.index(max(values))
    a, b = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    ratio = (mp.sqrt(5) - 1) / 2
    for _ in range(45):
        c, d = b - ratio * (b - a), a + ratio * (b - a)
        a, b = (a, d) if function(c) > function(d) else (c, b)
    return max(max(values), function((a + b) / 2))


@pytest.mark.parametrize("seed", range(12))
def test_never_understated_and_accurate_at_all_orders_of_magnitude(seed: int) -> None:
    """Scales up to 1e9 sensitivities, spans and gaps from 1e-8 to 1e8: at most 1e-13 above 60-digit arithmetic."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, spread=float(rng.choice([1.0, 3.0, 6.0])), gaps=4)
    case = Case(case.lowers, case.uppers, case.sensitivity * 10 ** rng.uniform(-1.5, 9.0), case.sensitivity)
    with mp.workdps(60):
        for epsilon, exact in ((dp_epsilon, exact_dp(case)), (metric_epsilon, exact_metric(case))):
            assert 0.0 <= float(case.of(epsilon) / exact - 1) < 1e-13, (epsilon.__name__, case)


def test_control_differences_of_masses_are_not_accurate_enough() -> None:
    """Why the kept mass is never subtracted: the direct formula has no digits left at this scale."""
    case = Case(np.array([0.0, 3.0]), np.array([1.0, 3.5]), 1e9, 1.0)
    q = np.array([0.0, 1.0, 3.0, 3.5])
    log_mass = np.log(kept_mass(q, case.lowers, case.uppers, case.scale))
    naive = float(np.max(np.array([1.0, 0.5]) / 1e9 + np.abs(log_mass[1::2] - log_mass[::2])))
    with mp.workdps(60):
        exact = float(exact_dp(case))
    assert case.of(dp_epsilon) == pytest.approx(exact, rel=1e-13)
    assert abs(naive / exact - 1.0) > 1e-3


# --- properties -----------------------------------------------------------------------------------------------------

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, shift=st.integers(-1024, 1024), power=st.integers(-40, 40))
def test_shift_mirror_and_unit_change_nothing(seed: int, shift: int, power: int) -> None:
    case = random_case(np.random.default_rng(seed))
    # coordinates on a coarse grid of doubles, so that a shift is exact
    grid = 2.0**-20
    case = Case(np.round(case.lowers / grid) * grid, np.round(case.uppers / grid) * grid, case.scale, case.sensitivity)
    assume((case.lowers < case.uppers).all() and (case.uppers[:-1] < case.lowers[1:]).all())
    for epsilon in (dp_epsilon, metric_epsilon):
        value = case.of(epsilon)
        for other in (case.moved(float(shift)), case.mirrored(), case.stretched(2.0**power)):
            assert other.of(epsilon) == pytest.approx(value, rel=1e-13)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, log_epsilon=st.floats(math.log(1e-9), math.log(50.0)), spread=st.sampled_from([0.5, 2.0, 6.0]))
def test_returned_scale_is_private_and_a_smaller_one_is_not(seed: int, log_epsilon: float, spread: float) -> None:
    case = random_case(np.random.default_rng(seed), spread=spread, gaps=9)
    epsilon, where = math.exp(log_epsilon), (case.lowers, case.uppers)
    for scale_of, epsilon_of in ((dp_scale, dp_epsilon), (metric_scale, metric_epsilon)):
        scale = scale_of(*where, epsilon, case.sensitivity)
        assert epsilon_of(*where, scale, case.sensitivity) <= epsilon
        assert epsilon_of(*where, scale * (1.0 - 1e-9), case.sensitivity) > epsilon
    assert dp_scale(*where, epsilon, case.sensitivity) <= metric_scale(*where, epsilon, case.sensitivity) * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, factor=st.floats(1.0001, 50.0))
def test_metric_falls_with_the_scale_at_least_like_its_root(seed: int, factor: float) -> None:
    case = random_case(np.random.default_rng(seed), spread=3.0)
    larger = Case(case.lowers, case.uppers, case.scale * factor, case.sensitivity)
    assert larger.of(metric_epsilon) <= case.of(metric_epsilon) * factor**-0.5 * (1.0 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_both_grow_with_the_sensitivity_and_dp_stays_below_metric(seed: int) -> None:
    case = random_case(np.random.default_rng(seed))
    wider = Case(case.lowers, case.uppers, case.scale, 1.7 * case.sensitivity)
    for epsilon in (dp_epsilon, metric_epsilon):
        assert wider.of(epsilon) >= case.of(epsilon) * (1.0 - 1e-12)
    assert case.of(dp_epsilon) <= case.of(metric_epsilon) * (1.0 + 1e-12) <= 2.0 * case.sensitivity / case.scale * 1.001


def test_a_larger_scale_may_be_less_private_for_dp() -> None:
    """Two narrow spans see only each other until the scale brings in a far, wide one; then one is nearer to it."""
    spans = ([0.0, 1.0, 100.0], [1e-4, 1.0001, 101.0])
    losses = [dp_epsilon(*spans, scale, 1.5) for scale in (8.0, 10.0, 12.0, 20.0)]
    assert losses[0] > losses[1] < losses[2] > losses[3]
    # epsilon just above the dip: the first private scale is in the dip, and scales above it are not private
    epsilon = dp_epsilon(*spans, 10.0, 1.5) * 1.0001
    scale = dp_scale(*spans, epsilon, 1.5)
    assert scale <= 10.0
    assert dp_epsilon(*spans, 12.0, 1.5) > epsilon
    for smaller in np.geomspace(1.0 / epsilon, scale * (1.0 - 1e-9), 300):
        assert dp_epsilon(*spans, float(smaller), 1.5) > epsilon


def test_pairs_across_a_gap_never_decide_the_metric_notion() -> None:
    """croft2022's Lemma 9 adds n conditions that the others imply."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        case = random_case(rng, spread=3.0)
        if case.lowers.size > 1:
            a, b = case.uppers[:-1], case.lowers[1:]
            masses = [kept_mass(x, case.lowers, case.uppers, case.scale) for x in (a, b)]
            if min(masses[0].min(), masses[1].min()) > 1e-6:
                steepness = 1.0 / case.scale + np.abs(np.log(masses[0] / masses[1])) / (b - a)
                assert steepness.max() * case.sensitivity <= case.of(metric_epsilon) * (1.0 + 1e-9)


# --- extremes -------------------------------------------------------------------------------------------------------


def test_sensitivity_wider_than_everything() -> None:
    """The worst pair is the two outermost answers, whatever the sensitivity beyond that."""
    spans = ([0.0, 1.5, 7.0], [1.0, 2.0, 7.5])
    z = kept_mass(np.array([0.0, 7.5]), np.array(spans[0]), np.array(spans[1]), 2.0)
    expected = 7.5 / 2.0 + abs(math.log(z[1] / z[0]))
    for sensitivity in (7.5, 8.0, 1e6):
        assert dp_epsilon(*spans, 2.0, sensitivity) == pytest.approx(expected, rel=1e-12)


def test_gaps_may_forbid_the_full_sensitivity() -> None:
    """Answers in [0, 1] or [10, 11] that move by at most 5 never move by more than 1: the scale is below D/epsilon."""
    scale = dp_scale([0.0, 10.0], [1.0, 11.0], epsilon=1.0, sensitivity=5.0)
    assert scale == pytest.approx(dp_scale([0.0, 10.0], [1.0, 11.0], epsilon=1.0, sensitivity=1.0), rel=1e-12)
    assert 1.0 <= scale <= 2.0
    assert metric_scale([0.0, 10.0], [1.0, 11.0], epsilon=1.0, sensitivity=5.0) >= 5.0


@pytest.mark.parametrize("width", [1e-9, 1.0, 1e4])
@pytest.mark.parametrize("gap", [1e-9, 1.0, 1e4])
@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 50.0])
@pytest.mark.parametrize("origin", [0.0, 1e6])
def test_narrow_and_wide(width: float, gap: float, epsilon: float, origin: float) -> None:
    """Equal spans and gaps on the line, sensitivity 1: finite, private, tight, and free of warnings."""
    lowers = origin + (width + gap) * np.arange(6)
    uppers = lowers + width
    if not (lowers < uppers).all():
        pytest.skip("too narrow for doubles this far out")
    lowers[0], uppers[-1] = -INF, INF
    for scale_of, epsilon_of in ((dp_scale, dp_epsilon), (metric_scale, metric_epsilon)):
        scale = scale_of(lowers, uppers, epsilon, 1.0)
        assert 1.0 <= scale * epsilon <= 2.0 * (1.0 + 1e-12)
        assert epsilon_of(lowers, uppers, scale, 1.0) <= epsilon
        assert epsilon_of(lowers, uppers, scale * (1.0 - 1e-9), 1.0) > epsilon


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_any_scale_gives_a_number(scale: float) -> None:
    for spans in (([-INF, 1.0, 5.0], [0.0, 1.0 + 1e-12, INF]), ([0.0, 1.0], [1e-300, 2.0]), ([-INF], [INF])):
        for epsilon in (dp_epsilon, metric_epsilon):
            value = epsilon(*spans, scale, 1.0)
            assert 0.0 < value <= max(2.001 / scale, 1.001e-290)  # as low as it goes
            assert value >= 0.999 / scale or spans[0][0] == 0.0  # a bounded support may not allow the distance 1


def test_ends_far_out_count_by_their_differences() -> None:
    """At 1e9 coordinates carry 7 digits after the point; the same spans at 0 give the same to the last."""
    lowers, uppers = np.array([0.0, 1.5, 3.25, 9.0]), np.array([1.0, 2.5, 7.75, 9.5])
    for sensitivity in (0.5, 0.7, 2.3):
        near = dp_epsilon(lowers, uppers, 1.1, sensitivity)
        assert dp_epsilon(lowers + 1e9, uppers + 1e9, 1.1, sensitivity) == pytest.approx(near, rel=1e-14)


def test_a_hundred_thousand_gaps() -> None:
    rng = np.random.default_rng(7)
    ends = np.cumsum(rng.exponential(size=200_002))
    lowers, uppers = ends[::2].copy(), ends[1::2].copy()
    lowers[0], uppers[-1] = -INF, INF
    for scale_of, epsilon_of in ((dp_scale, dp_epsilon), (metric_scale, metric_epsilon)):
        scale = scale_of(lowers, uppers, 1.0, 10.0)
        assert epsilon_of(lowers, uppers, scale, 10.0) <= 1.0
        assert epsilon_of(lowers, uppers, scale * (1.0 - 1e-9), 10.0) > 1.0


def test_many_gaps_match_extended_precision() -> None:
    """The margin for rounding holds with room where thousands of spans see each other."""
    rng = np.random.default_rng(8)
    count = 3000
    ends = np.cumsum(rng.exponential(size=2 * count))
    case = Case(ends[::2], ends[1::2], 1e4, 25.0)
    starts, stops = [mpf(float(x)) for x in case.lowers], [mpf(float(x)) for x in case.uppers]
    with mp.workdps(40):
        scale = mpf(case.scale)
        worst = mpf(0)
        left, lefts = mpf(0), []
        for k in range(count):
            left = left * mp.exp(-(starts[k] - stops[k - 1]) / scale) if k else mpf(0)
            own = 1 - mp.exp(-(stops[k] - starts[k]) / scale)
            lefts.append((left, own + (1 - own) * left))
            left = own + (1 - own) * left
        right = mpf(0)
        for k in reversed(range(count)):
            right = right * mp.exp(-(starts[k + 1] - stops[k]) / scale) if k + 1 < count else mpf(0)
            worst = max(worst, max(lefts[k][1], right) / (lefts[k][1] + right))
            own = 1 - mp.exp(-(stops[k] - starts[k]) / scale)
            right = own + (1 - own) * right
            worst = max(worst, max(lefts[k][0], right) / (lefts[k][0] + right))
        exact = 2 * worst * mpf(case.sensitivity) / scale
        assert 0.0 <= float(case.of(metric_epsilon) / exact - 1) < 3e-12


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lowers", "uppers"),
    [
        ([], []),
        ([0.0, 1.0], [0.5]),
        ([1.0], [0.0]),
        ([0.0], [0.0]),
        ([0.0, 1.0], [1.0, 2.0]),
        ([0.0, 1.0], [1.5, 2.0]),
        ([2.0, 0.0], [3.0, 1.0]),
        ([0.0, math.nan], [1.0, 2.0]),
        ([0.0, -INF], [1.0, 2.0]),
        ([0.0, 2.0], [INF, 3.0]),
        ([INF], [INF]),
    ],
)
def test_bad_spans_are_refused(lowers: list[float], uppers: list[float]) -> None:
    for function in (metric_epsilon, dp_epsilon, metric_scale, dp_scale):
        with pytest.raises(ArgumentError):
            function(lowers, uppers, 1.0, 1.0)


@pytest.mark.parametrize("lowers", ["0", [True], [[0.0]], 0.0, [None]])
def test_spans_of_the_wrong_type_are_refused(lowers: object) -> None:
    for function in (metric_epsilon, dp_epsilon, metric_scale, dp_scale):
        with pytest.raises(ArgumentTypeError):
            function(lowers, [1.0], 1.0, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, INF])
def test_bad_numbers_are_refused(bad: float) -> None:
    for function in (metric_epsilon, dp_epsilon, metric_scale, dp_scale):
        with pytest.raises(ArgumentError):
            function([0.0], [1.0], bad, 1.0)
        with pytest.raises(ArgumentError):
            function([0.0], [1.0], 1.0, bad)


def test_a_scale_beyond_doubles_is_refused() -> None:
    for scale in (metric_scale, dp_scale):
        with pytest.raises(ArgumentError, match="does not fit"):
            scale([0.0], [INF], 1e-100, 1e250)


def test_arguments_are_not_changed() -> None:
    lowers, uppers = np.array([-INF, 1.0]), np.array([0.0, INF])
    dp_scale(lowers, uppers, 1.0, 1.0)
    assert lowers.tolist() == [-INF, 1.0]
    assert uppers.tolist() == [0.0, INF]
