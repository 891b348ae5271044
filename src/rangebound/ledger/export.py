"""A ledger taken elsewhere: its history as CSV or JSON lines, all of it as JSON, or moved to another place.

CSV and JSON lines hold every field of every entry as it is under its seal, so that `verify_export` checks them by their
text and the key alone: chain, balances, and what each line shows.

A ledger moves between a file and PostgreSQL: the chain stays as it is, and the old place is closed for good. The last
entry at the old place, and the first new one at the new place, says where the ledger has gone. It is written and
durable before anything is copied. So there is no moment in which both places take charges; a move that was interrupted
is finished by the same command.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import FORMAT, EntryKind, LedgerEntry, parse_head
from rangebound.ledger.guarded_chain import Progress, check_entries, refuse
from rangebound.ledger.head import KEY_VARIABLE, HeadFile, Key, file_path, key_path, make_key, read_key
from rangebound.ledger.location import AnyStore, PathLike, head_file, located, vacant, verify
from rangebound.ledger.postgres_store import PostgresStore
from rangebound.ledger.record import Account, Record, account_of, record_of
from rangebound.ledger.replay import Replay
from rangebound.ledger.requests import drafted
from rangebound.ledger.sqlite import PATIENCE
from rangebound.ledger.store import Row
from rangebound.values import arguments
from rangebound.values.postgres_address import is_address
from rangebound.values.serial import plain_text, spreadsheet_cell

Form: TypeAlias = Callable[[list[Record]], str]

COLUMNS = [
    *("seq", "time", "kind", "account", "request", "epsilon", "delta", "order", "divergence"),
    *("mu", "mu_squared"),
    *("who", "what", "note", "digest", "seal"),
    *("microseconds", "first", "second", "ref", "head"),
]
_WHOLE = frozenset({"seq", "microseconds", "first", "second", "ref"})
_SEPARATORS = {ord(each): f"\\u{ord(each):04x}" for each in "\x85\u2028\u2029"}
_PERHAPS = frozenset({"account", "request", "first", "second", "ref", "digest"})


def to_csv(records: list[Record]) -> str:
    """The history as CSV, one line per entry, amounts as exact decimals.

    `first` and `second` are the amounts in units of 1e-12, `microseconds` is the time since 1970, `ref` the entry that
    one is about, `head` the head of the ledger at it.

    Edge cases: text that a spreadsheet would run as a formula gets an apostrophe in front, and so does text that begins
    with one; line breaks and the like are escaped, as `rangebound.values.serial.spreadsheet_cell` says. JSON has
    the text as it is.

    >>> import tempfile, rangebound as rb
    >>> with tempfile.TemporaryDirectory() as folder, rb.Ledger.create(folder + "/census.ledger") as ledger:
    ...     _ = ledger.open_account("residents", epsilon=1)
    ...     text = to_csv(ledger.history())
    >>> text.count("\\n"), "residents" in text
    (3, True)
    """
    return _table(records, _cell)


def to_csv_before(records: list[Record]) -> str:
    """The history as versions until 0.2 wrote it: line breaks stand inside of quotes."""
    return _table(records, _cell_before)


def _table(records: list[Record], cell: Callable[[object], object]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    for record in records:
        cost = {} if record.cost is None else record.cost.to_dict()
        row = {**{name: value for name, value in record.to_dict().items() if name != "cost"}, **cost}
        writer.writerow({name: cell(value) for name, value in row.items()})
    return text.getvalue()


def _cell(value: object) -> object:
    found = spreadsheet_cell(value)
    return f"'{value}" if found is value and isinstance(value, str) and value.startswith("'") else found


def _cell_before(value: object) -> object:
    marked = isinstance(value, str) and value.startswith(tuple("'=+-@\t\r\n")) and not re.fullmatch("-[0-9]+", value)
    return f"'{value}" if marked else value


def plain_cell(name: str, cell: str | None) -> int | str | None:
    """What `to_csv` wrote into a cell of a column that is under the seal; a `ValueError` for what it never writes.

    >>> plain_cell("note", "'=1+1"), plain_cell("first", ""), plain_cell("seq", "3")
    ('=1+1', None, 3)
    """
    if cell is None or (not cell and name in _PERHAPS):
        return None
    return int(cell) if name in _WHOLE else plain_text(cell) if cell.startswith("'\\") else cell.removeprefix("'")


def to_lines(records: list[Record]) -> str:
    """The history as JSON lines, one object per entry, with the fields of the CSV; amounts as exact decimals.

    Guarantee: a line of the text is an entry, also for readers that take Unicode's separators for the end of a line.

    >>> import tempfile, rangebound as rb
    >>> with tempfile.TemporaryDirectory() as folder, rb.Ledger.create(folder + "/census.ledger") as ledger:
    ...     _ = ledger.open_account("residents", epsilon=1)
    ...     [json.loads(line)["account"] for line in to_lines(ledger.history()).splitlines()]
    [None, 'residents']
    """
    return to_lines_before(records).translate(_SEPARATORS)


def to_lines_before(records: list[Record]) -> str:
    """The history as versions until 0.2 wrote it, with Unicode's line separators as they are."""
    return "".join(json.dumps(record.to_dict(), ensure_ascii=False) + "\n" for record in records)


def to_json(ledger: Ledger) -> str:
    """The ledger as JSON: its accounts, its entries with their seals, its head.

    >>> import tempfile, rangebound as rb
    >>> with tempfile.TemporaryDirectory() as folder, rb.Ledger.create(folder + "/census.ledger") as ledger:
    ...     _ = ledger.open_account("residents", epsilon=1)
    ...     list(json.loads(to_json(ledger)))
    ['format', 'head', 'accounts', 'entries']
    """
    data = {
        "format": FORMAT,
        "head": ledger.head,
        "accounts": [account.to_dict() for account in ledger.accounts()],
        "entries": [record.to_dict() for record in ledger.history()],
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What a successful check of an export saw: how many entries, where they end, and the accounts as they stood."""

    entries: int
    head: str
    clock_set_back: tuple[int, ...]
    accounts: tuple[Account, ...]


def verify_export(path: PathLike, *, key: PathLike | None = None, head: str | None = None) -> ExportReport:
    """Check an export, CSV or JSON lines, with the key alone: no ledger is needed.

    Guarantee: every entry is under its seal, in its place, and keeps the rules of a ledger: no account was overspent,
    no spend lacks its approval. What a line shows beside that (times, costs, heads) is what its entry says, to the last
    character. With `head`, as `Ledger.head` or a certificate says it, the export holds that entry.
    Raises: `LedgerTampered` with all findings.
    Edge cases: entries cut off at the end leave an export of an earlier day, which only a later `head` finds. Published
    bytes are not in an export, only their digests. Of accounts with periods, the balance is that of the last entry.

    >>> import tempfile, rangebound as rb
    >>> from rangebound.ledger import to_lines
    >>> with tempfile.TemporaryDirectory() as folder, rb.Ledger.create(folder + "/census.ledger") as ledger:
    ...     _ = ledger.open_account("residents", epsilon=1)
    ...     with open(folder + "/history.jsonl", "w") as file:
    ...         _ = file.write(to_lines(ledger.history()))
    ...     report = verify_export(folder + "/history.jsonl", key=folder + "/census.ledger.key")
    >>> report.entries
    2
    """
    place, said = key_path(file_path("path", path), key)
    if not said:
        raise ArgumentError(f"key: missing; give the ledger's key file, by --key, key= or {KEY_VARIABLE}")
    known = None if head is None else parse_head(head)
    secret = read_key(place)
    try:
        text = Path(path).read_bytes().decode()
    except OSError as error:
        raise LedgerUnavailable(f"export={arguments.shown(str(path))}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise LedgerTampered("export: is not text in UTF-8") from None
    lines = text.startswith("{")
    entries = list(_lines(text) if lines else _rows(text))
    state, seen = Replay(key=secret), Progress()
    findings = list(check_entries(iter(entries), state, seen))
    if not findings:
        records = [record_of(each, state.rules) for each in entries]
        findings += _differences(text, records, (to_lines, to_lines_before) if lines else (to_csv, to_csv_before))
    if known is not None and not any((each.seq, each.seal) == known for each in entries):
        findings.append(f"head: the export has no entry {known.seq} of which this head is known; it is of another day")
    refuse(findings)
    return ExportReport(
        entries=seen.last,
        head=f"{seen.last}:{seen.seal.hex()}",
        clock_set_back=tuple(seen.set_back),
        accounts=tuple(account_of(name, each, state.latest) for name, each in state.accounts.items()),
    )


def _rows(text: str) -> Iterator[LedgerEntry]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    number = 1
    try:
        if reader.fieldnames != COLUMNS:
            raise LedgerTampered(
                "export: its columns are not those of an export; give the CSV or the JSON lines of one"
            )
        for number, row in enumerate(reader, start=2):
            yield _entry(number, {name: plain_cell(name, each) for name, each in row.items() if name is not None})
    except LedgerTampered:
        raise
    except (csv.Error, ValueError):
        raise LedgerTampered(f"line {number}: not valid CSV, or a cell that is not a number") from None


def _lines(text: str) -> Iterator[LedgerEntry]:
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            raise LedgerTampered(f"line {number}: not valid JSON") from None
        if not isinstance(data, dict):
            raise LedgerTampered(f"line {number}: must be an object, with the fields of an entry")
        yield _entry(number, data)


def _entry(line: int, cells: dict[str, object]) -> LedgerEntry:
    """The entry of a line: the fields under its seal, of the types that a ledger has."""

    def read(name: str, value: object) -> object:
        if value is None and name in _PERHAPS:
            return None
        if type(value) is not (int if name in _WHOLE else str):
            raise TypeError
        if isinstance(value, str):
            value.encode()  # half of a surrogate pair is not text: a `ValueError`
            return bytes.fromhex(value) if name in ("digest", "seal") else value
        return value

    columns = {name: "microseconds" if name == "time" else name for name in LedgerEntry._fields}
    try:
        found: dict[str, Any] = {name: read(column, cells[column]) for name, column in columns.items()}
    except (KeyError, TypeError, ValueError):
        raise LedgerTampered(f"line {line}: a field is missing or has another type") from None
    return LedgerEntry(**found)


def _differences(text: str, records: list[Record], forms: tuple[Form, ...]) -> Iterator[str]:
    """Where an export shows something else than the entries under its seals, in all forms that it may have."""
    if any(written(records) == text for written in forms):
        return
    for record in records:
        if all(written([record]).removeprefix(written([])) not in text for written in forms):
            yield f"entry {record.seq}: its line shows something else than what is under its seal"
            return
    yield "export: is not in the form in which it was written"


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
    new.create(partial(_stored_rows, store, head), roles=roles)
    store.close()
    return Ledger.open(target, key=key)


def _prepared(new: AnyStore, name: str, key: PathLike | None, key_place: Path, secret: Key) -> HeadFile:
    """The head at the new place, once its key is there: what cannot be had is refused before the old one is closed."""
    if key is None and not os.environ.get(KEY_VARIABLE) and make_key(key_place, secret) != secret:
        raise ArgumentError(f"key={arguments.shown(str(key_place))}: is the key of another ledger")
    head = head_file(new, name, read_key(key_place), patience=PATIENCE)
    if not head.of_user and head.path.exists():
        head.read()  # refused if it is that of another ledger
    return head


def _stored_rows(store: AnyStore, head: HeadFile) -> Iterator[Row]:
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
