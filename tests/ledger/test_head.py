"""The head in its file: it never goes back, and a line that was not written with the key is refused."""

import pytest

from rangebound.errors import ArgumentError, LedgerTampered
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
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert head_path(ledger, NAME) == tmp_path / f"{NAME}.head"
