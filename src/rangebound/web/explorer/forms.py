"""The forms of the page: one more question for a plan, and the plan of one number for those who come without one."""

from __future__ import annotations

import datetime
import math
import tomllib
from dataclasses import dataclass

from rangebound.errors import ArgumentError
from rangebound.release.plan.model import Plan
from rangebound.release.plan.toml import make_plan
from rangebound.web.explorer.edited_text import with_query

OF_ROWS = ("count", "count of units")
OF_VALUES = ("sum", "mean", "median", "standard deviation")
_NUMBERS = ("count", "sum", "mean")
_LONGEST = 1000


@dataclass(frozen=True, kw_only=True)
class QuestionForm:
    """What a person says about a question: its kind, the column with its public range, and groups with their keys."""

    kind: str
    column: str = ""
    lower: float | datetime.date | None = None
    upper: float | datetime.date | None = None
    by: str = ""
    keys: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: object) -> QuestionForm:
        """The form in plain data, as the page sends it; keys are a text with commas, days are texts.

        >>> QuestionForm.from_dict({"kind": "count", "by": "clinic", "keys": "north, south"}).keys
        ('north', 'south')
        """
        if not isinstance(data, dict) or not set(data) <= set(cls.__dataclass_fields__):
            raise ArgumentError("question: must have no fields but kind, column, lower, upper, by and keys")
        kind, ends = data.get("kind"), {name: _end(name, data.get(name)) for name in ("lower", "upper")}
        texts = {name: data.get(name, "") for name in ("column", "by", "keys")}
        if kind not in (*OF_ROWS, *OF_VALUES):
            raise ArgumentError(f"kind={kind!r:.80}: must be one of {', '.join((*OF_ROWS, *OF_VALUES))}")
        for name, text in texts.items():
            if not isinstance(text, str) or len(text) > _LONGEST:
                raise ArgumentError(f"{name}: must be a text of at most {_LONGEST} characters")
        if kind in OF_VALUES and (not texts["column"].strip() or None in ends.values()):
            raise ArgumentError(f"column: a {kind} needs a column, and the lowest and highest value that it may have")
        keys = tuple(each.strip() for each in texts["keys"].split(",") if each.strip())
        return cls(kind=kind, column=texts["column"].strip(), **ends, by=texts["by"].strip(), keys=keys)


def _end(name: str, value: object) -> float | datetime.date | None:
    """An end of a range: a number, or a day."""
    if isinstance(value, str):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            raise ArgumentError(f"{name}={value!r:.80}: must be a number, or a day such as 2025-01-31") from None
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    raise ArgumentError(f"{name}={value!r:.80}: must be a number")


def with_question(text: str, form: QuestionForm) -> str:
    """The text of a plan with one more question; whether it is a plan is for its reader to check.

    Edge cases: its name says what it is; where that is taken, it gets a number. Other keys for a column than the plan
    lists already are refused, since other questions have those.

    >>> text = 'budget = {epsilon = 1.0} # a year\\n[[query]]\\nname = "rows"\\nkind = "count"\\n'
    >>> form = QuestionForm(kind="mean", column="age", lower=0, upper=110, by="clinic", keys=("north", "south"))
    >>> print(with_question(text, form).partition("[keys]")[2])
    <BLANKLINE>
    clinic = ["north", "south"]
    <BLANKLINE>
    [[query]]
    name = "mean of age by clinic"
    kind = "mean"
    column = "age"
    range = [0, 110]
    by = ["clinic"]
    <BLANKLINE>
    """
    data = tomllib.loads(text)
    names = {each["name"] for each in data["query"]}
    listed = data.get("keys", {}).get(form.by)
    if form.keys and listed is not None and [str(each) for each in listed] != list(form.keys):
        said = ", ".join(map(str, listed)) if isinstance(listed, list) else "others"
        raise ArgumentError(f"keys: the plan has {said} for {form.by!r}; leave this empty to take them, or edit [keys]")
    said = f"{form.kind}{f' of {form.column}' if form.kind in OF_VALUES else ''}{f' by {form.by}' if form.by else ''}"
    name, number = said, 2
    while name in names:
        name, number = f"{said} {number}", number + 1
    question: dict[str, object] = {"name": name, "kind": form.kind}
    if form.kind in OF_VALUES:
        question |= {"column": form.column, "range": [form.lower, form.upper]}
    if form.by:
        question["by"] = [form.by]
    return with_query(text, question, {form.by: form.keys} if form.by and form.keys else {})


@dataclass(frozen=True, kw_only=True)
class OneNumber:
    """What is public about one number: its kind, where it or its values lie, and how many rows of a person count.

    A count lies in [lower, upper] itself; a sum and a mean are of values in it. `upper` of a count may be None.
    """

    kind: str = "count"
    lower: float = 0.0
    upper: float | None = 100.0
    rows: int = 1

    @classmethod
    def from_dict(cls, data: object) -> OneNumber:
        """The same in plain data, as the page sends it.

        >>> OneNumber.from_dict({"kind": "count", "upper": None}).upper
        """
        if not isinstance(data, dict) or not set(data) <= set(cls.__dataclass_fields__):
            raise ArgumentError("number: must have no fields but kind, lower, upper and rows")
        kind, rows = data.get("kind", "count"), data.get("rows", 1)
        lower, upper = data.get("lower", 0.0), data.get("upper", 100.0)
        if kind not in _NUMBERS:
            raise ArgumentError(f"kind={kind!r:.80}: must be one of {', '.join(_NUMBERS)}")
        if type(rows) is not int or not 1 <= rows <= 1000:
            raise ArgumentError(f"rows={rows!r:.80}: must be a whole number from 1 to 1000")
        for name, each in (("lower", lower), ("upper", upper)):
            missing = each is None and kind == "count" and name == "upper"
            if not missing and (type(each) not in (int, float) or not math.isfinite(each)):
                raise ArgumentError(f"{name}={each!r:.80}: must be a number")
        if upper is not None and not lower < upper:
            raise ArgumentError(f"upper={upper!r}: must be above lower={lower!r}")
        return cls(kind=kind, lower=float(lower), upper=None if upper is None else float(upper), rows=rows)

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
        if self.kind == "count":
            if self.upper is not None or self.lower:
                question["support"] = [[self.lower, math.inf if self.upper is None else self.upper]]
        else:
            question |= {"column": "value", "range": [self.lower, self.upper]}
        unit = {"column": "person", "rows": self.rows}
        return make_plan({"title": "One number", "unit": unit, "budget": {"epsilon": 1.0}, "query": [question]})
