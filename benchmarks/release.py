"""Private tables beside plain SQL and other libraries: time, memory and accuracy.

    python -m benchmarks.release [--json FILE] [--quick] [--folder FOLDER] [--rows N] [--memory-rows N] [--threads N]

Times are minima over turns. "Plain" is the same aggregates with clipping and no privacy; "window", "threshold" and
"bits" are three ways to keep five groups of each person without noise. Peers (opendp, diffprivlib) take part in the
accuracy, each in its own environment. Nothing here is a test: a slow machine fails nothing.
"""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import peers
from benchmarks.report import Row, parser, publish
from rangebound.release import Source, make_plan, release
from rangebound.release import demo as clinic
from rangebound.release.answer import bits
from rangebound.release.contribution import Salt
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.sql import statements

GROUPS, PEOPLE, KEPT = 100, 1_000_000, 5
TEXT = (
    "Seconds for count, sum and mean by 100 groups from Parquet, the least of some turns, beside SQL that protects "
    "nobody: the same aggregates of the clipped values, and three ways to keep five groups of each person. Then root "
    "mean square errors on the demo table at epsilon 1, each visit a unit; diffprivlib takes the size of the table as "
    "public, rangebound and OpenDP (but for its variance) protect it too."
)
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


def accuracy(turns: int, *, quick: bool) -> list[Row]:
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
    found = []
    for kind, truth in truths.items():
        column = {} if kind == "count" else {"column": "waiting", "range": [0, 120]}
        asked = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "q", "kind": kind, **column}]})
        with DuckDB(data) as engine:
            ours = [release(asked, engine, ledger=None).cells[0].value for _ in range(turns)]
        others: dict[str, float | str] = {}
        for name, peer in ({} if quick else PEERS).items():
            try:
                others[name] = rmse(peers.call(name, peer, kind, waits, turns), truth)
            except peers.Absent as why:
                others[name] = str(why)
        found.append(Row(what=f"{kind}, error", ours=rmse(ours, truth), unit="", others=others))
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


def ratios(times: dict[str, float]) -> Iterator[Row]:
    """The times that have bars, and the rest."""
    for what, others, bar in (
        ("row, release", ("row, plain SQL",), 1.5),
        ("person, release", ("person, bits", "person, threshold"), 1.2),
        ("person, bits", ("person, window",), 0.6),
    ):
        beside = {name: times[name] for name in others}
        yield Row(what=what, ours=times[what], unit="s", others=beside, bar=bar, of=min(beside, key=beside.__getitem__))


def main() -> None:
    """Measure everything; show it and write it."""
    options = parser(__doc__)
    options.add_argument("--folder", type=Path, default=Path("out"))
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--memory-rows", type=int, default=0, help="100000000 takes minutes")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--turns", type=int, default=4)
    chosen = options.parse_args()
    size, turns = (20_000, 1) if chosen.quick else (chosen.rows, chosen.turns)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    path = chosen.folder / f"visits-{size}.parquet"
    if not path.exists():
        make_table(path, size)
    rows = [
        *ratios(speed(path, chosen.threads, turns)),
        *accuracy(turns * (3 if chosen.quick else 100), quick=chosen.quick),
    ]
    if chosen.memory_rows:
        used = memory(chosen.memory_rows, "2GB")
        rows.append(Row(what=f"memory, {chosen.memory_rows:,} rows, limit 2 GB", ours=used["peak GB"], unit="GB"))
    publish(chosen, "Private tables", TEXT, rows, rows=size, threads=chosen.threads)


if __name__ == "__main__":
    main()
