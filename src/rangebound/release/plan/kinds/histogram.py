"""The number of rows in each of some bins."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, TypeAdapter, ValidationError, WithJsonSchema, model_validator

from rangebound.release.plan.fields import (
    HALF_LINE,
    LATE,
    LINE,
    MOST_BINS,
    UNKNOWN,
    Bound,
    Edges,
    Name,
    Names,
    Range,
    end,
    number,
)
from rangebound.release.plan.kinds.facts import Agreement, FormName, SampledCounts, counted_units
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import Places
from rangebound.release.plan.statistic import Statistic, by_place, rows_by_place
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval

_COUNT: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=2, le=MOST_BINS, strict=True)], config=LATE)
_EDGES: TypeAdapter[tuple[Bound, ...]] = TypeAdapter(Edges, config=LATE)
_EDGE = {"anyOf": [{"type": "number"}, {"type": "string", "format": "date"}]}
_LIST = {"type": "array", "items": _EDGE, "minItems": 3, "maxItems": MOST_BINS + 1}


def _bins(value: object) -> int | tuple[Bound, ...]:
    if not isinstance(value, (list, tuple)):
        return _COUNT.validate_python(value)
    found = _EDGES.validate_python(value, strict=True)
    if len(found) == 2:
        raise ValueError("must have three edges or more, for two bins")
    return found


Bins = Annotated[
    int | tuple[Bound, ...],
    PlainValidator(_bins),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 2, "maximum": MOST_BINS}, _LIST]}),
]


class Histogram(Kind):
    """The number of rows in each of some bins: a number of equal width over the column's range, or those between edges.

    A bin has its lower edge and not its upper one, but the last has both; what is beyond the range is in the end bins.
    The range of a list of edges is from the first to the last. With `bin_names` the bins have names of the plan's own.

    >>> Histogram(name="ages", column="age", bins=(0, 18, 65, 120), bin_names=("child", "adult", "old")).bounds
    Interval(lower=0.0, upper=120.0)
    """

    form = FormName.BINS
    statistic = Statistic(
        measures=lambda asked, *_: Places(
            rows=asked.counted_rows,
            values=asked.column_values,
            borders=asked.borders,
            scale=asked.bins / (asked.ends[1] - asked.ends[0]) if isinstance(asked.bins, int) else None,
            shift=0.0,
        ),
        coordinates=by_place(lambda asked: asked.size),
        sensitivity=rows_by_place,
    )
    whole = True

    kind: Literal["histogram"] = "histogram"
    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)
    missing: Bound | None = None
    unbiased: bool | None = None
    signed: bool | None = None
    bins: Bins = 10
    bin_names: Names | None = None

    @model_validator(mode="before")
    @classmethod
    def _range_of_edges(cls, data: object) -> object:
        if not isinstance(data, dict) or "range" in data:
            return data
        edges = data.get("bins")
        if not isinstance(edges, (list, tuple)):
            return data
        try:
            first, *_, last = _EDGES.validate_python(edges, strict=True)
        except ValidationError:  # the field itself says what is wrong with it
            first, last = 0.0, 1.0
        return {**data, "range": (first, last)}

    @model_validator(mode="after")
    def _bins_fit(self) -> Histogram:
        if isinstance(self.bins, int):
            if self.dated and self.bins > self.bounds.width:
                raise ValueError(f"bins: must be at most {self.bounds.width:.0f}, so that each has a day")
        elif (self.bins[0], self.bins[-1]) != self.range:
            raise ValueError("range: must be from the first to the last edge of `bins`; it can be left out")
        if self.bin_names is not None and len(self.bin_names) != self.size:
            raise ValueError(f"bin_names: must be {self.size}, one for each bin")
        if self.bin_names is not None and len(set(self.bin_names)) < self.size:
            raise ValueError("bin_names: two bins have the same name")
        return self

    @property
    def size(self) -> int:
        """How many bins there are."""
        return self.bins if isinstance(self.bins, int) else len(self.bins) - 1

    @property
    def natural(self) -> Interval:
        return LINE if self.signed else HALF_LINE

    @property
    def edges(self) -> tuple[float, ...]:
        """The edges of the bins, by which values are counted and bins are named.

        Edge i is the double nearest to lower + (upper - lower) i / bins, where the ends are as the plan writes them; of
        dates, the first day that is not before that. Edges that the plan lists are as they are.

        >>> Histogram(name="ages", column="age", range=(0.1, 0.7), bins=6).edges
        (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
        """
        if not isinstance(self.bins, int):
            return tuple(map(number, self.bins))
        lower, upper = self.ends
        exact = [lower + (upper - lower) * at / self.bins for at in range(self.bins + 1)]
        return tuple(float(math.ceil(each)) if self.dated else float(each) for each in exact)

    @property
    def borders(self) -> tuple[float, ...]:
        """The edges between two bins."""
        return self.edges[1:-1]

    @property
    def parts(self) -> tuple[str, ...]:
        """The bins by their names, or else by their edges: all digits of them, so that these say which values it has.

        >>> Histogram(name="hours", column="hour", range=(0, 1), bins=3).parts[0]
        '0 to 0.3333333333333333'
        """
        if self.bin_names is not None:
            return self.bin_names
        texts = [end(edge, dated=self.dated) for edge in self.edges]
        return tuple(f"{a} to {b}" for a, b in pairwise(texts))

    @property
    def subject(self) -> tuple[str, str]:
        before, after = super().subject
        if self.bin_names is None:
            return before, after
        edges = [end(edge, dated=self.dated) for edge in self.edges]
        named = (f"{name!r} {a} to {b}" for name, (a, b) in zip(self.bin_names, pairwise(edges), strict=True))
        return f"{before}, in bins {', '.join(named)}", after

    def sampled(self, unit: Unit) -> SampledCounts:
        """By the law of the rows in a bin: what is to be expected of as many rows."""
        return counted_units(unit, unit.most_rows)

    @property
    def agreement(self) -> Agreement:
        lacking = self.column if self.missing is None else None
        own = "" if self.bin_names is None else f" {self.bin_names}"
        return Agreement(counts=True, bins=f"\0{self.column} {self.range} {self.bins}{own}", lacking=lacking)
