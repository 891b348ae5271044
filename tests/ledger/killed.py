"""Processes that spend at once and are killed at random points; then the ledger is held against what came out.

A child notes each request that is computed (before it is) and each answer that is revealed (after it was given), and
asks for requests that other children, living or dead, ask for too. A `broken` one reveals an answer of its own before
the ledger has said anything.
"""

import os
import random
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path

from rangebound.errors import BudgetExceeded
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from tests.ledger.postgres import fresh_address
from tests.ledger.processes import forked
from tests.ledger.rules import TENTH, open_for

NO_FAULTS = {
    "computed without a spend": 0,
    "revealed without a spend": 0,
    "revealed other bytes than stored": 0,
    "charged twice": 0,
    "overspent": 0,
}
ROUNDS_PER_LEDGER = 10
SPENDS_PER_LEDGER = 30  # some ledgers run dry, some do not


def note(path: Path) -> Callable[[bytes], object]:
    """A way to add a line to a file at once, so that a kill cannot split it."""
    handle = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    return lambda line: os.write(handle, line + b"\n")


def child(place: Path | str, path: Path, seed: int, broken: bool, pipe: int) -> None:
    chance = random.Random(seed)
    computed, public = note(path.with_suffix(".computed")), note(path.with_suffix(".revealed"))
    ledger = Ledger.open(place)

    def revealed(line: bytes) -> None:
        public(line)
        os.write(pipe, b".")

    def compute(name: str) -> bytes:
        computed(name.encode())
        return secrets.token_hex(8).encode()

    os.write(pipe, b".")
    while True:
        name = f"r{chance.randrange(2 * SPENDS_PER_LEDGER) if chance.random() < 0.8 else 0}"  # one again and again
        if broken:
            answer = secrets.token_hex(8).encode()
            revealed(name.encode() + b" " + answer)
        try:
            answer = ledger.release(
                account="people", request=name, cost=TENTH, compute=lambda _, name=name: compute(name)
            )
        except BudgetExceeded:
            continue
        revealed(name.encode() + b" " + answer)


def kill_some(place: Path | str, path: Path, chance: random.Random, broken: bool) -> None:
    """One round: four to eight children, killed together somewhere in their work."""
    readable, writable = os.pipe()
    children = [
        forked(lambda: child(place, path, chance.randrange(2**32) ^ os.getpid(), broken, writable))
        for _ in range(chance.randint(4, 8))
    ]
    os.close(writable)
    # However slow the machine, as many openings and answers as drawn: sometimes others still open the file.
    for _ in range(chance.randint(1, 20)):
        os.read(readable, 1)
    time.sleep(chance.random() * 0.004)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status), "a child failed before it was killed"  # a kill leaves no exit status
    os.close(readable)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def violations(place: Path | str, path: Path) -> dict[str, int]:
    """What came out that the ledger does not cover, and what the ledger gave beyond its total."""
    with Ledger.open(place) as ledger:
        ledger.verify()
        spends = [record for record in ledger.history() if record.kind is EntryKind.SPEND]
        names = {record.request for record in spends}
        answers = {tuple(line.decode().split(" ")) for line in lines(path.with_suffix(".revealed"))}
        counts = [
            len({line.decode() for line in lines(path.with_suffix(".computed"))} - names),
            sum(name not in names for name, _ in answers),
            sum(name in names and (ledger.published(name) or b"").decode() != answer for name, answer in answers),
            len(spends) - len(names),
            max(0, len(spends) - SPENDS_PER_LEDGER),
        ]
        return dict(zip(NO_FAULTS, counts, strict=True))


def killed(folder: str, rounds: int, seed: int, rule: str, broken: bool = False, server: str = "") -> dict[str, int]:
    """What was found; with an address, in ledgers in that server."""
    chance = random.Random(seed)
    found: dict[str, int] = {"rounds": 0, "revealed": 0, "dry": 0}
    for start in range(0, rounds, ROUNDS_PER_LEDGER):
        path = Path(folder) / f"{start}.ledger"
        place = fresh_address(server) if server else path
        with Ledger.create(place) as ledger:
            open_for(ledger, rule, SPENDS_PER_LEDGER)
        for _ in range(min(ROUNDS_PER_LEDGER, rounds - start)):
            kill_some(place, path, chance, broken)
            found["rounds"] += 1
        for name, count in violations(place, path).items():
            found[name] = found.get(name, 0) + count
        found["revealed"] += len(lines(path.with_suffix(".revealed")))
        with Ledger.open(place) as ledger:
            found["dry"] += ledger.account("people").spends == SPENDS_PER_LEDGER
    return found
