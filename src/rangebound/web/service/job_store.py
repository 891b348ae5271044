"""The folder of a server, and the requests that it has taken, in a database there: they outlive the process."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rangebound.errors import ArgumentError

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


class JobState(Enum):
    """How far a request is; the last four are ends."""

    WAITING = "waiting for approval"
    QUEUED = "queued"
    PUBLISHED = "published"
    REFUSED = "refused"
    FAILED = "failed"
    REJECTED = "rejected"


OPEN = (JobState.WAITING, JobState.QUEUED)
"""States from which a request goes on."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One request: who asked for which plan of which source, since when its delays count, and how it ended.

    `done` is when a worker came to an end with it: the end of all, or that it waits for approval.
    """

    account: str
    id: str
    who: str
    source: str
    plan: str
    begun: float
    state: JobState = JobState.QUEUED
    done: float | None = None
    message: str = ""

    @property
    def request(self) -> str:
        """The id of the request in the ledger: one source and account have their ids for themselves."""
        return f"{self.account}/{self.source}/{self.id}"

    @property
    def folder(self) -> str:
        """The name of the folder with its answers, in which no letter of a client occurs."""
        return hashlib.sha256(f"{self.account}/{self.id}".encode()).hexdigest()[:32]


_FIELDS = "account, id, who, source, plan, begun, state, done, message"


class JobStore:
    """The requests of a server. Each change is on the disk when its call returns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS job (account TEXT, id TEXT, who TEXT, source TEXT, plan TEXT, begun REAL,"
            " state TEXT, done REAL, message TEXT, PRIMARY KEY (account, id))"
        )

    def add(self, job: Job) -> Job:
        """Take a request, or give the one that has its account and id already: the first of two has it."""
        row = (job.account, job.id, job.who, job.source, job.plan, job.begun, job.state.value, job.done, job.message)
        with self._connection:
            self._connection.execute(f"INSERT OR IGNORE INTO job ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        found = self.find(job.account, job.id)
        assert found is not None
        return found

    def find(self, account: str, id: str) -> Job | None:
        """A request by its account and id."""
        query = f"SELECT {_FIELDS} FROM job WHERE account = ? AND id = ?"
        row = self._connection.execute(query, [account, id]).fetchone()
        return None if row is None else _job(row)

    def of(self, accounts: Sequence[str], most: int = 1000) -> list[Job]:
        """The latest requests of some accounts, the last one first."""
        marks = ", ".join("?" * len(accounts))
        query = f"SELECT {_FIELDS} FROM job WHERE account IN ({marks}) ORDER BY begun DESC, id LIMIT ?"
        return [_job(row) for row in self._connection.execute(query, [*accounts, most])]

    def open(self) -> list[Job]:
        """The requests that are not at their end, in the order in which they came."""
        query = f"SELECT {_FIELDS} FROM job WHERE state IN (?, ?) ORDER BY begun, id"
        return [_job(row) for row in self._connection.execute(query, [each.value for each in OPEN])]

    def since(self, moment: float) -> list[Job]:
        """The requests that are not at their end, or came to it after a moment."""
        query = f"SELECT {_FIELDS} FROM job WHERE state IN (?, ?) OR done > ?"
        return [_job(row) for row in self._connection.execute(query, [*(each.value for each in OPEN), moment])]

    def change(self, job: Job, state: JobState, *, message: str = "", done: float | None = None) -> bool:
        """Bring a request from the state in which it was seen to another; False where it was not in that any more."""
        query = "UPDATE job SET state = ?, message = ?, done = ? WHERE account = ? AND id = ? AND state = ?"
        values = (state.value, message, done, job.account, job.id, job.state.value)
        with self._connection:
            return self._connection.execute(query, values).rowcount == 1

    def approved(self, job: Job, moment: float) -> bool:
        """Let a request that waited run; its delays count from now on."""
        query = "UPDATE job SET state = ?, begun = ?, done = NULL WHERE account = ? AND id = ? AND state = ?"
        values = (JobState.QUEUED.value, moment, job.account, job.id, JobState.WAITING.value)
        with self._connection:
            return self._connection.execute(query, values).rowcount == 1


def private_folder(folder: Path) -> None:
    """Make the folder of a server; one that others can enter is refused, since logs in it may have words of rows."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name == "posix" and folder.stat().st_mode & 0o077:
        raise ArgumentError(
            f"folder={str(folder)!r}: other users can enter it; it must be for its owner alone (chmod 700)"
        )


@contextmanager
def sole_server(folder: Path) -> Iterator[None]:
    """Hold a folder for this process until the block ends; an `ArgumentError` where another one holds it.

    Two servers on one folder would run each other's requests, and count those in flight by themselves.

    Guarantee: the lock ends with the process, however that ends, and no worker has it.
    Edge cases: on Windows, where there is no `flock`, a second process is not noticed.
    """
    private_folder(folder)
    file = folder / "server.lock"
    handle = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)  # not inherited by other processes
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                number = file.read_text(encoding="ascii", errors="replace").strip()
                raise ArgumentError(
                    f"folder={str(folder)!r}: process {number} serves this folder already; a second server needs a "
                    "folder of its own"
                ) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(handle)


def database(folder: Path) -> sqlite3.Connection:
    """The database of a server, which only its user can read."""
    private_folder(folder)
    file = folder / "server.sqlite"
    if not file.exists():
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    connection = sqlite3.connect(file, timeout=30.0, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _job(row: tuple[Any, ...]) -> Job:
    found = dict(zip(_FIELDS.split(", "), row, strict=True))
    return Job(**{**found, "state": JobState(found["state"])})
