"""Tables in a SQLite file of the tests, filled with the rows of an Arrow table, for the engine that is an example."""

import atexit
import datetime
import itertools
import sqlite3
import tempfile
from pathlib import Path

import pyarrow as pa

from tests.release.sqlite_engine import SQLite

_FOLDER = tempfile.TemporaryDirectory(prefix="rangebound-sqlite-")
atexit.register(_FOLDER.cleanup)
_FILE = str(Path(_FOLDER.name) / "t.db")
_NUMBER = itertools.count()
_TYPES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "TEXT",
    pa.large_string(): "TEXT",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
}


def made(table):
    """The name of a new table with the rows of an Arrow table."""
    name = f"t{next(_NUMBER)}"
    columns = ['"' + each.name.replace('"', '""') + f'" {_TYPES[each.type]}' for each in table.schema]
    rows = zip(*(map(_plain, column.to_pylist()) for column in table.columns), strict=True)
    with sqlite3.connect(_FILE) as base:
        base.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        base.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * table.num_columns)})", rows)
    base.close()
    return name


def _plain(value):
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    return value.isoformat() if isinstance(value, datetime.date) else value


def on_sqlite(table):
    return SQLite(_FILE, made(table))
