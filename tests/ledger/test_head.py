"""The head in its file: it never goes back, and a line that was not written with the key is refused."""

import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger.head import VARIABLE, Head, HeadFile, head_folder, head_path

NAME = "0" * 31 + "1"
KEY = b"k" * 32


def head(seq: int) -> Head:
    return Head(seq, bytes([seq % 256]) * 32)


@pytest.fixture
def file(tmp_path) -> HeadFile:
    made = HeadFile(tmp_path / "a.head", NAME, KEY, patience=0.2)
    made.create(head(1))
    return made


def test_a_head_is_read_as_it_was_written(file):
    assert file.read() == head(1)
    assert str(head(1)) == f"1:{'01' * 32}"
    with pytest.raises(ArgumentError, match="exists already"):
        file.create(head(2))


def test_a_head_moves_forward_and_never_back(file):
    for seq, expected in ((5, 5), (3, 5), (5, 5), (6, 6)):
        with file.held() as held:
            held.advance(head(seq))
        assert file.read() == head(expected)


def test_a_held_head_is_locked(file):
    other = HeadFile(file.path, NAME, KEY, patience=0.05)
    with file.held():
        assert other.read() == head(1)  # reading needs no lock
        with pytest.raises(LedgerUnavailable, match="locked"), other.held():
            pass
    with other.held() as held:
        held.advance(head(2))


@pytest.mark.parametrize("place", [0, 20, 60, 80, 150, 180])
def test_a_changed_byte_is_found(file, place):
    data = bytearray(file.path.read_bytes())
    data[place] = ord("0") if data[place] != ord("0") else ord("1")
    file.path.write_bytes(bytes(data))
    with pytest.raises(LedgerTampered, match="not as it was written"):
        file.read()


@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"", lambda data: data * 2]
)
def test_another_length_is_found(file, change):
    file.path.write_bytes(change(file.path.read_bytes()))
    with pytest.raises(LedgerTampered):
        file.read()


def test_another_key_and_another_ledger_are_refused(file):
    with pytest.raises(LedgerTampered, match="the key is not this ledger's"):
        HeadFile(file.path, NAME, b"o" * 32, patience=0.2).read()
    with pytest.raises(LedgerTampered, match="another ledger"):
        HeadFile(file.path, "f" * 32, KEY, patience=0.2).read()


def test_a_missing_head_is_named(tmp_path):
    missing = HeadFile(tmp_path / "none.head", NAME, KEY, patience=0.2)
    with pytest.raises(LedgerTampered, match="is missing"):
        missing.read()
    with pytest.raises(LedgerTampered, match="is missing"), missing.held():
        pass


def test_heads_lie_beside_their_ledgers_or_in_one_folder(tmp_path, monkeypatch):
    ledger = tmp_path / "census.ledger"
    assert head_folder() is None
    assert head_path(ledger, NAME) == tmp_path / "census.ledger.head"
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert head_path(ledger, NAME) == tmp_path / f"{NAME}.head"
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    with pytest.raises(ArgumentError, match="must be a folder"):
        head_folder()
