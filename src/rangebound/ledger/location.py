"""Where a ledger is: its file or its place in a database, its key and its head."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TypeAlias

from rangebound.errors import ArgumentError, LedgerUnavailable
from rangebound.ledger.chain import Head
from rangebound.ledger.guarded_chain import Report, examine
from rangebound.ledger.head import (
    ENDING,
    KEY_VARIABLE,
    HeadFile,
    Key,
    file_path,
    head_folder,
    head_path,
    key_path,
    made_folder,
    read_key,
    user_folder,
)
from rangebound.ledger.postgres_schema import postgres_place
from rangebound.ledger.postgres_store import PostgresStore
from rangebound.ledger.sqlite import FILES, PATIENCE, SQLiteStore, may_be_database
from rangebound.values import arguments
from rangebound.values.postgres_address import is_address

PathLike: TypeAlias = str | os.PathLike[str]
AnyStore: TypeAlias = SQLiteStore | PostgresStore


def there_is(path: str) -> bool:
    """Whether there is a ledger, or something else, at a path or an address."""
    if is_address(path):
        store = PostgresStore(postgres_place(path), patience=PATIENCE)
        try:
            return store.exists()
        finally:
            store.close()
    return Path(path).exists()


def located(path: PathLike, key: PathLike | None, patience: float) -> tuple[AnyStore, Key]:
    """The store and the key of the ledger at `path`, which must exist."""
    if is_address(path):
        database = PostgresStore(postgres_place(str(path)), patience=patience)
        place, said = key_path(user_folder("key") / database.name(), key)
        if not said and not place.exists():
            raise LedgerUnavailable(
                f"key={arguments.shown(str(place))}: there is no such file; ask for the key of this ledger and put it "
                f"there, or name its file by --key or {KEY_VARIABLE}"
            )
        return database, read_key(place)
    store = SQLiteStore(file_path("path", path), patience=patience)
    if not store.path.is_file():
        raise LedgerUnavailable(
            f"ledger={arguments.shown(str(path))}: there is no such file; "
            f"`rangebound ledger open {shlex.quote(str(path))} ACCOUNT --epsilon TOTAL` makes one with its first "
            "account, as does `Ledger.create` in Python"
        )
    place = key_path(store.path, key)[0]
    if not place.exists() and not may_be_database(store.path):
        raise LedgerUnavailable(f"ledger={arguments.shown(str(path))}: is another kind of file")
    return store, read_key(place)


def vacant(
    path: PathLike, key: PathLike | None, name: str, patience: float, *, known: bool = False
) -> tuple[AnyStore, Path]:
    """The store for a new ledger with the id `name`, and the path of its key; refused where a ledger is or was. Of one
    that is `known`, because it comes from another place, the key and the head may be there."""
    if is_address(path):
        place, said = key_path(user_folder("key") / name, key)
        if not said:
            made_folder(place.parent)
        return PostgresStore(postgres_place(str(path)), patience=patience), place
    store = SQLiteStore(file_path("path", path), patience=patience)
    place, said = key_path(store.path, key)
    if not store.path.parent.is_dir():
        raise ArgumentError(f"path={arguments.shown(str(path))}: must be in an existing folder")
    if store.path.exists() and (not store.path.is_file() or store.path.stat().st_size):
        raise ArgumentError(f"path={arguments.shown(str(path))}: must not exist yet; `Ledger.open` opens a ledger")
    for what, there in {"key": place.exists() and not said, "head": head_path(store.path, name).exists()}.items():
        if there and not known:
            raise ArgumentError(
                f"path={arguments.shown(str(path))}: there is a {what} beside it, so there was a ledger; bring it "
                f"back, or remove the {what} to begin anew"
            )
    return store, place


def head_file(store: AnyStore, name: str, key: bytes, *, patience: float) -> HeadFile:
    """The file with the head of the ledger with the id `name` in this store."""
    if isinstance(store, PostgresStore):
        return HeadFile(head_path(user_folder("head") / name, name), name, key, patience=patience, of_user=True)
    return HeadFile(head_path(store.path, name), name, key, patience=patience)


def verify(path: PathLike, *, key: PathLike | None = None, head: str | None = None) -> Report:
    """Check the ledger at `path` to its end, even if it is too damaged to be opened.

    Guarantee: as `examine` says. A rollback is found by the head that is kept outside the file (beside it, or in the
    folder `RANGEBOUND_HEAD`), or by one that was noted elsewhere and is given.
    Raises: `LedgerTampered` with all findings.

    >>> import tempfile, rangebound as rb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with rb.Ledger.create(folder + "/census.ledger") as ledger:
    ...         _ = ledger.open_account("residents", epsilon=1)
    ...     verify(folder + "/census.ledger").entries
    2
    """
    store, secret = located(path, key, PATIENCE)

    def kept(name: str) -> Head | None:
        found = head_file(store, name, secret, patience=PATIENCE)
        return None if found.of_user and not found.path.exists() else found.read()

    try:
        return examine(store, secret, head=head, kept=kept)
    finally:
        store.close()


def ledger_files(path: PathLike, *, key: PathLike | None = None) -> tuple[Path, ...]:
    """Every file that belongs to the ledger at `path`, whether or not it exists: nothing else may be written there.

    The first is the ledger itself, as the system names it; `key` is that of `Ledger.open`. Of a ledger in a database,
    the files are the keys and heads of this user.

    >>> [each.name for each in ledger_files("census.ledger")][:2]
    ['census.ledger', 'census.ledger-journal']
    """
    if is_address(path):
        places = [user_folder("key").glob("*.key"), (head_folder() or user_folder("head")).glob(f"*{ENDING}")]
        found = [each for place in places for each in sorted(place)]
        chosen, said = key_path(Path(), key) if key is not None or os.environ.get(KEY_VARIABLE) else (Path(), False)
        return tuple(Path(os.path.realpath(each)) for each in ([chosen] if said else []) + found)
    ledger = Path(os.path.realpath(file_path("path", path)))
    beside = [ledger.with_name(ledger.name + ending) for ending in (*FILES, ENDING)]
    folder = head_folder()
    heads = [] if folder is None else sorted(folder.glob(f"*{ENDING}"))
    return (*beside, Path(os.path.realpath(key_path(ledger, key)[0])), *heads)
