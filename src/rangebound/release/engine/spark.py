"""Tables on a cluster: Spark SQL."""

from __future__ import annotations

import importlib.util
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlsplit

from sqlglot import exp

from rangebound.errors import ArgumentError, ArgumentTypeError, EngineError, PlanError, RangeboundError
from rangebound.release.engine.dialect import Dialect, Tree, call, term, text
from rangebound.release.engine.interface import Engine, Further, Place, Record, Unrunnable
from rangebound.release.engine.local_spark import local_session
from rangebound.release.engine.public_table import public_table
from rangebound.release.plan.table_schema import Family, Schema, TypedSchema
from rangebound.values import arguments
from rangebound.values.extras import need

__all__ = ["Spark", "local_session"]

_FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Family.INTEGER),
    **dict.fromkeys(("float", "double"), Family.NUMBER),
    "decimal": Family.DECIMAL,
    **dict.fromkeys(("string", "char", "varchar"), Family.TEXT),
    "date": Family.DATE,
    "timestamp_ntz": Family.TIMESTAMP,
    "boolean": Family.BOOLEAN,
}


_INSTANT, _UTC = "timestamp", "TIMESTAMP_NTZ '1970-01-01 00:00:00' + unix_micros({}) * INTERVAL '0.000001' SECOND"
_TALKING = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_PORT = 15002  # of Spark Connect, where an address has none
# Settings of a session that change what a statement means, and the only values with which ours mean what they say.
_MEANING = {"spark.sql.parser.quotedRegexColumnNames": "false"}  # else the name of a column is a pattern for others
_PATIENCE = 10.0  # seconds for a server to answer at all; Spark itself would try for minutes
SUBSTITUTED = "${"
"""Spark puts settings and variables of its machine here, before it reads a statement."""
_PLAIN = re.compile(r"[A-Za-z0-9 .:_+-]*")


class _Spark(Dialect):
    name = "spark"
    wide = "DECIMAL(28, 0)"
    most_whole = 10**38 - 1
    timestamp = "TIMESTAMP_NTZ"

    def written(self, tree: Tree) -> str:
        found = tree.transform(_spelled).sql(self.name)
        if SUBSTITUTED in found:
            raise EngineError(f"statement: must not hold {SUBSTITUTED!r}, which Spark replaces; rename the column")
        return found

    def misfit(self, name: str) -> str:
        rule = f"the name of a column must not hold {SUBSTITUTED!r}, which Spark replaces"
        return rule if SUBSTITUTED in name else ""

    def hexadecimal(self, digits: Tree) -> Tree:
        return term("CAST(CONV(:digits, 16, 10) AS BIGINT)", digits=digits)

    def start(self, day: Tree, period: str) -> Tree:
        return call("TRUNC", day, text(period))

    def unfolded(
        self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str, count: int | None
    ) -> exp.Select:
        lists = [] if count is None else [term(f"SEQUENCE(0, {count - 1})")]
        lists += [call("SPLIT", text(each), text(separator)) for each in texts]
        rows = call("INLINE", call("ARRAYS_ZIP", *lists))
        return exp.select(exp.Aliases(this=rows, expressions=list(names)), copy=False)

    def item(self, numbers: Sequence[str], place: Tree, *, whole: bool) -> Tree:
        kind = "ARRAY<DECIMAL(38, 0)>" if whole else "ARRAY<DOUBLE>"
        return call("ELEMENT_AT", exp.cast(call("SPLIT", text(" ".join(numbers)), text(" ")), kind), place)


def _spelled(tree: Tree) -> Tree:
    """A text by its bytes unless it is plain: how Spark reads quotes, backslashes and dollars depends on settings."""
    if not (isinstance(tree, exp.Literal) and tree.is_string) or _PLAIN.fullmatch(tree.this):
        return tree
    return exp.cast(exp.HexString(this=tree.this.encode().hex()), "TEXT")


SPARK = _Spark()


class Spark(Engine):
    """A Spark data frame, classic or through Spark Connect.

    Assumes: the data frame gives the same rows whenever it is read within one release.
    Guarantee: a text of a plan is a text to Spark, whatever the session's settings; nothing in it is ever replaced.
    Where `spark.sql.parser.quotedRegexColumnNames` makes names of columns patterns, a session is refused.
    Edge cases: a `timestamp` of Spark is an instant, which a plan with a `zone` reads as local time there, whatever the
    time zone of the session; a `timestamp_ntz` is read as it is. Columns with a collation, and those with "${" in
    their names, cannot be used. A text that is not UTF-8 is missing from Spark 4 on; before, such texts may come
    back as the same key.
    """

    dialect = SPARK

    def __init__(self, frame: Any) -> None:
        need("pyspark")
        super().__init__()
        if not hasattr(frame, "createOrReplaceTempView"):
            raise ArgumentTypeError(f"frame=<{type(frame).__name__}>: must be a Spark data frame")
        self._frame = frame
        self._session = frame.sparkSession
        _check_settings(self._session)
        self._address: str | None = None  # of a server, where the session is our own
        self._shown = _readable(frame)
        self._further: dict[Place, Any] = {}
        self._with_rows: bool | None = None  # whether statements see the rows of private tables, where that is known
        name = f"rangebound_source_{id(self):x}"
        self._shown.createOrReplaceTempView(name)
        self.source = exp.to_table(name)

    @classmethod
    def connect(cls, address: str, table: str) -> Self:
        """A table of a Spark Connect server, such as `Spark.connect("sc://host:15002", "clinic.visits")`.

        The session is our own: its time zone is UTC, and it ends with `close`.
        """
        need("pyspark", "grpc", "grpc_status")  # without grpc, pyspark ends the whole process
        plain = _answering(address)
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        try:
            session = SparkSession.builder.remote(address).create()
        except PySparkException:
            raise EngineError(f"spark={plain}: the server there did not open a session", away=True) from None
        try:
            for name, value in {"spark.sql.session.timeZone": "UTC", **_MEANING}.items():
                session.conf.set(name, value)
            found = cls(session.table(table))
        except PySparkException:
            session.stop()  # left open, it would hold up the end of the process
            raise EngineError(f"table={table!r}: the Spark server at {plain} cannot give this table") from None
        found._address = address
        return found

    def schema(self) -> Schema:
        """The names and families of the columns; reads no data."""
        from pyspark.errors import PySparkException

        try:
            kinds = self._frame.dtypes
        except PySparkException:
            raise EngineError("frame: Spark cannot tell its columns; is the table still there?") from None
        return _families(kinds)

    def _opened(self, place: Place, given: Any) -> Further:
        """A further table: one that was given under its name, one of the session, or a public file of this machine."""
        frame, schema = self._read(place, given)
        table = exp.to_table(f"rangebound_further_{id(self):x}_{len(self._further)}")
        self._further[place] = _readable(frame)
        self._further[place].createOrReplaceTempView(table.name)
        self._with_rows = None
        return Further(source=table, schema=schema)

    def _read(self, place: Place, given: Any) -> tuple[Any, Schema]:
        """A frame of a further table, and its columns."""
        from pyspark.errors import PySparkException

        if place.path is not None or (given is not None and not hasattr(given, "createOrReplaceTempView")):
            found = public_table(place, given, SPARK, "Spark")
            return self._query(self.written(found.source)), found.schema
        try:
            frame = self._session.table(place.table) if given is None else given
            return frame, _families(frame.dtypes)
        except PySparkException:
            rule = "Spark cannot give this table"
            raise PlanError(f"{place.field}.table={place.table!r}: {rule}", field=f"{place.field}.table") from None

    def _stored(self, rows: exp.Select, number: int) -> exp.Table:
        table = exp.to_table(f"rangebound_copy_{id(self):x}_{number}")
        self._query(self.written(rows)).createOrReplaceTempView(table.name)
        return table

    def rehearse(self, text: str) -> None:
        """Run the text of a statement on private tables without their rows, which come back with the next `run`."""
        _check_settings(self._session)
        self._show(rows=False)
        self._collected(text)

    def _rows(self, text: str) -> list[Record]:
        self._show(rows=True)
        return self._collected(text)

    def _show(self, *, rows: bool) -> None:
        """Let statements see the rows of private tables, or none; what they see after an interrupt is not known."""
        if self._with_rows is not rows:
            self._with_rows = None
            others = {each.source.name: self._further[at] for at, each in self._others.items() if not at.public}
            with _reported(self._address):
                for name, frame in {self.source.name: self._shown, **others}.items():
                    (frame if rows else _without_rows(frame)).createOrReplaceTempView(name)
            self._with_rows = rows

    def _collected(self, text: str) -> list[Record]:
        found = self._query(text)
        with _reported(self._address):
            return [tuple(row) for row in found.collect()]

    def _query(self, text: str) -> Any:
        """A statement as a data frame, which is not computed yet."""
        with _reported(self._address):
            return self._session.sql(text)

    def close(self) -> None:
        """Let go of the table, and of the session if it is our own."""
        if self._address is not None:
            self._session.stop()
        else:
            for each in (self.source, *self._copies.values(), *(other.source for other in self._others.values())):
                self._session.catalog.dropTempView(each.name)


def _check_settings(session: Any) -> None:
    """Refuse a session of the user in which statements would mean something else."""
    for name, needed in _MEANING.items():
        found = session.conf.get(name, needed)
        if found != needed:
            rule = f"with {found!r} our statements mean something else; run spark.conf.set({name!r}, {needed!r})"
            raise EngineError(f"frame: its session has {name}: {rule}")


def _readable(frame: Any) -> Any:
    """The frame without texts that are not valid UTF-8, and with instants as timestamps in UTC.

    Spark distinguishes such texts, but not in the results it returns.
    """
    from pyspark.sql import functions

    quoted = {name: "`" + name.replace("`", "``") + "`" for name, _ in frame.dtypes}
    seen = {name: functions.expr(_UTC.format(quoted[name])) for name, kind in frame.dtypes if kind == _INSTANT}
    if hasattr(functions, "try_validate_utf8"):  # from Spark 4 on
        texts = [name for name, kind in frame.dtypes if kind == "string"]
        seen |= {name: functions.try_validate_utf8(functions.col(quoted[name])) for name in texts}
    return frame.withColumns(seen) if seen else frame


def _without_rows(frame: Any) -> Any:
    """A frame of the same columns without rows; Spark, which cannot see that, plans a statement as on the frame."""
    from pyspark.sql import functions

    if not frame.schema.fields:
        return frame.limit(0)
    row = functions.lit(None).cast(frame.schema)  # of an empty array a setting may say that it is one of texts
    rows = functions.slice(functions.array(row), 1, 0)
    return frame.sparkSession.range(0, 1, 1, 1).select(functions.inline(rows))


def _families(kinds: list[tuple[str, str]]) -> Schema:
    """The families of columns of a frame; one whose name Spark would replace cannot be used."""
    found = {name: _FAMILIES.get(kind.partition("(")[0], Family.OTHER) for name, kind in kinds}
    found |= {name: Family.OTHER for name in found if SUBSTITUTED in name}
    instants = [name for name, kind in kinds if kind == _INSTANT and SUBSTITUTED not in name]
    types = {name: kind for name, kind in kinds if found[name] is Family.OTHER}
    return TypedSchema(found, types=types, instants=instants)


@contextmanager
def _reported(address: str | None) -> Iterator[None]:
    """A failure of Spark, its Java or the way to its address in our words, which do not depend on the data."""
    from pyspark.errors import AnalysisException, ArithmeticException, ParseException

    try:
        with _silent():
            yield
    except RangeboundError:
        raise
    except Exception as reason:
        if address is not None:
            _answering(address)  # which says so where no server answers any more
        own = isinstance(reason, (AnalysisException, ArithmeticException, ParseException))
        kind = Unrunnable if own or "java.lang.StackOverflowError" in str(reason) else EngineError
        raise kind("statement: Spark could not run it; its own logs say why") from None


@contextmanager
def _silent() -> Iterator[None]:
    """Keep Spark's words about a failure, which may hold data, off the standard error."""
    if importlib.util.find_spec("pyspark.logger") is None:  # before Spark 4
        yield
        return
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in _TALKING]
    before = [each.disabled for each in loggers]
    for each in loggers:
        each.disabled = True
    try:
        yield
    finally:
        for each, was in zip(loggers, before, strict=True):
            each.disabled = was


def _answering(address: Any) -> str:
    """The address without its parameters, which may hold a token, once something listens there."""
    rule = 'must be the address of a Spark Connect server, such as "sc://host:15002"'
    plain = arguments.shown(address.partition(";")[0].rstrip("/")) if isinstance(address, str) else ""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or _PORT
    except (ValueError, AttributeError, TypeError):
        raise ArgumentError(f"spark={plain or type(address).__name__}: {rule}") from None
    if parts.scheme != "sc" or not host or parts.username is not None:
        raise ArgumentError(f"spark={plain}: {rule}")
    try:
        socket.create_connection((host, port), timeout=_PATIENCE).close()
    except OSError:
        raise EngineError(f"spark={plain}: no server answers there", away=True) from None
    return plain
