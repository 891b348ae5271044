"""What a release costs in the terms of several definitions: epsilon and delta, mu, rho, and delta at other epsilons."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rangebound.privacy.gdp import rho_of_mu
from rangebound.release.output.plan_risk import account_profile
from rangebound.release.output.rendering import Published
from rangebound.release.prepare import Prepared, allocations, prepared, stated_epsilon
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
        return f"{account}: mu {_up(self.mu)} (rho {_up(self.rho)} of zCDP){but}; delta is {deltas}."

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


def prepared_of(release: Published) -> Prepared | None:
    """The plan of a published table, made ready as it was: its budget is split as its rows state the shares.

    Edge cases: None where no way to split the plan's budget has these shares, for a table of another version.
    """
    plan = release.plan
    index = {each.name: at for at, each in enumerate(plan.query)}
    said = {
        (index[row["query"]], row["epsilon"] or 0.0, row["delta"] or 0.0, row["mu"] or 0.0) for row in release.rows()
    }
    for way in allocations(plan):
        if said <= {
            (at, stated_epsilon(plan.query[at], each), each.delta, each.mu) for at, each in way.questions.items()
        }:
            return prepared(plan, way)
    return None


def conversions_of(release: Published) -> Conversions | None:
    """The same of a table that was published; None where it is not known how its budget was split."""
    ready = prepared_of(release)
    return None if ready is None else conversions(ready)


def _up(value: float) -> str:
    return arguments.upwards(value, 4)
