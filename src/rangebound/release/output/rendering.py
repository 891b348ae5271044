"""The rows of a table as people read them: in the order of the plan, as text, as HTML, with dates in place of days.

Questions come as the plan has them, keys as it lists them, columns as `by` has them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence

from rangebound.errors import plain
from rangebound.release.noise.draw import Cell
from rangebound.release.output.facts import Published, Row, scope_lines
from rangebound.release.plan.fields import date
from rangebound.release.plan.model import Plan
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


_NUMBER = re.compile(r"-?\d+(\.\d+)?")
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
        free = (column for column in left if not any(_before(column, each, found) for each in wanted))
        found.append(next(free, left[0]))
        left.remove(found[-1])
    return tuple(found)


def _before(column: str, grouping: Sequence[str], found: Sequence[str]) -> bool:
    """Whether a grouping has a column before this one that is not yet placed."""
    return column in grouping and any(each not in found for each in grouping[: grouping.index(column)])


def reading_order(plan: Plan, cells: Sequence[Cell]) -> list[int]:
    """The places of the cells in the order of the plan: by question, and selected keys as they are sorted by a reader.

    Public keys are as the plan lists them. Of selected keys, a column that the plan lists goes by its list, numbers go
    by size, and texts by their letters; keys that are ranked go by rank.

    Guarantee: made of published keys alone.
    """
    orders = {index: _key_order(plan, index, cells) for index in {each.question for each in cells}}
    return sorted(range(len(cells)), key=lambda at: (cells[at].question, orders[cells[at].question](cells[at])))


def _key_order(plan: Plan, index: int, cells: Sequence[Cell]) -> Callable[[Cell], tuple[object, ...]]:
    question = plan.query[index]
    if not plan.private(question.by):
        return lambda _: ()  # as the plan lists them, already
    keys = [each.key for each in cells if each.question == index]
    ranks = [
        _ranks(column, listed)
        for column, listed in zip(zip(*keys, strict=True), plan.columns(question.by), strict=True)
    ]
    if question.ranked:
        return lambda cell: (*(rank[key] for rank, key in zip(ranks[:-1], cell.key, strict=False)), cell.value)
    return lambda cell: tuple(rank[key] for rank, key in zip(ranks, cell.key, strict=True))


def _ranks(keys: Iterable[str | None], listed: Sequence[str]) -> dict[str | None, int]:
    """The place of each key of a column among all of them."""
    texts = {each: each or "" for each in keys}
    if listed:
        places = {each: at for at, each in enumerate(listed)}
        ordered = sorted(texts, key=lambda each: places.get(texts[each], len(places)))
    elif all(_NUMBER.fullmatch(each) for each in texts.values()):
        ordered = sorted(texts, key=lambda each: (float(texts[each]), texts[each]))
    else:
        ordered = sorted(texts, key=lambda each: texts[each])
    return {each: at for at, each in enumerate(ordered)}
