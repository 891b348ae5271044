"""The privacy unit: who is protected, and how many of its rows and groups count; and what a release may spend."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from rangebound.release.plan.fields import Name, Part, as_tuple, no_time_of_day
from rangebound.values import arguments
from rangebound.values.postgres_address import is_address

MOST_ROWS = 1_000_000
"""Rows of a unit in a group that a plan may let count."""
MostRows = Annotated[int, Field(ge=1, le=MOST_ROWS)]
MostGroups = Annotated[int, Field(ge=1, le=1_000_000)]
_Day = Annotated[datetime.date, BeforeValidator(no_time_of_day)]
_Days = Annotated[tuple[_Day, _Day], BeforeValidator(as_tuple)]


class Period(Part):
    """Days, weeks or months of a column of dates, in each of which `rows` rows of a unit count in a group.

    `range` has the first and the last day; rows on other days, and those without a date, do not count. Weeks begin on
    Monday. The ends of the range may cut a week or a month, which is one period then too.

    >>> days = (datetime.date(2025, 1, 27), datetime.date(2025, 2, 4))
    >>> [Period(column="day", each=each, range=days).number for each in ("day", "week", "month")]
    [9, 2, 2]
    """

    column: Name
    each: Literal["day", "week", "month"]
    range: _Days

    @model_validator(mode="after")
    def _in_order(self) -> Period:
        if self.range[0] > self.range[1]:
            raise ValueError("range: the first day must not be after the last one")
        return self

    @property
    def number(self) -> int:
        """How many periods the range has: it is public."""
        first, last = map(self._place, self.range)
        return last - first + 1

    def _place(self, day: datetime.date) -> int:
        if self.each == "month":
            return 12 * day.year + day.month
        return day.toordinal() if self.each == "day" else (day.toordinal() - 1) // 7  # day 1 of the count is a Monday

    def __str__(self) -> str:
        first, last = self.range
        return f"{self.each} of {self.column!r} from {first} to {last}"


class Unit(Part):
    """Who is protected: the owner of all rows with the same value in `column`, or, without a column, the single row.

    At most `groups` groups of each unit count, and `rows` rows in each of them; with a `period`, this many rows in each
    of its periods. A question may have bounds of its own; these are for those that have none. With
    `neighbours = "replace"` one unit changes its rows and the number of units `size` is public; otherwise one unit is
    added or removed.

    Guarantee: a `period` says which rows of a unit count, not what is protected: that is the unit with all its rows.
    Edge cases: rows without an owner (NULL in `column`) do not count.
    """

    column: Name | None = None
    rows: MostRows = 1
    groups: MostGroups = 1
    period: Period | None = None
    neighbours: Literal["add or remove", "replace"] = "add or remove"
    size: Annotated[int, Field(ge=1, le=10**12)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Unit:
        if self.column is None and (self.rows, self.groups, self.period) != (1, 1, None):
            named = "rows and groups are 1" if self.period is None else "rows, groups and period are not needed"
            raise ValueError(f"{named} where the unit is the row; name a column to protect its owners")
        if (self.neighbours == "replace") != (self.size is not None):
            raise ValueError(
                'neighbours = "replace" needs `size`, the public number of units, and `size` needs "replace"'
            )
        if self.misfit:
            raise ValueError(self.misfit)
        return self

    _left_out: bool = PrivateAttr(default=False)
    _one_period: bool = PrivateAttr(default=False)

    @property
    def misfit(self) -> str:
        """Why these bounds cannot be; empty if they can."""
        return "" if self.most_rows <= MOST_ROWS else f"rows times the number of periods must be at most {MOST_ROWS}"

    def with_unknown_rows(self) -> Unit:
        """The same unit in a plan that leaves some rows out of all questions: how many count is not public."""
        found = self.model_copy()
        found._left_out = True
        return found

    def bounded(self, rows: int | None, groups: int | None, period: Period | None, *, one_period: bool = False) -> Unit:
        """The same unit with the bounds of a question, where it has any of its own.

        `one_period` says that all rows of a group are in one period, since the key of a group has its day.
        """
        asked = {"rows": rows, "groups": groups, "period": period}
        own = {name: bound for name, bound in asked.items() if bound is not None}
        if not own and not one_period:
            return self
        found = self.model_copy(update=own)
        found._one_period = one_period
        return found

    @property
    def most_rows(self) -> int:
        """How many rows of a unit count in one group at most: what sensitivities are made of.

        `rows` in each period that a group may have: the sum of as many numbers from 0 to `rows` as there are periods.
        """
        return self.rows * (1 if self.period is None or self._one_period else self.period.number)

    @property
    def public_rows(self) -> int | None:
        """The number of rows that count, where it is public: rows are replaced, and a plan leaves none out."""
        return self.size if self.column is None and not self._left_out else None

    @property
    def replaced(self) -> bool:
        """Whether a neighbour has one unit replaced."""
        return self.neighbours == "replace"

    def truncation_scope(self, by: tuple[str, ...], groups: float, *, rows: bool) -> list[str]:
        """What the contribution bounds drop, in words: whole groups of a unit, and `rows` in each group."""
        if self.column is None:
            return []
        said = [] if groups <= self.groups else [f"groups per {self.column!r} cut at {self.groups}"]
        parts = [repr(self.column), *(["group"] if by else []), *([self.period.each] if self.period else [])]
        each = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
        said += [f"rows per {each} cut at {self.rows}"] if rows else []
        return [*said, *self.period_scope]

    @property
    def period_scope(self) -> list[str]:
        """Rows outside the range of the periods do not count."""
        if self.period is None:
            return []
        first, last = self.period.range
        return [f"rows outside {first} to {last} in {self.period.column!r} left out"]

    @property
    def owner_scope(self) -> list[str]:
        """Rows without an owner do not count."""
        return [f"rows without {self.column!r} left out"] if self.column is not None else []


_SMALLEST_DELTA = 1e-24  # noise for a smaller one takes minutes to calibrate, and is that of no delta


def _not_tiny(delta: float) -> float:
    if 0.0 < delta < _SMALLEST_DELTA:
        raise ValueError(f"must be 0, or at least {_SMALLEST_DELTA:g}: what is below buys nothing")
    return delta


def _without_password(ledger: str) -> str:
    if is_address(ledger):
        from rangebound.ledger.postgres_schema import postgres_place  # reading a plan stays light

        postgres_place(ledger)
    return ledger


class Budget(Part):
    """What the whole release may spend, and the account of the ledger that pays."""

    epsilon: Annotated[float, Field(gt=0.0, le=100.0)]
    delta: Annotated[float, Field(ge=0.0, lt=0.5), AfterValidator(_not_tiny)] = 0.0
    account: Name | None = None
    ledger: Annotated[Name, AfterValidator(_without_password)] | None = None

    def __str__(self) -> str:
        delta = f", delta {arguments.upwards(self.delta)}" if self.delta else ""
        return f"epsilon {arguments.upwards(self.epsilon)}{delta}"
