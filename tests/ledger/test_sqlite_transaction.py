"""One transaction on a SQLite file: what was added is there after a commit, and only then."""

import pytest

from rangebound.ledger.chain import NO_SEAL, EntryKind, LedgerEntry
from rangebound.ledger.sqlite import SQLiteStore

FIRST = LedgerEntry(1, 0, EntryKind.LEDGER.value, request="id", note="Zürich", seal=NO_SEAL)
SECOND = LedgerEntry(
    2, 5, EntryKind.PUBLISH.value, account="people", request="1", ref=1, digest=bytes(32), note="Zürich", seal=NO_SEAL
)


@pytest.fixture
def store(memory):
    made = SQLiteStore(memory / "test.ledger", patience=2.0)
    made.create(lambda: [(FIRST, None)])
    yield made
    made.close()


def test_a_committed_entry_is_read_back_as_it_was_and_there_is_one_of_a_kind_for_a_request(store):
    with store.writing() as transaction:
        assert transaction.append(SECOND, b"\x00bytes")
        assert not transaction.append(SECOND._replace(seq=3), b"other")
        transaction.commit()
    with store.reading() as transaction:
        assert list(transaction.entries(1)) == [FIRST, SECOND]
        assert list(transaction.entries(2)) == [SECOND]
        assert transaction.entry(2) == transaction.find(EntryKind.PUBLISH, "1") == SECOND
        assert transaction.entry(3) is transaction.find(EntryKind.SPEND, "1") is None
        assert transaction.payload(2) == b"\x00bytes"
        assert transaction.payload(1) is None
        assert list(transaction.payloads()) == [2]


def test_the_version_changes_when_another_connection_writes(store):
    other, versions = SQLiteStore(store.path, patience=2.0), []
    for _ in range(2):
        with store.reading() as transaction:
            versions.append(transaction.version)
    with other.writing() as transaction:
        transaction.append(SECOND)
        transaction.commit()
    other.close()
    with store.reading() as transaction:
        assert versions == [versions[0]] * 2 != [transaction.version] * 2
