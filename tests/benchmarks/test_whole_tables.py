"""Tables and single numbers: what is measured agrees with the forecast, and peers get the best of what they offer."""

import math
import statistics
from typing import Any

import pyarrow as pa
import pytest

from benchmarks import table_peers, tables, whole_tables, workloads
from rangebound.release import make_plan, release
from rangebound.release.engine.duckdb import DuckDB

ROWS = 3000


def crosstab() -> tuple[workloads.Workload, pa.Table]:
    """Cells with so many rows that no number is near 0."""
    cells = {(0, (a, b), ""): float(ROWS) for a in "123" for b in "1234"}
    data = {"a": [a for _, (a, _), _ in cells] * ROWS, "b": [b for _, (_, b), _ in cells] * ROWS}
    plan = {
        "budget": {"epsilon": 0.2, "delta": 1e-6},
        "keys": {"a": list("123"), "b": list("1234")},
        "query": [{"name": "t", "kind": "crosstab", "by": ["a", "b"]}],
    }
    return workloads.Workload(plan=plan, truths=workloads.with_margins(cells)), pa.table(data)


@pytest.mark.slow
def test_what_is_measured_agrees_with_the_forecast_before_and_after_the_projection():
    asked, data = crosstab()
    draws = 30
    found = whole_tables.ours(asked, data, draws)
    margin = 0.5  # six standard errors, if those of cells, margins and total are added up
    assert found["unbiased"] == pytest.approx(found["forecast"], rel=margin)
    assert found["published"] == pytest.approx(found["unbiased"], rel=0.02)
    wrong = workloads.Workload(plan=asked.plan, truths={each: true + 500 for each, true in asked.truths.items()})
    assert whole_tables.ours(wrong, data, 2)["published"] > 400  # the control


def test_the_bar_is_the_best_of_the_other_library():
    found = {"published": 2.0, "forecast": 2.1, "unbiased": 2.2}
    made = whole_tables.row(
        "t", found, {"opendp a": 4.0, "opendp b": 2.5, "opendp c": "no wheel", "Gaussian limit": 1.0}
    )
    assert (made.of, made.bar, made.verdict) == ("opendp b", 1.0, "met")
    assert made.others["rangebound, unbiased"] == 2.2
    worse = whole_tables.row("t", found, {"opendp": 1.5})
    assert worse.verdict == "not met"
    alone = whole_tables.row("t", {"published": 2.0, "forecast": 2.1, "unbiased": 2.0}, {"opendp": "no wheel"})
    assert (alone.bar, alone.verdict) == (None, "")


def test_the_best_tree_is_taken_and_all_levels_are_beside_their_truth(monkeypatch: pytest.MonkeyPatch):
    def drawn(name: str, function: Any, leaves: Any, factor: int, pure: bool, limit: float, draws: int) -> Any:
        return [[each + factor for each in leaves]] * draws

    monkeypatch.setattr(table_peers, "call", drawn)
    made = table_peers.levels((2, 2))
    assert made([1, 2, 3, 4]) == [1, 2, 3, 4, 3, 7, 10]
    assert table_peers.running([1, 2, 3]) == [1, 2, 3, 1, 3, 6]
    found = table_peers.of_trees([1, 2, 3, 4], {"epsilon": 1.0}, made, (3, 2), 1)
    assert found == pytest.approx(math.sqrt((4 * 2**2 + 2 * 4**2 + 8**2) / 7))


WAITS = [float(each % 97) + 0.25 for each in range(1000)]


@pytest.mark.slow
@pytest.mark.parametrize(("peer", "size"), [("opendp", None), ("diffprivlib", len(WAITS))])
def test_where_the_law_of_a_peer_is_known_ours_is_no_worse(peer, size):
    truths = {"count": len(WAITS), "filtered count": sum(x > tables.LONG for x in WAITS), "sum": sum(WAITS)}
    truths["mean"] = statistics.fmean(WAITS)
    for kind, law in tables._laws(len(WAITS))[peer].items():
        assert tables.our_error(kind, WAITS, truths[kind], size) <= law * (1 + 1e-5), kind


@pytest.mark.slow
def test_an_error_from_a_law_is_that_of_releases():
    truth = sum(x > tables.LONG for x in WAITS)
    query = {"name": "q", "kind": "count", "where": [{"column": "waiting", "is": ">", "value": tables.LONG}]}
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [query]})
    with DuckDB(pa.table({"waiting": WAITS}), threads=1) as engine:
        values = [release(plan, engine, ledger=None).cells[0].value for _ in range(200)]
    exact = tables.our_error("filtered count", WAITS, truth, None)
    assert tables.rmse(values, truth) == pytest.approx(exact, rel=0.8)  # farther off with a chance below 1e-9
