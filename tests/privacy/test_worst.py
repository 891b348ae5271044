"""The worst case over all databases: theorems that pin it, unions of answers, infinities, needs of certificates."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from rangebound.errors import ClaimFalse
from rangebound.privacy.closed_forms import loss_is_pinned
from rangebound.privacy.counterexample import find_counterexample
from rangebound.privacy.worst import Worst, worst_delta, worst_epsilon, worst_loss, worst_renyi
from tests.crosscheck.compare import agree
from tests.crosscheck.oracle import oracle
from tests.matrix.brute import delta_at, loss, renyi_at, scan

INF = math.inf


def mechanism(
    noise: object,
    support: object = None,
    answers: object = None,
    bounding: object = rb.TRUNCATE,
    sensitivity: float = 1.0,
) -> rb.Mechanism:
    """A mechanism on [0, 10] unless said otherwise."""
    query = rb.Query(range=answers or rb.Interval(0, 10), sensitivity=sensitivity)
    return rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)


def test_truncated_laplace_on_its_range_is_worst_at_the_end() -> None:
    """[holohan2018]: the pair (l, l + D), in closed form."""
    m = mechanism(rb.Laplace(scale=2.0))
    near, far, whole = (-math.expm1(-x / 2.0) for x in (1.0, 9.0, 10.0))
    expected = 0.5 + math.log1p(near * far / whole)
    assert worst_loss(m.setting).upper == pytest.approx(expected, rel=1e-14)
    assert set(worst_loss(m.setting).pair) in ({0.0, 1.0}, {10.0, 9.0})


def test_truncated_laplace_on_the_half_line() -> None:
    m = mechanism(rb.Laplace(scale=2.0), rb.Interval(0, INF), rb.Interval(0, INF))
    assert worst_loss(m.setting).upper == pytest.approx(math.log(2.0 * math.exp(0.5) - 1.0), rel=1e-14)


def test_clamping_never_costs_more_than_the_noise_itself() -> None:
    for noise in (rb.Laplace(scale=2.0), rb.Gaussian(scale=2.0)):
        free = mechanism(noise, bounding=rb.UNBOUNDED)
        clamped = mechanism(noise, bounding=rb.RECTIFY)
        for epsilon in (0.0, 0.2, 0.4):
            assert clamped.delta(epsilon) <= free.delta(epsilon)
        assert clamped.epsilon() <= free.epsilon()
        assert clamped.rdp(4.0) <= free.rdp(4.0)


def test_truncated_gaussian_on_an_interval_is_purely_private() -> None:
    """Its worst pair is (l, l + D) seen at x = u, or the mirror image."""
    m = mechanism(rb.Gaussian(scale=2.0))
    worst = worst_loss(m.setting)
    agree(worst.upper, max(oracle(m).renyi(*pair, INF) for pair in ((0.0, 1.0), (1.0, 0.0), (9.0, 10.0))), rel=1e-14)
    assert worst.pair in ((1.0, 0.0), (9.0, 10.0), (0.0, 1.0), (10.0, 9.0))


def test_a_gaussian_seen_from_ever_farther_away_tends_to_its_limit() -> None:
    m = mechanism(rb.Gaussian(scale=2.0), rb.Interval(0, 3), rb.Interval(-INF, INF))
    worst = worst_loss(m.setting)
    assert worst.upper == pytest.approx(1.0 * 3.0 / 4.0, rel=1e-14)
    far = float(oracle(m).renyi(1e7, 1e7 + 1.0, INF))
    assert far < worst.upper < far * (1.0 + 1e-5)


UNION_ANSWERS = [
    (rb.Union((-5, -1), (3, 5)), 4.0),
    (rb.Union((-5, -1), (0, 2), (3, 5)), 1.5),
    (rb.Union((-5, -1), (3, 5), (8, 12)), 4.5),
    (rb.Union((-5, -1), (0.5, 5)), 2.0),
    (rb.Union((1, 2), (4, 5), (11, 13)), 2.5),
    (rb.Union((-9, -8), (12, 13)), 0.5),
    (rb.Union((-9, -8), (-2, -1)), 8.0),
]


@pytest.mark.parametrize("support", [rb.Interval(0, 10), rb.Interval(0, 6), rb.Union((0, 2), (4, 10))], ids=str)
@pytest.mark.parametrize(("answers", "sensitivity"), UNION_ANSWERS, ids=str)
@pytest.mark.parametrize("noise", [rb.Laplace(scale=1.5), rb.Gaussian(scale=1.5)], ids=["laplace", "gaussian"])
def test_answers_on_a_union_that_is_not_the_support(
    noise: object, answers: rb.Union, sensitivity: float, support: object
) -> None:
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


def test_a_true_claim_about_such_answers_is_not_refuted() -> None:
    m = mechanism(rb.Laplace(scale=1.5), rb.Interval(0, 10), rb.Union((-5, -1), (3, 5)), sensitivity=4.0)
    true = scan(m, delta_at(m, 0.5))[0]
    assert rb.certify(m, epsilon=0.5, delta=true * 1.001).epsilon == 0.5


def test_a_long_union_names_a_pair_that_has_what_it_says() -> None:
    spans = [(float(i), i + 0.6) for i in range(66)]
    spans[40] = (40.0, 40.05)
    m = mechanism(rb.Laplace(scale=1.0), rb.Union(*spans), rb.Union(*spans))
    worst = worst_loss(m.setting)
    assert worst.upper - worst.lower <= 1e-6 * worst.upper
    with pytest.raises(ClaimFalse) as refuted:
        rb.certify(m, epsilon=worst.upper * (1.0 - 1e-5))
    assert rb.renyi(*map(m.law, refuted.value.pair), INF) > worst.upper * (1.0 - 1e-5)


@pytest.mark.parametrize(
    "noise",
    [rb.Gaussian(scale=2.0), rb.TruncatedLaplacian(scale=2.0, limit=30.0)],
    ids=["gaussian", "truncated_laplacian"],
)
@pytest.mark.parametrize("support", [rb.Interval(0, INF), rb.Interval(-INF, INF)], ids=["half-line", "line"])
def test_an_infinite_epsilon_is_known_to_be_infinite(noise: object, support: rb.Interval) -> None:
    m = mechanism(noise, support)
    worst = worst_loss(m.setting)
    assert worst.lower == worst.upper == INF
    with pytest.raises(ClaimFalse) as refuted:
        rb.certify(m, epsilon=3.0)
    assert np.isfinite(refuted.value.pair).all()
    assert rb.renyi(*map(m.law, refuted.value.pair), INF) > 3.0


@pytest.mark.parametrize("delta", [1e-4, 0.05])
def test_no_epsilon_where_an_edge_shows_more_than_delta(delta: float) -> None:
    """Truncated Laplacian noise seen from outside its support: part of it is told apart for certain."""
    m = mechanism(rb.TruncatedLaplacian(scale=1.0, limit=4.0), rb.Interval(0, INF), rb.Interval(-3, 3))
    shown = m.delta(100.0)
    assert shown > 0.05
    assert m.epsilon(delta) == INF
    assert math.isfinite(m.epsilon(shown * 1.01))


def test_limited_noise_seen_from_beyond_the_support() -> None:
    """Within reach of all of an interval it is as good as Laplace noise, wherever the answers lie."""
    for answers in (rb.Interval(-3, 4), rb.Interval(-3, 1), rb.Interval(2, 4)):
        limited = mechanism(rb.TruncatedLaplacian(scale=0.8, limit=7.0), rb.Interval(-1, 2), answers)
        plain = mechanism(rb.Laplace(scale=0.8), rb.Interval(-1, 2), answers)
        assert limited.epsilon() == pytest.approx(plain.epsilon(), rel=1e-9, abs=1e-30)
        assert limited.delta(0.5) == pytest.approx(plain.delta(0.5), rel=1e-9, abs=1e-30)


@pytest.mark.parametrize("limit", [3.5, 4.2, 6.0])
def test_limited_noise_that_reaches_only_part_of_the_support(limit: float) -> None:
    """The laws differ by where they end; the hockey stick of such a pair is no threshold between the two centres."""
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


def test_a_violation_is_one_and_none_is_a_proof() -> None:
    m = mechanism(rb.Laplace(scale=1.0))
    delta = m.delta(0.7)
    assert find_counterexample(m.setting, rb.Claim(epsilon=0.7, delta=delta * (1.0 + 1e-6))) is None
    found = find_counterexample(m.setting, rb.Claim(epsilon=0.7, delta=delta * (1.0 - 1e-3)))
    assert found is not None
    assert rb.hockey_stick(*map(m.law, found.pair), 0.7) > delta * (1.0 - 1e-3)


def test_epsilon_and_delta_are_inverse() -> None:
    for noise in (rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0)):
        m = mechanism(noise)
        for delta in (1e-9, 1e-3, 0.2):
            epsilon = m.epsilon(delta)
            assert m.delta(epsilon) <= delta * (1.0 + 1e-6)
            assert m.delta(epsilon * (1.0 - 1e-5)) > delta


def test_losses_are_pinned_but_for_laplace_on_gaps_and_grids() -> None:
    assert loss_is_pinned(mechanism(rb.Laplace(scale=1.0)).setting)
    union = rb.Union((0, 4), (6, 10))
    assert not loss_is_pinned(mechanism(rb.Laplace(scale=1.0), union).setting)
    assert loss_is_pinned(mechanism(rb.Gaussian(scale=1.0), union).setting)
    assert not loss_is_pinned(mechanism(rb.Laplace(scale=1.0), rb.Grid(step=1.0, within=rb.Interval(0, 10))).setting)


def test_a_symmetric_setting_is_looked_at_once() -> None:
    assert len(mechanism(rb.Laplace(scale=1.0)).setting.sides()) == 1
    assert len(mechanism(rb.Laplace(scale=1.0), rb.Interval(0, 11)).setting.sides()) == 2
    assert len(mechanism(rb.Laplace(scale=1.0), rb.Union((0, 2), (5, 10))).setting.sides()) == 2
    assert len(mechanism(rb.Laplace(scale=1.0), rb.Union((0, 2), (8, 10))).setting.sides()) == 1


def test_worst_epsilon_at_delta_zero_is_the_loss() -> None:
    m = mechanism(rb.Laplace(scale=1.0))
    assert worst_epsilon(m.setting, 0.0) == worst_loss(m.setting)
    assert isinstance(worst_epsilon(m.setting, 0.01), Worst)


def test_locations_a_million_scales_from_a_union_are_no_obstacle() -> None:
    """There the kept mass has no digits left at the first precision; the answer is still an epsilon that holds."""
    support, answers = rb.Union((1577, 2164), (2589, 4917)), rb.Interval(0, 9714)
    m = mechanism(rb.Gaussian(scale=0.00156), support, answers, sensitivity=26.8)
    found, exactly = m.epsilon(1e-6), oracle(m)
    pairs = [(2376.5, 2349.75), (2363.1, 2389.8), (9714.0, 9687.25), (0.0, 26.75)]
    assert all(exactly.stick(*pair, found) <= 1e-6 for each in pairs for pair in (each, each[::-1]))
    assert max(exactly.stick(*pair, 0.9 * found) for each in pairs for pair in (each, each[::-1])) > 1e-6


@pytest.mark.parametrize("bounding", [rb.QUANTIZE, rb.TRUNCATE])
@pytest.mark.parametrize(
    "noise", [rb.Gaussian(scale=5.0), rb.Laplace(scale=5.0)], ids=lambda noise: type(noise).__name__
)
def test_epsilon_of_a_grid_is_closed_and_delta_gives_it_back(noise: rb.Noise, bounding: rb.Bounding) -> None:
    """A pair of rounded laws was once weighed as if it were truncated, and epsilon ended open."""
    query = rb.Query(range=rb.Interval(-60, 60), sensitivity=1.0)
    m = rb.Mechanism(noise=noise, query=query, support=rb.Grid(step=1.0, within=query.range), bounding=bounding)
    for delta in (1e-3, 1e-8):
        assert m.delta(m.epsilon(delta) * (1.0 + 1e-9)) <= delta
        assert m.delta(m.epsilon(delta) * (1.0 - 1e-5)) > delta * (1.0 - 1e-9)


def test_the_loss_far_outside_a_union_is_told() -> None:
    """Seen from a hundred scales away the spans out of reach once hid those in reach, and the loss was infinite."""
    spans = [(1.25 * k, 1.25 * k + 0.9) for k in range(40)]
    query = rb.Query(range=rb.Interval(-50, 50), sensitivity=0.1)
    m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=query, support=rb.Union(*spans))
    width = spans[-1][1] - spans[0][0]
    assert 0.9 * 0.1 * width < m.epsilon() < 0.1 * width  # the limit far out is sensitivity times width over s^2
