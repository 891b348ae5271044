"""Public keys in a file beside the plan: the values of its columns, read when the plan is made."""

from __future__ import annotations

import csv
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from rangebound.values.arguments import counted
from rangebound.values.extras import need

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
_LARGEST = 2**30  # bytes of a file; one without line ends is read at once


_FOLDER: ContextVar[Path | None] = ContextVar("folder", default=Path())


@contextmanager
def files_in(folder: str | Path | None) -> Iterator[None]:
    """Make a plan whose files are in a folder; None for a plan that comes from elsewhere, for which none is read."""
    token = _FOLDER.set(None if folder is None else Path(folder))
    try:
        yield
    finally:
        _FOLDER.reset(token)


def current_folder() -> Path | None:
    """Where the files of the plan are that is being made; None where no file may be read."""
    return _FOLDER.get()


def file_rows(file: object, columns: Sequence[str], *, most: int) -> list[tuple[object, ...]]:
    """The values of some columns of a CSV, TSV or Parquet file, in order, each combination once; at most `most`.

    A row that lacks a value in one of the columns is left out. Values of a CSV or TSV file are texts, and an empty
    field is missing, as in a table that is read from such a file.

    Guarantee: a file that cannot be read so is a `ValueError` with the reason; what the file holds is public.
    Edge cases: the path is relative to the folder of `files_in`, or to the current one.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "airports.csv").write_text("code,name\\nEWR,Newark\\nJFK,Kennedy\\nEWR,Newark\\n")
    ...     with files_in(folder):
    ...         file_rows("airports.csv", ["code"], most=10)
    [('EWR',), ('JFK',)]
    """
    if not isinstance(file, str) or not file or "\x00" in file:
        raise ValueError('file: must be the path of a file, such as "airports.csv"')
    folder = current_folder()
    if folder is None:
        raise ValueError("file: no file is read here; a plan that was published lists its keys")
    path = folder / file
    suffix = path.suffix.lower()
    if suffix not in (*_DELIMITERS, *_PARQUET):
        raise ValueError("file: must end in .csv, .tsv or .parquet")
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a device or a pipe may have no end
            raise ValueError(f"file: {file!r} cannot be read (not a plain file)")
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"file: {file!r} must have at most {_LARGEST} bytes")
        rows = _parquet(path, columns) if suffix in _PARQUET else _written(path, columns, _DELIMITERS[suffix])
        return _distinct(rows, most)
    except OSError as reason:
        raise ValueError(f"file: {file!r} cannot be read ({reason.strerror or 'not a file of this kind'})") from None
    except UnicodeDecodeError:
        raise ValueError(f"file: {file!r} must be UTF-8 text") from None
    except csv.Error as reason:
        raise ValueError(f"file: {file!r} is not valid CSV ({reason})") from None


def _distinct(rows: Iterable[tuple[object, ...]], most: int) -> list[tuple[object, ...]]:
    found: dict[tuple[object, ...], tuple[object, ...]] = {}
    for row in rows:
        if None not in row:
            found.setdefault((*row, *map(type, row)), row)  # 1 and true are different keys
        if len(found) > most:
            raise ValueError(f"file: must have at most {counted(most, 'different key')}")
    if not found:
        raise ValueError("file: has no keys")
    return list(found.values())


def _written(path: Path, columns: Sequence[str], delimiter: str) -> Iterator[tuple[object, ...]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        header = next(lines, [])
        places = [_place(header, column) for column in columns]
        for line in lines:
            yield tuple(line[at] or None if at < len(line) else None for at in places)


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[tuple[object, ...]]:
    need("pyarrow", what=f"file={path.name!r}")
    import pyarrow
    from pyarrow import parquet

    try:
        header = parquet.read_schema(path).names
        for column in columns:
            _place(header, column)
        found = parquet.read_table(path, columns=list(columns)).to_pydict()
    except pyarrow.ArrowException:
        raise ValueError(f"file: {path.name!r} is not a Parquet file that can be read") from None
    yield from zip(*(found[column] for column in columns), strict=True)


def _place(header: Sequence[str], column: str) -> int:
    if list(header).count(column) != 1:
        raise ValueError(f"column: the file must have one column {column!r}")
    return list(header).index(column)
