"""Plain data: numbers and supports, JSON that can be read in one way only, and cells that no spreadsheet runs."""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn

from rangebound import arguments
from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.support import Grid, Interval, Support, Union

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}
# What ends a line, or a text, in some reader, or turns the order in which the rest of its line is shown.
_HIDDEN = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_RUNS = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"  # what a cell begins with that some spreadsheet runs
_FORMULA = re.compile(rf"'*[\s\ufeff]*{_RUNS}")
_SPLIT = re.compile(rf'[{_HIDDEN}]|;["\s\ufeff]*(?![-+]?[0-9][0-9.,]*["\s]*(?:;|$)){_RUNS}')
_ESCAPED = re.compile(rf"[{_HIDDEN};\\]")
_DEEPEST = 16  # lists and mappings around a value; a certificate has six


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
    between semicolons begins like a formula, and no two texts look alike. `plain_text` gives the text of the
    second kind back.
    Edge cases: a negative whole number is not a formula and stays as it is, and so does whatever is not text.

    >>> spreadsheet_cell("=1+1"), spreadsheet_cell("-3"), spreadsheet_cell(-0.5)
    ("'=1+1", '-3', -0.5)
    >>> print(spreadsheet_cell("north\\r=1+1"), spreadsheet_cell("a;=1+1"))
    '\\north\\u000d=1+1 '\\a\\u003b=1+1
    """
    if not isinstance(value, str):
        return value
    if _SPLIT.search(value) or value.startswith("'\\"):
        return "'\\" + _ESCAPED.sub(lambda found: "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}", value)
    return f"'{value}" if _FORMULA.match(value) and not re.fullmatch("-[0-9]+", value) else value


def visible(text: str) -> str:
    """Text on one line, in which escapes stand for what would change how the rest of the line is shown.

    >>> print(visible("north\\u202e7"))
    north\\u202e7
    """
    return re.sub(f"[{_HIDDEN}]", lambda found: f"\\u{ord(found[0]):04x}", text)


def plain_text(cell: str) -> str:
    """The text that `spreadsheet_cell` wrote with escapes; any other cell as it is.

    >>> plain_text(str(spreadsheet_cell("a\\n\\\\n"))) == "a\\n\\\\n", plain_text("a")
    (True, 'a')
    """
    if not cell.startswith("'\\"):
        return cell
    return re.sub(r"\\(?:u([0-9a-f]{4})|\\)", lambda found: chr(int(found[1], 16)) if found[1] else "\\", cell[2:])


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


def read_json(text: str, *, longest: int) -> object:
    """The plain data of a JSON text that can be read in one way only.

    Guarantee: refuses, with the reason, what two readers could take for two things: a name given twice, a number that
    is not written as the double (or whole number) that it is read as, NaN and infinities, and text after the end. So is
    a text of more than `longest` characters, or of more than 16 levels.
    Edge cases: white space and the order of names are free.

    >>> read_json('{"epsilon": 1.0}', longest=100)
    {'epsilon': 1.0}
    >>> read_json('{"epsilon": 0.99999999999999999999}', longest=100)
    Traceback (most recent call last):
        ...
    rangebound.errors.ArgumentError: number 0.99999999999999999999: must be written as the double that it is, 1.0
    """
    if len(text) > longest:
        raise ArgumentError(f"text of {len(text)} characters: must have at most {longest}")
    try:
        data: object = json.loads(
            text, object_pairs_hook=_named_once, parse_float=_double, parse_int=_whole, parse_constant=_constant
        )
    except (json.JSONDecodeError, RecursionError):
        raise ArgumentError(f"text={arguments.shown(text)}: must be JSON, whole and nothing else") from None
    if _deeper(data, _DEEPEST):
        raise ArgumentError(f"text={arguments.shown(text)}: must have at most {_DEEPEST} levels")
    return data


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


def _double(text: str) -> float:
    value = float(text)
    if repr(value) != text:
        raise ArgumentError(f"number {_brief(text)}: must be written as the double that it is, {value!r}")
    return value


def _whole(text: str) -> int:
    try:
        value = int(text)
    except ValueError:  # Python refuses thousands of digits
        raise ArgumentError(f"number {_brief(text)}: has too many digits") from None
    if str(value) != text:
        raise ArgumentError(f"number {_brief(text)}: must be written as {value}")
    return value


def _constant(text: str) -> NoReturn:
    raise ArgumentError(f'number {text}: must be finite; an infinity is written "inf" or "-inf"')


def _brief(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def _deeper(data: object, levels: int) -> bool:
    """Whether plain data have more levels than that."""
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, list) else None
    return parts is not None and (levels == 0 or any(_deeper(each, levels - 1) for each in parts))
