"""The guarded chain: a looked-up entry is checked again, and what is not added does not count."""

import pytest

from rangebound.errors import LedgerTampered
from rangebound.ledger.chain import EntryKind
from rangebound.ledger.guarded_chain import GuardedChain
from tests.ledger.memory_store import KEY, MemoryStore, chained
from tests.ledger.test_replay import account, spend


@pytest.fixture
def chain() -> GuardedChain:
    made = GuardedChain(MemoryStore(), KEY)
    for draft in (account(), spend(1, "1"), spend(1, "2"), spend(1, "3")):
        with made.writing() as transaction:
            assert made.append(transaction, draft) is not None
    return made


def test_an_entry_is_numbered_timed_and_sealed_and_a_known_request_is_not_added_again(chain):
    with chain.writing() as transaction:
        assert chain.append(transaction, spend(1, "2")) is None
    rows = list(chain.store.rows.values())
    assert chained(*rows[1:]) == rows
    assert rows[4].time > 0
    assert (chain.state.last, chain.state.next_seq) == (rows[4], 6)


def test_an_entry_that_changed_since_it_was_read_is_found_when_it_is_looked_up(chain):
    """The version says that nobody wrote; someone did, past the store."""
    rows = chain.store.rows
    for changed in (rows[3]._replace(first=2), rows[4]._replace(request="1")):
        rows[3] = changed
        words = f"entry {changed.seq}: is not as it was written"
        with pytest.raises(LedgerTampered, match=words), chain.reading() as transaction:
            chain.find(transaction, EntryKind.SPEND, "1")
    with chain.reading() as transaction:
        assert chain.find(transaction, EntryKind.SPEND, "3") == chain.state.last


def test_an_entry_that_breaks_the_rules_is_not_written(chain):
    """It would be genuine, and the ledger could never be opened again."""
    with pytest.raises(LedgerTampered, match="breaks the rules"), chain.writing() as transaction:
        chain.append(transaction, spend(10**30, "4"))
    assert len(chain.store.rows) == 5
    assert GuardedChain(chain.store, KEY).state.last == chain.state.last
