"""The smallest epsilon with which the margins of a plan are met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.output.forecast import part_of
from rangebound.release.output.plan_risk import Conversions, conversions
from rangebound.release.plan.accuracy import LARGEST
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.prepare import Prepared, least_epsilon, prepare
from rangebound.values import arguments

_DIGITS = 4


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
    least = least_epsilon(plan, rest)
    others = any(each.needs is None and each.weight for each in least.requests)
    if others and not least.rest:
        raise ArgumentError(f"rest={rest!r}: must be positive, since some questions or keys have no margin")
    epsilon = float(arguments.upwards(least.epsilon, _DIGITS))
    if epsilon > LARGEST:
        raise PlanError(
            f"query: the margins need epsilon {epsilon:g}, and a plan has at most {LARGEST:g}; take wider margins, a "
            "larger delta or fewer questions",
            field="query",
        )
    found = plan.model_copy(update={"budget": plan.budget.model_copy(update={"epsilon": epsilon})})
    ready = prepare(found)
    return Solution(
        epsilon=epsilon,
        delta=plan.budget.delta,
        rest=float(least.rest),
        margins_alone=min(epsilon, float(arguments.upwards(least_epsilon(plan, 0.0).epsilon, _DIGITS))),
        plan=found,
        terms=conversions(ready),
        questions=tuple(_met(ready, index) for index in range(len(plan.query))),
    )


def _met(ready: Prepared, index: int) -> MarginMet:
    question = ready.plan.query[index]
    width = question.half_width(ready.publishers[index], ready.plan.unit_of(question))
    assert question.margin is None or (width is not None and width <= question.margin)
    share = part_of(ready.plan, ready.allocation, ready.allocation.questions[index])
    error = question.expected_error(ready.publishers[index])
    return MarginMet(query=question.name, margin=question.margin, half_width=width, share=share, error=error)
