"""The head in its file: it never goes back, and a line that was not written with the key is refused."""

import os
from functools import partial
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger.chain import Head
from rangebound.ledger.head import HEAD_VARIABLE, HeadFile, head_folder, head_path, made_folder, user_folder
from tests.ledger.processes import forked

NAME = "0" * 31 + "1"
KEY = b"k" * 32


def head(seq: int) -> Head:
    return Head(seq, bytes([seq % 256]) * 32)


@pytest.fixture
def file(tmp_path) -> HeadFile:
    made = HeadFile(tmp_path / "a.head", NAME, KEY, patience=0.2)
    made.create(head(1))
    return made


def test_a_head_is_read_as_it_was_written_and_never_goes_back(file):
    assert str(file.read()) == f"1:{'01' * 32}"
    with pytest.raises(ArgumentError, match="exists already"):
        file.create(head(2))
    for seq, expected in ((5, 5), (3, 5), (5, 5), (6, 6)):
        with file.held() as held:
            held.advance(head(seq))
        assert file.read() == head(expected)


def test_another_key_is_refused(file):
    with pytest.raises(LedgerTampered, match="the key is not this ledger's"):
        HeadFile(file.path, NAME, b"o" * 32, patience=0.2).read()


def test_heads_lie_beside_their_ledgers_or_in_one_folder(tmp_path, monkeypatch):
    ledger = tmp_path / "census.ledger"
    assert head_folder() is None
    assert head_path(ledger, NAME) == tmp_path / "census.ledger.head"
    monkeypatch.setenv(HEAD_VARIABLE, str(tmp_path))
    assert head_path(ledger, NAME) == tmp_path / f"{NAME}.head"


FIRST, SECOND = Head(3, bytes(32)), Head(4, b"x" * 32)


@pytest.fixture
def users(tmp_path) -> HeadFile:
    return HeadFile(tmp_path / "state" / "a.head", NAME, KEY, patience=1.0, of_user=True)


def test_the_first_head_is_trusted_and_no_other(users):
    users.begin(SECOND)
    assert users.read() == SECOND
    users.begin(FIRST)
    assert users.read() == SECOND
    with pytest.raises(ArgumentError, match="exists already"):
        users.create(FIRST)


def test_another_process_may_move_it_meanwhile_and_it_never_goes_back(users):
    users.begin(FIRST)
    with users.held() as held:
        users.follow(Head(9, b"9" * 32))
        assert held.head == FIRST
        held.advance(SECOND)
    assert users.read().seq == 9
    users.path.write_text(users.path.read_text().replace("9 39", "2 39"))
    with pytest.raises(LedgerTampered, match="not as it was written"):
        users.read()


def _move(path: Path, start: int) -> None:
    mine = HeadFile(path, NAME, KEY, patience=60.0, of_user=True)
    for each in range(start, 2000, 8):
        mine.follow(Head(each, each.to_bytes(32, "big")))


@pytest.mark.slow
def test_many_processes_leave_the_largest(users):
    users.begin(FIRST)
    workers = [forked(partial(_move, users.path, 4 + each)) for each in range(8)]
    assert not any(os.waitpid(pid, 0)[1] for pid in workers)
    assert users.read() == Head(1999, (1999).to_bytes(32, "big"))


def test_the_folders_of_a_user_follow_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert user_folder("key") == tmp_path / "data" / "rangebound"
    assert user_folder("head") == tmp_path / "home" / ".local" / "state" / "rangebound"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")  # the specification has such a path ignored
    assert user_folder("key") == tmp_path / "home" / ".local" / "share" / "rangebound"
    assert made_folder(user_folder("key")).stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerUnavailable, match="cannot be made"):
        made_folder(tmp_path / "file" / "below")
