"""The plan of one number, for those who come without a plan: a count, a sum or a mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rangebound.errors import ArgumentError
from rangebound.release.plan.model import Plan
from rangebound.release.plan.toml import make_plan

_NAME = "number"
_KINDS = ("count", "sum", "mean")


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
        if kind not in _KINDS:
            raise ArgumentError(f"kind={kind!r:.80}: must be one of {', '.join(_KINDS)}")
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
        question: dict[str, object] = {"name": _NAME, "kind": self.kind}
        if self.kind == "count":
            if self.upper is not None or self.lower:
                question["support"] = [[self.lower, math.inf if self.upper is None else self.upper]]
        else:
            question |= {"column": "value", "range": [self.lower, self.upper]}
        unit = {"column": "person", "rows": self.rows}
        return make_plan({"title": "One number", "unit": unit, "budget": {"epsilon": 1.0}, "query": [question]})
