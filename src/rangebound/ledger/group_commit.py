"""Group commit: processes of one user that wait for a ledger hand their entries to the one that writes next.

The first to come listens, under a name that the kernel knows, until it is its turn to write. Those who come meanwhile
find the name taken, connect, and send what they want to add. The writer adds all of it with its own entry, in one
transaction with one commit, and then tells each the number of its entry.

Only speed depends on this. Who gets no answer, because the writer was killed, or does not take what was sent, writes by
itself, and what was added for it is found by its request, of which there is one entry of a kind. What is sent is under
a seal with the ledger's key, and goes to processes of the same user alone. There are such names on Linux; elsewhere,
everyone writes by itself.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rangebound.errors import LedgerUnavailable
from rangebound.ledger.chain import EntryKind, LedgerEntry
from rangebound.ledger.forks import watch

HANDED = frozenset({EntryKind.SPEND.value, EntryKind.PUBLISH.value})
"""The kinds of entries that another process may add."""

LARGEST = 2**16
"""So many bytes may be handed on; what is larger is written by the process that has it."""

_MOST = 200  # entries that are taken at once
_READING = 0.02  # seconds that a process may take to send what it has begun to send
_PAUSE = 0.0005  # seconds before a name that was just given up is tried again
_NONCE = 16
_MAC = 32
_LENGTH, _NUMBER, _PEER = struct.Struct(">I"), struct.Struct(">Q"), struct.Struct("3i")


class _NoNames(Exception):
    """The system has no such names to give."""


class Guest:
    """A process that waits for the entry `draft`, with the bytes `payload`, to be added."""

    def __init__(self, link: socket.socket, key: bytes, body: bytes) -> None:
        self._link, self._key, self._nonce = link, key, body[:_NONCE]
        fields, _, rest = body[_NONCE:].partition(b"\n")
        self.draft, self.payload = _draft(json.loads(fields)), None
        if self.draft.kind == EntryKind.PUBLISH.value:
            self.payload = rest
            if hashlib.sha256(rest).digest() != self.draft.digest:
                raise ValueError("bytes with another digest")

    def answer(self, seq: int) -> None:
        """Say that the entry was added as number `seq`, and is durable; or not at all, if that is 0."""
        with suppress(OSError):  # it is gone, or was answered; what was added stays
            number = _NUMBER.pack(seq)
            self._link.sendall(number + _mac(self._key, b"answer", self._nonce + number))
        self.close()

    def close(self) -> None:
        """Leave it to itself."""
        self._link.close()


class CommitGroup:
    """Where the processes that write to one ledger meet.

    Guarantee: an entry is said to be added only by a process that has the key and runs as the same user, and only for
    what was sent to it.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._lock = threading.Lock()
        self._listeners: dict[bytes, socket.socket] = {}
        watch(self)

    @contextmanager
    def turn(
        self, place: str | None, draft: LedgerEntry, payload: bytes | None, *, patience: float
    ) -> Iterator[int | None]:
        """The number of an entry like `draft` that another process has added here; or None: then it is our turn, and
        others may come until `gathered` takes what they have, or until this ends.

        `place` tells the ledger from all others, its copies too; without it, everyone writes by itself.
        """
        name = self._name(place)
        if name is None or len(payload or b"") > LARGEST:
            yield None
            return
        lock = self._lock  # threads come one after the other, as they write
        if not lock.acquire(timeout=patience):
            raise LedgerUnavailable(f"ledger: other threads kept it busy for {patience:g} s; try again")
        seq, listener, end = None, None, time.monotonic() + patience
        try:
            with suppress(_NoNames):
                while seq is None and (listener := self._listens(name)) is None:
                    seq = self._handed(name, draft, payload, end)
            yield seq or None
        finally:
            self._leave(name, listener)
            lock.release()

    def gathered(self, place: str | None, linger: float) -> list[Guest]:
        """What the others want to add here; it is for the one whose turn it is, and nobody can come after that.

        Once one has come, the next may be `linger` seconds behind it.
        """
        name = self._name(place)
        listener = None if name is None else self._listeners.pop(name, None)
        if listener is None:
            return []
        found: list[Guest] = []
        with listener, suppress(OSError):
            while len(found) < _MOST:
                listener.settimeout(linger if found else 0)
                link, _ = listener.accept()
                with suppress(OSError, ValueError, TypeError):
                    found.append(self._welcomed(link))
        return found

    def before_fork(self) -> None:
        """Nothing: who waits goes on waiting."""

    def after_fork_in_parent(self) -> None:
        """Nothing."""

    def after_fork_in_child(self) -> None:
        """Let go of the names, which are the parent's."""
        self._lock = threading.Lock()
        for name in list(self._listeners):
            self._leave(name, self._listeners[name])

    def _name(self, place: str | None) -> bytes | None:
        if place is None or sys.platform != "linux":
            return None
        return b"\0rangebound-" + _mac(self._key, b"name", f"{os.geteuid()} {place}".encode()).hex().encode()

    def _listens(self, name: bytes) -> socket.socket | None:
        """What listens under the name, which is ours now; None if another process has it."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(name)
            listener.listen(_MOST)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                return None
            raise _NoNames from error
        self._listeners[name] = listener
        return listener

    def _leave(self, name: bytes, listener: socket.socket | None) -> None:
        if listener is not None:
            listener.close()
            if self._listeners.get(name) is listener:  # another thread may have the name by now
                del self._listeners[name]

    def _handed(self, name: bytes, draft: LedgerEntry, payload: bytes | None, end: float) -> int | None:
        """The number under which the entry was added by the process that listens; 0 if it does not take it, and None
        if it is gone."""
        nonce = os.urandom(_NONCE)
        body = nonce + json.dumps(_fields(draft)).encode() + b"\n" + (payload or b"")
        left = end - time.monotonic()
        if left <= 0:
            raise LedgerUnavailable("ledger: others kept it busy; nothing was written, try again")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            try:
                link.settimeout(left)
                link.connect(name)
                if not _is_own(link):
                    return 0
                link.sendall(_LENGTH.pack(len(body)) + _mac(self._key, b"body", body) + body)
                answer = _read(link, _NUMBER.size + _MAC)
            except TimeoutError:
                raise LedgerUnavailable(
                    "ledger: is locked by another process; whether the entry was written shows when it is asked for "
                    "again: the same request is not charged twice"
                ) from None
            except OSError:
                time.sleep(_PAUSE)
                return None
        number = answer[: _NUMBER.size]
        genuine = hmac.compare_digest(answer[_NUMBER.size :], _mac(self._key, b"answer", nonce + number))
        return int(_NUMBER.unpack(number)[0]) if genuine else 0

    def _welcomed(self, link: socket.socket) -> Guest:
        try:
            link.settimeout(_READING)
            if not _is_own(link):
                raise ValueError("another user")
            (length,) = _LENGTH.unpack(_read(link, _LENGTH.size))
            if length > 2 * LARGEST:
                raise ValueError("too long")
            mac, body = _read(link, _MAC), _read(link, length)
            if not hmac.compare_digest(mac, _mac(self._key, b"body", body)):
                raise ValueError("another key")
            return Guest(link, self._key, body)
        except BaseException:
            link.close()
            raise


def _fields(draft: LedgerEntry) -> list[object]:
    """What a draft says, in JSON: its number, time and seal are the writer's."""
    return [each.hex() if isinstance(each, bytes) else each for each in draft[2:-1]]


def _draft(fields: list[object]) -> LedgerEntry:
    draft = LedgerEntry._make([0, 0, *fields, b""])
    texts, numbers = (draft.account, draft.request, draft.who, draft.what, draft.note), draft[5:8]
    if draft.kind not in HANDED or not all(type(each) is str for each in texts):
        raise ValueError("another kind of entry")
    if not all(each is None or type(each) is int for each in numbers):
        raise ValueError("another kind of entry")
    return draft._replace(digest=None if draft.digest is None else bytes.fromhex(str(draft.digest)))


def _is_own(link: socket.socket) -> bool:
    """Whether a process of the same user is at the other end."""
    _, user, _ = _PEER.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(user == os.geteuid())


def _mac(key: bytes, label: bytes, data: bytes) -> bytes:
    return hmac.digest(key, b"rangebound group 1 " + label + b"\0" + data, "sha256")


def _read(link: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = link.recv(length - len(data))
        if not more:
            raise ConnectionError("gone")
        data += more
    return data
