"""The same rows in every engine, by every way to bring a table along.

Rows are mappings; `types` gives each column its type in Arrow and in Spark. `there` is the folder for files, a Spark
session, or the address of a server.
"""

import csv

import duckdb
import pandas
import pyarrow as pa
from pyarrow import parquet

from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.plan.source import Source
from tests.release.postgres_tables import on_postgres


def table(rows, types):
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, (kind, _) in types.items()})


def in_arrow(rows, types, there=None):
    return DuckDB(table(rows, types), threads=1)


def in_parquet(rows, types, there):
    parquet.write_table(table(rows, types), there / "t.parquet")
    return DuckDB(Source(path=str(there / "t.parquet")), threads=1)


def in_pandas(rows, types, there=None):
    return DuckDB(table(rows, types).to_pandas(types_mapper=pandas.ArrowDtype), threads=1)


def in_csv(rows, types, there):
    with (there / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(types))
        writer.writeheader()
        writer.writerows(rows)
    return DuckDB(Source(path=str(there / "t.csv")), threads=1)


def in_duckdb(rows, types, there):
    path = there / "t.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as base:
        base.register("given", table(rows, types))
        base.execute("CREATE TABLE t AS FROM given")
    return DuckDB(Source(path=str(path), table="t"), threads=1)


def in_spark(rows, types, there):
    schema = ", ".join(f"{name} {kind}" for name, (_, kind) in types.items())
    return Spark(there.createDataFrame([tuple(row.values()) for row in rows], schema))


def in_postgres(rows, types, there):
    return on_postgres(there, table(rows, types))


SOURCES = {
    "arrow": in_arrow,
    "parquet": in_parquet,
    "pandas": in_pandas,
    "csv": in_csv,
    "duckdb": in_duckdb,
    "spark": in_spark,
    "postgres": in_postgres,
}


def place_of(source, request):
    """Where the tables of a source lie, for a test: a folder, a session or an address."""
    return request.getfixturevalue({"spark": "spark", "postgres": "postgres"}.get(source, "tmp_path"))
