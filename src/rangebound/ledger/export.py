"""Exports of a ledger: its history as CSV for a spreadsheet or as JSON lines, all of it as JSON for a program.

CSV and JSON lines hold every field of every entry as it is under its seal, so that `verify_export` can check them.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable

from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import FORMAT
from rangebound.ledger.record import Record
from rangebound.values.serial import plain_text, spreadsheet_cell

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
    """The history as CSV, one line an entry, amounts as exact decimals.

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
    """The history as JSON lines, one object an entry, with the fields of the CSV; amounts as exact decimals.

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
