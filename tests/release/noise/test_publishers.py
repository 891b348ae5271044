"""Every publisher proves its claim, and what is a little less private than it says is refused."""

import math
import re
from dataclasses import replace
from fractions import Fraction

import pytest

import rangebound as rb
from rangebound.errors import CertificateInvalid
from rangebound.release import check_certificate, make_plan, release
from rangebound.release.budget_split import allocations
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.noisy_coordinates import MechanismPublisher
from rangebound.release.noise.partition_selection import WHOLE, PartitionSelection, partition_selection
from rangebound.release.noise.publishers import PublicConstant
from rangebound.release.output import table_certificate
from rangebound.release.output.table_certificate import write_certificate
from rangebound.release.plan.statistic import Sensitivity
from rangebound.release.prepare import prepare, prepared
from tests.release.noise.refusals import refusal
from tests.release.output.asked import asked
from tests.release.plans import plan_data
from tests.release.test_range import PEOPLE, table

X = {"column": "wait", "range": [0, 100]}
TRUNCATED = ("truncate Laplace", "truncate Gaussian")
QUESTIONS = {
    "count": {"kind": "count"},
    "sum": {"kind": "sum", **X},
    "clamped sum": {"kind": "sum", **X, "mechanism": "rectify Laplace"},
    **{name: {"kind": "count", "mechanism": name} for name in ("rectify Gaussian", "rectify TruncatedLaplacian")},
    **{name: {"kind": "sum", **X, "mechanism": name, "support": [0, 3000]} for name in TRUNCATED},
    "mean": {"kind": "mean", **X},
    "histogram": {"kind": "histogram", **X, "bins": 3},
    "variance": {"kind": "variance", **X},
    "quantiles": {"kind": "quantiles", **X, "levels": [0.1, 0.5]},
    "median without an interval": {"kind": "median", **X, "interval_share": 0.0},
}


def moves(cell, square=None):
    return Sensitivity(cell=Fraction(cell), groups=1, square=Fraction(cell) ** 2 if square is None else square)


def made(question, **more):
    ready = prepare(asked(question, unit={"column": "person", "rows": 3}, **{"epsilon": 0.7, "delta": 1e-6, **more}))
    return ready.publishers[0], ready.allocation.sensitivities[0], ready.allocation.questions[0]


@pytest.mark.few(6)
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_publisher_is_private_at_its_share_and_at_no_smaller_one(question):
    publisher, sensitivity, share = made(question)
    publisher.check(sensitivity, share)
    less = replace(share, epsilon=share.epsilon * (1 - 1e-5), delta=share.delta * (1 - 1e-5), mu=share.mu * (1 - 1e-5))
    assert "less private than it says" in refusal(publisher, sensitivity, less)
    more = Fraction(100_001, 100_000)
    farther = replace(sensitivity, cell=sensitivity.cell * more, square=sensitivity.square * more**2)
    assert re.search("too small|less private", refusal(publisher, farther, share))


def smaller(x):
    return math.nextafter(x, 0.0)


@pytest.mark.parametrize("name", ["clamped sum", "mean", "histogram", "variance"])
def test_control_a_scale_or_a_sensitivity_that_is_one_step_too_small_is_refused(name):
    publisher, sensitivity, share = made(QUESTIONS[name], delta=0.0)
    old = publisher.mechanism
    narrow = replace(old, noise=rb.Laplace(scale=smaller(old.noise.scale)))
    assert "less private than it says" in refusal(replace(publisher, mechanism=narrow), sensitivity, share)
    short = replace(old, query=rb.Query(range=old.query.range, sensitivity=smaller(old.query.sensitivity)))
    needed = Fraction(old.query.sensitivity) - publisher.width * publisher.parts * Fraction(publisher.grain)
    least = moves(max(needed, sensitivity.cell))
    assert "sensitivity that is too small" in refusal(replace(publisher, mechanism=short), least, share)


@pytest.mark.parametrize(("sensitivity", "lower"), [(Fraction(1, 2), 0.0), (Fraction(1), 0.5)], ids=str)
def test_a_count_that_is_not_whole_gets_a_mechanism_on_a_lattice(sensitivity, lower):
    share = BudgetShare(epsilon=1.0, delta=0.0, groups=1, parts=1)
    facts = {"whole": True, "step": 1.0, "mechanism": None, "confidence": 0.95}
    found = publishers.one_coordinate(rb.Interval(lower, 9), moves(sensitivity), share, **facts)
    assert isinstance(found, MechanismPublisher)
    found.check(moves(sensitivity), share)
    assert not isinstance(publishers.one_coordinate(rb.Interval(0, 9), moves(1), share, **facts), MechanismPublisher)


def test_control_discrete_laplace_noise_that_is_one_step_too_narrow_is_refused():
    publisher, sensitivity, share = made(QUESTIONS["count"], delta=0.0)
    narrow = replace(publisher.mechanism, scale=smaller(publisher.mechanism.scale))
    assert "less private" in refusal(replace(publisher, mechanism=narrow), sensitivity, share)
    assert "too small" in refusal(publisher, moves(sensitivity.cell + Fraction(1, 10**9)), share)


def test_rounding_to_the_grain_counts_for_the_sensitivity():
    query = rb.Query(range=rb.Interval(0, math.inf), sensitivity=1.0)
    mechanism = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, bounding=rb.RECTIFY)
    share = BudgetShare(epsilon=1.0, delta=0.0, groups=1, parts=1)
    fine = MechanismPublisher(mechanism=mechanism, grain=0.25, step=None, level=0.95)
    fine.check(moves(1), share)
    assert "too small" in refusal(replace(fine, grain=0.3), moves(1), share)  # four grains of it are 1.2
    assert "too small" in refusal(replace(fine, width=2), moves(1), share)
    replace(fine, width=2).check(moves(Fraction(1, 2)), share)


@pytest.mark.parametrize(
    ("noise", "bounding"),
    [(rb.Gaussian(scale=50.0), rb.RECTIFY), (rb.Laplace(scale=50.0), rb.TRUNCATE)],
    ids=["Gaussian", "truncated"],
)
def test_only_additive_laplace_noise_protects_several_coordinates_at_their_joint_sensitivity(noise, bounding):
    query = rb.Query(range=rb.Interval(0, 100), sensitivity=2.0)
    mechanism = rb.Mechanism(noise=noise, query=query, bounding=bounding)
    share = BudgetShare(epsilon=1.0, delta=0.0, groups=1, parts=1)
    one = MechanismPublisher(mechanism=mechanism, grain=0.25, step=None, level=0.95)
    one.check(moves(1), share)
    assert "for its coordinates together" in refusal(replace(one, width=2), moves(1), share)


def test_a_public_constant_is_free_only_where_nobody_can_change_it():
    share = BudgetShare(epsilon=0.0, delta=0.0, groups=1, parts=1)
    PublicConstant(value=5.0).check(moves(0), share)
    assert "too small" in refusal(PublicConstant(value=5.0), moves(Fraction(1, 10**9)), share)


def test_control_a_rate_that_is_a_little_too_large_is_refused():
    publisher, sensitivity, share = made(QUESTIONS["quantiles"])
    for at in range(2):
        more = (each * (1 + Fraction(1, 2**17)) if index == at else each for index, each in enumerate(publisher.rates))
        assert "exponential mechanism that is less private" in refusal(
            replace(publisher, rates=tuple(more)), sensitivity, share
        )
    publisher, sensitivity, share = made(QUESTIONS["median without an interval"])  # nothing is left for rounding
    exact = Fraction(share.epsilon) / (2 * exponential.score_sensitivity(0.5, sensitivity.cell))
    assert "less private" in refusal(replace(publisher, rates=(exact,)), sensitivity, share)


def test_the_stated_loss_of_a_draw_bounds_its_exact_law_and_rounding_is_part_of_it():
    """At a rate so small that rounding the weights leaks more than the scores do."""
    rate, many = Fraction(1, 10**42), Fraction(87 * 2 * 10**42)
    tables = [[Fraction(rows), Fraction(0), many] for rows in range(4000)]
    deep = exponential.weights([exponential.scores(each, 0.5)[0] for each in tables], rate)
    jumps = [at for at in range(len(deep) - 1) if deep[at] != deep[at + 1]]
    laws = []
    for counts in (tables[jumps[0]], tables[jumps[0] + 1]):
        weights = exponential.weights(exponential.scores(counts, 0.5), rate)
        laws.append([Fraction(each, sum(weights)) for each in weights])
    worst = max(max(p / q, q / p) for p, q in zip(*laws, strict=True)) - 1  # e^loss - 1, which is just above the loss
    stated = exponential.privacy_loss(0.5, Fraction(1), rate)
    assert stated - exponential.ROUNDING < worst / (1 + worst) < worst <= stated


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.05, 1e-9), (3.0, 0.01), (50.0, 1e-12)])
def test_a_partition_selection_is_proved_for_every_number_of_units(epsilon, delta):
    selection = partition_selection(epsilon, delta)
    selection.check(epsilon, delta)
    for other in ((epsilon * (1 - 1e-12), delta), (epsilon, smaller(delta))):
        if epsilon < 40.0 or other[1] < delta:  # beyond that the selection uses less than its epsilon
            assert "less private" in refusal(selection, *other)
    found = selection.probabilities
    for at in {1, 2, len(found) // 2, len(found) - 2} if epsilon < 40.0 else {1}:
        more = list(found)
        more[at] += WHOLE >> 80
        assert "less private" in refusal(PartitionSelection(probabilities=tuple(more)), epsilon, delta)


@pytest.mark.parametrize("wrong", [(), (1, WHOLE), (0, -1), (0, WHOLE + 1)], ids=str)
def test_what_no_partition_selection_can_have_is_refused(wrong):
    assert "no partition selection" in refusal(PartitionSelection(probabilities=wrong), 1.0, 0.5)


def test_a_certificate_refuses_a_table_whose_claims_are_not_proved(monkeypatch):
    plan = make_plan(plan_data(["clinic"], [{"kind": "median", **X}], unit=PEOPLE))
    found = release(plan, table(50), ledger=None)
    check_certificate(found.certificate, found.to_bytes())
    ready = prepare(plan)
    faster = replace(ready.publishers[0], rates=tuple(each * 2 for each in ready.publishers[0].rates))
    ((by, selection),) = ready.selections.items()
    likelier = PartitionSelection(probabilities=(0, *(each + 1 for each in selection.probabilities[1:-1]), WHOLE))
    for wrong, words in (
        (replace(ready, publishers=(faster,)), r"queries\[0\]: has an exponential mechanism that is less private"),
        (replace(ready, selections={by: likelier}), r"selections\[0\]: names keys .* less private"),
    ):
        monkeypatch.setattr(table_certificate, "prepared", lambda *_, wrong=wrong: wrong)
        with pytest.raises(CertificateInvalid, match=words):
            check_certificate(write_certificate(found, wrong, None), found.to_bytes())


def test_the_work_of_a_partition_selection_is_counted():
    data = plan_data(["clinic"], [{"kind": "median", **X}], unit=PEOPLE)
    plan = make_plan({**data, "budget": {"epsilon": 0.02, "delta": 1e-6}})
    found = release(plan, table(50), ledger=None)
    steps = len(next(iter(prepare(plan).selections.values())).probabilities) / 4000
    with pytest.raises(CertificateInvalid, match="steps"):
        check_certificate(found.certificate, found.to_bytes(), work=0.5 * steps)
    check_certificate(found.certificate, found.to_bytes(), work=200.0 + 3.0 * steps)  # of every way to split the budget


GAUSSIAN = {"unit": {"column": "person", "rows": 3, "groups": 2}, "keys": {"clinic": ["a", "b", "c"]}}


@pytest.mark.parametrize(
    ("name", "named"),
    [
        *((name, None) for name in ("count", "sum", "mean", "histogram", "variance")),
        *((name, "truncate Gaussian") for name in ("count", "sum")),
    ],
)
def test_gaussian_noise_is_wide_enough_for_its_part_of_the_account_and_no_less_is_accepted(name, named):
    question = {**QUESTIONS[name], "by": ["clinic"], "support": [0, 50] if name == "count" else None}
    question = {key: value for key, value in {**question, "mechanism": named}.items() if value is not None}
    plan = asked(question, epsilon=0.7, delta=1e-6, **GAUSSIAN)
    way = allocations(plan)[-1]
    ready = prepared(plan, way)
    publisher, found, share = ready.publishers[0], way.sensitivities[0], way.questions[0]
    assert share.loss is LossForm.GAUSSIAN
    publisher.check(found, share)
    exact = math.sqrt(found.square) / share.mu
    assert exact <= publisher.mechanism.noise.scale < exact * (1 + 1e-5)  # the rest is for rounding to the grain
    narrow = replace(publisher.mechanism, noise=rb.Gaussian(scale=smaller(publisher.mechanism.noise.scale)))
    assert "less private" in refusal(replace(publisher, mechanism=narrow), found, share)
    assert "too small" in refusal(publisher, replace(found, square=found.square * Fraction(100_001, 100_000)), share)
    other = replace(publisher.mechanism, noise=rb.Laplace(scale=publisher.mechanism.noise.scale))
    assert "not Gaussian" in refusal(replace(publisher, mechanism=other), found, share)


@pytest.mark.few(2)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.0), (2.0, 0.0), (0.05, 1e-6), (0.3, 1e-2), (5.0, 0.05)])
@pytest.mark.parametrize("ends", [(0.0, math.inf), (-math.inf, 5.0), (-math.inf, math.inf)])
def test_without_an_end_the_best_mechanism_is_that_of_the_whole_ranking(ends, epsilon, delta):
    support = rb.Interval(*ends)
    query = rb.Query(range=support, sensitivity=2.0)
    ranked = rb.choose(query=query, epsilon=epsilon, delta=delta, support=support, objective="mse")
    first, *others = (each for each in ranked if isinstance(each.mechanism, rb.Mechanism))
    found = publishers._mechanism(support, 2.0, epsilon, delta, None)
    assert found == first.mechanism
    assert publishers._variance(found) == pytest.approx(first.score, rel=1e-6)
    assert all(publishers._variance(each.mechanism) > publishers._variance(found) for each in others)
    bounded = publishers._mechanism(rb.Interval(0, 10), 1.0, 0.1, 0.0, None)
    assert bounded.bounding is rb.TRUNCATE  # the control: with an end on either side all noise is ranked
