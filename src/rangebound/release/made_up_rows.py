"""Made-up tables for a plan: values in its ranges, its keys, several rows per unit, some missing; no data are read."""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rangebound.errors import ArgumentError
from rangebound.release.column_hints import ColumnHints, Listed, column_hints, span
from rangebound.release.plan.expressions.nodes import CALENDAR, ValueType
from rangebound.release.plan.fields import WHOLE, canonical, date
from rangebound.release.plan.model import Plan
from rangebound.release.plan.source import Join, Source
from rangebound.values import arguments
from rangebound.values.extras import need

Made = Listed | datetime.datetime | None
"""A made-up value; None where it is missing."""
Row = dict[str, Made]
MOST_ROWS = 10_000_000
"""Rows that are made up at most."""

_MISSING, _BEYOND, _UNLISTED = 0.03, 0.02, 0.03  # parts of the values that are missing, out of range, or no listed key
_UNMATCHED = 0.1  # part of the keys that a joined table does not have
_ROWS_A_UNIT = 3
_KEYS = 8  # keys of a column of which the plan lists none
_YEAR = 20089.0, 20453.0  # the days of 2025


@dataclass(frozen=True, kw_only=True)
class MadeUpTable:
    """A made-up table: its columns with the types of their values, and its rows."""

    types: Mapping[str, type]
    rows: Sequence[Row]
    zone: str | None = None

    def to_csv(self) -> str:
        """The table as CSV; a missing value is an empty field."""
        rows = ([_field(row[name]) for name in self.types] for row in self.rows)
        return _line(list(self.types)) + "".join(map(_line, rows))

    def to_arrow(self) -> Any:
        """The table for Arrow, each column with its type; needs pyarrow."""
        need("pyarrow")
        import pyarrow

        moment = pyarrow.timestamp("us", tz="UTC" if self.zone else None)
        types = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
        types |= {datetime.date: pyarrow.date32(), datetime.datetime: moment}
        columns = {name: ([row[name] for row in self.rows], types[kind]) for name, kind in self.types.items()}
        return pyarrow.table({name: pyarrow.array(*each) for name, each in columns.items()})

    def write(self, path: Path) -> None:
        """Write the table to a new file, which ends in .csv or .parquet."""
        if path.suffix.lower() == ".csv":
            with path.open("x", encoding="utf-8", newline="") as file:
                file.write(self.to_csv())
            return
        need("pyarrow", what=f"path={str(path)!r}")
        from pyarrow import parquet

        with path.open("xb") as file:
            parquet.write_table(self.to_arrow(), file)


@dataclass(frozen=True, kw_only=True)
class MadeUp:
    """The made-up tables of a plan: its own, and one for each join, in their order."""

    plan: Plan
    table: MadeUpTable
    joined: tuple[MadeUpTable, ...]

    def write(self, path: Path) -> tuple[Path, ...]:
        """Write all tables, and beside them a plan that reads these; the files, the plan last.

        Joined tables are named after the file and the join. The plan names no ledger: made-up rows are to be charged to
        an account of the real ones by nobody's mistake.
        Guarantee: no file is overwritten; where one is there already, none is written.
        """
        if path.suffix.lower() not in (".csv", ".parquet"):
            raise ArgumentError(f"output={str(path)!r}: must end in .csv or .parquet")
        joins = self.plan.join or ()
        others = [path.with_name(f"{path.stem}-{at + 1}{path.suffix}") for at in range(len(joins))]
        files = (path, *others, path.with_suffix(".toml"))
        for each in files:
            if each.exists() or not each.parent.is_dir():
                rule = "exists already; name a new file" if each.exists() else "must be in an existing folder"
                raise ArgumentError(f"output={str(each)!r}: {rule}")
        for file, table in zip(files, (self.table, *self.joined), strict=False):
            table.write(file)
        changed = tuple(
            each.model_copy(update={**dict.fromkeys(each.text_fields), **_read_by(other, table), "table": None})
            for each, other, table in zip(joins, others, self.joined, strict=True)
        )
        update: dict[str, object] = {"source": Source(**_read_by(path, self.table)), "join": changed or None}
        update |= {"budget": self.plan.budget.model_copy(update={"ledger": None})}
        with files[-1].open("x", encoding="utf-8", newline="") as text:
            text.write(self.plan.model_copy(update=update).to_toml())
        return files


def _read_by(path: Path, table: MadeUpTable) -> dict[str, Any]:
    """How a plan reads the file of a table, of which a key may have line breaks."""
    texts = (each for row in table.rows for each in row.values() if isinstance(each, str))
    broken = path.suffix.lower() == ".csv" and any("\n" in each for each in texts)
    return {"path": path.name} | ({"multiline": True} if broken else {})


def made_up(plan: Plan, rows: int = 1000) -> MadeUp:
    """Made-up tables for a plan, always the same for the same plan: they say nothing of any data, since none are read.

    Numbers and days lie in the ranges that the plan states, a few beyond; keys are those that it lists, a few others;
    a unit has several rows; some values are missing. A column of which the plan says nothing but that it groups by it
    has eight keys. A joined table has most of the keys that the plan's own table has.

    Guarantee: made of the plan alone; the plan can be run on it.
    Edge cases: columns that the plan does not read are not made up.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget.epsilon = 1\\nquery = [{name = "a", kind = "mean", column = "age", range = [0, 99]}]')
    >>> print(made_up(plan, rows=2).table.to_csv())
    age
    103
    49
    <BLANKLINE>
    """
    if type(rows) is not int or not 1 <= rows <= MOST_ROWS:
        raise ArgumentError(f"rows={arguments.shown(rows)}: must be a whole number from 1 to {MOST_ROWS}")
    hints = column_hints(plan)
    brought = {name for join in plan.join or () for name in join.columns}
    makers = {name: _maker(name, each) for name, each in hints.items()}
    own = {name: makers[name] for name in hints if name not in brought}
    if not own:
        own = {"row": Maker(kind=int, make=lambda at: at)}
    unit = plan.unit.column
    if unit is not None and unit in own:
        own = {unit: _owners(rows, own[unit].kind), **{name: each for name, each in own.items() if name != unit}}
    made = [{name: each.make(at) for name, each in own.items()} for at in range(rows)]
    for index, each in enumerate(plan.combinations or ()):  # most rows have keys that occur together
        for at, row in enumerate(made):
            keys = each.keys[int(len(each.keys) * _uniform("combination", index, at))]
            if all(column in row for column in each.columns) and _uniform("apart", index, at) >= _UNLISTED:
                for column, key in zip(each.columns, keys, strict=True):
                    if row[column] is not None:
                        row[column] = canonical(key) if isinstance(row[column], str) else key
    table = MadeUpTable(types={name: each.kind for name, each in own.items()}, rows=made, zone=plan.zone)
    types, seen, joined = dict(table.types), made, []
    for index, join in enumerate(plan.join or ()):
        other = _joined(index, join, seen, types, makers, plan.zone)
        joined.append(other)
        seen = _with_columns(seen, join, other)
        types |= {name: other.types[theirs] for name, theirs in join.columns.items()}
    return MadeUp(plan=plan, table=table, joined=tuple(joined))


@dataclass(frozen=True, kw_only=True)
class Maker:
    """How the values of a column are made: their type, and the value of each row by its number."""

    kind: type
    make: Callable[[int], Made]


def _uniform(*parts: object) -> float:
    """A fixed number in [0, 1) for a name; the rows are made up, so nothing secret hangs on it."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:6], "big") / 2.0**48


def _maker(name: str, hints: ColumnHints) -> Maker:
    found = _values(name, hints)
    return replace(found, make=lambda at: None if _uniform("missing", name, at) < _MISSING else found.make(at))


def _values(name: str, hints: ColumnHints) -> Maker:
    numbers = ValueType.NUMBER in hints.types
    if hints.timed:
        return _moments(name, hints)
    if hints.keys:
        return _listed(name, hints.keys, numbers=numbers)
    if hints.dated:
        first, last = span(hints, _YEAR)
        return Maker(kind=datetime.date, make=lambda at: _day(_around(first, last, name, at)))
    if ValueType.TRUTH in hints.types:
        return Maker(kind=bool, make=lambda at: _uniform(name, at) < 0.5)
    texts = [each for each in hints.compared if isinstance(each, str)]
    if texts:
        return _listed(name, texts, numbers=numbers)
    if numbers:
        return _numbers(name, hints)
    return Maker(kind=str, make=lambda at: f"{name} {1 + int(_KEYS * _uniform(name, at) ** 2)}")


def _listed(name: str, keys: Sequence[Listed], *, numbers: bool) -> Maker:
    """Keys that the plan lists, and a few that it does not."""
    kinds = {type(each) for each in keys}
    kind = kinds.pop() if len(kinds) == 1 else str
    if numbers and kind is str:  # listed in quotation marks, and computed with
        spelt = [int(each) for each in map(str, keys) if each.lstrip("-").isdecimal()]
        return _listed(name, spelt or [0, 1], numbers=False)
    found = list(dict.fromkeys(_text(each) if kind is str else each for each in keys))
    whole = [each for each in found if isinstance(each, int)]
    most = max(whole, default=0)
    others: dict[type, Listed] = {str: "not listed", int: most + 1 if most < WHOLE else min(whole) - 1}

    def make(at: int) -> Made:
        if kind in others and _uniform("other", name, at) < _UNLISTED:
            return others[kind]
        return found[int(len(found) * _uniform(name, at))]

    return Maker(kind=kind, make=make)


def _text(value: Listed) -> str:
    return repr(value) if isinstance(value, float) else canonical(value)


def _around(low: float, high: float, name: str, at: int) -> float:
    """A place between two ends, now and then a little beyond."""
    width, place = high - low, _uniform(name, at)
    if _uniform("beyond", name, at) < _BEYOND and math.isfinite(width):
        return high + 0.1 * width * place if place < 0.5 else low - 0.1 * width * (1.0 - place)
    return low + (high - low) * place if math.isfinite(width) else place


def _day(place: float) -> datetime.date:
    return date(min(max(place, CALENDAR[0]), CALENDAR[1]))


def _moments(name: str, hints: ColumnHints) -> Maker:
    first, last = span(replace(hints, compared=[]), _YEAR)

    def make(at: int) -> Made:
        minute = int(1440 * _uniform("minute", name, at))
        day = _day(_around(first, last, name, at))
        return datetime.datetime(day.year, day.month, day.day, minute // 60, minute % 60)

    return Maker(kind=datetime.datetime, make=make)


def _numbers(name: str, hints: ColumnHints) -> Maker:
    """Numbers in a range: whole ones where keys are made of them, and in a wide range whose ends are whole."""
    low, high = span(hints, (0.0, 100.0))
    small = max(abs(low), abs(high)) < WHOLE / 4
    if small and (hints.whole or (low.is_integer() and high.is_integer() and high - low >= 20.0)):
        return Maker(kind=int, make=lambda at: math.floor(_around(low, high, name, at)))
    digits = max(0, 3 - math.floor(math.log10(high - low))) if 0.0 < high - low < math.inf else 0
    return Maker(kind=float, make=lambda at: round(_around(low, high, name, at), min(digits, 300)))


def _owners(rows: int, kind: type) -> Maker:
    units = max(1, rows // _ROWS_A_UNIT)

    def make(at: int) -> Made:
        if _uniform("nobody", at) < _MISSING / 3:
            return None
        own = at if at < units else int(units * _uniform("owner", at) ** 2)
        return own + 1 if kind is int else f"unit {own + 1}"

    return Maker(kind=int if kind is int else str, make=make)


def _joined(
    index: int,
    join: Join,
    seen: Sequence[Row],
    types: Mapping[str, type],
    makers: Mapping[str, Maker],
    zone: str | None,
) -> MadeUpTable:
    """A table to join: most keys of the rows that are there, each once where it is public, else several times."""
    keys = dict.fromkeys(key for row in seen if None not in (key := tuple(row[name] for name in join.on)))
    kinds = {theirs: types[ours] for ours, theirs in join.on.items()}
    kinds |= {theirs: makers[ours].kind for ours, theirs in join.columns.items() if theirs not in kinds}
    rows: list[Row] = []
    for at, key in enumerate(keys):
        if _uniform("unmatched", index, at) < _UNMATCHED and len(keys) > 1:
            continue
        more = 1 if join.rows is None else 1 + int(min(join.rows, _ROWS_A_UNIT) * _uniform("more", index, at))
        for _ in range(more):
            row: Row = {theirs: makers[ours].make(len(rows)) for ours, theirs in join.columns.items()}
            rows.append(row | dict(zip(join.on.values(), key, strict=True)))
    return MadeUpTable(types=kinds, rows=rows, zone=zone)


def _with_columns(seen: Sequence[Row], join: Join, other: MadeUpTable) -> list[Row]:
    """The rows with the columns of the first match, as far as a further join needs them."""
    first: dict[tuple[Made, ...], Row] = {}
    for row in other.rows:
        first.setdefault(tuple(row[theirs] for theirs in join.on.values()), row)
    nothing: Row = dict.fromkeys(join.columns.values())
    matches = ((row, first.get(tuple(row[name] for name in join.on), nothing)) for row in seen)
    return [row | {ours: match[theirs] for ours, theirs in join.columns.items()} for row, match in matches]


def _line(values: Sequence[object]) -> str:
    """A line of CSV; a lone return is quoted as a line feed is, which needs a line that ends with both."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(values)
    return text.getvalue()[:-2] + "\n"


def _field(value: Made) -> object:
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return "" if value is None else canonical(value) if isinstance(value, (bool, datetime.date)) else value
