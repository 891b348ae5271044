"""A table as the statements of a DuckDB connection see it: every damaged value in it is a missing one."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from rangebound.errors import ArgumentError, EngineError, PlanError
from rangebound.release.engine.frame import Unchecked, as_arrow, own_types, unchecked
from rangebound.release.engine.text_file import (
    MOST_BYTES,
    check_sheet,
    copy_clean,
    delimiter_of,
    header,
    quote_of,
    sheet_header,
    sheet_rows,
    write_rows,
)
from rangebound.release.plan.source import WORKBOOKS, Source, TextFormat
from rangebound.release.plan.table_schema import Family, Schema, TypedSchema
from rangebound.values.extras import need

_RAW, _VIEW, _OTHERWISE, _FILE = "rangebound_raw", "rangebound_source", "rangebound_otherwise", "file"
_BARE = "rangebound_bare"
# Columns as statements see them. A text may have an order of its own, to which different texts are one, and which its
# type does not show: here texts are the same only byte by byte. A time that counts no microseconds is missing, and so
# is a decimal with too many digits, at which DuckDB may stop, and a text that is not UTF-8: sorted with other columns,
# it would change those. DuckDB checks the texts of files itself.
# A number of 128 bits without a sign is compared with others as a double, or not at all: it is a text, such as an id.
_SEEN = {
    "UHUGEINT": "CAST({} AS VARCHAR)",
    "VARCHAR": 'TRY(decode(encode(CAST({} AS VARCHAR)))) COLLATE "binary"',
    "TIMESTAMP_S": "TRY(CAST({} AS TIMESTAMP))",
    "TIMESTAMP_MS": "TRY(CAST({} AS TIMESTAMP))",
    "TIMESTAMP WITH TIME ZONE": "TRY(make_timestamp(epoch_us({})))",  # in UTC, whatever the zone of the session
}
_CHECKED = {**_SEEN, "VARCHAR": 'CAST({} AS VARCHAR) COLLATE "binary"'}
_UNCHECKED = {**_SEEN, "BLOB": "CAST(hex({}) AS UUID)"}  # of 16 bytes: the second reader of Parquet hands on no others
_INSTANT = "TIMESTAMP WITH TIME ZONE"
_LAZY = ("read_next_batch", "to_table", "collect")  # readers, datasets and scanners of Arrow, lazy frames of Polars
_FAMILIES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), Family.INTEGER),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), Family.INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE"), Family.NUMBER),
    "DECIMAL": Family.DECIMAL,
    **dict.fromkeys(("VARCHAR", "ENUM", "UUID"), Family.TEXT),
    "DATE": Family.DATE,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), Family.TIMESTAMP),
    "BOOLEAN": Family.BOOLEAN,
}


class SeenTable:
    """A file or a table in memory, under names of its own that end in a suffix; `field` is its name in errors.

    `files` are the DuckDB files that the connection has attached, by path, with their names there; `folder` is for
    copies.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        files: dict[str, str],
        data: Any,
        *,
        suffix: str,
        field: str,
        folder: str,
    ) -> None:
        self._connection, self._files, self._field, self._folder = connection, files, field, Path(folder)
        self._raw, self._second, self._file, self._bare = (name + suffix for name in (_RAW, _OTHERWISE, _FILE, _BARE))
        self.source = exp.to_table(_VIEW + suffix)
        self._otherwise: dict[str, str] = {}  # what the second reader of a Parquet file gives for each column
        self.alone: frozenset[str] = frozenset()  # columns that only that one reads
        self._hidden: dict[str, str] = {}  # columns that no statement can use, with their types
        self._instants: dict[str, str] = {}  # columns of times with a zone, with their types; statements see UTC
        self._form: TextFormat | None = None  # of a file whose columns have no types
        self._load: Callable[[], None] | None = None  # brings the rows of such a file
        try:
            self._show_all(data)
        except (duckdb.Error, TypeError):
            if isinstance(data, Source) and data.table is not None:
                rule = f"DuckDB finds no such table in {data.path!r}, or cannot read that file"
                raise EngineError(f"{field}.table={data.table!r}: {rule}") from None
            file = "; a file is Source(path=...)" if isinstance(data, str | Path) else ""
            which = "data" if field == "source" else field
            raise EngineError(f"{which}={_shown(data)}: DuckDB cannot read this as a table{file}") from None

    def _show_all(self, data: Any) -> None:
        """Let statements see the columns of the data, in which every damaged value is a missing one."""
        if isinstance(data, Source):
            raw = self._attach(data)
            kinds = self._types(raw)
            shown = {name: _seen(name, kind, _CHECKED) for name, kind in kinds.items()}
            self._instants = {name: str(kind) for name, kind in kinds.items() if _base(kind) == _INSTANT}
            if data.table is None and _is_parquet(data.path):
                shown = self._by_both(unchecked(str(Path(data.path or "").absolute())), kinds, shown)
            return self._show(raw, shown)
        if any(hasattr(type(data), name) for name in _LAZY):
            rule = "can be read only once, or computes as it is read and may fail at a row; make a table of it"
            raise ArgumentError(f"{'data' if self._field == 'source' else self._field}={_shown(data)}: {rule}")
        table, digits, instants = as_arrow(data)
        named, gone = own_types(data), enumerate(table.schema)  # nulls are integers before DuckDB 2.0
        self._hidden = {field.name: named[at] for at, field in gone if str(field.type) == "null"}
        self._connection.register(self._raw, table)
        raw = exp.to_table(self._raw)
        given = list(enumerate(self._types(raw).items()))
        self._instants = {name: named[at] for at, (name, _) in given if at in instants}
        coarse = {at: f"TRY(CAST({_named(name)} AS TIMESTAMP))" for at, (name, _) in given if at in instants}
        shown = {name: coarse.get(at) or _seen(name, kind, _SEEN, digits.get(at)) for at, (name, kind) in given}
        return self._show(raw, shown)

    def _by_both(self, second: Unchecked, kinds: Mapping[str, Any], shown: Mapping[str, str]) -> dict[str, str]:
        """The columns of a Parquet file that both readers see as the same type; the others are hidden."""
        names, other = list(kinds), exp.to_table(self._second)
        if second.places:
            self._connection.register(self._second, second.data)
            for place, (name, kind) in zip(second.places, self._types(other).items(), strict=True):
                self._otherwise[names[place]] = _seen(name, kind, _UNCHECKED, second.digits.get(place))
            self._show(other, self._otherwise)
            after = self._types(self.source)
            self._show(exp.to_table(self._raw), shown)
            before = self._types(self.source)
            self._otherwise = {
                name: text for name, text in self._otherwise.items() if str(before[name]) == str(after[name])
            }
        self.alone = frozenset(names[place] for place in second.alone) & self._otherwise.keys()
        self._hidden = {name: str(kinds[name]) for name in names if name not in self._otherwise}
        return {name: shown[name] for name in self._otherwise}

    def _attach(self, data: Source) -> exp.Table:
        raw = exp.to_table(self._raw)
        if data.path is None:
            raise ArgumentError(
                f"{self._field}.path=None: DuckDB reads files; a table of a Spark server needs `Spark.connect`"
            )
        path = Path(data.path)
        if not path.exists():
            raise PlanError(f"{self._field}.path={data.path!r}: there is no such file", field=f"{self._field}.path")
        plain = str(path.absolute())  # else "~" would be a folder of the user, and "a:" a place on a network
        if data.untyped and (data.table is None or path.suffix.lower() in WORKBOOKS):
            self._texts(data, path)
        elif data.table is not None:
            name = exp.to_identifier(self._files.get(plain, self._file), quoted=True)
            if plain not in self._files:
                self._connection.execute(f"ATTACH {_quoted(plain)} AS {name.sql('duckdb')} (READ_ONLY)")
                self._files[plain] = self._file
            return exp.table_(exp.to_identifier(data.table, quoted=True), db=name)
        elif _is_parquet(data.path):
            need("pyarrow", what=f"{self._field}.path={data.path!r}")  # else one row could stop the release
            # A file's own word about its smallest and largest numbers leaves out NaN, and must not be taken for all.
            scan = f"read_parquet({_quoted(glob.escape(plain))}, hive_partitioning = false, can_have_nan = true)"
            self._connection.execute(f"CREATE OR REPLACE VIEW {self._raw} AS FROM {scan}")
        else:
            rule = "must end in .csv, .tsv, .xlsx or .parquet; for a DuckDB file name its table too"
            raise PlanError(f"{self._field}.path={data.path!r}: {rule}", field=f"{self._field}.path")
        return raw

    def _show(self, raw: exp.Table, columns: Mapping[str, str]) -> None:
        """Let statements see columns of these names, each made of the table's by an expression."""
        chosen = [f"{text} AS {_named(name)}" for name, text in columns.items()] or ["NULL"]
        rows = f"SELECT {', '.join(chosen)} FROM {raw.sql('duckdb')}"
        self._connection.execute(f"CREATE OR REPLACE VIEW {self.source.name} AS {rows}")

    def bare(self) -> str:
        """The name of an empty table of the same columns; DuckDB would drop all that reads `WHERE false`."""
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {self._bare} AS FROM {self.source.name} WHERE false")
        return self._bare

    def _types(self, table: exp.Table) -> dict[str, Any]:
        """The names and types of a table's columns; reads no data."""
        found = self._connection.sql(exp.select("*").from_(table.copy()).limit(0).sql("duckdb"))
        return dict(zip(found.columns, found.types, strict=True))

    def read_otherwise(self) -> bool:
        """Read a Parquet file by pyarrow from now on, and say whether that is new."""
        if not self._otherwise:
            return False
        self._show(exp.to_table(self._second), self._otherwise)
        self._otherwise, self.alone = {}, frozenset()
        return True

    def _texts(self, data: Source, path: Path) -> None:
        """Let the columns of a file without types be seen, which all are texts; its rows are there after `load`."""
        form = TextFormat(**data.text_fields)
        book = path.suffix.lower() in WORKBOOKS

        def names() -> list[str]:
            return sheet_header(path, data.table, form, self._field) if book else header(path, form, self._field)

        found, copy = names(), self._folder / f"{self._raw}.csv"
        if book:
            check_sheet(path, data.table, self._field)
        options: dict[str, Any] = {"header": True, "auto_detect": False, "columns": dict.fromkeys(found, "VARCHAR")}
        options |= {"sep": "," if book else delimiter_of(path, form), "quotechar": quote_of(form)}
        options |= {"escapechar": quote_of(form), "max_line_size": MOST_BYTES, "buffer_size": 2 * MOST_BYTES}
        # Strict, the reader stops at a quoted carriage return; in parallel, at a quoted line break.
        options |= {"strict_mode": False, "parallel": False, "hive_partitioning": False}

        def load() -> None:
            if names() != found:
                raise OSError("the file has another header than before")
            if book:
                write_rows(sheet_rows(path, data.table, form, len(found)), found, copy)
            else:
                copy_clean(path, form, found, copy)
            self._connection.read_csv(glob.escape(str(copy)), **options).create_view(self._raw)

        self._form, self._load = form, load
        columns = ", ".join(f"CAST(NULL AS VARCHAR) AS {_named(name)}" for name in found)
        self._connection.execute(f"CREATE OR REPLACE VIEW {self._raw} AS SELECT {columns} WHERE false")

    def is_in(self, written: str) -> bool:
        """Whether a statement names the table; the name of another one may begin with this name."""
        return re.search(rf"\b{self.source.name}\b", written) is not None

    def load(self) -> None:
        """Bring the rows of a file without types, before the first statement that names the table."""
        if self._load is not None:
            self._load()
            self._load = None

    def schema(self) -> Schema:
        """The names and families of the columns; reads no data."""
        try:
            found = self._types(self.source)
        except duckdb.Error:
            raise EngineError(f"source={self.source.name!r}: DuckDB has no such table") from None
        if self._form is not None:
            return TypedSchema(dict.fromkeys(found, Family.UNTYPED), types={}, forms=dict.fromkeys(found, self._form))
        families = {name: _FAMILIES.get(str(kind.id).upper(), Family.OTHER) for name, kind in found.items()}
        own = {name: str(kind) for name, kind in found.items() if families[name] is Family.OTHER}
        own |= {**self._instants, **self._hidden}
        instants = [name for name in self._instants if name not in self._hidden]
        return TypedSchema({**families, **dict.fromkeys(own, Family.OTHER)}, types=own, instants=instants)


def _is_parquet(path: str | None) -> bool:
    return Path(path or "").suffix.lower() in (".parquet", ".pq")


def _named(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql("duckdb")


def _base(kind: Any) -> str:
    """The name of a type of DuckDB, without its parameters."""
    return str(kind.id).upper()


def _seen(name: str, kind: Any, seen: Mapping[str, str], digits: int | None = None) -> str:
    """A column of a type as statements see it; `digits` are those of a decimal whose type does not say it."""
    base = _base(kind)
    if base != "DECIMAL":
        return seen.get(base, "{}").format(_named(name))
    given, scale = (value for _, value in kind.children)
    digits = min(digits or given, given)
    most = f"CAST('{'9' * (digits - scale)}.{'9' * scale}' AS {kind})"
    column = _named(name)
    within = f"CASE WHEN {column} BETWEEN -{most} AND {most} THEN {column} END"
    return f"CAST({within} AS DECIMAL({digits}, {scale}))"


def _quoted(text: str) -> str:
    return exp.Literal.string(text).sql("duckdb")


def _shown(data: Any) -> str:
    return repr(data.path) if isinstance(data, Source) else f"<{type(data).__name__}>"
