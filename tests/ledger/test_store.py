"""The seam between the rules of spending and a database: a store that does not keep its word is noticed."""

import pytest

from rangebound.errors import LedgerTampered, LedgerUnavailable
from rangebound.ledger.book import Ledger
from rangebound.ledger.store import NoRoom, Store
from tests.ledger.memory_store import KEY, MemoryStore, MemoryTransaction
from tests.ledger.rules import never, release, reserve


@pytest.fixture
def ledger():
    kept: Store = MemoryStore()
    with Ledger(kept, KEY) as made:
        made.open_account("people", epsilon=1)
        yield made


def test_what_was_not_committed_was_not_charged(ledger, monkeypatch):
    def full(self):
        raise NoRoom("ledger: is on a full disk")

    monkeypatch.setattr(MemoryTransaction, "commit", full)
    with pytest.raises(LedgerUnavailable):
        reserve(ledger, "1")
    monkeypatch.undo()
    assert str(ledger.account("people").remaining) == "epsilon 1"


def test_control_a_store_that_loses_a_committed_entry_is_noticed_before_anything_is_drawn(ledger, monkeypatch):
    monkeypatch.setattr(MemoryTransaction, "commit", lambda self: None)
    with pytest.raises(LedgerTampered, match="is not in the file"):
        release(ledger, "1", never)
