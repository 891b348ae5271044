"""Releases of a table that are killed (SIGKILL) at chosen or random points, and then run again under the same request.

    python tests/release/killed.py FOLDER RANDOM_KILLS SEED

A child makes a release and notes the bytes that it reveals. It stops at a point that is asked for and is killed there,
or is killed after a random time. One is broken: it reveals the table before the ledger has stored it, and is killed in
between. Prints as JSON, for each point, how many releases were charged and published after the kill, and how many broke
a rule.
"""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from rangebound.ledger import Ledger, Reservation
from rangebound.ledger.chain import EntryKind
from rangebound.ledger.rule import Cost
from rangebound.release import explain, make_plan, release
from rangebound.release.engine.duckdb import DuckDB

POINTS = ["checking the plan", "aggregating", "drawing", "storing", "stored"]
PLAN = make_plan(
    {
        "budget": {"epsilon": 0.5, "account": "people"},
        "query": [
            {"name": "visits", "kind": "count"},
            {"name": "wait", "kind": "mean", "column": "wait", "range": [0, 100]},
        ],
    }
)
DATA = pa.table({"wait": [float(each % 90) for each in range(1000)]})


class Stopping(Ledger):
    """A ledger that tells when it is about to store an answer, and when it has."""

    tell: Callable[[str], None]
    early: Callable[[bytes], object] = staticmethod(lambda payload: None)

    def publish(self, reservation: Reservation, payload: bytes, **options: Any) -> bytes:
        self.early(payload)
        self.tell("storing")
        stored = super().publish(reservation, payload, **options)
        self.tell("stored")
        return stored


def publish(path: Path, tell: Callable[[str], None], broken: bool) -> None:
    """A release in full: what is revealed is one line of a file."""
    handle = os.open(path.with_suffix(".revealed"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def reveal(payload: bytes) -> None:
        os.write(handle, payload + b"\n")

    with Stopping.open(path) as ledger, DuckDB(DATA, threads=1) as engine:
        ledger.tell = tell  # type: ignore[attr-defined]
        if broken:
            ledger.early = reveal  # type: ignore[attr-defined]
        reveal(release(PLAN, engine, ledger=ledger, request="one", progress=tell).to_bytes())


def child(path: Path, broken: bool, point: str | None = None, ready: int = -1) -> int:
    """A process that makes the release; it stops at a point, if there is one."""

    def tell(where: str) -> None:
        if where == point:
            os.write(ready, b".")
            time.sleep(3600)

    pid = os.fork()
    if not pid:
        try:
            publish(path, tell, broken)
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def kill(path: Path, broken: bool, point: str | None, delay: float) -> None:
    readable, ready = os.pipe()
    pid = child(path, broken, point, ready)
    os.close(ready)  # here, so that a child that ends before the point is noticed
    if point is not None:
        assert os.read(readable, 1), f"the release never came to {point!r}"
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or status == 0, "the release failed before it was killed"
    os.close(readable)


def undisturbed(path: Path) -> float:
    """How long a child takes that nobody kills, in seconds."""
    with Ledger.create(path) as ledger:
        ledger.open_account("people", epsilon=1)
    start = time.perf_counter()
    assert os.waitpid(child(path, broken=False), 0)[1] == 0
    return time.perf_counter() - start


def revealed(path: Path) -> list[bytes]:
    file = path.with_suffix(".revealed")
    return file.read_bytes().splitlines() if file.exists() else []


def trial(path: Path, broken: bool, point: str | None, delay: float) -> Counter[str]:
    """One kill and two more runs; counts what was seen, each broken rule by its name."""
    with Ledger.create(path) as ledger:
        ledger.open_account("people", epsilon=1)
    kill(path, broken, point, delay)
    with Ledger.open(path) as ledger:
        charged = ledger.account("people").spent != Cost(epsilon=0)
        stored = ledger.published("one")
        before = ledger.head
    seen = Counter({"kills": 1, "charged": charged, "published": stored is not None})
    seen["revealed without a charge"] = bool(revealed(path)) and not charged
    seen["revealed before it was stored"] = bool(revealed(path)) and stored is None
    heads = []
    for _ in range(2):
        assert os.waitpid(child(path, broken), 0)[1] == 0, "the release could not be run again"
        with Ledger.open(path) as ledger:
            heads.append(ledger.head)
    with Ledger.open(path) as ledger:
        ledger.verify()
        final = ledger.published("one")
        spends = [record for record in ledger.history() if record.kind is EntryKind.SPEND]
        seen["not charged once"] = len(spends) != 1 or ledger.account("people").spent != Cost(epsilon="0.5")
    seen["third run wrote to the ledger"] = heads[0] != heads[1]
    seen["published again"] = stored is not None and (stored != final or heads[0] != before)
    seen["other bytes than stored"] = any(line != final for line in revealed(path))
    seen["not revealed by both runs"] = revealed(path)[-2:] != [final, final]
    return seen


def main(folder: Path, times: int, seed: int) -> None:
    chance = random.Random(seed)
    explain(PLAN)  # calibrated here once, so that a child's time goes into the release
    found = {point: trial(folder / f"{at}.ledger", False, point, 0.0) for at, point in enumerate(POINTS)}
    found["broken"] = trial(folder / "broken.ledger", True, "storing", 0.0)
    found["random"] = Counter()
    longest = undisturbed(folder / "undisturbed.ledger")
    for at in range(times):
        found["random"].update(trial(folder / f"r{at}.ledger", False, None, chance.random() * longest))
    print(json.dumps({point: {name: int(count) for name, count in seen.items()} for point, seen in found.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
