"""A plan with the changes that were made on the page: epsilon, delta, weights, margins, bounds of the unit."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from rangebound.errors import ArgumentError
from rangebound.release.budget_split import LARGEST
from rangebound.release.noise.allocation import Allocation
from rangebound.release.output.forecast import part_of
from rangebound.release.plan.model import Plan
from rangebound.release.plan.toml import make_plan, parse_plan
from rangebound.web.explorer.edited_text import with_values

_BOUNDS = ("rows", "groups")  # of the unit
_LEAST = 0.001  # of the account: a question keeps that much while another is dragged


@dataclass(frozen=True, kw_only=True)
class PlanChanges:
    """What was changed on the page; None and empty mappings leave the plan as it is written.

    `margins` may have None, which takes a margin away. With `weights`, `selection` is the weight of partition
    selection beside them. `rows` and `groups` are the contribution bounds of the unit.
    """

    epsilon: float | None = None
    delta: float | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    margins: Mapping[str, float | None] = field(default_factory=dict)
    selection: float | None = None
    rows: int | None = None
    groups: int | None = None

    @classmethod
    def from_dict(cls, data: object) -> PlanChanges:
        """The changes in plain data, as the page sends them; a field that is unknown or of another type is refused.

        >>> PlanChanges.from_dict({"epsilon": 2, "margins": {"visits": 25}}).margins
        {'visits': 25.0}
        """
        if not isinstance(data, dict):
            raise ArgumentError("changes: must be an object")
        unknown = [name for name in data if name not in cls.__dataclass_fields__]
        if unknown:
            raise ArgumentError(f"changes: unknown field {unknown[0]!r:.80}")
        many: dict[str, Any] = {name: _number(name, data.get(name)) for name in ("epsilon", "delta", "selection")}
        for name in ("weights", "margins"):
            given = data.get(name) or {}
            if not isinstance(given, dict):
                raise ArgumentError(f"{name}: must be an object, a number for the name of each question")
            many[name] = {str(key): _number(f"{name}[{key!r:.80}]", value) for key, value in given.items()}
        if None in many["weights"].values():
            raise ArgumentError("weights: must be numbers")
        for name in _BOUNDS:
            many[name] = data.get(name)
            if many[name] is not None and (type(many[name]) is not int or many[name] < 1):
                raise ArgumentError(f"{name}={many[name]!r:.80}: must be a whole number, at least 1")
        return cls(**many)

    def to_dict(self) -> dict[str, object]:
        """The changes in plain data, as `from_dict` takes them; without those that leave the plan as it is.

        >>> PlanChanges(epsilon=2.0).to_dict()
        {'epsilon': 2.0}
        """
        numbers = {name: getattr(self, name) for name in ("epsilon", "delta", "selection", *_BOUNDS)}
        many = {"weights": dict(self.weights), "margins": dict(self.margins)}
        return {name: each for name, each in numbers.items() if each is not None} | {
            name: each for name, each in many.items() if each
        }

    def words(self) -> str:
        """What is changed, in a list of words; empty where nothing is.

        >>> PlanChanges(epsilon=2.0, margins={"visits": 25.0}).words()
        "epsilon 2.0, margin of 'visits'"
        """
        plain = {name: getattr(self, name) for name in ("epsilon", "delta", *_BOUNDS)}
        said = [f"{name} {each!r}" for name, each in plain.items() if each is not None]
        said += [f"margin of {name!r}" for name in self.margins]
        return ", ".join([*said, *(["shares"] if self.weights else [])])


def _number(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentError(f"{name}={value!r:.80}: must be a number")
    return float(value)


def adjusted(text: str, changes: PlanChanges, folder: Path) -> Plan:
    """The plan in a TOML text with changes, checked as a file would be.

    Edge cases: a question that gets a margin has no weight, which the margin stands for.

    >>> text = 'budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]'
    >>> adjusted(text, PlanChanges(epsilon=2.0), Path()).budget.epsilon
    2.0
    """
    found = _parsed(text, folder)
    if changes == PlanChanges():
        return found
    if changes == PlanChanges(epsilon=changes.epsilon) and 0.0 < (changes.epsilon or 0.0) <= LARGEST:
        return found.model_copy(update={"budget": found.budget.model_copy(update={"epsilon": changes.epsilon})})
    return make_plan(_changed(text, changes), folder=folder)


def adjusted_text(text: str, changes: PlanChanges) -> str:
    """The text of a plan with changes: its comments and the order of its lines stay.

    >>> print(adjusted_text("budget = {epsilon = 1.0} # a year", PlanChanges(epsilon=2.0)))
    budget = {epsilon = 2.0} # a year
    """
    return text if changes == PlanChanges() else with_values(text, _changed(text, changes))


def _changed(text: str, changes: PlanChanges) -> dict[str, Any]:
    """What the text says, with the changes."""
    data = tomllib.loads(text)
    budget = data["budget"]
    budget |= {"epsilon": changes.epsilon} if changes.epsilon is not None else {}
    budget |= {"delta": changes.delta} if changes.delta is not None else {}
    bounds = {name: getattr(changes, name) for name in _BOUNDS if getattr(changes, name) is not None}
    if bounds:
        data["unit"] = {**data.get("unit", {}), **bounds}
    for question in data.get("query", ()):
        name = question["name"]
        if name in changes.margins:
            question.pop("margin", None)
            if changes.margins[name] is not None:
                question["margin"] = changes.margins[name]
                question.pop("weight", None)
        if name in changes.weights and "margin" not in question:
            question["weight"] = changes.weights[name]
    if changes.selection is not None:
        data["selection"] = changes.selection
    return data


@lru_cache(maxsize=16)
def _parsed(text: str, folder: Path) -> Plan:
    """The plan as it is written, checked once; its errors name the line."""
    return parse_plan(text, folder=folder)


def kept(before: str, after: str, changes: PlanChanges, folder: Path) -> PlanChanges:
    """The changes that still hold once a plan's text was edited: where the text says something else than before, in
    the same field of the same question, the text wins. A question that is gone takes its changes along.

    >>> text = 'budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]'
    >>> kept(text, text.replace("visits", "stays"), PlanChanges(epsilon=2.0), Path()).epsilon
    2.0
    >>> kept(text, text.replace("1.0", "3.0"), PlanChanges(epsilon=2.0), Path()).epsilon
    """
    for text in (before, after):
        _parsed(text, folder)
    old, new = tomllib.loads(before), tomllib.loads(after)
    fields = {field: old["budget"].get(field) == new["budget"].get(field) for field in ("epsilon", "delta")}
    asked = [{each["name"]: (each.get("margin"), each.get("weight")) for each in data["query"]} for data in (old, new)]
    same = {name for name, said in asked[1].items() if asked[0].get(name) == said}
    selection = changes.selection if old.get("selection") == new.get("selection") else None
    units = [data.get("unit", {}) for data in (old, new)]
    own = {name: getattr(changes, name) for name in _BOUNDS if units[0].get(name) == units[1].get(name)}
    return PlanChanges(
        epsilon=changes.epsilon if fields["epsilon"] else None,
        delta=changes.delta if fields["delta"] else None,
        weights={name: weight for name, weight in changes.weights.items() if name in same},
        margins={name: margin for name, margin in changes.margins.items() if name in same},
        selection=selection,
        **(own if units[0].get("column") == units[1].get("column") else {}),
    )


def dragged(plan: Plan, allocation: Allocation, name: str, share: float) -> PlanChanges:
    """The weights with which a question has the part `share` of the account, and the others split the rest as before.

    Guarantee: what has a margin keeps its share. The weights are 1 on average, so that a question that is added later,
    which has the weight 1, gets an average share. Edge cases: a share above what the margins leave, or next to nothing,
    is moved to the nearest that leaves every question a thousandth of the account.

    >>> from rangebound.release.prepare import prepare
    >>> plan = parse_plan('''budget = {epsilon = 1.0}
    ... query = [{name = "a", kind = "count"}, {name = "b", kind = "count"}, {name = "c", kind = "count"}]''')
    >>> dict(dragged(plan, prepare(plan).allocation, "a", 0.5).weights)
    {'a': 1.5, 'b': 0.75, 'c': 0.75}
    """
    free = {
        each.name: part_of(plan, allocation, allocation.questions[at])
        for at, each in enumerate(plan.query)
        if each.margin is None and not each.made and allocation.sensitivities[at].cell
    }
    if name not in free:
        raise ArgumentError(f"question={name!r:.80}: has no weight in this plan")
    for together in allocation.workloads:  # one share stands at each of its questions
        names = [plan.query[at].name for at in together]
        free |= {each: free[each] / len(names) for each in names if each in free}
    selections = [part_of(plan, allocation, each) for each in allocation.selections.values()]
    total = sum(free.values()) + sum(selections)
    others = total - free[name]
    if others <= 0.0:
        return PlanChanges(weights={name: 1.0})
    most = total - _LEAST * (len(free) - 1 + len(selections))
    own = min(max(share, _LEAST), max(most, _LEAST))
    scale = max(total - own, _LEAST) / others
    size = (len(free) + len(selections)) / total
    weights = {each: size * (own if each == name else max(part * scale, _LEAST)) for each, part in free.items()}
    selection = size * max(selections[0] * scale, _LEAST) if selections else None
    return PlanChanges(weights=weights, selection=selection)
