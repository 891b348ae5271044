"""Questions answered by a key: the most frequent ones of a public list, by one joint exponential mechanism."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

from pydantic import PrivateAttr, model_validator

from rangebound.release.noise import joint_selection
from rangebound.release.noise.allocation import BudgetShare, LossForm, Sensitivity
from rangebound.release.noise.draw import Columns, Coordinates, Draw, Key, Reading, Summed
from rangebound.release.noise.estimate import Estimate, held
from rangebound.release.noise.publishers import Publisher
from rangebound.release.noise.selection_publisher import SelectionPublisher
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import Name
from rangebound.release.plan.kinds.kind import Agreement, Kind, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.measure import ONE, Found, Rows
from rangebound.release.plan.sensitivity import of_parts
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

_DRAWN = 20_000  # counts in one step of a certificate's check


class SelectionKind(Kind):
    """A question answered by the most frequent keys, or bins, of a column: a unit counts once at each that it has.

    Where the unit is the row, rows are counted. In each group the keys of all ranks are drawn together.
    """

    no_rows: ClassVar[str] = "a unit counts once at each key or bin, however many rows it has"

    column: Name

    _listed: Key = PrivateAttr(default=())  # the public keys of the column, which the plan has

    @model_validator(mode="after")
    def _selects(self) -> SelectionKind:
        for name in ("support", "step"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name}: is not for this kind, whose answers are keys of a list")
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
    @abstractmethod
    def choices(self) -> Key:
        """What is chosen from, as texts."""

    @property
    @abstractmethod
    def points(self) -> tuple[float, ...]:
        """The number to publish for each choice; none where it is the rank."""

    @property
    def counted_rows(self) -> Rows:
        """The rows that meet `where`."""
        return Rows(where=self.where)

    @property
    def selected(self) -> str | None:
        """The column."""
        return self.column

    def answer(self, key: Summed, draws: Draw) -> str:
        """The key, or bin, that was drawn."""
        return self.choices[int(draws[0])]

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of `where`."""
        return self.where

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """Units by choice."""
        return tuple(Fraction(found.get(at, 0), ONE) for at in range(len(self.choices)))

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """One in each coordinate (L-infinity), however many of them a unit is in: as many steps as `of_parts` has.

        A unit adds 0 or 1 to each of the n coordinates of a group: a step of 1 in L-infinity, and of n in L1 and in
        squared L2, in each of at most g groups. A unit that is replaced takes two steps. What a step moves the scores
        by is in `joint_selection.score_range`.
        """
        found = of_parts(1, unit, groups)
        moved = int(min(found.groups, groups)) * len(self.choices)
        return replace(found, square=Fraction(moved), supremum=True)

    def known_rows(self, unit: Unit) -> int | None:
        """It does not matter here."""
        return None

    @property
    def draws(self) -> int:
        """One: all ranks are drawn together."""
        return 1

    @property
    def interval_part(self) -> float:
        """Nothing: it has no intervals."""
        return 0.0

    @property
    def uses_delta(self) -> bool:
        """Never: the exponential mechanism is pure."""
        return False

    @property
    def loss(self) -> LossForm:
        """That of an exponential mechanism: `joint_selection.privacy_loss` proves that it has that range."""
        return LossForm.RANGE

    def publisher(
        self, unit: Unit, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns
    ) -> Publisher:
        """The joint exponential mechanism."""
        return SelectionPublisher(
            keys=len(self.choices),
            size=self.size,
            rate=joint_selection.rate(self.size, found.cell, share.drawn),
            support=self.natural,
            confidence=level,
            points=self.points,
        )

    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The rank, or the point of the bin, within all that there are."""
        (value,), ((lower, upper),) = reading.values, reading.intervals
        return held(value, lower, upper, self.allowed)

    def unclamped_number(self, draws: Draw) -> float | None:
        """None: a key is drawn from a list, and no noise is added to it."""
        return None

    def bias(self, publisher: Publisher, unit: Unit, lower: Floats, upper: Floats) -> Floats | None:
        """None: keys have no mean."""
        return None

    @property
    def effort(self) -> tuple[Hashable, float]:
        """The list is made again."""
        return self.name, len(self.choices) / _DRAWN

    def no_margin(self, unit: Unit) -> str:
        """None can be asked: a key has no interval."""
        return f"must not be asked of {self.kind!r}, whose answers are keys; give a weight"

    def half_width(self, publisher: Publisher, unit: Unit) -> float | None:
        """It has no interval."""
        return None

    def expected_error(self, publisher: Publisher) -> str:
        """In units."""
        return publisher.expected_error()

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Groups beyond the contribution bound, how often a unit counts, and rows without an owner."""
        each = [] if unit.column is None else [f"each {unit.column!r} counted once for each {self._choice}"]
        return [*truncation_scope(self, unit, groups, rows=False), *each, *self._special(), *owner_scope(unit)]

    @property
    @abstractmethod
    def _choice(self) -> str:
        """What is chosen, in a word."""

    @abstractmethod
    def _special(self) -> list[str]:
        """What else a reader of the answer has to know."""

    @property
    def agreement(self) -> Agreement:
        """Nothing."""
        return Agreement()

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Groups, where a unit may have more of them than count."""
        return Truncation(owners=True) if choosing else None

    def _misfit_of_list(self) -> str:
        """Why the list of keys is not one to choose from; empty if it is."""
        if not self._listed:
            return (
                f"column: the keys of {self.column!r} must be public for kind {self.kind!r}; list them in keys, or ask "
                "for 'top k' with k = 1, whose keys may be selected privately"
            )
        if self.size > len(self._listed):
            return f"k: must be at most {len(self._listed)}, the number of keys of {self.column!r}"
        return ""

    @property
    def _ranks(self) -> Interval:
        """From the first rank to the last of all keys."""
        return Interval(1.0, float(max(len(self.choices), 2)))
