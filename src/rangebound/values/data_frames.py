"""Rows of a published table as one of pandas, Polars or Arrow, in types that do not depend on what the rows hold.

And what a notebook shows of an object: a small table in which every text is only text.
"""

from __future__ import annotations

import datetime
import html
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rangebound.values.extras import need
from rangebound.values.serial import visible

POPULATION = ("population_lower", "population_upper")
"""The columns that a table has only where its plan asks for intervals for the population."""
NUMBERS = ("value", "lower", "upper", *POPULATION, "unbiased", "bias", "rank_error", "epsilon", "delta", "mu")
"""The columns that hold numbers, or dates in their place."""
FLAGS = ("unreliable",)
"""The columns that hold truth values."""
_TYPES: Mapping[str, type] = {**dict.fromkeys(NUMBERS, float), **dict.fromkeys(FLAGS, bool), "date": datetime.date}


def optional(name: str) -> Any:
    """A module of a package that may not be installed."""
    need(name.partition(".")[0])
    return importlib.import_module(name)


def to_arrow(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Any:
    """The rows for Arrow."""
    arrow, values = optional("pyarrow"), _values(columns, rows)
    known = {float: arrow.float64(), bool: arrow.bool_(), datetime.date: arrow.date32(), str: arrow.string()}
    return arrow.table({name: arrow.array(each, known[_type(name)]) for name, each in values.items()})


def to_pandas(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Any:
    """The rows for pandas."""
    frame = optional("pandas").DataFrame(_values(columns, rows))
    known = {float: "float64", bool: "boolean", datetime.date: "datetime64[s]", str: "object"}
    return frame.astype({name: known[_type(name)] for name in columns})


def to_polars(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Any:
    """The rows for Polars."""
    polars = optional("polars")
    known = {float: polars.Float64, bool: polars.Boolean, datetime.date: polars.Date, str: polars.String}
    return polars.DataFrame(_values(columns, rows), schema={name: known[_type(name)] for name in columns})


def _type(column: str) -> type:
    """What a column holds; texts are the keys of groups, and words."""
    return _TYPES.get(column, str)


def _values(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> dict[str, list[object]]:
    """The values by column."""
    table = list(rows)
    return {name: [_read(_type(name), row[name]) for row in table] for name in columns}


def _read(kind: type, value: object) -> object:
    """A value in the type of its column, also where it is written as a text."""
    return _WRITTEN[kind](value) if isinstance(value, str) else value


_WRITTEN: Mapping[type, Callable[[str], object]]
_WRITTEN = {float: float, bool: "True".__eq__, datetime.date: datetime.date.fromisoformat, str: str}


_LONGEST = 2000


def as_html(caption: str, facts: Mapping[str, object]) -> str:
    """Facts by their names, as HTML.

    >>> as_html("Plan <of visits>", {"unit": "person"})
    '<table><caption>Plan &lt;of visits&gt;</caption><tr><th>unit</th><td>person</td></tr></table>'
    """
    rows = (f"<tr><th>{escaped(name)}</th><td>{escaped(str(each))}</td></tr>" for name, each in facts.items())
    return f"<table><caption>{escaped(caption)}</caption>{''.join(rows)}</table>"


def rows_as_html(head: Sequence[str], rows: Iterable[Iterable[str]], caption: str = "") -> str:
    """Rows of texts below a head, as HTML."""
    above = f"<caption>{escaped(caption)}</caption>" if caption else ""
    names = "".join(f"<th>{escaped(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escaped(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table>{above}<tr>{names}</tr>{body}</table>"


def escaped(text: str) -> str:
    """A text without markup, on one line; one of more than 2,000 letters is cut."""
    return html.escape(visible(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."))
