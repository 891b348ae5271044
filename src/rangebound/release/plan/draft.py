"""A first plan for a table: what its schema or an office's description says, and gaps for what only people know.

Descriptions are CSVW with the terms of CSVW-EO: types, bounds, keys, unit and contributions.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from rangebound.errors import ArgumentError, plain
from rangebound.release.plan.cautions import sounds_like_text
from rangebound.release.plan.expressions.nodes import Named, call
from rangebound.release.plan.fields import Ends
from rangebound.release.plan.source import TEXT_FILES, Source
from rangebound.release.plan.table_schema import TO_FILL_IN, Family, Schema, check_unit_column, type_name
from rangebound.release.plan.toml_text import bare_or_quoted, quoted, toml_text
from rangebound.values import arguments
from rangebound.values.arguments import counted

LONGEST = 50_000_000
"""Letters of a description that is read."""
Key = str | int | bool | datetime.date
_FAMILIES = {
    Family.TEXT: ("string", "anyURI", "normalizedString", "token", "language", "Name", "NMTOKEN"),
    Family.BOOLEAN: ("boolean",),
    Family.INTEGER: (
        *("integer", "long", "int", "short", "byte", "positiveInteger", "negativeInteger", "nonNegativeInteger"),
        *("nonPositiveInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
    ),
    Family.NUMBER: ("double", "float", "number"),
    Family.DECIMAL: ("decimal",),
    Family.DATE: ("date",),
    Family.TIMESTAMP: ("dateTime", "datetime", "dateTimeStamp"),
}
_TYPES = {name: family for family, names in _FAMILIES.items() for name in names}
_DATED = (Family.DATE, Family.TIMESTAMP)


@dataclass(frozen=True, kw_only=True)
class TableDescription:
    """What a description says of a table: nothing of it was read off the data by us, and it is taken as public.

    `rows` is how many rows a unit has at most, `groups` in how many groups of a column it is, `length` the number of
    rows of the table, where that is public.
    """

    schema: Schema
    unit: str | None = None
    rows: int | None = None
    length: int | None = None
    ranges: Mapping[str, Ends] = field(default_factory=dict)
    keys: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)


def read_description(text: str) -> TableDescription:
    """A description from its JSON.

    Names of terms may have a prefix, such as `csvw-eo:maxContributions`; of a group of tables there must be one. Bounds
    are `minimum` and `maximum` of a column or its datatype, or the outermost bounds of its partitions; keys are
    `keyValues`, or the values of its partitions. The unit is the column that `privacyUnit` names, or the only one that
    is a `privacyId`.

    Guarantee: what is not said is left out, and what is said in a form that it does not have raises `ArgumentError`.
    Edge cases: a key that is null, a fraction or a list is left out, and so are bounds of texts and truth values.

    >>> found = read_description('''{"privacyUnit": "who", "maxContributions": 3, "tableSchema": {"columns": [
    ...   {"name": "who", "datatype": "string"},
    ...   {"name": "age", "datatype": "integer", "minimum": 0, "maximum": 120},
    ...   {"name": "sex", "datatype": "string", "keyValues": ["f", "m"]}]}}''')
    >>> found.unit, found.rows, dict(found.ranges), dict(found.keys)
    ('who', 3, {'age': (0.0, 120.0)}, {'sex': ('f', 'm')})
    """
    if len(text) > LONGEST:
        raise ArgumentError(f"metadata of {arguments.counted(len(text), 'letter')}: must have at most {LONGEST}")
    try:
        table = _table(_bare(json.loads(text)))
    except (ValueError, RecursionError) as reason:
        raise ArgumentError(f"metadata: not valid JSON: {reason}") from None
    columns = list(_columns(table))
    names = [each["name"] for each in columns]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"metadata: column {name!r}: is described twice")
    schema = {each["name"]: _family(each) for each in columns}
    found = {each["name"]: each for each in columns}
    ranges = {name: _range(each, schema[name]) for name, each in found.items()}
    keys = {name: _keys(each, schema[name]) for name, each in found.items()}
    groups = {name: _count(each, "maxGroupsPerUnit", f"column {name!r}: ") for name, each in found.items()}
    return TableDescription(
        schema=schema,
        unit=_unit(table, columns),
        rows=_count(table, "maxContributions"),
        length=_count(table, "publicLength"),
        ranges={name: ends for name, ends in ranges.items() if ends is not None},
        keys={name: listed for name, listed in keys.items() if listed},
        groups={name: count for name, count in groups.items() if count is not None},
    )


def _bare(data: Any) -> Any:
    if isinstance(data, dict):
        return {name if name.startswith("@") else name.rpartition(":")[2]: _bare(each) for name, each in data.items()}
    return [_bare(each) for each in data] if isinstance(data, list) else data


def _table(data: Any) -> dict[str, Any]:
    tables = data.get("tables") if isinstance(data, dict) else None
    if isinstance(tables, list):
        if len(tables) != 1:
            raise ArgumentError(
                f"metadata: describes {arguments.counted(len(tables), 'table')}; a plan is for one, so keep that one"
            )
        data = tables[0]
    if not isinstance(data, dict):
        raise ArgumentError("metadata: must be the description of a table, an object with a tableSchema")
    return data


def _columns(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    schema = table.get("tableSchema")
    columns = schema.get("columns") if isinstance(schema, dict) else None
    if not isinstance(columns, list) or not columns:
        raise ArgumentError("metadata: must have columns, as tableSchema.columns")
    for at, each in enumerate(columns):
        name = each.get("name") if isinstance(each, dict) else None
        if name is None and isinstance(each, dict) and isinstance(each.get("titles"), str):
            name = each["titles"]
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"metadata: tableSchema.columns[{at}]: must be an object with a name")
        yield {**each, "name": name}


def _family(column: Mapping[str, Any]) -> Family:
    """The family of a column's type; of one without a type, or of another, what a plan cannot use."""
    kind = column.get("datatype", "string")
    base = kind.get("base", "string") if isinstance(kind, dict) else kind
    return _TYPES.get(base.rpartition(":")[2] if isinstance(base, str) else "", Family.OTHER)


def _unit(table: Mapping[str, Any], columns: list[dict[str, Any]]) -> str | None:
    named, names = table.get("privacyUnit"), [each["name"] for each in columns]
    if named is not None and named not in names:
        raise ArgumentError(f"metadata: privacyUnit={arguments.shown(named)}: must be one of its columns")
    marked = [each["name"] for each in columns if each.get("privacyId") is True]
    return named or (marked[0] if len(marked) == 1 else None)


def _count(data: Mapping[str, Any], name: str, place: str = "") -> int | None:
    value = data.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise ArgumentError(f"metadata: {place}{name}={arguments.shown(value)}: must be a whole number, at least 1")
    return value


def _range(column: Mapping[str, Any], family: Family) -> Ends | None:
    if family in (Family.TEXT, Family.BOOLEAN, Family.OTHER):
        return None
    kind = column.get("datatype")
    inner = kind if isinstance(kind, dict) else {}
    parts = [each for each in _predicates(column) if "lowerBound" in each]
    lowers = [column.get("minimum", inner.get("minimum", inner.get("minInclusive")))]
    uppers = [column.get("maximum", inner.get("maximum", inner.get("maxInclusive")))]
    if lowers == [None] and uppers == [None]:
        lowers, uppers = [each["lowerBound"] for each in parts], [each.get("upperBound") for each in parts]
    if not lowers or None in lowers or None in uppers:
        return None
    ends = [_end(column["name"], each, family) for each in (*lowers, *uppers)]
    lower, upper = min(ends[: len(lowers)]), max(ends[len(lowers) :])
    if lower > upper:
        raise ArgumentError(f"metadata: column {column['name']!r}: minimum {lower} is above maximum {upper}")
    return (lower, upper) if lower < upper else None


def _end(name: str, value: object, family: Family) -> Any:
    if family in _DATED and isinstance(value, str):
        try:
            return datetime.datetime.fromisoformat(value).date()
        except ValueError:
            pass
    elif family not in _DATED and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    kind = "a date" if family in _DATED else "a finite number"
    raise ArgumentError(f"metadata: column {name!r}: bound {arguments.shown(value)}: must be {kind}")


def _predicates(column: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts = column.get("partitions")
    found = [each.get("predicate", each) for each in parts if isinstance(each, dict)] if isinstance(parts, list) else []
    return [each for each in found if isinstance(each, dict)]


def _keys(column: Mapping[str, Any], family: Family) -> tuple[Key, ...]:
    listed = column.get("keyValues")
    values = listed if isinstance(listed, list) else [each.get("partitionValue") for each in _predicates(column)]
    bare = [each.get("partitionValue") if isinstance(each, dict) else each for each in values]
    return tuple(dict.fromkeys(each for value in bare if (each := _key(value, family)) is not None))


def _key(value: object, family: Family) -> Key | None:
    """A key as a plan lists it; nothing for what no plan can list."""
    if family in _DATED:
        try:
            return datetime.datetime.fromisoformat(value).date() if isinstance(value, str) else None
        except ValueError:
            return None
    if isinstance(value, float) and value.is_integer() and family is Family.INTEGER:
        return int(value)
    return value if isinstance(value, (str, int)) and value != "" else None


_ENDS = "[LOWER, UPPER]"
_STUBS = {
    Family.INTEGER: ("mean", _ENDS, "the least and the largest that a value can be; not the table's own"),
    Family.NUMBER: ("mean", _ENDS, "the least and the largest that a value can be; not the table's own"),
    Family.DECIMAL: ("mean", _ENDS, "the least and the largest that a value can be; not the table's own"),
    Family.DATE: ("median", _ENDS, "the first and the last day, such as [2025-01-01, 2025-12-31]"),
    Family.TIMESTAMP: ("median", _ENDS, "the first and the last day, such as [2025-01-01, 2025-12-31]"),
}
_DESCRIBED = """
# From here on as the description says. Check that it is public knowledge and was not read off the table. Every query
# takes a share of epsilon: delete those that you do not need.
"""


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
    head = (files(__package__) / "first_plan.toml").read_text(encoding="utf-8")
    text = head.format(
        name=quoted(PurePath(named).name),
        made="the names and types of its columns" if description is None else "the description of its columns",
        columns=", ".join(f"{quoted(name)} ({type_name(schema, name)})" for name in schema),
        source="\n".join([*stated, *unstated]),
        bare=f" A {suffix} file has no types: keep the queries about numbers, and group by texts." if bare else "",
        unit=quoted(unit or TO_FILL_IN),
        most=known.rows or 1,
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
