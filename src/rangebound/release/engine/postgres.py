"""Tables in a database of a PostgreSQL server.

A statement that no row can stop needs care here: a cast of a text raises, arithmetic raises, and of the parts of an AND
any may be computed first. So whatever could fail is in a branch of a CASE of its own. Texts are compared and sorted as
their bytes: every text that a statement makes has the collation "C".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, ClassVar

from sqlglot import exp

from rangebound.errors import ArgumentError, EngineError, PlanError
from rangebound.release.engine.dialect import CHECKED, Dialect, Tree, call, choice, integer, term, text
from rangebound.release.engine.duckdb import public_table
from rangebound.release.engine.interface import Engine, Further, Place, Record, Unrunnable
from rangebound.release.plan.condition import HIDDEN
from rangebound.release.plan.table_schema import Family, TypedSchema
from rangebound.values import arguments
from rangebound.values.extras import need
from rangebound.values.postgres_address import checked_address

need("psycopg", what="postgres")

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

_FAMILIES = {
    **dict.fromkeys(("int2", "int4", "int8"), Family.INTEGER),
    **dict.fromkeys(("float4", "float8"), Family.NUMBER),
    "numeric": Family.DECIMAL,
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid", "citext"), Family.TEXT),
    "date": Family.DATE,
    "timestamp": Family.TIMESTAMP,
    "bool": Family.BOOLEAN,
}
_INSTANT, _ENUM = "timestamptz", "e"
_PATIENCE = 10  # seconds for a server to answer
_SETTINGS = {
    "search_path": "pg_catalog",  # so that no other function has the name of one of PostgreSQL's
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
    "row_security": "off",  # a policy would leave out rows; this makes an error of it
    "jit": "off",  # compiling takes longer than it saves
    "client_connection_check_interval": "10s",  # a statement whose client was killed ends
    "application_name": "rangebound",
}
_FOUND = (files(__package__) / "postgres_table.sql").read_bytes()
_COLUMNS = (files(__package__) / "postgres_columns.sql").read_bytes()
_PART = r'"(?:[^"]|"")+"|[^".]+'  # of the name of a table
# From 2^1024 - 2^970 on a number is not rounded to a finite double, and up to 2^-1075 it is rounded to 0.
_ROUNDED = f"""CASE WHEN ABS(:x) <= CAST('{5**1075}e-1075' AS DECIMAL) THEN CAST(0 AS DECIMAL)
    WHEN ABS(:x) < {(2**54 - 1) << 970} THEN :x END"""
_SEEN = {Family.TEXT: "CAST(:x AS TEXT)", Family.DECIMAL: _ROUNDED, _INSTANT: "(:x AT TIME ZONE 'UTC')"}
_READ = f"""CASE WHEN LENGTH(:text) <= 300 AND POSITION('e' IN LOWER(:text)) = 0 THEN CAST(:text AS DOUBLE)
    ELSE CAST({_ROUNDED.replace(":x", "CAST(:text AS DECIMAL)")} AS DOUBLE) END"""
# |x| is a mantissa of 53 bits times 2^(place - 1075), and so is the remainder by y, with the place of y.
_BITS = "('x' || encode(float8send(:{0}), 'hex'))::bit(64)::bigint"
_PLACE = f"greatest(({_BITS} >> 52) & 2047, 1)"
_MANTISSA = f"(({_BITS} & 4503599627370495) + least(({_BITS} >> 52) & 2047, 1) * 4503599627370496)::numeric"
_SHIFT = f"power(2::numeric, {_PLACE.format('x')} - {_PLACE.format('y')})"
_REST = f"mod({_MANTISSA.format('x')} * {_SHIFT}, {_MANTISSA.format('y')})"
_REMAINDER = f"""CASE WHEN abs(:x) < abs(:y) THEN :x
    WHEN abs(:x) < 9e15::float8 AND :x = floor(:x) AND :y = floor(:y) THEN (:x::bigint % :y::bigint)::float8
    WHEN NOT :x IS NULL AND NOT :y IS NULL
        THEN sign(:x) * {_REST}::float8 * power(2::float8, {_PLACE.format("y")} - 1075) END"""


def _collated(node: Tree, parent: Tree) -> Tree:
    """A text, if it is one, with its collation; \\z is \\Z in a pattern."""
    textual = node.args["to"].this is exp.DType.TEXT if isinstance(node, exp.Cast) else node.args.get("is_string")
    if not textual or isinstance(parent, (exp.Cast, exp.Collate, exp.Interval)):
        return node
    if isinstance(parent, exp.RegexpLike) and isinstance(node, exp.Literal):
        node = text(node.this.replace(r"\z", r"\Z"))
    return exp.Paren(this=exp.Collate(this=node, expression=exp.to_identifier("C", quoted=True)))


class _Postgres(Dialect):
    name = "postgres"
    wide = "NUMERIC"
    sums = "SUM((:x) + CAST(0 AS BIGINT))"  # numbers of 64 bits have a sum of 128, and longer ones a longer sum
    hexadecimal = "CAST(CAST('x' || LPAD(:digits, 8, '0') AS BIT(32)) AS BIGINT)"
    most_whole = 2**127
    timestamp = "TIMESTAMP"
    tables_in_choices = True
    decimal = "NUMERIC"
    checked: ClassVar = {**CHECKED, exp.Mod: _REMAINDER}
    rules: ClassVar = {
        exp.TryCast: lambda node, _: term(_READ, text=node.this),
        exp.Cast: _collated,
        exp.Literal: _collated,
        exp.DateDiff: lambda node, _: exp.Paren(this=exp.Sub(this=node.this, expression=node.expression)),
        exp.DateAdd: lambda node, _: exp.Paren(this=exp.Add(this=node.this, expression=node.expression)),
    }

    def misfit(self, name: str) -> str:
        rule = "the name of a column must not be longer than 63 bytes, which is all that PostgreSQL keeps"
        return rule if len(name.encode()) > 63 else ""

    def apart(self, rows: exp.Select) -> exp.Select:
        """PostgreSQL would copy the expressions of a selection to all places above where they are read.

        It leaves alone a selection with a function whose value may change, and all processes of the server may share
        the work where that function is one like this one. It is never called: the constant CASE is computed before.
        """
        never = choice((exp.false(), call("PG_IS_IN_RECOVERY")))
        return rows.select(exp.alias_(never, f"{HIDDEN}apart", quoted=True), copy=False)

    def unfolded(self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str) -> exp.Select:
        lists = [call("STRING_TO_ARRAY", text(each), text(separator)) for each in texts]
        alias = exp.TableAlias(this=exp.to_identifier("t"), columns=[each.copy() for each in names[1:]])
        rows = exp.Unnest(expressions=lists, alias=alias, offset=exp.to_identifier("rangebound_place", quoted=True))
        index = exp.alias_(term("(rangebound_place - 1)"), names[0], quoted=True)
        return exp.select(index, *map(exp.column, names[1:]), copy=False).from_(rows, copy=False)

    def item(self, numbers: Sequence[str], place: Tree, *, whole: bool) -> Tree:
        listed = exp.cast(text("{" + ",".join(numbers) + "}"), "DECIMAL[]" if whole else "DOUBLE[]")
        return exp.Bracket(this=exp.Paren(this=listed), expressions=[place], offset=1)  # counted from 1 already


POSTGRES = _Postgres()


class Postgres(Engine):
    """A table of a PostgreSQL database, such as `Postgres("postgresql://host/clinic", "public.visits")`.

    `address` is a URL or the name of a service, `service=clinic`; libpq's environment variables and files count, and
    the password comes from there: PGPASSFILE, PGPASSWORD or the service. `timeout` is how many seconds a statement may
    take.

    Guarantee: everything is read in one transaction, read-only and repeatable-read, so that one release sees one state
    of the data; only results of statements leave the server. It needs the right to read the columns that are used, and
    makes nothing in the database. Errors have words of our own, without data. An interrupt ends the statement in the
    server.
    Edge cases: texts, enums and unique ids are texts, which are the same only byte by byte whatever their collation;
    those of `char(n)` end before their blanks. A `numeric` that is NaN, infinite or beyond the doubles is missing. A
    `timestamptz` is an instant, which a plan with a `zone` reads as local time there. Columns of other types, those
    that are generated as they are read, and those that the role may not read cannot be used. A view or a foreign table
    is refused, since a row could stop it; so is a table whose row-level security would leave out rows.
    """

    dialect = POSTGRES

    def __init__(self, address: str, table: str, *, timeout: float | None = None, field: str = "source") -> None:
        if timeout is not None and not 0.001 <= timeout <= 2e6:
            raise ArgumentError(f"timeout={timeout!r}: must be a number of seconds from 0.001 to 2000000")
        super().__init__()
        self._connection = _connected(address)
        try:
            self._begin({} if timeout is None else {"statement_timeout": f"{round(timeout * 1000)}ms"})
            found = self._table(table, f"{field}.table")
        except BaseException:
            self.close()
            raise
        self.source, self._schema = found.source, found.schema

    def _begin(self, more: Mapping[str, str]) -> None:
        """Set what statements depend on, and begin the one transaction."""
        if (encoding := self._connection.info.parameter_status("server_encoding")) != "UTF8":
            raise EngineError(f"postgres: the encoding of the database is {encoding}; it must be UTF8")
        try:
            (schemas,) = self._connection.execute("SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]")
            (self._schemas,) = schemas
            for setting in {**_SETTINGS, **more}.items():
                self._connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", setting)
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        except psycopg.Error:
            rule = "the server does not take our settings; it must be PostgreSQL 14 or later"
            raise EngineError(f"postgres: {rule}", away=self._connection.closed) from None

    def _opened(self, place: Place, given: Any) -> Further:
        """A further table: one of the database, or a public one of this machine: a file, or given under its name."""
        if place.path is None and given is None:
            return self._table(place.table or "", f"{place.field}.table")
        found = public_table(place, given, self.dialect, "the database")
        if any("\0" in each.this for each in found.source.find_all(exp.Literal)):
            rule = "a text of the public table holds a NUL, which PostgreSQL has not"
            raise PlanError(f"{place.field}: {rule}", field=place.field)
        return found

    def _table(self, name: str, field: str) -> Further:
        """A table of the database as statements see it. Its types cannot change until the end of the transaction."""

        def refused(rule: str) -> PlanError:
            return PlanError(f"{field}={name!r}: {rule}", field=field)

        parts = re.fullmatch(rf"({_PART})(?:\.({_PART}))?", name)
        if parts is None:
            raise refused('must be a table or schema.table, with quotes as in "a.b".c')
        *spaces, own = (each[1:-1].replace('""', '"') if each[0] == '"' else each for each in parts.groups() if each)
        try:
            row = self._connection.execute(_FOUND, {"schemas": spaces or self._schemas, "name": own}).fetchone()
            if row is None:
                raise refused("the database has no such table, or this role may not see it")
            oid, space, kind, secured = row
            if kind not in "rpm":  # tables, partitioned ones and materialised views
                rule = "is not a table; a view or a foreign table computes as it is read, and a row could stop it"
                raise refused(f"{rule}; make a table or a materialized view of it")
            if secured:
                raise refused("row-level security would leave out rows; use a role that may read them all")
            source = exp.table_(own, db=space, quoted=True)
            self._connection.execute(exp.select("1").from_(source.copy()).limit(0).sql("postgres"))
            return _seen(source, self._connection.execute(_COLUMNS, {"table": oid}).fetchall())
        except psycopg.errors.InsufficientPrivilege:
            raise refused("this role may not read it") from None
        except psycopg.Error:
            words = f"{field}={name!r}: PostgreSQL cannot read its columns"
            raise EngineError(words, away=self._connection.closed) from None

    def _bare(self, name: str) -> str:
        """No table can be made in this transaction."""
        rows = f'SELECT NULL::{name} AS "row" FROM pg_catalog.generate_series(1, 0) OFFSET 0'
        return f'(SELECT ("row").* FROM ({rows}) AS "rows") AS "none"'

    def rehearse(self, text: str) -> None:
        """The server reads the statement itself, too; it is not planned, since that depends on statistics."""
        self.run("DEALLOCATE ALL")
        self.run(f"PREPARE rehearsed AS {text}")
        super().rehearse(text)

    def _rows(self, text: str) -> list[Record]:
        """The rows of a statement's result; the transaction goes on after one that fails."""
        rule = "its time-out, memory or disk may be too small, or the connection was lost; the server's log says why"
        failed = f"statement: PostgreSQL could not run it; {rule}"
        try:
            with self._connection.transaction():
                found = self._connection.execute(text.encode())
                return found.fetchall() if found.description else []
        except psycopg.Error as reason:
            server = isinstance(reason, (psycopg.OperationalError, psycopg.InterfaceError))
            if server and not (reason.sqlstate or "").startswith("54"):  # too deep, too long, or too many columns
                raise EngineError(failed, away=self._connection.closed) from None
            raise Unrunnable(failed) from None
        except BaseException:  # an interrupt: psycopg has ended the statement where it could wait for it
            with suppress(psycopg.Error):
                self._connection.cancel_safe(timeout=_PATIENCE)
            raise

    def close(self) -> None:
        """End the transaction and the connection."""
        self._connection.close()


def _connected(address: str) -> psycopg.Connection:
    """A connection, in which every statement is a transaction of its own until one begins."""
    plain = checked_address(address)
    try:
        parts: dict[str, Any] = {"connect_timeout": _PATIENCE, **conninfo_to_dict(plain), "client_encoding": "UTF8"}
    except psycopg.Error:
        raise ArgumentError('postgres: must be an address such as "postgresql://host/database"') from None
    try:
        return psycopg.connect(make_conninfo(**parts), autocommit=True, prepare_threshold=None)
    except (psycopg.Error, UnicodeError):
        rule = "no connection; see that the server answers, and that the password is in PGPASSFILE, PGPASSWORD or a "
        raise EngineError(f"postgres={arguments.shown(plain)}: {rule}service (pg_service.conf)", away=True) from None


def _seen(source: exp.Table, columns: Sequence[tuple[str, str, str, str, bool]]) -> Further:
    """A table as statements see it: texts by their bytes, instants in UTC, and numbers that have a double."""
    families: dict[str, Family] = {}
    instants, types, trees = [], {}, []
    for name, base, kind, written, computed in columns:
        family = Family.OTHER if computed else Family.TEXT if kind == _ENUM else _FAMILIES.get(base, Family.OTHER)
        families[name], this = family, exp.column(name, quoted=True)
        if family is Family.OTHER:
            types[name] = f"{written}, generated as it is read" if computed else written
            if base != _INSTANT or computed:
                continue
            instants.append(name)
        seen = _SEEN.get(_INSTANT if family is Family.OTHER else family, ":x")
        trees.append(exp.alias_(term(seen, x=this), name, quoted=True))
    rows = exp.select(*(trees or [exp.alias_(integer(1), "1", quoted=True)]), copy=False)
    schema = TypedSchema(families, types=types, instants=instants)
    return Further(source=rows.from_(source.copy(), copy=False), schema=schema)
