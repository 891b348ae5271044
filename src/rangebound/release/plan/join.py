"""Joins of a plan: columns of a public table, or of another private table that shares the privacy unit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, WithJsonSchema, model_validator

from rangebound.release.plan.fields import Name
from rangebound.release.plan.text_format import TextFormat
from rangebound.release.plan.unit import MOST_ROWS, Unit

MOST_JOINS = 20
_MOST_COLUMNS = 100


def _paired(value: object) -> object:
    """A list of names as a mapping of each to itself; a mapping as it is."""
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        if len(set(value)) < len(value):
            raise ValueError("must not name a column twice")
        return {each: each for each in value}
    if not isinstance(value, dict):
        raise ValueError('must be a list of columns, or a mapping such as {region = "code"}')
    return value


_EITHER = WithJsonSchema(
    {
        "anyOf": [
            TypeAdapter(Annotated[list[Name], Field(min_length=1, max_length=_MOST_COLUMNS)]).json_schema(),
            TypeAdapter(Annotated[dict[Name, Name], Field(min_length=1, max_length=_MOST_COLUMNS)]).json_schema(),
        ]
    }
)
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
