"""The most frequent value of a column."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rangebound.release.noise.draw import Key
from rangebound.release.plan.fields import Ends, Range, number
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.plan.kinds.kind import Clipping
from rangebound.release.plan.kinds.selection_kind import SelectionKind
from rangebound.release.plan.measure import KeyCounts, Measures, Places, Rows, Values
from rangebound.release.plan.unit import Unit
from rangebound.release.plan.words import bounds, span
from rangebound.values.arguments import counted
from rangebound.values.support import Interval

_BINS = 10


class Mode(SelectionKind):
    """The most frequent value of a column: one of its public keys or, with a `range`, one of `bins` of equal width.

    The number that is published for a bin is its middle; the bins are those of a histogram. Where it names `bins` and
    no range, a plan fills in that of its [columns]. It is `top k` with k = 1.
    """

    kind: Literal["mode"] = "mode"
    range: Range | None = None
    bins: Annotated[int, Field(ge=2, le=1000)] | None = None

    @model_validator(mode="after")
    def _bins_fit(self) -> Mode:
        if self.range is not None and isinstance(self.range[0], datetime.date):
            days = number(self.range[1]) - number(self.range[0])
            if (self.bins or _BINS) > days:
                raise ValueError(f"bins: must be at most {days:.0f}, so that each has a day")
        return self

    def filled(self, ranges: Mapping[str, Ends]) -> Self:
        """The same question with the public range of its column, where it asks for bins and states none."""
        if not self._open or self.column not in ranges:
            return self
        return self.changed(range=ranges[self.column])

    @property
    def lacks_range(self) -> bool:
        """Whether it asks for bins, and no range is known."""
        return self._open

    @property
    def _open(self) -> bool:
        return self.range is None and self.bins is not None

    @property
    def _histogram(self) -> Histogram:
        """A histogram with the same bins."""
        assert self.range is not None
        return Histogram(name=self.name, column=self.column, range=self.range, bins=self.bins or _BINS)

    @property
    def natural(self) -> Interval:
        """The range, or from the first rank to the last of all keys."""
        return self._ranks if self.range is None else self._histogram.bounds

    @property
    def answers_dated(self) -> bool:
        """As the range is."""
        return self.range is not None and self._histogram.dated

    @property
    def reads(self) -> Values | None:
        """The column, where it has a range."""
        return None if self.range is None else self._histogram.values

    @property
    def keyed(self) -> tuple[str, ...]:
        """The column, where it has no range."""
        return (self.column,) if self.range is None else ()

    def misfit(self, unit: Unit) -> str:
        """The keys are public, where it has no range."""
        return self._misfit_of_list() if self.range is None else ""

    @property
    def counted_rows(self) -> Rows:
        """The rows that meet `where`, and have a value where that is needed."""
        return Rows(where=self.where, values=self.reads)

    def measures(self, unit: Unit, groups: float) -> Measures:
        """Units by key, or by bin."""
        if self.range is None:
            return KeyCounts(rows=self.counted_rows, column=self.column)
        found = self._histogram.measures(unit, groups)
        assert isinstance(found, Places)
        return replace(found, rows=self.counted_rows, once=True)

    @property
    def size(self) -> int:
        """One."""
        return 1

    @property
    def choices(self) -> Key:
        """The public keys, or the bins by their edges."""
        return self._listed if self.range is None else self._histogram.parts

    @property
    def points(self) -> tuple[float, ...]:
        """The middles of the bins; none where the answer is a key."""
        if self.range is None:
            return ()
        middles = (lower + (upper - lower) / 2 for lower, upper in pairwise(self._histogram.edges))
        return tuple(float(math.floor(each)) if self.answers_dated else each for each in middles)

    @property
    def parts(self) -> tuple[str, ...]:
        """One number, without a name."""
        return ("",)

    @property
    def subject(self) -> tuple[str, str]:
        """The column, and what is chosen from."""
        if self.range is None:
            return f" of {self.column!r}, of {counted(len(self._listed), 'key')}", ""
        return f" of {self.column!r}, in {counted(len(self.choices), 'bin')} over {bounds(self.range)}", ""

    @property
    def _choice(self) -> str:
        return "key" if self.range is None else "bin"

    def _special(self) -> list[str]:
        if self.range is None:
            return [f"rows with other keys than the listed ones of {self.column!r} left out"]
        ends = self._histogram.bounds
        clipped = f"values clipped to {span(ends.lower, ends.upper, dated=self.answers_dated)}"
        return ["middle of a bin", clipped, "missing values left out"]

    @property
    def clipping(self) -> Clipping | None:
        """Values outside the range."""
        return None if self.range is None else Clipping(column=self.column, range=self.range)
