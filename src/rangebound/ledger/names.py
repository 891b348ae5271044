"""Names, ids and notes: text that a ledger can store, show and compare without surprises."""

from __future__ import annotations

import getpass
import os
import re
import unicodedata
from contextlib import suppress
from functools import cache
from pathlib import Path

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.values import arguments

_NAME = 200  # characters of an account's name or a request's id
_PROSE = 10_000  # characters of a note
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def file_path(name: str, value: object) -> Path:
    """`value` as a path."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ArgumentTypeError(f"{name}={arguments.shown(value)}: must be the path of a file")
    return Path(text)


def plain_name(name: str, value: object) -> str:
    """`value` if it can serve as a name: names are compared letter by letter, so two that look alike must be alike."""
    if type(value) is not str:
        raise ArgumentTypeError(f"{name}={arguments.shown(value)}: must be a string")
    if not 0 < len(value) <= _NAME or not value.isprintable() or value != value.strip():
        raise ArgumentError(
            f"{name}={arguments.shown(value)}: must have 1 to {_NAME} printable characters, and no space at the ends"
        )
    if not unicodedata.is_normalized("NFC", value):
        raise ArgumentError(f"{name}={arguments.shown(value)}: must be in Unicode's normal form NFC")
    return value


def prose(name: str, value: object) -> str:
    """`value` if it is text that every database and every file can hold."""
    if type(value) is not str:
        raise ArgumentTypeError(f"{name}={arguments.shown(value)}: must be a string")
    if len(value) > _PROSE or _NO_TEXT.search(value):
        raise ArgumentError(f"{name}={arguments.shown(value)}: must be Unicode text of at most {_PROSE} characters")
    return value


def person(value: str | None) -> str:
    """Who did it: as told, else the user whose process this is."""
    return _user() if value is None else prose("who", value)


@cache
def _user() -> str:
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return ""
