"""Whole-number weights and certificates of tables: true claims are proved, false ones refuted, forgeries refused."""

import base64
import json
import math
import time
from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.mechanisms.finite import TOTAL, pair_numbers
from rangebound.mechanisms.finite import weights as whole
from rangebound.mechanisms.finite.weights import epsilon_private, rounded, whole_weights
from tests.mechanisms.finite import brute_force
from tests.mechanisms.finite.random_tables import random_table

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


def test_the_claim_that_a_table_carries_is_proved():
    table = large()
    certificate = rb.certify(table)
    assert (certificate.epsilon, certificate.delta) == (1.0, 0.0)
    assert certificate.mechanism.claim == rb.Claim(epsilon=1.0)
    assert "in whole numbers" in str(certificate)
    text, start = certificate.to_json(), time.process_time()
    assert rb.verify(text).epsilon == 1.0
    assert time.process_time() - start < 0.5
    with pytest.raises(rb.ArgumentTypeError, match="carries no claim"):
        rb.certify(FLIP)
    with pytest.raises(rb.ArgumentError, match="metric"):
        rb.certify(FLIP, epsilon=2.0, notion="metric")


def changed(text, change):
    data = json.loads(text)
    change(data)
    return json.dumps(data)


def moved(data, first, second):
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
    high = low * whole.exponential(Fraction(1)).lower >> 160  # the largest weight that epsilon 1 allows beside `low`
    weights = [[low, TOTAL - low], [high, TOTAL - high]]
    text = rb.certify(rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 1), weights=weights), epsilon=1.0).to_json()
    assert rb.verify(text)
    assert rb.verify(changed(text, lambda data: moved(data, 2, 3)))
    with pytest.raises(rb.CertificateInvalid, match="not true of this table"):
        rb.verify(changed(text, lambda data: moved(data, 3, 2)))


def test_a_claim_that_takes_too_long_to_check_is_refused(monkeypatch):
    monkeypatch.setattr(pair_numbers, "WORK", 3)
    with pytest.raises(rb.ArgumentError, match="at most 3 comparisons"):
        rb.certify(FLIP, epsilon=0.5, delta=0.3)
    assert rb.certify(FLIP, epsilon=2.0, delta=0.3)  # pure already


def test_a_claim_closer_than_160_binary_places_is_undecided(monkeypatch):
    epsilon = FLIP.epsilon()
    monkeypatch.setattr(pair_numbers, "exponential", lambda _: whole.Exponential(3 << 160, 3.0))
    found = FLIP._refutation(rb.Claim(epsilon=epsilon))
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


def lattice(steps, count):
    return np.minimum(np.arange(count) + steps, count - 1)


def stairs(count, steps, epsilon):
    """Laws that fall by e^-epsilon every `steps` inputs: private at 2 epsilon and a little less."""
    places = np.arange(count)
    rows = np.exp(-epsilon * np.ceil(np.abs(places[:, None] - places) / steps))
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([[TOTAL, 0], [TOTAL - 1, 0]], "row 1 must sum to 2"),
        ([[TOTAL, 0], [TOTAL, 1]], "row 1 must sum to 2"),
        ([[TOTAL, TOTAL], [TOTAL, 0]], "row 0 must sum to 2"),
        ([[TOTAL + 1, -1], [TOTAL, 0]], "must lie between 0 and 2"),
        ([[TOTAL, 0]], "must have a row for each input"),
        ([[TOTAL, 0], [TOTAL]], "must have a row for each input"),
        ([[0.5, 0.5], [0.5, 0.5]], "must be whole numbers"),
        ([["a", "b"], ["a", "b"]], "must be whole numbers"),
    ],
)
def test_other_weights_are_refused(weights, words):
    with pytest.raises((rb.ArgumentError, rb.ArgumentTypeError), match=words):
        whole_weights("weights", weights, (2, 2))


def test_extremes_are_those_of_the_windows():
    rng = np.random.default_rng(1)
    for _ in range(30):
        count = int(rng.integers(1, 20))
        reach = np.minimum(np.maximum.accumulate(np.arange(count) + rng.integers(0, 9, count)), count - 1)
        weights = rng.integers(0, 100, (count, 3))
        largest, smallest = whole.extremes(weights, reach)
        for i in range(count):
            window = weights[i : reach[i] + 1]
            assert largest[i].tolist() == window.max(axis=0).tolist()
            assert smallest[i].tolist() == window.min(axis=0).tolist()


@pytest.mark.few(20)
@pytest.mark.parametrize("seed", range(40))
def test_the_window_check_is_that_of_all_pairs(seed):
    table = random_table(np.random.default_rng(seed))
    pairs = brute_force.neighbouring_inputs(table.inputs, table.query.range.spans, table.query.sensitivity)
    ratio = brute_force.ratio(table.weights.tolist(), pairs)
    pure = table.epsilon()
    finite = ratio != math.inf
    assert table.is_private(pure if finite else 700.0) == finite
    assert pure == 0.0 or not table.is_private(math.nextafter(math.nextafter(min(pure, 700.0), 0.0), 0.0))
    assert pure == 0.0 or not table.is_private(0.99 * min(pure, 700.0))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
@pytest.mark.parametrize(("count", "steps"), [(5, 1), (41, 4), (60, 7)])
def test_private_weights_are_private_and_near(epsilon, count, steps):
    reach = lattice(steps, count)
    matrix = stairs(count, steps, epsilon / 2.0)
    found = whole.private_weights(matrix, reach, Fraction(epsilon))
    assert [sum(row) for row in found.tolist()] == [TOTAL] * count
    assert epsilon_private(found, reach, Fraction(epsilon))
    assert np.abs(found / TOTAL - matrix).max() < 1e-12
    # With a claim that the matrix does not meet, the uniform law is mixed in, and no more of it than that takes.
    pure = max(np.log(matrix[i] / matrix[j]).max() for i in range(count) for j in range(i, reach[i] + 1))
    claim = Fraction(pure) * 3 / 4
    tight = whole.private_weights(matrix, reach, claim)
    assert epsilon_private(tight, reach, claim)
    assert not epsilon_private(tight, reach, claim * Fraction(99, 100))


def test_rounding_keeps_zeros_and_stays_within_units():
    rng = np.random.default_rng(2)
    matrix = rng.random((50, 33)) ** 6
    matrix[:, 5] = 0.0
    matrix /= matrix.sum(axis=1, keepdims=True)
    found = rounded(matrix)
    assert [sum(row) for row in found.tolist()] == [TOTAL] * 50
    assert not found[:, 5].any()
    # A double near 1/4 is itself only known to 2^-55: some hundred units.
    assert np.abs(found - matrix * TOTAL).max() <= 1024
    small = np.array([[1e-30, 1.0 - 1e-30]])
    assert rounded(small).tolist() == [[0, TOTAL]]


def test_weights_as_text_come_back_and_other_texts_do_not():
    weights = rounded(np.random.default_rng(3).random((4, 3)))
    text = whole.to_text(weights)
    assert whole.from_text(text, (4, 3)).tolist() == weights.tolist()
    for wrong in (text[:-4], text + "AAAA", text.replace("A", "!", 1), text[1:], "é" + text, text + "\n", ""):
        with pytest.raises(rb.ArgumentError):
            whole.from_text(wrong, (4, 3))
    with pytest.raises(rb.ArgumentTypeError):
        whole.from_text(3, (4, 3))
