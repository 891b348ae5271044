"""An office's description of a table, CSVW with the terms of CSVW-EO: types, bounds, keys, unit and contributions."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rangebound.errors import ArgumentError
from rangebound.release.plan.fields import Ends
from rangebound.release.plan.table_schema import Family, Schema
from rangebound.values import arguments

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
