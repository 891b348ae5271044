"""The rows of a table as people read them: as text, as HTML, with dates in place of days."""

from __future__ import annotations

import html

from rangebound.errors import plain
from rangebound.release.output.facts import Published, Row, scope_lines
from rangebound.release.plan.fields import date
from rangebound.values import arguments
from rangebound.values.serial import visible

NUMBERS = ("value", "lower", "upper", "unbiased", "bias", "rank_error", "epsilon", "delta", "mu")
"""The columns that hold numbers, or dates in their place."""
FLAGS = ("unreliable",)
"""The columns that hold truth values."""
FIRST = ("query", "kind")
"""The columns of every table before its grouping columns."""
LAST = (
    "part",
    "value",
    "lower",
    "upper",
    "unbiased",
    "bias",
    "unreliable",
    "date",
    "rank_error",
    "scope",
    "mechanism",
    "epsilon",
    "delta",
    "mu",
)
"""Those behind them."""
FACTS = frozenset((*FIRST, *LAST))
"""The columns of every table; those between them are grouping columns."""


_NO_BIAS = 1e-9  # what is printed of a smaller bound on a bias
_WIDEST = 200  # letters of a cell that are printed, since all others of its column are as wide


def readable(row: Row) -> Row:
    """A row as people read it: days as dates in place of numbers, and no column that only repeats them."""
    days = ("value", "lower", "upper") if row["date"] else ()
    found = {name: date(value).isoformat() if name in days else value for name, value in row.items()}
    return {name: value for name, value in found.items() if name != "date"}


def brief(row: Row) -> Row:
    """A row as people read it, without what only repeats the plan."""
    repeated = ("mechanism", "delta", "rank_error", "scope", "bias")
    return {name: value for name, value in readable(row).items() if name not in repeated}


def briefly(rows: list[Row]) -> list[Row]:
    """The rows as people read them, without what only repeats the plan and without columns that are empty."""
    return _without_empty([brief(row) for row in rows])


def _without_empty(rows: list[Row]) -> list[Row]:
    """The rows without a column of costs, of errors or of flags that none of them has."""
    names = ("epsilon", "delta", "mu", "unbiased", "bias", "unreliable", "rank_error")
    empty = {name for name in names if all(row.get(name) is None or row[name] is False for row in rows)}
    return [{name: value for name, value in row.items() if name not in empty} for row in rows]


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


def text(release: Published) -> str:
    """The table as text, without what only repeats the plan, and below it what the numbers are of.

    Edge cases: a text of more than 200 letters is cut; all other forms have it whole.
    """
    rows = briefly(release.rows())
    if not rows:
        return "No group was selected."
    cells = [list(rows[0]), *([shown(name, value) for name, value in row.items()] for row in rows)]
    return "\n".join([*lined_up(cells), *scope_lines(release.plan)])


def lined_up(cells: list[list[str]]) -> list[str]:
    """Lines of text with a row each, whose columns are below each other; a cell of more than 200 letters is cut."""
    cells = [[cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 3]}..." for cell in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return [plain(line.rstrip()) for line in lines]


def table(release: Published) -> str:
    """The table as HTML."""
    rows = [{name: value for name, value in readable(row).items() if name != "scope"} for row in release.rows()]
    rows = _without_empty(rows)
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
    said = "".join(f"<p class=scope>{html.escape(line)}</p>" for line in scope_lines(release.plan))
    return f"<table><tr>{head}</tr>{body}</table>{said}"


def _cell(row: Row, name: str) -> str:
    """A value of a row in a table for people: a bound on a bias that is wider than the interval says nothing."""
    value, ends = row[name], (row["lower"], row["upper"])
    wide = name == "bias" and value is not None and all(isinstance(each, float) for each in ends)
    return "no useful bound" if wide and value > ends[1] - ends[0] else shown(name, value)
