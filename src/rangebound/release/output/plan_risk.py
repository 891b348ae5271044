"""What an attacker gains from all numbers of a plan together: the risk of its whole account, and the sentence on it."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, partial

from rangebound.gdp import delta_of_parts
from rangebound.numeric import root_up, rounded_up
from rangebound.release.noise.allocation import Allocation, parts_together, spent
from rangebound.release.output.plan_pairs import attained
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import prepare
from rangebound.risk import ProfileRisk, guaranteed, odds
from rangebound.risk.tradeoff_curve import Profile


def account_profile(plan: Plan, allocation: Allocation) -> Profile:
    """The delta of all parts of an allocation together, at every epsilon.

    It is that of the profile of all parts, pure ones by their epsilons, and of the deltas of parts that have one. In
    plain sums it is no more than they add up to, from the sum of the epsilons on.

    Guarantee: rounded up, for all pairs of neighbours.
    """
    (total, added), (gaussian, pure) = spent(allocation), parts_together(allocation.shares)
    limit, slack = (Fraction(plan.budget.epsilon), plan.budget.delta) if allocation.mu else (total, rounded_up(added))

    def at(epsilon: float) -> float:
        profile = min(rounded_up(added + Fraction(delta_of_parts(gaussian, pure, epsilon=epsilon))), 1.0)
        return min(profile, slack) if epsilon >= limit else profile

    return at


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
    allocation = prepare(plan).allocation if allocation is None else allocation
    total, added = spent(allocation)
    exact, mu = (
        account_profile(plan, allocation),
        root_up(sum((each.square for each in allocation.shares), Fraction(0))),
    )
    limit = plan.budget if allocation.mu else None
    bare = guaranteed(limit.epsilon, limit.delta) if limit else guaranteed(rounded_up(total), rounded_up(added))
    below = cache(partial(attained, plan, allocation))
    return ProfileRisk(
        profile=lambda epsilon: min(exact(epsilon), bare.profile(epsilon)),
        pure=bare.pure,
        mu=math.inf if added else mu,
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
