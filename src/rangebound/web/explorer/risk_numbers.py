"""What an attacker gains, in the numbers and texts that the page shows."""

from __future__ import annotations

import math

from rangebound.privacy.risk import ProfileRisk, guaranteed
from rangebound.release.output.plan_risk import advantage_odds
from rangebound.release.plan.model import Plan
from rangebound.values.arguments import upwards

_RATES = (0.001, 0.005, 0.01, *(at / 50 for at in range(1, 50)))  # fine, since lines between them are above the curve
_BASELINES = (0.01, 0.1)


def risk_numbers(plan: Plan, risk: ProfileRisk) -> dict[str, object]:
    """The attack risk of a plan; None where there is no such number. The texts are rounded up.

    Guarantee: no risk is understated where `risk` is not.
    """
    mu, advantage = risk.gdp(), risk.advantage()
    rates = {"advantage": advantage, "success": risk.success(0.5), "posterior": risk.posterior(0.5)}
    reconstruction = [[each, risk.reconstruction(each)] for each in _BASELINES]
    shares = rates | {f"reconstruction-{at}": after for at, (_, after) in enumerate(reconstruction)}
    texts = {name: percent_up(value) for name, value in shares.items()}
    return {
        **rates,
        "odds": advantage_odds(plan, advantage),
        "mu": mu if math.isfinite(mu) else None,
        "reconstruction": reconstruction,
        "tradeoff": [[each, risk.tradeoff(each)] for each in (0.0, *_RATES, 1.0)],
        "texts": texts | {"mu": upwards(mu, 4) if math.isfinite(mu) else "none"},
    }


def bare_risk(plan: Plan) -> dict[str, object]:
    """The same from the epsilon and the delta of a plan alone, for the time until its mechanisms are known.

    Guarantee: never below the risk of the plan, whatever its mechanisms and however its budget is split;
    a point of the trade-off curve up to the tolerance of the curve.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> bare_risk(plan)["texts"]["advantage"]
    '46.22 %'
    """
    return risk_numbers(plan, guaranteed(plan.budget.epsilon, plan.budget.delta))


def percent_up(part: float) -> str:
    """A part in percent, rounded up to four digits and never above 100: of a risk that may not be understated.

    >>> percent_up(0.12345678), percent_up(0.99999)
    ('12.35 %', '100 %')
    """
    return f"{upwards(min(100.0 * part * (1.0 + 2.0**-50), 100.0), 4)} %"
