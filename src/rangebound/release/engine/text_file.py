"""Text files and sheets of workbooks as clean copies: what is wrong with a value makes it missing, and nothing else.

DuckDB's own reader leaves out lines that it cannot read, or stops at them, depending on which columns are asked for.
So a file is copied first, once for all statements of a release, into one that has nothing wrong: UTF-8, the same
number of values in each line, and quotation marks where they are needed. Lines that are so already, which is most of
them, are copied as they are, many at a time.

In a sheet of an .xlsx workbook a cell has a type of its own, and a column has none: its rows become texts. Damage to
the file itself, an archive of XML documents, does not depend on any row, as long as whoever writes it writes XML: it is
found before the charge.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TextIO

from rangebound.errors import ArgumentError, EngineError, PlanError
from rangebound.release.plan.source import PLAIN, TextFormat, codec
from rangebound.values.extras import need

LONGEST_LINE = 1_000_000
"""Characters of a line that are read; a value behind them is missing."""
MOST_BYTES = 8 * LONGEST_LINE
"""More bytes than a line of a clean copy has: up to four per character, and quotation marks around each value."""
_BLOCK = 1 << 18  # characters that are read at a time, well below a line's longest
_DAMAGED = "\udc80"  # stands for bytes that are not valid in the encoding; no text has it
_HANDLER = "rangebound.damaged"
_GUESSES = (",", ";", "\t", "|")


def _damaged(error: UnicodeError) -> tuple[str, int]:
    """One byte further, so that no line end after damaged bytes is ever taken for a part of them."""
    assert isinstance(error, UnicodeDecodeError)
    return _DAMAGED, error.end if error.encoding.startswith("utf-16") else error.start + 1


codecs.register_error(_HANDLER, _damaged)


def delimiter_of(path: Path, form: TextFormat) -> str:
    """What separates the values of a file."""
    return form.delimiter or ("\t" if path.suffix.lower() == ".tsv" else ",")


def quote_of(form: TextFormat) -> str:
    """The quotation mark of a clean copy, whether or not the file itself has one."""
    return form.quote or '"'


def header(path: Path, form: TextFormat, field: str = "source") -> list[str]:
    """The names of the columns of a file, from its first line, which is public; nothing below it is looked at.

    Edge cases: a line that does not name every column, each differently, is an `ArgumentError` with the way out.
    """
    with _opened(path, form) as file:
        first = file.readline(LONGEST_LINE)
    line = first.rstrip("\r\n").removeprefix("\ufeff")  # which utf-16-le and others take for a letter
    delimiter = delimiter_of(path, form)

    def refused(rule: str) -> ArgumentError:
        return ArgumentError(f"{field}.path={str(path)!r}: {rule}")

    if _DAMAGED in line or "\0" in line:
        stated, other = form.encoding or "utf-8", "utf-16" if "\0" in line else _other_encoding(path)
        raise refused(f'the first line is not {stated!r}; state the encoding of the file, such as encoding = "{other}"')
    if first.endswith("\r"):
        raise refused("the first line ends with a carriage return alone; write the file with line feeds")
    other = _delimiter_in(line, delimiter)
    if form.delimiter is None and other != delimiter and delimiter not in _unquoted(line):
        shown = "\\t" if other == "\t" else other
        raise refused(f'the first line has no {delimiter!r}; state the delimiter, such as delimiter = "{shown}"')
    quoting: Literal[0, 3] = csv.QUOTE_NONE if form.quote == "" else csv.QUOTE_MINIMAL
    try:  # an open quotation mark must not draw in the lines below
        names = next(csv.reader([line], delimiter=delimiter, quotechar=quote_of(form), quoting=quoting, strict=True))
    except (csv.Error, StopIteration):
        names = []
    if len(first) == LONGEST_LINE or not distinct(names):
        raise refused("the first line must name every column, each differently (upper and lower case are the same)")
    return names


def distinct(names: Sequence[str | None]) -> bool:
    """Whether there are columns and each has a name of its own; engines do not distinguish cases of ASCII letters."""
    return bool(names) and all(names) and len({each.encode().lower() for each in names if each}) == len(names)


def _unquoted(line: str) -> str:
    return re.sub('"[^"]*"', "", line)


def _delimiter_in(line: str, usual: str) -> str:
    """What stands most often between the names of a first line, the usual delimiter where nothing else does more."""
    return max((usual, *_GUESSES), key=_unquoted(line).count)


def _is_utf16(path: Path) -> bool:
    """Whether a file begins with the mark of UTF-16."""
    with path.open("rb") as file:
        return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _other_encoding(path: Path) -> str:
    """That of a file whose first line is not UTF-8: by its mark, or else that of Windows in Western Europe."""
    return "utf-16" if _is_utf16(path) else "windows-1252"


def proposed_format(path: Path) -> TextFormat:
    """What the first line of a text file says of its format, for a first plan; no other line is looked at.

    Its encoding where it is not UTF-8 (by its mark, or else that of Windows in Western Europe), and the delimiter that
    stands there most often, where it is not the usual one.
    """
    form = PLAIN
    with _opened(path, form) as text:
        line = text.readline(LONGEST_LINE)
    if _DAMAGED in line:
        form = TextFormat(encoding=_other_encoding(path))
        with _opened(path, form) as text:
            line = text.readline(LONGEST_LINE)
    usual = delimiter_of(path, PLAIN)
    found = _delimiter_in(line, usual)
    return form if found == usual else form.model_copy(update={"delimiter": found})


def _opened(path: Path, form: TextFormat) -> TextIO:
    """A file as text, in which invalid bytes are marked; nothing in it raises an error."""
    name = codec(form.encoding or "utf-8")
    if name == "utf-16" and not _is_utf16(path):
        name = "utf-16-le"
    return path.open(encoding="utf-8-sig" if name == "utf-8" else name, errors=_HANDLER, newline="")


def copy_clean(path: Path, form: TextFormat, names: Sequence[str], copy: Path) -> None:
    """Write the clean copy of a file, in UTF-8 with a header, for the delimiter and quotation mark of the file.

    Guarantee: raises nothing but `OSError`, whatever bytes the file has below its first line. Each line that is not
    empty is one row, and what it holds changes no other row; with `multiline`, a quoted value goes on until its
    quotation mark. In a row, a value that has bytes without a character, or a text behind its closing quotation mark,
    or no closing one, is missing, and so is one that the line does not have; what it has beyond the columns is left
    out.
    """
    lines = _Lines(delimiter_of(path, form), form.quote if form.quote is not None else '"', len(names))
    with _opened(path, form) as file, copy.open("w", encoding="utf-8", newline="") as out:
        out.write(lines.written(list(names)))
        file.readline(LONGEST_LINE)
        row: list[str] = []  # the lines of one that goes on
        length = 0
        for block in _blocks(file, whole=bool(form.multiline)):
            plain = block.replace("\r\n", "\n")
            if not row and lines.all_clean(plain):
                out.write(plain)
                continue
            for line in block.split("\n")[:-1]:
                goes_on = form.multiline and lines.goes_on(line, inside=bool(row))
                if length <= LONGEST_LINE:
                    row.append(line)
                    length += len(line) + 1
                if not goes_on:
                    out.write(lines.clean("\n".join(row)))
                    row, length = [], 0
        out.write(lines.clean("\n".join(row)))


def write_rows(rows: Iterable[Sequence[str | None]], names: Sequence[str], copy: Path) -> None:
    """Write rows of texts as such a copy, for the delimiter and quotation mark of plain CSV."""
    lines = _Lines(",", '"', len(names))
    with copy.open("w", encoding="utf-8", newline="") as out:
        out.write(lines.written(list(names)))
        out.writelines(map(lines.written, rows))


def _blocks(file: TextIO, *, whole: bool) -> Iterator[str]:
    """The text of a file in blocks of lines, each of which ends with a line feed.

    A line that is too long is `whole` only where a quotation mark behind its limit may say in which line the row ends.
    """
    left = ""
    while piece := file.read(_BLOCK):
        head, end, tail = piece.rpartition("\n")
        if end:
            yield left + head + end
            left = tail
        elif whole or len(left) <= LONGEST_LINE:
            left += piece
    if left:
        yield left + "\n"


class _Lines:
    """How lines of a file are read and written: `width` values with a delimiter, and quotation marks if it has any."""

    def __init__(self, delimiter: str, quote: str, width: int) -> None:
        self.delimiter, self.quote, self.width = delimiter, quote, width
        self.mark = quote or '"'
        d, q = re.escape(delimiter), re.escape(self.mark)
        plain, inside = f"[^{d}{q}\n\r{_DAMAGED}]*+", f"(?:[^{q}\n\r{_DAMAGED}]++|{q}{q})*+"
        value = f"(?:{q}{inside}{q}|{plain})" if quote else plain
        row = f"(?!\n){value}" if width == 1 else f"{value}(?:{d}{value}){{{width - 1}}}"
        self._clean_block, self._clean_line = re.compile(f"(?:{row}\n)*+"), re.compile(row)
        self._quoted = re.compile(f"(?:[^{q}]++|{q}{q})*+")

    def all_clean(self, block: str) -> bool:
        """Whether the lines of a block are already as those of the copy."""
        return len(block) <= LONGEST_LINE and self._clean_block.fullmatch(block) is not None

    def clean(self, line: str) -> str:
        """A line of the copy, with its end; nothing for an empty line, which is not a row."""
        line = line.rstrip("\r")
        if not line:
            return ""
        if len(line) <= LONGEST_LINE and self._clean_line.fullmatch(line):
            return f"{line}\n"
        values = self.values(line[:LONGEST_LINE])
        if len(line) > LONGEST_LINE:
            values[-1] = None
        return self.written([*values[: self.width], *[None] * (self.width - len(values))])

    def written(self, values: Sequence[str | None]) -> str:
        """Values as a line of the copy, with its end; those beyond its longest length are missing."""
        q, lengths = self.mark, accumulate(len(each or "") for each in values)
        values = [each if length <= LONGEST_LINE else None for each, length in zip(values, lengths, strict=True)]
        if self.width == 1 and not values[0]:  # an empty line would be none
            return f"{q}{q}\n"
        return self.delimiter.join(f"{q}{each.replace(q, q + q)}{q}" if each else "" for each in values) + "\n"

    def values(self, line: str) -> list[str | None]:
        """The values of a line; None for one that is damaged."""
        return [None if value is None or _DAMAGED in value else value for value, _ in self._scanned(line)]

    def goes_on(self, line: str, *, inside: bool) -> bool:
        """Whether a quoted value is open at the end of a line, at whose beginning one is where it is `inside` it."""
        if not inside and self._clean_line.fullmatch(line):
            return False
        *_, (_, opened) = self._scanned(line, inside=inside)
        return opened

    def _scanned(self, line: str, *, inside: bool = False) -> Iterator[tuple[str | None, bool]]:
        """The values, None for one that is quoted wrongly; each with whether its quotation mark is still open."""
        at, q = 0, self.quote
        while True:
            if inside or (q and line.startswith(q, at)):
                begin = at if inside else at + 1
                inside = False
                closed = self._quoted.match(line, begin)
                assert closed is not None
                if closed.end() == len(line):
                    yield None, True
                    return
                at = closed.end() + 1
                end = self._end(line, at)
                yield (closed[0].replace(q * 2, q) if end == at else None), False
            else:
                end = self._end(line, at)
                yield line[at:end], False
            if end == len(line):
                return
            at = end + 1

    def _end(self, line: str, at: int) -> int:
        """Where the next delimiter is, or the end of the line."""
        found = line.find(self.delimiter, at)
        return len(line) if found < 0 else found


# What a cell shows whose formula has no value.
_ERRORS = frozenset(("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA"))
_BROKEN = "#VALUE!"


def sheet_header(path: Path, sheet: str | None, form: TextFormat, field: str = "source") -> list[str]:
    """The names of the columns of a sheet, the first where none is named, from its first row, which is public."""
    need("openpyxl", what=f"{field}.path={str(path)!r}")
    with _rows(path, sheet, field) as (parser, rows):
        found = [cell_text(each, form) for each in _values(parser, next(rows, ()))]
    while found and not found[-1]:
        found.pop()
    if not distinct(found):
        rule = "the first row of the sheet must name every column, each differently (upper and lower case are the same)"
        raise ArgumentError(f"{field}.path={str(path)!r}: {rule}")
    return [each for each in found if each]


def check_sheet(path: Path, sheet: str | None, field: str = "source") -> None:
    """Refuse a file whose archive or XML is damaged, to its end; no cell is looked at."""
    with _rows(path, sheet, field) as (_, rows):
        for _ in rows:
            pass


def sheet_rows(path: Path, sheet: str | None, form: TextFormat, width: int) -> Iterator[list[str | None]]:
    """The rows below the first as texts, each of `width` columns; None where a cell is empty or has an error.

    A row whose cells are all empty is none; one whose cells all have errors is one, in which all values are missing.
    """
    with _rows(path, sheet, "source") as (parser, rows):
        next(rows, None)
        for row in rows:
            found = _values(parser, row, width)
            if any(each not in (None, "") for each in found):
                yield [cell_text(each, form) for each in found]


def _values(parser: Any, row: Iterable[Any], width: int | None = None) -> list[Any]:
    """The values of a row by their columns; whatever the reader stops at in a cell is an error of that cell alone."""
    from openpyxl.utils.cell import coordinate_to_tuple

    found: dict[int, Any] = {}
    column = 0
    for cell in row:
        column += 1
        with suppress(Exception):
            column = coordinate_to_tuple(cell.get("r"))[1]
        try:
            read = parser.parse_cell(cell)
            found[column] = _BROKEN if read["data_type"] == "e" and read["value"] else read["value"]
        except Exception:
            found[column] = _BROKEN
    return [found.get(at) for at in range(1, (width or max(found, default=0)) + 1)]


def cell_text(value: object, form: TextFormat) -> str | None:
    """A cell as the text that a file of this format would have, so that both are read alike; None without a value.

    >>> cell_text(2.5, TextFormat(decimal=",")), cell_text(datetime.datetime(2025, 1, 31), TextFormat())
    ('2,5', '2025-01-31')
    """
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            plain = str(int(value)) if value.is_integer() and abs(value) < 2.0**53 else repr(value)
            return plain.replace(".", form.decimal or ".")
        case datetime.datetime():
            day = _day(value, form)
            return day if value.time() == datetime.time() else f"{day} {value.time().isoformat()}"
        case datetime.date():
            return _day(value, form)
        case str():
            damaged = value in _ERRORS or any("\ud800" <= each <= "\udfff" for each in value)
            return None if damaged else value
    return str(value)


def _day(value: datetime.date, form: TextFormat) -> str:
    parts = {"%d": f"{value.day:02}", "%m": f"{value.month:02}", "%Y": f"{value.year:04}"}
    text = form.date_format or "%Y-%m-%d"
    for name, digits in parts.items():
        text = text.replace(name, digits)
    return text


@contextmanager
def _rows(path: Path, sheet: str | None, field: str) -> Iterator[tuple[Any, Iterator[Any]]]:
    """The rows of a sheet as elements of XML, with a parser of their cells; failures in words without data.

    The numbers of rows are not looked at: openpyxl leaves out what comes behind one that is too large.
    """
    import openpyxl
    from openpyxl.worksheet._reader import WorkSheetParser

    book = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they name cells
            book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
            names = [each.title for each in book.worksheets]
            if not names or (sheet is not None and sheet not in names):
                rule = f"the workbook has no such sheet; its sheets are {', '.join(map(repr, names))}"
                raise PlanError(f"{field}.table={sheet!r}: {rule}", field=f"{field}.table")
            table = book[sheet or names[0]]
            dates = {"date_formats": book._date_formats, "timedelta_formats": book._timedelta_formats}
            with table._get_source() as source:
                yield (
                    WorkSheetParser(source, table._shared_strings, data_only=True, epoch=book.epoch, **dates),
                    _elements(source),
                )
    except (ArgumentError, EngineError, PlanError, OSError, GeneratorExit):
        raise
    except Exception:  # of the reader, which has no error of its own
        raise EngineError(f"{field}.path={str(path)!r}: cannot be read as an .xlsx workbook") from None
    finally:
        if book is not None:
            book.close()


def _elements(source: Any) -> Iterator[Any]:
    from openpyxl.worksheet._reader import ROW_TAG
    from openpyxl.xml.functions import iterparse

    for _, element in iterparse(source):
        if element.tag == ROW_TAG:
            yield element
            element.clear()
