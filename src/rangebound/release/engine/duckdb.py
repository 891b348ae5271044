"""Tables on one machine: DuckDB, embedded; and public tables of this machine, read for an engine elsewhere."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import duckdb
from sqlglot import exp

from rangebound.errors import ArgumentError, EngineError, PlanError
from rangebound.release.engine.dialect import Dialect, Tree, call, choice, term, text
from rangebound.release.engine.duckdb_table import SeenTable
from rangebound.release.engine.interface import Engine, Further, Place, Record, Unrunnable
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import Family, Schema, TypedSchema

_PATIENCE = 0.1  # seconds between looks at a statement


class _DuckDB(Dialect):
    name = "duckdb"
    wide = "INT128"
    sums = "SUM(:x)"  # in 128 bits
    hexadecimal = "CAST('0x' || :digits AS BIGINT)"
    items = "LIST_EXTRACT(CAST(STR_SPLIT(:numbers, ' ') AS {}[]), :place)"
    whole, most_whole = "INT128", 2**127 - 1
    timestamp = "TIMESTAMP"
    masks = True
    tables_in_choices = True

    def unfolded(self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str) -> exp.Select:
        lists = [term(f"RANGE({texts[0].count(separator) + 1})")]
        lists += [call("STR_SPLIT", text(each), text(separator)) for each in texts]
        columns = [exp.alias_(call("UNNEST", each), name) for each, name in zip(lists, names, strict=True)]
        return exp.select(*columns, copy=False)


DUCKDB = _DuckDB()


class DuckDB(Engine):
    """A table in DuckDB: a text, .xlsx, Parquet or DuckDB file, or an Arrow, pandas or Polars table in memory.

    Edge cases: every column of a text file or a workbook is text, since guessing its type would depend on the data;
    texts that are numbers or dates as the source says are read as such by the statements. Such a file is copied once,
    before the first statement that reads it, so all statements see the same rows. Texts that are not UTF-8, times
    beyond the calendar and decimals with more digits than their type has are missing values; where DuckDB's own reader
    of Parquet stops at one, that of pyarrow takes over, which therefore must be installed. A column that not both can
    read, whatever its rows hold, is of family OTHER, which cannot be used; it stops no plan that does not use it. So is
    a column of a table in memory that DuckDB may stop at. What does not fit into memory goes to a folder for this user
    alone, where `TMPDIR` says, and so do the copies; it is gone with `close`.

    >>> import pyarrow
    >>> DuckDB(pyarrow.table({"age": [41, 27]})).schema()
    {'age': <Family.INTEGER: 'integer'>}
    """

    dialect = DUCKDB

    def __init__(
        self, data: Any, *, threads: int | None = None, memory: str | None = None, field: str = "source"
    ) -> None:
        super().__init__()
        self._spilled = tempfile.mkdtemp(prefix="rangebound-")  # mode 0700
        self._clean = weakref.finalize(self, shutil.rmtree, self._spilled, ignore_errors=True)
        self._connection = duckdb.connect(
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "temp_directory": self._spilled,
            }
        )
        try:
            if threads is not None:
                self._connection.execute("SET threads = ?", [threads])
            if memory is not None:
                self._connection.execute("SET memory_limit = ?", [memory])
        except duckdb.Error:
            rule = "must be a number of threads from 1 on, and a size such as 4GB"
            raise ArgumentError(f"threads={threads!r}, memory={memory!r}: {rule}") from None
        self._connection.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
        self._joined: dict[Place, SeenTable] = {}
        self._files: dict[str, str] = {}
        self._own = data if isinstance(data, Source) and data.table is not None else None
        try:
            self._table = SeenTable(self._connection, self._files, data, suffix="", field=field, folder=self._spilled)
        except Exception:
            self.close()
            raise
        self.source = self._table.source

    def schema(self) -> Schema:
        """The names and families of the columns; reads no data."""
        return self._table.schema()

    def _opened(self, place: Place, given: Any) -> Further:
        """A further table: a file, one that was given under its name, or one beside the engine's own in its file."""
        data = given
        if place.path is not None:
            data = place.source
        elif given is None and self._own is not None:
            data = self._own.model_copy(update={"table": place.table})
        elif given is None:
            rule = f"no such table; give it in Python as tables={{{place.table!r}: ...}}, or name its file as path"
            raise PlanError(f"{place.field}.table={place.table!r}: {rule}", field=f"{place.field}.table")
        suffix = f"_{len(self._joined) + 1}"
        table = SeenTable(self._connection, self._files, data, suffix=suffix, field=place.field, folder=self._spilled)
        found = Further(source=table.source, schema=table.schema())
        self._joined[place] = table
        return found

    def _stored(self, rows: exp.Select) -> exp.Table:
        """The result as it is now, read once, so that nothing later can stop at it."""
        table = exp.to_table(f"rangebound_copy_{len(self._copies) + 1}")
        self.run(exp.Create(this=table, kind="TABLE", replace=True, expression=rows.copy()))
        return table

    def progress(self) -> float | None:
        """How much of the running statement is done, in percent, as far as DuckDB can tell; None if nothing runs.

        Edge cases: may be asked from another thread. It depends on the data, so it is for the custodian's eyes alone.
        """
        done = self._connection.query_progress()
        return done if 0.0 <= done <= 100.0 else None

    def written(self, statement: Tree) -> str:
        """The text of a statement; a Parquet file of which it needs the second reader is read by that from now on."""
        if any(each.alone for each in self._tables):
            names = {each.name for each in statement.find_all(exp.Column)}
            for each in self._tables:
                if not each.alone.isdisjoint(names):
                    each.read_otherwise()
        return self.dialect.written(statement)

    @property
    def _tables(self) -> list[SeenTable]:
        return [self._table, *self._joined.values()]

    def _bare(self, name: str) -> str:
        try:
            return next(each for each in self._tables if each.source.name == name).bare()
        except duckdb.Error:
            raise EngineError("source: DuckDB cannot read its columns; the file may have changed") from None

    def _rows(self, text: str) -> list[Record]:
        tables = [each for each in self._tables if each.is_in(text)]
        try:
            for each in tables:
                each.load()
        except (OSError, duckdb.Error, ArgumentError):  # its header may be another one now
            words = "source: its file could not be copied; it may have changed, or the disk be full"
            raise EngineError(words) from None
        try:
            return self._tried(text)
        except Unrunnable as reason:  # or the first reader of Parquet stopped at a row
            try:
                changed = [each.read_otherwise() for each in tables]
            except duckdb.Error:
                raise reason from None
            if not any(changed):
                raise
            return self._tried(text)

    def _tried(self, written: str) -> list[Record]:
        """The rows of a statement's result by the readers as they are."""
        failed = "statement: DuckDB could not run it; its memory limit or the disk may be too small"
        try:
            return self._all(written)
        except duckdb.OperationalError:  # memory, disk
            raise EngineError(failed) from None
        except (duckdb.Error, OSError, ValueError):
            raise Unrunnable(failed) from None

    def _all(self, written: str) -> list[Record]:
        """The rows; in a thread of its own, since DuckDB, while it waits for its work, may see no signal at all."""
        if threading.current_thread() is not threading.main_thread():  # signals come to the main one
            return self._connection.execute(written).fetchall()
        rows: list[Record] = []
        failures: list[BaseException] = []
        done = threading.Event()  # joining a thread, a signal may make it seem to have ended

        def work() -> None:
            try:
                rows.extend(self._connection.execute(written).fetchall())
            except BaseException as failure:
                failures.append(failure)
            finally:
                done.set()

        worker = threading.Thread(target=work, daemon=True)
        try:
            worker.start()
            while not done.wait(_PATIENCE):
                pass
        except BaseException:
            self._end(worker, done)
            raise
        if failures:
            raise failures[0]
        return rows

    def _end(self, worker: threading.Thread, done: threading.Event) -> None:
        """End a statement after a signal, whatever further ones come; one that has not begun notices no interrupt."""
        while True:
            try:
                done.wait(_PATIENCE)
                while worker.is_alive() and not done.is_set():
                    self._connection.interrupt()
                    done.wait(_PATIENCE)
                return
            except KeyboardInterrupt:
                continue

    def close(self) -> None:
        """Let go of the table, and of what did not fit into memory."""
        self._connection.close()
        self._clean()


_NULL, _THERE = "-", "="  # before a value, which is written into the statement
_SEPARATORS = (0x1F, *range(0xE000, 0xF900))  # one that no text holds
_TYPES = {
    Family.NUMBER: "DOUBLE",
    Family.TEXT: "TEXT",
    Family.UNTYPED: "TEXT",
    Family.DATE: "DATE",
    Family.BOOLEAN: "BOOLEAN",
}


def public_table(place: Place, given: Any, dialect: Dialect, database: str) -> Further:
    """A public file, or a table in memory, as one of constants: for each column one text, which the engine splits.

    Instants are timestamps in UTC. A private table must be one of the database.
    """
    from rangebound.release.engine.duckdb import DuckDB

    if not place.public:
        rule = f"a private table that is joined must be one of {database}, as the plan's own is"
        raise PlanError(f"{place.field}: {rule}", field=place.field)
    with DuckDB(given if place.path is None else place.source, field=place.field) as engine:
        schema = engine.schema()
        instants = schema.instants if isinstance(schema, TypedSchema) else ()
        used = {**schema, **dict.fromkeys(instants, Family.TIMESTAMP)}
        families = {name: each for name, each in used.items() if each is not Family.OTHER}
        names = [exp.column(exp.to_identifier(name, quoted=True)) for name in families]
        rows = engine.run(exp.select(*names).from_(engine.source.copy()))
    columns = list(zip(*rows, strict=True)) or [()] * len(families)
    for (name, family), column in zip(families.items(), columns, strict=True):
        if family is Family.INTEGER and any(abs(each) > dialect.most_whole for each in column if each is not None):
            rule = f"has a whole number beyond {dialect.most_whole:.2g}, for which {database} has no type"
            raise PlanError(f"{place.field}: the public column {name!r} {rule}", field=place.field)
    return Further(source=_constants(families, columns, dialect), schema=schema)


def _constants(families: Schema, columns: Sequence[Sequence[Any]], dialect: Dialect) -> exp.Select:
    kinds = [_kind(family, column, dialect) for family, column in zip(families.values(), columns, strict=True)]
    if not columns or not columns[0]:
        empty = [_named(exp.Null(), kind, name, dialect) for name, kind in zip(families, kinds, strict=True)]
        return exp.select(*(empty or [exp.Literal.number("1")])).where(exp.false())
    texts = [[_NULL if each is None else _THERE + _spelled(each) for each in column] for column in columns]
    used = set().union(*(set(each) for column in texts for each in column))
    separator = next(chr(code) for code in _SEPARATORS if chr(code) not in used)
    places = [exp.to_identifier(f"c{at}", quoted=True) for at in range(len(texts))]
    joined = [separator.join(column) for column in texts]
    rows = dialect.unfolded([exp.to_identifier("i", quoted=True), *places], joined, separator)
    chosen = []
    for name, place, kind in zip(families, places, kinds, strict=True):
        this = exp.column(place.copy())
        there = exp.NEQ(this=this, expression=text(_NULL))
        rest = exp.Substring(this=this.copy(), start=exp.Literal.number("2"))
        chosen.append(_named(rest, kind, name, dialect, there))
    return exp.select(*chosen, copy=False).from_(rows.subquery("constants", copy=False), copy=False)


def _named(value: Tree, kind: str, name: str, dialect: Dialect, there: Tree | None = None) -> Tree:
    cast = exp.cast(value, kind, dialect=dialect.name)
    return exp.alias_(cast if there is None else choice((there, cast)), name, quoted=True)


def _kind(family: Family, values: Sequence[Any], dialect: Dialect) -> str:
    """The type that holds all values of a column."""
    there = [each for each in values if each is not None]
    if family is Family.INTEGER:
        return "BIGINT" if all(-(2**63) <= each < 2**63 for each in there) else dialect.decimal.format(0)
    if family is Family.DECIMAL:
        return dialect.decimal.format(max((-each.as_tuple().exponent for each in there), default=0))
    return dialect.timestamp if family is Family.TIMESTAMP else _TYPES[family]


def _spelled(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
