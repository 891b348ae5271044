"""Where the tables of a plan are, how files without types are written, what is joined, and keys in files beside it."""

from __future__ import annotations

import codecs
import csv
import re
import stat
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from rangebound.release.plan.fields import Name, Part, as_tuple
from rangebound.release.plan.unit import MOST_ROWS, Unit
from rangebound.values import arguments
from rangebound.values.arguments import counted
from rangebound.values.extras import need
from rangebound.values.postgres_address import address_fault

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
        found: dict[tuple[object, ...], tuple[object, ...]] = {}
        for row in rows:
            if None not in row:
                found.setdefault((*row, *map(type, row)), row)  # 1 and true are different keys
            if len(found) > most:
                raise ValueError(f"file: must have at most {counted(most, 'different key')}")
        if not found:
            raise ValueError("file: has no keys")
        return list(found.values())
    except OSError as reason:
        raise ValueError(f"file: {file!r} cannot be read ({reason.strerror or 'not a file of this kind'})") from None
    except UnicodeDecodeError:
        raise ValueError(f"file: {file!r} must be UTF-8 text") from None
    except csv.Error as reason:
        raise ValueError(f"file: {file!r} is not valid CSV ({reason})") from None


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


TEXT_FILES = (".csv", ".tsv")
"""What the names of text files end in."""
WORKBOOKS = (".xlsx",)
"""What the names of workbooks end in."""

# Encodings in which a damaged character ends before the next line end, separator and quotation mark; a test tries all.
# Others, such as ISO-2022-JP and UTF-7, have states that would carry one row's damage into the next.
ENCODINGS = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii"),
    *("iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8"),
    *("iso8859-9", "iso8859-10", "iso8859-11", "iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16"),
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("cp437", "cp850", "cp852", "cp855", "cp858", "cp866", "koi8-r", "koi8-u", "mac-roman"),
    *("shift_jis", "cp932", "euc_jp", "euc_kr", "cp949", "gb2312", "gbk", "gb18030", "big5", "cp950"),
)
"""The encodings that a plan can state, by Python's names of them; their other names serve too, such as latin-1."""


def codec(encoding: str) -> str:
    """Python's own name of an encoding; empty for one that a plan cannot state.

    >>> codec("latin-1"), codec("Windows-1252"), codec("utf-7")
    ('iso8859-1', 'cp1252', '')
    """
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        return ""
    name = "utf-8" if name == "utf-8-sig" else name
    return name if name in ENCODINGS else ""


def _demanded(fits: Callable[[str], object], words: str) -> AfterValidator:

    def checked(value: str) -> str:
        if not fits(value):
            raise ValueError(f"must be {words}")
        return value

    return AfterValidator(checked)


_MARKS = (",", ".", "'", "\u2019", "_", " ", "\u00a0", "\u202f")
Encoding = Annotated[
    str, _demanded(codec, 'an encoding such as "utf-8", "utf-16", "latin-1", "windows-1252" or "shift_jis"')
]
Separator = Annotated[
    str,
    _demanded(
        lambda value: len(value) == 1 and value.isascii() and not value.isalnum() and value not in "\"'\\+-.\r\n\x00",
        'one character, such as ";", "|" or "\\t", that is not a letter, a digit or a sign of numbers',
    ),
]
_QUOTATION = "one of \", ' and `, or empty if values are never quoted"
Quotation = Annotated[str, _demanded(lambda value: value in ("", '"', "'", "`"), _QUOTATION)]
Decimal = Annotated[str, _demanded(lambda value: value in (".", ","), '"." or ","')]
Thousands = Annotated[
    str, _demanded(lambda value: value in _MARKS, 'one of "," "." "\'" "\u2019" "_" and a space, also a no-break space')
]
_DATE = re.compile(r"%([dmY])([-./]?)%([dmY])\2%([dmY])")


Days = Annotated[
    str,
    _demanded(
        lambda value: (found := _DATE.fullmatch(value)) and {found[1], found[3], found[4]} == {"d", "m", "Y"},
        '%d, %m and %Y in any order, with one of - . / between them or none, as in "%d.%m.%Y"',
    ),
]


class TextFormat(Part):
    """A file or a table by its name, and how a text file, or the texts in a workbook, are written.

    What is not stated is as in plain CSV. Nothing is ever inferred from the rows: one of them would then decide how all
    others are read.
    """

    path: Name | None = None
    table: Name | None = None
    encoding: Encoding | None = None
    delimiter: Separator | None = None
    quote: Quotation | None = None
    multiline: bool | None = None
    decimal: Decimal | None = None
    thousands: Thousands | None = None
    date_format: Days | None = None

    @property
    def text_fields(self) -> dict[str, Any]:
        """What is stated of the format."""
        names = [name for name in TextFormat.model_fields if name not in ("path", "table")]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def untyped(self) -> bool:
        """Whether it is a file whose columns have no types: a text file or a workbook."""
        return PurePath(self.path or "").suffix.lower() in (*TEXT_FILES, *WORKBOOKS)

    @property
    def misfit_of_format(self) -> str:
        """Why the file cannot be written so; empty if it can."""
        ending = PurePath(self.path or "").suffix.lower()
        for name in self.text_fields:
            endings = TEXT_FILES if name in _OF_TEXT_FILES else (*TEXT_FILES, *WORKBOOKS)
            if ending not in endings:
                return f"{name}: applies to {', '.join(endings)} files only"
        if self.quote and self.quote == self.delimiter:
            return "quote: must not be the delimiter"
        if self.thousands is not None and self.thousands == (self.decimal or "."):
            return f"thousands: must not be the decimal sign, {self.thousands!r}"
        return ""


_OF_TEXT_FILES = ("encoding", "delimiter", "quote", "multiline")
PLAIN = TextFormat()
"""A file of which nothing is stated."""


def day_parts(date_format: str) -> tuple[str, str]:
    """The order of day, month and year in a date, by their letters, and what separates them.

    >>> day_parts("%d.%m.%Y"), day_parts("%Y%m%d")
    (('dmY', '.'), ('Ymd', ''))
    """
    found = _DATE.fullmatch(date_format)
    assert found is not None
    return found[1] + found[3] + found[4], found[2]


class Source(TextFormat):
    """Where the table is: a text file, a workbook, a Parquet file, or a table of DuckDB, PostgreSQL or a Spark server.

    Edge cases: a plan is published with its table, so an address with a token is refused here, which `--spark` takes,
    and so is one with a password.
    """

    path: Name | None = None
    table: Name | None = None
    spark: Annotated[Name, Field(pattern="^sc://[^/]")] | None = None
    postgres: Name | None = None

    @model_validator(mode="after")
    def _fits(self) -> Source:
        if sum(each is not None for each in (self.path, self.spark, self.postgres)) != 1:
            raise ValueError("needs one of path, postgres (the address of a database) and spark (that of a server)")
        if self.path is None and self.table is None:
            raise ValueError(f"{'postgres' if self.spark is None else 'spark'} goes with the name of a table")
        if self.postgres is not None and (misfit := address_fault(self.postgres)):
            raise ValueError(f"postgres: {misfit}")
        if self.spark is not None and "token=" in self.spark.lower():
            raise ValueError("spark: must hold no token, since plans are published; give the whole address by --spark")
        if self.misfit_of_format:
            raise ValueError(self.misfit_of_format)
        return self


_OWN = frozenset({"localtime", "Factory"})  # whatever the machine says, and no place at all


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones() - _OWN)


def _known(name: str) -> str:
    """Refuse the name of a zone that the time zone database does not have."""
    if not _zones():
        raise ValueError("this machine has no time zone database; pip install tzdata")
    if name not in _zones():
        found = arguments.similar(name, _zones())
        rule = 'must be a name of the time zone database, such as "Europe/Paris"'
        raise ValueError(f"{rule}; {found}" if found else rule)
    return name


Zone = Annotated[Name, AfterValidator(_known)]
"""The name of a time zone, such as "Europe/Paris"."""


_MOST_JOINS = 20
_MOST_COLUMNS = 100


def _paired(value: object) -> object:
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        if len(set(value)) < len(value):
            raise ValueError("must not name a column twice")
        return {each: each for each in value}
    if not isinstance(value, dict):
        raise ValueError('must be a list of columns, or a mapping such as {region = "code"}')
    return value


_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_LIST = {"type": "array", "items": _NAME, "minItems": 1, "maxItems": _MOST_COLUMNS}
_MAPPING = {"type": "object", "additionalProperties": _NAME, "minProperties": 1, "maxProperties": _MOST_COLUMNS}
_EITHER = WithJsonSchema({"anyOf": [_LIST, _MAPPING | {"propertyNames": {"minLength": 1, "maxLength": 200}}]})
Pairs = Annotated[dict[Name, Name], Field(min_length=1, max_length=_MOST_COLUMNS), BeforeValidator(_paired), _EITHER]
"""Names of our columns, each with the name of theirs; a list stands for columns of the same name in both."""


class Join(TextFormat):
    """Columns of another table, beside those of each row whose columns `on` are the same there.

    `on` and `columns` map names in the plan's table to names in the other one. With `how = "inner"` rows without a
    match are left out; otherwise their joined columns are missing. A `public` table must have each key once. One that
    is not public shares the privacy unit, so its column is one of those in `on`; for each key at most `rows` rows of
    that table are joined, and at most `own_rows` rows of the plan's, where that is stated.

    Edge cases: a missing key matches nothing, not even another missing one.
    """

    path: Name | None = None
    table: Name | None = None
    public: bool
    on: Pairs
    how: Literal["left", "inner"] = "left"
    columns: Pairs
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)] | None = None
    own_rows: Annotated[int, Field(ge=1, le=MOST_ROWS)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Join:
        if self.path is None and self.table is None:
            raise ValueError("needs the path of a file or the name of a table")
        if self.public and (self.rows, self.own_rows) != (None, None):
            raise ValueError("rows and own_rows are bounds of a private table; a public one has each key once")
        if not self.public and self.rows is None:
            raise ValueError("rows: missing; a private table needs the most rows that are joined for each key")
        if self.misfit_of_format:
            raise ValueError(self.misfit_of_format)
        return self

    @property
    def words(self) -> str:
        """What is joined, in words."""
        kind = "public" if self.public else "private"
        place = " ".join(repr(each) for each in (self.path, self.table) if each)
        key = ", ".join(self.on)
        drops = "; rows without a match are left out" if self.how == "inner" else ""
        own = f" with at most {self.own_rows} of ours" if self.own_rows else ""
        most = "" if self.public else f", at most {self.rows} of its rows for each key{own}"
        return f"{', '.join(self.columns)} of the {kind} table {place} by {key}{most}{drops}"

    @property
    def scope(self) -> list[str]:
        """What the numbers after the join are of: which rows it leaves out."""
        name = repr(self.table or self.path)
        said = [f"rows without a match in {name} left out"] if self.how == "inner" else []
        said += [f"rows per key of {name} cut at {self.rows}"] if self.rows else []
        return [*said, *([f"own rows per key of {name} cut at {self.own_rows}"] if self.own_rows else [])]


Joins = Annotated[tuple[Join, ...], Field(min_length=1, max_length=_MOST_JOINS), BeforeValidator(as_tuple)]


def join_misfit(joins: Iterable[Join], unit: Unit) -> str:
    """Why the joins of a plan do not fit together or with its privacy unit; empty where they do.

    A private table is joined on the unit alone, or on the unit and more: then every joined row has one owner, the one
    that both of its parts name. Without the unit, one person's rows would be joined with those of others, and adding
    or removing this person would change rows of all of these.
    """
    names: set[str] = set()
    for index, each in enumerate(joins):
        if not each.public and unit.column is None:
            return (
                f"join.{index}.public: a private table can only be joined where its owner is the unit; here the unit "
                "is the row, so name the owner's column in [unit]"
            )
        if not each.public and unit.column not in each.on:
            return (
                f"join.{index}.on: must contain the unit's column {unit.column!r}, since the table is private; joined "
                "on others alone, the rows of one person would become parts of other people's"
            )
        for name in each.columns:
            if name.casefold() in names:
                return f"join.{index}.columns: two joined columns have the name {name!r}; rename one, as {_RENAMED}"
            names.add(name.casefold())
    return ""


_RENAMED = 'columns = {new = "old"}'


def joined_rows(joins: Iterable[Join], unit: Unit) -> int | None:
    """The most rows of a unit after joins on the unit alone: the product of the bounds; None where nothing bounds them.

    A unit with at most m rows here and at most r rows there has at most m r joined ones, and m itself after a join with
    a public table.

    >>> visits = Join(table="visits", public=False, on=["person"], columns=["day"], rows=5, own_rows=2)
    >>> joined_rows([visits], Unit(column="person"))
    10
    """
    found: int | None = None
    for each in joins:
        if each.public:
            continue
        if set(each.on) != {unit.column} or each.rows is None:
            return None
        bounds = [bound for bound in (found, each.own_rows) if bound is not None]
        if not bounds:
            return None
        found = min(bounds) * each.rows
    return found
