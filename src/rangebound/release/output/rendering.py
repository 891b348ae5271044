"""Published numbers as people read them: as text, as HTML, in words, and as a workbook (by XlsxWriter).

Questions come as the plan has them, keys as it lists them, columns as `by` has them, and dates in place of days. A .csv
file is described by CSV on the Web, as JSON-LD beside it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING
from urllib.parse import quote

from rangebound.errors import ArgumentError, plain
from rangebound.release.output.plan_facts import Row, TableFacts
from rangebound.release.plan.fields import date
from rangebound.values import arguments
from rangebound.values.arguments import counted
from rangebound.values.data_frames import FLAGS, NUMBERS, POPULATION, escaped
from rangebound.values.extras import need
from rangebound.values.serial import spreadsheet_cell, workbook_text
from rangebound.values.support import Interval, Union

SAID = {
    "query": "the question of the plan",
    "kind": "the kind of the question",
    "part": "which part of the answer, such as a bin or a level",
    "value": "the published number, with noise",
    "lower": "the lower end of its interval, for the noise alone",
    "upper": "the upper end of its interval, for the noise alone",
    "population_lower": "the lower end of its interval for the population, for sampling and the noise",
    "population_upper": "the upper end of its interval for the population, for sampling and the noise",
    "unbiased": "the number before it was moved into its support",
    "bias": "a bound on how far the number is off on average",
    "unreliable": "whether the interval is wider than the number",
    "date": "the number as a date",
    "rank_error": "a bound on how many rows lie between the answer and the quantile",
    "scope": "what the number is of: what was left out, cut or clipped before the noise",
    "mechanism": "how the noise was made",
    "epsilon": "what the number has cost",
    "delta": "what the number has cost",
    "mu": "what the numbers of the question have cost together, in a Gaussian account",
}
"""The columns of every table, and what each holds."""
FIRST, LAST = tuple(SAID)[:2], tuple(SAID)[2:]
"""Those before the grouping columns, and those behind them."""
FACTS = frozenset(SAID)
"""All of them, but for the grouping columns."""

_NO_BIAS = 1e-9  # what is printed of a smaller bound on a bias
_WIDEST = 200  # letters of a cell that are printed, since all others of its column are as wide
_REPEATED = ("mechanism", "delta", "rank_error", "scope", "bias")  # what only repeats the plan
_MAY_BE_EMPTY = (*POPULATION, "epsilon", "delta", "mu", "unbiased", "bias", "unreliable", "rank_error")
_MOST = 12  # numbers of a question that are told one by one


def _readable(rows: list[Row], *left_out: str) -> list[Row]:
    """Rows as people read them, without some columns: days as dates in place of numbers, and no column that is empty.

    A column of costs, of errors or of flags is empty where no row has any.
    """
    empty = {name for name in _MAY_BE_EMPTY if all(row.get(name) is None or row[name] is False for row in rows)}
    hidden = {*left_out, *empty, "date"}
    found = []
    for row in rows:
        days = ("value", "lower", "upper", *POPULATION) if row["date"] else ()
        shown_in = {name: value for name, value in row.items() if name not in hidden}
        found.append(
            {
                name: date(value).isoformat() if name in days and value is not None else value
                for name, value in shown_in.items()
            }
        )
    return found


def briefly(rows: list[Row]) -> list[Row]:
    """The rows as people read them, without what only repeats the plan and without columns that are empty."""
    return _readable(rows, *_REPEATED)


def shown(name: str, value: str | float | None) -> str:
    """A value of a column as people read it: six digits and all before the point; a cost or a bias is rounded up.

    Edge cases: a key that is the empty text is a pair of quotes, since nothing stands for a total.

    >>> shown("value", 1 / 3), shown("value", 1e6), shown("epsilon", 1 / 3), shown("unreliable", True)
    ('0.333333', '1000000', '0.333334', 'yes')
    """
    if value == "" and name not in FACTS:
        return '""'
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if not isinstance(value, float):
        return str(value)
    if name in ("epsilon", "delta", "mu"):
        return arguments.upwards(value)
    if name == "bias":
        return arguments.upwards(value, 3) if value >= _NO_BIAS or not value else f"< {_NO_BIAS:g}"
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"


def text(found: TableFacts) -> str:
    """The table as text, without what only repeats the plan, and below it what the numbers are of.

    Edge cases: a text of more than 200 letters is cut; all other forms have it whole.
    """
    rows = briefly(found.rows)
    if not rows:
        return "No group was selected."
    cells = [list(rows[0]), *([shown(name, value) for name, value in row.items()] for row in rows)]
    return "\n".join([*lined_up(cells), *found.scopes])


def lined_up(cells: list[list[str]]) -> list[str]:
    """Lines of text with a row each, whose columns are below each other; a cell of more than 200 letters is cut."""
    cells = [[cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 3]}..." for cell in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return [plain(line.rstrip()) for line in lines]


def table(found: TableFacts) -> str:
    """The table as HTML."""
    rows = _readable(found.rows, "scope")
    if not rows:
        return "<p>No group was selected.</p>"
    place = {name: " class=n" if name in NUMBERS else "" for name in rows[0]}
    head = "".join(f"<th{place[name]}>{escaped(name)}</th>" for name in place)
    body = "".join(
        f"<tr{' class=unreliable' if row.get('unreliable') else ''}>"
        + "".join(f'<td{place[name]} data-name="{escaped(name)}">{escaped(_cell(row, name))}</td>' for name in row)
        + "</tr>"
        for row in rows
    )
    said = "".join(f"<p class=scope>{escaped(line)}</p>" for line in found.scopes)
    return f"<table><tr>{head}</tr>{body}</table>{said}"


def _cell(row: Row, name: str) -> str:
    """A value of a row in a table for people: a bound on a bias that is wider than the interval says nothing."""
    value, ends = row[name], (row["lower"], row["upper"])
    wide = name == "bias" and value is not None and all(isinstance(each, float) for each in ends)
    return "no useful bound" if wide and value > ends[1] - ends[0] else shown(name, value)


def grouping_columns(groupings: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """All grouping columns, each once: each grouping has its columns in its own order, where all of them can.

    Edge cases: where two groupings have two columns in opposite orders, the first one decides.

    >>> grouping_columns([["month"], ["airport", "month"], ["month", "day"]])
    ('airport', 'month', 'day')
    >>> grouping_columns([["a", "b"], ["b", "a"]])
    ('a', 'b')
    """
    wanted = [tuple(each) for each in groupings]
    left = list(dict.fromkeys(column for each in wanted for column in each))
    found: list[str] = []
    while left:
        behind = {column for each in wanted for at, column in enumerate(each) if not {*each[:at]} <= {*found}}
        found.append(next((column for column in left if column not in behind), left[0]))
        left.remove(found[-1])
    return tuple(found)


def in_words(found: TableFacts) -> Iterator[tuple[str, list[str]]]:
    """The questions of a table with their numbers in words: those of each up to a dozen, one by one.

    Guarantee: made of published numbers alone, none of which is outside its range; an interval is rounded outwards.
    Edge cases: of more numbers there is one line that says how many. Ranks are told as the keys in their order.
    """
    for question in found.plan.query:
        own = [row for row in found.rows if row["query"] == question.name]
        if question.selected is not None or not own:
            continue
        told = f"{question.name} ({question.kind})"
        if len(own) > _MOST:
            unreliable = sum(bool(row["unreliable"]) for row in own)
            rest = f", {unreliable:,} of them unreliable (interval wider than the number)" if unreliable else ""
            yield told, [f"{arguments.counted(f'{len(own):,}', 'number')}{rest}; see the picture and the table"]
            continue
        allowed = question.published_in(found.plan.unit_of(question))
        columns = [each for each in own[0] if each not in FACTS]
        columns += ["part"] if len({row["part"] for row in own}) > 1 else []
        of = [", ".join(str(row[name]) for name in columns if row[name]) for row in own]
        yield told, [f"{name}{': ' if name else ''}{spoken(row, allowed)}" for name, row in zip(of, own, strict=True)]


def spoken(row: Row, allowed: Interval | Union) -> str:
    """A number with its interval, in as many digits as the interval leaves.

    >>> row = {"value": 1838.0, "lower": 1756.2, "upper": 1919.8, "unreliable": False, "date": False}
    >>> spoken(row, Interval(0, math.inf))
    'about 1,840, between 1,756 and 1,920'
    >>> spoken({**row, "unreliable": True}, Interval(0, 1919.8))
    'too uncertain to say; between 1,756 and 1,919.8'
    >>> spoken({**row, "lower": -math.inf, "upper": math.inf, "unreliable": True}, Interval(0, 1900.0))
    'too uncertain to say; any number may be the true one'
    """
    value, lower, upper = row["value"], row["lower"], row["upper"]
    if row["date"]:
        first, last = (date(each).isoformat() for each in (lower, upper))
        return date(value).isoformat() + (f", between {first} and {last}" if first != last else "")
    low, high, digit = outwards(lower, upper)
    low = max(low, _exact(min(allowed.hull.lower, lower)))  # true answers may lie outside of what is published
    high = min(high, _exact(max(allowed.hull.upper, upper)))
    if low == high:
        return plain_number(low)
    between = f"between {plain_number(low)} and {plain_number(high)}"
    if low.is_infinite() and high.is_infinite():
        between = "any number may be the true one"
    elif low.is_infinite() or high.is_infinite():
        between = f"at {'most' if low.is_infinite() else 'least'} {plain_number(high if low.is_infinite() else low)}"
    if row["unreliable"]:
        return f"too uncertain to say; {between}"
    low, high = max(low, _exact(allowed.hull.lower)), min(high, _exact(allowed.hull.upper))
    return f"about {plain_number(min(max(rounded(value, digit, ROUND_HALF_EVEN), low), high))}, {between}"


def outwards(lower: float, upper: float) -> tuple[Decimal, Decimal, Decimal]:
    """An interval that is rounded outwards to a tenth of the first digit of half its width, and that digit's unit.

    >>> outwards(19.476, 31.528)
    (Decimal('19.4'), Decimal('31.6'), Decimal('1'))
    """
    half = 0.5 * (upper - lower)
    if not 0.0 < half < math.inf:
        finite = [abs(_exact(end)) for end in (upper, lower) if math.isfinite(end) and end != 0.0]
        return _exact(lower), _exact(upper), finite[0] if finite else Decimal(1)
    digit = Decimal(1).scaleb(math.floor(math.log10(half)))
    return rounded(lower, digit / 10, ROUND_FLOOR), rounded(upper, digit / 10, ROUND_CEILING), digit


def rounded(x: float, digit: Decimal, way: str) -> Decimal:
    """A number as a multiple of `digit`, the next one in a direction."""
    return (_exact(x) / digit).to_integral_value(way) * digit


def plain_number(x: Decimal) -> str:
    """A number with thousands apart, without zeros at its end.

    >>> plain_number(Decimal("12340.50")), plain_number(Decimal("-0.0")), plain_number(Decimal("-inf"))
    ('12,340.5', '0', '-inf')
    """
    if x.is_infinite():
        return str(float(x))
    text = f"{x:,f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _exact(x: float) -> Decimal:
    """The decimal that a number prints as."""
    return Decimal(repr(x))


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
            ]
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
