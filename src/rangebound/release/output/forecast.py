"""What each question of a plan will look like, and what another epsilon would change: all before any data are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

from rangebound.errors import PlanError
from rangebound.release.noise.allocation import Allocation, BudgetShare
from rangebound.release.output.plan_limits import LimitedMean, percent, plan_limits
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.prepare import Prepared, prepare, rehearse_tables
from rangebound.values.numeric import rounded_up

COLUMNS = (
    "query",
    "kind",
    "share",
    "half-width",
    "margin",
    "at half epsilon",
    "at twice epsilon",
    "above limit",
    "error",
)
"""What a table of forecasts shows."""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """One question of a plan: how exact its numbers will be, and for which part of the account.

    `share` is its part of the account: of epsilon in plain sums, of the square of mu in a Gaussian account. `error`
    says in words how far a number may be off. `half_width` is half the width of its intervals, before they are cut to
    the support; None where the data decide. `margin` is what the plan asks for. `at_half_epsilon` and
    `at_twice_epsilon` are half-widths, or, where these depend on the data, what the error is multiplied by, as
    `error_at_half_epsilon` and `error_at_twice_epsilon`; None where such a plan would be refused. `workload` is the
    number of the workload with which it is measured, whose share is that of all its questions together. `above_limit`
    is by which part the worst-case mean absolute error is above the proved limit on that of every private mechanism,
    rounded up; where there is none, `no_limit` says why.
    """

    query: str
    kind: str
    share: float
    error: str
    half_width: float | None
    margin: float | None
    at_half_epsilon: float | None
    at_twice_epsilon: float | None
    error_at_half_epsilon: float | None
    error_at_twice_epsilon: float | None
    workload: int | None = None
    above_limit: float | None = None
    no_limit: str = ""

    def to_dict(self) -> dict[str, object]:
        """The outlook as plain data."""
        return asdict(self)

    def cells(self, share: str = "") -> tuple[str, ...]:
        """The outlook as a row of a table, by `COLUMNS`; `share` replaces the text of its share."""
        changed = (
            (self.at_half_epsilon, self.error_at_half_epsilon),
            (self.at_twice_epsilon, self.error_at_twice_epsilon),
        )
        return (
            self.query,
            self.kind,
            (share or f"{100 * self.share:.3g} %") + (f" for workload {self.workload}" if self.workload else ""),
            "by the data" if self.half_width is None else f"{self.half_width:.4g}",
            "" if self.margin is None else f"{self.margin:g}",
            *(self._changed(width, factor) for width, factor in changed),
            "" if self.above_limit is None else f"+{percent(self.above_limit)}",
            self.error.partition(";")[0],
        )

    def _changed(self, width: float | None, factor: float | None) -> str:
        if factor is None:
            return "refused"
        return f"error x {factor:.3g}" if width is None else f"{width:.4g}"


def forecast(plan: Plan | Mapping[str, object]) -> tuple[Outlook, ...]:
    """For each question of a plan: its share, its error, its interval, and those at half and twice epsilon.

    Touches no data. The plan at another epsilon is split anew, in the account that is best there; a question with a
    margin keeps it.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> (one,) = forecast(plan)
    >>> one.half_width, one.at_half_epsilon, one.at_twice_epsilon
    (3.0, 6.0, 1.0)
    """
    plan = as_plan(plan)
    ready = prepare(plan)
    rehearse_tables(ready)
    halved, doubled = (_at(plan, times * plan.budget.epsilon) for times in (0.5, 2.0))
    return tuple(_outlook(ready, index, limit, halved, doubled) for index, limit in enumerate(plan_limits(ready)))


def outlook_cells(found: Sequence[Outlook]) -> tuple[tuple[str, ...], ...]:
    """The rows of a table of forecasts, by `COLUMNS`, with shares that add up as they are shown."""
    return tuple(each.cells(share) for each, share in zip(found, share_texts(found), strict=True))


def share_texts(found: Sequence[Outlook]) -> list[str]:
    """The shares of questions in percent, to a tenth, rounded so that the texts add up to what the shares do.

    All are rounded down, and those with the largest rests up, until the sum is right. A workload counts once.
    Guarantee: every text is less than a tenth of a percent from its share; it is to be read, and claims nothing.

    >>> from rangebound.release import make_plan
    >>> asked = [{"name": name, "kind": "count"} for name in "abc"]
    >>> share_texts(forecast(make_plan({"budget": {"epsilon": 1.0}, "query": asked})))
    ['33.4 %', '33.3 %', '33.3 %']
    """
    parts = {each.workload or f"query {at}": 1000 * each.share for at, each in enumerate(found)}
    tenths = {name: math.floor(part) for name, part in parts.items()}
    missing = min(round(math.fsum(parts.values())), 1000) - sum(tenths.values())
    for name in sorted(parts, key=lambda each: tenths[each] - parts[each])[: max(missing, 0)]:
        tenths[name] += 1
    shown = [tenths[each.workload or f"query {at}"] for at, each in enumerate(found)]
    return [f"{each / 10:g} %" if each or not own.share else "< 0.1 %" for each, own in zip(shown, found, strict=True)]


def _at(plan: Plan, epsilon: float) -> Prepared | None:
    """The plan at another epsilon; None where it is refused. One above 100 is not, to say what it would do."""
    try:
        return prepare(plan.model_copy(update={"budget": plan.budget.model_copy(update={"epsilon": epsilon})}))
    except PlanError:
        return None


def _outlook(
    ready: Prepared, index: int, limit: LimitedMean, halved: Prepared | None, doubled: Prepared | None
) -> Outlook:
    question, publisher = ready.plan.query[index], ready.publishers[index]
    return Outlook(
        query=question.name,
        kind=question.kind,
        share=part_of(ready.plan, ready.allocation, ready.allocation.questions[index]),
        error=ready.forms[index].expected_error(publisher),
        half_width=_half_width(ready, index),
        margin=question.margin,
        at_half_epsilon=_half_width(halved, index),
        at_twice_epsilon=_half_width(doubled, index),
        error_at_half_epsilon=_factor(ready, halved, index),
        error_at_twice_epsilon=_factor(ready, doubled, index),
        workload=ready.workload_number(index),
        above_limit=limit.above,
        no_limit=limit.reason,
    )


def _half_width(ready: Prepared | None, index: int) -> float | None:
    if ready is None:
        return None
    return ready.forms[index].half_width(ready.publishers[index])


def _factor(ready: Prepared, other: Prepared | None, index: int) -> float | None:
    """The root mean square error of a question at another epsilon, divided by what it is."""
    if other is None:
        return None
    own = ready.publishers[index].mse
    return math.sqrt(other.publishers[index].mse / own) if own else 1.0


def part_of(plan: Plan, allocation: Allocation, share: BudgetShare) -> float:
    """Which part of the account a share is, rounded up."""
    if allocation.mu:
        return min(rounded_up(share.square / Fraction(allocation.mu) ** 2), 1.0)
    return min(rounded_up(Fraction(share.epsilon) * share.groups * share.parts / Fraction(plan.budget.epsilon)), 1.0)
