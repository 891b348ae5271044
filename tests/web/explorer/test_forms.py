"""The plan of one number says what the form says."""

import math

import pytest

from rangebound.errors import ArgumentError
from rangebound.release import parse_plan
from rangebound.release.prepare import prepare
from rangebound.web.explorer.forms import Asked, OneNumber


@pytest.mark.parametrize(
    ("data", "sensitivity", "support"),
    [
        ({}, 1, (0.0, 100.0)),
        ({"rows": 3}, 3, (0.0, 100.0)),
        ({"upper": None}, 1, (0.0, math.inf)),
        ({"kind": "sum", "lower": -5, "upper": 20, "rows": 2}, 40, (-math.inf, math.inf)),
    ],
)
def test_a_form_becomes_a_plan(data, sensitivity, support):
    plan = OneNumber(**data).plan()
    assert parse_plan(plan.to_toml()) == plan
    assert prepare(plan).allocation.sensitivities[0].cell == sensitivity
    hull = plan.query[0].published_in(plan.unit_of(plan.query[0])).hull
    assert (hull.lower, hull.upper) == support


@pytest.mark.parametrize(
    "data",
    [
        7,
        {"odd": 1},
        {"kind": "median"},
        {"rows": 0},
        {"rows": 1.5},
        {"rows": True},
        {"lower": "0"},
        {"lower": None},
        {"lower": 5, "upper": 5},
        {"kind": "mean", "upper": None},
        {"upper": math.inf},
    ],
)
def test_a_form_that_says_nothing_clear_is_refused(data):
    with pytest.raises(ArgumentError, match="number"):
        Asked.read({"number": data})
