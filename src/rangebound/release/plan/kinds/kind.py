"""What a kind of question is: all that has to be said about it, as abstract members, and the list of all kinds.

A kind is a class with a default for `kind`. It is on the list once its class body has run, and nothing else has to
know of it: plans, SQL, draws, tables, reports, certificates and the JSON schema ask its members. A class that lacks one
of them is an error where it is defined, so that nothing is ever filled in by a default.
"""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from pydantic import model_validator

from rangebound.release.noise.allocation import BudgetShare, LossForm, Sensitivity
from rangebound.release.noise.draw import Cell, Columns, Coordinates, Draw, Key, Label, Reading, Summed
from rangebound.release.noise.estimate import Estimate
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.condition import Condition, Conditions
from rangebound.release.plan.fields import UNKNOWN, Ends, Name, Names, Part, Positive, Spans, inside, support
from rangebound.release.plan.measure import Found, Measures, Values
from rangebound.release.plan.ranged_column import RangedColumn
from rangebound.release.plan.unit import MostGroups, MostRows, Period, Unit
from rangebound.release.plan.words import conditions, end
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union

KINDS: dict[str, type[Kind]] = {}
"""Every kind by its name, as plans write it."""


@dataclass(frozen=True, kw_only=True)
class Truncation:
    """Which rows of a question the contribution bounds may drop: its rows, or a unit's groups, or rows with a value.

    `also` are further columns in which such a row needs a value.
    """

    owners: bool = False
    column: str | None = None
    dated: bool = False
    range: Ends | None = field(default=None, compare=False)
    also: tuple[RangedColumn, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """Which values of a question its range clips; `also` are further columns in which a row needs a value."""

    column: str
    range: Ends
    missing: float | datetime.date | None = None
    also: tuple[RangedColumn, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Which numbers have to agree with each other, where a plan asks for consistent ones.

    `counts` says that the parts are counts of rows, which add up to other counts of the same rows; these are
    distinguished by `bins`, beside the grouping columns, and lack rows without a value in the column `lacking`.
    `rising` says that the parts of a group rise. Numbers of one `partition` add up to 1.
    """

    counts: bool = False
    bins: str | None = None
    lacking: str | None = None
    rising: bool = False
    partition: str | None = None


@dataclass(frozen=True, kw_only=True)
class OneCoordinate:
    """The one coordinate that the number of a group is made of: where it lies, and whether it is a whole number.

    It is published in `support`, on multiples of `step`.
    """

    range: Interval
    whole: bool
    support: Interval | Union
    step: float | None = None


class Kind(Part):
    """A question of a plan: a name, a filter, grouping columns, a support for the answer, a share of the budget.

    `rows`, `groups` and `period` are contribution bounds of its own, in place of those of the unit.
    """

    made: ClassVar[bool] = False
    """Whether no plan can ask for it: `report_clipping` makes it."""
    together: ClassVar[bool] = False
    """Whether one strategy publishes the numbers of all groups, and more numbers than there are groups and parts."""
    apart: ClassVar[bool] = False
    """Whether its parts are in different units, so that each is drawn in a picture of its own."""
    ranked: ClassVar[bool] = False
    """Whether of all groups those of the first ranks alone are published, as the draws say."""
    no_limit: ClassVar[str] = "it is proved for one number that a unit moves by a bounded distance"
    """Why there is no proved limit on the error of its numbers, where these are not made of one coordinate."""
    no_rows: ClassVar[str] = ""
    """Why the number of rows of a unit does not bound it; empty if it does."""
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
        if cls.__abstractmethods__:
            raise TypeError(f"{cls.__name__}: kind {name!r} lacks {', '.join(sorted(cls.__abstractmethods__))}")
        if name in KINDS:
            raise TypeError(f"{cls.__name__}: kind {name!r} is taken by {KINDS[name].__name__}")
        KINDS[name] = cls

    @model_validator(mode="after")
    def _support_fits(self) -> Kind:
        if len(set(self.by)) < len(self.by):
            raise ValueError("by: a column is named twice")
        if self.support is not None and not inside(support(self.support), self.natural):
            natural = self.natural
            said = (natural.lower, natural.upper)
            ends = ", ".join(end(each, dated=True) if self.answers_dated else f"{each:g}" for each in said)
            raise ValueError(f"support: must lie within [{ends}], where the answer is")
        if self.margin is not None and self.weight is not None:
            raise ValueError("margin: goes without a weight; it says itself which share of the budget is needed")
        if self.margin is not None and len(self.allowed.spans) > 1:
            raise ValueError("margin: goes without gaps in the support, which move numbers out of their intervals")
        return self

    # What is asked

    @property
    @abstractmethod
    def natural(self) -> Interval:
        """Where the answer lies whatever the data."""

    @property
    @abstractmethod
    def answers_dated(self) -> bool:
        """Whether the answers are dates."""

    @property
    @abstractmethod
    def reads(self) -> Values | None:
        """The column whose values it is about, which the plan names as `column`; None if there is none."""

    @property
    @abstractmethod
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions on rows that it evaluates."""

    @abstractmethod
    def misfit(self, unit: Unit) -> str:
        """Why it cannot be asked where such units are protected; empty if it can."""

    # What the engine counts

    @abstractmethod
    def measures(self, unit: Unit, groups: float) -> Measures:
        """What is added up over rows, where `counted_by` has so many groups, infinitely many if it is private."""

    @abstractmethod
    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """The coordinates of one group, from the sums that the engine found there."""

    @abstractmethod
    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """How far one unit can move the coordinates, in L1 and L2; the docstring of each kind proves it.

        `groups` is the number of groups of `counted_by`, infinite where it is private.
        """

    @abstractmethod
    def known_rows(self, unit: Unit) -> int | None:
        """How many rows it is about, if that is public."""

    # What is published

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]:
        """The names of the numbers that it publishes in a group."""

    @property
    @abstractmethod
    def draws(self) -> int:
        """How many of its numbers a unit can be part of in one group; they share the budget."""

    @property
    @abstractmethod
    def interval_part(self) -> float:
        """Which part of its budget goes into draws for intervals."""

    @property
    @abstractmethod
    def uses_delta(self) -> bool:
        """Whether its mechanisms can use a delta."""

    @property
    @abstractmethod
    def loss(self) -> LossForm:
        """What the privacy loss of its numbers is like, which says what they cost in a Gaussian account."""

    @abstractmethod
    def publisher(
        self, unit: Unit, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns
    ) -> Publisher:
        """What publishes the coordinates of all groups; a fault is a `PlanError` about one of its fields.

        `columns` are the public keys of each of its grouping columns, empty where they are selected privately.
        """

    @abstractmethod
    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The number that is made of one draw, with its interval: post-processing, inside the support."""

    @abstractmethod
    def unclamped_number(self, draws: Draw) -> float | None:
        """The unbiased number of a draw, where the plan asks for it and the kind has one; else None, and why."""

    @abstractmethod
    def bias(self, publisher: Publisher, unit: Unit, lower: Floats, upper: Floats) -> Floats | None:
        """A bound on the bias of published numbers, by the intervals from `lower` to `upper` that they have.

        Guarantee: for every true answer x in an interval, |E[published number] - x| is at most the bound, if the answer
        is x and nothing else. None where no such bound is known; the docstring of a kind then says why.
        """

    @property
    @abstractmethod
    def effort(self) -> tuple[Hashable, float]:
        """What questions share the steps of a certificate's check by, and how many of 10 milliseconds it takes."""

    # What is said about it

    @property
    @abstractmethod
    def subject(self) -> tuple[str, str]:
        """What follows its kind in an explanation: before `where`, and after it."""

    @abstractmethod
    def no_margin(self, unit: Unit) -> str:
        """Why no margin can be asked of it, as a rule; empty if one can, since its interval follows from the noise."""

    @abstractmethod
    def half_width(self, publisher: Publisher, unit: Unit) -> float | None:
        """Half the width of its widest interval, in units of the answer; None where the data decide.

        The interval before it is cut to the support, and after it was widened to hold a number that was rounded. A
        support with gaps, or numbers that are moved so that they add up, may widen it further.
        """

    @abstractmethod
    def expected_error(self, publisher: Publisher) -> str:
        """How far a number may be from the exact aggregate, as far as public facts say."""

    @abstractmethod
    def scope(self, unit: Unit, groups: float) -> list[str]:
        """What was left out or moved before the noise, in words."""

    # What others ask of it

    @property
    @abstractmethod
    def agreement(self) -> Agreement:
        """What its numbers have to agree with."""

    @abstractmethod
    def truncated(self, *, choosing: bool) -> Truncation | None:
        """What the contribution bounds may drop, or None; `choosing` says that a unit's groups are bounded."""

    @property
    @abstractmethod
    def clipping(self) -> Clipping | None:
        """What its range clips, or None."""

    # What a plan fills in

    def filled(self, ranges: Mapping[str, Ends]) -> Self:
        """The same question with public ranges of columns, where it leaves its own out and they are known."""
        found = {
            name: {"column": each.column, "range": ranges[each.column]}
            for name, each in self.reads_also.items()
            if each.range == UNKNOWN and each.column in ranges
        }
        return self.changed(**found) if found else self

    def changed(self, **fields: object) -> Self:
        """The same question with other values of some fields, checked again."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate({**given, **fields})

    @property
    def lacks_range(self) -> bool:
        """Whether it needs a public range of a column, and none is known."""
        return any(each.range == UNKNOWN for each in self.reads_also.values())

    # What follows from these

    @property
    def allowed(self) -> Interval | Union:
        """Where the published number lies: the support of the plan, or else all of the natural one."""
        return self.natural if self.support is None else support(self.support)

    def earlier_estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The number that version 0.2 made of one draw, by which its tables are checked."""
        return self.estimate(reading, unit)

    @property
    def counted_by(self) -> tuple[str, ...]:
        """The grouping within which rows count, which is also published unless it says how much others leave out."""
        return self.by

    @property
    def reads_also(self) -> Mapping[str, RangedColumn]:
        """Further columns that it reads, by the field of the plan that names them; a row needs a value in each."""
        return {}

    @property
    def compares(self) -> Mapping[str, str]:
        """Columns whose values it compares as grouping keys are, by the field of the plan that names them."""
        return {}

    @property
    def needs_also(self) -> tuple[RangedColumn, ...]:
        """The same columns as those that a row needs a value in."""
        return tuple(RangedColumn(column=each.column, range=each.range) for each in self.reads_also.values())

    @property
    def clippings(self) -> tuple[Clipping, ...]:
        """All that ranges clip: `clipping`, and what lies outside the ranges of further columns."""
        every = self.needs_also
        own = () if self.clipping is None else (replace(self.clipping, also=every),)
        needed = () if self.clipping is None or self.clipping.missing is not None else (self.clipping,)
        first = tuple(RangedColumn(column=each.column, range=each.range) for each in needed)
        others = ((each, tuple(other for other in every if other != each)) for each in every)
        return (*own, *(Clipping(column=each.column, range=each.range, also=(*first, *rest)) for each, rest in others))

    @property
    def keyed(self) -> tuple[str, ...]:
        """Columns beside `by` that it reads as keys: the plan lists them."""
        return ()

    @property
    def selected(self) -> str | None:
        """The column whose keys, or bins, are its answers; None where these are numbers or dates."""
        return None

    def answer(self, key: Summed, draws: Draw) -> str:
        """The key that was drawn in the group of a key, where its answers are keys."""
        raise TypeError(f"{self.kind}: its answers are numbers")

    def ranking(self, cells: Sequence[Cell]) -> list[Cell]:
        """What is published of its cells; where it is `ranked`, the first of them with their ranks."""
        return list(cells)

    def as_written(self) -> Kind:
        """The question as a plan asks it."""
        return self

    def with_keys(self, listed: Mapping[str, Key]) -> Kind:
        """The same question in a plan with these public keys, by column."""
        return self

    def selecting_rows(self, unit: Unit) -> int | None:
        """The most that a unit adds to its noisy number in a group, if that number can say which groups to name."""
        return None

    def is_marginal(self, unit: Unit) -> bool:
        """Whether its numbers are counts of rows that may be measured together with those by other columns.

        Each row adds 1 to one of them at most; they have no mechanism, share, margin, support or step of their own.
        """
        return False

    def excess_variance(self, unit: Unit, found: Sensitivity, columns: Columns, *, gaussian: bool) -> float:
        """The mean variance of its numbers, divided by that of numbers with noise by the sensitivity alone."""
        return 1.0

    def one_coordinate(self, unit: Unit) -> OneCoordinate | None:
        """The coordinate, where the number of a group is made of one alone; None where it is made of several."""
        return None

    def published_in(self, unit: Unit) -> Interval | Union:
        """Where the numbers are published, which a public number of rows may bound."""
        return self.allowed

    def stated_ends(self, unit: Unit) -> list[tuple[str | None, Interval, Interval]]:
        """The ends of a support that the plan states, and those without it; for all numbers, or for those of a part."""
        if self.support is None:
            return []
        free = self.model_copy(update={"support": None}).published_in(unit)
        return [(None, self.allowed.hull, free.hull)]

    def misfit_of_keys(self, columns: Columns) -> str:
        """Why it cannot be asked for groups by these public keys; empty if it can."""
        return ""

    def labels(self, keys: Sequence[Key]) -> list[list[Label]]:
        """The key and the part of every number that is published for these groups, as its publisher draws them."""
        return [[(key, part) for part in self.parts] for key in keys]

    def numbers(self, columns: Columns, groups: float) -> float:
        """How many numbers are published, where it has so many groups."""
        return groups * len(self.parts)

    def described(self) -> str:
        """What is asked, in one line."""
        before, after = self.subject
        filtered = f", where {conditions(self.where)}" if self.where else ""
        grouped = f", by {', '.join(self.by)}" if self.by else ""
        return f"{self.name}: {self.kind}{before}{filtered}{after}{grouped}"

    def _whole_table(self, unit: Unit) -> int | None:
        """The number of all rows, where it is public and all of them count."""
        return unit.public_rows if not self.where and not self.by else None


def rounded_half_width(half_width: float, step: float | None) -> float:
    """Half the width of an interval of that half-width that holds its middle also when that is rounded to the step.

    The number moves by at most half a step: beyond an end, that end moves along.

    >>> rounded_half_width(3.0, 1.0), rounded_half_width(0.1, 1.0)
    (3.0, 0.3)
    """
    return max(half_width, (half_width + (step or 0.0) / 2) / 2)


def truncation_scope(question: Kind, unit: Unit, groups: float, *, rows: bool) -> list[str]:
    """What the contribution bounds drop: whole groups of a unit, and `rows` in each group."""
    if unit.column is None:
        return []
    said = [] if groups <= unit.groups else [f"groups per {unit.column!r} cut at {unit.groups}"]
    parts = [repr(unit.column), *(["group"] if question.by else []), *([unit.period.each] if unit.period else [])]
    each = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    said += [f"rows per {each} cut at {unit.rows}"] if rows else []
    return [*said, *period_scope(unit)]


def period_scope(unit: Unit) -> list[str]:
    """Rows outside the range of the periods do not count."""
    if unit.period is None:
        return []
    first, last = unit.period.range
    return [f"rows outside {first} to {last} in {unit.period.column!r} left out"]


def owner_scope(unit: Unit) -> list[str]:
    """Rows without an owner do not count."""
    return [f"rows without {unit.column!r} left out"] if unit.column is not None else []
