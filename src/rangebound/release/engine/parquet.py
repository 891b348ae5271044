"""A Parquet file by a second reader, which takes values as they are."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rangebound.release.engine.frame import is_instant, known

_TAIL = 8  # bytes: the length of the footer, and a mark
_OWN_TYPES, _STRUCK = b"ARROW:schema", b"ARROW:struck"
_BYTES = {"INT32": 4, "INT64": 8}
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
                if _width(stored.schema.column(leaf)) > _own_width(field.type.precision):
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


def _own_width(digits: int) -> int:
    """The bytes that DuckDB keeps a decimal in."""
    return next(size for size, most in ((2, 4), (4, 9), (8, 18), (16, 38)) if digits <= most)


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
