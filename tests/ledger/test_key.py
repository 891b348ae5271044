"""The key: made once, readable by its owner alone, never shown."""

import errno
import os
import stat

import pytest

from rangebound.errors import ArgumentError, LedgerUnavailable
from rangebound.ledger.head import KEY_VARIABLE, key_path, make_key, read_key


def test_a_key_is_made_once_and_read_back(tmp_path):
    path = tmp_path / "a.key"
    made = make_key(path)
    assert len(made) == 32
    assert read_key(path) == made == make_key(path)  # the second maker finds the first one's key
    assert make_key(tmp_path / "b.key") != made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.key", "b.key"]  # and no draft is left


@pytest.mark.parametrize("given", [None, bytes(range(32))], ids=["new", "given"])
def test_a_key_is_made_where_there_are_no_hard_links(tmp_path, monkeypatch, given):
    def refused(*_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "a.key"
    made = make_key(path, given)
    assert read_key(path) == made == make_key(path)
    assert given in (None, made)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["a.key"]


def test_a_key_that_cannot_be_made_leaves_no_draft_of_it(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(LedgerUnavailable, match="cannot be made"):
        make_key(tmp_path / "a.key")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o700 | 0o001])
def test_a_key_that_others_may_access_is_refused(tmp_path, mode):
    path = tmp_path / "a.key"
    make_key(path)
    path.chmod(mode)
    with pytest.raises(LedgerUnavailable, match="chmod 600"):
        read_key(path)


def test_a_file_that_does_not_hold_a_key_is_refused(tmp_path):
    make_key(tmp_path / "a.key")
    for text in (b"", b"ab\n", b"x" * 64 + b"\n", b"a" * 64, b"a" * 65 + b"\n", b"A" * 64 + b"\n"):
        (tmp_path / "a.key").write_bytes(text)
        with pytest.raises(ArgumentError, match="64 hexadecimal digits"):
            read_key(tmp_path / "a.key")
    for name, words in (("none.key", "cannot be read"), (".", "must be a file")):
        with pytest.raises(LedgerUnavailable, match=words):
            read_key(tmp_path / name)
    with pytest.raises(LedgerUnavailable, match="cannot be made"):
        make_key(tmp_path / "no folder" / "a.key")


def test_the_key_lies_as_given_or_by_the_environment_or_beside_the_ledger(tmp_path, monkeypatch):
    ledger = tmp_path / "census.ledger"
    assert key_path(ledger, None) == (tmp_path / "census.ledger.key", False)
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "env.key"))
    assert key_path(ledger, None) == (tmp_path / "env.key", True)
    assert key_path(ledger, tmp_path / "own.key") == (tmp_path / "own.key", True)
    monkeypatch.setenv(KEY_VARIABLE, "")
    assert key_path(ledger, None)[1] is False


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_key_in_place_of_its_path_is_refused_and_not_shown(tmp_path, monkeypatch, how):
    secret = os.urandom(32).hex()
    monkeypatch.setenv(KEY_VARIABLE, secret)
    with pytest.raises(ArgumentError, match="must be the path of the key's file") as caught:
        key_path(tmp_path / "census.ledger", secret.upper() if how == "argument" else None)
    assert secret not in str(caught.value).lower()
