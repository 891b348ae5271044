"""Published numbers as people read them: as text, as HTML, and in words, with as many digits as the noise leaves.

Questions come as the plan has them, keys as it lists them, columns as `by` has them, and dates in place of days.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from rangebound.errors import plain
from rangebound.release.output.plan_facts import Row, TableFacts
from rangebound.release.plan.fields import date
from rangebound.values import arguments
from rangebound.values.serial import visible
from rangebound.values.support import Interval, Union

NUMBERS = ("value", "lower", "upper", "unbiased", "bias", "rank_error", "epsilon", "delta", "mu")
"""The columns that hold numbers, or dates in their place."""
FLAGS = ("unreliable",)
"""The columns that hold truth values."""
SAID = {
    "query": "the question of the plan",
    "kind": "the kind of the question",
    "part": "which part of the answer, such as a bin or a level",
    "value": "the published number, with noise",
    "lower": "the lower end of its interval, for the noise alone",
    "upper": "the upper end of its interval, for the noise alone",
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
_MAY_BE_EMPTY = ("epsilon", "delta", "mu", "unbiased", "bias", "unreliable", "rank_error")
_MOST = 12  # numbers of a question that are told one by one


def _readable(rows: list[Row], *left_out: str) -> list[Row]:
    """Rows as people read them, without some columns: days as dates in place of numbers, and no column that is empty.

    A column of costs, of errors or of flags is empty where no row has any.
    """
    empty = {name for name in _MAY_BE_EMPTY if all(row.get(name) is None or row[name] is False for row in rows)}
    hidden = {*left_out, *empty, "date"}
    found = []
    for row in rows:
        days = ("value", "lower", "upper") if row["date"] else ()
        shown_in = {name: value for name, value in row.items() if name not in hidden}
        found.append({name: date(value).isoformat() if name in days else value for name, value in shown_in.items()})
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
    head = "".join(f"<th{place[name]}>{html.escape(name)}</th>" for name in place)
    body = "".join(
        f"<tr{' class=unreliable' if row.get('unreliable') else ''}>"
        + "".join(f"<td{place[name]}>{html.escape(visible(_cell(row, name)))}</td>" for name in row)
        + "</tr>"
        for row in rows
    )
    said = "".join(f"<p class=scope>{html.escape(line)}</p>" for line in found.scopes)
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
            rest = f", {unreliable:,} of them unreliable" if unreliable else ""
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
