"""Questions answered by a key: the most frequent ones of a list, or of keys that are selected privately."""

from __future__ import annotations

import datetime
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr, model_validator

from rangebound.release.plan.fields import Name, Range, bounds, number, span
from rangebound.release.plan.kinds.facts import FormName
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.plan.kinds.kind import KINDS, Kind
from rangebound.release.plan.kinds.scalars import ScalarKind, owners_sensitivity
from rangebound.release.plan.measure import Counted, KeyCounts, Measures, Owned, Places, Values
from rangebound.release.plan.statistic import Draw, Key, Sensitivity, Statistic, Summed, by_place, of_parts, plain_count
from rangebound.release.plan.unit import Unit
from rangebound.values.arguments import counted
from rangebound.values.support import Interval

_BINS = 10
_KEYS = "whose answers are keys"


def _key_sensitivity(asked: SelectionKind, unit: Unit, groups: float) -> Sensitivity:
    """One in each coordinate (L-infinity), however many of them a unit is in: as many steps as `of_parts` has.

    A unit adds 0 or 1 to each of the n coordinates of a group: a step of 1 in L-infinity, and of n in L1 and in
    squared L2, in each of at most g groups. A unit that is replaced takes two steps. What a step moves the scores
    by is in `exponential_mechanism.score_range`.
    """
    found = of_parts(1, unit, groups)
    moved = int(min(found.groups, groups)) * len(asked.choices)
    return replace(found, square=Fraction(moved), supremum=True)


class SelectionKind(Kind):
    """A question answered by the most frequent keys, or bins, of a column: a unit counts once at each that it has.

    Where the unit is the row, rows are counted. In each group the keys of all ranks are drawn together.
    """

    form = FormName.SELECTION
    statistic = Statistic(
        measures=lambda asked, *_: KeyCounts(rows=asked.counted_rows, column=asked.column),
        coordinates=by_place(lambda asked: len(asked.choices)),
        sensitivity=_key_sensitivity,
    )
    once = True
    unmargined = _KEYS
    unplaced = "whose answers are keys of a list"
    no_rows = "a unit counts once at each key or bin, however many rows it has"

    column: Name

    _listed: Key = PrivateAttr(default=())  # the public keys of the column, which the plan has

    @model_validator(mode="after")
    def _selects(self) -> SelectionKind:
        if self.column in self.by:
            raise ValueError(f"column: {self.column!r} is one of the grouping columns; its keys are the answers here")
        return self

    def with_keys(self, listed: Mapping[str, Key]) -> Kind:
        """The same question, with the public keys of its column where it needs them."""
        found = self.model_copy()
        found._listed = listed.get(self.column, ()) if self.column in self.keyed else ()
        return found

    @property
    @abstractmethod
    def size(self) -> int:
        """How many ranks it publishes."""

    @property
    def choices(self) -> Key:
        """What is chosen from, as texts: the public keys."""
        return self._listed

    @property
    def points(self) -> tuple[float, ...]:
        """The number to publish for each choice; none where it is the rank."""
        return ()

    @property
    def selected(self) -> str | None:
        return self.column

    def answer(self, key: Summed, draws: Draw) -> str:
        return self.choices[int(draws[0])]

    @property
    def keyed(self) -> tuple[str, ...]:
        return (self.column,)

    def misfit(self, unit: Unit) -> str:
        if not self._listed:
            return (
                f"column: the keys of {self.column!r} must be public for kind {self.kind!r}; list them in keys, or ask "
                "for 'top k' with k = 1, whose keys may be selected privately"
            )
        if self.size > len(self._listed):
            return f"k: must be at most {len(self._listed)}, the number of keys of {self.column!r}"
        return ""

    def left_out(self, unit: Unit) -> list[str]:
        each = [] if unit.column is None else [f"each {unit.column!r} counted once for each key"]
        return [*each, f"rows with other keys than the listed ones of {self.column!r} left out"]

    @property
    def natural(self) -> Interval:
        return Interval(1.0, float(max(len(self.choices), 2)))


def _mode_measures(asked: Mode, unit: Unit, groups: float) -> Measures:
    if asked.range is None:
        return SelectionKind.statistic.measures(asked, unit, groups)
    found = asked._histogram.measures(unit, groups)
    assert isinstance(found, Places)
    return replace(found, rows=asked.counted_rows, once=True)


class Mode(SelectionKind):
    """The most frequent value of a column: one of its public keys or, with a `range`, one of `bins` of equal width.

    The number that is published for a bin is its middle; the bins are those of a histogram. Where it names `bins` and
    no range, a plan fills in that of its [columns]. It is `top k` with k = 1.
    """

    size: ClassVar[int] = 1
    statistic = replace(SelectionKind.statistic, measures=_mode_measures)

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

    @property
    def lacking(self) -> dict[str, str]:
        """The column, where it asks for bins and states no range."""
        return {"range": self.column} if self.range is None and self.bins is not None else {}

    @property
    def _histogram(self) -> Histogram:
        assert self.range is not None
        return Histogram(name=self.name, column=self.column, range=self.range, bins=self.bins or _BINS)

    @property
    def natural(self) -> Interval:
        return super().natural if self.range is None else self._histogram.bounds

    @property
    def answers_dated(self) -> bool:
        return self.range is not None and self._histogram.dated

    @property
    def reads(self) -> Values | None:
        return None if self.range is None else self._histogram.column_values

    @property
    def keyed(self) -> tuple[str, ...]:
        return super().keyed if self.range is None else ()

    def misfit(self, unit: Unit) -> str:
        return super().misfit(unit) if self.range is None else ""

    @property
    def choices(self) -> Key:
        return super().choices if self.range is None else self._histogram.parts

    @property
    def points(self) -> tuple[float, ...]:
        if self.range is None:
            return ()
        middles = (lower + (upper - lower) / 2 for lower, upper in pairwise(self._histogram.edges))
        return tuple(float(math.floor(each)) if self.answers_dated else each for each in middles)

    @property
    def subject(self) -> tuple[str, str]:
        if self.range is None:
            return f" of {self.column!r}, of {counted(len(self._listed), 'key')}", ""
        return f" of {self.column!r}, in {counted(len(self.choices), 'bin')} over {bounds(self.range)}", ""

    def left_out(self, unit: Unit) -> list[str]:
        if self.range is None:
            return super().left_out(unit)
        each = [] if unit.column is None else [f"each {unit.column!r} counted once for each bin"]
        clipped = f"values clipped to {span(self._histogram.bounds, dated=self.answers_dated)}"
        return [*each, "middle of a bin", clipped, "missing values left out"]


class RankedCounts(ScalarKind):
    """A `top k` of a column whose keys are selected privately: the `k` keys with the largest noisy counts, in order.

    A plan puts it in the place of a `top k` whose column has no public keys, and writes it as that one. Its last
    grouping column is the column. Units are counted in each of its groups, rows where the unit is the row, and the
    counts of all selected keys are drawn; which of them are the largest is post-processing.
    """

    form = FormName.RANKED
    statistic = Statistic(
        measures=lambda asked, unit, groups: asked.sums(n=Counted() if unit.column is None else Owned()),
        coordinates=plain_count,
        sensitivity=owners_sensitivity,
    )
    whole = True
    once = True
    ranked = True
    unmargined = _KEYS
    no_rows = "a unit counts once at each key, however many rows it has"
    natural: ClassVar[Interval] = Interval(1.0, math.inf)  # how many keys there are is not public
    unclamped: ClassVar[bool] = True  # counts that were clamped would tie

    kind: Literal["top k"]
    column: Name
    k: Annotated[int, Field(ge=1, le=1000)] = 10

    def as_written(self) -> Kind:
        return KINDS[self.kind].model_validate({**self.given, "by": self.by[:-1]})

    def with_keys(self, listed: Mapping[str, Key]) -> Kind:
        """The question that was asked, by these keys."""
        return self.as_written().with_keys(listed)

    def no_margin(self, unit: Unit) -> str:
        return Kind.no_margin(self, unit)

    @property
    def selected(self) -> str | None:
        return self.column

    def answer(self, key: Summed, draws: Draw) -> str:
        return str(key[-1])

    def described(self) -> str:
        return self.as_written().described()

    def left_out(self, unit: Unit) -> list[str]:
        each = [] if unit.column is None else [f"each {unit.column!r} counted once for each key"]
        return [*each, f"keys of {self.column!r} selected privately, so that there may be fewer than {self.k}"]


class TopK(SelectionKind):
    """The `k` most frequent of the public keys of a column, in order: ranks 1 to k, each with its key.

    A unit counts once for each key that it has, and needs no bound on how many these are. Where the column has no
    public keys, a plan has `RankedCounts` in its place.
    """

    kind: Literal["top k"] = "top k"
    k: Annotated[int, Field(ge=1, le=1000)] = 10

    def with_keys(self, listed: Mapping[str, Key]) -> Kind:
        """The same question with the public keys of its column; without any, by keys that are selected privately."""
        if listed.get(self.column):
            return super().with_keys(listed)
        return RankedCounts.model_validate({**self.given, "kind": self.kind, "by": (*self.by, self.column)})

    @property
    def size(self) -> int:
        return self.k

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(str(rank) for rank in range(1, self.k + 1))

    @property
    def subject(self) -> tuple[str, str]:
        keys = counted(len(self._listed), "key") if self._listed else "keys that are selected privately"
        return f" of {self.column!r}, k = {self.k}, of {keys}", ""
