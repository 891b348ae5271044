"""The most frequent keys of a column, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from rangebound.release.noise.draw import Key
from rangebound.release.plan.kinds.kind import Clipping, Kind
from rangebound.release.plan.kinds.ranked_counts import RankedCounts
from rangebound.release.plan.kinds.selection_kind import SelectionKind
from rangebound.release.plan.measure import KeyCounts, Measures, Values
from rangebound.release.plan.unit import Unit
from rangebound.values.arguments import counted
from rangebound.values.support import Interval


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
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return RankedCounts.model_validate({**given, "kind": self.kind, "by": (*self.by, self.column)})

    @property
    def natural(self) -> Interval:
        """From the first rank to the last of all keys."""
        return self._ranks

    @property
    def answers_dated(self) -> bool:
        """Never: the number is the rank."""
        return False

    @property
    def reads(self) -> Values | None:
        """No column of numbers."""
        return None

    @property
    def keyed(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def misfit(self, unit: Unit) -> str:
        """The keys are public, and at least k."""
        return self._misfit_of_list()

    def measures(self, unit: Unit, groups: float) -> Measures:
        """Units by key."""
        return KeyCounts(rows=self.counted_rows, column=self.column)

    @property
    def size(self) -> int:
        """What the plan says."""
        return self.k

    @property
    def choices(self) -> Key:
        """The public keys."""
        return self._listed

    @property
    def points(self) -> tuple[float, ...]:
        """None: the number is the rank."""
        return ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The ranks."""
        return tuple(str(rank) for rank in range(1, self.k + 1))

    @property
    def subject(self) -> tuple[str, str]:
        """The column and how many of its keys."""
        keys = counted(len(self._listed), "key") if self._listed else "keys that are selected privately"
        return f" of {self.column!r}, k = {self.k}, of {keys}", ""

    @property
    def _choice(self) -> str:
        return "key"

    def _special(self) -> list[str]:
        return [f"rows with other keys than the listed ones of {self.column!r} left out"]

    @property
    def clipping(self) -> Clipping | None:
        """Nothing."""
        return None
