"""Truncated noise on unions of many spans: every search closes, two routes agree, and the pair has what it says."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.laws.boundings import Shape
from rangebound.privacy.branch_and_bound import enclose
from rangebound.privacy.counterexample import breaks, tasks
from rangebound.privacy.objectives import Loss
from rangebound.privacy.pairs.divergences import family
from rangebound.privacy.pairs.truncated_laplace import TruncatedLaplace
from rangebound.privacy.setting import neighbours
from rangebound.privacy.worst import worst_delta, worst_epsilon, worst_loss, worst_renyi
from rangebound.values.ball import ball, precision, taylor, value_of
from tests.crosscheck.oracle import oracle
from tests.matrix.brute import loss, scan

INF = math.inf


def union(count, seed=1, ends="", size=1.0):
    """Spans and gaps of 0.2 to 1 times the size, with infinite ends where `ends` says so."""
    places = (size * np.cumsum(np.random.default_rng(seed).uniform(0.2, 1.0, 2 * count))).tolist()
    if "<" in ends:
        places[0] = -INF
    if ">" in ends:
        places[-1] = INF
    return rb.Union(*zip(places[::2], places[1::2], strict=True))


def ranges(support):
    low, high = support.hull.lower, support.hull.upper
    inner = [(max(a, b - 1.0), b if math.isinf(a) else 0.5 * (a + b)) for a, b in support.spans[:-1]]
    return {
        "equal": support,
        "part": rb.Union(*inner),
        "hull": rb.Interval(low, high),
        "wide": rb.Interval(low - 3.0, high + 3.0),
    }


def made(support, answers, scale=2.0, sensitivity=1.0):
    query = rb.Query(range=answers, sensitivity=sensitivity)
    return rb.Mechanism(noise=rb.Laplace(scale=scale), query=query, support=support)


# The search ended open on these: the loss up to 33 % too high on 40 spans, and delta and Renyi up to 7 %.
@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["equal", "part", "hull", "wide"])
def test_every_search_on_forty_spans_closes(name):
    support = union(40)
    m = made(support, ranges(support)[name])
    for worst in (worst_loss(m.setting), worst_delta(m.setting, 0.3), worst_renyi(m.setting, 4.0)):
        assert worst.closed
    assert worst_epsilon(m.setting, 1e-3).closed


CASES = [(2, "", 1.0), (3, "<", 0.3), (5, ">", 2.5), (7, "<>", 1.0), (12, "", 4.0), (30, "", 0.1), (66, ">", 1.0)]


@pytest.mark.few(5)
@pytest.mark.parametrize(("count", "ends", "sensitivity"), CASES)
@pytest.mark.parametrize("scale", [0.2, 1.5, 40.0])
def test_the_linear_route_and_the_search_enclose_the_same_number(count, ends, sensitivity, scale):
    support = union(count, seed=count, ends=ends)
    m = made(support, support, scale, sensitivity)
    linear = worst_loss(m.setting)
    with precision(128):
        search = enclose(tasks(m.setting, Loss))
    assert linear.closed
    assert search.closed
    assert max(linear.lower, search.lower) <= min(linear.upper, search.upper)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["equal", "part", "hull", "wide"])
@pytest.mark.parametrize(("count", "ends", "sensitivity"), CASES)
def test_the_pair_of_a_union_attains_what_is_said(count, ends, sensitivity, name):
    """From 64 spans on the pair used to be arbitrary: here it is one of neighbours with the loss, in 80 digits."""
    support = union(count, seed=count + 1, ends=ends)
    m = made(support, ranges(support)[name], sensitivity=sensitivity)
    worst = worst_loss(m.setting)
    a, b = worst.pair
    assert float(m.query.clip(a)) == a
    assert float(m.query.clip(b)) == b
    assert abs(a - b) <= sensitivity
    true = oracle(m).renyi(a, b, INF)
    assert worst.upper * (1.0 - 1e-6) <= true <= worst.upper
    if name != "wide" and math.isfinite(support.hull.lower) and math.isfinite(support.hull.upper) and count < 20:
        best = scan(m, loss(m))[0]
        assert worst.upper == pytest.approx(best, rel=2e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [40, 66, 150])
def test_a_false_claim_on_a_long_union_is_refuted_and_the_truth_is_proved(count):
    support = union(count, seed=7)
    m = made(support, support)
    exact = m.epsilon()
    with pytest.raises(rb.ClaimFalse) as caught:
        rb.certify(m, epsilon=exact * (1.0 - 1e-6))
    assert oracle(m).renyi(*caught.value.pair, INF) > exact * (1.0 - 1e-6)
    assert rb.verify(rb.certify(m, epsilon=exact).to_json()).epsilon == exact


@precision(128)
@pytest.mark.parametrize("ends", ["", "<", ">", "<>"])
def test_masses_in_one_step_are_those_summed_one_by_one(ends):
    support = union(9, seed=3, ends=ends)
    m = made(support, support, scale=0.7)
    quick, slow = (TruncatedLaplace(m.noise, m.shape) for _ in range(2))
    slow._sides = None  # what there was before: all spans, one by one
    for p in np.random.default_rng(4).uniform(0.5, 8.0, 20).tolist():
        for d in (1e-3, 0.4, 3.0):
            one, other = quick.parts(ball(p), ball(d)), slow.parts(ball(p), ball(d))
            for name in ("left", "right", "inside", "lift"):
                assert abs(getattr(one, name) - getattr(other, name)) < 1e-30
            assert abs(quick.loss(ball(p), ball(d)) - slow.loss(ball(p), ball(d))) < 1e-30
            assert abs(quick.renyi(ball(p), ball(d), ball(3.0)) - slow.renyi(ball(p), ball(d), ball(3.0))) < 1e-30
        assert abs(quick.least_normaliser(p, p + 0.1) - slow.least_normaliser(p, p + 0.1)) < 1e-30


def test_the_bound_by_shape_is_above_every_position_of_its_cell():
    """The four cases of the theorem, each met, each at random positions; cells across a kink get no bound."""
    support = union(6, seed=11)
    seen = set()
    for sensitivity in (0.35, 1.0, 2.2):
        m = made(support, ranges(support)["hull"], scale=0.6, sensitivity=sensitivity)
        ((side, line), *_) = m.setting.pairs()
        objective = Loss(side.noise, side.shape)
        cuts = sorted({x for x in objective.kinks(line) if line.start < x < line.end} | {line.start, line.end})
        assert objective._by_shape(cuts[0], cuts[-1], line.d) == INF
        for low, high in itertools.pairwise(cuts):
            top = objective._by_shape(low, high, line.d)
            stretches = [objective.family.stretch(ball(low) + at, ball(high) + at) for at in (ball(0.0), line.d)]
            seen.add(tuple(stretches))
            for p in np.linspace(low, high, 9).tolist():
                assert not objective.value(ball(p), line.d) > top * (1.0 + 1e-30)
    assert {(True, True), (True, False), (False, True), (False, False)} <= seen


def test_a_wrong_theorem_on_shape_would_be_caught():
    """A control: taking the ends of every cell, peaks included, misses the supremum, and brute force sees it."""
    support = rb.Union((0.0, 0.4), (3.0, 3.4), (9.0, 9.1))
    m = made(support, rb.Interval(0.0, 9.1), scale=0.5, sensitivity=2.9)
    best = scan(m, loss(m))[0]
    assert worst_loss(m.setting).upper >= best * (1.0 - 1e-9)
    tops = []
    for side, line in m.setting.pairs():
        objective = Loss(side.noise, side.shape)
        places = {x for x in objective.kinks(line) if line.start < x < line.end} | {line.start, line.end}
        tops += [float(objective.value(ball(x), line.d).mid()) for x in places]
    assert max(tops) < best * (1.0 - 1e-4)


@pytest.mark.parametrize(
    ("answers", "sensitivity", "first", "second"),
    [
        (rb.Interval(-1.0, 1.0), 1.0, -1.0, 1e-17),
        (rb.Interval(-1.0, 1.0), 1.0, 1e-17, -1.0),
        (rb.Union((-1.0, -0.9), (1e-17, 1.0)), 1.0, -1.0, 1e-17),
        (rb.Union((0.1, 0.2), (0.3, 0.4)), 0.1, 0.2, 0.30000000000000004),
        (rb.Interval(1e15, 1e15 + 8), 1.0, 1e15, 1e15 + 1.125),
        (rb.Interval(0.0, 1e308), 1e300, 0.0, 1.0000000000000002e300),
    ],
)
def test_neighbours_are_answers_at_most_one_sensitivity_apart(answers, sensitivity, first, second):
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=answers, sensitivity=sensitivity))
    a, b = neighbours(m.setting, first, second)
    assert abs(Fraction(a) - Fraction(b)) <= Fraction(sensitivity)
    assert all(any(low <= x <= high for low, high in m.query.range.spans) for x in (a, b))
    assert abs(a - first) + abs(b - second) <= 1e-15 * max(abs(a), abs(b), 1.0) + 0.125


def test_what_is_no_counterexample_is_not_taken_for_one():
    m = made(union(3), union(3))
    worst = worst_loss(m.setting)
    less, more = worst.lower * (1.0 - 1e-9), worst.upper * (1.0 + 1e-9)
    a, b = worst.pair
    assert breaks(m.setting, worst.pair, rb.Claim(epsilon=less))
    assert not breaks(m.setting, worst.pair, rb.Claim(epsilon=more))
    assert not breaks(m.setting, (b, a), rb.Claim(epsilon=less))
    assert not breaks(m.setting, (a, a + 2.0 * (b - a)), rb.Claim(epsilon=less))
    assert not breaks(m.setting, (a - 100.0, b - 100.0), rb.Claim(epsilon=less))
    assert not breaks(m.setting, (INF, INF), rb.Claim(epsilon=less))


def test_sums_over_the_first_spans_are_those_of_each_span_alone():
    """What one place sees of many events is added up once; a sum with a span left out is told from it."""
    spans = union(12).spans
    with precision(128):
        for p in (ball(3.1), taylor(ball(3.1), 4)):
            kind = family(rb.Gaussian(scale=2.0), Shape(spans, normalised=True))
            here = kind.integrals(p)
            events = [kind.spans, kind.spans[:5], [*kind.spans[:5], (kind.spans[5][0], ball(4.9))], kind.spans[:9]]
            for event in (*events, *events[::-1]):
                alone = [value_of(kind.integrals(p).mass([span])) for span in event]
                found = value_of(here.mass(event))
                assert found.overlaps(sum(alone, ball(0.0)))
                assert found.rad() < 1e-20
                assert not found.overlaps(sum(alone[1:], ball(0.0)))


@pytest.mark.parametrize("count", [2, 8, 20])
def test_spans_within_reach_of_limited_noise_are_seen_in_one_step(count):
    """The sums over whole spans against each span by itself, at places, at ends, about wide balls, and as series."""
    dice = np.random.default_rng(count)
    support = union(count)
    ends = [end for pair in support.spans for end in pair]
    for limit in (1.0, 3.0, 12.0):
        noise = rb.TruncatedLaplacian(scale=0.7, limit=0.7 * limit)
        shape = Shape(spans=support.spans, normalised=True)
        with precision(128):
            quick, slow = TruncatedLaplace(noise, shape), TruncatedLaplace(noise, shape)
            slow._whole = None
            for at in [*dice.uniform(-1.0, ends[-1] + 1.0, 6).tolist(), *dice.choice(ends, 3).tolist()]:
                exact = ball(at)
                for p in (exact, taylor(exact, 3), exact.union(ball(at + 0.4))):
                    d = ball(float(dice.uniform(0.1, 3.0)))
                    found, known = quick.parts(p, d), slow.parts(p, d)
                    for name in ("left", "right", "inside", "lift", "only_p", "only_q"):
                        first, second = (ball(0.0) + value_of(getattr(parts, name)) for parts in (found, known))
                        assert first.overlaps(second)
                        if p is exact:
                            assert abs(float((first - second).mid())) <= 1e-30
                    if p is exact:
                        assert quick.change(p, d).overlaps(slow.change(p, d))
