"""A first plan for a table: what its schema says, and gaps for what only the custodian knows."""

from __future__ import annotations

from pathlib import PurePath

from rangebound.errors import plain
from rangebound.release.plan.model import Source
from rangebound.release.plan.table_schema import Family, Schema, check_unit_column, type_name
from rangebound.release.plan.toml_text import bare_or_quoted, quoted

_ENDS = "[LOWER, UPPER]"
_STUBS = {
    Family.INTEGER: ("mean", _ENDS, "the least and the largest that a value can be; not the table's own"),
    Family.NUMBER: ("mean", _ENDS, "the least and the largest that a value can be; not the table's own"),
    Family.DECIMAL: ("mean", _ENDS, "the least and the largest that a value can be; not the table's own"),
    Family.DATE: ("median", _ENDS, "the first and the last day, such as [2025-01-01, 2025-12-31]"),
    Family.TIMESTAMP: ("median", _ENDS, "the first and the last day, such as [2025-01-01, 2025-12-31]"),
}
_HEAD = """\
# A first plan for {name}, made of the names and types of its columns: no data were read.
# Fill in what is public knowledge, never what the table shows; then rangebound plan check, and release --dry-run.
# Columns: {columns}.{bare}

[source]
{source}

[unit]                # who is protected; without this part, every single row
column = {unit}     # names the owner of each row
rows = 1              # {rows}
groups = 1            # {groups}
# {cut}

[budget]
epsilon = 1.0
account = {account}
ledger = {ledger}     # rangebound ledger open {ledger} {account} --epsilon 4

[[query]]
name = "rows"
kind = "count"
"""


_BOUNDS = {
    "rows": "the most rows of an owner that count in each group; every further one is cut from all counts and sums",
    "groups": "the most groups of an owner that count; all rows in the others are cut",
    "cut": "Where owners have more, numbers come out too low, and no interval shows it; larger bounds need more noise.",
}


def draft(schema: Schema, source: Source, *, unit: str | None = None) -> str:
    """A plan to go on from, as TOML: a count, and a question about each column behind number signs.

    Without a `unit` its place says `?`, which no check accepts: who is protected is not for a program to guess. The
    contribution bounds are 1, the least that there is, and comments say what they cut.

    Guarantee: made of the schema alone. Whatever the columns are called, it is TOML with one question.

    >>> from rangebound.release import parse_plan
    >>> text = draft({"who": Family.INTEGER, "wait": Family.NUMBER}, Source(path="visits.parquet"), unit="who")
    >>> parse_plan(text).query[0].kind
    'count'
    >>> print(text[text.index("# [[query]]") :])
    # [[query]]
    # name = "wait"
    # kind = "mean"       # or sum, variance, standard deviation, median, quantiles, histogram
    # column = "wait"
    # range = [LOWER, UPPER]     # the least and the largest that a value can be; not the table's own
    <BLANKLINE>
    """
    if unit is not None:
        check_unit_column(schema, unit, "unit")
    named = source.path or source.table or ""
    stem = PurePath(named).stem or "people"
    bare = named.lower().endswith((".csv", ".tsv")) and source.path is not None
    text = _HEAD.format(
        name=quoted(PurePath(named).name),
        columns=", ".join(f"{quoted(name)} ({type_name(schema, name)})" for name in schema),
        source="\n".join(f"{key} = {quoted(value)}" for key, value in source.model_dump(exclude_none=True).items()),
        bare=" A .csv file has texts alone: what is a number, the questions say." if bare else "",
        unit=quoted(unit or "?"),
        **_BOUNDS,
        account=quoted(stem),
        ledger=quoted(f"{stem}.ledger"),
    )
    texts = [name for name, family in schema.items() if family in (Family.TEXT, Family.UNTYPED) and name != unit]
    if texts:
        text += f"""
# [keys]              # the public keys of grouping columns; those of others are selected privately, for a delta
# {bare_or_quoted(texts[0])} = ["...", "..."]     # a query asks for each of them with by = [{quoted(texts[0])}]
"""
    for name, family in schema.items():
        stub = _STUBS.get(Family.NUMBER if bare else family)
        if stub is None or name == unit:
            continue
        kind, ends, words = stub
        others = "sum, variance, standard deviation, median, quantiles, histogram" if kind == "mean" else "quantiles"
        text += f"""
# [[query]]
# name = {quoted(name)}
# kind = "{kind}"{" " * (11 - len(kind))}# or {others}
# column = {quoted(name)}
# range = {ends}     # {words}
"""
    return text


def drafted_bounds(unit: str | None) -> str:
    """What the contribution bounds of a draft do, in one line for the custodian.

    >>> drafted_bounds("person")
    "rows = 1 and groups = 1 count one row of each 'person' and cut the others; raise them by what is publicly known"
    """
    whose = f"each {unit!r}" if unit else "each owner"
    return plain(
        f"rows = 1 and groups = 1 count one row of {whose} and cut the others; raise them by what is publicly known"
    )
