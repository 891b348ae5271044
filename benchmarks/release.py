"""Private tables beside plain SQL and other libraries: time, memory and accuracy.

    python -m benchmarks.release [--json FILE] [--quick] [--folder FOLDER] [--rows N] [--memory-rows N] [--threads N]

Times are minima over turns. "Plain" is the same aggregates with clipping and no privacy; "window", "threshold" and
"bits" are three ways to keep five groups of each person without noise. OpenDP reads the same file, PipelineDP one of a
million rows at most. Errors are those of `benchmarks.tables`. Nothing here is a test: a slow machine fails nothing.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.report import Row, parser, publish
from benchmarks.tables import errors, opendp, pipeline_dp
from rangebound.release import Source, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.sql.aggregate import statements
from rangebound.release.sql.relation import Salt
from rangebound.sampling.entropy import secure_bits as bits

GROUPS, PEOPLE, KEPT = 100, 1_000_000, 5
TEXT = (
    "Seconds for count, sum and mean by 100 groups from Parquet, the least of some turns, beside SQL that protects "
    "nobody: the same aggregates of the clipped values, and three ways to keep five groups of each person. OpenDP "
    "makes a count and a sum, once, and keeps ten rows of each person; PipelineDP has its rows in memory when the "
    "clock starts. Then root mean square errors on the demo table at epsilon 1, each visit a unit, each library on "
    "its own assumptions: OpenDP protects the size of the table (but for its variance), diffprivlib takes it as "
    "public. Exact errors are those of the noise that is drawn; ours are exact too, or over 100,000 draws."
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
        (only,) = statements(person, engine.schema(), Salt.draw(bits), source=engine.source, dialect=engine.dialect)
        found["person, bits"] = best(lambda: engine.run(only.tree), max(turns // 2, 1))
        release(person, engine, ledger=None)  # calibrated once; later releases of the plan take it from the cache
        found["person, release"] = best(lambda: release(person, engine, ledger=None), max(turns // 2, 1))
        row = plan(person=False)
        release(row, engine, ledger=None)
        found["row, release"] = best(lambda: release(row, engine, ledger=None), turns)
    return found


def memory(rows: int, limit: str) -> dict[str, float]:
    """The peak of the process for a release of rows that a view makes on the fly, under DuckDB's own limit."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "visits.duckdb"
        with duckdb.connect(str(file)) as connection:
            connection.execute(
                f"CREATE VIEW visits AS SELECT (hash(i) % {rows // 10})::BIGINT person_id, "
                f"'g' || (hash(i + 7) % {GROUPS}) clinic, (hash(i + 5) % 1000000007) / 10000000.07 AS wait "
                f"FROM range({rows}) t(i)"
            )
        with DuckDB(Source(path=str(file), table="visits"), threads=1, memory=limit) as engine:
            start = time.perf_counter()
            release(plan(person=True), engine, ledger=None)
            seconds = time.perf_counter() - start
    return {
        "rows": rows,
        "seconds": seconds,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def ratios(times: dict[str, float], peers: dict[str, float | str]) -> Iterator[Row]:
    """The times that have bars, beside SQL that protects nobody and beside OpenDP."""
    for what, others, bar in (
        ("row, release", ("row, plain SQL",), 1.5),
        ("person, release", ("person, bits", "person, threshold"), 1.2),
        ("person, bits", ("person, window",), 0.6),
    ):
        beside: dict[str, float | str] = {name: times[name] for name in others}
        fastest = min(others, key=times.__getitem__)
        if what in peers:
            beside["opendp"] = peers[what]
        yield Row(what=what, ours=times[what], unit="s", others=beside, bar=bar, of=fastest)


def beside_pipeline_dp(folder: Path, rows: int, threads: int) -> Iterator[Row]:
    """Whole tables of a size that PipelineDP's local engine can bear."""
    path = table(folder, rows)
    for name, person in (("row", False), ("person", True)):
        with DuckDB(Source(path=str(path)), threads=threads) as engine:
            asked = plan(person=person)
            release(asked, engine, ledger=None)
            ours = best(lambda engine=engine, asked=asked: release(asked, engine, ledger=None), 3)  # type: ignore[misc]
        others = {"pipeline_dp": pipeline_dp(path, person=person, groups=GROUPS)}
        yield Row(what=f"{name}, release of {rows:,} rows", ours=ours, unit="s", others=others)


def accuracy(turns: int, *, quick: bool) -> Iterator[Row]:
    """Root mean square errors on the demo table, each peer on its own assumptions."""
    for each in errors(turns, peers=not quick):
        size = "public" if each.public_size else "private"
        yield Row(what=f"{each.kind}, size {size}: error", ours=each.ours, unit="", others=each.others)


def table(folder: Path, rows: int) -> Path:
    """The file with this many visits; made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"visits-{rows}.parquet"
    if not path.exists():
        make_table(path, rows)
    return path


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
    path = table(chosen.folder, size)
    times = speed(path, chosen.threads, turns)
    others: dict[str, float | str] = {}
    if not chosen.quick:
        for name, person in (("row", False), ("person", True)):
            others[f"{name}, release"] = opendp(path, person=person, groups=GROUPS, threads=chosen.threads)
    rows = [*ratios(times, others)]
    if not chosen.quick:
        rows += beside_pipeline_dp(chosen.folder, min(size, 1_000_000), chosen.threads)
    rows += accuracy(40 if chosen.quick else turns * 1000, quick=chosen.quick)
    if chosen.memory_rows:
        used = memory(chosen.memory_rows, "2GB")
        rows.append(Row(what=f"memory, {chosen.memory_rows:,} rows, limit 2 GB", ours=used["peak GB"], unit="GB"))
    publish(chosen, "Private tables", TEXT, rows, rows=size, threads=chosen.threads)


if __name__ == "__main__":
    main()
