"""The requests that a server has taken, in a database in its folder: they outlive the process.

And when the answer to one becomes visible: at a multiple of a fixed delay after it came, so that its timing says no
more.
"""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path

from rangebound.errors import ArgumentError

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

RUNNING = "running"


class JobState(Enum):
    """How far a request is; the last four are ends."""

    WAITING = "waiting for approval"
    QUEUED = "queued"
    PUBLISHED = "published"
    REFUSED = "refused"
    FAILED = "failed"
    REJECTED = "rejected"


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


@dataclass(frozen=True, kw_only=True)
class SeenState:
    """What an analyst sees of a request: its state, and in how many seconds to look again, None at its end."""

    state: str
    again: float | None
    message: str = ""


def seen(job: Job, now: float, delay: float) -> SeenState:
    """What an analyst may see of a request at the time `now`.

    An answer that is ready at the time d, of a request that came at b, is shown from b + k delay on, where k is the
    smallest whole number, at least 1, with d <= b + k delay. Until then the request is "running", whatever happened.

    Guarantee: before that moment the request looks just as if it still ran, so the number k is all that the time of
    an answer says.
    Edge cases: that a request waits for approval is shown at a multiple of the delay too: it is filed once a worker is
    free, and that moment would tell when an earlier release ended. A clock that was set back shows an answer later,
    never earlier.

    >>> job = Job(account="a", id="1", who="w", source="s", plan="", begun=100.0, done=101.5, state=JobState.PUBLISHED)
    >>> seen(job, 109.9, 10.0).state, seen(job, 110.0, 10.0).state
    ('running', 'published')
    """
    if job.done is not None and now >= available(job.begun, job.done, delay):
        again = delay if job.state is JobState.WAITING else None
        return SeenState(state=job.state.value, again=again, message=job.message)
    passed = max(0, math.floor((now - job.begun) / delay))
    return SeenState(state=RUNNING, again=job.begun + (passed + 1) * delay - now)


def available(begun: float, done: float, delay: float) -> float:
    """The first multiple of `delay` after `begun` at which an answer that was ready at the time `done` is shown."""
    return begun + max(1, math.ceil((done - begun) / delay)) * delay


_NAMES = [each.name for each in fields(Job)]
_OPEN = f"state IN ('{JobState.WAITING.value}', '{JobState.QUEUED.value}')"


class JobStore:
    """The requests of a server. Each change is on the disk when its call returns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS job (account TEXT, id TEXT, who TEXT, source TEXT, plan TEXT, begun REAL,"
            " state TEXT, done REAL, message TEXT, PRIMARY KEY (account, id))"
        )

    def _jobs(self, rest: str, *values: object) -> list[Job]:
        rows = self._connection.execute(f"SELECT {', '.join(_NAMES)} FROM job WHERE {rest}", values)
        found = (dict(zip(_NAMES, row, strict=True)) for row in rows)
        return [Job(**{**each, "state": JobState(each["state"])}) for each in found]

    def _write(self, statement: str, *values: object) -> bool:
        with self._connection:
            return self._connection.execute(statement, values).rowcount == 1

    def add(self, job: Job) -> Job:
        """Take a request, or give the one that has its account and id already: the first of two has it."""
        row = {**vars(job), "state": job.state.value}
        marks = ", ".join("?" * len(_NAMES))
        self._write(
            f"INSERT OR IGNORE INTO job ({', '.join(_NAMES)}) VALUES ({marks})", *(row[each] for each in _NAMES)
        )
        found = self.find(job.account, job.id)
        assert found is not None
        return found

    def find(self, account: str, id: str) -> Job | None:
        """A request by its account and id."""
        return next(iter(self._jobs("account = ? AND id = ?", account, id)), None)

    def of(self, account: str, most: int = 1000) -> list[Job]:
        """The latest requests of an account, the last one first."""
        return self._jobs("account = ? ORDER BY begun DESC, id LIMIT ?", account, most)

    def open(self) -> list[Job]:
        """The requests that are not at their end, in the order in which they came."""
        return self._jobs(f"{_OPEN} ORDER BY begun, id")

    def since(self, moment: float) -> list[Job]:
        """The requests that are not at their end, or came to it after a moment."""
        return self._jobs(f"{_OPEN} OR done > ?", moment)

    def change(self, job: Job, state: JobState, *, message: str = "", done: float | None = None) -> bool:
        """Bring a request from the state in which it was seen to another; False where it was not in that any more."""
        to = "UPDATE job SET state = ?, message = ?, done = ? WHERE account = ? AND id = ? AND state = ?"
        return self._write(to, state.value, message, done, job.account, job.id, job.state.value)

    def approved(self, job: Job, moment: float) -> bool:
        """Let a request that waited run; its delays count from now on."""
        to = "UPDATE job SET state = ?, begun = ?, done = NULL WHERE account = ? AND id = ? AND state = ?"
        return self._write(to, JobState.QUEUED.value, moment, job.account, job.id, JobState.WAITING.value)


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
