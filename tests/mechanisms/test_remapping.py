"""Remaps: as private as the base, the best of their kind, and drawn as their law says."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

import rangebound as rb
from rangebound.errors import RangeboundError
from rangebound.mechanisms.best_remap import remap
from rangebound.mechanisms.finite import TOTAL
from rangebound.mechanisms.private_mechanism import PrivateMechanism
from rangebound.mechanisms.remapping import Remapped, bin_masses, places_of

TEN = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
THREE = rb.Query(range=rb.Interval(0, 3), sensitivity=1.0)
BASES = {
    "clamped": rb.calibrate(noise=rb.Laplace, query=THREE, bounding=rb.RECTIFY, epsilon=1.0),
    "truncated": rb.calibrate(noise=rb.Laplace, query=THREE, epsilon=1.0),
    "geometric": rb.DiscreteLaplace.calibrated(epsilon=1.0, support=rb.Interval(0, 6)),
    "staircase": rb.Staircase.calibrated(query=THREE, epsilon=1.0, step=0.125),
    "table": rb.Table.from_probabilities(
        query=THREE,
        inputs=(0, 1, 2, 3),
        outputs=(0, 1.5, 3),
        probabilities=[[0.6, 0.2, 0.2], [0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [0.2, 0.2, 0.6]],
        epsilon=1.0,
    ),
}
every_base = pytest.mark.parametrize("name", BASES)


@pytest.mark.few
@every_base
@pytest.mark.parametrize("objective", ["mae", "mse"])
def test_a_remap_is_as_private_as_its_base_and_has_less_error(name, objective):
    base = BASES[name]
    worst = remap(base, objective=objective, step=0.25)
    average = remap(base, objective=objective, at="average", step=0.25)
    for made in (worst, average):
        assert made.epsilon() == base.epsilon()
        assert made.epsilon(1e-3) == base.epsilon(1e-3)
        assert made.delta(0.5) == base.delta(0.5)
        assert made.rdp(2.0) == base.rdp(2.0)
        assert made.claim == base.claim
        assert (made.weights.sum(axis=1) == TOTAL).all()
    assert getattr(worst.worst_error(), objective) <= getattr(base.worst_error(), objective) * 1.001
    assert getattr(average.average_error(), objective) <= getattr(worst.average_error(), objective) * 1.01
    assert getattr(worst.worst_error(), objective) <= getattr(average.worst_error(), objective) * 1.001


@every_base
def test_the_laws_of_neighbours_differ_by_at_most_epsilon(name):
    made = remap(BASES[name], step=0.25)
    lower, upper = made.query.range.hull.lower, made.query.range.hull.upper
    places = np.arange(lower, upper + 0.5)
    rows = made.law(places).chances
    assert rows.sum(axis=1) == pytest.approx(1.0, abs=1e-9)
    for p, q in itertools.permutations(range(len(places)), 2):
        if abs(places[p] - places[q]) <= made.query.sensitivity:
            assert (rows[p] <= math.exp(made.epsilon()) * rows[q] * (1 + 1e-9) + 1e-15).all()


def test_the_minimax_remap_is_that_of_the_whole_linear_program():
    """Every column and row at once, for a small base."""
    base = rb.Staircase.calibrated(query=rb.Query(range=rb.Interval(0, 2), sensitivity=1.0), epsilon=1.0, step=0.25)
    made = remap(base, step=0.25)
    places, ends = places_of(made.base)
    masses, values = bin_masses(made.base, places, np.asarray(made.edges)), np.asarray(made.values)
    bins = masses.shape[1]
    rows = [
        np.append((masses[i][:, None] * np.abs(values - end[i])).reshape(-1), -1.0)
        for end in ends
        for i in range(len(places))
    ]
    sums = np.hstack([np.kron(np.eye(bins), np.ones(len(values))), np.zeros((bins, 1))])
    cost = np.zeros(bins * len(values) + 1)
    cost[-1] = 1.0
    full = linprog(cost, A_ub=np.asarray(rows), b_ub=np.zeros(len(rows)), A_eq=sums, b_eq=np.ones(bins), method="highs")
    assert full.fun * (1 - 1e-9) <= made.worst_error().mae <= full.fun * 1.0006


@pytest.mark.parametrize(("epsilon", "worst"), [(0.5, 1.479), (1.0, 0.8030), (2.0, 0.2754)])
def test_discrete_laplace_noise_with_a_remap_is_the_optimum_for_counts(epsilon, worst):
    made = remap(rb.DiscreteLaplace.calibrated(epsilon=epsilon, support=rb.Interval(0, 10)))
    assert made.worst_error().mae == pytest.approx(worst, rel=1e-3)


LIMITS = {0.1: 3.3632, 0.2: 2.5597, 0.5: 1.4823, 1.0: 0.85224, 2.0: 0.41088, 4.0: 0.13630}


def gap(epsilon, limit, step=None):
    made = remap(rb.Staircase.calibrated(query=TEN, epsilon=epsilon), step=step)
    return made.worst_error().mae / limit - 1.0


@pytest.mark.slow
def test_staircase_noise_with_a_remap_is_near_the_limit():
    assert 0.0 < gap(0.2, LIMITS[0.2], 1 / 16) < 0.002


@pytest.mark.long
@pytest.mark.parametrize("epsilon", LIMITS)
def test_staircase_noise_with_a_remap_is_within_0_7_percent_of_the_limit_and_1_8_at_epsilon_4(epsilon):
    step, most = (1 / 32, 0.018) if epsilon == 4.0 else (None, 0.00705)
    assert 0.0 < gap(epsilon, LIMITS[epsilon], step) < most


@every_base
def test_no_other_value_of_a_bin_is_better_for_the_prior(name):
    base, count = BASES[name], 7 if name == "geometric" else 31
    places, prior = np.linspace(0.0, base.query.range.hull.upper, count), np.linspace(1.0, 4.0, count)
    for objective, power in (("mae", 1), ("mse", 2)):
        made = remap(base, objective=objective, at=prior, step=0.25)
        joint = bin_masses(made.base, places, np.asarray(made.edges)) * (prior / prior.sum())[:, None]
        risk = (joint[:, :, None] * np.abs(places[:, None, None] - places[None, None, :]) ** power).sum(axis=0)
        chosen = (made.weights / TOTAL) @ np.asarray(made.values)
        own = (joint * np.abs(places[:, None] - chosen[None, :]) ** power).sum(axis=0)
        assert (own <= risk.min(axis=1) * (1 + 1e-9) + 1e-15).all()


def test_released_values_follow_the_law():
    made = remap(BASES["geometric"])
    count = 3000
    drawn = made.release(np.full(count, 2.0))
    points, chances = made.law(2.0).atoms
    seen = np.asarray([(drawn == each).sum() for each in points])
    assert seen.sum() == count
    likely = count * chances > 5
    seen = np.append(seen[likely], count - seen[likely].sum())
    hoped = np.append(count * chances[likely], count * (1.0 - chances[likely].sum()))
    seen, hoped = (seen, hoped) if hoped[-1] > 1e-6 else (seen[:-1], hoped[:-1])
    assert stats.chisquare(seen, hoped * seen.sum() / hoped.sum()).pvalue > 1e-11
    other = made.law(5.0).atoms[1][likely]
    assert stats.chisquare(seen[: len(other)], seen[: len(other)].sum() * other / other.sum()).pvalue < 1e-11  # control


@every_base
def test_plain_data_come_back(name):
    made = remap(BASES[name], at="average", step=0.5)
    back = Remapped.from_dict(json.loads(json.dumps(made.to_dict())))
    assert back == made
    assert hash(back) == hash(made)
    assert back != remap(BASES[name], at="average", objective="mse", step=0.5)
    for wrong in ({}, {"remapped": {}}, {**made.to_dict(), "more": 1}):
        with pytest.raises(RangeboundError):
            Remapped.from_dict(wrong)


def test_what_makes_no_sense_is_refused():
    made = remap(BASES["geometric"], at="average")
    line = rb.DiscreteLaplace(scale=1.0)
    for wrong in (
        lambda: remap(line),
        lambda: remap(BASES["geometric"], objective="bias"),
        lambda: remap(BASES["geometric"], at="best"),
        lambda: remap(BASES["geometric"], at=[1.0, -1.0]),
        lambda: remap(BASES["geometric"], at=[0.0, 0.0]),
        lambda: remap(BASES["geometric"], at=[1.0, 1.0]),
        lambda: remap(3),
        lambda: Remapped(base=made.base, edges=made.edges[::-1], values=made.values, weights=made.weights),
        lambda: Remapped(base=made.base, edges=made.edges, values=made.values, weights=made.weights - 1),
    ):
        with pytest.raises((RangeboundError, TypeError)):
            wrong()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "truncated")) for name in BASES]
)
def test_certificate_and_account_of_a_remap_are_those_of_its_base(name):
    m = remap(BASES[name], at="average")
    found = rb.certify(m)
    assert found.proof == rb.certify(m.base).proof
    assert "The remap is post-processing" in str(found)
    again = rb.verify(found.to_json())
    assert again.mechanism == m
    assert again.claim == m.claim
    event, composed = rb.accounting.MechanismEvent, rb.compose((m, 2), m.base).epsilon(1e-5)
    assert composed == rb.compose((m.base, 3)).epsilon(1e-5)
    assert rb.accounting.event.steps(event(mechanism=m, times=3)) == {event(mechanism=m.base): 3}


def test_a_certificate_of_a_remap_does_not_survive_a_change_of_its_base():
    """The control: with less noise in the base the same claim is not proved."""
    text = rb.certify(remap(BASES["geometric"])).to_json()
    data = json.loads(text)
    assert data["format"] == "rangebound certificate 4"
    data["mechanism"]["remapped"]["base"]["geometric"]["scale"] = 0.9
    with pytest.raises(rb.CertificateInvalid, match="not proved"):
        rb.verify(json.dumps(data))
    for other in ("rangebound certificate 1", "rangebound certificate 3"):
        with pytest.raises(rb.CertificateInvalid, match="fields"):
            rb.verify(text.replace("rangebound certificate 4", other))


def test_a_metric_claim_of_a_remap_is_that_of_its_base():
    m = remap(rb.Mechanism(noise=rb.Laplace(scale=1.0), query=THREE, bounding=rb.RECTIFY), at="average")
    found = rb.verify(rb.certify(m, epsilon=1.01, notion="metric").to_json())
    assert found.notion is rb.Claim(epsilon=1.0, notion="metric").notion


def test_a_claim_that_is_false_of_the_base_is_undecided_for_the_remap():
    m = remap(BASES["geometric"])
    with pytest.raises(rb.Undecided, match="has the guarantee of its base") as error:
        rb.certify(m, epsilon=0.5)
    assert (error.value.lower, error.value.upper) == (0.0, 1.0)


@pytest.mark.few(5)
@every_base
@pytest.mark.parametrize("at", ["worst", "average"])
def test_intervals_of_a_remap_cover_every_true_answer(name, at):
    m = remap(BASES[name], at=at, step=0.25)
    answers = np.arange(7.0) if name == "geometric" else np.linspace(0.0, 3.0, 121)
    for level in (0.3, 0.9):
        lower, upper = m.confidence_interval(m.values, level)
        held = (lower <= answers[:, None]) & (answers[:, None] <= upper)
        covered = (m.law(answers).chances * held).sum(axis=1)
        assert covered.min() >= level - 1e-12
    narrow = m.confidence_interval(m.values, 0.05)  # the control: these are too narrow for 0.9
    held = (narrow[0] <= answers[:, None]) & (answers[:, None] <= narrow[1])
    assert (m.law(answers).chances * held).sum(axis=1).min() < 0.9


def test_what_a_remap_does_not_publish_has_no_interval():
    m = remap(BASES["geometric"])
    with pytest.raises(RangeboundError, match="must be a value that is published"):
        m.confidence_interval(0.5)
    endless = Remapped(base=rb.DiscreteLaplace(scale=1.0), edges=(), values=(0.0,), weights=np.asarray([[TOTAL]]))
    with pytest.raises(RangeboundError, match="must be bounded"):
        endless.confidence_interval(0.0)


def test_a_base_with_too_many_laws_is_refused_before_memory_runs_out():
    """At epsilon 50 staircase noise has 82,000 laws on [0, 10], whose remap asked for 50 GB."""
    fine = rb.Staircase.calibrated(query=TEN, epsilon=50.0)
    with pytest.raises(rb.ArgumentError, match="mechanism: has 81921 x 385 pairs of a true answer and a bin"):
        rb.remap(fine)
    counts = rb.DiscreteLaplace.calibrated(epsilon=1.0, support=rb.Interval(0, 10_000))
    with pytest.raises(rb.ArgumentError, match="x 10001 pairs of a true answer and a bin"):
        rb.remap(counts, at="average")


def test_every_kind_says_itself_whether_one_answer_can_cause_what_a_neighbour_cannot():
    """A new kind that said nothing would be taken for one without an edge, and its profile followed without an end."""
    assert "_edge" in PrivateMechanism.__abstractmethods__
    noise = rb.TruncatedLaplacian(scale=1.0, limit=9.0)
    base = rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0), bounding=rb.RECTIFY)
    assert rb.remap(base, at="average")._edge == base._edge is not None
