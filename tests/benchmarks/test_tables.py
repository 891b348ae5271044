"""Errors of single numbers: what is computed from a law is what releases show, and no law of a peer is better."""

import math
import statistics

import pyarrow as pa
import pytest

from benchmarks import tables
from rangebound.release import make_plan, release
from rangebound.release.engine.duckdb import DuckDB

WAITS = [float(each % 97) + 0.25 for each in range(1000)]


@pytest.mark.parametrize(("peer", "size"), [("opendp", None), ("diffprivlib", len(WAITS))])
def test_where_the_law_of_a_peer_is_known_ours_is_no_worse(peer, size):
    truths = {"count": len(WAITS), "filtered count": sum(x > tables.LONG for x in WAITS), "sum": sum(WAITS)}
    truths["mean"] = statistics.fmean(WAITS)
    for kind, law in tables._laws(len(WAITS))[peer].items():
        assert tables.our_error(kind, WAITS, truths[kind], size) <= law * (1 + 1e-5), kind


def test_an_error_from_a_law_is_that_of_releases():
    truth = sum(x > tables.LONG for x in WAITS)
    query = {"name": "q", "kind": "count", "where": [{"column": "waiting", "is": ">", "value": tables.LONG}]}
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [query]})
    with DuckDB(pa.table({"waiting": WAITS}), threads=1) as engine:
        values = [release(plan, engine, ledger=None).cells[0].value for _ in range(200)]
    exact = tables.our_error("filtered count", WAITS, truth, None)
    assert tables.rmse(values, truth) == pytest.approx(exact, rel=0.6)  # farther off with a chance of 3e-8


def test_rmse_is_the_root_of_the_mean_square():
    assert tables.rmse([3.0, 5.0], 4.0) == 1.0
    assert tables.rmse([4.0, 8.0], 4.0) == math.sqrt(8.0)
