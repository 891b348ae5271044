"""Where the files of a ledger are: found, refused or vacant, without writing anything."""

import sqlite3

import pytest

from rangebound.errors import ArgumentError, ArgumentTypeError, LedgerTampered, LedgerUnavailable
from rangebound.ledger import Ledger, ledger_files, verify
from rangebound.ledger.head import HEAD_VARIABLE as HEADS
from rangebound.ledger.head import KEY_VARIABLE as KEY
from rangebound.ledger.head import make_key
from rangebound.ledger.location import located, vacant

NAME = "0" * 32


def test_what_is_not_there_or_no_ledger_is_refused_and_left_as_it_is(memory):
    for place in (memory / "none", memory):
        with pytest.raises(LedgerUnavailable, match="no such file"):
            located(place, None, 1.0)
    for name, data in (("text", b"hello" * 1000), ("empty", b"")):
        (memory / name).write_bytes(data)
        with pytest.raises(LedgerUnavailable, match="another kind of file" if data else "cannot be read"):
            located(memory / name, None, 1.0)
        make_key(memory / f"{name}.key")
        with pytest.raises(LedgerTampered if data else LedgerUnavailable, match="not an SQLite" if data else "empty"):
            Ledger.open(memory / name)
        assert (memory / name).read_bytes() == data
    for call in (Ledger.open, Ledger.create, verify):
        with pytest.raises(ArgumentTypeError, match=r"^path="):
            call("a\0b")


def test_a_vacant_place_is_taken_by_no_ledger_key_or_head(memory, ledger, path):
    """Whoever loses the ledger does not get a fresh budget by accident."""
    store, key = vacant(memory / "new", None, NAME, 1.0)
    assert not store.path.exists()
    assert key.name == "new.key"
    sqlite3.connect(memory / "other.db").executescript("CREATE TABLE t (x)").close()
    for taken in (path, memory / "other.db", memory):
        with pytest.raises(ArgumentError, match="must not exist yet"):
            vacant(taken, None, NAME, 1.0)
    with pytest.raises(ArgumentError, match="existing folder"):
        vacant(memory / "no" / "folder", None, NAME, 1.0)
    for ending in ("key", "head"):
        (memory / f"gone.{ending}").write_text("left")
        for emptied in (False, True):
            if emptied:
                (memory / "gone").touch()
            with pytest.raises(ArgumentError, match=f"there is a {ending} beside it, so there was a ledger"):
                vacant(memory / "gone", None, NAME, 1.0)
        (memory / f"gone.{ending}").unlink()


def test_every_file_is_named_heads_in_a_folder_of_their_own_too(ledger, path, memory, monkeypatch):
    """Whatever lies beside it while it is in use is on the list; links lead to the same list."""
    (memory / "heads").mkdir()
    (memory / "heads" / f"{NAME}.head").write_text("head")
    (memory / "link").symlink_to(path)
    for variable, place in ((HEADS, memory / "heads"), (KEY, memory / "own.key")):
        monkeypatch.setenv(variable, str(place))
    endings = ("", "-journal", "-wal", "-shm", ".head")
    for found in (ledger_files(path), ledger_files(memory / "link", key=memory / "own.key")):
        assert [each.name for each in found] == [*(f"{path.name}{each}" for each in endings), "own.key", f"{NAME}.head"]
    with ledger._chain.store.writing() as transaction:
        transaction.append(ledger._chain.state.last._replace(seq=99, request=None))
        assert set(memory.iterdir()) - {memory / each for each in ("link", "heads", f"{path.name}.key")} <= set(found)
