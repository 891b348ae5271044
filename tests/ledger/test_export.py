"""Exports: exact amounts, words as they are, and nothing that a spreadsheet runs."""

import csv
import io
import json

from rangebound.ledger.export import COLUMNS, to_csv, to_json
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, RenyiCost, RenyiFilter


def test_amounts_stand_in_the_columns_of_their_kind(ledger):
    ledger.open_account("model", epsilon=2, delta="1e-6", rule=RenyiFilter(order=16))
    ledger.reserve(account="people", request="1", cost=Cost(epsilon=0.1, delta="1e-12"))
    ledger.reserve(account="model", request="2", cost=RenyiCost(order=16, divergence="0.25"))
    ledger.open_account("tables", epsilon=1, delta="1e-6", rule=GaussianFilter(spare="0.5"))
    ledger.reserve(account="tables", request="3", cost=GaussianCost(mu="0.1", delta="1e-9"))
    table = list(csv.DictReader(io.StringIO(to_csv(ledger.history()), newline="")))
    assert list(table[0]) == COLUMNS
    amounts = [[row[name] for name in ("epsilon", "delta", "order", "divergence", "mu", "mu_squared")] for row in table]
    assert amounts == [
        ["", "", "", "", "", ""],
        ["1", "0.000001", "", "", "", ""],
        ["", "", "16", "1.328343732089", "", ""],
        ["0.1", "0.000000000001", "", "", "", ""],
        ["", "", "16", "0.25", "", ""],
        ["", "0.0000005", "", "", "0.229086942727", "0.052480827328"],
        ["", "0.000000001", "", "", "0.1", "0.01"],
    ]


def test_the_json_has_the_head_and_every_seal(ledger):
    data = json.loads(to_json(ledger))
    assert data["head"] == ledger.head == f"2:{data['entries'][-1]['seal']}"
    assert data["accounts"] == [account.to_dict() for account in ledger.accounts()]
