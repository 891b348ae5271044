"""Queries: a range, a sensitivity, and clipping."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangebound as rb

INF = math.inf
INTERVAL = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
UNION = rb.Query(range=rb.Union((0, 1), (2, 3), (5, 9)), sensitivity=1.0)
HALF = rb.Query(range=rb.Interval(-INF, 10), sensitivity=1.0)
finite = st.floats(-1e300, 1e300)


@pytest.mark.parametrize("query", [INTERVAL, UNION, HALF], ids=repr)
def test_a_query_is_a_value(query):
    for field in dataclasses.fields(query):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(query, field.name, 1.0)
    for twin in (copy.deepcopy(query), pickle.loads(pickle.dumps(query)), dataclasses.replace(query)):
        assert twin == query
        assert hash(twin) == hash(query)


def test_queries_differ_by_range_and_by_sensitivity():
    other = rb.Query(range=rb.Interval(0, 10), sensitivity=2.0)
    assert len({INTERVAL, UNION, HALF, other, rb.Query(range=rb.Interval(0, 10), sensitivity=1)}) == 4


def test_sensitivities_that_are_cut_to_the_width_make_the_same_query():
    assert rb.Query(range=rb.Interval(0, 10), sensitivity=11) == rb.Query(range=rb.Interval(0, 10), sensitivity=10)


@pytest.mark.parametrize("sensitivity", [1.0, 10.0, 1e300])
def test_an_unbounded_range_cuts_no_sensitivity(sensitivity):
    for answers in (rb.Interval(0, INF), rb.Interval(-INF, INF), rb.Union((-INF, 0), (1, 2))):
        assert rb.Query(range=answers, sensitivity=sensitivity).sensitivity == sensitivity


@given(finite)
def test_clipping_to_an_interval_is_the_nearest_point(answer):
    assert INTERVAL.clip(answer) == min(max(answer, 0.0), 10.0)
    assert HALF.clip(answer) == min(answer, 10.0)


@given(finite, finite)
def test_clipping_to_an_interval_moves_no_two_answers_apart(one, other):
    a, b = INTERVAL.clip([one, other])
    assert abs(a - b) <= abs(one - other)


@given(st.floats(-20, 20))
def test_clipping_to_a_union_is_the_nearest_span(answer):
    clipped = float(UNION.clip(answer))
    spans = UNION.range.spans
    assert any(lower <= clipped <= upper for lower, upper in spans)
    nearest = min(max(lower - answer, answer - upper, 0.0) for lower, upper in spans)
    assert abs(clipped - answer) == pytest.approx(nearest, abs=1e-15)


@given(st.lists(st.floats(-20, 20), max_size=6))
def test_clipping_many_is_clipping_each_once(answers):
    for query in (INTERVAL, UNION, HALF):
        clipped = query.clip(answers)
        assert clipped.tolist() == [float(query.clip(answer)) for answer in answers]
        assert query.clip(clipped).tolist() == clipped.tolist()


def test_clipping_keeps_the_shape_and_the_input():
    answers = np.array([[-5.0, 5.0], [15.0, 1.5]])
    before = answers.copy()
    assert INTERVAL.clip(answers).shape == (2, 2)
    assert UNION.clip(answers).shape == (2, 2)
    assert (answers == before).all()
