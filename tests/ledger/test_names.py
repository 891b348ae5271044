"""Names, ids, notes and paths: what is stored is what was given, and what could be mistaken is refused."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.ledger import chain
from rangebound.ledger.chain import person, plain_name, prose
from rangebound.ledger.head import file_path

BAD = ["", "x" * 201, " a", "a ", "a\nb", "a\x00", "\u200b", "\u202ea", "\ud800", unicodedata.normalize("NFD", "é")]


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_a_name_that_could_be_mistaken_for_another_is_refused(name):
    for good in ("a", "Zürich 2026", "x" * 200, "北京", "table 1/2"):  # the control
        assert plain_name("name", good) == good
    with pytest.raises(ArgumentError, match="account="):
        plain_name("account", name)


@pytest.mark.parametrize("value", [None, 1, b"a", ["a"], type("Name", (str,), {})("a")])
def test_what_is_not_a_string_is_refused(value):
    for check in (plain_name, prose):
        with pytest.raises(ArgumentTypeError, match="must be a string"):
            check("note", value)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300))
def test_a_note_is_any_text_that_a_file_can_hold(text):
    assert prose("note", text) == text
    for wrong in (f"{text}\0", f"{text}\ud800", f"{text}{'x' * 10_001}"):
        with pytest.raises(ArgumentError, match="Unicode text"):
            prose("note", wrong)


def test_a_person_is_as_told_or_the_user_of_the_process(monkeypatch):
    assert person("Ada") == "Ada"
    assert person("") == ""
    chain._user.cache_clear()
    monkeypatch.setattr("getpass.getuser", lambda: "grace")
    assert person(None) == "grace"
    chain._user.cache_clear()
    monkeypatch.setattr("getpass.getuser", lambda: {}["no such user"])
    assert person(None) == ""
    chain._user.cache_clear()


def test_a_path_is_a_string_or_a_path():
    assert file_path("path", "a/b") == file_path("path", Path("a/b")) == Path("a/b")
    for value in ("", "a\0b", b"a", None, 3):
        with pytest.raises(ArgumentTypeError, match="key="):
            file_path("key", value)
