"""How wide intervals will be in a table of about so many rows, and which questions are hopeless there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from rangebound.errors import ArgumentError
from rangebound.release.noise.forms.fraction_form import FractionForm
from rangebound.release.noise.quantile_publisher import QuantilePublisher
from rangebound.release.plan.kinds.fractions import Mean, Share
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.kinds.scalars import Count, CountOfUnits, DistinctCount, Sum
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.prepare import Prepared, prepare
from rangebound.values import arguments

_MOST_ROWS = 1e15


@dataclass(frozen=True, kw_only=True)
class ExpectedWidth:
    """One question in a table of about so many rows.

    `rows` are those of an average group, of all where keys are selected privately. `half_width` is half the width of
    an interval there, None where the values decide. `hopeless` says in words that such an interval says next to nothing
    about an average group; empty where it does not.
    """

    query: str
    rows: float
    half_width: float | None
    hopeless: str

    def to_dict(self) -> dict[str, object]:
        """The width as plain data."""
        return asdict(self)


def expected_widths(plan: Plan | Mapping[str, object], rows: float) -> tuple[ExpectedWidth, ...]:
    """For each question of a plan: the half-width of its intervals in a table of `rows` rows, spread over its groups.

    Touches no data: `rows` is what somebody says. A mean or a share has an interval of a width that is inverse to the
    rows of its group, other half-widths are those of `forecast`. Hopeless is a count whose half-width is no less than
    the rows of an average group, a sum whose half-width is no less than the largest sum of such a group, a mean or a
    share whose interval is as wide as its range, and a quantile that may be half the rows away.

    Assumes: all rows count. Where contribution bounds or filters cut some, means are less exact than this says.
    Edge cases: no `rows`, or less than one, raise `ArgumentError`.

    >>> from rangebound.release import make_plan
    >>> mean = {"name": "age", "kind": "mean", "column": "age", "range": [0, 100]}
    >>> (found,) = expected_widths(make_plan({"budget": {"epsilon": 1.0}, "query": [mean]}), 1000)
    >>> round(found.half_width, 2), found.hopeless
    (0.37, '')
    >>> (found,) = expected_widths(make_plan({"budget": {"epsilon": 1.0}, "query": [mean]}), 5)
    >>> found.hopeless
    'half-width 73.78, and the range is 100 wide'
    """
    plan = as_plan(plan)
    if not 1.0 <= arguments.real("rows", rows) <= _MOST_ROWS:
        raise ArgumentError(f"rows={rows!r}: must lie in [1, {_MOST_ROWS:g}], as the number of rows of a table")
    ready = prepare(plan)
    return tuple(_expected(ready, index, float(rows)) for index in range(len(plan.query)))


def _expected(ready: Prepared, index: int, rows: float) -> ExpectedWidth:
    question, publisher = ready.plan.query[index], ready.publishers[index]
    groups = ready.plan.groups(question.by)
    each = rows / groups if math.isfinite(groups) else rows
    form = ready.forms[index]
    width = form.half_width(publisher)
    if width is None and isinstance(question, Mean | Share) and isinstance(form, FractionForm):
        width = form.half_width_of(publisher, each)
    words, most = _most(question, each)
    hopeless = "" if width is None or width < most else f"half-width {width:.4g}, and {words}"
    if isinstance(publisher, QuantilePublisher) and 2.0 * publisher.rank_error >= each:
        hopeless = f"may be {_rows(publisher.rank_error)} off, and a group has about {_rows(each)}"
    return ExpectedWidth(query=question.name, rows=each, half_width=width, hopeless=hopeless)


def _rows(rows: float) -> str:
    return arguments.counted(f"{rows:.4g}", "row")


def _most(question: Kind, rows: float) -> tuple[str, float]:
    """What a half-width is compared with in a group of so many rows, in words and as a number; infinite for others."""
    weight = float(question.largest_weight)
    match question:
        case Count() | CountOfUnits() | DistinctCount():
            return f"a group has about {_rows(rows)}", rows * weight
        case Histogram():
            own = rows / len(question.parts)
            return f"a bin has about {_rows(own)}", own
        case Sum():
            largest = rows * weight * max(abs(question.bounds.lower), abs(question.bounds.upper))
            return f"a group's sum is at most about {largest:.4g}", largest
        case Mean() | Share():
            return f"the range is {question.scale:.4g} wide", question.scale / 2.0
    return "", math.inf
