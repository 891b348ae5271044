"""A published table as a workbook for spreadsheets, with a sheet of notes; needs XlsxWriter."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rangebound.errors import ArgumentError, plain
from rangebound.release.output.facts import Published, Row, table_facts
from rangebound.release.output.rendering import FIRST
from rangebound.values.arguments import counted
from rangebound.values.extras import need
from rangebound.values.serial import workbook_text

if TYPE_CHECKING:
    from xlsxwriter.format import Format
    from xlsxwriter.worksheet import Worksheet

_MOST_ROWS = 1_048_576  # of a sheet, by the format
_MOST_LETTERS = 32_767  # of a cell
_WIDTH = 14  # of a column, in letters
_ALWAYS = (*FIRST, "value", "lower", "upper")  # the columns that a table has even where they are empty
_TEXTS = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False, "in_memory": True}


def workbook(release: Published) -> bytes:
    """The table as the bytes of an .xlsx file: a sheet `table`, numbers as numbers, and a sheet `notes`.

    The notes have the title, what was spent, what intervals are for, what each number is of, warnings, and the hash of
    the published bytes.

    Guarantee: a text is a text, whatever it begins with: nothing is run as a formula, and nothing becomes a link, a
    number or a date. A number has 16 significant digits, of which six are shown; all of them are in the .json form. A
    column is left out where no row says anything in it.
    Edge cases: an infinite number is the text `inf` or `-inf`, since a sheet has none. A text of more than
    32,765 letters is cut and ends with the SHA-256 of all of it. Text that these files cannot hold has escapes, as
    `rangebound.values.serial.workbook_text` says. So no two texts look alike. More than 1,048,576 rows do not
    fit into a sheet and are refused.
    """
    need("xlsxwriter", what="a table as .xlsx")
    from xlsxwriter import Workbook

    rows = release.rows()
    columns = _columns(rows)
    if len(rows) >= _MOST_ROWS:
        raise ArgumentError(
            f"a table of {counted(len(rows), 'row')}: a sheet has at most {_MOST_ROWS - 1}; write .csv or .parquet"
        )
    file = io.BytesIO()
    book = Workbook(file, _TEXTS)
    sheet = book.add_worksheet("table")
    bold = book.add_format({"bold": True})
    patterns = {_pattern(value) for row in rows for value in row.values() if isinstance(value, float)}
    formats = {each: book.add_format({"num_format": each}) for each in sorted(patterns)}
    _fill(sheet, [columns, *([row[name] for name in columns] for row in rows)], formats)
    sheet.set_row(0, None, bold)
    sheet.freeze_panes(1, 0)
    sheet.set_column(0, len(columns) - 1, _WIDTH)
    notes = book.add_worksheet("notes")
    _fill(notes, [[line] for line in notes_of(release)], {})
    notes.set_column(0, 0, 120, book.add_format({"text_wrap": True, "valign": "top"}))
    book.close()
    return file.getvalue()


def notes_of(release: Published) -> list[str]:
    """What a reader of the table has to know beside its numbers, one line each."""
    plan, facts = release.plan, table_facts(release)
    once = ", all of them at once" if plan.joint else ""
    said = [
        facts.title,
        facts.spent,
        f"lower and upper are {plan.level:.0%} confidence intervals for the noise{once}.",
        *([facts.promise] if facts.promise else []),
        *facts.warnings,
        *facts.scopes,
        *(f"Note: {each}." for each in facts.notes),
        f"Published bytes: SHA-256 {facts.sha256}",
    ]
    return [plain(each) for each in said]


def _columns(rows: Sequence[Row]) -> list[str]:
    """The columns in which any row says something, and those that every table has."""
    if not rows:
        return ["query"]
    return [name for name in rows[0] if name in _ALWAYS or any(_says(row[name]) for row in rows)]


def _says(value: object) -> bool:
    """Whether a cell says anything: 0 does, and a flag that is not set does not."""
    return value is not None and value != "" and value is not False


def _pattern(value: float) -> str:
    """How a sheet shows a number: six digits, and no zeros behind them.

    >>> _pattern(0.1234567891), _pattern(12.0), _pattern(1234567.8), _pattern(1.5e-09)
    ('0.000000', '0', '0', '0.0E+00')
    """
    if not math.isfinite(value) or abs(value) >= 1e6:
        return "0"
    mantissa, exponent, _ = f"{value:.6g}".partition("e")
    digits = len(mantissa.partition(".")[2])
    return ("0." + "0" * digits if digits else "0") + ("E+00" if exponent else "")


def _fill(sheet: Worksheet, rows: Sequence[Sequence[object]], formats: Mapping[str, Format]) -> None:
    for at, row in enumerate(rows):
        for place, value in enumerate(row):
            _write(sheet, at, place, value, formats.get(_pattern(value)) if isinstance(value, float) else None)


def _write(sheet: Worksheet, row: int, column: int, value: object, look: Format | None) -> None:
    """One cell, as what it is."""
    if value is None:
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, (int, float)) and math.isfinite(value):
        sheet.write_number(row, column, value, look)
    else:
        sheet.write_string(row, column, _fitting(workbook_text(str(value))))


def _fitting(text: str) -> str:
    """A text that a cell has room for: a long one is cut, and ends with the digest of all of it.

    Letters are counted as spreadsheets count them, in UTF-16. What is cut is longer than all that is not.
    """
    units = text.encode("utf-16-le")
    if len(units) // 2 <= _MOST_LETTERS - 2:
        return text
    end = f"... SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"
    return units[: 2 * (_MOST_LETTERS - len(end))].decode("utf-16-le", "ignore") + end
