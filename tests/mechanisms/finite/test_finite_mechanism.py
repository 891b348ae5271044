"""Tables as values: what they are made of, how they are written, and their errors against plain sums."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.mechanisms.finite import TOTAL
from tests.mechanisms.finite.brute_force import nearest
from tests.mechanisms.finite.random_tables import random_table

BIT = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
FLIP = [[3 * 2**60, 2**60], [2**60, 3 * 2**60]]


def flip(**changes):
    return rb.Table(**{"query": BIT, "inputs": (0, 1), "outputs": (0, 1), "weights": FLIP, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"query": 3}, "query=3: must be a Query"),
        ({"inputs": (1, 0)}, "inputs=.*must ascend"),
        ({"inputs": (0, 0)}, "inputs=.*must ascend"),
        ({"inputs": ()}, "at least one number"),
        ({"inputs": 3.0}, "at least one number"),
        ({"outputs": (0, math.nan)}, "outputs"),
        ({"outputs": (0, 1, 2)}, "must have a row for each input"),
        ({"weights": [[TOTAL, 0], [TOTAL - 1, 0]]}, "row 1 must sum to 2"),
        ({"weights": [[TOTAL, TOTAL], [TOTAL, 0]]}, "row 0 must sum to 2"),
        ({"weights": [[TOTAL + 1, -1], [TOTAL, 0]]}, "must lie between 0 and 2"),
        ({"weights": [[TOTAL, 0], [TOTAL]]}, "must have a row for each input"),
        ({"weights": [[0.5, 0.5], [0.5, 0.5]]}, "must be whole numbers"),
        ({"weights": [["a", "b"], ["a", "b"]]}, "must be whole numbers"),
        ({"inputs": (0, 5)}, "no answer of the range"),
    ],
)
def test_what_is_wrong_is_refused_once(changes, words):
    with pytest.raises(rb.RangeboundError, match=words):
        flip(**changes)


def test_a_table_is_a_value():
    table = flip()
    assert table == flip()
    assert hash(table) == hash(flip())
    assert table != flip(outputs=(0, 2))
    assert table != flip(weights=[[2**61, 2**61]] * 2)
    assert table != 3
    with pytest.raises(ValueError, match="read-only"):
        table.weights[0, 0] = 0
    given = np.array(FLIP)
    kept = flip(weights=given)
    given[0] = [2**62, 0]
    assert kept == table


def test_a_claim_is_carried_and_no_part_of_the_table():
    claimed = flip().with_claim(rb.Claim(epsilon=1.2))
    assert claimed == flip()
    assert claimed.claim == rb.Claim(epsilon=1.2)
    assert dataclasses.replace(claimed, outputs=(0, 2)).claim is None
    with pytest.raises(rb.ArgumentError, match="not metric-private"):
        flip().with_claim(rb.Claim(epsilon=1.2, notion="metric"))
    with pytest.raises(rb.ArgumentTypeError, match=r"claim=1\.2"):
        flip().with_claim(1.2)


@pytest.mark.parametrize("seed", range(30))
def test_json_comes_back_and_law_and_errors_are_plain_sums(seed):
    """At some answers, and the worst and the average error over a fine scan."""
    rng = np.random.default_rng(seed)
    table = random_table(rng).with_claim(rb.Claim(epsilon=1.0, delta=0.5))
    again = rb.Table.from_json(table.to_json())
    assert again == table
    assert again.claim == table.claim
    answers = np.concatenate([rng.uniform(lo, hi, 5) for lo, hi in table.query.range.spans])
    found = table.error(answers)
    for at, answer in enumerate(answers.tolist()):
        row = table.weights[nearest(table.inputs, Fraction(answer))] / TOTAL
        offset = np.asarray(table.outputs) - answer
        assert table.law(answer).atoms[1].tolist() == row.tolist()
        assert found.bias[at] == pytest.approx(row @ offset, abs=1e-12)
        assert found.mae[at] == pytest.approx(row @ np.abs(offset), rel=1e-12)
        assert found.mse[at] == pytest.approx(row @ offset**2, rel=1e-12)
        assert table.error(answer).mae == found.mae[at]
    fine = np.concatenate([np.linspace(lo, hi, int((hi - lo) * 2000) + 2)[1:-1] for lo, hi in table.query.range.spans])
    scan, worst, average = table.error(fine), table.worst_error(), table.average_error()
    for name in ("bias", "mae", "mse"):
        values = np.abs(getattr(scan, name))
        assert getattr(worst, name) >= values.max() * (1 - 1e-12)
        assert getattr(worst, name) == pytest.approx(values.max(), rel=0.02, abs=0.02)
        assert getattr(average, name) == pytest.approx(values.mean(), rel=0.02, abs=0.02)


def test_json_holds_the_words_of_the_weights():
    data = json.loads(flip().to_json())
    assert sorted(data) == ["table"]
    assert sorted(data["table"]) == ["inputs", "outputs", "query", "weights"]
    assert data["table"]["weights"] == "AAAAAAAAADAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAADA="


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["table"].pop("weights"),
        lambda data: data["table"].update(more=1),
        lambda data: data.update(more=1),
        lambda data: data["table"].update(weights="AAAA"),
        lambda data: data["table"].update(inputs=[0.0]),
        lambda data: data["table"].update(inputs=["0", 1.0]),
        lambda data: data["table"]["query"].update(sensitivity="1"),
        lambda data: data["table"]["query"].update(more=1),
        lambda data: data.update(claim={"epsilon": 1.0}),
        # One unit moved within a row: the first word is 3 * 2^60 - 1.
        lambda data: data["table"].update(weights="////////" + data["table"]["weights"][8:]),
    ],
)
def test_json_that_was_changed_is_refused(change):
    data = json.loads(flip().to_json())
    change(data)
    with pytest.raises(rb.RangeboundError):
        rb.Table.from_json(json.dumps(data))
    for text in ("[]", "{}", "", flip().to_json()[:-1], b"{}"):
        with pytest.raises(rb.RangeboundError):
            rb.Table.from_json(text)


def test_an_endless_range_has_infinite_errors_and_no_average():
    table = flip(query=rb.Query(range=rb.Interval(0, math.inf), sensitivity=1.0))
    assert table.worst_error().mae == math.inf
    with pytest.raises(rb.ArgumentError, match="must be bounded"):
        table.average_error()


def test_from_probabilities_refuses_what_are_none():
    rows = [[0.5, 0.5], [0.5, 0.5]]

    def made(**changes):
        given = {"query": BIT, "inputs": (0, 1), "outputs": (0, 1), "probabilities": rows, **changes}
        return rb.Table.from_probabilities(**given)

    assert made().epsilon() == 0.0
    assert made(epsilon=0.5).claim == rb.Claim(epsilon=0.5)
    for wrong in ([[0.5, 0.5]], [[1.5, -0.5], [0.5, 0.5]], [[0.5, 0.6], [0.5, 0.5]], [[math.nan, 1.0], [0.5, 0.5]]):
        with pytest.raises(rb.ArgumentError, match="probabilities"):
            made(probabilities=wrong)
    with pytest.raises(rb.Unsatisfiable):
        made(probabilities=[[1.0, 0.0], [0.0, 1.0]], epsilon=0.0)
    assert made(probabilities=[[1.0, 0.0], [0.0, 1.0]], epsilon=Fraction(1, 3)).is_private(Fraction(1, 3))


def test_a_tie_goes_up_even_where_doubles_round_it_away():
    inputs = (0.1, 0.3)
    table = rb.Table(query=BIT, inputs=inputs, outputs=(0, 1), weights=[[2**62, 0], [0, 2**62]])
    middle = (Fraction(inputs[0]) + Fraction(inputs[1])) / 2
    for answer in (0.19999999999999998, 0.2, 0.20000000000000004):
        assert table.law(answer).mean.item() == float(Fraction(answer) >= middle)


def test_a_table_on_a_grid_has_neighbours_and_errors_at_its_points():
    shares = rb.Query(range=rb.Grid(step=0.01, within=rb.Interval(0, 1)), sensitivity=0.05)
    points = shares.range.points
    rows = np.exp(-np.ceil(np.abs(np.subtract.outer(np.arange(101), np.arange(101))) / 5))
    rows /= rows.sum(axis=1, keepdims=True)
    table = rb.Table.from_probabilities(query=shares, inputs=points, outputs=points, probabilities=rows, epsilon=2.0)
    assert table.reach.tolist() == [min(i + 5, 100) for i in range(101)]
    assert rb.Table.from_json(table.to_json()) == table
    assert len(repr(table)) < 200
    assert rb.verify(rb.certify(table).to_json()).epsilon == 2.0
    at_points = table.error(points)
    assert table.worst_error().mae == pytest.approx(at_points.mae.max(), rel=1e-12)
    assert table.average_error().mse == pytest.approx(at_points.mse.mean(), rel=1e-12)
    assert set(table.release(np.full(200, 0.57)).tolist()) <= set(points.tolist())
    assert table.release(0.57) in points
