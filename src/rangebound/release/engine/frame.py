"""Tables in memory as Arrow tables whose columns DuckDB reads without an error, whatever a row holds."""

from __future__ import annotations

import sys
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
