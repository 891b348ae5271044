"""Tables in a PostgreSQL server of the tests, filled with the rows of an Arrow table."""

import contextlib
import itertools

import pyarrow as pa

from rangebound.release.engine.postgres import Postgres

_NUMBER = itertools.count()
_TYPES = {
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.large_string(): "text",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def made(address, table, types=None):
    """The name of a new table with the rows of an Arrow table; `types` are PostgreSQL's own names for some columns."""
    import psycopg

    name = f"t{next(_NUMBER)}"
    kinds = {each.name: (types or {}).get(each.name) or _kind(each.type) for each in table.schema}
    columns = ", ".join(f"{quoted(each)} {kind}" for each, kind in kinds.items())
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE TABLE {name} ({columns})")
        with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copy.write_row(row)
    return f"public.{name}"


def _kind(kind):
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    return _TYPES[kind]


def on_postgres(address, table, types=None, **options):
    return Postgres(address, made(address, table, types), **options)


@contextlib.contextmanager
def database(address):
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        yield connection
