"""Sheets of .xlsx workbooks as rows of texts: a cell has a type of its own, and a column has none."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rangebound.errors import ArgumentError, EngineError, PlanError
from rangebound.extras import need
from rangebound.release.engine.text_file import distinct
from rangebound.release.plan.text_format import TextFormat

_ERROR = "#VALUE!"
# What a cell shows whose formula has no value.
_ERRORS = frozenset(("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA"))


def sheet_header(path: Path, sheet: str | None, form: TextFormat, field: str = "source") -> list[str]:
    """The names of the columns of a sheet, the first where none is named, from its first row, which is public."""
    need("openpyxl", what=f"{field}.path={str(path)!r}")
    with _rows(path, sheet, field) as rows:
        found = [cell_text(each, form) for each in next(rows, ())]
    while found and not found[-1]:
        found.pop()
    if not distinct(found):
        rule = "the first row of the sheet must name every column, each differently (cases are not distinguished)"
        raise ArgumentError(f"{field}.path={str(path)!r}: {rule}")
    return [each for each in found if each]


def sheet_rows(path: Path, sheet: str | None, form: TextFormat, width: int) -> Iterator[list[str | None]]:
    """The rows below the first as texts, each of so many columns; None where a cell is empty or has an error.

    A row whose cells are all empty is none; one whose cells all have errors is one, in which all values are missing.
    """
    with _rows(path, sheet, "source") as rows:
        next(rows, None)
        for row in rows:
            if any(each not in (None, "") for each in row[:width]):
                found = [cell_text(each, form) for each in row[:width]]
                yield found + [None] * (width - len(found))


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


def _values(book: Any, sheet: Any) -> Iterator[Sequence[Any]]:
    """The values of the rows of a sheet; a cell that openpyxl cannot read, where it would stop, has an error.

    Some programs write `NaN` or `inf` into a cell of a number, so one row could otherwise end a release.
    """
    from openpyxl.worksheet._reader import VALUE_TAG, WorkSheetParser

    class Parser(WorkSheetParser):  # type: ignore[misc]
        col_counter: int

        def parse_cell(self, element: Any) -> dict[str, Any]:
            before = self.col_counter
            try:
                found: dict[str, Any] = super().parse_cell(element)
            except Exception:
                self.col_counter = before
                element.set("t", "e")
                for each in element.findall(VALUE_TAG):
                    each.text = _ERROR
                found = super().parse_cell(element)
            return {**found, "value": _ERROR} if found["data_type"] == "e" and found["value"] else found

    with sheet._get_source() as source:
        styles = {"date_formats": book._date_formats, "timedelta_formats": book._timedelta_formats}
        rows = Parser(source, sheet._shared_strings, data_only=True, epoch=book.epoch, **styles).parse()
        for at, (number, row) in enumerate(rows):
            if not at and number > 1:
                yield ()  # the first row is empty
            yield sheet._get_row(row, values_only=True)


@contextmanager
def _rows(path: Path, sheet: str | None, field: str) -> Iterator[Iterator[Sequence[Any]]]:
    """The rows of a sheet, as they are read; a failure is reported in words that do not depend on the data."""
    import openpyxl

    book = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they name cells
            book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
            names = [each.title for each in book.worksheets]
            if not names or (sheet is not None and sheet not in names):
                rule = f"the workbook has no such sheet; its sheets are {', '.join(map(repr, names))}"
                raise PlanError(f"{field}.table={sheet!r}: {rule}", field=f"{field}.table")
            yield _values(book, book[sheet or names[0]])
    except (ArgumentError, EngineError, PlanError, OSError, GeneratorExit):
        raise
    except Exception:  # of the reader, which has no error of its own
        raise EngineError(f"{field}.path={str(path)!r}: cannot be read as an .xlsx workbook") from None
    finally:
        if book is not None:
            book.close()
