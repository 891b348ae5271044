"""Sixteen processes of sixty-four threads each, all spending from a budget for exactly a thousand spends.

    python tests/ledger/crowd.py FOLDER TIMES RULE [ADDRESS]

With an address of a server, it is thirty-two processes of four threads.

Prints how many spends were granted each time, and how many the ledger holds, as JSON.
"""

import json
import os
import sys
import threading
from pathlib import Path

from rangebound.errors import BudgetExceeded
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost
from tests.ledger.postgres import fresh_address
from tests.ledger.rules import open_for

PROCESSES, THREADS, SPENDS = 16, 64, 1000
CLIENTS, THREADS_A_CLIENT = 32, 4
COST = Cost(epsilon=0.001)


def child(path: Path | str, count: int) -> int:
    """How many spends the threads of one process were granted; each goes on until it is refused."""
    ledger = Ledger.open(path, patience=600)  # a slow machine is no fault here
    granted = []

    def work(thread: int) -> None:
        for i in range(SPENDS + 1):
            try:
                name = f"{os.getpid()}-{thread}-{i}"
                granted.append(ledger.reserve(account="people", request=name, cost=COST))
            except BudgetExceeded:
                return

    threads = [threading.Thread(target=work, args=(each,)) for each in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(granted)


def once(path: Path | str, rule: str) -> tuple[int, int]:
    processes, threads = (PROCESSES, THREADS) if isinstance(path, Path) else (CLIENTS, THREADS_A_CLIENT)
    with Ledger.create(path) as ledger:
        open_for(ledger, rule, SPENDS, COST)
    readable, writable = os.pipe()
    children = []
    for _ in range(processes):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                os.write(writable, f"{child(path, threads)}\n".encode())
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
    failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
    os.close(writable)
    with os.fdopen(readable) as answers:
        granted = sum(map(int, answers))
    assert not failed
    with Ledger.open(path) as ledger:
        ledger.verify()
        assert str(ledger._chain.head.read()) == ledger.head  # whoever came last has moved it last
        return granted, ledger.account("people").spends


if __name__ == "__main__":
    folder, times, rule = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    server = sys.argv[4] if sys.argv[4:] else None
    places = [folder / f"{turn}.ledger" if server is None else fresh_address(server) for turn in range(times)]
    print(json.dumps([once(each, rule) for each in places]))
