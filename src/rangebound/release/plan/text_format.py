"""How a file without types is written: its encoding, its separators, and how it spells numbers and dates."""

from __future__ import annotations

import codecs
import re
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import AfterValidator

from rangebound.release.plan.fields import Name, Part

TEXT_FILES = (".csv", ".tsv")
"""What the names of text files end in."""
WORKBOOKS = (".xlsx",)
"""What the names of workbooks end in."""

# Encodings in which a damaged character ends before the next line end, separator and quotation mark; a test tries all.
# Others, such as ISO-2022-JP and UTF-7, have states that would carry one row's damage into the next.
ENCODINGS = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii"),
    *("iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8"),
    *("iso8859-9", "iso8859-10", "iso8859-11", "iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16"),
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("cp437", "cp850", "cp852", "cp855", "cp858", "cp866", "koi8-r", "koi8-u", "mac-roman"),
    *("shift_jis", "cp932", "euc_jp", "euc_kr", "cp949", "gb2312", "gbk", "gb18030", "big5", "cp950"),
)
"""The encodings that a plan can state, by Python's names of them; their other names serve too, such as latin-1."""


def codec(encoding: str) -> str:
    """Python's own name of an encoding; empty for one that a plan cannot state.

    >>> codec("latin-1"), codec("Windows-1252"), codec("utf-7")
    ('iso8859-1', 'cp1252', '')
    """
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        return ""
    name = "utf-8" if name == "utf-8-sig" else name
    return name if name in ENCODINGS else ""


def _encoding(value: str) -> str:
    if not codec(value):
        raise ValueError('must be an encoding such as "utf-8", "utf-16", "latin-1", "windows-1252" or "shift_jis"')
    return value


def _separator(value: str) -> str:
    if len(value) != 1 or not value.isascii() or value.isalnum() or value in "\"'\\+-.\r\n\x00":
        raise ValueError(
            'must be one character, such as ";", "|" or "\\t", that is not a letter, a digit or a sign of numbers'
        )
    return value


def _quotation(value: str) -> str:
    if value not in ("", '"', "'", "`"):
        raise ValueError("must be one of \", ' and `, or empty if values are never quoted")
    return value


def _decimal(value: str) -> str:
    if value not in (".", ","):
        raise ValueError('must be "." or ","')
    return value


_MARKS = (",", ".", "'", "\u2019", "_", " ", "\u00a0", "\u202f")


def _thousands(value: str) -> str:
    if value not in _MARKS:
        raise ValueError('must be one of "," "." "\'" "\u2019" "_" and a space, also a no-break space')
    return value


_DATE = re.compile(r"%([dmY])([-./]?)%([dmY])\2%([dmY])")


def _day(value: str) -> str:
    found = _DATE.fullmatch(value)
    if found is None or {found[1], found[3], found[4]} != {"d", "m", "Y"}:
        raise ValueError('must be %d, %m and %Y in any order, with one of - . / between them or none, as in "%d.%m.%Y"')
    return value


class TextFormat(Part):
    """A file or a table by its name, and how a text file, or the texts in a workbook, are written.

    What is not stated is as in plain CSV. Nothing is ever inferred from the rows: one of them would then decide how all
    others are read.
    """

    path: Name | None = None
    table: Name | None = None
    encoding: Annotated[str, AfterValidator(_encoding)] | None = None
    delimiter: Annotated[str, AfterValidator(_separator)] | None = None
    quote: Annotated[str, AfterValidator(_quotation)] | None = None
    multiline: bool | None = None
    decimal: Annotated[str, AfterValidator(_decimal)] | None = None
    thousands: Annotated[str, AfterValidator(_thousands)] | None = None
    date_format: Annotated[str, AfterValidator(_day)] | None = None

    @property
    def text_fields(self) -> dict[str, Any]:
        """What is stated of the format."""
        names = [name for name in TextFormat.model_fields if name not in ("path", "table")]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def untyped(self) -> bool:
        """Whether it is a file whose columns have no types: a text file or a workbook."""
        return PurePath(self.path or "").suffix.lower() in (*TEXT_FILES, *WORKBOOKS)

    @property
    def misfit_of_format(self) -> str:
        """Why the file cannot be written so; empty if it can."""
        ending = PurePath(self.path or "").suffix.lower()
        for name in self.text_fields:
            endings = TEXT_FILES if name in _OF_TEXT_FILES else (*TEXT_FILES, *WORKBOOKS)
            if ending not in endings:
                return f"{name}: applies to {', '.join(endings)} files only"
        if self.quote and self.quote == self.delimiter:
            return "quote: must not be the delimiter"
        if self.thousands is not None and self.thousands == (self.decimal or "."):
            return f"thousands: must not be the decimal sign, {self.thousands!r}"
        return ""


_OF_TEXT_FILES = ("encoding", "delimiter", "quote", "multiline")
PLAIN = TextFormat()
"""A file of which nothing is stated."""


def day_parts(date_format: str) -> tuple[str, str]:
    """The order of day, month and year in a date, by their letters, and what separates them.

    >>> day_parts("%d.%m.%Y"), day_parts("%Y%m%d")
    (('dmY', '.'), ('Ymd', ''))
    """
    found = _DATE.fullmatch(date_format)
    assert found is not None
    return found[1] + found[3] + found[4], found[2]
