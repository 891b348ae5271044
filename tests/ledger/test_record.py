"""Accounts, records and reservations as plain data: exact decimals, times for people."""

import json
from datetime import UTC, datetime

from rangebound.ledger.amount import SCALE, rounded_down
from rangebound.ledger.chain import EntryKind, LedgerEntry
from rangebound.ledger.record import Reservation, account_of, record_of
from rangebound.ledger.replay import Balance
from rangebound.ledger.rule import Cost, PlainSum, RenyiFilter

OPENED = LedgerEntry(2, 1_500_000, EntryKind.ACCOUNT, account="people")


def test_an_account_shows_promise_total_spent_and_remaining():
    one, none = rounded_down("epsilon", 1), rounded_down("delta", 0)
    balance = Balance(opened=OPENED, rule=PlainSum(), epsilon=one, delta=none, total=(SCALE, 0))
    balance.charge((SCALE // 10, 0))
    found = account_of("people", balance)
    assert found.remaining == Cost(epsilon="0.9")
    assert found.opened == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert json.loads(json.dumps(found.to_dict())) == {
        "account": "people",
        "promise": {"epsilon": "1", "delta": "0"},
        "rule": "sum",
        "total": {"epsilon": "1", "delta": "0"},
        "spent": {"epsilon": "0.1", "delta": "0"},
        "remaining": {"epsilon": "0.9", "delta": "0"},
        "left": "epsilon 0.9",
        "spends": 1,
        "opened": "1970-01-01T00:00:01.500000+00:00",
    }


def test_a_record_reads_its_cost_by_the_rule_of_its_account():
    spend = LedgerEntry(
        3, 0, EntryKind.SPEND, account="model", request="1", first=SCALE // 4, second=0, seal=b"\x01" * 32
    )
    found = record_of(spend, {"model": RenyiFilter(order=16)})
    assert str(found.cost) == "divergence 0.25 at order 16"
    assert found.to_dict()["cost"] == {"order": "16", "divergence": "0.25"}
    assert found.seal == "01" * 32
    made = Reservation(seq=3, account="model", request="1", cost=found.cost, published=b"secret draw")
    assert "secret" not in repr(made)
