"""Mechanisms as values: frozen, hashable, equal by their parts, and back from plain data as they were."""

import copy
import dataclasses
import json
import math
import pickle

import numpy as np
import pytest

import rangebound as rb
from rangebound.mechanisms import mechanism as module
from rangebound.privacy.worst import Worst

INF = math.inf
COUNT = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
GRID = rb.Grid(step=0.1, within=rb.Interval(0, 10))
MECHANISMS = {
    "interval": rb.Mechanism(noise=rb.Laplace(scale=2.0), query=COUNT),
    "odd numbers": rb.Mechanism(
        noise=rb.Gaussian(scale=math.pi), query=rb.Query(range=rb.Interval(-1 / 3, 1e300), sensitivity=0.1)
    ),
    "half-line": rb.Mechanism(
        noise=rb.Laplace(scale=1 / 7), query=rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
    ),
    "line": rb.Mechanism(noise=rb.TruncatedLaplacian(scale=1.0, limit=9.2), query=COUNT, bounding=rb.UNBOUNDED),
    "clamped": rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=COUNT, bounding=rb.RECTIFY),
    "rounded": rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=COUNT, support=GRID, bounding=rb.QUANTIZE),
    "union": rb.Mechanism(
        noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Union((-INF, 0), (1, 2)), sensitivity=1.0)
    ),
    "elsewhere": rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=COUNT, support=rb.Interval(20, 30)),
}
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)


@every_mechanism
def test_a_mechanism_is_frozen_and_survives_copying_pickling_and_json(mechanism):
    for part in (mechanism, mechanism.noise, mechanism.query):
        for field in dataclasses.fields(part):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(part, field.name, getattr(part, field.name))
    data = mechanism.to_dict()
    data["noise"]["scale"] = -1.0
    data["support"].clear()
    before = hash(mechanism)
    _ = mechanism.setting, mechanism.law(1.0)
    twins = [
        copy.copy(mechanism),
        copy.deepcopy(mechanism),
        pickle.loads(pickle.dumps(mechanism)),
        dataclasses.replace(mechanism),
        rb.Mechanism.from_dict(mechanism.to_dict()),
        rb.Mechanism.from_dict(json.loads(json.dumps(mechanism.to_dict(), allow_nan=False))),
    ]
    for twin in twins:
        assert twin == mechanism
        assert hash(twin) == hash(mechanism) == before
        assert repr(twin) == repr(mechanism)


def test_a_support_that_is_left_out_is_the_range_or_the_line():
    assert MECHANISMS["interval"].support == COUNT.range
    assert MECHANISMS["line"].support == rb.Interval(-INF, INF)
    assert MECHANISMS["interval"] == dataclasses.replace(MECHANISMS["interval"], support=COUNT.range)


def test_a_law_cannot_be_changed_from_outside():
    answers = np.array([1.0, 2.0])
    law = MECHANISMS["interval"].law(answers)
    before = law.cdf(1.5).tolist()
    answers[0] = 9.0
    assert law.cdf(1.5).tolist() == before
    with pytest.raises(ValueError, match="read-only"):
        law.location[0] = 9.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        law.location = answers


def test_a_value_outside_the_range_is_clipped_to_it():
    mechanism = MECHANISMS["interval"]
    assert mechanism.error(-5.0) == mechanism.error(0.0)
    assert mechanism.fisher(50.0) == mechanism.fisher(10.0)
    assert mechanism.law(1e300).cdf(5.0) == mechanism.law(10.0).cdf(5.0)


@every_mechanism
def test_arrays_are_answered_one_by_one(mechanism):
    answers = [[0.0, 1.0], [5.5, 10.0]]
    law, error, fisher = mechanism.law(answers), mechanism.error(answers), mechanism.fisher(answers)
    assert np.shape(error.mae) == np.shape(fisher) == np.shape(law.mean) == (2, 2)
    for i in range(2):
        for j in range(2):
            one = mechanism.error(answers[i][j])
            close = {"rel": 1e-9, "abs": 1e-11 * one.mae}
            assert error.bias[i, j] == pytest.approx(one.bias, **close)
            assert error.mae[i, j] == pytest.approx(one.mae, **close)
            assert error.mse[i, j] == pytest.approx(one.mse, rel=1e-9)
            assert fisher[i, j] == mechanism.fisher(answers[i][j])


def test_a_curve_is_its_points():
    mechanism = MECHANISMS["interval"]
    orders = np.array([[1.5, 2.0], [8.0, INF]])
    curve = mechanism.rdp(orders)
    assert curve.shape == (2, 2)
    assert curve.reshape(-1).tolist() == [mechanism.rdp(float(order)) for order in orders.reshape(-1)]
    assert curve[1, 1] == mechanism.epsilon()


@pytest.mark.parametrize(
    ("search", "ask"),
    [
        ("worst_epsilon", lambda m: m.epsilon(0.01)),
        ("worst_epsilon", lambda m: m.epsilon()),
        ("worst_delta", lambda m: m.delta(0.5)),
        ("worst_renyi", lambda m: m.rdp(2.0)),
        ("worst_renyi", lambda m: m.rdp([2.0, 3.0])),
        ("worst_renyi", lambda m: m.rdp(INF)),
    ],
    ids=["epsilon", "pure", "delta", "rdp", "curve", "order inf"],
)
def test_a_search_that_ended_open_is_never_published_as_closed(search, ask, monkeypatch):
    mechanism, pair = MECHANISMS["interval"], (0.0, 1.0)
    for lower, upper in ((0.25, 0.25), (0.25, 0.25 * (1.0 + 9e-7)), (INF, INF), (0.0, 0.0), (0.0, 1e-301)):
        found = Worst(lower, upper, pair)
        assert found.closed
        monkeypatch.setattr(module, search, lambda *_, found=found: found)
        assert np.all(ask(mechanism) == min(upper, 1.0 if search == "worst_delta" else INF))
    for lower, upper in ((0.25, 0.25 * (1.0 + 1.1e-6)), (0.0, 0.5), (0.25, INF), (0.0, 1e-20)):
        found = Worst(lower, upper, pair)
        assert not found.closed
        monkeypatch.setattr(module, search, lambda *_, found=found: found)
        with pytest.raises(rb.Undecided, match=f"between {lower} and {upper}") as caught:
            ask(mechanism)
        assert (caught.value.lower, caught.value.upper) == (lower, upper)
