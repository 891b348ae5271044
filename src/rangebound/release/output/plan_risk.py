"""What an attacker gains from all numbers of a plan together: the risk of its whole account, and the sentence on it."""

from __future__ import annotations

import math
from functools import cache, partial

from rangebound.privacy.risk import ProfileRisk, guaranteed, odds
from rangebound.privacy.risk.tradeoff_curve import Profile
from rangebound.release.noise.allocation import Allocation
from rangebound.release.output.plan_pairs import attained
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import Prepared, prepare, prepared
from rangebound.values.numeric import rounded_up


def account_profile(ready: Prepared) -> Profile:
    """The delta of all that is drawn together, at every epsilon.

    It is that of `JointLoss`, and no more than what its epsilon and delta allow by themselves.

    Guarantee: rounded up, for all pairs of neighbours.
    """
    bare = _bare(ready)
    return lambda epsilon: min(ready.loss.delta_at(epsilon), bare.profile(epsilon))


def _bare(ready: Prepared) -> ProfileRisk:
    """What the epsilon and the delta of all of it allow: the budget's, or in plain sums what they add up to."""
    budget, loss = ready.plan.budget, ready.loss
    if ready.allocation.mu or loss.epsilon is None:
        return guaranteed(budget.epsilon, budget.delta)
    return guaranteed(rounded_up(loss.epsilon), rounded_up(loss.delta))


class PlanRisk(ProfileRisk):
    """The risk of a plan: its mu is that of `JointLoss`, which is charged and stated everywhere."""

    def _smallest_mu(self) -> tuple[float, float]:
        return (self.mu, 0.0) if math.isfinite(self.mu) else super()._smallest_mu()


def plan_risk(plan: Plan, allocation: Allocation | None = None) -> ProfileRisk:
    """The attack risk of all numbers of a plan together: trade-off, advantage, mu, certainty, reconstruction.

    `allocation` is how the budget is split: by default as a release splits it.

    Guarantee: never understated, for an attacker who knows all rows but those of one unit. The other ends of
    `enclosed` are attained on the tables of `plan_pairs`; where the plan has no number of that kind, without an output.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> round(plan_risk(plan).advantage(), 4)
    0.4622
    """
    ready = prepare(plan) if allocation is None else prepared(plan, allocation)
    below = cache(partial(attained, plan, ready.allocation))
    return PlanRisk(
        profile=account_profile(ready),
        pure=_bare(ready).pure,
        mu=math.inf if ready.loss.delta else ready.loss.mu,
        pairs=lambda epsilon: below()._attack_pairs(epsilon),
        pure_below=lambda: below()._attack_pure_below(),
    )


def plan_odds(plan: Plan, allocation: Allocation) -> str:
    """The risk in one sentence, for every reader of a plan or a report."""
    return advantage_odds(plan, plan_risk(plan, allocation).advantage())


def advantage_odds(plan: Plan, advantage: float) -> str:
    """The same of an advantage that is known."""
    crowd = "owners of rows" if plan.unit.column else "rows"
    secret = "one of two candidates" if plan.unit.replaced else "in the data or not"
    return odds(advantage, crowd, secret)
