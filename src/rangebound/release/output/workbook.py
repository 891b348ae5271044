"""A published table as a workbook for spreadsheets, with a sheet of notes; needs XlsxWriter."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rangebound.arguments import counted
from rangebound.errors import ArgumentError, plain
from rangebound.extras import need
from rangebound.release.output.hazards import hazards
from rangebound.release.output.rendering import Published
from rangebound.release.output.scope import scope_lines
from rangebound.release.output.stated_promise import stated_promise

if TYPE_CHECKING:
    from xlsxwriter.worksheet import Worksheet

_MOST_ROWS = 1_048_576  # of a sheet, by the format
_MOST_LETTERS = 32_767  # of a cell
_WIDTH = 14  # of a column, in letters
_TEXTS = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False, "in_memory": True}


def workbook(release: Published) -> bytes:
    """The table as the bytes of an .xlsx file: a sheet `table`, numbers as numbers, and a sheet `notes`.

    The notes have the title, what was spent, what intervals are for, what each number is of, warnings, and the hash of
    the published bytes.

    Guarantee: a text is a text, whatever it begins with: nothing is run as a formula, and nothing becomes a link, a
    number or a date. A number has 16 significant digits; all of them are in the .json form.
    Edge cases: an infinite number is the text `inf` or `-inf`, since a sheet has none. More than 1,048,576 rows, or a
    text of more than 32,767 letters, do not fit into a sheet and are refused.
    """
    need("xlsxwriter", what="a table as .xlsx")
    from xlsxwriter import Workbook

    rows = release.rows()
    columns = list(rows[0]) if rows else ["query"]
    if len(rows) >= _MOST_ROWS:
        raise ArgumentError(
            f"a table of {counted(len(rows), 'row')}: a sheet has at most {_MOST_ROWS - 1}; write .csv or .parquet"
        )
    file = io.BytesIO()
    book = Workbook(file, _TEXTS)
    sheet = book.add_worksheet("table")
    bold = book.add_format({"bold": True})
    _fill(sheet, [columns, *(list(row.values()) for row in rows)])
    sheet.set_row(0, None, bold)
    sheet.freeze_panes(1, 0)
    sheet.set_column(0, len(columns) - 1, _WIDTH)
    notes = book.add_worksheet("notes")
    _fill(notes, [[line] for line in notes_of(release)])
    notes.set_column(0, 0, 120, book.add_format({"text_wrap": True, "valign": "top"}))
    book.close()
    return file.getvalue()


def notes_of(release: Published) -> list[str]:
    """What a reader of the table has to know beside its numbers, a line each."""
    import hashlib

    plan = release.plan
    said = [plan.title or "Private release", f"Spent: {plan.budget}."]
    said.append(
        f"lower and upper are {plan.level:.0%} confidence intervals for the noise"
        f"{', all of them at once' if plan.joint else ''}."
    )
    promise = stated_promise(release.certificate)
    said += [*([promise] if promise else []), *(f"Warning: {each}." for each in hazards(plan)), *scope_lines(plan)]
    said += [f"Note: {each}." for each in release.notes]
    said.append(f"Published bytes: SHA-256 {hashlib.sha256(release.to_bytes()).hexdigest()}")
    return [plain(each) for each in said]


def _fill(sheet: Worksheet, rows: Sequence[Sequence[object]]) -> None:
    for at, row in enumerate(rows):
        for place, value in enumerate(row):
            _write(sheet, at, place, value)


def _write(sheet: Worksheet, row: int, column: int, value: object) -> None:
    """One cell, as what it is."""
    if value is None:
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, (int, float)) and math.isfinite(value):
        sheet.write_number(row, column, value)
    elif len(str(value)) > _MOST_LETTERS:
        raise ArgumentError(
            f"a text of {counted(len(str(value)), 'letter')}: a cell of a sheet has at most {_MOST_LETTERS}"
        )
    else:
        sheet.write_string(row, column, str(value))
