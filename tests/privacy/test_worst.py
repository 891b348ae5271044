"""The worst case over all databases: theorems that pin it, unions of answers, infinities, needs of certificates."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, logsumexp

import rangebound as rb
from rangebound.errors import ClaimFalse
from rangebound.laws.boundings import Shape
from rangebound.privacy.branch_and_bound import Task, bound, enclose
from rangebound.privacy.counterexample import loss_is_pinned
from rangebound.privacy.objectives import Delta, Loss, Renyi
from rangebound.privacy.setting import SearchLine
from rangebound.privacy.worst import pair_profile, worst_delta, worst_epsilon, worst_loss, worst_pair_at, worst_renyi
from rangebound.values.ball import ball, down, precision, taylor, up
from tests.crosscheck.compare import agree
from tests.crosscheck.oracle import Oracle, oracle
from tests.matrix.brute import delta_at, loss, renyi_at, scan

INF, FOUR = math.inf, rb.Interval(0, 4)


def mechanism(noise, support=None, answers=None, bounding=rb.TRUNCATE, sensitivity=1.0):
    query = rb.Query(range=answers or rb.Interval(0, 10), sensitivity=sensitivity)
    return rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)


def test_truncated_laplace_on_its_range_is_worst_at_the_end():
    """[holohan2018]: the pair (l, l + D), in closed form."""
    m = mechanism(rb.Laplace(scale=2.0))
    near, far, whole = (-math.expm1(-x / 2.0) for x in (1.0, 9.0, 10.0))
    expected = 0.5 + math.log1p(near * far / whole)
    assert worst_loss(m.setting).upper == pytest.approx(expected, rel=1e-14)
    assert set(worst_loss(m.setting).pair) in ({0.0, 1.0}, {10.0, 9.0})
    half = mechanism(rb.Laplace(scale=2.0), rb.Interval(0, INF), rb.Interval(0, INF))
    assert worst_loss(half.setting).upper == pytest.approx(math.log(2.0 * math.exp(0.5) - 1.0), rel=1e-14)


def test_a_gaussian_seen_from_ever_farther_away_tends_to_its_limit():
    m = mechanism(rb.Gaussian(scale=2.0), rb.Interval(0, 3), rb.Interval(-INF, INF))
    worst = worst_loss(m.setting)
    assert worst.upper == pytest.approx(1.0 * 3.0 / 4.0, rel=1e-14)
    far = float(oracle(m).renyi(1e7, 1e7 + 1.0, INF))
    assert far < worst.upper < far * (1.0 + 1e-5)


def test_a_support_that_is_endless_on_the_left_is_its_mirror_image():
    spans = ((-INF, -0.5), (-0.49, 0), (0.1, 4))
    unions = rb.Union(*spans), rb.Union(*((-high, -low) for low, high in reversed(spans)))
    here, there = (mechanism(rb.Gaussian(scale=1.3), each, each, sensitivity=1.46) for each in unions)
    both = rb.Union((-INF, -0.5), (-0.49, 0), (0.1, INF))
    assert here.epsilon() == there.epsilon() == mechanism(rb.Gaussian(scale=1.3), both, both).epsilon() == INF
    assert here.delta(2.0) == pytest.approx(there.delta(2.0), rel=1e-9)
    assert here.delta(2.0) > 0.04


UNION_ANSWERS = [
    (rb.Union((-5, -1), (3, 5)), 4.0),
    (rb.Union((-5, -1), (0, 2), (3, 5)), 1.5),
    (rb.Union((-5, -1), (3, 5), (8, 12)), 4.5),
    (rb.Union((-5, -1), (0.5, 5)), 2.0),
    (rb.Union((1, 2), (4, 5), (11, 13)), 2.5),
    (rb.Union((-9, -8), (12, 13)), 0.5),
    (rb.Union((-9, -8), (-2, -1)), 8.0),
]


@pytest.mark.few(3)
@pytest.mark.parametrize("support", [rb.Interval(0, 10), rb.Interval(0, 6), rb.Union((0, 2), (4, 10))], ids=str)
@pytest.mark.parametrize(("answers", "sensitivity"), UNION_ANSWERS, ids=str)
@pytest.mark.parametrize("noise", [rb.Laplace(scale=1.5), rb.Gaussian(scale=1.5)], ids=["laplace", "gaussian"])
def test_answers_on_a_union_that_is_not_the_support(noise, answers, sensitivity, support):
    """Neither understated nor overstated, and the pair named is one of neighbours in the range."""
    m = mechanism(noise, support, answers, sensitivity=sensitivity)
    for worst, number in (
        (worst_loss(m.setting), loss(m)),
        (worst_delta(m.setting, 0.5), delta_at(m, 0.5)),
        (worst_renyi(m.setting, 3.0), renyi_at(m, 3.0)),
    ):
        best, _ = scan(m, number)
        assert worst.upper == pytest.approx(best, rel=1e-4, abs=1e-13)
        assert worst.upper >= best * (1.0 - 1e-10) - 1e-13
        if worst.upper > 1e-9:
            assert abs(worst.pair[0] - worst.pair[1]) <= sensitivity * (1.0 + 1e-12)
            assert all(any(a <= x <= b for a, b in answers.spans) for x in worst.pair)


@pytest.mark.parametrize(
    "noise",
    [rb.Gaussian(scale=2.0), rb.TruncatedLaplacian(scale=2.0, limit=30.0)],
    ids=["gaussian", "truncated_laplacian"],
)
@pytest.mark.parametrize("support", [rb.Interval(0, INF), rb.Interval(-INF, INF)], ids=["half-line", "line"])
def test_an_infinite_epsilon_is_known_to_be_infinite(noise, support):
    m = mechanism(noise, support)
    worst = worst_loss(m.setting)
    assert worst.lower == worst.upper == INF
    with pytest.raises(ClaimFalse) as refuted:
        rb.certify(m, epsilon=3.0)
    assert np.isfinite(refuted.value.pair).all()
    assert rb.renyi(*map(m.law, refuted.value.pair), INF) > 3.0


@pytest.mark.parametrize("delta", [1e-4, 0.05])
def test_no_epsilon_where_an_edge_shows_more_than_delta(delta):
    """Truncated Laplacian noise seen from outside its support: part of it is told apart for certain."""
    m = mechanism(rb.TruncatedLaplacian(scale=1.0, limit=4.0), rb.Interval(0, INF), rb.Interval(-3, 3))
    shown = m.delta(100.0)
    assert shown > 0.05
    assert m.epsilon(delta) == INF
    assert math.isfinite(m.epsilon(shown * 1.01))


@pytest.mark.few(1)
@pytest.mark.parametrize("limit", [3.5, 4.2, 6.0])
def test_limited_noise_that_reaches_only_part_of_the_support(limit):
    """The laws differ by where they end; the hockey stick of such a pair is not at a threshold between them."""
    m = mechanism(rb.TruncatedLaplacian(scale=0.8, limit=limit), rb.Interval(-INF, 0.25), rb.Interval(-3, 3))
    true = oracle(m)
    for p, q in itertools.permutations((3.0, 2.2, 1.0, -1.0), 2):
        for epsilon in (0.0, 0.5, 2.0):
            exact = true.stick(p, q, epsilon)
            agree(rb.hockey_stick(m.law(p), m.law(q), epsilon), exact, rel=1e-13, floor=1e-290, what=(p, q, epsilon))
            batch = rb.hockey_stick(m.law(np.array([p])), m.law(q), epsilon)
            agree(batch[0], exact, rel=1e-9, floor=1e-5, what=(p, q, epsilon))
    for epsilon in (0.5, 2.0):
        best = max(true.stick(p, p + s, epsilon) for p in np.linspace(-2, 2, 41).tolist() for s in (1.0, -1.0))
        assert mp.mpf(m.delta(epsilon)) >= best


def test_a_symmetric_setting_is_looked_at_once_and_losses_are_pinned_but_for_laplace_on_gaps_and_grids():
    lopsided, even = rb.Union((0, 2), (5, 10)), rb.Union((0, 2), (8, 10))
    grid = rb.Grid(step=1.0, within=rb.Interval(0, 10))
    for support, sides in ((None, 1), (rb.Interval(0, 11), 2), (lopsided, 2), (even, 1), (grid, 1)):
        setting = mechanism(rb.Laplace(scale=1.0), support).setting
        assert len(setting.sides()) == sides
        assert loss_is_pinned(setting) == (support is None or isinstance(support, rb.Interval))
    assert loss_is_pinned(mechanism(rb.Gaussian(scale=1.0), lopsided).setting)


@pytest.mark.few(1)
@pytest.mark.parametrize("noise", [rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("answers", [rb.Interval(0, 10), rb.Union((0, 1), (1.5, 2), (4, 5))], ids=str)
def test_epsilon_and_delta_are_inverse(noise, answers):
    m = mechanism(noise, answers=answers)
    for delta in (1e-15, 1e-9, 1e-3, 0.2):
        epsilon = m.epsilon(delta)
        assert m.delta(epsilon) <= delta * (1.0 + 1e-6)
        assert m.delta(epsilon * (1.0 - 1e-5)) > delta
    assert worst_epsilon(m.setting, 0.0) == worst_loss(m.setting)


def test_locations_a_million_scales_from_a_union_are_no_obstacle():
    """There the kept mass has no digits left at the first precision; the answer is still an epsilon that holds."""
    support, answers = rb.Union((1577, 2164), (2589, 4917)), rb.Interval(0, 9714)
    m = mechanism(rb.Gaussian(scale=0.00156), support, answers, sensitivity=26.8)
    found, exactly = m.epsilon(1e-6), oracle(m)
    pairs = [(2376.5, 2349.75), (2363.1, 2389.8), (9714.0, 9687.25), (0.0, 26.75)]
    assert all(exactly.stick(*pair, found) <= 1e-6 for each in pairs for pair in (each, each[::-1]))
    assert max(exactly.stick(*pair, 0.9 * found) for each in pairs for pair in (each, each[::-1])) > 1e-6


@pytest.mark.few(2)
@pytest.mark.parametrize("bounding", [rb.QUANTIZE, rb.TRUNCATE])
@pytest.mark.parametrize(
    "noise", [rb.Gaussian(scale=5.0), rb.Laplace(scale=5.0)], ids=lambda noise: type(noise).__name__
)
def test_epsilon_of_a_grid_is_closed_and_delta_gives_it_back(noise, bounding):
    """A pair of rounded laws was once weighed as if it were truncated, and epsilon ended open."""
    within = rb.Interval(-60, 60)
    m = mechanism(noise, rb.Grid(step=1.0, within=within), within, bounding)
    for delta in (1e-3, 1e-8):
        assert m.delta(m.epsilon(delta) * (1.0 + 1e-9)) <= delta
        assert m.delta(m.epsilon(delta) * (1.0 - 1e-5)) > delta * (1.0 - 1e-9)


def test_the_loss_far_outside_a_union_is_told():
    """Seen from a hundred scales away the spans out of reach once hid those in reach, and the loss was infinite."""
    spans = [(1.25 * k, 1.25 * k + 0.9) for k in range(40)]
    m = mechanism(rb.Gaussian(scale=1.0), rb.Union(*spans), rb.Interval(-50, 50), sensitivity=0.1)
    width = spans[-1][1] - spans[0][0]
    assert 0.9 * 0.1 * width < m.epsilon() < 0.1 * width  # the limit far out is sensitivity times width over s^2


@pytest.mark.few(6)
@pytest.mark.parametrize("noise", [rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0)])
@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.0, 0.0), (1.5, 2.25)])
@pytest.mark.parametrize("epsilon", [-1.5, -0.2, 0.0, 0.4, 1.5])
def test_it_is_the_integral_of_what_one_density_is_above_the_other(noise, pair, epsilon):
    m = mechanism(noise, answers=FOUR)
    p, q = (m.law(each) for each in pair)

    def over(x):
        return max(float(p.pdf(x)) - math.exp(epsilon) * float(q.pdf(x)), 0.0)

    exact = sum(quad(over, a, b, limit=200)[0] for a, b in itertools.pairwise(np.linspace(0, 4, 17)))
    assert float(pair_profile(m.noise, m.shape, pair)(epsilon).mid()) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("answers", [FOUR, rb.Interval(0, INF)])
@pytest.mark.parametrize("noise", [rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.2])
def test_the_worst_pair_attains_the_profile_at_finite_answers(answers, noise, epsilon):
    m = mechanism(noise, answers=answers)
    pair = worst_pair_at(m.setting, epsilon)
    assert all(math.isfinite(each) and each >= 0.0 for each in pair)
    assert abs(pair[0] - pair[1]) <= 1.0
    found, worst = pair_profile(m.noise, m.shape, pair)(epsilon), worst_delta(m.setting, epsilon)
    assert down(found) <= worst.upper
    assert up(found) >= worst.lower * (1 - 1e-6)


def test_another_pair_leaks_less():
    """The control: near the middle truncated noise reveals less than at the end."""
    m = mechanism(rb.Laplace(scale=1.0), answers=FOUR)
    middle = pair_profile(m.noise, m.shape, (1.5, 2.5))(0.9)
    assert up(middle) < 0.9 * worst_delta(m.setting, 0.9).lower


def valley(values):
    """How far a sequence goes down before it goes up again, relative to its largest value."""
    before, after = list(itertools.accumulate(values, max)), list(itertools.accumulate(reversed(values), max))[::-1]
    return max(min(a, b) - value for a, b, value in zip(before, after, values, strict=True)) / max(*values, 1e-300)


def deltas(noise, support, d, epsilon, positions):
    true = Oracle(noise, support, rb.TRUNCATE, digits=40)
    return [true.stick(p, mp.mpf(p) + mp.mpf(d), epsilon) for p in positions]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_delta_has_one_peak(seed):
    """Inside the support and beyond it, on intervals and half-lines, to 30 digits."""
    generator = np.random.default_rng([181, seed])
    seen = 0
    for k in range(20):
        width = float(10.0 ** generator.uniform(-1.0, 1.2))
        d = float(width * 10.0 ** generator.uniform(-1.5, 0.0))
        support = [rb.Interval(0, width), rb.Interval(0, width), rb.Interval(0, INF), rb.Interval(-INF, width)][k % 4]
        epsilon = float(d * generator.uniform(0.0, 1.0) ** 0.5 * generator.uniform(0.1, 1.9))
        inside = np.linspace(0.0, width - d, 25)[1:-1]
        outside = [-1.5 * d, -0.5 * d, -0.1 * d, 0.0, width - d, width - 0.9 * d, width - 0.5 * d, width + 0.5 * d]
        values = deltas(rb.Laplace(scale=1.0), support, d, epsilon, sorted([*inside.tolist(), *outside]))
        assert valley(values) < mp.mpf(10) ** -30, (width, d, epsilon, support)
        seen += max(values) > 1e-9 and 0 < np.argmax(values) < len(values) - 1
    assert seen > 3


def divergences(noise, shape, order, d, positions):
    with precision(256):
        return [Renyi(noise, shape, order).value(ball(float(p)), ball(d)) for p in positions]


@pytest.mark.few(4)
@pytest.mark.parametrize("order", [1.05, 2.0, 7.0])
@pytest.mark.parametrize("width", [0.05, 1.0, 6.0, INF])
def test_a_renyi_divergence_of_gaussian_noise_on_an_interval_has_one_peak(width, order):
    """The variance rises to the middle and falls from there, and so does what is a mean of it."""
    noise, d, reach = rb.Gaussian(scale=1.0), 1.5, max(8.0, 8.0 / width)
    shape = Shape(spans=((0.0, width),), normalised=True)
    values = divergences(noise, shape, order, d, np.linspace(-reach, reach + order * d, 100))
    assert valley([x.mid() for x in values]) < 1e-30
    assert Renyi(noise, shape, order).peaked


def test_on_three_spans_it_has_more():
    """The control."""
    shape = Shape(spans=((0.0, 4.0), (8.0, 9.0), (13.0, 17.0)), normalised=True)
    values = divergences(rb.Gaussian(scale=1.0), shape, 2.0, 0.5, np.linspace(-2.0, 19.0, 80))
    assert valley([x.mid() for x in values]) > 0.1
    assert not Renyi(rb.Gaussian(scale=1.0), shape, 2.0).peaked


@pytest.mark.parametrize(("scale", "width"), [(42.0, 0.22), (1.0, 1e-4), (5.0, 4.0)])
def test_the_worst_case_over_an_endless_range_about_a_narrow_support(scale, width):
    """Of order 2 the peak is at the middle; the total variation is largest where the pair lies evenly about it."""
    m = mechanism(rb.Gaussian(scale=scale), rb.Interval(0, width), rb.Interval(-INF, INF))
    middle = 0.5 * width
    order_2 = rb.renyi(m.law(middle), m.law(middle + 1.0), 2.0)
    variation = rb.hockey_stick(m.law(middle - 0.5), m.law(middle + 0.5), 0.0)
    for asked, there in ((worst_renyi(m.setting, 2.0), order_2), (worst_delta(m.setting, 0.0), variation)):
        assert asked.closed
        assert asked.lower <= there * (1.0 + 1e-9)
        assert there <= asked.upper * (1.0 + 1e-9)
    assert worst_renyi(m.setting, 1.05).closed


def test_a_tiny_delta_on_a_support_far_narrower_than_the_noise():
    """The worst position is hundreds of scales outside: the loss is above epsilon only there."""
    for scale, above in ((233.8226, True), (233.8227, False)):
        m = mechanism(rb.Gaussian(scale=scale), rb.Interval(0, 24), rb.Interval(-INF, INF), sensitivity=24.0)
        worst = worst_delta(m.setting, 0.01)
        assert worst.closed
        assert (worst.lower > 1e-15) is above
        assert (worst.upper > 1e-15) is above
        assert min(abs(x) for x in worst.pair) > 100 * scale


def test_with_a_gap_there_may_be_two():
    """The control, and what no objective may claim."""
    support = rb.Union((0, 1), (2, 6), (7, 8))
    values = deltas(rb.Laplace(scale=1.0), support, 0.5, 0.2, np.linspace(0.0, 7.5, 40).tolist())
    assert valley(values) > 0.1


@pytest.mark.parametrize(
    ("noise", "support", "one"),
    [
        (rb.Laplace(scale=1.0), {"spans": ((0.0, 4.0),)}, True),
        (rb.Laplace(scale=1.0), {"spans": ((0.0, INF),)}, True),
        (rb.Laplace(scale=1.0), {"spans": ((0.0, 1.0), (2.0, 4.0))}, False),
        (rb.Laplace(scale=1.0), {"points": (0.0, 1.0, 2.0)}, False),
        (rb.TruncatedLaplacian(scale=1.0, limit=9.0), {"spans": ((0.0, 4.0),)}, False),
        (rb.Gaussian(scale=1.0), {"spans": ((0.0, 4.0),)}, False),
    ],
    ids=str,
)
def test_only_what_the_theorem_is_about_is_called_peaked(noise, support, one):
    shape = Shape(**support, normalised=True)
    assert Delta(noise, shape, 0.5).peaked is one
    assert not Delta(noise, shape, -0.5).peaked
    assert Renyi(noise, shape, 2.0).peaked is (noise == rb.Gaussian(scale=1.0))
    assert not Loss(noise, shape).peaked
    query, grid = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0), rb.Grid(step=1.0, within=rb.Interval(0, 4))
    for support, bounding in ((grid, rb.QUANTIZE), (None, rb.RECTIFY)):
        m = rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)
        assert not Delta(m.noise, m.shape, 0.5).peaked


def test_a_slope_bounds_a_cell_and_three_cells_bound_a_line():
    noise, shape = rb.Laplace(scale=1.5), Shape(spans=((0.0, 10.0),), normalised=True)
    with precision(128):
        task = Task(Delta(noise, shape, 0.6), SearchLine(0.0, 9.0, 1.0))
        found = enclose([task])
        assert 0.0 < found.position < 1.0
        assert len(found.cells) <= 3
        assert found.upper <= found.lower * (1.0 + 1e-12)
        values = [down(task.objective.value(ball(float(x)), task.line.d)) for x in np.linspace(0.0, 9.0, 400)]
        assert max(values) <= found.upper
        for start, end in ((0.0, 0.9 * found.position), (1.1 * found.position, 9.0)):
            top = bound(task, start, end)
            assert top == max(up(task.objective.value(ball(x), task.line.d)) for x in (start, end))


@pytest.mark.parametrize("position", [0.0, 9.0])
def test_at_an_end_of_the_support_the_series_is_the_one_from_inside(position):
    """Where the scale is a power of two; else it is not known on which side of the kink the position is."""
    noise, shape = rb.Laplace(scale=2.0), Shape(spans=((0.0, 10.0),), normalised=True)
    with precision(256):
        objective, d = Delta(noise, shape, 0.05), ball(1.0)
        exact = objective.branches(taylor(ball(position), 3), d)[0]
        near = objective.branches(taylor(ball(position) + (5 - ball(position)) * ball(2.0**-200), 3), d)[0]
        assert all(abs(exact[k] - near[k]) < 1e-50 for k in range(4))


def log_masses(lowers, uppers, p, scale):
    """Logarithms of the masses of spans about p, on the tail that does not cancel."""
    a, b = (lowers - p) / scale, (uppers - p) / scale
    low, high = np.where(a > 0.0, -b, a), np.where(a > 0.0, -a, b)
    top, cut = log_ndtr(high), log_ndtr(low)
    return top + np.log(-np.expm1(cut - top))


def stick_in_logs(spans, scale, p, q, epsilon):
    """P(x < t) - e^epsilon Q(x < t) at the best t, for p < q."""
    lowers, uppers = np.asarray(spans).T
    zp, zq = (logsumexp(log_masses(lowers, uppers, at, scale)) for at in (p, q))
    t = 0.5 * (p + q) + scale**2 / (q - p) * (zq - zp - epsilon)
    below = lowers < t
    if not below.any():
        return 0.0
    lowers, uppers = lowers[below], np.minimum(uppers[below], t)
    return math.exp(logsumexp(log_masses(lowers, uppers, p, scale)) - zp) - math.exp(
        logsumexp(log_masses(lowers, uppers, q, scale)) - zq + epsilon
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(("scale", "delta"), [(0.5, 1e-5), (0.25, 1e-3)])
def test_a_large_epsilon_on_many_spans_is_what_one_pair_needs_and_no_pair_needs_more(scale, delta):
    """Of pairs ten and more scales apart: with masses below what balls tell, hundreds too much were asked for."""
    spans = tuple((k + 0.3 * math.sin(k), k + 0.4 + 0.3 * math.sin(k)) for k in range(0, 40, 2))
    union = rb.Union(*spans)
    made = mechanism(rb.Gaussian(scale=scale), union, union, sensitivity=5.0)
    found = worst_epsilon(made.setting, delta)
    assert found.closed
    mirrored = tuple((-b, -a) for a, b in reversed(spans))

    def needs(p, q, epsilon):
        return stick_in_logs(spans, scale, p, q, epsilon) if p < q else stick_in_logs(mirrored, scale, -p, -q, epsilon)

    assert needs(*found.pair, found.lower * (1.0 - 1e-6)) > delta  # control: the pair needs what it is said to need
    ends = [end for each in spans for end in each]
    places = [*ends, *(x - 5.0 for x in ends), *(x for a, b in spans for x in np.linspace(a, b, 9))]
    allowed = [p for p in places if any(a <= p <= b for a, b in spans)]
    pairs = [(p, min(p + 5.0, max(b for a, b in spans if a <= p + 5.0))) for p in allowed]
    assert max(needs(*each, found.upper) for p, q in pairs if p < q for each in ((p, q), (q, p))) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(500.0, 1e-200), pytest.param(599.0, 1e-280, marks=pytest.mark.slow)])
def test_the_largest_epsilons_and_the_smallest_deltas_have_answers(epsilon, delta):
    """Where the two together are beyond the largest double."""
    union = rb.Union((0, 10), (12, 30))
    made = mechanism(rb.Gaussian(scale=0.5), union, union, sensitivity=5.0)
    assert 0.0 <= made.delta(epsilon) <= delta
    if epsilon > 500.0:
        needed = made.epsilon(delta)
        assert 50.0 < needed < math.inf
        assert made.delta(needed) <= delta * (1.0 + 1e-6)
