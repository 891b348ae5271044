"""Errata of [croft2022]: Laplace noise truncated to a range with gaps. Each docstring starts with its entry."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import mpmath as mp
import pytest

import rangebound as rb
from rangebound.mechanisms.variable_scale import VariableScaleLaplace
from tests.errata import brute_force

TIGHT = 1e-9
LINE = rb.Interval(-math.inf, math.inf)
HALF_LINE = rb.Interval(0.0, math.inf)

Gaps = list[tuple[float, float]]


# The mechanism of Theorem 1, mirrored: the forbidden side is below 0. Sensitivity 1.


@brute_force.precisely
def published_scale(distance: Any, epsilon: Any) -> Any:
    """Formulas (32) and (33), principal branch up to 1/epsilon and branch -1 beyond."""
    distance, epsilon = mp.mpf(distance), mp.mpf(epsilon)
    at_end = -1 / (mp.lambertw(-1 / (2 * mp.e)).real * mp.e * epsilon)
    if distance == 0:
        return at_end
    share = distance * mp.exp(-distance * epsilon) / at_end
    argument = -2 * share * mp.exp(-share)
    at_branch_point = abs(1 + mp.e * argument) < mp.eps**0.8
    branch = 0 if distance * epsilon < 1 else -1
    w = mp.mpf(-1) if at_branch_point else mp.lambertw(argument, branch).real
    return -distance / (w + share)


def variable(epsilon: float) -> VariableScaleLaplace:
    return VariableScaleLaplace(query=rb.Query(range=HALF_LINE, sensitivity=1.0), epsilon=epsilon)


def published_law(location: Any, epsilon: Any) -> brute_force.Law:
    return brute_force.truncated(brute_force.laplace, location, published_scale(location, epsilon), (0.0, math.inf))


@brute_force.precisely
def log_ratio(x: Any, one: brute_force.Law, other: brute_force.Law) -> Any:
    return mp.log(one.density(mp.mpf(x)) / other.density(mp.mpf(x)))


# Gaps: masses as the paper's sums (4) and (5), and the conditions built from them. Sensitivity 1.


def sides(at: float, gaps: Gaps, scale: float) -> tuple[float, float]:
    """L and R: the mass of the gaps on the left and on the right of an allowed point."""
    left = sum(math.exp(-(at - b) / scale) - math.exp(-(at - a) / scale) for a, b in gaps if b <= at)
    right = sum(math.exp(-(a - at) / scale) - math.exp(-(b - at) / scale) for a, b in gaps if a >= at)
    return left / 2.0, right / 2.0


def rate(at: float, gaps: Gaps, scale: float) -> float:
    """Left-hand side of Lemma 7's condition at a point, the larger of it and its mirror image: (1-2L)/(s(1-L-R))."""
    left, right = sides(at, gaps, scale)
    return (1.0 - 2.0 * min(left, right)) / (scale * (1.0 - left - right))


def lemma_9_loss(gap: tuple[float, float], gaps: Gaps, scale: float) -> float:
    """Log of the left-hand side of (37) for the two ends of a gap, over the distance; the larger of both forms."""
    mass = [1.0 - sum(sides(at, gaps, scale)) for at in gap]
    width = gap[1] - gap[0]
    return (width / scale + abs(math.log(mass[0] / mass[1]))) / width


def smallest(condition: Callable[[float], float], epsilon: float) -> float:
    """The scale in [D/epsilon, 2D/epsilon] at which a falling condition equals epsilon."""
    low, high = 1.0 / epsilon, 2.0 / epsilon
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if condition(middle) > epsilon else (low, middle)
    return high


def metric_scale(gaps: Gaps, epsilon: float) -> float:
    """The largest of the 2n + 2 bounds of Lemma 7, taken at the ends of the spans."""
    ends = [x for gap in gaps for x in gap]
    return smallest(lambda scale: max(rate(x, gaps, scale) for x in ends), epsilon)


def union(gaps: Gaps, within: rb.Interval = LINE) -> rb.Union:
    return rb.Union.excluding(*gaps, within=within)


def calibrated(support: Any, epsilon: float = 1.0, notion: str = "dp", answers: Any = None) -> float:
    query = rb.Query(range=support if answers is None else answers, sensitivity=1.0)
    m = rb.calibrate(noise=rb.Laplace, query=query, support=support, epsilon=epsilon, notion=notion)
    return m.noise.scale


def law(at: Any, scale: float, *spans: tuple[float, float]) -> brute_force.Law:
    return brute_force.truncated(brute_force.laplace, at, scale, *spans)


def pair_loss(one: float, other: float, scale: float, *spans: tuple[float, float]) -> float:
    """Largest log-ratio of the laws at two locations, in either direction."""
    p, q = law(one, scale, *spans), law(other, scale, *spans)
    return float(max(brute_force.loss(p, q, points=4), brute_force.loss(q, p, points=4)))


@brute_force.precisely
def brute_rate(at: float, scale: float, *spans: tuple[float, float]) -> float:
    """Largest rate of change of the log-density with the location: 1/s + |d ln Z|, Z by quadrature."""
    step = mp.mpf("1e-9")
    near = [law(mp.mpf(at) + k * step, scale, *spans).norm for k in (-1, 1)]
    # the mass left out of the gaps is smooth to first order at the end of a span, so a central difference is fine
    return float(1 / mp.mpf(scale) + abs(mp.log(near[1] / near[0])) / (2 * step))


def random_gaps(count: int, seed: int) -> Gaps:
    source = random.Random(seed)
    ends = list(itertools.accumulate(source.choice((0.05, 0.3, 1.0, 4.0)) * source.random() for _ in range(2 * count)))
    return list(zip(ends[::2], ends[1::2], strict=True))


def test_two_scales_have_no_bounded_ratio() -> None:
    """croft2022-theorem-1: with a scale that depends on the location, no epsilon at all holds on the half-line."""
    epsilon = 1.0
    assert float(published_scale(0, epsilon)) == pytest.approx(1.585954172178, rel=1e-12)
    assert float(published_scale(1, epsilon)) == pytest.approx(1.3020171356, rel=1e-10)
    one, other = published_law(0, epsilon), published_law(1, epsilon)
    assert float(log_ratio(0, one, other)) == pytest.approx(epsilon, rel=TIGHT)  # tight where the paper looks
    assert float(log_ratio(100, one, other)) == pytest.approx(13.214302, rel=1e-7)
    assert float(log_ratio(1000, one, other)) == pytest.approx(136.96773, rel=1e-7)
    published = variable(epsilon)
    assert published.epsilon() == math.inf
    assert published.scale([0.0, 1.0]).tolist() == pytest.approx(
        [float(published_scale(q, epsilon)) for q in (0, 1)], rel=TIGHT
    )


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1.652245e-4), (1.0, 1.562577e-4), (2.0, 1.547439e-5)])
def test_what_the_variable_scale_does_guarantee(epsilon: float, delta: float) -> None:
    """croft2022-theorem-1: the mechanism is (epsilon, delta)-private, with a delta that no pair tried exceeds."""
    worst = brute_force.stick(published_law(0, epsilon), published_law(1, epsilon), epsilon)
    assert float(worst) == pytest.approx(delta, rel=1e-6)
    for start, end in ((0.5, 1.5), (1.0, 0.0), (2.0, 1.0), (0.0, 0.5)):
        assert brute_force.stick(published_law(start, epsilon), published_law(end, epsilon), epsilon) <= worst
    ours = variable(epsilon).delta(epsilon)
    assert float(worst) <= ours <= float(worst) * (1.0 + 3e-6)


def smallest_rise(at: float, far: float, epsilon: float) -> float:
    """The least of (25) times its denominator over all scales that a law `far` beyond `at` could have, by a scan."""
    least = min((2.0 * math.exp(u) - 1.0) / u for u in (0.01 * k for k in range(1, 400)))
    return least * (at + far) * math.exp(-far * epsilon)


def has_partners(at: float, scale: float, epsilon: float) -> bool:
    """Whether every law farther from the constraint than `at` has some scale that (25) allows beside this one."""
    own = scale * (2.0 * math.exp(at / scale) - 1.0)
    return all(smallest_rise(at, 0.02 * k / epsilon, epsilon) <= own * (1.0 + 1e-4) for k in range(400))


def test_two_of_the_four_bounds_end_where_the_scale_does_not_matter() -> None:
    """croft2022-lemma-1: (30) and (31) forbid scales that nothing forbids, from the distance 1/epsilon on."""
    epsilon, first = 1.0, float(published_scale(0, 1))
    for at, needed in ((0.4, True), (2.0, False), (4.0, False)):
        share = at * math.exp(-at) / first
        ends = [-at / (float(mp.lambertw(-2 * share * mp.exp(-share), k).real) + share) for k in (0, -1)]
        between = math.sqrt(ends[0] * ends[1])
        assert has_partners(at, 1.05 * ends[0], epsilon)
        assert has_partners(at, 0.95 * ends[1], epsilon)
        assert has_partners(at, between, epsilon) is not needed
        if at == 2.0:
            assert sorted(ends) == pytest.approx([1.174710, 7.098318], rel=1e-6)


def test_the_published_scale_is_not_optimal_near_the_end() -> None:
    """croft2022-theorem-1: a smaller scale, the same for all locations, is private where the paper says none is."""
    epsilon = 2.0
    uniform = calibrated(HALF_LINE, epsilon)
    assert uniform == pytest.approx(1.0 / math.log((1.0 + math.exp(epsilon)) / 2.0), rel=TIGHT)
    assert uniform < 0.88 * float(published_scale(0, epsilon))
    assert calibrated(HALF_LINE, 1.1) < float(published_scale(0, 1.1))
    assert pair_loss(0.0, 1.0, uniform, (0.0, math.inf)) == pytest.approx(epsilon, rel=TIGHT)


@brute_force.precisely
def exponent(x: Any, one: Any, other: Any, epsilon: float) -> Any:
    """The exponent in (15): distance to the second location over its scale, less the same for the first."""
    distances = [abs(mp.mpf(x) - at) for at in (other, one)]
    return distances[0] / published_scale(other, epsilon) - distances[1] / published_scale(one, epsilon)


def test_the_worst_output_lies_in_the_free_tail() -> None:
    """croft2022-eq-15: of the three cases in (15) the third is not the largest once the scales differ."""
    # mirrored, so the paper's third case (outputs towards the forbidden side) is x <= 0 here, and x = 0 is all of it
    third = exponent(0, 0, 1, 1.0)
    first = exponent(100, 0, 1, 1.0)
    assert float(third) == pytest.approx(0.768039, rel=1e-6)
    assert float(first) == pytest.approx(12.982341, rel=1e-6)
    same = [float(abs(mp.mpf(x) - 1) - abs(mp.mpf(x))) for x in (0, 100)]
    assert same[0] > same[1]  # control: with one scale for all locations the claim is right


def test_no_density_lies_below_another_everywhere() -> None:
    """croft2022-eq-56: formulas (54) and (56) are about all outputs x, and hold for one."""
    near, far = published_law(0, 1.0), published_law(1, 1.0)
    assert float(log_ratio(0, near, far)) == pytest.approx(1.0, rel=TIGHT)  # (54) at the end of the range
    assert float(log_ratio(1, near, far)) == pytest.approx(-0.398574, rel=1e-5)  # where (56) is false
    published = variable(1.0)
    for q, each in ((0.0, near), (1.0, far)):
        assert float(published.pdf(1.0, q)) == pytest.approx(float(each.density(mp.mpf(1))), rel=TIGHT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spans", "worst", "metric", "dp"),
    [
        (((0.0, 10.0),), (0.0, 1.0), 2.0, 1.611560),
        (((-math.inf, 0.0), (1.0, math.inf)), (-1.0, 0.0), 1.353482, 1.238391),
        (((-math.inf, 0.0), (10.0, math.inf)), (-1.0, 0.0), 1.987041, 1.610197),
        (((0.0, 1.0), (1.6, 2.6)), None, 2.0, 1.302636),
    ],
)
def test_the_uniform_scale_is_optimal_for_another_notion(
    spans: tuple[tuple[float, float], ...], worst: tuple[float, float] | None, metric: float, dp: float
) -> None:
    """croft2022-theorem-2: the scale is the smallest for the metric notion, never for ordinary privacy."""
    support = rb.Union(*spans) if len(spans) > 1 else rb.Interval(*spans[0])
    published, ordinary = calibrated(support, notion="metric"), calibrated(support)
    assert published == pytest.approx(metric, rel=1e-6)
    assert ordinary == pytest.approx(dp, rel=1e-6)
    points = [x for x in [k / 5 - 2.0 for k in range(71)] if any(a <= x <= b for a, b in spans)]
    pairs = [(x, max(y for y in points if x <= y <= x + 1.0 + 1e-12)) for x in points]
    assert max(pair_loss(*pair, ordinary, *spans) for pair in pairs[::3]) <= 1.0 + TIGHT
    if worst is not None:
        assert pair_loss(*worst, ordinary, *spans) == pytest.approx(1.0, rel=TIGHT)  # so no smaller scale is private
        assert max(brute_rate(x, ordinary, *spans) for x in worst) > 1.05  # but close pairs differ by more than i eps
        assert max(brute_rate(x, published, *spans) for x in worst) == pytest.approx(1.0, rel=1e-8)


def test_answers_in_a_gap_need_more_noise() -> None:
    """croft2022-theorem-2: the bounds assume that true answers never lie in a gap."""
    scale = calibrated(union([(0.0, 10.0)]), answers=LINE)
    assert scale == pytest.approx(1.978428, rel=1e-6)
    spans = ((-math.inf, 0.0), (10.0, math.inf))
    assert pair_loss(-0.02157, 0.97843, scale, *spans) == pytest.approx(1.0, rel=1e-8)
    assert pair_loss(-0.02157, 0.97843, 1.610197, *spans) > 1.2


def test_the_condition_depends_on_where_in_the_span_it_is_taken() -> None:
    """croft2022-lemma-7: (35) names no location; only the ends of the spans give a private scale."""
    gaps = [(0.0, 1.0)]
    inside, at_end = (smallest(lambda s, at=at: rate(at, gaps, s), 1.0) for at in (-1.0, 0.0))
    assert inside == pytest.approx(1.138199, rel=1e-5)
    assert at_end == pytest.approx(calibrated(union(gaps), notion="metric"), rel=TIGHT)
    spans = ((-math.inf, 0.0), (1.0, math.inf))
    assert brute_rate(0.0, inside, *spans) > 1.15
    assert brute_rate(0.0, at_end, *spans) == pytest.approx(1.0, rel=1e-8)
    assert pair_loss(-1.0, 0.0, inside, *spans) > 1.05  # and it is not private in the ordinary sense either


def test_the_bounds_across_a_gap_never_decide() -> None:
    """croft2022-lemma-9: the n conditions (37) follow from the 2n + 2 of Lemma 7."""
    for seed in range(40):
        gaps = random_gaps(count=1 + seed % 5, seed=seed)
        epsilon = (0.1, 1.0, 3.0)[seed % 3]
        scale = metric_scale(gaps, epsilon)
        assert max(lemma_9_loss(gap, gaps, scale) for gap in gaps) <= epsilon
        if seed < 6:
            assert calibrated(union(gaps), epsilon, "metric") == pytest.approx(scale, rel=TIGHT)
    gaps = [(-3.0, -0.1), (0.0, 1.0)]
    alone = smallest(lambda s: max(lemma_9_loss(gap, gaps, s) for gap in gaps), 1.0)
    assert alone == pytest.approx(1.630031, rel=1e-5)
    assert metric_scale(gaps, 1.0) == pytest.approx(1.789391, rel=1e-5)
    spans = ((-math.inf, -3.0), (-0.1, 0.0), (1.0, math.inf))
    seen = max(pair_loss(a, b, alone, *spans) / (b - a) for a, b in gaps)
    assert seen == pytest.approx(1.0, rel=TIGHT)  # (37) is what the brute force sees


@pytest.mark.slow
def test_inverting_the_fraction_can_raise_the_left_side() -> None:
    """croft2022-theorem-2-symmetry: (37) may hold while its mirror image fails."""
    spans = ((-math.inf, -3.0), (-0.1, 0.0), (1.0, math.inf))
    mass = {at: law(at, 1.0, *spans).norm for at in (0.0, 1.0)}
    printed = float(mass[0.0] / mass[1.0])  # the fraction of (37): the left end over the right end
    assert printed == pytest.approx(0.486867, rel=1e-5)
    left, right = (1.0 - sum(sides(at, [(-3.0, -0.1), (0.0, 1.0)], 1.0)) for at in (0.0, 1.0))
    assert left / right == pytest.approx(printed, rel=TIGHT)  # the paper's own sums
    epsilon = 1.0
    assert printed * math.e <= math.exp(epsilon) < math.e / printed
    query = rb.Query(range=rb.Union(*spans), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query)
    true = rb.renyi(m.law(0.0), m.law(1.0), math.inf)
    assert true == pytest.approx(1.0 - math.log(printed), rel=TIGHT)
    assert true == pytest.approx(float(brute_force.loss(law(0.0, 1.0, *spans), law(1.0, 1.0, *spans))), rel=TIGHT)


def linear_sides(gaps: Gaps, scale: float) -> tuple[list[tuple[float, float]], int]:
    """L and R at all ends by a recurrence, and the number of exponentials used."""
    count = 0

    def sweep(lengths: list[tuple[float, float]]) -> list[float]:
        """Mass of the gaps behind, at both ends of each gap; `lengths` are of a gap and of the span after it."""
        nonlocal count
        behind, found = 0.0, []
        for gap, span in lengths:
            found.append(behind)
            across, along = math.exp(-gap / scale), math.exp(-span / scale)
            count += 2
            behind = behind * across + (1.0 - across) / 2.0
            found.append(behind)
            behind *= along
        return found

    widths = [b - a for a, b in gaps]
    spans = [b[0] - a[1] for a, b in itertools.pairwise(gaps)]
    left = sweep(list(zip(widths, [*spans, 0.0], strict=True)))
    right = sweep(list(zip(widths[::-1], [*spans[::-1], 0.0], strict=True)))[::-1]
    return list(zip(left, right, strict=True)), count


@pytest.mark.slow
def test_one_check_is_linear_in_the_number_of_gaps() -> None:
    """croft2022-theorem-3: all sums at all ends follow from one another, so a check costs n and not n squared."""
    gaps = random_gaps(count=150, seed=7)
    scale = 1.3
    fast, exponentials = linear_sides(gaps, scale)
    slow = [sides(x, gaps, scale) for gap in gaps for x in gap]
    assert exponentials == 4 * len(gaps) < len(gaps) ** 2 / 30
    for one, other in zip(fast, slow, strict=True):
        assert one == pytest.approx(other, rel=TIGHT, abs=1e-14)
    assert calibrated(union(gaps), notion="metric") == pytest.approx(metric_scale(gaps, 1.0), rel=TIGHT)


@pytest.mark.parametrize("spans", [((0.0, math.inf),), ((0.0, 10.0),), ((0.0, 1.0), (1.6, 2.6))])
@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_with_an_infinite_gap_no_search_is_needed(spans: tuple[tuple[float, float], ...], epsilon: float) -> None:
    """croft2022-corollary-1: with an infinite gap the metric scale is not at most 2D/epsilon, it is 2D/epsilon."""
    support = rb.Union(*spans) if len(spans) > 1 else rb.Interval(*spans[0])
    scale = calibrated(support, epsilon, "metric")
    assert scale == pytest.approx(2.0 / epsilon, rel=TIGHT)
    step = mp.mpf("1e-9")
    near = [law(k * step, scale, *spans).norm for k in (0, 1)]
    rising = float(mp.log(near[1] / near[0]) / step)  # ln Z next to the infinite gap: its slope is 1/s, whatever S is
    assert rising == pytest.approx(1.0 / scale, rel=1e-7)
