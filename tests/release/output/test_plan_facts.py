"""What a number is of: every form of a table says it, and what the words leave out did not happen."""

import json

import pytest

from rangebound.errors import ArgumentError
from rangebound.release import Release, explain
from rangebound.release.output.plan_facts import scope, scope_lines, scopes
from tests.release.output.asked import asked, forms, released, report

KEYS = {"place": ["a", "b", "c"]}
WHO = {"column": "who"}
COUNT, X = {"kind": "count"}, {"column": "x", "range": [0, 20]}
BY, GAPS = {**COUNT, "by": ["place"]}, [[0, 5], [10, 20]]
FLIGHTS = {"name": "flights", "kind": "sum", "column": "minutes", "range": [0, 500], "by": ["place"]}


def test_every_form_of_the_table_says_what_its_numbers_are_of():
    """The flights of one maker, with ten rows a plane."""
    plan = asked(FLIGHTS, unit={**WHO, "rows": 10, "groups": 2}, keys=KEYS, title="planes")
    made = released(plan, {"who": [1, 1, 2], "place": ["a", "b", "a"], "minutes": [1.0, 2.0, 900.0]})
    (said,) = scopes(plan)
    cut = "groups per 'who' cut at 2, rows per 'who' and group cut at 10, values clipped to 0 to 500, "
    assert said.startswith(cut)
    for form in forms(made):
        assert {row["scope"] for row in form} == {said}
    assert json.loads(made.to_bytes())["scopes"] == [said]
    assert f"  flights: {said}" in str(made).splitlines()
    assert f"  of: {said}" in explain(plan).splitlines()
    escaped = said.replace("'", "&#x27;")
    assert f"flights: {escaped}</p>" in made._repr_html_()
    assert f"<p class=scope>Of: {escaped}.</p>" in report(made)


def test_nothing_is_said_where_nothing_is_cut():
    plan = asked({"kind": "count"})
    assert scopes(plan) == ("",)
    assert scope_lines(plan) == []
    made = released(plan, {"x": [1]})
    assert "noise alone" not in str(made)
    assert "  of:" not in explain(plan)
    assert "class=scope" not in report(made)


@pytest.mark.parametrize(
    ("plan", "has", "lacks"),
    [
        (asked(BY, unit={**WHO, "groups": 3}, keys=KEYS), "", "groups"),  # there are no more
        (asked(BY, unit={**WHO, "groups": 2}, keys=KEYS), "groups per 'who' cut at 2", "100"),
        (asked(BY, unit={**WHO, "groups": 100}, delta=1e-6), "groups per 'who' cut at 100", "clipped"),
        (asked({"kind": "count of units"}, unit={**WHO, "rows": 2}), "rows without 'who'", "cut at"),
        (asked({"kind": "mean", **X}), "missing values left out", "moved"),
        (asked({"kind": "mean", **X, "missing": 3}), "missing values counted as 3", "left out"),
        (asked({"kind": "mean", **X, "range": [-0.1234567, 7654321.5]}), "clipped to -0.1234567 to 7654321.5", "e+"),
        (asked({**COUNT, "support": GAPS}), "answer moved into 0 to 20", ","),
        (asked({"kind": "mean", **X, "support": GAPS}), "clipped to 0 to 20", "moved"),
        (asked({"kind": "minimum", **X}), "quantile at level 0.01, ", "moved"),
        (asked({"kind": "maximum", **X}), "quantile at level 0.99, ", "moved"),
    ],
)
def test_what_moves_an_answer_is_named_and_a_limit_that_cannot_bind_is_not(plan, has, lacks):
    said = scope(plan, 0)
    assert has in said
    assert lacks not in said


def test_a_table_of_the_first_version_is_refused_with_the_reason():
    old = released(asked(COUNT), {"x": [1]}).to_bytes().replace(b"rangebound release 2", b"rangebound release 1")
    with pytest.raises(ArgumentError, match=r"published by version 0\.1"):
        Release.from_bytes(old)
