"""A pandas frame as an Arrow table: its objects are texts, whatever they are."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from rangebound.errors import MissingExtra


def need_arrow(what: str) -> None:
    """Refuse what cannot be read without pyarrow, whatever is in it."""
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingExtra(f"{what}: needs pyarrow, which is not installed; pip install 'rangebound[parquet]'")


def as_arrow(data: Any) -> Any:
    """A pandas frame as an Arrow table; anything else as it is.

    Guarantee: the type of a column follows from the frame's, and no object is an error. Objects are the texts that
    Python makes of them, and missing where it makes none that can be written, such as half of a surrogate pair.
    Raises: TypeError for a type of pandas that Arrow does not have.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(data, pandas.DataFrame):
        return data
    need_arrow("data=<DataFrame>")
    import pyarrow

    try:
        columns = [_column(data.iloc[:, at]) for at in range(data.shape[1])]
        return pyarrow.Table.from_arrays(columns, names=[str(name) for name in data.columns])
    except (pyarrow.ArrowException, ValueError):
        raise TypeError("has columns of a type that Arrow does not have") from None


def _column(values: Any) -> Any:
    import pyarrow

    kind = values.dtype
    if kind == "object" or getattr(kind, "storage", None) == "python":
        return _texts(values, values.isna())
    categories = getattr(kind, "categories", None)
    if categories is not None and categories.dtype == "object":
        return _texts(categories, categories.isna()).take(pyarrow.array(values.cat.codes, mask=values.isna()))
    if kind == "float16":
        values = values.astype("float32")  # DuckDB does not know Arrow's half
    return pyarrow.array(values, from_pandas=True)


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
