"""The engine for a plan's source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rangebound.errors import ArgumentError
from rangebound.release.plan.model import Source

if TYPE_CHECKING:
    from rangebound.release.engine.duckdb import DuckDB
    from rangebound.release.engine.spark import Spark


def opened(
    source: Source,
    *,
    folder: Path = Path(),
    spark: str | None = None,
    threads: int | None = None,
    memory: str | None = None,
) -> DuckDB | Spark:
    """DuckDB for a file, Spark for a table on a server; `spark` takes the place of the plan's own address.

    Edge cases: a relative path counts from `folder`; threads and memory are DuckDB's, a cluster has its own.
    """
    address = spark or source.spark
    if address is None:
        from rangebound.release.engine.duckdb import DuckDB

        file = source.model_copy(update={"path": str(folder / (source.path or ""))})
        return DuckDB(file, threads=threads, memory=memory)
    if source.table is None or source.path is not None:
        raise ArgumentError("source: must name a table, and no path, to be read from Spark")
    if threads is not None or memory is not None:
        raise ArgumentError("threads, memory: are settings of DuckDB; a Spark server has its own")
    from rangebound.release.engine.spark import Spark

    return Spark.connect(address, source.table)
