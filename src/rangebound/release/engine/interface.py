"""What the release asks of an engine."""

from __future__ import annotations

from typing import Any, Protocol

from sqlglot import exp

from rangebound.release.plan.table_schema import Schema

Record = tuple[Any, ...]
"""A row of a result: whole numbers, texts and NULL, as the engine gives them."""


class Engine(Protocol):
    """A table that can be asked in SQL.

    Guarantee of every implementation: a failure is reported in words that do not depend on the data.
    """

    @property
    def dialect(self) -> str:
        """The name of its SQL for sqlglot."""

    @property
    def source(self) -> exp.Table:
        """The table, as a statement names it."""

    def schema(self) -> Schema:
        """The names and families of the columns; reads no data."""

    def run(self, statement: exp.Expr) -> list[Record]:
        """The rows of a statement's result, in any order."""
