"""Exports of a ledger: its history as CSV for a spreadsheet, all of it as JSON for a program."""

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
]


def to_csv(records: list[Record]) -> str:
    """The history as CSV, one line an entry, amounts as exact decimals.

    Edge cases: text that a spreadsheet would run as a formula gets an apostrophe in front. JSON has the text as it is.
    """
    text = io.StringIO()
    # Everything is quoted, since a lone return would otherwise end a line.
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    for record in records:
        cost = {} if record.cost is None else record.cost.to_dict()
        row = {**{name: value for name, value in record.to_dict().items() if name != "cost"}, **cost}
        writer.writerow({name: spreadsheet_cell(value) for name, value in row.items()})
    return text.getvalue()


def to_json(ledger: Ledger) -> str:
    """The ledger as JSON: its accounts, its entries with their seals, its head."""
    data = {
        "format": FORMAT,
        "head": ledger.head,
        "accounts": [account.to_dict() for account in ledger.accounts()],
        "entries": [record.to_dict() for record in ledger.history()],
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
