"""The privacy unit: who is protected, and how many of its rows and groups count."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, model_validator

from rangebound.release.plan.fields import Name, Part

MOST_ROWS = 1_000_000
"""Rows of a unit in a group that a plan may let count."""


class Unit(Part):
    """Who is protected: the owner of all rows with the same value in `column`, or, without a column, the single row.

    At most `groups` groups of each unit count, and `rows` rows in each of them. With `neighbours = "replace"` one unit
    changes its rows and the number of units `size` is public; otherwise one unit is added or removed.

    Edge cases: rows without an owner (NULL in `column`) do not count.
    """

    column: Name | None = None
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 1
    groups: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    neighbours: Literal["add or remove", "replace"] = "add or remove"
    size: Annotated[int, Field(ge=1, le=10**12)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Unit:
        if self.column is None and (self.rows, self.groups) != (1, 1):
            raise ValueError("rows and groups are 1 where the unit is the row; name a column to protect its owners")
        if (self.neighbours == "replace") != (self.size is not None):
            raise ValueError(
                'neighbours = "replace" needs `size`, the public number of units, and `size` needs "replace"'
            )
        return self

    _left_out: bool = PrivateAttr(default=False)

    def with_unknown_rows(self) -> Unit:
        """The same unit in a plan that leaves some rows out of all questions: how many count is not public."""
        found = self.model_copy()
        found._left_out = True
        return found

    @property
    def most_rows(self) -> int:
        """How many rows of a unit count in one group at most: what sensitivities are made of."""
        return self.rows

    @property
    def public_rows(self) -> int | None:
        """The number of rows that count, where it is public: rows are replaced, and a plan leaves none out."""
        return self.size if self.column is None and not self._left_out else None

    @property
    def replaced(self) -> bool:
        """Whether a neighbour has one unit replaced."""
        return self.neighbours == "replace"
