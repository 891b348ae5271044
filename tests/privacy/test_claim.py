"""Claims: what is stated and what is not, and that no mechanism carries a claim made for another."""

import copy
import dataclasses
import json
import math
import pickle

import pytest

import rangebound as rb
from rangebound.errors import RangeboundError
from rangebound.privacy.counterexample import breaks, find_counterexample, quick_counterexample
from rangebound.privacy.setting import Claim, Notion
from rangebound.privacy.worst import worst_under

QUERY = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
GRID = rb.Grid(step=1, within=rb.Interval(0, 10))
CALIBRATED = rb.calibrate(noise=rb.Laplace, query=QUERY, epsilon=1.0)
METRIC = rb.calibrate(noise=rb.Laplace, query=QUERY, epsilon=1.0, notion="metric")


def test_a_claim_is_a_value_with_words_that_are_rounded_up():
    assert str(Claim(epsilon=1.0000004, delta=1.0000004e-6)) == "(1.00001, 1.00001e-06)-differential privacy"
    assert str(Claim(epsilon=1.0000004, notion="metric")) == "metric privacy with epsilon 1.00001"
    one = Claim(epsilon=1, delta=1e-6)
    assert one == Claim(epsilon=1.0, delta=1e-6, notion="dp") != Claim(epsilon=1.0)
    assert type(one.epsilon) is float
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == dataclasses.replace(one) == one
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.epsilon = 2.0
    with pytest.raises(RangeboundError, match="by name"):
        Claim(1.0)
    for delta, pure in ((0.0, True), (-0.0, True), (5e-324, False)):  # the smallest delta is still one
        claim = Claim(epsilon=2.0, delta=delta)
        assert (claim.limit, claim.pure) == (2.0 if pure else delta, pure)


def test_a_metric_claim_is_not_taken_for_an_ordinary_one():
    claim = Claim(epsilon=1.0, notion="metric")
    with pytest.raises(RangeboundError, match="metric"):
        Claim(epsilon=1.0, delta=1e-6, notion="metric")
    for search in (find_counterexample, quick_counterexample):
        with pytest.raises(RangeboundError, match="a metric claim bounds a rate"):
            search(CALIBRATED.setting, claim)
    with pytest.raises(RangeboundError, match="a metric claim bounds a rate"):
        worst_under(CALIBRATED.setting, claim)


@pytest.mark.parametrize("claim", [Claim(epsilon=0.5, delta=1e-6), Claim(epsilon=math.pi, notion=Notion.METRIC)])
def test_a_claim_comes_back_from_plain_data(claim):
    data = json.loads(json.dumps(claim.to_dict()))
    assert Claim.from_dict(data) == claim
    for name in data:
        for changed in ({**data, name: None}, {key: value for key, value in data.items() if key != name}):
            with pytest.raises(RangeboundError, match=f"claim=|{name}="):
                Claim.from_dict(changed)


def test_what_was_calibrated_or_chosen_carries_its_claim_which_is_proved_without_a_second_typing():
    ranking, claim = rb.choose(query=QUERY, epsilon=1.0, delta=1e-6), Claim(epsilon=1.0, delta=1e-6)
    assert len(ranking) > 3
    assert {choice.mechanism.claim for choice in ranking} == {ranking.best.claim} == {ranking.claim} == {claim}
    made = [(CALIBRATED, Claim(epsilon=1.0)), (METRIC, Claim(epsilon=1.0, notion=Notion.METRIC)), (ranking.best, claim)]
    for bounding, support in ((rb.RECTIFY, None), (rb.QUANTIZE, GRID), (rb.TRUNCATE, GRID)):
        mechanism = rb.calibrate(noise=rb.Laplace, query=QUERY, support=support, bounding=bounding, epsilon=0.5)
        made.append((mechanism, Claim(epsilon=0.5)))
    for mechanism, claim in made:
        certificate = rb.certify(mechanism)
        assert certificate.claim == mechanism.claim == certificate.mechanism.claim == claim
        assert rb.verify(certificate.to_json()) == certificate
        assert rb.verify(certificate.to_json()).mechanism.claim == claim


def test_without_a_claim_the_error_says_what_to_pass():
    plain = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=QUERY)
    with pytest.raises(RangeboundError, match=r"certify\(m, epsilon=1.0, delta=1e-6\)"):
        rb.certify(plain)
    assert rb.certify(METRIC, 1.0).notion is Notion.DP  # an epsilon that is given is a whole claim
    for half in ({"delta": 1e-6}, {"notion": "metric"}, {"delta": 0.0}):  # half a claim is not filled up with another
        with pytest.raises(RangeboundError, match="needs an epsilon"):
            rb.certify(CALIBRATED, **half)


def test_control_a_false_claim_is_refused_and_not_believed():
    wrong = CALIBRATED.with_claim(Claim(epsilon=0.9))
    with pytest.raises(rb.ClaimFalse) as caught:
        rb.certify(wrong)
    assert breaks(wrong.setting, caught.value.pair, Claim(epsilon=0.9))
    with pytest.raises(rb.ClaimFalse, match="metric") as caught:
        rb.certify(CALIBRATED.with_claim(METRIC.claim))
    assert breaks(wrong.setting, caught.value.pair, METRIC.claim)
    assert not breaks(METRIC.setting, caught.value.pair, METRIC.claim)


CHANGES = {
    "noise": rb.Gaussian(scale=0.1),
    "query": rb.Query(range=rb.Interval(0, 10), sensitivity=5.0),
    "support": rb.Interval(0, 5),
    "bounding": rb.RECTIFY,
}


@pytest.mark.parametrize("name", [*CHANGES, "nothing"])
def test_a_changed_mechanism_never_keeps_the_claim_which_is_no_part_of_the_law(name):
    """A new field of a mechanism must be decided on here: a part of the law, or not."""
    assert {field.name for field in dataclasses.fields(rb.Mechanism) if field.init} == CHANGES.keys()
    plain = CALIBRATED.with_claim(None)
    assert plain == CALIBRATED
    assert (hash(plain), repr(plain), plain.claim) == (hash(CALIBRATED), repr(CALIBRATED), None)
    assert CALIBRATED.claim is not None  # `with_claim` makes a new one
    changes = {name: CHANGES[name]} if name in CHANGES else {}
    assert dataclasses.replace(CALIBRATED, **changes).claim is None
    if hasattr(copy, "replace"):  # Python 3.13
        assert copy.replace(CALIBRATED, **changes).claim is None


def test_a_claim_is_not_given_to_the_constructor_or_changed_in_place():
    parts = {"noise": CALIBRATED.noise, "query": QUERY}
    with pytest.raises(RangeboundError, match="claim"):
        rb.Mechanism(**parts, claim=Claim(epsilon=1.0))
    with pytest.raises(ValueError, match="claim"):
        dataclasses.replace(CALIBRATED, claim=None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        CALIBRATED.claim = None
    with pytest.raises(RangeboundError, match="claim="):
        CALIBRATED.with_claim(1.0)


def test_copies_and_plain_data_keep_the_claim_and_data_of_earlier_versions_has_none():
    data = json.loads(json.dumps(METRIC.to_dict(), allow_nan=False))
    twins = [copy.copy(METRIC), copy.deepcopy(METRIC), pickle.loads(pickle.dumps(METRIC)), rb.Mechanism.from_dict(data)]
    assert [twin == METRIC and twin.claim == METRIC.claim for twin in twins] == [True] * 4
    del data["claim"]
    earlier = rb.Mechanism.from_dict(data)
    assert earlier == METRIC
    assert earlier.claim is None
    assert earlier.to_dict() == data


def test_a_certificate_binds_its_own_claim():
    wider = rb.certify(CALIBRATED, 1.5)
    assert wider.mechanism.claim == wider.claim == Claim(epsilon=1.5)
    assert CALIBRATED.claim == Claim(epsilon=1.0)
    text = wider.to_json()
    assert "claim" not in json.loads(text)["mechanism"]  # stated once; the format of earlier versions
    for claim in (Claim(epsilon=1.5), Claim(epsilon=0.1)):
        data = json.loads(text)
        data["mechanism"]["claim"] = claim.to_dict()
        with pytest.raises(rb.CertificateInvalid):
            rb.verify(json.dumps(data))
