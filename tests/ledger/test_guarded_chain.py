"""The guarded chain: nothing counts unchecked, and a looked-up entry is checked again."""

import hashlib

import pytest

from rangebound.errors import LedgerTampered
from rangebound.ledger.chain import FORMAT, NO_SEAL, EntryKind, LedgerEntry, sealed
from rangebound.ledger.guarded_chain import GuardedChain, refuse
from rangebound.ledger.head import Head, HeadFile, head_of
from tests.ledger.memory_store import MemoryStore

KEY = b"k" * 32
NAME = "0" * 32
FIRST = sealed(KEY, NO_SEAL, LedgerEntry(1, 0, EntryKind.LEDGER.value, request=NAME, what=FORMAT))
TERMS = '{"promise": ["1", "0"], "rule": "sum"}'
ACCOUNT = LedgerEntry(0, 0, EntryKind.ACCOUNT.value, account="people", first=10**12, second=0, what=TERMS)


def spend(request: str) -> LedgerEntry:
    return LedgerEntry(0, 0, EntryKind.SPEND.value, account="people", request=request, first=1, second=0)


def publish(request: str, ref: int, digest: bytes = bytes(32)) -> LedgerEntry:
    return LedgerEntry(0, 0, EntryKind.PUBLISH.value, account="people", request=request, ref=ref, digest=digest)


@pytest.fixture
def chain() -> GuardedChain:
    made = GuardedChain(MemoryStore(FIRST), KEY)
    for draft in (ACCOUNT, spend("1"), spend("2"), spend("3")):
        with made.writing() as transaction:
            assert made.append(transaction, draft) is not None
    return made


def test_an_entry_is_numbered_timed_and_sealed(chain):
    rows = chain.store.rows
    assert sorted(rows) == [1, 2, 3, 4, 5]
    assert rows[5] == sealed(KEY, rows[4].seal, rows[5])
    assert rows[5].time > 0
    assert chain.state.last == rows[5]


def test_a_known_request_is_not_added_again(chain):
    with chain.writing() as transaction:
        assert chain.append(transaction, spend("2")) is None
    assert chain.state.next_seq == 6


def test_an_entry_that_changed_since_it_was_read_is_found_when_it_is_looked_up(chain):
    """The version says that nobody wrote; someone did, past the store."""
    chain.store.rows[3] = chain.store.rows[3]._replace(first=2)
    with pytest.raises(LedgerTampered, match="entry 3"):
        chain.read(lambda transaction: chain.find(transaction, EntryKind.SPEND, "1"))
    assert chain.read(lambda transaction: chain.find(transaction, EntryKind.SPEND, "3")) == chain.state.last


def test_an_entry_under_another_request_is_found(chain):
    chain.store.rows[3] = chain.store.rows[4]._replace(request="1")
    with pytest.raises(LedgerTampered):
        chain.read(lambda transaction: chain.find(transaction, EntryKind.SPEND, "1"))


def test_bytes_that_changed_or_went_are_found(chain):
    with chain.writing() as transaction:
        chain.append(transaction, publish("1", 3, hashlib.sha256(b"42").digest()), b"42")
    found = chain.store.rows[3]
    assert chain.read(lambda transaction: chain.payload(transaction, found)) == b"42"
    chain.store.bytes[6] = b"43"
    with pytest.raises(LedgerTampered, match="not as they were stored"):
        chain.read(lambda transaction: chain.payload(transaction, found))
    del chain.store.bytes[6]
    with pytest.raises(LedgerTampered, match="missing"):
        chain.read(lambda transaction: chain.payload(transaction, found))


def test_bytes_of_no_entry_are_found_at_the_start(chain):
    chain.store.bytes[99] = b"42"
    with pytest.raises(LedgerTampered, match="never published"):
        GuardedChain(chain.store, KEY)


def test_the_head_follows_every_entry_and_refuses_an_older_chain(chain, tmp_path):
    file = HeadFile(tmp_path / "a.head", NAME, KEY, patience=1.0)
    file.create(head_of(chain.state.last))
    chain.guard(file)
    with chain.writing() as transaction:
        chain.append(transaction, spend("4"))
    assert file.read() == Head(6, chain.store.rows[6].seal)
    old = MemoryStore(FIRST)
    old.rows = {seq: chain.store.rows[seq] for seq in (1, 2, 3)}
    behind = GuardedChain(old, KEY)
    with pytest.raises(LedgerTampered, match="rolled back"):
        behind.guard(file)


def test_findings_are_refused_together():
    refuse(iter(()))
    with pytest.raises(LedgerTampered, match="first") as caught:
        refuse(iter(["first", "second"]))
    assert caught.value.findings == ("first", "second")
