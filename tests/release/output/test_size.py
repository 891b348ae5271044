"""The size of a table follows from its plan: what a ledger cannot keep is refused before the charge."""

import random

import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.ledger import book as ledger_module
from rangebound.ledger.book import Ledger
from rangebound.release import check_certificate, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.noise.draw import Cell
from rangebound.release.output import ledger_entry
from rangebound.release.output.table import Release
from rangebound.release.output.table_certificate import write_certificate
from rangebound.release.prepare import prepare
from tests.release.output.asked import asked
from tests.release.plans import SUPPORTED

COUNT = {"kind": "count", "mechanism": "rectify Laplace"}
LONG = [f"a{at:03d}" + "x" * 56 for at in range(100)]


def test_a_table_over_the_limit_of_the_ledger_is_refused_before_the_charge(tmp_path, monkeypatch):
    monkeypatch.setattr("rangebound.release.run.aggregated", lambda *_: pytest.fail("the table was read"))
    keys = {"a": LONG, "b": [each.replace("a", "b") for each in LONG]}
    large = asked(*[{"by": ["a", "b"], **COUNT}] * 110, budget={"epsilon": 1.0, "account": "people"}, keys=keys)
    table = pa.table({"a": LONG[:1], "b": LONG[:1]})
    with Ledger.create(tmp_path / "l.ledger") as ledger, DuckDB(table) as engine:
        ledger.open_account("people", epsilon=1)
        for _ in range(2):
            with pytest.raises(PlanError, match=r"query: the table may have \d+ bytes, and a ledger keeps at most"):
                release(large, engine, ledger=ledger, request="r")
        assert str(ledger.account("people").remaining) == "epsilon 1"
        assert not [each for each in ledger.history() if each.request == "r"]


def worst(plan, keys, publishers):
    """The cells of a table of the plan in which every number is as long as a number can be."""
    numbers = dict.fromkeys(("value", "lower", "upper", "epsilon", "delta", "rank_error"), -1.7976931348623157e308)
    cells = []
    for index, question in enumerate(plan.query):
        draws = (-1.7976931348623157e308,) * max(publishers[index].width, 3)
        for key in keys if question.by else [()]:
            cells += [Cell(question=index, key=key, part=each, draws=draws, **numbers) for each in question.parts]
    return cells


@pytest.mark.few(1)
@pytest.mark.parametrize("plans", [1, 6, pytest.param(60, marks=pytest.mark.long)])
def test_the_bound_holds_and_is_near(plans):
    chance = random.Random(5)
    for _ in range(plans):
        keys = sorted({"".join(chance.choices('ab"\\\n\u00e9\u4e2d\U0001f600', k=9)) for _ in range(4)})
        query = [{**chance.choice(SUPPORTED), "by": chance.choice([[], ["g"]])} for _ in range(chance.randint(1, 4))]
        used = {"g": keys} if any(each["by"] for each in query) else {}
        budget = {"epsilon": 1.0, "delta": 1e-6, "account": "people"}
        plan = asked(*query, unit={"column": "person", "rows": 2}, budget=budget, keys=used)
        ready = prepare(plan)
        cells = worst(plan, [(each,) for each in keys], ready.publishers)
        made = Release(plan=plan, cells=tuple(cells), mechanisms=ready.mechanisms)
        bound = ledger_entry.PAYLOAD_LIMIT - ledger_entry.check_size(ready)
        assert len(made.to_bytes()) <= bound + 60 * len(made.cells)  # here every cell has three draws at least
        slack = bound - len(made.to_bytes())
        assert slack <= len(made.cells) + 60 * len(made.cells)


def test_keys_without_room_are_left_out_and_the_table_is_stored(tmp_path, monkeypatch):
    plan = asked({"by": ["g"], **COUNT}, COUNT, budget={"epsilon": 50.0, "delta": 0.4, "account": "people"})
    table = pa.table({"g": [f"{at:03d}" for at in range(100) for _ in range(30)]})
    whole = release(plan, table, ledger=None)
    assert len(whole.cells) == 101
    limit = len(whole.to_bytes()) - 8000
    monkeypatch.setattr(ledger_entry, "PAYLOAD_LIMIT", limit)
    monkeypatch.setattr(ledger_module, "PAYLOAD_LIMIT", limit)
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account("people", epsilon=50, delta="0.4")
        made = release(plan, table, ledger=ledger, request="r")
    keys = [each.key[0] for each in made.cells if each.key]
    assert 1 < len(keys) < 100
    assert keys == [f"{at:03d}" for at in range(len(keys))]
    assert len(made.to_bytes()) <= limit
    check_certificate(made.certificate, made.to_bytes())


def test_keys_are_not_ranked_that_are_left_out_elsewhere():
    ranks = [{"kind": "top k", "column": "g", "k": k} for k in (20, 5)]
    plan = asked({"by": ["g"], **COUNT}, *ranks, epsilon=50.0, delta=0.4)
    ready = prepare(plan)
    table = pa.table({"g": [f"{at:03d}" for at in range(50) for _ in range(30 + (17 * at) % 50)]})
    whole = release(plan, table, ledger=None)
    for room in (12_000, 7_000, 3_000):
        cells = ledger_entry.fitting(ready, whole.cells, room)
        counted = {each.key for each in cells if each.question == 0}
        assert len(counted) < 50
        for at, k in ((1, 20), (2, 5)):
            ranked = [each for each in cells if each.question == at]
            assert {each.key for each in ranked} <= counted
            assert [each.part for each in ranked] == [str(rank + 1) for rank in range(min(k, len(counted)))]
        made = Release(plan=plan, cells=tuple(cells), mechanisms=ready.mechanisms)
        check_certificate(write_certificate(made, ready, None), made.to_bytes())
