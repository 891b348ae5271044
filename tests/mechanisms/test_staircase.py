"""Staircase noise: its draws follow its law, and every privacy and error number is that of brute force."""

import functools
import json
import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import rangebound as rb
from rangebound.errors import ArgumentError, RangeboundError
from rangebound.mechanisms.lattice_mechanism import draw
from rangebound.mechanisms.stair_noise import StairNoise, StairSums, best_plateau
from rangebound.mechanisms.staircase import Staircase

INF = math.inf
UNIT = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)


def level(x, k, r):
    return (abs(x) + k - r) // k


@functools.cache
def weights(k, r, epsilon, far):
    """P(X = x) for |x| <= far, in mpmath, normalised by the closed form of an independent sum."""
    with mpmath.workdps(40):
        exact = Fraction(epsilon)
        rho = mpmath.exp(-mpmath.mpf(exact.numerator) / exact.denominator)
        whole = (2 * r - 1) + 2 * k * rho / (1 - rho)
        return {x: rho ** level(x, k, r) / whole for x in range(-far, far + 1)}


SHAPES = [(1, 1, 0.5), (1, 1, 3.0), (2, 1, 1.0), (3, 3, 0.7), (8, 8, 1.5), (5, 1, 2.0), (7, 4, 0.3), (4, 2, 1.0)]
shapes = pytest.mark.parametrize(("k", "r", "epsilon"), SHAPES)


def made(k, r, epsilon, support=None, query=UNIT):
    return Staircase(scale=1.0 / epsilon, query=query, step=1.0 / k, plateau=r, support=support)


def clamped(k, r, epsilon, index, last):
    """The law on the lattice points 0, ..., last at one of them, by brute force."""
    law = [mpmath.mpf(0)] * (last + 1)
    far = int(80 * k / float(epsilon)) + 4 * k + last
    with mpmath.workdps(40):
        for x, mass in weights(k, r, epsilon, far).items():
            law[min(max(index + x, 0), last)] += mass
    return law


def sticks(k, r, epsilon, level_):
    """The largest hockey stick over all pairs of lattice points within k of each other, both ways."""
    last = 3 * k + 1
    laws = [clamped(k, r, epsilon, i, last) for i in range(last + 1)]
    with mpmath.workdps(40):
        x = mpmath.exp(mpmath.mpf(level_))
        return max(
            sum(max(p - x * q, 0) for p, q in zip(laws[i], laws[j], strict=True))
            for i in range(last + 1)
            for j in range(max(i - k, 0), min(i + k, last) + 1)
        )


@pytest.mark.few(4)
@shapes
def test_the_profile_is_the_largest_of_all_clamped_pairs(k, r, epsilon):
    width = (3 * k + 1) / k
    mechanism = made(k, r, epsilon, query=rb.Query(range=rb.Interval(0, width), sensitivity=1.0))
    exact = float(mechanism.exact_epsilon)
    for share in (0.0, 0.3, 0.9):
        true = sticks(k, r, mechanism.exact_epsilon, share * exact)
        found = mechanism.delta(share * exact)
        with mpmath.workdps(40):
            assert true * (1 - mpmath.mpf(10) ** -25) <= found <= true * (1 + mpmath.mpf(10) ** -12)
    assert mechanism.delta(exact * (1 + 1e-12)) == 0.0
    for delta in (1e-3, 0.05):
        back = mechanism.epsilon(delta)
        assert mechanism.delta(back) <= delta * (1 + 1e-9)
        assert back == 0.0 or mechanism.delta(back * (1 - 1e-9)) >= delta * (1 - 1e-6)


@pytest.mark.few(4)
@shapes
def test_the_renyi_curve_is_the_largest_of_all_clamped_pairs(k, r, epsilon):
    width, last = (3 * k + 1) / k, 3 * k + 1
    mechanism = made(k, r, epsilon, query=rb.Query(range=rb.Interval(0, width), sensitivity=1.0))
    laws = [clamped(k, r, mechanism.exact_epsilon, i, last) for i in range(last + 1)]
    for alpha in (1.5, 2.0, 20.0):
        with mpmath.workdps(40):
            true = max(
                mpmath.log(sum(p**alpha * q ** (1 - alpha) for p, q in zip(laws[i], laws[j], strict=True)))
                / (alpha - 1)
                for i in range(last + 1)
                for j in range(max(i - k, 0), min(i + k, last) + 1)
            )
            assert true * (1 - mpmath.mpf(10) ** -20) <= mechanism.rdp(alpha) <= true * (1 + mpmath.mpf(10) ** -12)
    assert mechanism.rdp(INF) == mechanism.epsilon()
    assert mechanism.rdp([2.0, 3.0]).tolist() == [mechanism.rdp(2.0), mechanism.rdp(3.0)]


def test_a_smaller_epsilon_or_a_longer_reach_is_not_private():
    """The control: the profile at 0.99 of epsilon is positive, and answers k + 1 steps apart leak more."""
    mechanism = made(4, 2, 1.0)
    assert mechanism.is_private(1.0)
    assert not mechanism.is_private(0.99)
    assert mechanism.delta(0.99) > 0.0
    last, rho = 13, math.exp(-1.0)
    one, other = clamped(4, 2, 1.0, 0, last), clamped(4, 2, 1.0, 5, last)
    assert max(p / q for p, q in zip(one, other, strict=True)) > 1.001 / rho


def test_neighbouring_answers_are_at_most_k_steps_apart():
    """Theorem 5: rounding costs nothing, since ties always go up; the control rounds half to even."""
    chance = random.Random(5)
    for sensitivity, step in ((1.0, 0.25), (0.05, 0.01), (1.0, 0.3), (0.7, 0.1), (3.0, 1.0)):
        query = rb.Query(range=rb.Interval(0, 10), sensitivity=sensitivity)
        mechanism = Staircase(scale=1.0, query=query, step=step, plateau=1)
        assert mechanism.steps == math.ceil(round(sensitivity / step, 9))
        for _ in range(300):
            cell = Fraction(chance.randrange(100)) / 2 * mechanism.width
            low = float(cell) if chance.random() < 0.5 else chance.uniform(0.0, 9.0)
            high = np.nextafter(low + sensitivity, 0.0)
            if Fraction(float(high)) - Fraction(low) <= Fraction(sensitivity):
                assert 0 <= mechanism._index(float(high)) - mechanism._index(low) <= mechanism.steps
    assert made(1, 1, 1.0)._index(0.5) == 1
    assert made(1, 1, 1.0)._index(1.5) == 2
    assert round(1.5) - round(0.5) == 2  # the control: answers one step apart, two steps apart


def likely(drawn, values, chances):
    """The p-value of draws, those of values that are hardly ever drawn put together."""
    seen = np.asarray([(drawn == each).sum() for each in values])
    often = len(drawn) * chances > 5
    seen = np.append(seen[often], len(drawn) - seen[often].sum())
    hoped = len(drawn) * np.append(chances[often], 1 - chances[often].sum())
    if hoped[-1] < 1e-9:
        seen, hoped = seen[:-1], hoped[:-1]
    return stats.chisquare(seen, hoped * seen.sum() / hoped.sum()).pvalue


@shapes
def test_draws_follow_the_law(k, r, epsilon):
    source, values = random.Random(7 * k + r), np.arange(-3.0 * k, 3 * k + 1)
    stairs = StairNoise(steps=k, plateau=r, levels=1, rate=Fraction(epsilon))
    drawn = np.asarray([stairs.draw(source.getrandbits) for _ in range(4000)])
    assert likely(drawn, values, StairSums(k, r, epsilon).mass(values)) > 1e-6
    if (k, r) == (4, 2):  # the control: another plateau
        assert likely(drawn, values, StairSums(4, 3, epsilon).mass(values)) < 1e-6


def test_the_released_numbers_follow_the_law_of_the_answer():
    mechanism = made(4, 2, 1.0, query=rb.Query(range=rb.Interval(0, 2), sensitivity=1.0))
    drawn = draw(mechanism, np.full(4000, 0.4), random.Random(11).getrandbits)
    assert set(drawn) <= set(mechanism.law(0.4).atoms[0])
    assert likely(drawn, *mechanism.law(0.4).atoms) > 1e-6
    assert likely(drawn, *mechanism.law(0.8).atoms) < 1e-6  # the control
    assert len({*mechanism.release(np.full(200, 0.4))}) > 4


def test_one_step_to_a_sensitivity_is_discrete_laplace_noise():
    for support in (rb.Interval(0, 10), rb.Interval(0, INF), rb.Interval(-INF, INF), rb.Interval(-INF, 4)):
        query = rb.Query(range=support, sensitivity=1.0)
        stairs = Staircase(scale=1.3, query=query, step=1.0, plateau=1)
        other = rb.DiscreteLaplace(scale=1.3, sensitivity=1, support=support)
        for answer in (0, 3, 4):
            for value in range(-2, 11):
                assert stairs.pmf(value, answer) == pytest.approx(other.pmf(value, answer), rel=1e-12, abs=1e-300)
            for name in ("bias", "mae", "mse"):
                assert getattr(stairs.error(answer), name) == pytest.approx(
                    getattr(other.error(answer), name), rel=1e-12, abs=1e-14
                )
        assert stairs.epsilon() == other.epsilon()
        for epsilon in (0.0, 0.2, 0.7):
            assert stairs.delta(epsilon) == pytest.approx(other.delta(epsilon), rel=1e-14)
        assert stairs.epsilon(0.01) == pytest.approx(other.epsilon(0.01), rel=1e-14)
        assert stairs.rdp([1.5, 2.0, 30.0]) == pytest.approx(other.rdp([1.5, 2.0, 30.0]), rel=1e-13)
        assert stairs.fisher(3.0) == pytest.approx(other.fisher(3.0), rel=1e-13)


RANGES = [(10.0, None), (2.3, None), (1.0, None), (3.0, rb.Interval(-1, 5)), (4.0, rb.Interval(0, INF))]


@pytest.mark.few(20)
@pytest.mark.parametrize(("width", "support"), RANGES)
@shapes
def test_errors_are_sums_over_the_law(k, r, epsilon, width, support):
    mechanism = made(k, r, epsilon, support, rb.Query(range=rb.Interval(0, width), sensitivity=1.0))
    places = [0.0, 0.1, 0.37 * width, width / 2, 0.99 * width, width]
    found = mechanism.error(places)
    for i, answer in enumerate(places):
        points, chances = mechanism.law(answer).atoms
        assert chances.sum() == pytest.approx(1.0, abs=1e-13)
        assert [mechanism.pmf(x, answer) for x in points[:5]] == pytest.approx(chances[:5].tolist())
        off = points - answer
        assert found.bias[i] == pytest.approx((chances * off).sum(), abs=1e-11)
        assert found.mae[i] == pytest.approx((chances * np.abs(off)).sum(), rel=1e-11)
        assert found.mse[i] == pytest.approx((chances * off**2).sum(), rel=1e-11)


@shapes
def test_the_worst_and_the_average_error_are_those_of_a_fine_scan(k, r, epsilon):
    mechanism = made(k, r, epsilon, query=rb.Query(range=rb.Interval(0, 2.7), sensitivity=1.0))
    scan = mechanism.error(np.linspace(0.0, 2.7, 9001))
    worst, average = mechanism.worst_error(), mechanism.average_error()
    for name in ("bias", "mae", "mse"):
        values = np.abs(getattr(scan, name))
        assert values.max() <= getattr(worst, name) * (1 + 1e-12)
        assert getattr(worst, name) <= values.max() * 1.002
        assert getattr(average, name) == pytest.approx(values.mean(), rel=2e-3)


def test_wide_ranges_are_looked_at_in_part():
    wide = rb.Query(range=rb.Interval(0, 1e9), sensitivity=1.0)
    mechanism = Staircase.calibrated(query=wide, epsilon=1.0)
    line = Staircase.calibrated(query=rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0), epsilon=1.0)
    assert mechanism.worst_error().mae == pytest.approx(line.worst_error().mae, rel=1e-12)
    assert mechanism.average_error().mae == pytest.approx(line.worst_error().mae, rel=1e-2)


@pytest.mark.parametrize("rate", [1e-9, 1e-4, 0.0099, 0.0101, 0.3, 3.0])
def test_sums_of_tails_are_exact_at_every_rate(rate):
    sums = StairSums(5, 2, rate)
    rooms = np.asarray([0.0, 1.0, 4.0, 5.0, 23.0, 997.0])
    tails = sums.tail(np.arange(1.0, 998.0))
    place = np.arange(1.0, 998.0)
    for room, first, second in zip(rooms, sums.first(rooms), sums.second(rooms), strict=True):
        assert first == pytest.approx(tails[: int(room)].sum(), rel=1e-10)
        assert second == pytest.approx(((2 * place - 1) * tails)[: int(room)].sum(), rel=1e-10)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(("k", "epsilon"), [(1, 1.0), (8, 0.2), (16, 2.0), (50, 4.0)])
def test_the_plateau_has_the_smallest_error_of_all(k, epsilon, squared):
    place = np.arange(0.0, 400.0 * k / epsilon)
    errors = []
    for r in range(1, k + 1):
        mass = StairSums(k, r, epsilon).mass(place)
        errors.append(float((mass * (place**2 if squared else place)).sum()))
    best = best_plateau(k, epsilon, squared)
    assert errors[best - 1] == pytest.approx(min(errors), rel=1e-12)


def test_errors_reach_the_published_table():
    """Clamped staircase noise on [0, 10]; the table has them at lattice points of D/16, D/32 at epsilon 4."""
    table = {0.1: 3.933, 0.2: 3.155, 0.5: 1.817, 1.0: 0.953, 2.0: 0.4245, 4.0: 0.1373}
    for epsilon, worst in table.items():
        assert Staircase.calibrated(query=UNIT, epsilon=epsilon).worst_error().mae <= worst * 1.006


def test_shares_are_published_on_their_grid():
    grid = rb.Grid(step=0.01, within=rb.Interval(0, 1))
    query = rb.Query(range=rb.Interval(0, 1), sensitivity=0.05)
    mechanism = Staircase.calibrated(query=query, epsilon=2.0, support=grid)
    assert mechanism.steps == 5
    assert set(mechanism.release(np.linspace(0, 1, 50))) <= set(grid.points.tolist())
    with pytest.raises(ArgumentError, match="step"):
        Staircase(scale=1.0, query=query, step=0.02, plateau=1, support=grid)


def test_intervals_cover():
    source, count = random.Random(13), 2000
    mechanism = made(4, 2, 1.0)
    for answer in (0.0, 0.3, 5.1, 9.9):
        drawn = draw(mechanism, np.full(count, answer), source.getrandbits)
        lower, upper = mechanism.confidence_interval(drawn, 0.9)
        covered = ((lower <= answer) & (answer <= upper)).sum()
        assert stats.binom.cdf(covered, count, 0.9) > 1e-9
    assert mechanism.confidence_interval(5.0, 0.9)[1] < 9.0


GRIDS = [  # the range of true answers, the sensitivity, the support
    (rb.Grid(step=1.0, within=rb.Interval(0, 60)), 1.0, None),
    (rb.Grid(step=0.1, within=rb.Interval(-2, 4)), 0.3, None),
    (rb.Grid(step=2.0, within=rb.Interval(0, 60)), 2.0, rb.Grid(step=1.0, within=rb.Interval(0, 60))),
    (rb.Grid(step=1.0, within=rb.Interval(0.25, 60.25)), 1.0, rb.Interval(0, 61)),
]


@pytest.mark.parametrize(("points", "sensitivity", "support"), GRIDS)
def test_intervals_of_answers_on_a_grid_cover_and_are_no_wider_than_that_takes(points, sensitivity, support):
    query = rb.Query(range=points, sensitivity=sensitivity)
    step = support.step if isinstance(support, rb.Grid) else points.step
    mechanism = Staircase.calibrated(query=query, epsilon=1.0, support=support, step=step)
    (numbers, chances), true = mechanism.law(points.points).atoms, points.points[:, None]
    middle = len(true) // 2
    for level in (0.6, 0.9, 0.99):
        lower, upper = mechanism.confidence_interval(numbers, level)
        assert ((chances * ((lower <= true) & (true <= upper))).sum(axis=-1) >= level - 1e-12).all()
        assert np.isin((lower, upper), true).all()
        narrow = (lower + 1.01 * step <= true) & (true <= upper - 1.01 * step)  # control: a step less does not cover
        assert (chances * narrow).sum(axis=-1)[middle] < level


def test_intervals_far_from_the_anchor_of_a_lattice_whose_step_nearly_divides_the_sensitivity():
    line = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    mechanism = Staircase(scale=1.0, query=line, step=0.1 * (1 + 9e-10), plateau=1)
    answer = 1e10 + 0.03
    lower, upper = mechanism.confidence_interval(mechanism.release(np.full(200, answer)), 0.9)
    assert ((lower <= answer) & (answer <= upper)).sum() > 140


def test_plain_data_comes_back():
    for mechanism in (
        Staircase.calibrated(query=UNIT, epsilon=1.0),
        made(4, 2, 1.0, rb.Interval(-INF, INF)),
        made(4, 2, 1.0).with_claim(rb.Claim(epsilon=1.0)),
    ):
        back = Staircase.from_dict(json.loads(json.dumps(mechanism.to_dict())))
        assert back == mechanism
        assert back.claim == mechanism.claim
        assert hash(back) == hash(mechanism)
    for wrong in ({}, {"staircase": {}}, {**made(4, 2, 1.0).to_dict(), "more": 1}):
        with pytest.raises(RangeboundError):
            Staircase.from_dict(wrong)


def test_calibration_is_on_the_private_side():
    chance = random.Random(2)
    for _ in range(50):
        epsilon, sensitivity = chance.uniform(1e-4, 5), chance.uniform(1e-3, 10)
        mechanism = Staircase.calibrated(
            query=rb.Query(range=rb.Interval(0, 10), sensitivity=sensitivity), epsilon=epsilon
        )
        assert Fraction(sensitivity) / Fraction(mechanism.scale) <= Fraction(epsilon)
        assert mechanism.claim == rb.Claim(epsilon=epsilon)
    assert Staircase.calibrated(query=UNIT, epsilon=1.0, objective="mse").worst_error().mse <= (
        Staircase.calibrated(query=UNIT, epsilon=1.0).worst_error().mse * (1 + 1e-9)
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"plateau": 0},
        {"plateau": 5},
        {"plateau": True},
        {"plateau": 1.0},
        {"step": 0.0},
        {"step": 1e-9},
        {"scale": 0.0},
        {"scale": 1e200},
        {"support": rb.Interval(0, 5)},
        {"support": rb.Union((0, 1), (2, 10))},
        {"query": 3},
    ],
)
def test_what_makes_no_sense_is_refused(arguments):
    with pytest.raises(RangeboundError, match=next(iter(arguments))):
        Staircase(**{"scale": 1.0, "query": UNIT, "step": 0.25, "plateau": 2, **arguments})


WORST_PAIRS = {
    "whole steps": (rb.Interval(0, 10), 1.0, 0.25),
    "steps that do not divide": (rb.Interval(0, 10), 1.0, 0.45),
    "from above": (rb.Interval(-INF, 3), 1.0, 0.3),
    "the line": (rb.Interval(-INF, INF), 1.0, 0.7),
    "a grid": (rb.Grid(step=1, within=rb.Interval(0, 9)), 3.0, 1.0),
    "a grid with room to spare": (rb.Grid(step=2, within=rb.Interval(0, 9)), 3.0, 2.0),
    "spans": (rb.Union((0, 2), (7, 9)), 1.0, 0.25),
}


@pytest.mark.parametrize("name", WORST_PAIRS)
def test_the_worst_pair_is_of_neighbouring_answers_and_attains_the_profile(name):
    answers, sensitivity, step = WORST_PAIRS[name]
    m = Staircase.calibrated(query=rb.Query(range=answers, sensitivity=sensitivity), epsilon=1.0, step=step)
    pair = m.worst_pair()
    assert Fraction(pair[1]) - Fraction(pair[0]) <= Fraction(sensitivity)
    assert m.query.clip(pair).tolist() == list(pair)
    p, q = m.law(pair).atoms[1]
    assert np.maximum(p - math.exp(0.3) * q, 0.0).sum() == pytest.approx(m.delta(0.3), rel=1e-9)
    with pytest.raises(rb.ClaimFalse, match="not true of this mechanism") as error:
        rb.certify(m, epsilon=0.9)
    assert error.value.pair == pair


def test_the_first_answers_of_a_range_are_not_the_worst_pair_where_steps_do_not_divide():
    """The control: 0 and 1 are two steps apart on a lattice of 0.45, and the worst pairs three."""
    m = Staircase.calibrated(query=UNIT, epsilon=1.0, step=0.45)
    p, q = m.law([0.0, 1.0]).atoms[1]
    assert np.maximum(p - math.exp(0.3) * q, 0.0).sum() < 0.95 * m.delta(0.3)


def test_a_range_without_a_worst_pair_refutes_nothing():
    """No two answers are a sensitivity apart, so that a claim below epsilon may be true: it was refuted before."""
    query = rb.Query(range=rb.Union((0, 0.3), (5, 5.2)), sensitivity=1.0)
    m = Staircase.calibrated(query=query, epsilon=1.0, step=0.25)
    assert m.worst_pair() is None
    with pytest.raises(rb.Undecided, match="a smaller one may hold"):
        rb.certify(m, epsilon=0.9)
    assert rb.verify(rb.certify(m).to_json()).epsilon == 1.0
    assert rb.compose((m, 3)).epsilon(1e-6).lower == 0.0
    with pytest.raises(ArgumentError, match="give one"):
        rb.audit.attack(m, draws=1000)


def test_a_scale_far_beyond_the_range_still_has_an_interval():
    """Steps beyond 2^53 are counted in whole numbers: in doubles the search for the reach did not end."""
    assert made(4, 1, 1e-60).confidence_interval(1.0) == (0.0, 10.0)
