"""Certificates of tables: true claims are proved, false ones refuted, and a text that was changed is refused."""

import base64
import json
import math
import time
from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.finite import TOTAL, table_proof
from rangebound.finite.weights import Exponential, exponential
from rangebound.privacy.proof import Proof, Theorem
from tests.finite import brute_force
from tests.finite.random_tables import random_table
from tests.finite.test_weights import stairs

BIT = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
FLIP = rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])


def large(epsilon=1.0):
    """321 inputs and outputs, 32 steps to a sensitivity, near the edge of the claim."""
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    places = np.linspace(0, 10, 321)
    return rb.Table.from_probabilities(
        query=query, inputs=places, outputs=places, probabilities=stairs(321, 32, 0.7), epsilon=epsilon
    )


@pytest.mark.parametrize("seed", range(25))
def test_true_claims_are_proved_and_false_ones_refuted(seed):
    table = random_table(np.random.default_rng(seed))
    pairs = brute_force.neighbouring_inputs(table.inputs, table.query.range.spans, table.query.sensitivity)
    weights = table.weights.tolist()
    for delta in (0.0, 1e-6, 0.3):
        epsilon = table.epsilon(delta)
        if math.isinf(epsilon):
            with pytest.raises(rb.ClaimFalse) as caught:
                rb.certify(table, epsilon=30.0, delta=delta)
            assert caught.value.epsilon == math.inf
            continue
        assert rb.verify(rb.certify(table, epsilon=epsilon, delta=delta).to_json()).mechanism == table
        if epsilon > 0.0:
            with pytest.raises(rb.ClaimFalse) as caught:
                rb.certify(table, epsilon=0.99 * epsilon, delta=delta)
            assert caught.value.epsilon <= epsilon
            assert brute_force.delta(weights, pairs, 0.99 * epsilon) >= caught.value.delta > delta * (1 - 1e-12)
            i, j = (table.inputs.index(each) for each in caught.value.pair)
            assert (min(i, j), max(i, j)) in pairs


def test_a_delta_a_tenth_below_the_truth_is_refused():
    delta = FLIP.delta(0.5)
    assert rb.certify(FLIP, epsilon=0.5, delta=delta).delta == delta
    with pytest.raises(rb.ClaimFalse, match="not true of this table"):
        rb.certify(FLIP, epsilon=0.5, delta=0.9 * delta)


def test_the_claim_that_a_table_carries_is_proved():
    table = large()
    certificate = rb.certify(table)
    assert (certificate.epsilon, certificate.delta) == (1.0, 0.0)
    assert certificate.mechanism.claim == rb.Claim(epsilon=1.0)
    assert "in whole numbers" in str(certificate)
    with pytest.raises(rb.ArgumentTypeError, match="carries no claim"):
        rb.certify(FLIP)
    with pytest.raises(rb.ArgumentError, match="metric"):
        rb.certify(FLIP, epsilon=2.0, notion="metric")


def test_a_check_takes_less_than_half_a_second():
    text = rb.certify(large()).to_json()
    start = time.process_time()
    assert rb.verify(text).epsilon == 1.0
    assert time.process_time() - start < 0.5


def changed(text, change):
    data = json.loads(text)
    change(data)
    return json.dumps(data)


def moved(data, first, second):
    """One unit moved from one weight to another, by their numbers in the text."""
    table = data["mechanism"]["table"]
    words = np.frombuffer(base64.b64decode(table["weights"]), dtype="<i8").copy()
    words[first] -= 1
    words[second] += 1
    table["weights"] = base64.b64encode(words.tobytes()).decode()


CLOSE = rb.certify(FLIP, epsilon=FLIP.epsilon()).to_json()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(epsilon=0.99 * data["epsilon"]),
        lambda data: data.update(epsilon=math.nextafter(math.nextafter(data["epsilon"], 0.0), 0.0)),
        lambda data: moved(data, 1, 2),  # a unit from one row to the other: neither has its sum
        lambda data: data["mechanism"]["table"]["query"].update(sensitivity=2.0),
        lambda data: data["mechanism"]["table"].update(inputs=[0.0, 3.0]),
        lambda data: data.update(theorem="LOSS_AT_ENDS"),
        lambda data: data.update(bits=128),
        lambda data: data.update(cells=[[0, 0.0, 1.0]]),
        lambda data: data.update(format="rangebound certificate 1"),
        lambda data: data.update(format="rangebound certificate 2", notion="metric"),
        lambda data: data.update(more=1),
        lambda data: data.update(mechanism={"table": 3}),
        lambda data: data.update(mechanism=[]),
        lambda data: data["mechanism"].update(noise={"family": "Laplace", "scale": 1.0}),
    ],
)
def test_a_certificate_that_was_changed_is_refused(change):
    assert rb.verify(changed(CLOSE, lambda data: None)).epsilon == FLIP.epsilon()
    with pytest.raises(rb.CertificateInvalid):
        rb.verify(changed(CLOSE, change))


def test_control_a_unit_moved_within_a_row_breaks_a_claim_without_room():
    low = TOTAL // 4
    high = low * exponential(Fraction(1)).lower >> 160  # the largest weight that epsilon 1 allows beside `low`
    weights = [[low, TOTAL - low], [high, TOTAL - high]]
    text = rb.certify(rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 1), weights=weights), epsilon=1.0).to_json()
    assert rb.verify(text)
    assert rb.verify(changed(text, lambda data: moved(data, 2, 3)))
    with pytest.raises(rb.CertificateInvalid, match="not true of this table"):
        rb.verify(changed(text, lambda data: moved(data, 3, 2)))


def test_a_proof_of_another_theorem_does_not_count():
    claim = rb.Claim(epsilon=2.0)
    table_proof.check(FLIP, claim, table_proof.prove(FLIP, claim))
    with pytest.raises(rb.CertificateInvalid, match="does not apply to a table"):
        table_proof.check(FLIP, claim, Proof(Theorem.POST_PROCESSING, 128))


def test_a_claim_that_takes_too_long_to_check_is_refused(monkeypatch):
    monkeypatch.setattr(table_proof, "WORK", 3)
    with pytest.raises(rb.ArgumentError, match="at most 3 comparisons"):
        rb.certify(FLIP, epsilon=0.5, delta=0.3)
    assert rb.certify(FLIP, epsilon=2.0, delta=0.3)  # pure already


def test_a_claim_closer_than_160_binary_places_is_undecided(monkeypatch):
    epsilon = FLIP.epsilon()
    monkeypatch.setattr(table_proof, "exponential", lambda _: Exponential(3 << 160, 3.0))
    found = table_proof.refutation(FLIP, rb.Claim(epsilon=epsilon))
    assert isinstance(found, rb.Undecided)
    assert found.upper == epsilon


def test_weights_of_zero_have_no_epsilon():
    table = rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 1), weights=[[TOTAL, 0], [TOTAL - 1, 1]])
    with pytest.raises(rb.ClaimFalse) as caught:
        rb.certify(table, epsilon=50.0)
    assert caught.value.epsilon == math.inf
    assert rb.certify(table, epsilon=0.0, delta=2.0**-62).delta == 2.0**-62
    with pytest.raises(rb.ClaimFalse):
        rb.certify(table, epsilon=0.0, delta=0.99 * 2.0**-62)
