"""Tables in a database of a PostgreSQL server."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from rangebound.errors import ArgumentError, EngineError, PlanError
from rangebound.release.engine.dialect import Dialect, Tree, integer, term, text
from rangebound.release.engine.interface import Engine, Further, Place, Record, Relation, Unrunnable
from rangebound.release.engine.postgres_dialect import FEW, OVERFLOW, POSTGRES, POSTGRES_OF_FEW, UNDERFLOW
from rangebound.release.engine.public_table import public_table
from rangebound.release.plan.table_schema import Family, Schema, TypedSchema
from rangebound.values import arguments
from rangebound.values.extras import need
from rangebound.values.postgres_address import NO_PASSWORD, checked_address

if TYPE_CHECKING:
    import psycopg

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
_READABLE = "rpm"  # tables, partitioned ones and materialised views; a view computes as it is read
_PATIENCE = 10  # seconds for a server to answer
_TOO_MUCH = "54"  # the class of a statement that is too deep, too long, or has too many columns
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
_FOUND = """
SELECT c.oid, n.nspname, c.relname, c.relkind
FROM unnest(%(schemas)s::pg_catalog.text[]) WITH ORDINALITY AS path(schema, place)
JOIN pg_catalog.pg_namespace n ON n.nspname = path.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = %(name)s
ORDER BY path.place LIMIT 1"""
_COLUMNS = """
WITH RECURSIVE base(attnum, oid) AS (
    SELECT attnum, atttypid FROM pg_catalog.pg_attribute WHERE attrelid = %(table)s AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT b.attnum, t.typbasetype FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.oid WHERE t.typtype = 'd'
)
SELECT a.attname, t.typname, t.typtype, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attgenerated = 'v'
FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.oid AND t.typtype <> 'd'
JOIN pg_catalog.pg_attribute a ON a.attrelid = %(table)s AND a.attnum = b.attnum
WHERE pg_catalog.has_column_privilege(%(table)s::pg_catalog.oid, a.attnum, 'SELECT')
ORDER BY a.attnum"""
_SIZE = """
WITH RECURSIVE tree(oid) AS (
    SELECT %s::pg_catalog.regclass::pg_catalog.oid
    UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid
)
SELECT sum(pg_catalog.pg_relation_size(c.oid)) FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid
LEFT JOIN pg_catalog.pg_am a ON a.oid = c.relam
HAVING bool_and(c.relkind = 'p' OR c.relkind IN ('r', 'm') AND a.amname = 'heap')"""
_LEAST_ROW = 28  # bytes of a row with no column, in the table and in the list of its page
_NAME = re.compile(r'(?:"((?:[^"]|"")+)"|([^".]+))(?:\.(?:"((?:[^"]|"")+)"|([^".]+)))?')
_NULL, _THERE = "-", "="  # before a value of a public table of this machine, which is written into the statement
_SEPARATORS = (0x1F, *range(0xE000, 0xF900))  # one that no text holds


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

    dialect: Dialect = POSTGRES

    def __init__(self, address: str, table: str, *, timeout: float | None = None, field: str = "source") -> None:
        need("psycopg", what="postgres")
        if timeout is not None and not 0.001 <= timeout <= 2e6:
            raise ArgumentError(f"timeout={timeout!r}: must be a number of seconds from 0.001 to 2000000")
        super().__init__()
        self._connection = _connected(address)
        try:
            self._begin(timeout)
            found = self._table(table, f"{field}.table")
            self.dialect = self._fitting(found.source)
        except BaseException:
            self.close()
            raise
        self.source, self._schema = found.source, found.schema

    def _begin(self, timeout: float | None) -> None:
        """Set what statements depend on, and begin the one transaction."""
        import psycopg

        settings = _SETTINGS if timeout is None else {**_SETTINGS, "statement_timeout": f"{round(timeout * 1000)}ms"}
        encoding = self._connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise EngineError(f"postgres: the encoding of the database is {encoding}; it must be UTF8")
        try:
            self._schemas = self._one("SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]", ())
            for name, value in settings.items():
                self._connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        except psycopg.Error:
            raise EngineError(
                "postgres: the server does not take our settings; it must be PostgreSQL 14 or later",
                away=self._connection.closed,
            ) from None

    def schema(self) -> Schema:
        """The names and families of the columns; reads no data."""
        return self._schema

    def _opened(self, place: Place, given: Any) -> Further:
        """A further table: one of the database, or a public one of this machine: a file, or given under its name."""
        if place.path is not None or given is not None:
            found = public_table(place, given, self.dialect, "the database")
            if any("\0" in each.this for each in found.source.find_all(exp.Literal)):
                rule = "a text of the public table holds a NUL, which PostgreSQL has not"
                raise PlanError(f"{place.field}: {rule}", field=place.field)
            return found
        found = self._table(place.table or "", f"{place.field}.table")
        if not place.public:
            self.dialect = POSTGRES  # a row may become several
        return found

    def _table(self, name: str, field: str) -> Further:
        """A table of the database as statements see it. Its types cannot change until the end of the transaction."""
        import psycopg

        refused = f"{field}={name!r}: "
        parts = _NAME.fullmatch(name)
        if parts is None:
            raise PlanError(f'{refused}must be a table or schema.table, with quotes as in "a.b".c', field=field)
        quoted = [each.replace('""', '"') if each else None for each in parts.group(1, 3)]
        first, second = (one or other for one, other in zip(quoted, parts.group(2, 4), strict=True))
        wanted = {"schemas": self._schemas, "name": first} if second is None else {"schemas": [first], "name": second}
        try:
            row = self._connection.execute(_FOUND, wanted).fetchone()
            if row is None:
                raise PlanError(f"{refused}the database has no such table, or this role may not see it", field=field)
            oid, space, own, kind = row
            if kind not in _READABLE:
                rule = "is not a table; a view or a foreign table computes as it is read, and a row could stop it"
                raise PlanError(f"{refused}{rule}; make a table or a materialized view of it", field=field)
            source = exp.to_table(own, quoted=True)
            source.set("db", exp.to_identifier(space, quoted=True))
            if self._one("SELECT pg_catalog.row_security_active(%s::pg_catalog.oid)", (oid,)):
                rule = "row-level security would leave out rows; use a role that may read them all"
                raise PlanError(f"{refused}{rule}", field=field)
            self._connection.execute(exp.select("1").from_(source.copy()).limit(0).sql("postgres"))
            columns = self._connection.execute(_COLUMNS, {"table": oid}).fetchall()
        except psycopg.errors.InsufficientPrivilege:
            raise PlanError(f"{refused}this role may not read it", field=field) from None
        except psycopg.Error:
            raise EngineError(f"{refused}PostgreSQL cannot read its columns", away=self._connection.closed) from None
        return _seen(source, columns)

    def _fitting(self, source: Relation) -> Dialect:
        """The SQL for a table of this size. A row takes some bytes, and no row can be added to what we see of it."""
        import psycopg

        name = next(source.find_all(exp.Table)).sql("postgres")
        try:
            size = self._one(_SIZE, (name,))
        except psycopg.Error:
            words = "postgres: the server does not tell the size of the table"
            raise EngineError(words, away=self._connection.closed) from None
        return POSTGRES_OF_FEW if size is not None and size // _LEAST_ROW < FEW else POSTGRES

    def _one(self, statement: str, values: tuple[object, ...]) -> Any:
        row = self._connection.execute(statement, values).fetchone()
        return None if row is None else row[0]

    def rehearse(self, text: str) -> None:
        """Have the server read a statement, and run it on private tables without rows.

        No table can be made in this transaction: in the text, another relation of the same columns stands in its place,
        of which the server does not see before it runs that it has no rows. The statement itself is not planned, since
        a plan depends on the statistics of the table.
        """
        private = [self.source, *(each.source for place, each in self._others.items() if not place.public)]
        names = {next(each.find_all(exp.Table)).sql("postgres") for each in private}
        rows = r'SELECT NULL::\g<0> AS "row" FROM pg_catalog.generate_series(1, 0) OFFSET 0'
        none = f'(SELECT ("row").* FROM ({rows}) AS "rows") AS "none"'
        self.run("DEALLOCATE ALL")
        self.run(f"PREPARE rehearsed AS {text}")
        self.run(re.sub("|".join(map(re.escape, names)), none, text))

    def _rows(self, text: str) -> list[Record]:
        """The rows of a statement's result; the transaction goes on after one that fails."""
        import psycopg

        rule = "its time-out, memory or disk may be too small, or the connection was lost; the server's log says why"
        failed = f"statement: PostgreSQL could not run it; {rule}"
        try:
            self._connection.execute("SAVEPOINT run")
            found = self._connection.execute(text.encode())
            return found.fetchall() if found.description else []
        except psycopg.Error as reason:
            away = self._connection.closed
            self._undo()
            server = isinstance(reason, (psycopg.OperationalError, psycopg.InterfaceError))
            if server and not (reason.sqlstate or "").startswith(_TOO_MUCH):
                raise EngineError(failed, away=away) from None
            raise Unrunnable(failed) from None
        except BaseException:  # an interrupt: psycopg has ended the statement where it could wait for it
            self._stop()
            self._undo()
            raise

    def _undo(self) -> None:
        """Go on with the transaction as it was before the last statement."""
        import psycopg

        with suppress(psycopg.Error):
            self._connection.execute("ROLLBACK TO SAVEPOINT run")

    def _stop(self) -> None:
        """End the running statement in the server."""
        import psycopg

        try:
            if not self._connection.closed:
                self._connection.cancel_safe(timeout=_PATIENCE)
        except psycopg.Error:  # then it ends with the connection
            self._connection.close()

    def close(self) -> None:
        """End the transaction and the connection."""
        self._connection.close()


def _connected(address: str) -> psycopg.Connection:
    """A connection, in which every statement is a transaction of its own until one begins."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    plain = checked_address(address)
    try:
        parts = conninfo_to_dict(plain)
    except psycopg.Error:
        raise ArgumentError('postgres: must be an address such as "postgresql://host/database"') from None
    if any("password" in name for name in parts):
        raise ArgumentError(f"postgres: {NO_PASSWORD}")
    more = make_conninfo(plain, client_encoding="UTF8", **{"connect_timeout": _PATIENCE, **parts})
    try:
        return psycopg.connect(more, autocommit=True, prepare_threshold=None)
    except (psycopg.Error, UnicodeError):
        rule = "no connection; see that the server answers, and that the password is in PGPASSFILE, PGPASSWORD or a "
        raise EngineError(f"postgres={arguments.shown(plain)}: {rule}service (pg_service.conf)", away=True) from None


def _seen(source: exp.Table, columns: Sequence[tuple[str, str, str, str, bool]]) -> Further:
    """A table as statements see it: texts by their bytes, instants in UTC, and numbers that have a double."""
    families: dict[str, Family] = {}
    instants, types, trees = [], {}, []
    for name, base, kind, written, computed in columns:
        family = Family.TEXT if kind == _ENUM else _FAMILIES.get(base, Family.OTHER)
        families[name] = family = Family.OTHER if computed else family
        this: Tree = exp.column(exp.to_identifier(name, quoted=True))
        if family is Family.OTHER:
            types[name] = f"{written}, generated as it is read" if computed else written
            if base != _INSTANT or computed:
                continue
            instants.append(name)
            this = exp.AtTimeZone(this=this, zone=text("UTC"))
        tree = _SEEN[family](this) if family in _SEEN else this
        trees.append(exp.alias_(tree, name, quoted=True))
    rows = exp.select(*(trees or [exp.alias_(exp.Literal.number("1"), "1", quoted=True)]), copy=False)
    schema = TypedSchema(families, types=types, instants=instants)
    return Further(source=rows.from_(source.copy(), copy=False), schema=schema)


def _with_a_double(this: Tree) -> Tree:
    """A decimal that is finite and rounded to a double, or NULL; NaN is the largest of all."""
    near = "CASE WHEN ABS(:x) <= CAST(:tiny AS NUMERIC) THEN 0 ELSE :x END"
    within = f"CASE WHEN :x < :end AND :x > -:end THEN {near} END"
    return term(within, x=this, tiny=text(UNDERFLOW), end=integer(OVERFLOW))


_SEEN: dict[Family, Callable[[Tree], Tree]] = {
    Family.TEXT: lambda this: exp.cast(this, "TEXT"),
    Family.DECIMAL: _with_a_double,
}
