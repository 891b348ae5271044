"""An engine in one file, as an example: tables of a SQLite database.

It passes the contract of engines (`CONTRIBUTING.md`) and shows how one is added; it is no part of the package. A
column of SQLite may hold a value of any type, so whatever is not of the type that is declared is missing here. Dates
and times are texts. What SQLite lacks, or rounds in a way of its own, is a function in Python: right to the last bit,
and slow.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from sqlglot import exp
from sqlglot.optimizer.eliminate_subqueries import eliminate_subqueries

from rangebound.errors import PlanError
from rangebound.release.engine.dialect import Dialect, Tree, call, integer, term, text
from rangebound.release.engine.duckdb import public_table
from rangebound.release.engine.interface import Engine, Further, Place, Record, Unrunnable
from rangebound.release.plan.table_schema import Family, TypedSchema

_FAMILIES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"), Family.INTEGER),
    **dict.fromkeys(("REAL", "FLOAT", "DOUBLE", "DOUBLE PRECISION"), Family.NUMBER),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), Family.TEXT),
    "DATE": Family.DATE,
    **dict.fromkeys(("TIMESTAMP", "DATETIME"), Family.TIMESTAMP),
    "BOOLEAN": Family.BOOLEAN,
}
_INSTANT = "TIMESTAMP WITH TIME ZONE"
_SEEN = {
    Family.INTEGER: "CASE WHEN TYPEOF(:x) = 'integer' THEN :x END",
    Family.NUMBER: "CASE WHEN TYPEOF(:x) IN ('real', 'integer') THEN CAST(:x AS REAL) END",
    Family.TEXT: "RB_TEXT(CAST(:x AS BLOB))",
    Family.DATE: "RB_DATE(:x)",
    Family.TIMESTAMP: "RB_TIME(:x)",
    Family.BOOLEAN: "CASE WHEN :x IN (0, 1) THEN :x END",
}


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives NULL for NULL, and for what it is not made for."""

    def found(*arguments: Any) -> Any:
        try:
            return None if None in arguments else function(*arguments)
        except (ValueError, TypeError, OverflowError):
            return None

    return found


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives NULL for NULL, and stops at what it is not made for."""
    return lambda *arguments: None if None in arguments else function(*arguments)


@cache
def _list(numbers: str, kind: str) -> list[Any]:
    return [(float if kind == "DOUBLE" else int)(each) for each in numbers.split(" ")]


def _day(value: str) -> datetime.date:
    return datetime.date.fromisoformat(value[:10])


def _part(name: str, value: str) -> int:
    day = _day(value)
    parts = {"YEAR": day.year, "MONTH": day.month, "DAY": day.day, "WEEK": day.isocalendar().week}
    parts |= {"QUARTER": (day.month + 2) // 3, "HOUR": int(value[11:13] or 0)}
    return parts[name]


def _later(value: str, seconds: int) -> str:
    return (datetime.datetime.fromisoformat(value) + datetime.timedelta(seconds=seconds)).isoformat(" ")


def _remainder(a: float, b: float) -> float:
    """The remainder with the sign of a; SQLite's own is one of whole numbers alone."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) % abs(b) * (1 if a >= 0 else -1)
    return math.fmod(a, b)


def _quotient(a: int | str, b: int, c: int) -> int | str:
    """The quotient of a b and c, of which a b may be too long for SQLite."""
    return _fitting(abs(int(a) * b) // c * (1 if int(a) >= 0 else -1))


def _fitting(value: int) -> int | str:
    """A whole number, as a text where it has more than 64 bits."""
    return value if -(2**63) <= value < 2**63 else str(value)


class _Sum:
    """The sum of whole numbers, however long."""

    def __init__(self) -> None:
        self.total: int | None = None

    def step(self, value: Any) -> None:
        if value is not None:
            self.total = (self.total or 0) + int(value)

    def finalize(self) -> int | str | None:
        return None if self.total is None else _fitting(self.total)


_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "REGEXP": (2, _strict(lambda pattern, this: re.search(pattern.replace(r"\z", r"\Z"), this) is not None)),
    "MD5": (1, _strict(lambda this: hashlib.md5(this.encode(), usedforsecurity=False).hexdigest())),
    "FLOOR": (1, _strict(lambda x: float(math.floor(x)) if math.isfinite(x) else x)),
    "LENGTH": (1, _strict(lambda x: len(str(x)))),
    "RB_TEXT": (1, _quiet(lambda raw: raw.decode())),
    "RB_DATE": (1, _quiet(lambda this: datetime.date.fromisoformat(this).isoformat())),
    "RB_TIME": (1, _quiet(lambda this: datetime.datetime.fromisoformat(this).isoformat(" "))),
    "RB_DOUBLE": (1, _quiet(float)),
    "RB_WHOLE": (1, _strict(int)),
    "RB_HEX": (1, _strict(lambda digits: int(digits, 16))),
    "RB_ITEM": (3, _strict(lambda numbers, place, kind: _list(numbers, kind)[place - 1])),
    "RB_LEFT": (2, _strict(lambda this, count: this[:count])),
    "RB_RIGHT": (2, _strict(lambda this, count: this[max(len(this) - count, 0) :])),
    "RB_MOD": (2, _quiet(_remainder)),
    "RB_DIV": (3, _strict(_quotient)),
    "RB_DAYS": (2, _quiet(lambda this, other: (_day(this) - _day(other)).days)),
    "RB_MOVED": (2, _quiet(lambda this, days: (_day(this) + datetime.timedelta(days=days)).isoformat())),
    "RB_LATER": (2, _quiet(_later)),
    "RB_PART": (2, _quiet(_part)),
}


def _cast(node: Tree, _: Tree) -> Tree:
    kind, this = node.args["to"].this, node.this
    if kind is exp.DType.DOUBLE:
        return call("RB_DOUBLE", this) if isinstance(this, exp.Literal) and this.is_string else node
    if kind is exp.DType.DATE:
        return term("SUBSTRING(:x, 1, 10)", x=this)
    return call("RB_WHOLE", this) if kind in (exp.DType.INT, exp.DType.BIGINT) else node


def _values(node: Tree, _: Tree) -> Tree:
    """A table of constants; SQLite calls its columns column1, column2, ..."""
    names = [term(f"column{at}").as_(each) for at, each in enumerate(node.args["alias"].columns, 1)]
    rows = exp.Values(expressions=node.expressions, alias=exp.TableAlias(this=exp.to_identifier("listed")))
    return exp.select(*names).from_(exp.select("*").from_(rows).subquery("t")).subquery("t")


def _sum(node: Tree, _: Tree) -> Tree:
    """A time that some seconds are added to."""
    step = node.expression
    if isinstance(step, exp.Mul) and isinstance(step.expression, exp.Interval):
        return call("RB_LATER", node.this, step.this)
    return node


def _extreme(name: str) -> Callable[[Tree, Tree], Tree]:
    """The least or greatest of two values that is not NULL."""
    return lambda node, _: exp.Coalesce(
        this=call(name, node.this.copy(), *(each.copy() for each in node.expressions)),
        expressions=[node.this, *node.expressions],
    )


def _divided(node: Tree, _: Tree) -> Tree:
    this = node.this.unnest()
    factors = (this.this, this.expression) if isinstance(this, exp.Mul) else (this, integer(1))
    return call("RB_DIV", *factors, node.expression)


class _SQLite(Dialect):
    name = "sqlite"
    wide = "BIGINT"
    sums = "RB_SUM(:x)"
    hexadecimal = "RB_HEX(:digits)"
    items = "RB_ITEM(:numbers, :place, '{}')"
    whole, most_whole = "INTEGER", 2**63 - 1
    timestamp = "TEXT"
    tables_in_choices = True
    rules: ClassVar = {
        exp.TryCast: lambda node, _: call("RB_DOUBLE", node.this),
        exp.Cast: _cast,
        exp.Values: _values,
        exp.Add: _sum,
        exp.Greatest: _extreme("MAX"),
        exp.Least: _extreme("MIN"),
        exp.Left: lambda node, _: call("RB_LEFT", node.this, node.expression),
        exp.Right: lambda node, _: call("RB_RIGHT", node.this, node.expression),
        exp.Mod: lambda node, _: call("RB_MOD", node.this, node.expression),
        exp.IntDiv: _divided,
        exp.DateDiff: lambda node, _: call("RB_DAYS", node.this, node.expression),
        exp.DateAdd: lambda node, _: call("RB_MOVED", node.this, node.expression),
        exp.Extract: lambda node, _: call("RB_PART", text(node.name.upper()), node.expression),
    }

    def written(self, tree: Tree) -> str:
        """Selections by names, and not one in the other: the parser has a stack of a hundred."""
        return super().written(eliminate_subqueries(tree.copy()))

    def unfolded(self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str) -> exp.Select:
        rows = json.dumps(list(zip(*(each.split(separator) for each in texts), strict=True)), ensure_ascii=False)
        columns = [term(f"value ->> {at}", self.name).as_(each) for at, each in enumerate(names[1:])]
        listed = exp.Table(this=call("JSON_EACH", text(rows)))
        return exp.select(term("key").as_(names[0]), *columns, copy=False).from_(listed, copy=False)


SQLITE = _SQLite()


class SQLite(Engine):
    """A table of a SQLite file."""

    dialect = SQLITE

    def __init__(self, path: str, table: str, *, field: str = "source") -> None:
        super().__init__()
        if not Path(path).exists():
            raise PlanError(f"{field}.path={path!r}: there is no such file", field=f"{field}.path")
        self._connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
        self._interrupt: BaseException | None = None
        for name, (count, function) in _FUNCTIONS.items():
            self._connection.create_function(name, count, self._noticed(function), deterministic=True)
        self._connection.create_aggregate("RB_SUM", 1, _Sum)
        self._connection.execute("BEGIN")  # so that all statements see the same rows
        try:
            found = self._table(table, f"{field}.table")
        except BaseException:
            self.close()
            raise
        self.source, self._schema = found.source, found.schema

    def _noticed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that notes an interrupt, of which SQLite says only that the function failed."""

        def found(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception:
                raise
            except BaseException as interrupt:
                self._interrupt = interrupt
                raise

        return found

    def _opened(self, place: Place, given: Any) -> Further:
        """A further table: one of the file, or a public one of this machine."""
        if place.path is None and given is None:
            return self._table(place.table or "", f"{place.field}.table")
        return public_table(place, given, self.dialect, "the database")

    def _table(self, name: str, field: str) -> Further:
        """A table of the file as statements see it."""
        columns = self._connection.execute("SELECT name, type FROM pragma_table_info(?)", (name,)).fetchall()
        if not columns:
            raise PlanError(f"{field}={name!r}: the database has no such table", field=field)
        families: dict[str, Family] = {}
        types, instants, trees = {}, [], []
        for column, kind in columns:
            base = kind.partition("(")[0].upper()
            families[column] = family = _FAMILIES.get(base, Family.OTHER)
            if family is Family.OTHER:
                types[column] = kind
                if base != _INSTANT:
                    continue
                instants.append(column)
            seen = _SEEN[Family.TIMESTAMP if family is Family.OTHER else family]
            tree = term(seen, self.dialect.name, x=exp.column(column, quoted=True))
            trees.append(exp.alias_(tree, column, quoted=True))
        source = exp.table_(name, db="main", quoted=True)
        rows = exp.select(*(trees or [integer(1)]), copy=False).from_(source, copy=False)
        return Further(source=rows, schema=TypedSchema(families, types=types, instants=instants))

    def _bare(self, name: str) -> str:
        return f"(SELECT * FROM {name} LIMIT 0)"

    def _rows(self, text: str) -> list[Record]:
        try:
            return self._connection.execute(text).fetchall()
        except sqlite3.Error:
            interrupt, self._interrupt = self._interrupt, None
            raise interrupt or Unrunnable("statement: SQLite could not run it") from None

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
