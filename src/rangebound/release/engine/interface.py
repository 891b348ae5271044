"""What the release asks of an engine."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from sqlglot import exp

from rangebound.errors import EngineError
from rangebound.release.engine.dialect import Dialect
from rangebound.release.plan.source import PLAIN, Source, TextFormat
from rangebound.release.plan.table_schema import Schema
from rangebound.values.data_frames import as_html

Record = tuple[Any, ...]
"""A row of a result: whole numbers, texts and NULL, as the engine gives them."""


Relation = exp.Table | exp.Select
"""What stands for a table in a statement: one of the engine, or a selection."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a further table of a plan is: a file, a table of a DuckDB file, or a table by its name.

    `field` is the join's own name in errors, `form` how a text file is written.
    """

    field: str
    path: str | None
    table: str | None
    public: bool
    form: TextFormat = PLAIN

    @property
    def source(self) -> Source:
        """The file."""
        return Source(path=self.path, table=self.table, **self.form.text_fields)


@dataclass(frozen=True, kw_only=True)
class Further:
    """A further table, as a statement names it, and its columns."""

    source: Relation
    schema: Schema


class Unrunnable(EngineError):
    """A statement that the engine does not run; in a rehearsal, whatever its tables hold."""


class Engine(ABC):
    """A table that can be asked in SQL: what differs between engines is abstract, what they do alike is here.

    Guarantee of every implementation: a failure is reported in words that do not depend on the data.
    """

    dialect: Dialect
    """Its SQL."""
    source: Relation
    """The table, as a statement names it."""
    _schema: Schema

    def __init__(self) -> None:
        self._given: dict[str, Any] = {}
        self._others: dict[Place, Further] = {}
        self._copies: dict[str, Relation] = {}

    def schema(self) -> Schema:
        """The names and families of the columns; reads no data."""
        return self._schema

    def _repr_html_(self) -> str:
        return as_html(type(self).__name__, {name: family.value for name, family in self.schema().items()})

    @abstractmethod
    def _opened(self, place: Place, given: Any) -> Further:
        """A further table that was not asked for before; `given` is what was given under its name, if anything."""

    def _stored(self, rows: exp.Select) -> Relation:
        """The result of a selection from public tables: here the selection."""
        return rows.copy()

    @abstractmethod
    def _bare(self, name: str) -> str:
        """What stands for a private table, given as a statement names it, in the text of a rehearsal.

        A relation of its columns without rows, which the engine does not see to be empty before it runs a statement.
        """

    def rehearse(self, text: str) -> None:
        """Run the text of a statement as if no private table had a row.

        Guarantee of every implementation: neither rows nor statistics of them are read, so whether it succeeds, and how
        long it takes, does not depend on any.
        """
        private = [self.source, *(each.source for place, each in self._others.items() if not place.public)]
        names = {next(each.find_all(exp.Table)).sql(self.dialect.name) for each in private}
        pattern = rf"(?<![\w.\"`])({'|'.join(map(re.escape, names))})(?![\w\"`])"  # and no column of the same name
        self.run(re.sub(pattern, lambda found: self._bare(found[0]), text))

    @abstractmethod
    def _rows(self, text: str) -> list[Record]:
        """The rows of a statement's result, in any order."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the table, and of all that was made for it."""

    def give(self, tables: Mapping[str, Any]) -> None:
        """Take tables, which the joins of a plan ask for by their names; those in memory must be public."""
        self._given.update(tables)

    def further(self, place: Place) -> Further:
        """A further table, the same one for the same place; reads no rows of a private one."""
        if place not in self._others:
            given = self._given.get(place.table or "") if place.path is None else None
            self._others[place] = self._opened(place, given)
        return self._others[place]

    def copied(self, rows: exp.Select, refuse: Callable[[Relation], None]) -> Relation:
        """The result of a selection from public tables, which nothing changes; the same one for the same selection.

        `refuse` looks at it when it was made, and what it raises is passed on; then there is no such table.
        """
        key = self.dialect.written(rows)
        if key not in self._copies:
            found = self._stored(rows)
            refuse(found)
            self._copies[key] = found
        return self._copies[key]

    def written(self, statement: exp.Expr) -> str:
        """The text of a statement, as the engine will run it."""
        return self.dialect.written(statement)

    def run(self, statement: exp.Expr | str) -> list[Record]:
        """The rows of a statement's result, in any order."""
        return self._rows(statement if isinstance(statement, str) else self.written(statement))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
