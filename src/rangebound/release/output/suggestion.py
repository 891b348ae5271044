"""A suggestion that was made: ranges and contribution bounds to paste into a plan."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rangebound.errors import ArgumentError, plain
from rangebound.ledger.rule import Cost
from rangebound.release.plan.fields import Ends, date
from rangebound.release.plan.toml_text import quoted

FORMAT = "rangebound suggestion 1"


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """What was found: ranges by column, rows and groups, and what it has cost.

    A column whose two ends do not enclose anything has no range: there were too few owners for the share.
    `print` shows lines to paste into the plan.
    """

    ranges: Mapping[str, Ends | None]
    rows: int | None
    groups: int | None
    cost: Cost

    def to_dict(self) -> dict[str, Any]:
        """The suggestion as plain data, dates as text."""
        ranges = {
            column: None if ends is None else [str(each) if isinstance(each, datetime.date) else each for each in ends]
            for column, ends in self.ranges.items()
        }
        return {"ranges": ranges, "rows": self.rows, "groups": self.groups, "cost": self.cost.to_dict()}

    def __str__(self) -> str:
        lines = [f"# estimated privately for {self.cost}; correct them by what is publicly known"]
        unit = {"rows": self.rows, "groups": self.groups}
        found = [f"{name} = {value}" for name, value in unit.items() if value is not None]
        lines += ["[unit]", *found] if found else []
        for column, ends in self.ranges.items():
            if ends is None:
                lines.append(f"# column {quoted(column)}: no range found; give a larger --share, or state it yourself")
            else:
                lines.append(f"range = [{', '.join(map(_written, ends))}]     # column = {quoted(column)}")
        return "\n".join(map(plain, lines))


def _written(end: float | datetime.date) -> str:
    return end.isoformat() if isinstance(end, datetime.date) else repr(float(end)).removesuffix(".0")


def read_suggestion(published: bytes, cost: Cost) -> Suggestion:
    """The suggestion that was published in some bytes."""
    try:
        found = json.loads(published)
        if found["format"] != FORMAT:
            raise KeyError("format")
    except (ValueError, KeyError, TypeError):
        raise ArgumentError("request: was published for something else; take another id") from None
    days = set(found["days"])
    ranges: dict[str, Any] = {
        column: None if ends is None else tuple(date(end) if column in days else end for end in ends)
        for column, ends in found["ranges"].items()
    }
    return Suggestion(ranges=ranges, rows=found["rows"], groups=found["groups"], cost=cost)
