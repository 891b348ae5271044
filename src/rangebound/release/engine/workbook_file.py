"""Sheets of .xlsx workbooks as rows of texts: a cell has a type of its own, and a column has none.

What can be wrong with a cell makes its value missing, as in a text file. What is wrong with the file itself, an archive
of XML documents, is no matter of any row, as long as whoever writes it writes XML: it is found before the charge.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rangebound.errors import ArgumentError, EngineError, PlanError
from rangebound.release.engine.text_file import distinct
from rangebound.release.plan.source import TextFormat
from rangebound.values.extras import need

# What a cell shows whose formula has no value.
_ERRORS = frozenset(("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA"))
_DAMAGED = "#VALUE!"


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
            found[column] = _DAMAGED if read["data_type"] == "e" and read["value"] else read["value"]
        except Exception:
            found[column] = _DAMAGED
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
