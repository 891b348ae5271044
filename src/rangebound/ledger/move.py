"""Move a ledger between a file and PostgreSQL: the chain stays as it is, and the old place is closed for good.

The last entry at the old place, and the first new one at the new place, says where the ledger has gone. It is written
and durable before anything is copied. So there is no moment in which both places take charges; a move that was
interrupted is finished by the same command.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from rangebound.errors import ArgumentError
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind, LedgerEntry
from rangebound.ledger.key import VARIABLE, Key, make_key, read_key
from rangebound.ledger.location import AnyStore, PathLike, head_file, located, vacant, verify
from rangebound.ledger.postgres_store import PostgresStore
from rangebound.ledger.requests import drafted
from rangebound.ledger.sqlite import PATIENCE
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
    if last.kind != EntryKind.MOVE.value:
        new = vacant(target, key, _first(store).request or "", PATIENCE, known=True)[0]
        if isinstance(new, PostgresStore) and new.exists():
            raise new.taken()
        with Ledger.open(source, key=key) as ledger, ledger._chain.writing() as transaction:  # the last entry here
            ledger._chain.append(transaction, drafted(EntryKind.MOVE, who=who, what=kind, note=place))
    elif (last.what, last.note) != (kind, place):
        raise ArgumentError(
            f"target={arguments.shown(place)}: the ledger moves to {arguments.shown(last.note)} already"
        )
    _copy(store, target, key, secret, roles=roles)
    store.close()
    return Ledger.open(target, key=key)


def _copy(store: AnyStore, target: PathLike, key: PathLike | None, secret: Key, *, roles: bool) -> None:
    name = _first(store).request or ""
    new, place = vacant(target, key, name, PATIENCE, known=True)

    def rows() -> Iterator[tuple[LedgerEntry, bytes | None]]:
        if key is None and not os.environ.get(VARIABLE) and make_key(place, secret) != secret:
            raise ArgumentError(f"key={arguments.shown(str(place))}: is the key of another ledger")
        head, last = head_file(new, name, read_key(place), patience=PATIENCE), _last(store).head
        if not head.of_user and not head.path.exists():
            head.create(last)
        head.begin(last)
        with store.reading() as transaction:
            seqs = [entry.seq for entry in transaction.entries(1)]
            for seq in seqs:
                entry = transaction.entry(seq)
                assert entry is not None
                yield entry, transaction.payload(seq) if entry.digest is not None else None

    new.create(rows, roles=roles)


def _first(store: AnyStore) -> LedgerEntry:
    with store.reading() as transaction:
        found = transaction.entry(1)
    assert found is not None
    return found


def _last(store: AnyStore) -> LedgerEntry:
    with store.reading() as transaction:
        *_, last = transaction.entries(1)
    return last
