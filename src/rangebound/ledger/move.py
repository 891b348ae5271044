"""Move a ledger between a file and PostgreSQL: the chain stays as it is, and the old place is closed for good.

The last entry at the old place, and the first new one at the new place, says where the ledger has gone. It is written
and durable before anything is copied. So there is no moment in which both places take charges; a move that was
interrupted is finished by the same command.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rangebound.errors import ArgumentError
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind, LedgerEntry
from rangebound.ledger.head import HeadFile
from rangebound.ledger.key import VARIABLE, Key, make_key, read_key
from rangebound.ledger.location import AnyStore, PathLike, head_file, located, vacant, verify
from rangebound.ledger.postgres_store import PostgresStore
from rangebound.ledger.requests import drafted
from rangebound.ledger.sqlite import PATIENCE
from rangebound.ledger.store import Row
from rangebound.values import arguments
from rangebound.values.postgres_address import is_address


def move(
    source: PathLike, target: PathLike, *, key: PathLike | None = None, who: str | None = None, roles: bool = False
) -> Ledger:
    """The ledger at `target`, with every entry and all bytes of the one at `source`, which takes no charge any more.

    One of them is a file and the other an address of a PostgreSQL database; with `roles=True` the database enforces the
    roles of a team, as `Ledger.create` says. The key is copied, unless `key` or the environment names it.

    Guarantee: the entries are the same, bit for bit, and so is the ledger's id; the source is verified first. From the
    moment in which the entry is durable that says where the ledger goes, the source refuses to be opened; it can still
    be verified.
    Edge cases: interrupted, the same move goes on; to another place it is refused. An old copy of the source from
    before the move is refused by its head, as every old copy is, and where the head was put back too it is not found.
    """
    if is_address(source) == is_address(target):
        raise ArgumentError(
            "target: must be a file where the ledger is in a database, and an address where it is a file; a file is "
            "moved with its key and head, and a ledger goes from one database to another by a file"
        )
    verify(source, key=key)
    store, secret = located(source, key, PATIENCE)
    kind, place = ("postgres", str(target)) if is_address(target) else ("file", os.path.realpath(target))
    last = _last(store)
    begun = last.kind == EntryKind.MOVE.value and last.what != store.kind  # else it is the move that has led here
    if begun and (last.what, last.note) != (kind, place):
        raise ArgumentError(
            f"target={arguments.shown(place)}: the ledger moves to {arguments.shown(last.note)} already"
        )
    new, key_place = vacant(target, key, _first(store).request or "", PATIENCE, known=True)
    if not begun and isinstance(new, PostgresStore) and new.exists():
        raise new.taken()
    head = _prepared(new, _first(store).request or "", key, key_place, secret)
    if not begun:
        with Ledger.open(source, key=key) as ledger, ledger._chain.writing() as transaction:  # the last entry here
            ledger._chain.append(transaction, drafted(EntryKind.MOVE, who=who, what=kind, note=place))
    new.create(partial(_rows, store, head), roles=roles)
    store.close()
    return Ledger.open(target, key=key)


def _prepared(new: AnyStore, name: str, key: PathLike | None, key_place: Path, secret: Key) -> HeadFile:
    """The head at the new place, once its key is there: what cannot be had is refused before the old one is closed."""
    if key is None and not os.environ.get(VARIABLE) and make_key(key_place, secret) != secret:
        raise ArgumentError(f"key={arguments.shown(str(key_place))}: is the key of another ledger")
    head = head_file(new, name, read_key(key_place), patience=PATIENCE)
    if not head.of_user and head.path.exists():
        head.read()  # refused if it is that of another ledger
    return head


def _rows(store: AnyStore, head: HeadFile) -> Iterator[Row]:
    """Every entry with its bytes, for a place that is ours alone; its head is made first."""
    last = _last(store).head
    if not head.of_user and not head.path.exists():
        head.create(last)
    head.begin(last)
    with store.reading() as transaction:
        for seq in [entry.seq for entry in transaction.entries(1)]:
            entry = transaction.entry(seq)
            assert entry is not None
            yield entry, transaction.payload(seq) if entry.digest is not None else None


def _first(store: AnyStore) -> LedgerEntry:
    with store.reading() as transaction:
        found = transaction.entry(1)
    assert found is not None
    return found


def _last(store: AnyStore) -> LedgerEntry:
    with store.reading() as transaction:
        *_, last = transaction.entries(1)
    return last
