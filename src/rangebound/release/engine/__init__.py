"""Where the data are: an engine tells the schema of a table and runs statements on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rangebound.errors import ArgumentError
from rangebound.release.engine.interface import Engine
from rangebound.release.plan.source import Source

if TYPE_CHECKING:
    from rangebound.release.engine.duckdb import DuckDB
    from rangebound.release.engine.postgres import Postgres
    from rangebound.release.engine.spark import Spark

__all__ = ["Engine", "opened"]


def opened(
    source: Source,
    *,
    folder: Path = Path(),
    spark: str | None = None,
    postgres: str | None = None,
    threads: int | None = None,
    memory: str | None = None,
    timeout: float | None = None,
) -> DuckDB | Postgres | Spark:
    """DuckDB for a file, PostgreSQL or Spark for a table of a server; `spark`, `postgres` replace the plan's address.

    Edge cases: a relative path counts from `folder`; threads and memory are DuckDB's, and the time-out is PostgreSQL's.
    """
    server = spark or source.spark
    database = postgres or source.postgres
    if timeout is not None and database is None:
        raise ArgumentError("timeout: is a setting of PostgreSQL alone")
    if server is None and database is None:
        from rangebound.release.engine.duckdb import DuckDB

        file = source.model_copy(update={"path": str(folder / (source.path or ""))})
        return DuckDB(file, threads=threads, memory=memory)
    if server is not None and database is not None:
        raise ArgumentError("source: must name one place, a database of PostgreSQL or a server of Spark")
    name = "Spark" if database is None else "PostgreSQL"
    if source.table is None or source.path is not None:
        raise ArgumentError(f"source: must name a table, and no path, to be read from {name}")
    if threads is not None or memory is not None:
        raise ArgumentError(f"threads, memory: are settings of DuckDB; a {name} server has its own")
    if database is not None:
        from rangebound.release.engine.postgres import Postgres

        return Postgres(database, source.table, timeout=timeout)
    assert server is not None
    from rangebound.release.engine.spark import Spark

    return Spark.connect(server, source.table)
