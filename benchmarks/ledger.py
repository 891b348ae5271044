"""Spends a second from a ledger, beside bare SQLite inserts with the same durability.

    python benchmarks/ledger.py [--json FILE] [--folder FOLDER] [--seconds S]

A spend is one durable commit, as a bare insert is. A release is two (the charge, then the published bytes), so it
stands beside two bare inserts. Ledger and bare inserts take turns; the rates are medians over the turns. Nothing here
is a test: a slow machine fails nothing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from rangebound.accounting.ledger import Ledger
from rangebound.accounting.rule import Cost

BAR = 0.5
TURNS = 15
FORK = multiprocessing.get_context("fork")


def prepare(folder: Path) -> None:
    """A ledger and a bare database for the workers to open."""
    with Ledger.create(folder / "bench.ledger") as ledger:
        ledger.open_account("people", epsilon=1_000_000)
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "CREATE TABLE spends "
        "(id INTEGER PRIMARY KEY, time INTEGER, account TEXT, request TEXT, first INTEGER, seal BLOB)"
    )
    connection.close()


def bare(folder: Path) -> Callable[[int], Any]:
    """One insert in its own transaction, synced, into a table of a ledger's width."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None, timeout=60.0)
    connection.execute("PRAGMA synchronous = FULL")
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


def work(make: Callable[[Path], Callable[[int], Any]], folder: Path, seconds: float, start: Any, done: Any) -> None:
    """Call as often as the time allows, once every worker is ready."""
    call = make(folder)
    start.wait()
    end = time.perf_counter() + seconds
    count = 0
    while time.perf_counter() < end:
        call(count)
        count += 1
    done.put(count)


def rate(make: Callable[[Path], Callable[[int], Any]], processes: int, seconds: float, where: str | None) -> float:
    """Calls a second over all processes, in a folder of their own."""
    with tempfile.TemporaryDirectory(dir=where) as name:
        folder = Path(name)
        prepare(folder)
        start, done = FORK.Barrier(processes), FORK.SimpleQueue()
        workers = [FORK.Process(target=work, args=(make, folder, seconds, start, done)) for _ in range(processes)]
        for worker in workers:
            worker.start()
        total = sum(done.get() for _ in workers)
        for worker in workers:
            worker.join()
        return total / seconds


def measure(processes: int, seconds: float, where: str | None) -> Iterator[dict[str, Any]]:
    """The rates of the three, taken in turns, and the ledger's share of the bare rate."""
    turns = [
        {make.__name__: rate(make, processes, seconds, where) for make in (bare, spend, release)}
        for _ in track(range(TURNS), description=f"{processes} process(es)", transient=True)
    ]
    for name, commits in (("spend", 1), ("release", 2)):
        yield {
            "what": name,
            "processes": processes,
            "per_second": statistics.median(turn[name] for turn in turns),
            "bare_inserts_per_second": statistics.median(turn["bare"] for turn in turns),
            "commits": commits,
            "ratio": statistics.median(commits * turn[name] / turn["bare"] for turn in turns),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, default=Path("out/ledger.json"))
    parser.add_argument("--folder", help="where to put the files (default: the system's folder for temporary files)")
    parser.add_argument("--seconds", type=float, default=0.3)
    arguments = parser.parse_args()
    rows = [row for processes in (1, 8) for row in measure(processes, arguments.seconds, arguments.folder)]
    table = Table(title="Ledger beside bare SQLite inserts, each commit synced to the disk")
    for column in ("what", "processes", "a second", "bare inserts a second", "commits each", "ratio by commits", "bar"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for row in rows:
        table.add_row(
            row["what"],
            str(row["processes"]),
            f"{row['per_second']:.0f}",
            f"{row['bare_inserts_per_second']:.0f}",
            str(row["commits"]),
            f"{row['ratio']:.2f}",
            f"{BAR} {'reached' if row['ratio'] >= BAR else 'missed'}",
        )
    Console(width=110).print(table)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    facts = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "machine": platform.platform()}
    arguments.json.write_text(json.dumps({"facts": facts, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
