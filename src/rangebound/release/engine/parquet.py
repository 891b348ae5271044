"""A Parquet file by a reader that takes its values as they are."""

from __future__ import annotations

import mmap
from typing import Any

_TAIL = 8  # bytes: the length of the footer, and a mark
_OWN_TYPES, _STRUCK = b"ARROW:schema", b"ARROW:struck"


def unchecked(path: str) -> Any:
    """The columns of a file that DuckDB can read, as an Arrow dataset; needs pyarrow.

    DuckDB's own reader, which is faster, stops at a text that is no UTF-8 or no JSON, and at a time in milliseconds
    that has no microseconds; it reads such a column as nothing else, so nothing in a statement can help. Here they are
    bytes and numbers, and it is for the statement to say what they mean.

    Edge cases: a file may name types of Arrow's own beside those of Parquet, such as a list of all texts of a column,
    which are checked again. That note is struck out, in memory alone; both readers then go by the types of Parquet.
    """
    import pyarrow
    from pyarrow import dataset

    with open(path, "rb") as file:
        seen = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    begin = len(seen) - _TAIL - int.from_bytes(seen[-_TAIL : -_TAIL + 4], "little")
    seen[begin:-_TAIL] = seen[begin:-_TAIL].replace(_OWN_TYPES, _STRUCK)
    way = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    found = way.make_fragment(pyarrow.py_buffer(seen))
    unknown = (pyarrow.types.is_float16, pyarrow.types.is_decimal256)  # to DuckDB
    fields = [each for each in found.physical_schema if not any(is_it(each.type) for is_it in unknown)]
    return dataset.FileSystemDataset([found], pyarrow.schema(fields), way)
