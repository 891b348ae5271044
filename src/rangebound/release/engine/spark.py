"""Tables on a cluster: Spark SQL."""

from __future__ import annotations

import importlib.util
import socket
from typing import Any, Self
from urllib.parse import urlsplit

from sqlglot import exp

from rangebound import arguments
from rangebound.errors import ArgumentError, ArgumentTypeError, EngineError, MissingExtra
from rangebound.release.schema import Family, Schema

_FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Family.INTEGER),
    **dict.fromkeys(("float", "double", "decimal"), Family.NUMBER),
    **dict.fromkeys(("string", "char", "varchar"), Family.TEXT),
    "date": Family.DATE,
    "timestamp": Family.TIMESTAMP,
    "timestamp_ntz": Family.TIMESTAMP,
    "boolean": Family.BOOLEAN,
}


_PORT = 15002  # of Spark Connect, where an address has none
_PATIENCE = 10.0  # seconds for a server to answer at all; Spark itself would try for minutes


class Spark:
    """A Spark data frame, classic or through Spark Connect.

    Assumes: the data frame gives the same rows whenever it is read within one release.
    Edge cases: a timestamp's day is its day in the time zone of the session; set it to UTC to match other engines.
    """

    dialect = "spark"

    def __init__(self, frame: Any) -> None:
        _require("pyspark")
        if not hasattr(frame, "createOrReplaceTempView"):
            raise ArgumentTypeError(f"frame=<{type(frame).__name__}>: must be a Spark data frame")
        self._frame = frame
        self._session = frame.sparkSession
        self._own = False
        name = f"rangebound_source_{id(self):x}"
        frame.createOrReplaceTempView(name)
        self.source = exp.to_table(name)

    @classmethod
    def connect(cls, address: str, table: str) -> Self:
        """A table of a Spark Connect server, such as `Spark.connect("sc://host:15002", "clinic.visits")`.

        The session is our own: its time zone is UTC, and it ends with `close`.
        """
        plain = _answering(address)
        _require("pyspark", "grpc", "grpc_status")
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        try:
            session = SparkSession.builder.remote(address).create()
        except PySparkException:
            raise EngineError(f"spark={plain}: the server there opens no session") from None
        try:
            session.conf.set("spark.sql.session.timeZone", "UTC")
            found = cls(session.table(table))
        except PySparkException:
            session.stop()  # left open, it would hold up the end of the process
            raise EngineError(f"table={table!r}: the Spark server at {plain} cannot give this table") from None
        found._own = True
        return found

    def schema(self) -> Schema:
        """The names and families of the columns; reads no data."""
        from pyspark.errors import PySparkException

        try:
            kinds = self._frame.dtypes
        except PySparkException:
            raise EngineError("frame: Spark cannot tell its columns; is the table still there?") from None
        return {name: _FAMILIES.get(kind.partition("(")[0], Family.OTHER) for name, kind in kinds}

    def run(self, statement: exp.Expr) -> list[tuple[Any, ...]]:
        """The rows of a statement's result."""
        from pyspark.errors import PySparkException

        try:
            return [tuple(row) for row in self._session.sql(statement.sql(self.dialect)).collect()]
        except PySparkException:
            raise EngineError("statement: Spark could not run it; its own logs say why") from None

    def close(self) -> None:
        """Let go of the table, and of the session if it is our own."""
        if self._own:
            self._session.stop()
        else:
            self._session.catalog.dropTempView(self.source.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _require(*modules: str) -> None:
    """Look before an import: without grpc, pyspark ends the whole process."""
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(f"{name} is not installed: pip install 'rangebound[spark]'")


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
        raise EngineError(f"spark={plain}: no server answers there") from None
    return plain
