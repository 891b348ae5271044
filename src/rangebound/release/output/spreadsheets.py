"""A published table as files for others: a workbook for spreadsheets, with a sheet of notes; needs XlsxWriter.

And the description of a published .csv file by CSV on the Web, as JSON-LD beside it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from rangebound.errors import ArgumentError, plain
from rangebound.release.output.plan_facts import Row, TableFacts
from rangebound.release.output.rendering import FIRST, FLAGS, NUMBERS, SAID
from rangebound.values.arguments import counted
from rangebound.values.extras import need
from rangebound.values.serial import spreadsheet_cell, workbook_text

if TYPE_CHECKING:
    from xlsxwriter.format import Format
    from xlsxwriter.worksheet import Worksheet

_MOST_ROWS = 1_048_576  # of a sheet, by the format
_MOST_LETTERS = 32_767  # of a cell
_WIDTH = 14  # of a column, in letters
_ALWAYS = (*FIRST, "value", "lower", "upper")  # the columns that a table has even where they are empty
_TEXTS = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False, "in_memory": True}
ENDING = "-metadata.json"
"""What stands behind the name of a .csv file in that of its description, by the standard."""


def workbook(found: TableFacts) -> bytes:
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

    rows = found.rows
    said = {name for row in rows for name, value in row.items() if not (value is None or value is False or value == "")}
    columns = [name for name in rows[0] if name in _ALWAYS or name in said] if rows else ["query"]  # 0 says something
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
    _fill(notes, [[line] for line in notes_of(found)], {})
    notes.set_column(0, 0, 120, book.add_format({"text_wrap": True, "valign": "top"}))
    book.close()
    return file.getvalue()


def notes_of(found: TableFacts) -> list[str]:
    """What a reader of the table has to know beside its numbers, one line each."""
    once = ", all of them at once" if found.plan.joint else ""
    said = [
        found.title,
        found.spent,
        f"lower and upper are {found.plan.level:.0%} confidence intervals for the noise{once}.",
        *([found.promise] if found.promise else []),
        *found.warnings,
        *found.scopes,
        *(f"Note: {each}." for each in found.notes),
        f"Published bytes: SHA-256 {found.sha256}",
    ]
    return [plain(each) for each in said]


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
    """The cells of a sheet, each as what it is."""
    for at, row in enumerate(rows):
        for place, value in enumerate(row):
            if isinstance(value, bool):
                sheet.write_boolean(at, place, value)
            elif isinstance(value, (int, float)) and math.isfinite(value):
                look = formats.get(_pattern(value)) if isinstance(value, float) else None
                sheet.write_number(at, place, value, look)
            elif value is not None:
                sheet.write_string(at, place, _fitting(workbook_text(str(value))))


def _fitting(text: str) -> str:
    """A text that a cell has room for: a long one is cut, and ends with the digest of all of it.

    Letters are counted as spreadsheets count them, in UTF-16. What is cut is longer than all that is not.
    """
    units = text.encode("utf-16-le")
    if len(units) // 2 <= _MOST_LETTERS - 2:
        return text
    end = f"... SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"
    return units[: 2 * (_MOST_LETTERS - len(end))].decode("utf-16-le", "ignore") + end


def csvw_description(found: TableFacts, columns: tuple[str, ...], url: str) -> str:
    """The description of the .csv form of a table, by the W3C's CSVW: names, types and meaning of its columns.

    `columns` are those of the table, and `url` is the name of the .csv file, relative to the description.

    Guarantee: made of the published table and its plan. Names of columns are percent-encoded where the standard asks
    for it, and their titles are the cells of the file's first row.
    Edge cases: a column with an infinite number is described as text.
    """
    beside = [found.spent, *([found.promise] if found.promise else []), *found.warnings, *found.scopes, *found.notes]
    data = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "@type": "Table",
        "url": quote(url),
        "dc:title": plain(found.title),
        "dc:description": "Numbers with noise, by differential privacy; each with an interval for the noise.",
        "dc:identifier": f"sha256:{found.sha256}",
        "rdfs:comment": [plain(each) for each in beside],
        "dialect": {"encoding": "utf-8", "header": True, "delimiter": ",", "doubleQuote": True},
        "tableSchema": {
            "columns": [
                {
                    "name": quote(name, safe="") if name in SAID else f"group_{at}",
                    "titles": spreadsheet_cell(name),
                    "dc:description": plain(SAID.get(name, f"the group, by {name!r}")),
                    "datatype": _datatype(name, found.rows),
                }
                for at, name in enumerate(columns)
            ],
        },
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _datatype(name: str, rows: list[Row]) -> object:
    """The type of a column; as people write numbers and truth values in Python."""
    if name in NUMBERS and all(row[name] is None or math.isfinite(row[name]) for row in rows):
        return "double"
    if name in FLAGS:
        return {"base": "boolean", "format": "True|False"}
    return "date" if name == "date" else "string"
