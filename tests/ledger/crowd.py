"""Many processes of many threads each, all spending from a budget for exactly this many spends."""

import os
from pathlib import Path

from rangebound.errors import BudgetExceeded
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost
from tests.ledger.postgres import fresh_address
from tests.ledger.processes import forked, together
from tests.ledger.rules import open_for

PROCESSES, CLIENTS = 16, 32
COST = Cost(epsilon=0.001)


def child(path: Path | str, count: int, spends: int) -> int:
    """How many spends the threads of one process were granted; each goes on until it is refused."""
    ledger = Ledger.open(path, patience=600)  # a slow machine is not a fault here
    granted = []

    def work(thread: int) -> None:
        for i in range(spends + 1):
            try:
                name = f"{os.getpid()}-{thread}-{i}"
                granted.append(ledger.reserve(account="people", request=name, cost=COST))
            except BudgetExceeded:
                return

    together(count, work)
    return len(granted)


def once(path: Path | str, rule: str, spends: int, threads: int) -> tuple[int, int]:
    processes = PROCESSES if isinstance(path, Path) else CLIENTS
    with Ledger.create(path) as ledger:
        open_for(ledger, rule, spends, COST)
    readable, writable = os.pipe()
    children = [
        forked(lambda: os.write(writable, f"{child(path, threads, spends)}\n".encode())) for _ in range(processes)
    ]
    failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
    os.close(writable)
    with os.fdopen(readable) as answers:
        granted = sum(map(int, answers))
    assert not failed
    with Ledger.open(path) as ledger:
        ledger.verify()
        assert str(ledger._chain.head.read()) == ledger.head  # whoever came last has moved it last
        return granted, ledger.account("people").spends


def crowd(folder: str, times: int, spends: int, threads: int, rule: str, server: str = "") -> list[tuple[int, int]]:
    """How many spends were granted each time, and how many the ledger holds; with an address, in that server."""
    places = [Path(folder) / f"{turn}.ledger" if not server else fresh_address(server) for turn in range(times)]
    return [once(each, rule, spends, threads) for each in places]
