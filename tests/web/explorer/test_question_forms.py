"""What the page sends is read strictly, and the plan of one number says what its form says."""

import math

import pytest

from rangebound.errors import ArgumentError
from rangebound.release import parse_plan
from rangebound.release.prepare import prepare
from rangebound.web.explorer.question_forms import Asked, OneNumber


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


REFUSED = {
    "changes": [
        *(7, {"odd": 1}, {"epsilon": True}, {"epsilon": math.nan}, {"weights": [1]}, {"weights": {"visits": None}}),
        *({"margins": {"visits": "1"}}, {"rows": 0}, {"groups": 2.0}),
    ],
    "form": [
        *(7, {"kind": "odd"}, {"kind": "count", "odd": 1}, {"kind": "mean", "column": "age"}),
        *({"kind": "mean", "lower": 0, "upper": 1}, {"kind": "mean", "column": "age", "lower": "0", "upper": 1}),
        *({"kind": "mean", "column": "age", "lower": True, "upper": 1}, {"kind": "count", "by": 7}),
        {"kind": "count", "keys": "x" * 1001},
    ],
    "number": [
        *(7, {"odd": 1}, {"kind": "median"}, {"rows": 0}, {"rows": 1.5}, {"rows": True}, {"lower": "0"}),
        *({"lower": None}, {"lower": 5, "upper": 5}, {"kind": "mean", "upper": None}, {"upper": math.inf}),
    ],
}


@pytest.mark.parametrize(("field", "data"), [(field, each) for field, some in REFUSED.items() for each in some])
def test_what_says_nothing_clear_is_refused(field, data):
    with pytest.raises(ArgumentError, match=field):
        Asked.read({field: data})
