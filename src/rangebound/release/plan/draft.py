"""A first plan for a table: what its schema says, and gaps for what only the custodian knows."""

from __future__ import annotations

import re
from pathlib import PurePath

from rangebound.errors import plain
from rangebound.release.plan.cautions import sounds_like_text
from rangebound.release.plan.expressions.nodes import Named, call
from rangebound.release.plan.source import TEXT_FILES, Source
from rangebound.release.plan.table_description import TableDescription
from rangebound.release.plan.table_schema import TO_FILL_IN, Family, Schema, check_unit_column, type_name
from rangebound.release.plan.toml_text import bare_or_quoted, quoted, toml_text
from rangebound.values.arguments import counted

_ENDS = "[LOWER, UPPER]"
_STUBS = {
    Family.INTEGER: ("mean", _ENDS, "the least and the largest that a value can be; not the table's own"),
    Family.NUMBER: ("mean", _ENDS, "the least and the largest that a value can be; not the table's own"),
    Family.DECIMAL: ("mean", _ENDS, "the least and the largest that a value can be; not the table's own"),
    Family.DATE: ("median", _ENDS, "the first and the last day, such as [2025-01-01, 2025-12-31]"),
    Family.TIMESTAMP: ("median", _ENDS, "the first and the last day, such as [2025-01-01, 2025-12-31]"),
}
_HEAD = """\
# A first plan for {name}, made of {made}: no data were read.
# Fill in what is public knowledge, never what the table shows; then rangebound plan check, and release --dry-run.
# Columns: {columns}.{bare}

[source]
{source}

[unit]                # who is protected; without this part, every single row
column = {unit}     # names the owner of each row
rows = {most:<15}# {rows}
groups = 1            # {groups}
# {cut}

[budget]
epsilon = 1.0
account = {account}
ledger = {ledger}     # once, for all releases: rangebound ledger open {ledger} {account} --epsilon TOTAL

[[query]]
name = "rows"
kind = "count"
"""
_DESCRIBED = """
# From here on as the description says. Check that it is public knowledge and was not read off the table. Every query
# takes a share of epsilon: delete those that you do not need.
"""


_BOUNDS = {
    "rows": "the most rows of an owner that count in each group; every further one is cut from all counts and sums",
    "groups": "the most groups of an owner that count; all rows in the others are cut",
    "cut": "Where owners have more, numbers come out too low, and no interval shows it; larger bounds need more noise.",
}


def draft(
    schema: Schema, source: Source, *, unit: str | None = None, description: TableDescription | None = None
) -> str:
    """A plan to go on from, as TOML: a count, and a question about each column behind number signs.

    Without a `unit` its place says `?`, which no check accepts: who is protected is not for a program to guess. The
    contribution bounds are 1, the least that there is, and comments say what they cut.

    With a `description` of the table, what it says is in the plan: the unit and how many rows it has, a count for each
    column of listed keys, a question about each column with a range. What it does not say is asked for as without it.

    Guarantee: made of the schema and the description alone. Whatever the columns are called, it is TOML, with one
    question where there is no description.

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
    known = description or TableDescription(schema=schema)
    unit = unit if unit is not None else known.unit
    if unit is not None:
        check_unit_column(schema, unit, "unit")
    named = source.path or source.table or ""
    stem, suffix = PurePath(named).stem or "people", PurePath(named).suffix.lower()
    bare, given = source.untyped, source.model_dump(exclude_none=True)
    stated = [f"{key} = {quoted(each) if isinstance(each, str) else str(each).lower()}" for key, each in given.items()]
    coded = [_ENCODING] if suffix in TEXT_FILES and source.path and source.encoding is None else []
    unstated = [*coded, *(_FORMAT if bare else [])]  # the first line does not say it, and other rows may be otherwise
    text = _HEAD.format(
        name=quoted(PurePath(named).name),
        made="the names and types of its columns" if description is None else "the description of its columns",
        columns=", ".join(f"{quoted(name)} ({type_name(schema, name)})" for name in schema),
        source="\n".join([*stated, *unstated]),
        bare=f" A {suffix} file has no types: keep the queries about numbers, and group by texts." if bare else "",
        unit=quoted(unit or TO_FILL_IN),
        most=known.rows or 1,
        **_BOUNDS,
        account=quoted(stem),
        ledger=quoted(f"{stem}.ledger"),
    )
    text += _described(known, unit)
    texts = [
        name
        for name, family in schema.items()
        if family in (Family.TEXT, Family.UNTYPED) and name != unit and name not in known.keys
    ]
    texts.sort(key=lambda name: not sounds_like_text(name))
    if texts and not known.keys:
        text += _groups([each for each in texts if _is_kind(each)] or texts[:1])
    for name, family in schema.items():
        untyped = bare and description is None
        stub = _STUBS.get(_guess(name) if untyped else family)
        if stub is None or name == unit or name in known.ranges or name in known.keys:
            continue
        kind, ends, words = stub
        others = "sum, variance, standard deviation, median, quantiles, histogram" if kind == "mean" else "quantiles"
        whole = family is Family.INTEGER or (untyped and kind == "mean")
        others += "; median and quantiles of whole numbers with step = 1" * whole
        text += f"""
# [[query]]
# name = {quoted(name)}
# kind = "{kind}"{" " * (11 - len(kind))}# {"if it holds numbers; " if untyped and kind == "mean" else ""}or {others}
# column = {quoted(name)}
# range = {ends}     # {words}
"""
        if untyped and "# of = " not in text:  # one shows how to ask
            text += _unread(name, kind)
    return text


def _unread(name: str, kind: str) -> str:
    """A question about the values of a text file that are not what they are read as, behind number signs."""
    column, read = Named(name), "number" if kind == "mean" else "date"
    unread = call("and", call("missing", call(read, column)), call("not", call("missing", column)))
    return f"""
# [[query]]
# name = {quoted(f"{name} that is not a {read}")}
# kind = "share"      # of all rows; without it, nobody knows how many values were missing because they were unreadable
# of = {quoted(str(unread))}
# weight = 0.1        # beside 1 for each of the others
"""


_ENCODING = '# encoding = "windows-1252"   # if letters beyond ASCII are not in UTF-8: such values would be missing'
_FORMAT = (
    '# decimal = ","              # if numbers are not written 1234.5: their decimal sign and what separates thousands',
    '# thousands = "."',
    '# date_format = "%d.%m.%Y"   # if dates are not written 2025-01-31',
)


def _groups(columns: list[str]) -> str:
    found = "\n[keys]                # the public keys of grouping columns; those of others need a delta\n"
    found += "".join(f'# {bare_or_quoted(each)} = ["...", "..."]     # for by = [{quoted(each)}]\n' for each in columns)
    for each in columns:
        found += f"""
# [[query]]
# name = {quoted(f"rows by {each}")}
# kind = "count"
# by = [{quoted(each)}]     # with its keys above
"""
    return found


_FREE_TEXT = re.compile(
    "address|comments?|description|e?mail|firstname|forename|lastname|message|name|notes?|remarks?|street|surname|text|"
    "title|url"
)


def _is_kind(column: str) -> bool:
    """Whether the name of a column sounds like one of few texts, to group by.

    >>> [_is_kind(each) for each in ("country", "age_band", "last_name", "age")]
    [True, True, False, False]
    """
    words = re.findall("[a-z]+", column.lower())
    return sounds_like_text(column) and not any(map(_FREE_TEXT.fullmatch, words))


_NO_QUANTITY = re.compile("id|ids|uuid|code|zip|postcode|phone|card|ref|reference|isbn|iban")
_LAST = re.compile("no|nr|number")  # at the end of a name: that of the row itself
_WHO_OR_WHERE = re.compile(  # at the end of a name, or all of it: member, but not member_age
    "client|club|customer|employee|guest|household|member|owner|patient|person|pupil|school|shop|site|store|student|user"
)
_DAYS = re.compile("date|day|dob|birthday")
_LAST_OF_DAYS = re.compile("on|at")


def _guess(column: str) -> Family:
    """What a column of a file without types may hold, by its name: a number unless that says otherwise.

    >>> [_guess(each).value for each in ("age", "visit_date", "taken_on", "city", "postcode", "loan_no", "no_of_loans")]
    ['number', 'date', 'date', 'text', 'text', 'text', 'number']
    """
    words = [each.lower() for each in re.findall("[A-Z]*[a-z]+|[A-Z]+", column)]
    several, last = len(words) > 1, words[-1] if words else ""
    if sounds_like_text(column) or any(map(_NO_QUANTITY.fullmatch, words)) or _WHO_OR_WHERE.fullmatch(last):
        return Family.TEXT
    if several and _LAST.fullmatch(last):
        return Family.TEXT
    dated = any(map(_DAYS.fullmatch, words)) or (several and _LAST_OF_DAYS.fullmatch(last))
    return Family.DATE if dated else Family.NUMBER


def _described(known: TableDescription, unit: str | None) -> str:
    """The keys and questions that a description gives, as TOML; nothing where it gives none."""
    keys = {name: list(each) for name, each in known.keys.items() if name != unit and name not in known.ranges}
    ranges = {name: each for name, each in known.ranges.items() if name != unit}
    taken = {"rows"}

    def new(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    asked: list[dict[str, object]] = []
    for name, listed in keys.items():
        groups = min(known.groups.get(name, 1), len(listed)) if unit is not None else 1
        own = {"groups": groups} if groups > 1 else {}
        asked.append({"name": new(f"rows by {name}"), "kind": "count", "by": [name], **own})
    for name, ends in ranges.items():
        kind = _STUBS[known.schema[name]][0]
        asked.append({"name": new(name), "kind": kind, "column": name, "range": list(ends)})
    if not asked:
        return ""
    return f"{_DESCRIBED}\n{toml_text({**({'keys': keys} if keys else {}), 'query': asked})}"


def drafted_bounds(unit: str | None, rows: int = 1) -> str:
    """What the contribution bounds of a draft do, in one line for the custodian.

    >>> drafted_bounds("person")
    "rows = 1 and groups = 1 count one row of each 'person' and cut the others; raise them by what is publicly known"
    """
    whose = f"each {unit!r}" if unit else "each owner"
    count = "one row" if rows == 1 else counted(rows, "row")
    does = f" and groups = 1 count {count} of {whose} and cut the others"
    return plain(f"rows = {rows}" + does + "; raise them by what is publicly known")
