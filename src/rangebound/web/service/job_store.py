"""The requests that a server has taken, and its tokens, in a database in its folder: they outlive the process.

And when the answer to one becomes visible: at a multiple of a fixed delay after it came, so that its timing says no
more. Tokens say who may ask: random, stored as hashes, for accounts and a role, with an end. Rates say how often.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import math
import os
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path

from rangebound.errors import ArgumentError
from rangebound.ledger.chain import plain_name

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


PREFIX = "rb_"
_DAY = 86_400.0
_LONGEST_LIFE = 3660
_SET_BACK = 300.0  # seconds by which a clock may be set back without refusing the tokens made just before
_MOST_CLIENTS = 10_000
_OWN_BITS = 64  # of an address of IPv6: whoever has one has all that begin with them


class TokenRole(Enum):
    """What the holder of a token may do: ask for releases, or decide on those that need approval."""

    ANALYST = "analyst"
    APPROVER = "approver"


@dataclass(frozen=True, kw_only=True)
class Token:
    """What a server knows of a token; the token itself it does not. `name` is for people, to list and revoke it."""

    name: str
    who: str
    role: TokenRole
    accounts: tuple[str, ...]
    made: float
    ends: float
    revoked: bool


def token_hash(token: str) -> str:
    """The SHA-256 of a token, which is all that is stored of it.

    A token has 256 random bits, so it cannot be guessed from its hash however quickly hashes are computed; a slow hash
    or a salt would protect passwords that people choose, and nothing here. A token is looked up by its hash: how long
    that takes depends on bits that nobody can steer towards a stored one.
    """
    return hashlib.sha256(token.encode()).hexdigest()


class TokenStore:
    """The tokens of a server, in its database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS token (hash TEXT PRIMARY KEY, who TEXT NOT NULL, role TEXT NOT NULL,"
            " accounts TEXT NOT NULL, made REAL NOT NULL, ends REAL NOT NULL, revoked INTEGER NOT NULL) STRICT"
        )

    def make(self, *, who: str, role: TokenRole, accounts: tuple[str, ...], days: float) -> str:
        """A new token, which is shown this once."""
        plain_name("who", who)
        if not 0.0 < days <= _LONGEST_LIFE:
            raise ArgumentError(f"days={days!r}: must be more than 0 and at most {_LONGEST_LIFE}")
        token, now = PREFIX + base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("="), time.time()
        row = (token_hash(token), who, role.value, "\n".join(accounts), now, now + days * _DAY, 0)
        with self._connection:
            self._connection.execute("INSERT INTO token VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return token

    def find(self, token: str) -> Token | None:
        """What a token allows, if it is known, has not ended and is not revoked."""
        if not token.startswith(PREFIX) or not token.isascii() or len(token) > 100:
            return None
        now, which = time.time(), "hash = ? AND NOT revoked AND made <= ? AND ends > ?"
        values = [token_hash(token), now + _SET_BACK, now]
        row = self._connection.execute(f"SELECT * FROM token WHERE {which}", values).fetchone()
        return None if row is None else _token(row)

    def listed(self) -> list[Token]:
        """All tokens, in the order in which they were made."""
        return [_token(row) for row in self._connection.execute("SELECT * FROM token ORDER BY made, hash")]

    def revoke(self, name: str) -> Token:
        """End a token now, by the name that `listed` has."""
        found = [each for each in self.listed() if each.name == name]
        if len(found) != 1:
            raise ArgumentError(f"name={name!r}: no such token; `rangebound serve tokens` lists them")
        with self._connection:
            self._connection.execute("UPDATE token SET revoked = 1 WHERE substr(hash, 1, 16) = ?", [name])
        return replace(found[0], revoked=True)


def _token(row: tuple[str, str, str, str, float, float, int]) -> Token:
    hashed, who, role, accounts, made, ends, revoked = row
    own = {"name": hashed[:16], "role": TokenRole(role), "accounts": tuple(accounts.split("\n"))}
    return Token(**own, who=who, made=made, ends=ends, revoked=bool(revoked))  # type: ignore[arg-type]


def peer_of(host: str) -> str:
    """Who is counted as one: an address, or the network of 64 bits in which one of IPv6 lies.

    >>> peer_of("192.0.2.7"), peer_of("2001:db8:0:1:2:3:4:5"), peer_of("::ffff:192.0.2.7"), peer_of("")
    ('192.0.2.7', '2001:db8:0:1::', '192.0.2.7', '')
    """
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    own = found.ipv4_mapped or ipaddress.IPv6Network((int(found), _OWN_BITS), strict=False).network_address
    return str(own)


class RateLimit:
    """A bucket with the requests of one minute per client; clients that were not seen for long are forgotten.

    >>> limit = RateLimit(60)
    >>> [limit.allows("anna", 0.0) for _ in range(61)].count(True), limit.allows("anna", 1.0)
    (60, True)
    """

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, client: str, now: float) -> bool:
        """Whether a client may make a request now; if so, it has made it."""
        left, last = self._left.pop(client, (self._most, now))
        left = min(self._most, left + max(0.0, now - last) * self._most / 60.0)
        allowed = left >= 1.0
        self._left[client] = (left - 1.0 if allowed else left), now
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return allowed
