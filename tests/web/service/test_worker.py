"""Bodies and plans of clients: plain data or a refusal, whatever the bytes are."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rangebound.errors import ArgumentError, PlanError
from rangebound.web.gate import plain_data
from rangebound.web.service.worker import canonical_plan, source_of


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_a_refusal(body):
    with suppress(ArgumentError):
        assert isinstance(plain_data(body), dict)


leaves = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
trees = st.recursive(
    leaves | st.text(st.characters(exclude_categories=["Cs"])),
    lambda one: st.lists(one) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), one),
)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from(["id", "plan", "source"]), trees))
def test_an_object_comes_through_as_it_was_sent(data):
    assert plain_data(json.dumps(data).encode()) == data


def test_two_equal_plans_have_one_form():
    assert canonical_plan({"a": 1, "b": [2]}) == canonical_plan({"b": [2], "a": 1})
    assert canonical_plan("a = 1") != canonical_plan({"a": 1})
    for wrong in (None, 5, "", " ", {}, [], True):
        with pytest.raises(ArgumentError, match="plan: must be"):
            canonical_plan(wrong)


def test_a_plan_names_a_source_by_its_public_name_alone():
    assert source_of(canonical_plan("[source]\ntable = 'visits'")) == "visits"
    assert source_of(canonical_plan({"source": {"table": "visits"}})) == "visits"
    assert source_of(canonical_plan("title = 'x'")) is None
    for wrong in ({"path": "a.csv"}, {"table": "t", "path": "a"}, {"table": 5}, "visits.csv", [], 5):
        with pytest.raises(PlanError, match="public name"):
            source_of(canonical_plan({"source": wrong}))
