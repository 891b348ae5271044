"""Private tables beside plain SQL and other libraries: time, memory and accuracy.

    python benchmarks/release.py [--json FILE] [--folder FOLDER] [--rows N] [--memory-rows N] [--threads N]

Times are minima over turns. "Plain" is the same aggregates with clipping and no privacy; "window", "threshold" and
"bits" are three ways to keep five groups of each person without noise. Peers (opendp, diffprivlib) take part in the
accuracy where they are installed. Nothing here is a test: a slow machine fails nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import platform
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.table import Table

from rangebound.release import Source, make_plan, release
from rangebound.release import demo as clinic
from rangebound.release.answer import bits
from rangebound.release.contribution import Salt
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.sql import statements

GROUPS, PEOPLE, KEPT = 100, 1_000_000, 5
CLIPPED = "least(greatest(wait, 0), 100)"


def make_table(path: Path, rows: int) -> None:
    """Visits in Parquet, generated in the engine."""
    people = max(rows // 10, 1)
    duckdb.connect().execute(
        f"COPY (SELECT (hash(i) % {people})::BIGINT person_id, 'g' || (hash(i + 77777777) % {GROUPS}) clinic, "
        f"(hash(i + 5) % 1000000007) / 10000000.07 AS wait FROM range({rows}) t(i)) TO '{path}'"
    )


def plan(*, person: bool) -> Any:
    """Count, sum and mean by group."""
    column = {"column": "wait", "range": [0, 100], "by": ["clinic"]}
    return make_plan(
        {
            "budget": {"epsilon": 1.0},
            "unit": {"column": "person_id", "rows": 2, "groups": KEPT} if person else {},
            "keys": {"clinic": [f"g{each}" for each in range(GROUPS)]},
            "query": [
                {"name": "n", "kind": "count", "by": ["clinic"]},
                {"name": "s", "kind": "sum", **column},
                {"name": "m", "kind": "mean", **column},
            ],
        }
    )


def best(run: Callable[[], Any], turns: int) -> float:
    """The shortest of some runs, in seconds."""
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def speed(path: Path, threads: int, turns: int) -> dict[str, float]:
    """Seconds for plain SQL, for ways to bound contributions, and for whole releases."""
    connection = duckdb.connect(config={"threads": threads})
    table = f"read_parquet('{path}')"
    cells = f"SELECT person_id u, clinic g, count(*) n, sum({CLIPPED}) s FROM {table} GROUP BY 1, 2"
    plain = f"SELECT clinic, count(*), sum({CLIPPED}), avg({CLIPPED}) FROM {table} GROUP BY 1"
    window = (
        f"SELECT g, sum(least(n, 2)), sum(s) FROM (SELECT *, row_number() OVER (PARTITION BY u ORDER BY z) k FROM "
        f"(SELECT *, random() z FROM ({cells}))) WHERE k <= {KEPT} GROUP BY 1"
    )
    threshold = (
        f"WITH cells AS MATERIALIZED ({cells}), t AS (SELECT u, min(hash(u, g), {KEPT})[-1] t FROM cells GROUP BY u) "
        f"SELECT g, sum(least(n, 2)), sum(s) FROM cells JOIN t USING (u) WHERE hash(u, g) <= t GROUP BY 1"
    )
    found = {
        "row, plain SQL": best(lambda: connection.execute(plain).fetchall(), turns),
        "person, window": best(lambda: connection.execute(window).fetchall(), 1),
        "person, threshold": best(lambda: connection.execute(threshold).fetchall(), max(turns // 2, 1)),
    }
    with DuckDB(Source(path=str(path)), threads=threads) as engine:
        person = plan(person=True)
        (only,) = statements(person, engine.schema(), Salt.draw(bits), source=engine.source, dialect="duckdb")
        found["person, bits"] = best(lambda: engine.run(only.tree), max(turns // 2, 1))
        release(person, engine, ledger=None)  # calibrated once; later releases of the plan take it from the cache
        found["person, release"] = best(lambda: release(person, engine, ledger=None), max(turns // 2, 1))
        row = plan(person=False)
        release(row, engine, ledger=None)
        found["row, release"] = best(lambda: release(row, engine, ledger=None), turns)
    return found


def memory(rows: int, limit: str) -> dict[str, float]:
    """The peak of the process for a release of rows generated on the fly, under DuckDB's own limit."""
    import pyarrow

    engine = DuckDB(pyarrow.table({"x": [1]}), threads=1, memory=limit)
    connection: Any = engine._connection
    connection.unregister("rangebound_source")
    connection.execute(
        f"CREATE VIEW rangebound_source AS SELECT (hash(i) % {rows // 10})::BIGINT person_id, "
        f"'g' || (hash(i + 7) % {GROUPS}) clinic, (hash(i + 5) % 1000000007) / 10000000.07 AS wait "
        f"FROM range({rows}) t(i)"
    )
    start = time.perf_counter()
    release(plan(person=True), engine, ledger=None)
    return {
        "rows": rows,
        "seconds": time.perf_counter() - start,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def rmse(values: list[float], truth: float) -> float:
    """The root of the mean squared error."""
    return math.sqrt(statistics.fmean((value - truth) ** 2 for value in values))


def accuracy(turns: int) -> list[dict[str, Any]]:
    """Root mean square errors on the demo table at epsilon 1, one visit a unit, beside peers where they can do it."""
    import pyarrow

    waits = [min(float(row["waiting"]), 120.0) for row in clinic.rows()]
    data = pyarrow.table({"waiting": waits})
    n, mean = len(waits), statistics.fmean(waits)
    truths = {
        "count": n,
        "sum": sum(waits),
        "mean": mean,
        "variance": statistics.pvariance(waits),
        "median": statistics.median(waits),
    }
    peers = {name: each for name, each in PEERS.items() if importlib.util.find_spec(name)}
    found = []
    for kind, truth in truths.items():
        column = {} if kind == "count" else {"column": "waiting", "range": [0, 120]}
        asked = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "q", "kind": kind, **column}]})
        with DuckDB(data) as engine:
            ours = [release(asked, engine, ledger=None).cells[0].value for _ in range(turns)]
        row: dict[str, Any] = {"kind": kind, "rangebound": rmse(ours, truth)}
        for name, peer in peers.items():
            values = peer(kind, waits, turns)
            row[name] = rmse(values, truth) if values else None
        found.append(row)
    return found


def with_diffprivlib(kind: str, waits: list[float], turns: int) -> list[float]:
    """diffprivlib's answers to the same question."""
    import numpy as np
    from diffprivlib import tools

    array = np.array(waits)
    calls: dict[str, Callable[[], Any]] = {
        "count": lambda: tools.count_nonzero(np.ones_like(array), epsilon=1.0),
        "sum": lambda: tools.sum(array, epsilon=1.0, bounds=(0, 120)),
        "mean": lambda: tools.mean(array, epsilon=1.0, bounds=(0, 120)),
        "variance": lambda: tools.var(array, epsilon=1.0, bounds=(0, 120)),
        "median": lambda: tools.median(array, epsilon=1.0, bounds=(0, 120)),
    }
    return [float(calls[kind]()) for _ in range(turns)]


def with_opendp(kind: str, waits: list[float], turns: int) -> list[float]:
    """OpenDP's answers to the same question; its variance takes the size of the table as public, the rest do not.

    A mean of a table of unknown size is a sum over a count, with half of the budget each.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    clamped = dp.t.then_clamp((0.0, 120.0))
    statistics_: dict[str, Any] = {
        "count": dp.t.then_count(),
        "sum": clamped >> dp.t.then_sum(),
        "variance": clamped >> dp.t.then_resize(len(waits), constant=60.0) >> dp.t.then_variance(ddof=0),
    }

    def measured(name: str, epsilon: float) -> Any:
        then = statistics_[name]
        return dp.binary_search_chain(lambda scale: space >> then >> dp.m.then_laplace(scale), d_in=1, d_out=epsilon)

    if kind == "mean":
        total, count = measured("sum", 0.5), measured("count", 0.5)
        return [float(total(waits)) / max(float(count(waits)), 1.0) for _ in range(turns)]
    if kind == "median":
        candidates = [120.0 * at / 1000 for at in range(1001)]
        quantile = dp.binary_search_chain(
            lambda scale: dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, 0.5, scale),
            d_in=1,
            d_out=1.0,
        )
        return [float(quantile(waits)) for _ in range(turns)]
    measure = measured(kind, 1.0)
    return [float(measure(waits)) for _ in range(turns)]


PEERS = {"diffprivlib": with_diffprivlib, "opendp": with_opendp}


def shown(title: str, rows: list[dict[str, Any]]) -> None:
    """A table on the screen."""
    table = Table(title=title, title_justify="left", box=None)
    for name in rows[0]:
        table.add_column(name, justify="left" if name in ("what", "kind") else "right")
    for row in rows:
        table.add_row(*("" if x is None else f"{x:.4g}" if isinstance(x, float) else str(x) for x in row.values()))
    Console().print(table)


def main() -> None:
    """Measure everything; show it and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=Path("out/bench-release.json"))
    parser.add_argument("--folder", type=Path, default=Path("out"))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--memory-rows", type=int, default=0, help="100000000 takes minutes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=4)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"visits-{options.rows}.parquet"
    if not path.exists():
        make_table(path, options.rows)
    times = speed(path, options.threads, options.turns)
    bars = [
        {"what": "row as unit, over plain SQL", "bar": 1.5, "ratio": times["row, release"] / times["row, plain SQL"]},
        {
            "what": "person as unit, release over the best bounding SQL",
            "bar": 1.2,
            "ratio": times["person, release"] / min(times["person, bits"], times["person, threshold"]),
        },
        {
            "what": "best bounding SQL over a window",
            "bar": 0.6,
            "ratio": times["person, bits"] / times["person, window"],
        },
    ]
    errors = accuracy(options.turns * 25)
    result: dict[str, Any] = {"machine": platform.platform(), "rows": options.rows, "seconds": times}
    result |= {"bars": bars, "errors": errors}
    shown(f"seconds, {options.rows} rows, {options.threads} threads", [{"what": k, "s": v} for k, v in times.items()])
    shown("ratios", bars)
    shown("root mean square error at epsilon 1, a visit as the unit", errors)
    if options.memory_rows:
        result["memory"] = memory(options.memory_rows, "2GB")
        shown("memory under a limit of 2 GB", [result["memory"]])
    options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
