"""The seam between the rules of spending and a database: a ledger on a store that is not SQLite's."""

import pytest

from rangebound.errors import BudgetExceeded, LedgerTampered, LedgerUnavailable
from rangebound.ledger import Cost, Ledger
from rangebound.ledger.chain import FORMAT, NO_SEAL, EntryKind, LedgerEntry, sealed
from rangebound.ledger.store import NoRoom, Store
from tests.ledger.memory_store import MemoryStore, MemoryTransaction

KEY = b"k" * 32
FIRST = sealed(KEY, NO_SEAL, LedgerEntry(1, 0, EntryKind.LEDGER.value, request="id", what=FORMAT))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(FIRST)


def test_a_ledger_spends_and_publishes_on_any_store(store):
    kept: Store = store
    ledger = Ledger(kept, KEY)
    ledger.open_account("people", epsilon=1)
    for _ in range(2):
        answer = ledger.release(account="people", request="1", cost=Cost(epsilon="0.6"), compute=lambda _: b"42")
        assert answer == b"42"
    with pytest.raises(BudgetExceeded):
        ledger.reserve(account="people", request="2", cost=Cost(epsilon="0.5"))
    assert Ledger(store, KEY).published("1") == b"42"  # another process
    assert ledger.verify().entries == 4


def test_what_was_not_committed_was_not_charged(store, monkeypatch):
    ledger = Ledger(store, KEY)
    ledger.open_account("people", epsilon=1)

    def full(self):
        raise NoRoom("ledger: is on a full disk")

    monkeypatch.setattr(MemoryTransaction, "commit", full)
    with pytest.raises(LedgerUnavailable):
        ledger.reserve(account="people", request="1", cost=Cost(epsilon="0.6"))
    monkeypatch.undo()
    assert str(ledger.account("people").remaining) == "epsilon 1"


def test_a_store_that_loses_a_committed_entry_is_noticed_before_anything_is_drawn(store, monkeypatch):
    ledger = Ledger(store, KEY)
    ledger.open_account("people", epsilon=1)
    monkeypatch.setattr(MemoryTransaction, "commit", lambda self: None)
    drawn = []
    with pytest.raises(LedgerTampered, match="not in the file"):
        ledger.release(account="people", request="1", cost=Cost(epsilon="0.6"), compute=drawn.append)
    assert not drawn
