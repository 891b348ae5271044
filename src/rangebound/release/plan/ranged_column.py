"""A column with its public range, where a question names more than one."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from rangebound.release.plan.fields import UNKNOWN, Name, Part, Range, number
from rangebound.release.plan.measure import Values
from rangebound.release.plan.words import bounds
from rangebound.values.support import Interval


class RangedColumn(Part):
    """A column of numbers (or dates) and their public range; values outside it are clipped.

    Its name alone stands for a column whose range the [columns] of the plan say.
    """

    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)

    @model_validator(mode="wrap")
    @classmethod
    def _named(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return handler({"column": data} if isinstance(data, str) else data)

    @property
    def bounds(self) -> Interval:
        """The public range of the column."""
        return Interval(number(self.range[0]), number(self.range[1]))

    @property
    def dated(self) -> bool:
        """Whether the range was given in dates."""
        return not isinstance(self.range[0], float)

    @property
    def values(self) -> Values:
        """The values of the column, clipped to its range."""
        ends = self.bounds
        return Values(column=self.column, lower=ends.lower, upper=ends.upper, dated=self.dated)

    @property
    def subject(self) -> str:
        """The column and its range in an explanation.

        >>> RangedColumn(column="hours", range=(0.0, 24.0)).subject
        "'hours', which lies in [0, 24]"
        """
        return f"{self.column!r}, which lies in {bounds(self.range)}"
