"""What the page sends, read strictly: a plan with its changes, forms, and what a task needs beside it."""

from __future__ import annotations

import datetime
import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from rangebound.errors import ArgumentError, PlanError
from rangebound.release import Plan, make_plan
from rangebound.release.plan.fields import Part
from rangebound.release.plan.kinds import written_kinds

EXAMPLES = {
    "correlation": 'x = {column = "age", range = [0, 120]}\ny = {column = "cost", range = [0, 500]}',
    "hierarchy": 'levels = [{name = "side", members = {left = ["north"], right = ["south"]}}]',
    "line": 'x = {column = "age", range = [0, 120]}\ny = {column = "cost", range = [0, 500]}',
    "quantiles": "levels = [0.25, 0.5, 0.75]",
    "ratio": 'numerator = {column = "cost", range = [0, 500]}\ndenominator = {column = "days", range = [1, 90]}',
    "share": 'of = "age >= 65"',
}
"""What else a kind needs, as a plan writes it: an example."""
OF_VALUES = ("sum", "mean", "median", "standard deviation")
BOUNDS = ("rows", "groups")  # of the unit


def _end(value: object) -> object:
    """An end of a range: a number, or a day."""
    try:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("must be a number, or a day such as 2025-01-31") from None


def _keys(value: object) -> object:
    return tuple(each.strip() for each in value.split(",") if each.strip()) if isinstance(value, str) else value


def _kind(value: str) -> str:
    if value not in written_kinds():
        raise ValueError(f"must be one of {', '.join(written_kinds())}")
    return value


def kinds_asked() -> dict[str, dict[str, object]]:
    """For every kind that a plan can ask for: whether it is of a column, has a range, and what else it needs."""
    return {
        name: {
            "column": "column" in kind.model_fields,
            "range": "range" in kind.model_fields,
            "more": EXAMPLES.get(name),
        }
        for name, kind in written_kinds().items()
    }


Whole = Annotated[int, Field(ge=1)]
Text = Annotated[str, StringConstraints(max_length=1000, strip_whitespace=True)]
End = Annotated[int | float | datetime.date | None, BeforeValidator(_end)]


class PlanChanges(Part):
    """What was changed on the page; None and empty mappings leave the plan as it is written.

    `margins` may have None, which takes a margin away. With `weights`, `selection` is the weight of partition
    selection beside them. `rows` and `groups` are the contribution bounds of the unit.
    """

    epsilon: float | None = None
    delta: float | None = None
    weights: dict[str, float] = Field(default_factory=dict)
    margins: dict[str, float | None] = Field(default_factory=dict)
    selection: float | None = None
    rows: Whole | None = None
    groups: Whole | None = None

    def to_dict(self) -> dict[str, Any]:
        """The changes in plain data, without those that leave the plan as it is.

        >>> PlanChanges(epsilon=2.0).to_dict()
        {'epsilon': 2.0}
        """
        return self.model_dump(exclude_defaults=True)


class DraggedShare(Part):
    """The part of the account that a question is to have."""

    query: str
    share: float


class OwnBounds(Part):
    """Contribution bounds of one question; None leaves those of the unit."""

    rows: Whole | None = None
    groups: Whole | None = None


class QuestionForm(Part):
    """What a person says about a question: its kind, the column with its public range, and groups with their keys.

    `groups` are those of a unit that count; `more` has further fields of the kind, as TOML.

    >>> QuestionForm(kind="count", by="clinic", keys="north, south").keys
    ('north', 'south')
    """

    kind: Annotated[str, AfterValidator(_kind)]
    column: Text = ""
    lower: End = None
    upper: End = None
    by: Annotated[tuple[Text, ...], BeforeValidator(_keys)] = ()
    groups: Whole | None = None
    more: Text = ""
    keys: Annotated[tuple[Text, ...], BeforeValidator(_keys)] = ()

    @model_validator(mode="after")
    def _fits(self) -> QuestionForm:
        if self.kind in OF_VALUES and (not self.column or None in (self.lower, self.upper)):
            raise ValueError(f"column: a {self.kind} needs a column, and the lowest and highest value that it may have")
        return self


class OneNumber(Part):
    """What is public about one number: its kind, where it or its values lie, and how many rows of a person count.

    A count lies in [lower, upper] itself; a sum and a mean are of values in it. `upper` of a count may be None.
    """

    kind: Literal["count", "sum", "mean"] = "count"
    lower: float = 0.0
    upper: float | None = 100.0
    rows: Annotated[int, Field(ge=1, le=1000)] = 1

    @model_validator(mode="after")
    def _fits(self) -> OneNumber:
        if self.upper is None and self.kind != "count":
            raise ValueError("upper: must be a number")
        if self.upper is not None and not self.lower < self.upper:
            raise ValueError(f"upper: must be above lower={self.lower!r}")
        return self

    def plan(self) -> Plan:
        """The plan that asks for it.

        >>> print(OneNumber(rows=3).plan().to_toml().partition("[[query]]")[2])
        <BLANKLINE>
        kind = "count"
        name = "number"
        support = [[0.0, 100.0]]
        <BLANKLINE>
        """
        question: dict[str, object] = {"name": "number", "kind": self.kind}
        if self.kind != "count":
            question |= {"column": "value", "range": [self.lower, self.upper]}
        elif self.upper is not None or self.lower:
            question["support"] = [[self.lower, math.inf if self.upper is None else self.upper]]
        unit = {"column": "person", "rows": self.rows}
        return make_plan({"title": "One number", "unit": unit, "budget": {"epsilon": 1.0}, "query": [question]})


class Asked(Part):
    """What the page asks with: the text of its plan, the changes to it, and what each task needs.

    `rows` is about how many rows the table has. `before` is the text that the page showed before `plan` was edited,
    and `opened` what the file said when the page read or saved it last.
    """

    plan: str = ""
    changes: PlanChanges = PlanChanges()
    question: str | None = None
    answers: list[float] | None = None
    rows: float | None = None
    drag: DraggedShare | None = None
    number: OneNumber | None = None
    form: QuestionForm | None = None
    bounds: OwnBounds | None = None
    query: str | None = None
    column: str | None = None
    before: str | None = None
    opened: str | None = None
    name: str | None = None
    request: str | None = None
    confirmed: str | None = None

    @classmethod
    def read(cls, data: dict[str, Any]) -> Asked:
        """What is in a body of JSON; an unknown field, or one of another type, is an `ArgumentError`.

        >>> Asked.read({"changes": {"epsilon": 2, "margins": {"visits": 25}}}).changes.margins
        {'visits': 25.0}
        """
        try:
            return cls(**data)
        except PlanError as error:
            raise ArgumentError(str(error).removeprefix("asked: ")) from None

    def given(self, name: str) -> Any:
        """A field that the task needs."""
        found = getattr(self, name)
        if found is None:
            raise ArgumentError(f"{name}: missing")
        return found
