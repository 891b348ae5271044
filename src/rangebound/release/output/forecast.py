"""What each question of a plan will look like, at its epsilon, at others, in a table of some size: without any data.

And the other way round: the smallest epsilon with which the margins of a plan are met.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.budget_split import LARGEST, least_epsilon
from rangebound.release.noise.allocation import Allocation, BudgetShare
from rangebound.release.noise.forms import FractionForm
from rangebound.release.noise.population import added_noise, population_interval
from rangebound.release.noise.quantiles import QuantilePublisher
from rangebound.release.output.plan_facts import PlanFacts, plan_facts
from rangebound.release.output.plan_risk import Conversions, percent
from rangebound.release.plan.kinds.facts import Sampled
from rangebound.release.plan.kinds.fractions import Mean, Share
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.kinds.scalars import ScalarKind, Sum
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.prepare import PreparedQuestion, rehearse_tables
from rangebound.values import arguments
from rangebound.values.numeric import rounded_up

_MOST_ROWS = 1e15
_DIGITS = 4  # of an epsilon that was solved for

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


@arguments.brief
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
        halved = (self.at_half_epsilon, self.error_at_half_epsilon)
        doubled = (self.at_twice_epsilon, self.error_at_twice_epsilon)
        return (
            self.query,
            self.kind,
            (share or f"{100 * self.share:.3g} %") + (f" for workload {self.workload}" if self.workload else ""),
            "by the data" if self.half_width is None else f"{self.half_width:.4g}",
            "" if self.margin is None else f"{self.margin:g}",
            *(
                "refused" if factor is None else f"error x {factor:.3g}" if width is None else f"{width:.4g}"
                for width, factor in (halved, doubled)
            ),
            "" if self.above_limit is None else f"+{percent(self.above_limit)}",
            self.error.partition(";")[0],
        )


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
    facts = plan_facts(plan)
    rehearse_tables(facts.ready)
    return outlooks(facts)


def outlooks(facts: PlanFacts) -> tuple[Outlook, ...]:
    """The same of a plan that was made ready."""
    others: list[PlanFacts | None] = []
    for times in (0.5, 2.0):
        try:
            others.append(_at(facts.plan, times * facts.plan.budget.epsilon))
        except PlanError:
            others.append(None)
    return tuple(_outlook(facts, at, *others) for at in range(len(facts.questions)))


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


def _at(plan: Plan, epsilon: float) -> PlanFacts:
    """The plan at another epsilon; one above 100 is not refused for that, to say what it would do."""
    return plan_facts(plan.model_copy(update={"budget": plan.budget.model_copy(update={"epsilon": epsilon})}))


def _outlook(facts: PlanFacts, at: int, halved: PlanFacts | None, doubled: PlanFacts | None) -> Outlook:
    own, limit = facts.questions[at], facts.limits[at]
    less, more = (None if each is None else each.questions[at] for each in (halved, doubled))
    return Outlook(
        query=own.question.name,
        kind=own.question.kind,
        share=part_of(facts.plan.budget.epsilon, facts.ready.allocation, own.share),
        error=own.error,
        half_width=own.half_width,
        margin=own.question.margin,
        at_half_epsilon=None if less is None else less.half_width,
        at_twice_epsilon=None if more is None else more.half_width,
        error_at_half_epsilon=_factor(own, less),
        error_at_twice_epsilon=_factor(own, more),
        workload=own.workload,
        above_limit=limit.above,
        no_limit=limit.reason,
    )


def _factor(own: PreparedQuestion, other: PreparedQuestion | None) -> float | None:
    """The root mean square error of a question at another epsilon, divided by what it is."""
    if other is None:
        return None
    return math.sqrt(other.publisher.mse / own.publisher.mse) if own.publisher.mse else 1.0


def part_of(epsilon: float, allocation: Allocation, share: BudgetShare) -> float:
    """Which part of the account a share of an allocation of this epsilon is, rounded up."""
    if allocation.mu:
        return min(rounded_up(share.square / Fraction(allocation.mu) ** 2), 1.0)
    return min(rounded_up(Fraction(share.epsilon) * share.groups * share.parts / Fraction(epsilon)), 1.0)


@dataclass(frozen=True, kw_only=True)
class ExpectedWidth:
    """One question in a table of about this many rows.

    `rows` are those of an average group, of all where keys are selected privately. `half_width` is half the width of
    an interval there, None where the values decide, and `population` about that for the population, at most, where the
    plan asks for one. `hopeless` says in words that such an interval says next to nothing about an average group; empty
    where it does not.
    """

    query: str
    rows: float
    half_width: float | None
    hopeless: str
    population: float | None = None

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
    facts = plan_facts(plan)
    if not 1.0 <= arguments.real("rows", rows) <= _MOST_ROWS:
        raise ArgumentError(f"rows={rows!r}: must lie in [1, {_MOST_ROWS:g}], as the number of rows of a table")
    groups = (facts.plan.groups(each.question.by) for each in facts.questions)
    level = facts.plan.interval_level if facts.plan.of_population else None
    return tuple(_expected(each, own, float(rows), level) for each, own in zip(facts.questions, groups, strict=True))


def _expected(own: PreparedQuestion, groups: float, rows: float, level: float | None) -> ExpectedWidth:
    each = rows / groups if math.isfinite(groups) else rows
    width = own.half_width
    if width is None and isinstance(own.question, Mean | Share) and isinstance(own.form, FractionForm):
        width = own.form.half_width_of(own.publisher, each)
    population = None if level is None else _sampled_width(own, each, level)
    if width is None and level is not None:  # squares were measured as well
        width = _sampled_width(own, each, level, sampling=False)
    words, most = _most(own.question, each)
    hopeless = "" if width is None or width < most else f"half-width {width:.4g}, and {words}"
    if isinstance(own.publisher, QuantilePublisher) and 2.0 * own.publisher.rank_error >= each:
        hopeless = f"may be {_rows(own.publisher.rank_error)} off, and a group has about {_rows(each)}"
    return ExpectedWidth(query=own.question.name, rows=each, half_width=width, hopeless=hopeless, population=population)


def _sampled_width(own: PreparedQuestion, rows: float, level: float, *, sampling: bool = True) -> float | None:
    """Half the width of the interval for the population of a mean or share that half of the rows have at each end.

    The rows of a unit are alike, so that no values vary more; with weights it is None.
    """
    question, sampled, added = own.question, own.sampled, added_noise(own.publisher)
    if not isinstance(question, Mean | Share) or added is None or not isinstance(sampled, Sampled) or question.weights:
        return None
    known, half = question.known_rows(own.unit) is not None, rows / 2.0
    rest = len(sampled.deviation(np.zeros(1))) - 3 + known  # beside the first and last of the values: with squares more
    draw = (half, *[0.0] * min(rest, 1), half, *[0.0] * (rest - 1))[known:]
    low, high = population_interval(sampled, draw, added, level, sampling=sampling)
    return (high - low) / 2.0


def _rows(rows: float) -> str:
    return arguments.counted(f"{rows:.4g}", "row")


def _most(question: Kind, rows: float) -> tuple[str, float]:
    """What a half-width is compared with in a group of this many rows, in words and as a number; else infinite."""
    weight = float(question.largest_weight)
    match question:
        case ScalarKind(whole=True):
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


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class MarginMet:
    """A question of a plan that was solved: the margin asked, the half-width of its interval, its part of the account.

    `half_width` is None where the data decide; then no margin was asked. `error` says in words how far a number may be
    off.
    """

    query: str
    margin: float | None
    half_width: float | None
    share: float
    error: str


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Solution:
    """The smallest epsilon at a plan's delta with which its margins are met, and what each question gets for it.

    `plan` is the plan at that epsilon; `rest` is the part of the account for what has no margin; `terms` states the
    cost in several ways. `margins_alone` is the epsilon that the margins need by themselves, rounded up: the less is
    left for what has no margin, the nearer is epsilon to it.
    """

    epsilon: float
    delta: float
    rest: float
    margins_alone: float
    plan: Plan
    terms: Conversions
    questions: tuple[MarginMet, ...]

    def to_dict(self) -> dict[str, object]:
        """The solution as plain data, without the plan."""
        facts = {"epsilon": self.epsilon, "delta": self.delta, "rest": self.rest, "margins_alone": self.margins_alone}
        queries = [dict(vars(each)) for each in self.questions]
        return {**facts, "privacy": self.terms.to_dict(), "queries": queries}

    def __str__(self) -> str:
        delta = f", delta {arguments.upwards(self.delta)}" if self.delta else ""
        rest = f", with {arguments.upwards(100 * self.rest, 3)} % left for what has no margin" if self.rest else ""
        alone = f"; the margins alone need {self.margins_alone!r} (--rest leaves less)" if self.rest else ""
        return f"epsilon {self.epsilon!r}{delta} meets all margins{rest}{alone}; the plan file is not changed"


def solve(plan: Plan | Mapping[str, object], *, rest: float | None = None) -> Solution:
    """The smallest epsilon at the plan's delta with which all its margins are met; the plan's own does not matter.

    `rest` is the part of the account (of epsilon in plain sums, of the square of mu in a Gaussian account) that is left
    for what has no margin, questions and partition selections; by default that of its number among all that cost.

    Guarantee: rounded up to four digits, and found to suffice: the plan at this epsilon is split again, and every
    interval is as narrow as its margin. One smaller by 1 % does not suffice.
    Edge cases: a plan without margins, or with one that no epsilon up to 100 meets, raises `PlanError`; a `rest` that
    leaves nothing for margins or for the others `ArgumentError`.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count", margin = 25}]')
    >>> print(solve(plan))
    epsilon 0.1175 meets all margins; the plan file is not changed
    """
    plan = as_plan(plan)
    if all(each.margin is None for each in plan.query):
        raise PlanError(
            "query: no question has a margin; give one half the width of its interval, such as margin = 25",
            field="query",
        )
    if rest is not None and not 0.0 <= arguments.real("rest", rest) < 1.0:
        raise ArgumentError(f"rest={rest!r}: must lie in [0, 1), as a part of the account")
    least, left, others = least_epsilon(plan, rest)
    if others and not left:
        raise ArgumentError(f"rest={rest!r}: must be positive, since some questions or keys have no margin")
    epsilon = float(arguments.upwards(least, _DIGITS))
    if epsilon > LARGEST:
        raise PlanError(
            f"query: the margins need epsilon {epsilon:g}, and a plan has at most {LARGEST:g}; take wider margins, a "
            "larger delta or fewer questions",
            field="query",
        )
    facts = _at(plan, epsilon)
    met = ((each.half_width, each.question.margin) for each in facts.questions)
    assert all(margin is None or (width is not None and width <= margin) for width, margin in met)
    return Solution(
        epsilon=epsilon,
        delta=plan.budget.delta,
        rest=float(left),
        margins_alone=min(epsilon, float(arguments.upwards(least_epsilon(plan, 0.0)[0], _DIGITS))),
        plan=facts.plan,
        terms=facts.conversions,
        questions=tuple(
            MarginMet(
                query=each.question.name,
                margin=each.question.margin,
                half_width=each.half_width,
                share=part_of(facts.plan.budget.epsilon, facts.ready.allocation, each.share),
                error=each.error,
            )
            for each in facts.questions
        ),
    )
