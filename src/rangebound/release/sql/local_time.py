"""Instants as local time: the timestamps with a zone of a table, in the time zone of the plan.

The UTC offset of a zone is a public function of the instant, and constant between the changes that the time zone
database of this machine lists. Statements contain it, so every engine and session has the same local times.

A row's local time depends on this row and public facts alone, and no row is left out, so the contribution of a unit
stays what it is.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from sqlglot import exp

from rangebound.release.engine.dialect import Dialect, Tree, choice, integer, term, text
from rangebound.release.plan.condition import hidden_text
from rangebound.release.plan.table_schema import Family, Schema, TypedSchema, extended
from rangebound.release.sql.expression import column
from rangebound.release.sql.relation import Relation, with_trees

_FIRST_YEAR, _LAST_YEAR = 1800, 2100  # no zone changes before; a yearly rule never ends
_STEP = datetime.timedelta(days=2)  # the shortest time between two changes of a zone is twice as long
_SECOND = datetime.timedelta(seconds=1)
_CALENDAR = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)

Changes = tuple[tuple[datetime.datetime, int], ...]
"""Instants in UTC, each with the offset in seconds that a zone has from then on."""


@dataclass(frozen=True, kw_only=True)
class LocalTable:
    """A table whose instants are local times: `rows` makes a new tree of its rows at each call."""

    rows: Callable[[], Relation]
    schema: Schema


def in_zone(source: Relation, schema: Schema, zone: str | None, dialect: Dialect) -> LocalTable:
    """A table whose instants are timestamps of the local time in a zone; without a zone they cannot be used.

    Guarantee: no row makes it fail, and no setting of the session matters. An instant outside the years 1 to 9999 is
    missing. Without instants, or without a zone, the tree is the table itself.
    Edge cases: columns with names like those of expressions in conditions cannot be used, and are left out.
    """
    instants = schema.instants if isinstance(schema, TypedSchema) else ()
    if zone is None or not instants:
        return LocalTable(rows=lambda: source, schema=schema)
    usable = {name: family for name, family in schema.items() if hidden_text(name) is None}
    made = {name: local_time(name, zone, dialect) for name in instants if name in usable}
    known = extended(schema, dict.fromkeys(made, Family.TIMESTAMP))
    return LocalTable(rows=lambda: with_trees(source.copy(), usable, made, dialect), schema=known)


def local_time(name: str, zone: str, dialect: Dialect) -> Tree:
    """A column of timestamps in UTC as local time."""
    utc = column(name)
    first, last = (_moment(each, dialect) for each in _CALENDAR)
    seconds = _offset(utc, offsets(zone), dialect)
    moved = "CASE WHEN :utc BETWEEN :first AND :last THEN :utc + :seconds * INTERVAL '1' SECOND END"
    return term(moved, utc=utc, first=first, last=last, seconds=seconds)


def _moment(value: datetime.datetime, dialect: Dialect) -> Tree:
    return exp.cast(text(value.isoformat(" ")), dialect.timestamp, dialect=dialect.name)


def _offset(utc: Tree, changes: Sequence[tuple[datetime.datetime, int]], dialect: Dialect) -> Tree:
    """The offset at an instant, by binary search among the changes."""
    if len(changes) == 1:
        return integer(changes[0][1])
    middle = len(changes) // 2
    earlier = exp.LT(this=utc.copy(), expression=_moment(changes[middle][0], dialect))
    return choice((earlier, _offset(utc, changes[:middle], dialect)), otherwise=_offset(utc, changes[middle:], dialect))


@cache
def offsets(zone: str) -> Changes:
    """UTC offsets of a zone, each with its first second; the first offset also holds before it.

    Edge cases: the last yearly rule is followed to the end of 2100; afterwards the offset stays as it is then.

    >>> since, seconds = offsets("Asia/Kolkata")[-1]
    >>> print(since, seconds)
    1945-10-14 17:30:00 19800
    """
    table = ZoneInfo(zone)

    def at(moment: datetime.datetime) -> int:
        found = moment.replace(tzinfo=datetime.UTC).astimezone(table).utcoffset()
        assert found is not None
        return round(found.total_seconds())

    start, end = datetime.datetime(_FIRST_YEAR, 1, 1), datetime.datetime(_LAST_YEAR + 1, 1, 1)
    moments = [start + number * _STEP for number in range((end - start) // _STEP + 1)]
    seconds = [at(each) for each in moments]
    found = [(start, seconds[0])]
    for (before, after), (old, new) in zip(pairwise(moments), pairwise(seconds), strict=True):
        if old == new:
            continue
        while after - before > _SECOND:
            middle = before + (after - before) // _SECOND // 2 * _SECOND
            before, after = (middle, after) if at(middle) == old else (before, middle)
        found.append((after, new))
    return tuple(found)
