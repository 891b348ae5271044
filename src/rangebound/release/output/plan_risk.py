"""What all numbers of a plan cost together: in the terms of several definitions, and as what an attacker gains."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cache, partial

from rangebound.privacy.gdp import rho_of_mu
from rangebound.privacy.risk import ProfileRisk, guaranteed, odds
from rangebound.privacy.risk.tradeoff_curve import Profile
from rangebound.release.noise.allocation import Allocation
from rangebound.release.output.plan_pairs import attained
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import Prepared, prepare, prepared
from rangebound.values import arguments
from rangebound.values.numeric import rounded_up


@dataclass(frozen=True, kw_only=True)
class Conversions:
    """One privacy guarantee, stated in several ways, each true by itself.

    All parts together are `mu`-GDP and `rho`-zCDP, but for events of probability `added_delta`. `deltas` has the delta
    at half, once and twice the plan's epsilon. `gaussian` says that the budget was split in a Gaussian account.

    Guarantee: every number is rounded up.
    """

    gaussian: bool
    epsilon: float
    delta: float
    mu: float
    rho: float
    added_delta: float
    deltas: tuple[tuple[float, float], ...]

    def to_dict(self) -> dict[str, object]:
        """The same as plain data; `account` names the way in which the budget was split."""
        facts = {name: value for name, value in asdict(self).items() if name not in ("gaussian", "deltas")}
        deltas = [{"epsilon": epsilon, "delta": delta} for epsilon, delta in self.deltas]
        return {"account": "gaussian" if self.gaussian else "sums", **facts, "deltas": deltas}

    def __str__(self) -> str:
        deltas = ", ".join(f"{_up(delta)} at epsilon {_up(epsilon)}" for epsilon, delta in self.deltas)
        but = f", but for events of probability {_up(self.added_delta)}" if self.added_delta else ""
        account = "One Gaussian account" if self.gaussian else "Plain sums of epsilon and delta"
        return f"{account}: {self.brief()}{but}; delta is {deltas}."

    def brief(self) -> str:
        """Mu and rho in a few words."""
        return f"mu {_up(self.mu)} (rho {_up(self.rho)} of zCDP)"


def conversions(ready: Prepared) -> Conversions:
    """What a plan that was made ready costs, in the terms of several definitions.

    Mu is that of `JointLoss`, also in plain sums. A delta is that of `account_profile`.

    >>> from rangebound.release import parse_plan
    >>> from rangebound.release.prepare import prepare
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> print(conversions(prepare(plan)).brief())
    mu 1.233 (rho 0.7591 of zCDP)
    """
    epsilon, delta, at = ready.plan.budget.epsilon, ready.plan.budget.delta, account_profile(ready)
    return Conversions(
        gaussian=bool(ready.allocation.mu),
        epsilon=epsilon,
        delta=delta,
        mu=ready.loss.mu,
        rho=rho_of_mu(ready.loss.mu),
        added_delta=rounded_up(ready.loss.delta),
        deltas=tuple((each, at(each)) for each in (epsilon / 2.0, epsilon, 2.0 * epsilon)),
    )


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


def _up(value: float) -> str:
    return arguments.upwards(value, 4)
