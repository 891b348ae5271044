"""Tables on a cluster: Spark SQL."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from rangebound.errors import ArgumentTypeError, EngineError, MissingExtra
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


class Spark:
    """A Spark data frame, classic or through Spark Connect.

    Assumes: the data frame gives the same rows whenever it is read within one release.
    Edge cases: a timestamp's day is its day in the time zone of the session; set it to UTC to match other engines.
    """

    dialect = "spark"

    def __init__(self, frame: Any) -> None:
        try:
            import pyspark
        except ImportError:
            raise MissingExtra("pyspark is not installed: pip install 'rangebound[spark]'") from None
        del pyspark
        if not hasattr(frame, "createOrReplaceTempView"):
            raise ArgumentTypeError(f"frame=<{type(frame).__name__}>: must be a Spark data frame")
        self._frame = frame
        self._session = frame.sparkSession
        name = f"rangebound_source_{id(self):x}"
        frame.createOrReplaceTempView(name)
        self.source = exp.to_table(name)

    def schema(self) -> Schema:
        """The names and families of the columns; reads no data."""
        return {name: _FAMILIES.get(kind.partition("(")[0], Family.OTHER) for name, kind in self._frame.dtypes}

    def run(self, statement: exp.Expr) -> list[tuple[Any, ...]]:
        """The rows of a statement's result."""
        from pyspark.errors import PySparkException

        try:
            return [tuple(row) for row in self._session.sql(statement.sql(self.dialect)).collect()]
        except PySparkException:
            raise EngineError("statement: Spark could not run it; its own logs say why") from None
