"""A plan that could never be answered is refused before its account pays."""

import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import explain, make_plan, release
from tests.release.plans import SUPPORTED, plan_data

X = {"name": "q", "column": "x", "range": [0, 10]}
HOPELESS = {
    "step of a sum": {"query": [{**X, "kind": "sum", "step": 1 / 3}]},
    "step of private groups": {"query": [{**X, "kind": "sum", "step": 1 / 3, "by": ["k"]}]},
    "level": {"level": 0.9999999999999999, "query": [{**X, "kind": "mean"}]},
    "tiny step": {"query": [{**X, "kind": "mean", "step": 1e-310}]},
}


@pytest.mark.parametrize("name", HOPELESS)
def test_what_cannot_be_drawn_is_refused_before_the_charge(tmp_path, name):
    plan = make_plan({"budget": {"epsilon": 1.0, "delta": 1e-6, "account": "people"}, **HOPELESS[name]})
    with pytest.raises(PlanError, match=r"query\[0\]: no number can be drawn") as caught:
        explain(plan)
    assert caught.value.field == "query[0]"
    with Ledger.create(tmp_path / "l.ledger") as book:
        book.open_account("people", epsilon=2, delta="1e-5")
        with pytest.raises(PlanError, match=r"query\[0\]: no number can be drawn"):
            release(plan, pa.table({"x": [1.0, 2.0], "k": ["a", "b"]}), ledger=book, request="one")
        assert str(book.account("people").spent) == "epsilon 0"


def test_control_sound_plans_pass():
    assert explain(make_plan(plan_data([], SUPPORTED, unit={"column": "person"})))
    assert explain(make_plan(plan_data(["clinic"], SUPPORTED, unit={"column": "person"})))
