"""The head of a ledger in a database, as this user of this machine has seen it last.

Who opens a ledger for the first time has no head, and trusts what is found; from then on a rollback is noticed. The
file is written when an entry was added, and when the ledger is opened and closed; it is not synced at every entry. A
process that is killed loses nothing of it; a loss of power may put it back by some seconds, and the ledger itself, on
the server, by nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rangebound.errors import ArgumentError
from rangebound.ledger.head import Head, HeadFile
from rangebound.ledger.user_folder import made_folder


class ClientHead:
    """The file with the head of one ledger in a database.

    Guarantee: as that of `HeadFile`, with processes of one user in the place of all. Writers do not wait for each other
    but for the moment in which one overwrites the line.
    """

    def __init__(self, path: Path, name: str, key: bytes, *, patience: float) -> None:
        self.path = path
        self._file = HeadFile(path, name, key, patience=patience, synced=False)

    def create(self, head: Head) -> None:
        """Make the file, which must not be there."""
        made_folder(self.path.parent)
        self._file.create(head)

    def begin(self, head: Head) -> None:
        """Trust a head where none is known."""
        if not self.path.exists():
            with suppress(ArgumentError):  # another process was first
                self.create(head)

    def read(self) -> Head:
        """The head as it was last written."""
        return self._file.read()

    @contextmanager
    def held(self) -> Iterator[LaterHead]:
        """The head as it is now; `advance` moves it, and takes it from others only for that."""
        yield LaterHead(self, self.read())

    def follow(self, head: Head) -> None:
        """Move the head to an entry that is durable; it never goes back."""
        with self._file.held() as held:
            held.advance(head)


class LaterHead:
    """A head that others may move before `advance` does."""

    def __init__(self, file: ClientHead, head: Head) -> None:
        self._file = file
        self.head = head

    def advance(self, head: Head) -> None:
        """Move the head to an entry that is durable; it never goes back."""
        self._file.follow(head)
