"""Periods of a budget, by the calendar in UTC: the total of an account may be for each month, quarter or year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BudgetPeriod(StrEnum):
    """How long the total of an account lasts."""

    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    def number(self, time: int) -> int:
        """The period that a time is in, counted from year 0; `time` is in microseconds since 1970.

        >>> BudgetPeriod.QUARTER.number(0) - BudgetPeriod.QUARTER.number(-1)
        1
        """
        day = moment(time)
        return (12 * day.year + day.month - 1) // _MONTHS[self]

    def named(self, number: int) -> str:
        """The name of a period.

        >>> (
        ...     BudgetPeriod.QUARTER.named(BudgetPeriod.QUARTER.number(0)),
        ...     BudgetPeriod.MONTH.named(BudgetPeriod.MONTH.number(0)),
        ... )
        ('1970-Q1', '1970-01')
        """
        year, part = divmod(number, 12 // _MONTHS[self])
        return {"month": f"{year}-{part + 1:02d}", "quarter": f"{year}-Q{part + 1}", "year": f"{year}"}[self.value]

    def begins(self, number: int) -> str:
        """The first day of a period.

        >>> BudgetPeriod.YEAR.begins(2027)
        '2027-01-01'
        """
        year, month = divmod(number * _MONTHS[self], 12)
        return f"{year}-{month + 1:02d}-01"


_MONTHS = {BudgetPeriod.MONTH: 1, BudgetPeriod.QUARTER: 3, BudgetPeriod.YEAR: 12}


def moment(microseconds: int) -> datetime:
    """The time for people; a clock beyond the years 1 to 9999 is shown as the first or last moment of them."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return (datetime.max if microseconds > 0 else datetime.min).replace(tzinfo=UTC)
