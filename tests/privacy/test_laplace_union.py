"""Unions of spans: against croft2022's numbers, dense scans over pairs, 50-digit arithmetic, and each other."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from rangebound.errors import ArgumentError
from rangebound.privacy.laplace_union import dp_pair, dp_scale, metric_loss, metric_scale, spans_of

INF = math.inf
SEEDS = st.integers(0, 2**32 - 1)
Floats = npt.NDArray[np.float64]


def dp_epsilon(lowers, uppers, scale, sensitivity):
    return dp_pair(lowers, uppers, scale, sensitivity)[0]


def metric_epsilon(lowers, uppers, scale, sensitivity):
    return metric_loss(spans_of(lowers, uppers, sensitivity), scale)


@dataclass(frozen=True)
class Case:
    lowers: Floats
    uppers: Floats
    scale: float
    sensitivity: float

    def of(self, epsilon):
        return epsilon(self.lowers, self.uppers, self.scale, self.sensitivity)


def random_case(rng, spread=1.5, gaps=5, small=1.0):
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


@pytest.mark.parametrize(
    ("lowers", "uppers", "metric", "dp"),
    [
        ([-INF, 1.0], [0.0, INF], 1.353482, 1.238391),
        ([-INF, 10.0], [0.0, INF], 1.987041, 1.610197),
        ([0.0, 1.6], [1.0, 2.6], 2.0, 1.302636),
        ([0.0], [10.0], 2.0, 1.611560),
    ],
)
def test_known_scales(lowers, uppers, metric, dp):
    assert metric_scale(lowers, uppers, epsilon=1.0, sensitivity=1.0) == pytest.approx(metric, abs=6e-7)
    assert dp_scale(lowers, uppers, epsilon=1.0, sensitivity=1.0) == pytest.approx(dp, abs=6e-7)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, 1.0, 5.0, 50.0])
def test_one_span_has_closed_forms(epsilon):
    half_line = 2.0 / math.log1p(math.expm1(epsilon) / 2.0)
    for lowers, uppers in (([3.0], [INF]), ([-INF], [3.0])):
        assert dp_scale(lowers, uppers, epsilon, sensitivity=2.0) == pytest.approx(half_line, rel=1e-12)
        assert metric_scale(lowers, uppers, epsilon, sensitivity=2.0) == pytest.approx(4.0 / epsilon, rel=1e-12)
    for scale in (dp_scale, metric_scale):
        assert scale([-INF], [INF], epsilon, 2.0) == pytest.approx(2.0 / epsilon, rel=1e-12)
    # holohan2018: with the sensitivity as wide as the interval the plain scale is enough
    assert dp_scale([0.0], [2.0], epsilon, sensitivity=2.0) == pytest.approx(2.0 / epsilon, rel=1e-12)


def kept_mass(q, lowers, uppers, scale):
    """Z(q) the direct way: a difference of distribution functions for every span."""

    def cdf(x):
        z = (x - q[:, None]) / scale
        return np.where(z < 0.0, 0.5 * np.exp(np.minimum(z, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(z, 0.0)))

    total = (cdf(uppers) - cdf(lowers)).sum(axis=1)
    return total


def scan(case, points=120):
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


def assert_matches_scan(dp, metric, cases):
    rng = np.random.default_rng(20)
    for _ in range(cases):
        case = random_case(rng)
        metric_scan, dp_scan = scan(case)
        assert dp_scan * (1.0 - 1e-9) <= case.of(dp) <= dp_scan * (1.0 + 3e-3), case
        assert metric_scan * (1.0 - 1e-5) <= case.of(metric) <= metric_scan * (1.0 + 1e-2), case


def test_random_unions_match_a_dense_scan():
    assert_matches_scan(dp_epsilon, metric_epsilon, cases=150)


def only_the_noise(lowers, uppers, scale, sensitivity):
    """A plausible mistake: the normalisation forgotten."""
    return sensitivity / scale


def only_the_ends(lowers, uppers, scale, sensitivity):
    """A plausible mistake: pairs that start at an end of a span, as if the worst one always did."""
    q = lowers[np.isfinite(lowers)]
    q = q if q.size else np.zeros(1)
    other = q + sensitivity
    inside = ((other[:, None] >= lowers) & (other[:, None] <= uppers)).any(axis=1)
    here, there = (np.log(kept_mass(x, lowers, uppers, scale)) for x in (q[inside], other[inside]))
    return float(sensitivity / scale + np.abs(here - there).max(initial=0.0))


MISTAKES = [(each, metric_epsilon) for each in (only_the_noise, only_the_ends, metric_epsilon)]
MISTAKES += [(dp_epsilon, each) for each in (only_the_noise, dp_epsilon)]


@pytest.mark.parametrize(("dp", "metric"), MISTAKES)
def test_control_the_scan_catches_a_wrong_formula(dp, metric):
    with pytest.raises(AssertionError):
        assert_matches_scan(dp, metric, cases=40)


def exact_masses(case):
    spans = [(mpf(float(a)), mpf(float(b))) for a, b in zip(case.lowers, case.uppers, strict=True)]
    scale = mpf(case.scale)

    def masses(q):
        left = [mp.exp(-(q - min(b, q)) / scale) - mp.exp(-(q - a) / scale) for a, b in spans if a < q]
        right = [mp.exp(-(max(a, q) - q) / scale) - mp.exp(-(b - q) / scale) for a, b in spans if b > q]
        return mp.fsum(left), mp.fsum(right)

    return masses


def exact_metric(case):
    masses = exact_masses(case)
    ends = [mpf(float(x)) for x in (*case.lowers, *case.uppers) if math.isfinite(x)]
    shares = [max(both) / mp.fsum(both) for both in map(masses, ends)]
    return 2 * mpf(case.sensitivity) / mpf(case.scale) * max([mpf(1) / 2, *shares])


def exact_dp(case, parts=6):
    """All segments between breakpoints: their ends, and a golden-section search for an extremum of ln Z(q+D)/Z(q)."""
    masses, distance, scale = exact_masses(case), mpf(case.sensitivity), mpf(case.scale)
    lowers, uppers = ([mpf(float(x)) for x in each] for each in (case.lowers, case.uppers))
    finite = [x for x in (*lowers, *uppers) if mp.isfinite(x)]

    def allowed(q):
        return any(a <= q <= b for a, b in zip(lowers, uppers, strict=True))

    def log_ratio(q, other):
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


def golden(function, grid):
    values = [function(q) for q in grid]
    k = values.index(max(values))
    a, b = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    ratio = (mp.sqrt(5) - 1) / 2
    for _ in range(45):
        c, d = b - ratio * (b - a), a + ratio * (b - a)
        a, b = (a, d) if function(c) > function(d) else (c, b)
    return max(max(values), function((a + b) / 2))


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(12))
def test_never_understated_and_accurate_at_all_orders_of_magnitude(seed):
    """Scales up to 1e9 sensitivities, spans and gaps from 1e-8 to 1e8: at most 1e-13 above 60-digit arithmetic."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, spread=float(rng.choice([1.0, 3.0, 6.0])), gaps=4)
    case = Case(case.lowers, case.uppers, case.sensitivity * 10 ** rng.uniform(-1.5, 9.0), case.sensitivity)
    with mp.workdps(60):
        for epsilon, exact in ((dp_epsilon, exact_dp(case)), (metric_epsilon, exact_metric(case))):
            assert 0.0 <= float(case.of(epsilon) / exact - 1) < 1e-13, (epsilon.__name__, case)


def test_control_differences_of_masses_are_not_accurate_enough():
    """Why the kept mass is never subtracted: the direct formula has no digits left at this scale."""
    case = Case(np.array([0.0, 3.0]), np.array([1.0, 3.5]), 1e9, 1.0)
    q = np.array([0.0, 1.0, 3.0, 3.5])
    log_mass = np.log(kept_mass(q, case.lowers, case.uppers, case.scale))
    naive = float(np.max(np.array([1.0, 0.5]) / 1e9 + np.abs(log_mass[1::2] - log_mass[::2])))
    with mp.workdps(60):
        exact = float(exact_dp(case))
    assert case.of(dp_epsilon) == pytest.approx(exact, rel=1e-13)
    assert abs(naive / exact - 1.0) > 1e-3


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, shift=st.integers(-1024, 1024), power=st.integers(-40, 40))
def test_shift_mirror_and_unit_change_nothing(seed, shift, power):
    case = random_case(np.random.default_rng(seed))
    # coordinates on a coarse grid of doubles, so that a shift is exact
    grid = 2.0**-20
    case = Case(np.round(case.lowers / grid) * grid, np.round(case.uppers / grid) * grid, case.scale, case.sensitivity)
    assume((case.lowers < case.uppers).all() and (case.uppers[:-1] < case.lowers[1:]).all())
    lowers, uppers, rest, unit = case.lowers, case.uppers, (case.scale, case.sensitivity), 2.0**power
    others = Case(lowers + shift, uppers + shift, *rest), Case(-uppers[::-1], -lowers[::-1], *rest)
    stretched = Case(lowers * unit, uppers * unit, *(each * unit for each in rest))
    for epsilon in (dp_epsilon, metric_epsilon):
        for other in (*others, stretched):
            assert other.of(epsilon) == pytest.approx(case.of(epsilon), rel=1e-13)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, log_epsilon=st.floats(math.log(1e-9), math.log(50.0)), spread=st.sampled_from([0.5, 2.0, 6.0]))
def test_returned_scale_is_private_and_a_smaller_one_is_not(seed, log_epsilon, spread):
    case = random_case(np.random.default_rng(seed), spread=spread, gaps=9)
    epsilon, where = math.exp(log_epsilon), (case.lowers, case.uppers)
    for scale_of, epsilon_of in ((dp_scale, dp_epsilon), (metric_scale, metric_epsilon)):
        scale = scale_of(*where, epsilon, case.sensitivity)
        assert epsilon_of(*where, scale, case.sensitivity) <= epsilon
        assert epsilon_of(*where, scale * (1.0 - 1e-9), case.sensitivity) > epsilon
    assert dp_scale(*where, epsilon, case.sensitivity) <= metric_scale(*where, epsilon, case.sensitivity) * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, factor=st.floats(1.0001, 50.0), spread=st.sampled_from([1.5, 3.0]))
def test_both_grow_with_the_sensitivity_and_metric_falls_with_the_scale(seed, factor, spread):
    """The metric epsilon at least like the root of the scale, which the search for one relies on."""
    case = random_case(np.random.default_rng(seed), spread=spread)
    dp, metric = case.of(dp_epsilon), case.of(metric_epsilon)
    wider = replace(case, sensitivity=1.7 * case.sensitivity)
    assert wider.of(dp_epsilon) >= dp * (1.0 - 1e-12)
    assert wider.of(metric_epsilon) >= metric * (1.0 - 1e-12)
    assert dp <= metric * (1.0 + 1e-12) <= 2.0 * case.sensitivity / case.scale * 1.001
    larger = replace(case, scale=case.scale * factor)
    assert larger.of(metric_epsilon) <= metric * factor**-0.5 * (1.0 + 1e-12)


def test_a_larger_scale_may_be_less_private_for_dp():
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


@pytest.mark.few(27)
@pytest.mark.parametrize("width", [1e-9, 1.0, 1e4])
@pytest.mark.parametrize("gap", [1e-9, 1.0, 1e4])
@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 50.0])
@pytest.mark.parametrize("origin", [0.0, 1e6])
def test_narrow_and_wide(width, gap, epsilon, origin):
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
def test_any_scale_gives_a_number_and_ends_far_out_count_by_their_differences(scale):
    for spans in (([-INF, 1.0, 5.0], [0.0, 1.0 + 1e-12, INF]), ([0.0, 1.0], [1e-300, 2.0]), ([-INF], [INF])):
        for epsilon in (dp_epsilon, metric_epsilon):
            value = epsilon(*spans, scale, 1.0)
            assert 0.0 < value <= max(2.001 / scale, 1.001e-290)  # as low as it goes
            assert value >= 0.999 / scale or spans[0][0] == 0.0  # a bounded support may not allow the distance 1
    lowers, uppers = np.array([0.0, 1.5, 3.25, 9.0]), np.array([1.0, 2.5, 7.75, 9.5])
    for sensitivity in (0.5, 0.7, 2.3):
        near = dp_epsilon(lowers, uppers, 1.1, sensitivity)
        assert dp_epsilon(lowers + 1e9, uppers + 1e9, 1.1, sensitivity) == pytest.approx(near, rel=1e-14)


@pytest.mark.slow
def test_many_gaps_match_extended_precision():
    """The margin for rounding holds with room where thousands of spans see each other."""
    ends = np.cumsum(np.random.default_rng(8).exponential(size=6000))
    case = Case(ends[::2], ends[1::2], 1e4, 25.0)

    def seen(ends):
        """The kept mass on the left of each end, the first of them the beginning of a span."""
        found, steps = [mpf(0)], [mp.exp(-(mpf(b) - mpf(a)) / mpf(case.scale)) for a, b in pairwise(ends.tolist())]
        for k, step in enumerate(steps):
            found.append(found[-1] * step + (0 if k % 2 else 1 - step))
        return found

    with mp.workdps(40):
        pairs = list(zip(seen(ends), seen(-ends[::-1])[::-1], strict=True))
        exact = 2 * max(max(pair) / sum(pair) for pair in pairs) * mpf(case.sensitivity) / mpf(case.scale)
        assert 0.0 <= float(case.of(metric_epsilon) / exact - 1) < 3e-12


@pytest.mark.slow
def test_twenty_thousand_gaps():
    rng = np.random.default_rng(7)
    ends = np.cumsum(rng.exponential(size=40_002))
    lowers, uppers = ends[::2].copy(), ends[1::2].copy()
    lowers[0], uppers[-1] = -INF, INF
    for scale_of, epsilon_of in ((dp_scale, dp_epsilon), (metric_scale, metric_epsilon)):
        scale = scale_of(lowers, uppers, 1.0, 10.0)
        assert epsilon_of(lowers, uppers, scale, 10.0) <= 1.0
        assert epsilon_of(lowers, uppers, scale * (1.0 - 1e-9), 10.0) > 1.0


SPANS = [
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
]


@pytest.mark.parametrize("scale_of", [metric_scale, dp_scale])
def test_a_scale_that_does_not_fit_is_refused(scale_of):
    with pytest.raises(ArgumentError, match="does not fit"):
        scale_of([0.0], [INF], 1e-100, 1e250)
