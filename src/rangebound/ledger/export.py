"""Exports of a ledger: its history as CSV for a spreadsheet or as JSON lines, all of it as JSON for a program.

CSV and JSON lines hold every field of every entry as it is under its seal, so that `verify_export` can check them.
"""

from __future__ import annotations

import csv
import io
import json

from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import FORMAT
from rangebound.ledger.record import Record
from rangebound.serial import spreadsheet_cell

COLUMNS = [
    *("seq", "time", "kind", "account", "request", "epsilon", "delta", "order", "divergence"),
    *("mu", "mu_squared"),
    *("who", "what", "note", "digest", "seal"),
    *("microseconds", "first", "second", "ref", "head"),
]
_WHOLE = frozenset({"seq", "microseconds", "first", "second", "ref"})
_PERHAPS = frozenset({"account", "request", "first", "second", "ref", "digest"})


def to_csv(records: list[Record]) -> str:
    """The history as CSV, one line an entry, amounts as exact decimals.

    `first` and `second` are the amounts in units of 1e-12, `microseconds` is the time since 1970, `ref` the entry that
    one is about, `head` the head of the ledger at it.

    Edge cases: text that a spreadsheet would run as a formula gets an apostrophe in front, and so does text that begins
    with one. JSON has the text as it is.

    >>> import tempfile, rangebound as rb
    >>> with tempfile.TemporaryDirectory() as folder, rb.Ledger.create(folder + "/census.ledger") as ledger:
    ...     _ = ledger.open_account("residents", epsilon=1)
    ...     text = to_csv(ledger.history())
    >>> text.count("\\n"), "residents" in text
    (3, True)
    """
    text = io.StringIO()
    # Everything is quoted, since a lone return would otherwise end a line.
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    for record in records:
        cost = {} if record.cost is None else record.cost.to_dict()
        row = {**{name: value for name, value in record.to_dict().items() if name != "cost"}, **cost}
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith("'") else spreadsheet_cell(value)


def plain_cell(name: str, cell: str | None) -> int | str | None:
    """What `to_csv` wrote into a cell of a column that is under the seal; a `ValueError` for what it never writes.

    >>> plain_cell("note", "'=1+1"), plain_cell("first", ""), plain_cell("seq", "3")
    ('=1+1', None, 3)
    """
    if cell is None or (not cell and name in _PERHAPS):
        return None
    return int(cell) if name in _WHOLE else cell.removeprefix("'")


def to_lines(records: list[Record]) -> str:
    """The history as JSON lines, one object an entry, with the fields of the CSV; amounts as exact decimals.

    >>> import tempfile, rangebound as rb
    >>> with tempfile.TemporaryDirectory() as folder, rb.Ledger.create(folder + "/census.ledger") as ledger:
    ...     _ = ledger.open_account("residents", epsilon=1)
    ...     [json.loads(line)["account"] for line in to_lines(ledger.history()).splitlines()]
    [None, 'residents']
    """
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
