"""The head of a ledger in a database, as one user has seen it."""

import os
from functools import partial
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger.client_head import ClientHead
from rangebound.ledger.head import Head
from rangebound.ledger.user_folder import made_folder, user_folder
from tests.ledger.processes import forked

KEY = b"k" * 32
NAME = "0" * 32
FIRST, SECOND = Head(3, bytes(32)), Head(4, b"x" * 32)


@pytest.fixture
def head(tmp_path) -> ClientHead:
    return ClientHead(tmp_path / "state" / "a.head", NAME, KEY, patience=1.0)


def test_the_first_head_is_trusted_and_no_other(head):
    head.begin(SECOND)
    assert head.read() == SECOND
    head.begin(FIRST)
    assert head.read() == SECOND
    with pytest.raises(ArgumentError, match="exists already"):
        head.create(FIRST)


def test_another_process_may_move_it_meanwhile_and_it_never_goes_back(head):
    head.begin(FIRST)
    with head.held() as held:
        head.follow(Head(9, b"9" * 32))
        assert held.head == FIRST
        held.advance(SECOND)
    assert head.read().seq == 9
    head.path.write_text(head.path.read_text().replace("9 39", "2 39"))
    with pytest.raises(LedgerTampered, match="not as it was written"):
        head.read()


def _move(path: Path, start: int) -> None:
    mine = ClientHead(path, NAME, KEY, patience=60.0)
    for each in range(start, 2000, 8):
        mine.follow(Head(each, each.to_bytes(32, "big")))


@pytest.mark.slow
def test_many_processes_leave_the_largest(head):
    head.begin(FIRST)
    workers = [forked(partial(_move, head.path, 4 + each)) for each in range(8)]
    assert not any(os.waitpid(pid, 0)[1] for pid in workers)
    assert head.read() == Head(1999, (1999).to_bytes(32, "big"))


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
