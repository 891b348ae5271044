"""The number of rows by the keys of a column, and by nested levels above them, up to the total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from rangebound.release.noise import tree_measurements
from rangebound.release.noise.draw import Columns, Key, Label
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.workload_publisher import Measurements
from rangebound.release.plan.fields import Key as PlanKey
from rangebound.release.plan.fields import Name, Part, as_tuple, canonical, named_lists
from rangebound.release.plan.kinds.workload_kind import WorkloadKind

Members = Annotated[tuple[PlanKey, ...], Field(min_length=1), BeforeValidator(as_tuple)]


class Level(Part):
    """One level of a hierarchy: its name, and what each of its members is made of on the level below."""

    name: Name
    members: Annotated[dict[Name, Members], Field(min_length=1), BeforeValidator(named_lists)]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its members in the order of the plan."""
        return tuple(self.members)

    def __eq__(self, other: object) -> bool:
        """Whether two levels publish the same, in the same order."""
        return self._facts == other._facts if isinstance(other, Level) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._facts)

    @property
    def _facts(self) -> tuple[object, ...]:
        return self.name, *self.members.items()

    def parents(self) -> dict[str, str]:
        """The member that each key of the level below is part of."""
        return {canonical(key): member for member, keys in self.members.items() for key in keys}


class Hierarchy(WorkloadKind):
    """The number of rows by the public keys of one column and by `levels` above it, from fine to coarse, and in all.

    >>> canton = {"name": "canton", "members": {"ZH": ["Uster", "Wald"], "UR": ["Altdorf"]}}
    >>> found = Hierarchy(name="people", by=("town",), levels=(canton,))
    >>> found.labels([("Uster",), ("Wald",), ("Altdorf",)])[0][2:]
    [(('Altdorf',), ''), (('ZH',), 'canton'), (('UR',), 'canton'), ((None,), '')]
    >>> found.misfit_of_keys((("Uster", "Wald", "Chur"),))
    "levels.0: key 'Chur' has no canton"
    """

    kind: Literal["hierarchy"] = "hierarchy"
    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=20), BeforeValidator(as_tuple)]

    @model_validator(mode="after")
    def _levels_fit(self) -> Hierarchy:
        if len(self.by) != 1:
            raise ValueError("by: must name one column")
        if len({each.name for each in self.levels}) < len(self.levels):
            raise ValueError("levels: two of them have the same name")
        return self

    def misfit_of_keys(self, columns: Columns) -> str:
        """Every key has one parent, and every member that is listed is there."""
        return super().misfit_of_keys(columns) or self._gap(columns[0])

    def _gap(self, keys: Sequence[str]) -> str:
        below = tuple(keys)
        for at, level in enumerate(self.levels):
            listed = [canonical(key) for some in level.members.values() for key in some]
            parents, known = level.parents(), set(below)
            for key in below:
                if key not in parents:
                    return f"levels.{at}: key {key!r} has no {level.name}"
            for key in listed:
                if key not in known:
                    return f"levels.{at}: {key!r} is listed in a {level.name}, but is not on the level below"
            if len(listed) > len(parents):
                ((twice, _),) = Counter(listed).most_common(1)
                return f"levels.{at}: key {twice!r} is in more than one {level.name}"
            below = level.names
        return ""

    def numbers(self, columns: Columns, groups: float) -> float:
        """The keys, the members of all levels, and the total."""
        return len(columns[0]) + sum(len(each.members) for each in self.levels) + 1

    def labels(self, keys: Sequence[Key]) -> list[list[Label]]:
        """The keys, the members of each level under its name, and the total without a key."""
        found: list[Label] = [(key, "") for key in keys]
        found += [((member,), level.name) for level in self.levels for member in level.names]
        return [[*found, ((None,), "")]]

    def measurements(
        self, columns: Columns, account: NoiseAccount, budget: Fraction, contributions: Contributions
    ) -> Measurements:
        """A tree with noise at its nodes."""
        found = tree_measurements.LeveledTree(
            parents=self._parents(columns[0]),
            names=(self.by[0], *(each.name for each in self.levels), "total"),
        )
        return tree_measurements.tree_measurements(found, account, budget, contributions)

    def _parents(self, keys: Sequence[str]) -> tuple[int, ...]:
        """The parent of every node, level by level from the total down to the keys."""
        rows = [tuple(keys), *(each.names for each in self.levels)]
        found, places = [-1, *(0 for _ in rows[-1])], {name: at for at, name in enumerate(rows[-1], 1)}
        for level, names in zip(reversed(self.levels), reversed(rows[:-1]), strict=True):
            parents, start = level.parents(), len(found)
            found += [places[parents[name]] for name in names]
            places = {name: at for at, name in enumerate(names, start)}
        return tuple(found)
