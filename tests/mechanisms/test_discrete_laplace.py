"""Discrete Laplace noise: its law is the stated one, exactly where bits are few, statistically where they are many."""

import functools
import json
import math
import random
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import rangebound as rb
from rangebound.errors import ArgumentError
from rangebound.mechanisms import stair_noise
from rangebound.mechanisms import stair_noise as module
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.lattice_mechanism import draw
from rangebound.mechanisms.stair_noise import magnitude

LINE = rb.Interval(-math.inf, math.inf)


@pytest.mark.parametrize("scale", [0.05, 1.0, 7.5, 1e4])
def test_the_magnitude_has_its_tail_at_every_threshold(scale):
    """u just below and just above 2 r^k / (1 + r) gives k and k - 1."""
    with mpmath.workdps(60):
        r = mpmath.exp(-1 / mpmath.mpf(scale))
        for k in (1, 2, 5, int(3 * scale) + 1):
            edge = 2 * r**k / (1 + r)
            if edge < mpmath.mpf(2) ** -90:  # 128 bits say too little about so small a number
                continue
            for shift, expected in ((-(mpmath.mpf(2) ** -100), k), (mpmath.mpf(2) ** -100, k - 1)):
                known = int((edge + shift) * 2**128)
                assert magnitude(scale, lambda count, known=known: known if count == 128 else 0) == expected


def test_bits_that_do_not_decide_are_followed_by_more():
    asked = []

    def nothing(count):
        asked.append(count)
        return 0 if len(asked) < 3 else 1

    assert magnitude(1.0, nothing) > 100
    assert asked == [128, 64, 64]


def test_bits_on_both_sides_of_a_threshold_are_followed_by_more():
    """The two ends of what is known of u give k and k - 1: the bits that follow decide."""
    with mpmath.workdps(60):
        known = int(2 * mpmath.exp(-2) / (1 + mpmath.exp(-1)) * 2**128)
    assert magnitude(1.0, lambda count: known if count == 128 else 0) == 2
    assert magnitude(1.0, lambda count: known if count == 128 else 2**count - 1) == 1


def undecided_and_wrong(scale):
    """First bits at growing distances from thresholds: which of them doubles leave open, and which they get wrong."""
    open_, wrong = 0, 0
    with mpmath.workdps(60):
        r = mpmath.exp(-1 / mpmath.mpf(scale))
        for k in (1, 2, 3, int(scale) + 1, int(5 * scale) + 2):
            edge = int(2 * r**k / (1 + r) * 2**128)
            for power in range(20, 127, 2):
                for known in (edge - 2**power, edge + 2**power):
                    if 2**64 <= known < 2**128:
                        found = module._floor_of_doubles(scale, known)
                        open_ += found is None
                        wrong += found is not None and found != module._floor_of_balls(scale, known, lambda _: 0)
    return open_, wrong


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 1e4, 1e9])
def test_doubles_leave_open_what_they_cannot_decide(monkeypatch, scale):
    left, wrong = undecided_and_wrong(scale)
    assert left > 0
    assert wrong == 0
    monkeypatch.setattr(module, "_SAFE", 0.0)  # control: doubles that are trusted to the last bit
    assert undecided_and_wrong(scale)[1] > 0


def test_nearly_all_draws_are_decided_in_doubles(monkeypatch):
    """Ball arithmetic takes fifty times as long: a table of 100,000 numbers took 9 s."""
    monkeypatch.setattr(module, "_floor_of_balls", lambda *_: pytest.fail("ball arithmetic"))
    source = random.Random(1)
    assert len({magnitude(5.0, source.getrandbits) for _ in range(2000)}) > 20


def test_the_law_fits():
    scale, count = 2.5, 20_000
    drawn = DiscreteLaplace(scale=scale, sensitivity=1, support=LINE).release(np.zeros(count))
    values = np.arange(-12, 13)
    r = math.exp(-1 / scale)
    chances = (1 - r) / (1 + r) * r ** np.abs(values)
    inside = np.array([(drawn == each).sum() for each in values])
    observed = np.append(inside, count - inside.sum())
    expected = count * np.append(chances, 1 - chances.sum())
    assert stats.chisquare(observed, expected).pvalue > 1e-11
    wrong = count * np.append(np.roll(chances, 1), 1 - chances.sum())
    assert stats.chisquare(observed, wrong).pvalue < 1e-11  # the control


def test_the_scale_is_on_the_private_side_and_one_step_smaller_is_not():
    chance = random.Random(2)
    for _ in range(50):
        epsilon, cell = chance.uniform(1e-4, 5), chance.randrange(1, 50)
        made = DiscreteLaplace.calibrated(sensitivity=cell, epsilon=epsilon, support=rb.Interval(0, math.inf))
        assert Fraction(cell) / Fraction(made.scale) <= Fraction(epsilon)
        assert made.is_private(epsilon)
        less = DiscreteLaplace(scale=math.nextafter(made.scale, 0.0), sensitivity=cell)
        assert not less.is_private(epsilon)


def test_beyond_the_doubles_numbers_are_added_whole(monkeypatch):
    monkeypatch.setattr(stair_noise, "magnitude", lambda scale, bits: 2**53 + 1)
    wide = DiscreteLaplace(scale=1e15, sensitivity=1, support=rb.Interval(0, math.inf))
    drawn = draw(wide, np.array([[0.0, 1.0, 2.0, 3.0]]), lambda _: 0)
    assert drawn.tolist() == [[float(2**53 + 1 + truth) for truth in range(4)]]
    assert drawn[0, 1] != 1.0 + float(2**53 + 1)  # control: added as doubles, one is lost


SUPPORTS = [LINE, rb.Interval(0, math.inf), rb.Interval(0, 1), rb.Interval(-3, 7), rb.Interval(-math.inf, 4)]


ONE = 2**160  # probabilities are summed as whole numbers, in units that are far below every tolerance


@functools.cache
def noise(scale):
    """P(X = k) for k = 0, 1, ..., in units of 1 / ONE; what lies beyond the last is below 1e-34."""
    with mpmath.workprec(200):
        r = mpmath.exp(-1 / mpmath.mpf(scale))
        return [int((1 - r) / (1 + r) * r**k * ONE) for k in range(45 + int(80 * scale))]


def law(mechanism, answer):
    """The clamped law at a true answer, summed up outcome by outcome."""
    found, chances = {}, noise(mechanism.scale)
    for k in range(1 - len(chances), len(chances)):
        value = min(max(answer + k, mechanism.support.lower), mechanism.support.upper)
        found[value] = found.get(value, 0) + chances[abs(k)]
    return found


def laws_at_ends(mechanism):
    """The laws of the answers around the ends of the support, and the pairs of neighbours among them."""
    ends = [int(end) for end in (mechanism.support.lower, mechanism.support.upper) if math.isfinite(end)] or [0]
    laws = {answer: law(mechanism, answer) for end in ends for answer in range(end - 5, end + 6)}
    return laws, [(a, b) for a in laws for b in laws if 0 < abs(a - b) <= mechanism.sensitivity]


def worst_stick(mechanism, epsilon):
    """The largest hockey-stick divergence over pairs of answers around the ends of the support, both ways."""
    laws, pairs = laws_at_ends(mechanism)
    with mpmath.workprec(200):
        ratio = int(mpmath.exp(mpmath.mpf(epsilon)) * ONE)
    most = max(
        sum(max(p - (ratio * laws[b].get(value, 0) >> 160), 0) for value, p in laws[a].items()) for a, b in pairs
    )
    return mpmath.mpf(most) / ONE


@pytest.mark.few
@pytest.mark.parametrize("support", SUPPORTS, ids=str)
@pytest.mark.parametrize(("scale", "sensitivity"), [(0.4, 1), (1.0, 2), (2.5, 1), (3.7, 4)])
def test_the_privacy_profile_is_that_of_all_pairs_and_not_more(scale, sensitivity, support):
    made = DiscreteLaplace(scale=scale, sensitivity=sensitivity, support=support)
    pure = sensitivity / scale
    for epsilon in (0.0, 0.3 * pure, 0.77 * pure, 0.999 * pure):
        found, true = made.delta(epsilon), worst_stick(made, epsilon)
        assert true - mpmath.mpf(10) ** -30 <= found <= true * (1 + mpmath.mpf(10) ** -12) + mpmath.mpf(10) ** -15
        assert DiscreteLaplace(scale=scale * 1.001, sensitivity=sensitivity, support=support).delta(epsilon) < true
    assert worst_stick(made, made.epsilon()) == pytest.approx(0.0, abs=1e-15)
    assert made.delta(made.epsilon()) == 0.0
    assert worst_stick(made, pure * (1 - 1e-6)) > 1e-9  # control: a little less is not private


@pytest.mark.parametrize(("scale", "sensitivity"), [(0.4, 1), (1.0, 2), (3.7, 4), (50.0, 37), (1e6, 10**6), (3.0, 9)])
def test_epsilon_is_the_inverse_of_the_profile_on_the_safe_side(scale, sensitivity):
    made = DiscreteLaplace(scale=scale, sensitivity=sensitivity)
    assert made.epsilon() == made.epsilon(0.0) >= Fraction(sensitivity) / Fraction(scale)
    for delta in (1e-12, 1e-6, 0.01, 0.2, 0.9):
        found = made.epsilon(delta)
        assert made.delta(found) <= delta * (1 + 1e-12)
        assert found == 0.0 or made.delta(found * (1 - 1e-9)) > delta
    for k in range(1, min((sensitivity + 1) // 2, 5)):  # where the worst set of outcomes changes
        edge = (sensitivity - 2 * k) / scale
        assert made.epsilon(made.delta(edge)) == pytest.approx(edge, rel=1e-9)


@pytest.mark.parametrize("support", SUPPORTS, ids=str)
@pytest.mark.parametrize("answer", [-40, -3, 0, 1, 5, 60])
def test_probabilities_and_errors_are_those_of_the_law(support, answer):
    made = DiscreteLaplace(scale=2.2, sensitivity=1, support=support)
    exact = {value: Fraction(chance, ONE) for value, chance in law(made, answer).items()}
    for value in range(-6, 9):
        assert made.pmf(value, answer) == pytest.approx(float(exact.get(value, 0)), rel=1e-12, abs=1e-300)
    assert made.pmf(0.5, answer) == 0.0
    error = made.error(answer)
    assert made.mse == pytest.approx(made.error(answer).mse) or support != LINE
    assert error.bias == pytest.approx(float(sum(p * (v - answer) for v, p in exact.items())), rel=1e-10, abs=1e-12)
    assert error.mae == pytest.approx(float(sum(p * abs(v - answer) for v, p in exact.items())), rel=1e-10)
    assert error.mse == pytest.approx(float(sum(p * (v - answer) ** 2 for v, p in exact.items())), rel=1e-10)


@pytest.mark.few(2)
@pytest.mark.parametrize("support", SUPPORTS, ids=str)
@pytest.mark.parametrize(("scale", "sensitivity"), [(0.4, 1), (1.0, 2), (3.7, 4)])
def test_the_renyi_curve_is_that_of_all_pairs_and_not_more(scale, sensitivity, support):
    made = DiscreteLaplace(scale=scale, sensitivity=sensitivity, support=support)
    laws, pairs = laws_at_ends(made)
    for alpha in (1.5, 2.0, 9.0):
        moments = (
            math.fsum(p / ONE * (p / other) ** (alpha - 1.0) for p, other in met if p and other)
            for met in ([(p, laws[b].get(value, 0)) for value, p in laws[a].items()] for a, b in pairs)
        )
        true = math.log(max(moments)) / (alpha - 1.0)
        assert true * (1.0 - 1e-9) <= made.rdp(alpha)
        if support.width < sensitivity:
            continue  # fewer outcomes than the noise has likelihood ratios: less is leaked
        assert made.rdp(alpha) <= true * (1.0 + 1e-9)
        assert DiscreteLaplace(scale=scale * 1.001, sensitivity=sensitivity, support=support).rdp(alpha) < true
    assert made.rdp(math.inf) == made.epsilon()
    assert made.rdp([2.0, math.inf]).tolist() == [made.rdp(2.0), made.epsilon()]


@pytest.mark.parametrize("support", SUPPORTS, ids=str)
def test_the_law_and_the_worst_and_average_error_are_those_of_single_answers(support):
    made = DiscreteLaplace(scale=2.2, sensitivity=1, support=support)
    answers = [each for each in range(-6, 9) if support.lower <= each <= support.upper]
    points, chances = made.law(answers).atoms
    for row, answer in zip(chances, answers, strict=True):
        assert row.sum() == pytest.approx(1.0, abs=1e-12)
        assert row[::7].tolist() == pytest.approx([made.pmf(x, answer) for x in points[::7]], rel=1e-11, abs=1e-18)
        assert made.law(answer).mean - answer == pytest.approx(made.error(answer).bias, abs=1e-10)
    worst, many, single = made.worst_error(), made.error(answers), [made.error(each) for each in answers]
    for name in ("bias", "mae", "mse"):
        assert getattr(many, name).tolist() == [getattr(each, name) for each in single]
        values = [abs(getattr(each, name)) for each in single]
        assert max(values) <= getattr(worst, name) * (1 + 1e-12)
        if support.bounded:
            assert getattr(worst, name) == pytest.approx(max(values), rel=1e-12)
            assert getattr(made.average_error(), name) == pytest.approx(np.mean(values), rel=1e-12)
    if not support.bounded:
        with pytest.raises(ArgumentError, match="range="):
            made.average_error()


@pytest.mark.parametrize("scale", [0.7, 3.0])
def test_the_draw_has_the_probabilities_of_the_law_for_all_bits(scale):
    """Every one of 2^12 cells of u goes to one size but those that a threshold cuts, so each is right to two cells."""
    middles = [known << 116 | 1 << 115 for known in range(2**12)]  # of the cells; more bits are never asked for
    found = Counter(magnitude(scale, {128: known}.__getitem__) for known in middles)
    r = math.exp(-1 / scale)
    for size in range(6):
        true = (1 - r) / (1 + r) * r**size * (2 if size else 1)
        assert abs(found[size] / 2**12 - true) <= 2 / 2**12
        wrong = (1 - r) * r**size  # control: one-sided geometric noise with a sign, where zero comes twice
        assert size > 1 or abs(found[size] / 2**12 - wrong) > 10 / 2**12


@pytest.mark.parametrize(
    ("facts", "kind", "words"),
    [
        ({"scale": 0.0}, ArgumentError, "scale=0.0: must be positive"),
        ({"scale": math.inf}, ArgumentError, "scale=inf"),
        ({"scale": "1"}, TypeError, "scale='1'"),
        ({"scale": 1.0, "sensitivity": 0}, ArgumentError, "sensitivity=0: must be a whole number from 1"),
        ({"scale": 1.0, "sensitivity": 1.5}, TypeError, r"sensitivity=1.5: must be a whole number \(int\)"),
        ({"scale": 1.0, "sensitivity": True}, TypeError, "sensitivity=True"),
        ({"scale": 1.0, "support": rb.Interval(0.5, 9)}, ArgumentError, "must end at whole numbers"),
        ({"scale": 1.0, "support": rb.Union((0, 1), (3, 4))}, TypeError, "must be an Interval"),
        ({"scale": 1e151}, ArgumentError, r"scale=1e\+151: must be at most 1e\+150"),
        ({}, TypeError, "scale"),
    ],
    ids=str,
)
def test_what_is_not_such_a_mechanism_is_refused(facts, kind, words):
    with pytest.raises(kind, match=words):
        rb.DiscreteLaplace(**facts)


def test_answers_that_are_not_whole_are_refused_and_others_keep_their_shape_and_stay_in_the_support():
    made = rb.DiscreteLaplace(scale=50.0, support=rb.Interval(0, 20))
    for call in (made.release, made.error):
        with pytest.raises(ArgumentError, match=r"^answer: must be a whole number"):
            call([1.0, 0.5])
    with pytest.raises(ArgumentError, match="level"):
        made.confidence_interval(3.0, 1.0)
    assert isinstance(made.release(3), float)
    drawn = made.release(np.array([[0.0, 20.0], [10.0, 3.0]]))
    assert drawn.shape == (2, 2)
    assert ((drawn >= 0) & (drawn <= 20)).all()


def test_confidence_intervals_cover_every_answer_of_the_support_by_the_exact_law():
    made = rb.DiscreteLaplace(scale=2.0, support=rb.Interval(0, 9))
    for level in (0.5, 0.9, 0.99):
        for answer in range(10):
            lower, upper = made.confidence_interval(np.arange(10.0), level)
            inside = np.flatnonzero((lower <= answer) & (answer <= upper))
            assert sum(made.pmf(value, answer) for value in inside) >= level
    narrow = [value for value in range(10) if abs(value - 5) <= made.reach(0.9) - 2]
    assert sum(made.pmf(value, 5) for value in narrow) < 0.9  # control


def test_plain_data_come_back_and_wrong_data_do_not():
    for support in SUPPORTS:
        made = rb.DiscreteLaplace(scale=0.1 + 0.2, sensitivity=7, support=support)
        assert rb.DiscreteLaplace.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    facts = rb.DiscreteLaplace(scale=1.0).to_dict()  # the form that published certificates have
    assert facts == {"geometric": {"scale": 1.0, "sensitivity": 1, "support": ["-inf", "inf"]}}
    for wrong in ({}, {**facts, "x": 1}, {"geometric": {**facts["geometric"], "x": 1}}, {"geometric": {"scale": 1.0}}):
        with pytest.raises(ArgumentError, match="must be what DiscreteLaplace"):
            rb.DiscreteLaplace.from_dict(wrong)


def test_the_reach_is_enough_where_doubles_round_it_too_low():
    """In doubles it is too small for some of these scales: the control counts them."""
    chance, low = random.Random(1), 0
    for _ in range(300):
        scale, level = 10 ** chance.uniform(13.0, 15.5), chance.choice([0.5, 0.9, 0.95, 0.99])
        with mpmath.workdps(50):
            r = mpmath.exp(-1 / mpmath.mpf(scale))
            beyond = 2 * r ** (int(DiscreteLaplace(scale=scale).reach(level)) + 1) / (1 + r)
            assert beyond <= 1 - mpmath.mpf(level)
            plain = math.ceil(-scale * math.log((1.0 - level) * (1.0 + math.exp(-1.0 / scale)) / 2.0) - 1.0 + 1e-9)
            low += 2 * r ** (plain + 1) / (1 + r) > 1 - mpmath.mpf(level)
    assert low > 0  # control


@pytest.mark.parametrize("scale", [5e-324, 1e-4, 1e-3, 1e150])
def test_no_scale_ends_in_an_error_of_python(scale):
    made = rb.DiscreteLaplace(scale=scale)
    assert 0.0 <= made.mse < math.inf
    assert made.reach(0.95) < math.inf
    assert math.isfinite(made.release(0))
    lower, upper = made.confidence_interval(3.0)
    assert lower <= 3.0 <= upper


@pytest.mark.parametrize("support", [(0, 2), (0, 50), (-math.inf, 7), (-math.inf, math.inf)])
def test_the_worst_pair_attains_the_profile_also_where_the_support_is_narrower(support):
    m = rb.DiscreteLaplace(scale=5.0, sensitivity=5, support=rb.Interval(*support))
    low, high = m.worst_pair()
    assert high - low == 5.0
    p, q = m.law([low, high]).atoms[1]
    assert np.maximum(p - math.exp(0.5) * q, 0.0).sum() == pytest.approx(m.delta(0.5), rel=1e-9)
    with pytest.raises(rb.ClaimFalse) as error:
        rb.certify(m, epsilon=0.9)
    assert error.value.pair == (low, high)


def _least_miss(p, q, rate):
    """The least miss rate of a test at a false positive rate, by Neyman and Pearson's own order of outcomes."""
    order = np.argsort(-p / q)
    return 1.0 - np.interp(rate, [0.0, *np.cumsum(q[order])], [0.0, *np.cumsum(p[order])])


def _pairs(m):
    answers = range(-8, 10)
    points = range(int(m.support.lower), int(m.support.upper) + 1)
    whole = {answer: law(m, answer) for answer in answers}
    laws = {answer: np.asarray([whole[answer][value] / ONE for value in points]) for answer in answers}
    return [(laws[a], laws[b]) for a in answers for b in answers if abs(a - b) <= m.sensitivity]


NARROW = [(2, 1), (5, 1), (5, 3)]


@pytest.mark.parametrize(("sensitivity", "width"), NARROW)
def test_in_a_narrow_support_the_exact_curve_is_enclosed(sensitivity, width):
    m = DiscreteLaplace(scale=1.5, sensitivity=sensitivity, support=rb.Interval(0, width))
    laws = _pairs(m)
    exact = {rate: min(_least_miss(p, q, rate) for p, q in laws) for rate in (0.01, 0.2, 0.3)}
    for rate, least in exact.items():
        found = m.enclosed.tradeoff(rate)
        assert found.lower - 1e-12 <= least <= found.upper + 1e-12
    most = max(np.abs(p - q).sum() / 2 for p, q in laws)
    assert m.enclosed.advantage().lower - 1e-12 <= most <= m.enclosed.advantage().upper + 1e-12
    assert m.enclosed.advantage().width < 1e-12  # at one epsilon some pair attains all of it


def test_in_a_narrow_support_no_pair_attains_the_whole_profile():
    """The control: the curve of a wide support is below that of every pair of a narrow one."""
    narrow, wide = (DiscreteLaplace(scale=1.5, sensitivity=2, support=rb.Interval(0, upper)) for upper in (1, 2))
    least = min(_least_miss(p, q, 0.2) for p, q in _pairs(narrow))
    assert wide.enclosed.tradeoff(0.2).upper < least - 0.01
    assert wide.enclosed.tradeoff(0.2).upper == pytest.approx(min(_least_miss(p, q, 0.2) for p, q in _pairs(wide)))


def test_in_a_narrow_support_two_uses_attain_no_more_than_two_pairs_do():
    m = DiscreteLaplace(scale=1.5, sensitivity=2, support=rb.Interval(0, 1))
    pairs = _pairs(m)
    twice = [(np.outer(p, r).ravel(), np.outer(q, s).ravel()) for p, q in pairs for r, s in pairs]
    found = rb.compose((m, 2)).enclosed
    least = min(_least_miss(p, q, 0.2) for p, q in twice)
    assert found.tradeoff(0.2, tolerance=1e-6).upper >= least - 1e-9
    most = max(np.abs(p - q).sum() / 2 for p, q in twice)
    assert 0.9 * most < found.advantage().lower <= most + 1e-9 <= found.advantage().upper + 2e-9
    wide = rb.compose((DiscreteLaplace(scale=1.5, sensitivity=2), 2)).enclosed  # the control
    assert wide.tradeoff(0.2, tolerance=1e-6).upper < least - 0.001


@pytest.mark.parametrize("scale", [1e-305, 1e-302, 1e-78, 1e-3])
def test_noise_that_is_zero_in_doubles_has_no_error(scale):
    m = DiscreteLaplace(scale=scale, support=rb.Interval(0, 10))
    assert m.error(3) == m.worst_error() == m.average_error()
    assert (m.error(3).mae, m.error(3).mse) == (0.0, 0.0)
    assert m.law(3).mass(3, 3) == 1.0


@pytest.mark.parametrize("upper", [1, 2, 9, math.inf])
def test_the_information_is_that_of_the_next_whole_number_however_narrow_the_support(upper):
    """Answers may lie outside of a support that is narrower than the sensitivity, which its query's is cut to."""
    m = DiscreteLaplace(scale=2.0, sensitivity=3, support=rb.Interval(0, upper))
    masses = np.tanh(0.25) * np.exp(-np.abs(np.arange(-150, 151)) / 2.0)
    chi2 = float(((masses[1:] - masses[:-1]) ** 2 / masses[1:]).sum())
    assert m.fisher(0) == pytest.approx(chi2, rel=1e-9)
