"""What a kind of question is: its fields, the facts that follow from them, its statistic, and the list of all kinds.

A kind is a class with a default for `kind`, at most two classes above which is `Kind`. It is on the list once its class
body has run, and nothing else has to know of it: plans, SQL, draws, tables, reports, certificates and the JSON schema
ask its members. What is drawn for it, and how intervals are made, follows from its `form`. A class that lacks its form
or its statistic is an error where it is defined, so that none of these is ever filled in by a default.
"""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self, cast

from pydantic import model_validator

from rangebound.release.plan.condition import Condition, Conditions, conditions
from rangebound.release.plan.fields import (
    UNKNOWN,
    Ends,
    Name,
    Names,
    Part,
    Positive,
    Spans,
    as_support,
    bounds,
    end,
    number,
    span,
    written,
)
from rangebound.release.plan.kinds.facts import (
    Agreement,
    FormName,
    OneCoordinate,
    RangedColumn,
    Sampled,
    SampledCounts,
    Weight,
    clamping_alone,
)
from rangebound.release.plan.measure import (
    Counted,
    Found,
    GroupSums,
    Measure,
    Measures,
    Product,
    Rows,
    UnitPart,
    Value,
    Values,
    values_of,
)
from rangebound.release.plan.statistic import Columns, Coordinates, Draw, Key, Label, Sensitivity, Statistic, Summed
from rangebound.release.plan.unit import MostGroups, MostRows, Period, Unit
from rangebound.values.support import Interval, Union

KINDS: dict[str, type[Kind]] = {}
"""Every kind by its name, as plans write it."""


class Kind(Part):
    """A question of a plan: a name, a filter, grouping columns, a support for the answer, a share of the budget.

    `rows`, `groups` and `period` are contribution bounds of its own, in place of those of the unit.

    Further fields mean the same in every kind that has them. `column`, `range` and `missing` are a column of numbers
    (or dates), its public range, and what a row without a value counts as: without `missing` it does not count, and
    without `range` the plan fills in that of its [columns]. `weighted_by` are survey weights: a row counts as often as
    its own says. `unbiased` publishes the number before it was moved into the support beside the one in the support,
    and `signed` in its place. `mechanism` names the noise.
    """

    form: ClassVar[FormName]
    """What its numbers are made of."""
    statistic: ClassVar[Statistic]
    """What it adds up, its coordinates, and how far a unit moves them."""
    made: ClassVar[bool] = False
    """Whether no plan can ask for it: `report_clipping` makes it."""
    whole: ClassVar[bool] = False
    """Whether its answers are whole numbers where rows have no weights; so are its support and step then."""
    in_units: ClassVar[bool] = False
    """Whether its answers are in the units of its column, and dates where that has dates."""
    once: ClassVar[bool] = False
    """Whether a unit counts once in each group, however many rows it has there."""
    together: ClassVar[bool] = False
    """Whether one strategy publishes the numbers of all groups, and more numbers than there are groups and parts."""
    apart: ClassVar[bool] = False
    """Whether its parts are in different units, so that each is drawn in a picture of its own."""
    ranked: ClassVar[bool] = False
    """Whether of all groups those of the first ranks alone are published, as the draws say."""
    unmargined: ClassVar[str] = ""
    """Why no margin can be asked of it; empty if one can, since its interval follows from the noise."""
    no_limit: ClassVar[str] = "it is proved for one number that a unit moves by a bounded distance"
    """Why there is no proved limit on the error of its numbers, where these are not made of one coordinate."""
    no_rows: ClassVar[str] = ""
    """Why the number of rows of a unit does not bound it; empty if it does."""
    unplaced: ClassVar[str] = ""
    """Why the plan can state neither a support nor a step; empty if it can."""
    cut_uncounted: ClassVar[str] = ""
    """What its own bounds drop that `report_clipping` does not count, in words; empty if that counts all."""

    kind: str
    name: Name
    where: Conditions = ()
    by: Names = ()
    rows: MostRows | None = None
    groups: MostGroups | None = None
    period: Period | None = None
    support: Spans | None = None
    step: Positive | None = None
    weight: Positive | None = None
    margin: Positive | None = None

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        super().__pydantic_init_subclass__(**settings)
        name = cls.model_fields["kind"].default
        if not isinstance(name, str):
            return
        facts = (each for each in ("form", "statistic") if not hasattr(cls, each))
        lacking = sorted({*cls.__abstractmethods__, *facts})
        if lacking:
            raise TypeError(f"{cls.__name__}: kind {name!r} lacks {', '.join(lacking)}")
        if name in KINDS:
            raise TypeError(f"{cls.__name__}: kind {name!r} is taken by {KINDS[name].__name__}")
        KINDS[name] = cls

    @model_validator(mode="after")
    def _fits(self) -> Kind:
        if len(set(self.by)) < len(self.by):
            raise ValueError("by: a column is named twice")
        for name in ("support", "step"):
            if self.unplaced and getattr(self, name) is not None:
                raise ValueError(f"{name}: is not for this kind, {self.unplaced}")
        if self.support is not None:
            hull, said = self.allowed.hull, (self.natural.lower, self.natural.upper)
            if not said[0] <= hull.lower <= hull.upper <= said[1]:
                ends = ", ".join(end(each, dated=True) if self.answers_dated else f"{each:g}" for each in said)
                raise ValueError(f"support: must lie within [{ends}], where the answer is")
        if self.margin is not None and self.weight is not None:
            raise ValueError("margin: cannot be combined with weight; a margin fixes its own share of the budget")
        if self.margin is not None and len(self.allowed.spans) > 1:
            raise ValueError("margin: cannot be combined with gaps in support, which move numbers out of intervals")
        if self.is_whole and any(number(end) % 1.0 for span in self.support or () for end in span):
            raise ValueError("support: the ends must be whole numbers, as counts are")
        if self.is_whole and (self.step or 1.0) % 1.0:
            raise ValueError("step: must be a whole number, as counts are whole numbers; leave it out for 1")
        if self._stated("signed") and self.support is not None:
            raise ValueError("signed: cannot be combined with support; unbiased = true publishes the signed number too")
        asked = "signed" if self._stated("signed") else "unbiased"
        if self.unclamped and (way := clamping_alone(self.named_mechanism, asked)):
            raise ValueError(f"mechanism: {self.named_mechanism!r} has no unbiased number; {way}")
        return self

    # The statistic

    @property
    @abstractmethod
    def natural(self) -> Interval:
        """Where the answer lies whatever the data."""

    def measures(self, unit: Unit, groups: float) -> Measures:
        """What is added up over rows, where `counted_by` has this many groups, infinitely many if it is private."""
        return self.statistic.measures(self, unit, groups)

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """The coordinates of one group, from the sums that the engine found there."""
        return self.statistic.coordinates(self, found, unit)

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """How far one unit can move the coordinates, in L1 and L2, where `counted_by` has this many groups."""
        return self.statistic.sensitivity(self, unit, groups)

    # What its fields say, where it has them

    def _stated(self, name: str) -> Any:
        return self.__dict__.get(name)

    @property
    def column_values(self) -> Values:
        """The values of the column, clipped to its range; what stands for a missing one is within it."""
        return values_of(self._stated("column"), self._stated("range"), self._stated("missing"))

    @property
    def bounds(self) -> Interval:
        """The public range of the column."""
        return Interval(*map(number, self._stated("range")))

    @property
    def dated(self) -> bool:
        """Whether the range was given in dates."""
        return isinstance(self._stated("range")[0], datetime.date)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The ends of the range as the plan writes them, exactly."""
        return written(self.bounds.lower), written(self.bounds.upper)

    @property
    def weights(self) -> Weight | None:
        """The survey weights of its rows."""
        return cast("Weight | None", self._stated("weighted_by"))

    @property
    def largest_weight(self) -> Fraction:
        """The most that one row counts for: the upper end of the weights, or 1."""
        return Fraction(1) if self.weights is None else Fraction(self.weights.bounds.upper)

    @property
    def is_whole(self) -> bool:
        """Whether its answers are whole numbers."""
        return self.whole and self.weights is None

    @property
    def unclamped(self) -> bool:
        """Whether its noise has to be drawn without clamping or truncation."""
        return bool(self._stated("signed") or self._stated("unbiased"))

    @property
    def named_mechanism(self) -> str | None:
        """The mechanism that the plan names."""
        return cast("str | None", self._stated("mechanism"))

    # What is asked

    @property
    def answers_dated(self) -> bool:
        """Whether the answers are dates."""
        return self.in_units and self.dated

    @property
    def reads(self) -> Values | None:
        """The column whose values it is about, which the plan names as `column`; None if there is none."""
        return self.column_values if "missing" in self.__dict__ else None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions on rows that it evaluates."""
        return self.where

    def misfit(self, unit: Unit) -> str:
        """Why it cannot be asked where such units are protected; empty if it can."""
        return ""

    def no_margin(self, unit: Unit) -> str:
        """Why no margin can be asked of it, as a rule; empty if one can, since its interval follows from the noise."""
        return f"must not be asked of {self.kind!r}, {self.unmargined}; give a weight" if self.unmargined else ""

    def known_rows(self, unit: Unit) -> int | None:
        """How many rows it is about, if that is public.

        How many rows have a value is not, unless the plan says what a missing value counts as.
        """
        return self.all_rows(unit) if self._stated("missing") is not None else None

    def all_rows(self, unit: Unit) -> int | None:
        """The number of all rows, where it is public and all of them count, once."""
        return unit.public_rows if not self.where and not self.by and self.weights is None else None

    # What the engine counts

    @property
    def counted_rows(self) -> Rows:
        """The rows that meet `where` and have a value, or the plan's constant for one, in each column that it reads."""
        return Rows(where=self.where, values=self.reads, also=tuple(each.values for each in self.reads_also.values()))

    @property
    def counted(self) -> Measure:
        """What a row counts for: 1, or its weight in fixed point."""
        return Counted() if self.weights is None else Value(of=self.weights.values)

    def weighted(self, measure: Measure) -> Measure:
        """A measure in fixed point, times the weight of its row as a part of the largest one."""
        return measure if self.weights is None else Product(of=(self.counted, measure))

    def sums(self, **of: Measure | UnitPart) -> GroupSums:
        """The rows within the contribution bounds, and sums of measures over them."""
        return GroupSums(rows=self.counted_rows, of=of)

    # What is published

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the numbers that it publishes in a group; one number needs none."""
        return ("",)

    @property
    def allowed(self) -> Interval | Union:
        """Where the published number lies: the support of the plan, or else all of the natural one."""
        return self.natural if self.support is None else as_support(self.support)

    def published_in(self, unit: Unit) -> Interval | Union:
        """Where the numbers are published, which a public number of rows may bound."""
        return self.allowed

    def stated_ends(self, unit: Unit) -> list[tuple[str | None, Interval, Interval]]:
        """The ends of a support that the plan states, and those without it; for all numbers, or for those of a part."""
        if self.support is None:
            return []
        free = self.model_copy(update={"support": None}).published_in(unit)
        return [(None, self.allowed.hull, free.hull)]

    def one_coordinate(self, unit: Unit) -> OneCoordinate | None:
        """The coordinate, where the number of a group is made of one alone; None where it is made of several."""
        return None

    def selecting_rows(self, unit: Unit) -> int | None:
        """The most that a unit adds to its noisy number in a group, if that number can say which groups to name."""
        return None

    def is_marginal(self, unit: Unit) -> bool:
        """Whether its numbers are counts of rows that may be measured together with those by other columns.

        Each row adds 1 to one of them at most; they have no mechanism, share, margin, support or step of their own.
        """
        return False

    @property
    def selected(self) -> str | None:
        """The column whose keys, or bins, are its answers; None where these are numbers or dates."""
        return None

    def answer(self, key: Summed, draws: Draw) -> str:
        """The key that was drawn in the group of a key, where its answers are keys."""
        raise TypeError(f"{self.kind}: its answers are numbers")

    # What it says of a population

    def sampled(self, unit: Unit) -> Sampled | SampledCounts | str:
        """How its answer in the population shows in its coordinates; or in words why it has no such interval."""
        return f"no interval for the population is proved for kind {self.kind!r}"

    def for_population(self, unit: Unit, epsilon: float) -> Self:
        """The same question with what an interval for the population measures beside its own, if that pays."""
        return self

    # What is said about it

    @property
    def subject(self) -> tuple[str, str]:
        """What follows its kind in an explanation: before `where`, and after it."""
        if self.reads is None:
            return self.weighting, ""
        return f" of {self._stated('column')!r}, which lies in {bounds(self._stated('range'))}", self.weighting

    @property
    def weighting(self) -> str:
        """The weights in an explanation."""
        return "" if self.weights is None else f", weighted by {self.weights.subject}"

    def described(self) -> str:
        """What is asked, in one line."""
        before, after = self.subject
        filtered = f", where {conditions(self.where)}" if self.where else ""
        grouped = f", by {', '.join(self.by)}" if self.by else ""
        return f"{self.name}: {self.kind}{before}{filtered}{after}{grouped}"

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """What was left out or moved before the noise, in words."""
        dropped = unit.truncation_scope(self.by, groups, rows=not self.once)
        return [*dropped, *self.left_out(unit), *unit.owner_scope]

    def left_out(self, unit: Unit) -> list[str]:
        """What was left out or moved beside what the contribution bounds drop: clipped and missing values."""
        found = []
        if self.weights is not None:
            weights = f"weights clipped to {span(self.weights.bounds, dated=False)}"
            found += [weights, "rows without a weight left out"]
        if self.reads is not None:
            filler = self.reads.filler
            missing = "left out" if filler is None else f"counted as {end(filler, dated=self.dated)}"
            clipped = f"values clipped to {span(self.bounds, dated=self.dated)}"
            found += [clipped, f"missing values {missing}"]
        return found

    # What others ask of it

    @property
    def agreement(self) -> Agreement:
        """What its numbers have to agree with."""
        return Agreement()

    @property
    def counted_by(self) -> tuple[str, ...]:
        """The grouping within which rows count, which is also published unless it says how much others leave out."""
        return self.by

    @property
    def reads_also(self) -> Mapping[str, RangedColumn]:
        """Further columns that it reads, by the field of the plan that names them; a row needs a value in each."""
        return {} if self.weights is None else {"weighted_by": self.weights}

    @property
    def compares(self) -> Mapping[str, str]:
        """Columns whose values it compares as grouping keys are, by the field of the plan that names them."""
        return {}

    @property
    def keyed(self) -> tuple[str, ...]:
        """Columns beside `by` that it reads as keys: the plan lists them."""
        return ()

    def misfit_of_keys(self, columns: Columns) -> str:
        """Why it cannot be asked for groups by these public keys; empty if it can."""
        return ""

    def labels(self, keys: Sequence[Key]) -> list[list[Label]]:
        """The key and the part of every number that is published for these groups, as its publisher draws them."""
        return [[(key, part) for part in self.parts] for key in keys]

    def numbers(self, columns: Columns, groups: float) -> float:
        """How many numbers are published, where it has this many groups."""
        return groups * len(self.parts)

    # What a plan fills in

    @property
    def lacking(self) -> dict[str, str]:
        """The columns whose public range it needs and does not state, by the field of their range, or of both."""
        found = {name: one.column for name, one in self.reads_also.items() if one.range == UNKNOWN}
        return found | ({"range": self._stated("column")} if self._stated("range") == UNKNOWN else {})

    def filled(self, ranges: Mapping[str, Ends]) -> Self:
        """The same question with public ranges of columns, where it leaves its own out and they are known."""
        found = {
            field: ranges[column] if field == "range" else {"column": column, "range": ranges[column]}
            for field, column in self.lacking.items()
            if column in ranges
        }
        return type(self).model_validate({**self.given, **found}) if found else self

    @property
    def given(self) -> dict[str, object]:
        """The fields that it was made with."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def as_written(self) -> Kind:
        """The question as a plan asks it."""
        return self

    def with_keys(self, listed: Mapping[str, Key]) -> Kind:
        """The same question in a plan with these public keys, by column."""
        return self
