"""Tables in memory and Parquet files as Arrow, whose columns DuckDB reads without an error, whatever a row holds."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rangebound.values.extras import need

_WIDEST = {32: 9, 64: 18, 128: 38}  # digits of a decimal, by the bits of its type


def as_arrow(data: Any) -> tuple[Any, dict[int, int], frozenset[int]]:
    """A table in memory as an Arrow table, the digits of its decimal columns by their places, and those of instants.

    Guarantee: what becomes of a column follows from its type alone, and no value is an error. A column of a type that
    cannot be read whatever it holds is one of nulls. Objects of pandas are the texts that Python makes of them, and
    missing where it makes none that can be written, such as half of a surrogate pair; an index of a dictionary that has
    no entry is missing. Decimals come with all digits of their storage, so that one with too many is seen as such:
    DuckDB would leave what another row had in its place. Instants (times with a zone) come as times in UTC.
    Raises: TypeError for an object that is not a table.
    """
    need("pyarrow", what=f"data=<{type(data).__name__}>")
    import pyarrow

    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        columns = [_of_pandas(data.iloc[:, at]) for at in range(data.shape[1])]
        names = [str(name) for name in data.columns]
    elif isinstance(data, pyarrow.Table):  # as it is: older versions crash when they import their own string views
        columns, names = data.columns, data.column_names
    elif hasattr(data, "__arrow_c_stream__"):
        try:
            table = pyarrow.table(data)
        except (pyarrow.ArrowException, ValueError, KeyError):
            raise TypeError("has columns of a type that Arrow does not have") from None
        columns, names = table.columns, table.column_names
    else:
        raise TypeError("not a table")
    plain = [_plain(each) for each in columns]
    digits = {at: each.type.precision for at, each in enumerate(plain) if _is_decimal(each.type)}
    instants = frozenset(at for at, each in enumerate(columns) if is_instant(each.type))
    return pyarrow.Table.from_arrays([_wide(each) for each in plain], names=names), digits, instants


def own_types(data: Any) -> list[str]:
    """The types of the columns of a table that `as_arrow` has read, by their own names and in its order."""
    import pyarrow

    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return [str(data.iloc[:, at].dtype) for at in range(data.shape[1])]
    table = data if isinstance(data, pyarrow.Table) else pyarrow.table(data)
    return [str(field.type) for field in table.schema]


def _is_decimal(kind: Any) -> bool:
    """Whether a type is a decimal that DuckDB knows."""
    import pyarrow

    return pyarrow.types.is_decimal(kind) and kind.bit_width in _WIDEST and kind.scale >= 0


def known(kind: Any) -> bool:
    """Whether DuckDB reads every value of an Arrow type: numbers, texts, dates, times without a zone."""
    import pyarrow

    of = pyarrow.types
    numbers = (of.is_boolean, of.is_integer, of.is_float32, of.is_float64, _is_decimal)
    others = (of.is_string, of.is_large_string, of.is_string_view, of.is_date)
    zoneless = of.is_timestamp(kind) and kind.tz is None
    named = getattr(kind, "extension_name", "") in ("arrow.uuid", "arrow.bool8")
    return zoneless or named or any(test(kind) for test in (*numbers, *others))


def is_instant(kind: Any) -> bool:
    """Whether the values of an Arrow type, encoded in whatever way, are times with a zone."""
    import pyarrow

    of = pyarrow.types
    if of.is_dictionary(kind) or of.is_run_end_encoded(kind):
        return is_instant(kind.value_type)
    if isinstance(kind, pyarrow.BaseExtensionType):
        return is_instant(kind.storage_type)
    return of.is_timestamp(kind) and kind.tz is not None


def _plain(column: Any) -> Any:
    """A column without an encoding, of a type that DuckDB reads, or of nulls."""
    import pyarrow

    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    try:  # on no rows first: then it is the type that decides
        chunks = chunks or [pyarrow.array([], column.type)]
        _decoded(chunks[0].slice(0, 0))
    except (pyarrow.ArrowException, NotImplementedError, ValueError, TypeError):
        return pyarrow.nulls(len(column))
    return pyarrow.chunked_array([_decoded(each) for each in chunks])


def _decoded(values: Any) -> Any:
    import pyarrow
    from pyarrow import compute

    kind, of = values.type, pyarrow.types
    if of.is_string_view(kind):  # at which DuckDB before 2.0 may crash
        return values.cast(pyarrow.large_string())
    if known(kind):
        return values
    if of.is_timestamp(kind):  # DuckDB would stop at an instant in seconds that counts no microseconds
        return values.view(pyarrow.timestamp(kind.unit))
    if of.is_float16(kind):
        return values.cast(pyarrow.float32())
    if of.is_dictionary(kind):
        entries = _decoded(values.dictionary)
        there = compute.less(values.indices.cast(pyarrow.uint64(), safe=False), pyarrow.scalar(len(entries), "uint64"))
        indices = compute.if_else(there, values.indices, None)
        listed = entries.type in (pyarrow.string(), pyarrow.large_string())  # which DuckDB reads as they are
        return pyarrow.DictionaryArray.from_arrays(indices, entries) if listed else entries.take(indices)
    if of.is_run_end_encoded(kind):
        return _decoded(compute.run_end_decode(values))
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _decoded(values.storage)
    raise TypeError("DuckDB may not read it")


def _wide(column: Any) -> Any:
    """Decimals with all digits that their storage can have; the same bytes."""
    import pyarrow

    kind = column.type
    if not _is_decimal(kind):
        return column
    kinds = {32: "decimal32", 64: "decimal64", 128: "decimal128"}
    wide = getattr(pyarrow, kinds[kind.bit_width])(_WIDEST[kind.bit_width], kind.scale)
    return pyarrow.chunked_array(
        [pyarrow.Array.from_buffers(wide, len(each), each.buffers(), offset=each.offset) for each in column.chunks],
        wide,
    )


def _of_pandas(values: Any) -> Any:
    import pyarrow

    kind = values.dtype
    if kind == "object" or getattr(kind, "storage", None) == "python":
        return _texts(values, values.isna())
    categories = getattr(kind, "categories", None)
    if categories is not None:
        return _of_pandas(categories.to_series()).take(pyarrow.array(values.cat.codes, mask=values.isna()))
    zoned = getattr(kind, "tz", None) is not None and hasattr(kind, "unit")
    numpys = hasattr(kind, "char") and kind.kind in "biufM" and kind.itemsize <= 8
    if numpys or zoned or type(kind).__name__ in ("StringDtype", "ArrowDtype") or hasattr(kind, "numpy_dtype"):
        return pyarrow.array(values, from_pandas=True)
    return pyarrow.nulls(len(values))  # a period, an interval, a complex number, a user-defined type


def _texts(values: Any, missing: Any) -> Any:
    import pyarrow

    found = (None if gone else _text(each) for each, gone in zip(values, missing, strict=True))
    return pyarrow.array(found, pyarrow.large_string())


def _text(value: object) -> str | None:
    try:
        text = str(value)
        text.encode()
    except Exception:  # an object may fail as it likes
        return None
    return text


_TAIL = 8  # bytes: the length of the footer, and a mark
_OWN_TYPES, _STRUCK = b"ARROW:schema", b"ARROW:struck"
_BYTES = {"INT32": 4, "INT64": 8}
_OWN_WIDTHS = {2: 4, 4: 9, 8: 18, 16: 38}  # the bytes that DuckDB keeps a decimal in, and the digits that they hold
_CODECS = {"uncompressed", "snappy", "gzip", "brotli", "lz4", "lz4_raw", "zstd"}
_ENCODINGS = {
    "PLAIN",
    "PLAIN_DICTIONARY",
    "RLE_DICTIONARY",
    "RLE",
    "BIT_PACKED",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "BYTE_STREAM_SPLIT",
}


@dataclass(frozen=True, kw_only=True)
class Unchecked:
    """The columns of a file that the second reader can give to DuckDB, whatever their rows hold.

    `data` is an Arrow dataset of them, and `places` are their places among all columns of the file, in its order.
    `digits` says of decimals how many they have. The columns at `alone` are read by the second reader only: there the
    first would make another number of a damaged one.
    """

    data: Any
    places: tuple[int, ...]
    digits: Mapping[int, int]
    alone: frozenset[int]


def unchecked(path: str) -> Unchecked:
    """The columns of a file as the second reader gives them; needs pyarrow, and reads no rows.

    DuckDB's own reader, which is faster, stops at a text that is not UTF-8 or not JSON, and at a time in milliseconds
    that has no microseconds; it reads such a column as nothing else, so nothing in a statement can help. Here they are
    bytes and numbers, and it is for the statement to say what they mean.

    Guarantee: which columns there are follows from the types, encodings and codecs of the file; no value stops a scan.
    Edge cases: a file may name types of Arrow's own beside those of Parquet, such as a list of all texts of a column,
    which are checked again. That note is struck out, in memory alone; both readers then go by the types of Parquet.
    """
    import pyarrow
    from pyarrow import dataset, parquet

    with open(path, "rb") as file:
        seen = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    begin = len(seen) - _TAIL - int.from_bytes(seen[-_TAIL : -_TAIL + 4], "little")
    seen[begin:-_TAIL] = seen[begin:-_TAIL].replace(_OWN_TYPES, _STRUCK)
    source = pyarrow.py_buffer(seen)
    way = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    found = way.make_fragment(source)
    stored = parquet.ParquetFile(source).metadata
    names = list(found.physical_schema.names)
    fields, places, digits, alone, leaf = [], [], {}, set(), 0
    for place, field in enumerate(found.physical_schema):
        kind = _handed(field.type, stored.schema.column(leaf)) if not field.type.num_fields else None
        if kind is not None and names.count(field.name) == 1 and _decodable(stored, leaf):
            if pyarrow.types.is_decimal(field.type):
                digits[place] = field.type.precision
                own = next(size for size, most in _OWN_WIDTHS.items() if field.type.precision <= most)
                if _width(stored.schema.column(leaf)) > own:
                    alone.add(place)
            fields.append(pyarrow.field(field.name, kind))
            places.append(place)
        leaf += _leaves(field.type)
    data = dataset.FileSystemDataset([found], pyarrow.schema(fields), way)
    return Unchecked(data=data, places=tuple(places), digits=digits, alone=frozenset(alone))


def _leaves(kind: Any) -> int:
    """How many columns of Parquet a type takes."""
    return sum(_leaves(kind.field(at).type) for at in range(kind.num_fields)) if kind.num_fields else 1


def _handed(kind: Any, stored: Any) -> Any:
    """The type in which a column is handed on, if every value of its storage has a place there; else None."""
    import pyarrow

    if pyarrow.types.is_float16(kind):
        return pyarrow.float32()
    if pyarrow.types.is_decimal(kind):
        if kind.precision > 18:
            return kind if _width(stored) <= 16 and known(kind) else None
        return pyarrow.decimal128(38, kind.scale) if _width(stored) <= 15 else None
    if pyarrow.types.is_fixed_size_binary(kind) and stored.logical_type.type == "UUID":
        return kind
    if is_instant(kind):
        return pyarrow.timestamp(kind.unit)
    return kind if known(kind) else None


def _width(stored: Any) -> int:
    """The bytes that a decimal is stored in; where each may have its own number, more than any reader takes."""
    return stored.length if stored.physical_type == "FIXED_LEN_BYTE_ARRAY" else _BYTES.get(stored.physical_type, 17)


def _decodable(stored: Any, leaf: int) -> bool:
    """Whether the second reader has the codecs and encodings of a column."""
    import pyarrow

    for group in range(stored.num_row_groups):
        chunk = stored.row_group(group).column(leaf)
        codec = chunk.compression.lower()
        if codec not in _CODECS or not (codec == "uncompressed" or pyarrow.Codec.is_available(codec)):
            return False
        if not _ENCODINGS.issuperset(chunk.encodings):
            return False
    return True
