"""Where the files of a ledger are: the database, its key and its head."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from rangebound import arguments
from rangebound.errors import ArgumentError, LedgerUnavailable
from rangebound.ledger.head import ENDING, Head, HeadFile, head_folder, head_path
from rangebound.ledger.key import Key, key_path, read_key
from rangebound.ledger.names import file_path
from rangebound.ledger.sqlite import FILES, PATIENCE, SQLiteStore, may_be_database
from rangebound.ledger.verification import Report, examine

PathLike: TypeAlias = str | os.PathLike[str]


def located(path: PathLike, key: PathLike | None, patience: float) -> tuple[SQLiteStore, Key]:
    """The store and the key of the ledger at `path`, which must exist."""
    store = SQLiteStore(file_path("path", path), patience=patience)
    if not store.path.is_file():
        raise LedgerUnavailable(
            f"ledger={arguments.shown(str(path))}: there is no such file; "
            "`Ledger.create` or `rangebound ledger open` makes one"
        )
    place = key_path(store.path, key)[0]
    if not place.exists() and not may_be_database(store.path):
        raise LedgerUnavailable(f"ledger={arguments.shown(str(path))}: is another kind of file")
    return store, read_key(place)


def vacant(path: PathLike, key: PathLike | None, name: str, patience: float) -> tuple[SQLiteStore, Path]:
    """The store for a new ledger with the id `name`, and the path of its key; refused where a ledger is or was."""
    store = SQLiteStore(file_path("path", path), patience=patience)
    place, said = key_path(store.path, key)
    if not store.path.parent.is_dir():
        raise ArgumentError(f"path={arguments.shown(str(path))}: must be in an existing folder")
    if store.path.exists() and (not store.path.is_file() or store.path.stat().st_size):
        raise ArgumentError(f"path={arguments.shown(str(path))}: must not exist yet; `Ledger.open` opens a ledger")
    for what, there in {"key": place.exists() and not said, "head": head_path(store.path, name).exists()}.items():
        if there:
            raise ArgumentError(
                f"path={arguments.shown(str(path))}: there is a {what} beside it, so there was a ledger; bring it "
                f"back, or remove the {what} to begin anew"
            )
    return store, place


def head_file(store: SQLiteStore, name: str, key: bytes, *, patience: float) -> HeadFile:
    """The file with the head of the ledger with the id `name` in this store."""
    return HeadFile(head_path(store.path, name), name, key, patience=patience)


def verify(path: PathLike, *, key: PathLike | None = None, head: str | None = None) -> Report:
    """Check the ledger at `path` to its end, even if it is too damaged to be opened.

    Guarantee: as `examine` says. A rollback is found by the head that is kept outside the file (beside it, or in the
    folder `RANGEBOUND_HEAD`), or by one that was noted elsewhere and is given.
    Raises: `LedgerTampered` with all findings.
    """
    store, secret = located(path, key, PATIENCE)

    def kept(name: str) -> Head:
        return head_file(store, name, secret, patience=PATIENCE).read()

    try:
        return examine(store, secret, head=head, kept=kept)
    finally:
        store.close()


def ledger_files(path: PathLike, *, key: PathLike | None = None) -> tuple[Path, ...]:
    """Every file that belongs to the ledger at `path`, whether or not it exists: nothing else may be written there.

    The first is the ledger itself, as the system names it; `key` is that of `Ledger.open`.

    >>> [each.name for each in ledger_files("census.ledger")][:2]
    ['census.ledger', 'census.ledger-journal']
    """
    ledger = Path(os.path.realpath(file_path("path", path)))
    beside = [ledger.with_name(ledger.name + ending) for ending in (*FILES, ENDING)]
    folder = head_folder()
    heads = [] if folder is None else sorted(folder.glob(f"*{ENDING}"))
    return (*beside, Path(os.path.realpath(key_path(ledger, key)[0])), *heads)
