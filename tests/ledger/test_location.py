"""Where the files of a ledger are: found, refused or vacant, without writing anything."""

import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger import Cost, ledger_files, verify
from rangebound.ledger.head import VARIABLE
from rangebound.ledger.location import located, vacant

NAME = "0" * 32


def test_a_ledger_is_located_with_its_key(ledger, path):
    store, key = located(path, None, 1.0)
    assert store.path == path.resolve()
    assert key == ledger._chain.state.key


def test_what_is_not_there_or_another_kind_of_file_is_refused(memory):
    with pytest.raises(LedgerUnavailable, match="no such file"):
        located(memory / "none", None, 1.0)
    (memory / "text").write_text("not a database, and longer than the header of one" * 100)
    with pytest.raises(LedgerUnavailable, match="another kind of file"):
        located(memory / "text", None, 1.0)


def test_a_vacant_place_is_taken_by_no_ledger_key_or_head(memory, ledger, path):
    store, key = vacant(memory / "new", None, NAME, 1.0)
    assert not store.path.exists()
    assert key.name == "new.key"
    with pytest.raises(ArgumentError, match="must not exist yet"):
        vacant(path, None, NAME, 1.0)
    with pytest.raises(ArgumentError, match="existing folder"):
        vacant(memory / "no" / "folder", None, NAME, 1.0)
    for ending in ("key", "head"):
        (memory / f"gone.{ending}").write_text("left")
        with pytest.raises(ArgumentError, match=f"there is a {ending}"):
            vacant(memory / "gone", None, NAME, 1.0)
        (memory / f"gone.{ending}").unlink()


def test_verify_finds_a_rollback_by_the_head_beside_the_ledger(ledger, path):
    old = path.read_bytes()
    ledger.reserve(account="people", request="1", cost=Cost(epsilon=0.1))
    assert verify(path).entries == 3
    ledger.close()
    path.write_bytes(old)
    with pytest.raises(LedgerTampered, match="rolled back"):
        verify(path)


def test_every_file_is_named_heads_in_a_folder_of_their_own_too(path, memory, monkeypatch):
    (memory / "heads").mkdir()
    (memory / "heads" / f"{NAME}.head").write_text("head")
    monkeypatch.setenv(VARIABLE, str(memory / "heads"))
    found = [each.name for each in ledger_files(path, key=memory / "own.key")]
    assert found == [
        *(f"{path.name}{ending}" for ending in ("", "-journal", "-wal", "-shm", ".head")),
        "own.key",
        f"{NAME}.head",
    ]
