"""Plain data: numbers and supports, JSON that can be read in one way only, and cells that no spreadsheet runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.values import arguments
from rangebound.values.support import Grid, Interval, Support, Union

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}
# What ends a line, or a text, in some reader, turns the order in which the rest of its line is shown, is left out where
# a file begins, or is not Unicode.
_HIDDEN = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff"
_RUNS = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"  # what a cell begins with that some spreadsheet runs
_FORMULA = re.compile(rf"'*\s*{_RUNS}")
_SPLIT = re.compile(rf'[{_HIDDEN}]|;["\s]*{_RUNS}')
_ESCAPED = re.compile(rf"[{_HIDDEN};\\]")
_GUESSED = re.compile(r"""[",'#;|~]""")  # what a reader that guesses takes for a separator, a quote or a comment
_NO_XML = r"\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff"
_NO_SAME = re.compile(rf"[{_NO_XML}]|x005F_|_x[0-9A-Fa-f]{{4}}_x[0-9A-Fa-f]{{4}}_")
_NO_CELL = re.compile(rf"[{_NO_XML}_\\]")
_DEEPEST = 16  # lists and mappings around a value; a certificate has six
_PARTS = 500_000  # commas, as many as a million characters hold: a long text is one of weights


def number(x: float) -> float | str:
    """A double in a form that JSON can hold and `parse_number` reads back exactly."""
    return x if math.isfinite(x) else ("inf" if x > 0 else "-inf")


def parse_number(value: object) -> float:
    """The double that `number` wrote."""
    if isinstance(value, str):
        if value not in _INFINITIES:
            raise ArgumentTypeError(f'number={arguments.shown(value)}: must be a number, "inf" or "-inf"')
        return _INFINITIES[value]
    return arguments.finite("number", value)


def spreadsheet_cell(value: object) -> object:
    """A value that stays one cell of one line, and is not run as a formula, in whatever reads a CSV file.

    Text that begins like a formula, or like one with apostrophes in front, gets an apostrophe in front. Text with a
    control character, a line separator or a mark that turns the order of letters, or with a semicolon (which separates
    cells in the spreadsheets of many countries) before what looks like a formula, gets an apostrophe and a backslash in
    front, and escapes for these characters, semicolons and backslashes; so does text that begins with these two itself.

    Guarantee: what is returned is on one line for every reader, also for those that know no quotes; no part of it
    between semicolons begins like a formula, and no two texts look alike. `plain_text` is the inverse.
    Edge cases: a negative whole number is not a formula and stays as it is, and so does whatever is not text.

    >>> spreadsheet_cell("=1+1"), spreadsheet_cell("-3"), spreadsheet_cell(-0.5)
    ("'=1+1", '-3', -0.5)
    >>> print(spreadsheet_cell("north\\r=1+1"), spreadsheet_cell("a;=1+1"))
    '\\north\\u000d=1+1 '\\a\\u003b=1+1
    """
    if not isinstance(value, str):
        return value
    if _SPLIT.search(value) or value.startswith("'\\"):
        return _with_escapes(_ESCAPED, value)
    return f"'{value}" if _FORMULA.match(value) and not re.fullmatch("-[0-9]+", value) else value


def visible(text: str) -> str:
    """Text on one line, in which escapes stand for what would change how the rest of the line is shown.

    >>> print(visible("north\\u202e7"))
    north\\u202e7
    """
    return re.sub(f"[{_HIDDEN}]", lambda found: f"\\u{ord(found[0]):04x}", text)


def plain_text(cell: str) -> str:
    """The text that `spreadsheet_cell` made a cell of.

    >>> [plain_text(str(spreadsheet_cell(each))) for each in ("a\\n\\\\n", "=1", "'=1", "a")]
    ['a\\n\\\\n', '=1', "'=1", 'a']
    """
    if not cell.startswith("'\\"):
        return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
    return re.sub(r"\\(?:u([0-9a-f]{4})|\\)", lambda found: chr(int(found[1], 16)) if found[1] else "\\", cell[2:])


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV: texts as `spreadsheet_cell` writes them, nothing for None, and a line each.

    A text with a character that a reader takes for a separator, a quote or the begin of a comment when it guesses from
    the file is quoted. The empty text is an escape of nothing (`'\\`), so that it is not read as None.

    Edge cases: a reader that guesses may still take semicolons for separators in a table of two or three columns with
    semicolons in most of its rows; tell it that they are commas.

    >>> print(csv_text([["g", "n"], ["=1", 2.0], ["", 3.0], [None, 5.0]]), end="")
    g,n
    "'=1",2.0
    "'\\",3.0
    ,5.0
    """
    return "".join((",".join(map(_field, row)) or '""') + "\n" for row in rows)


def _field(value: object) -> str:
    if not isinstance(value, str):
        return "" if value is None else str(value)
    text = str(spreadsheet_cell(value)) if value else "'\\"
    return '"' + text.replace('"', '""') + '"' if _GUESSED.search(text) else text


def workbook_text(text: str) -> str:
    """A text that all readers of .xlsx files read as the same text, and as no other.

    Text that XML cannot hold, or with what stands for such characters in these files where writers and readers differ
    (`_x0041_x0042_`), gets an apostrophe, a backslash and escapes, as `spreadsheet_cell` says; so does text that begins
    with these two itself.

    >>> print(workbook_text("=1"), workbook_text("a\\rb"), workbook_text("x005F_"))
    =1 '\\a\\u000db '\\x005F\\u005f
    """
    return _with_escapes(_NO_CELL, text) if _NO_SAME.search(text) or text.startswith("'\\") else text


def _with_escapes(of: re.Pattern[str], text: str) -> str:
    return "'\\" + of.sub(lambda found: "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}", text)


def support_to_dict(support: Support) -> dict[str, object]:
    """A support as plain data."""
    if isinstance(support, Grid):
        within = [support.within.lower, support.within.upper]
        return {"grid": {"step": support.step, "within": within}}
    spans = [[number(lower), number(upper)] for lower, upper in support.spans]
    return {"interval": spans[0]} if isinstance(support, Interval) else {"union": spans}


def support_from_dict(data: object) -> Support:
    """The support that `support_to_dict` wrote."""
    match data:
        case {"interval": [lower, upper], **rest} if not rest:
            return Interval(parse_number(lower), parse_number(upper))
        case {"union": [*spans], **rest} if not rest and all(isinstance(each, list) for each in spans):
            return Union(*([*map(parse_number, span)] for span in spans))
        case {"grid": {"step": step, "within": [lower, upper], **more}, **rest} if not (more or rest):
            return Grid(step=parse_number(step), within=Interval(parse_number(lower), parse_number(upper)))
    raise ArgumentError(
        f"support={arguments.shown(data)}: must be an interval, a union or a grid, "
        "such as {'grid': {'step': 1, 'within': [0, 10]}}"
    )


def _number(text: str) -> int | float:
    try:
        if text.isdecimal() or text[1:].isdecimal():
            return int(text)
        if math.isfinite(value := float(text)):
            return value
    except ValueError:  # Python refuses thousands of digits
        pass
    raise ArgumentError(f'number {_brief(text)}: must be finite, and not too long; an infinity is written "inf"')


def _exact(text: str) -> float:
    value = _number(text)
    if repr(value) != text:
        what = "the double that it is, " if isinstance(value, float) else ""
        raise ArgumentError(f"number {_brief(text)}: must be written as {what}{value!r}")
    return value


def read_json(text: str, *, longest: int) -> object:
    """The plain data of a JSON text that can be read in one way only.

    Guarantee: refuses, with the reason, what two readers could take for two things: a name given twice, a number that
    is not written as the double (or whole number) that it is read as, NaN and infinities, and text after the end. So is
    a text of more than `longest` characters, of more than 500,000 commas, or of more than 16 levels.
    Edge cases: white space and the order of names are free.

    >>> read_json('{"epsilon": 1.0}', longest=100)
    {'epsilon': 1.0}
    >>> read_json('{"epsilon": 0.99999999999999999999}', longest=100)
    Traceback (most recent call last):
        ...
    rangebound.errors.ArgumentError: number 0.99999999999999999999: must be written as the double that it is, 1.0
    """
    if len(text) > longest or text.count(",") > _PARTS:
        raise ArgumentError(f"text of {len(text)} characters: must have at most {longest}, and {_PARTS} commas")
    return json_data(text, deepest=_DEEPEST, numbers=_exact)


def json_data(text: str, *, deepest: int, numbers: Callable[[str], float] = _number) -> object:
    """The same of a text of somebody else: all that `read_json` says, but that numbers may be written in any way.

    >>> json_data('{"epsilon": 1e-7}', deepest=2)
    {'epsilon': 1e-07}
    """
    try:
        data: object = json.loads(
            text, object_pairs_hook=_named_once, parse_float=numbers, parse_int=numbers, parse_constant=numbers
        )
        if not _deeper(data, deepest):
            return data
    except json.JSONDecodeError as error:
        raise ArgumentError(f"text={arguments.shown(text)}: must be JSON, whole and nothing else; {error}") from None
    except RecursionError:
        pass
    raise ArgumentError(f"text={arguments.shown(text)}: must have at most {deepest} levels")


def same_data(one: object, other: object) -> bool:
    """Whether plain data are the same, types and signs of zeros too; the order of names is free.

    >>> same_data({"a": 1.0, "b": 0.0}, {"b": 0.0, "a": 1.0}), same_data(1.0, 1), same_data(0.0, -0.0)
    (True, False, False)
    """
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _named_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ArgumentError(f"name {arguments.shown(name)}: must be given once")
        found[name] = value
    return found


def _brief(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _deeper(data: object, levels: int) -> bool:
    """Whether plain data have more levels than that."""
    level = [data] if isinstance(data, (dict, list)) else []
    for _ in range(levels):
        if not level:
            break
        parts = (part for each in level for part in (each.values() if isinstance(each, dict) else each))
        level = [part for part in parts if isinstance(part, (dict, list))]
    return bool(level)
