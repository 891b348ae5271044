"""Composition rules of an account, fixed when it is opened, and the costs that they add up."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, TypeVar

from rangebound.errors import ArgumentError, ArgumentTypeError, Unsatisfiable
from rangebound.ledger.amount import LARGEST, SCALE, Amount, Exact, exact, rounded_up
from rangebound.privacy.gdp import epsilon_of_mu, largest_mu, mu_of_pure, pure_epsilon
from rangebound.values import arguments, numeric

Units: TypeAlias = tuple[int, int]
"""A cost as the two columns that are added up."""

# Every operation is rounded correctly to 80 digits, and no number in a total is above 1e14: all of them together are
# off by less than 1e-50 units.
_CONTEXT = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_EVEN)
_ROUNDING = Decimal("1e-40")  # units


@arguments.guided
@dataclass(frozen=True, init=False)
class Cost:
    """What one release costs: it is (`epsilon`, `delta`)-private in the worst case over all neighbouring datasets.

    >>> print(Cost(epsilon=0.1, delta="1e-9"))
    epsilon 0.1, delta 0.000000001
    """

    epsilon: Amount
    delta: Amount

    def __init__(self, *, epsilon: Exact, delta: Exact = 0) -> None:
        object.__setattr__(self, "epsilon", rounded_up("epsilon", epsilon))
        object.__setattr__(self, "delta", rounded_up("delta", delta))

    def __str__(self) -> str:
        return f"epsilon {self.epsilon}" + (f", delta {self.delta}" if self.delta.units else "")

    @property
    def units(self) -> Units:
        """The two numbers that are added up."""
        return self.epsilon.units, self.delta.units

    def to_dict(self) -> dict[str, str]:
        """The cost as plain data, with exact decimals."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}


@arguments.guided
@dataclass(frozen=True, init=False)
class RenyiCost:
    """What one release costs at a Renyi order: D_order is at most `divergence`, in both directions, in the worst case.

    A computed bound goes in by `covering`, which takes the double as it is.

    >>> print(RenyiCost(order=8, divergence="0.25"))
    divergence 0.25 at order 8
    """

    order: Amount
    divergence: Amount

    def __init__(self, *, order: Exact, divergence: Exact) -> None:
        object.__setattr__(self, "order", _order(order))
        object.__setattr__(self, "divergence", rounded_up("divergence", divergence))

    def __str__(self) -> str:
        return f"divergence {self.divergence} at order {self.order}"

    @property
    def units(self) -> Units:
        """The two numbers that are added up."""
        return self.divergence.units, 0

    def to_dict(self) -> dict[str, str]:
        """The cost as plain data, with exact decimals."""
        return {"order": str(self.order), "divergence": str(self.divergence)}


@arguments.guided
@dataclass(frozen=True, init=False)
class GaussianCost:
    """What one release costs in Gaussian differential privacy: it is `mu`-GDP but for an event of probability `delta`.

    For all neighbours its two distributions are P = (1 - d) P' + d P'' and Q = (1 - d) Q' + d Q'' with d <= delta,
    where telling P' from Q' is never easier than telling N(0, 1) from N(mu, 1) [dong2022]. Gaussian noise of scale
    sigma on numbers that move by at most s in Euclidean length has mu = s / sigma and delta = 0. Partition selections
    and other (epsilon, delta)-private parts add a delta.

    What is charged and compared is `mu_squared`, the square rounded up to 1e-12. A bound that was computed as a double
    goes in as it is by `Fraction(mu)`.

    >>> print(GaussianCost(mu=0.1, delta="1e-9"))
    mu 0.1 (mu^2 0.01), delta 0.000000001
    """

    mu_squared: Amount
    delta: Amount

    def __init__(self, *, mu: Exact, delta: Exact = 0) -> None:
        number = exact("mu", mu)
        if number**2 > LARGEST:
            raise ArgumentError(f"mu={arguments.shown(mu)}: must be at most {math.isqrt(LARGEST)}")
        object.__setattr__(self, "mu_squared", rounded_up("mu", number**2))
        object.__setattr__(self, "delta", rounded_up("delta", delta))

    @classmethod
    def of_units(cls, units: Units) -> GaussianCost:
        """The cost with these columns: mu^2 and delta, in units of 1e-12.

        >>> GaussianCost.of_units((10**10, 0)) == GaussianCost(mu=0.1)
        True
        """
        made = cls.__new__(cls)
        object.__setattr__(made, "mu_squared", Amount(units=units[0]))
        object.__setattr__(made, "delta", Amount(units=units[1]))
        return made

    def __str__(self) -> str:
        words = f"mu {self._decimal} (mu^2 {self.mu_squared})"
        return words + (f", delta {self.delta}" if self.delta.units else "")

    @property
    def mu(self) -> float:
        """The largest double whose square is not above `mu_squared`: what a mechanism may be calibrated to.

        >>> total = GaussianFilter(spare=0).total(Cost(epsilon=1).epsilon, Cost(epsilon="1e-6").epsilon)
        >>> GaussianCost(mu=Fraction(total.mu)) == total
        True
        """
        return numeric.root_down(self.mu_squared.fraction)

    @property
    def units(self) -> Units:
        """The two numbers that are added up."""
        return self.mu_squared.units, self.delta.units

    def to_dict(self) -> dict[str, str]:
        """The cost as plain data: mu^2 and delta as exact decimals, mu rounded up to twelve decimals."""
        return {"mu": str(self._decimal), "mu_squared": str(self.mu_squared), "delta": str(self.delta)}

    @property
    def _decimal(self) -> Amount:
        """The root of `mu_squared`, rounded up."""
        square = self.mu_squared.units * SCALE
        root = math.isqrt(square)
        return Amount(units=root + (root * root < square))


AnyCost: TypeAlias = Cost | RenyiCost | GaussianCost
C = TypeVar("C", bound=AnyCost)


@dataclass(frozen=True, kw_only=True)
class PlainSum:
    """Epsilons add up and deltas add up.

    Guarantee: releases chosen one after the other, each with knowledge of all before, together spend at most the sums;
    stopping before a sum passes its total keeps the total [rogers2016].
    """

    def total(self, epsilon: Amount, delta: Amount) -> Cost:
        """What may be spent so that the account keeps (epsilon, delta)."""
        return Cost(epsilon=epsilon, delta=delta)

    def units(self, cost: AnyCost) -> Units:
        """The cost in this account's columns, or an error if it is of another kind."""
        if type(cost) is not Cost:
            raise ArgumentTypeError(
                f"cost={arguments.shown(cost)}: must be a Cost(epsilon=..., delta=...), or have one beside it in a "
                "tuple; this account adds plain sums"
            )
        return cost.units

    def cost(self, units: Units) -> Cost:
        """The cost that these columns say."""
        return Cost(epsilon=Amount(units=units[0]), delta=Amount(units=units[1]))

    def left(self, units: Units, delta: Amount) -> str:
        """What these columns leave, in words; the promise has `delta`."""
        return str(self.cost(units))

    def to_dict(self) -> dict[str, str]:
        """The rule as plain data."""
        return {"rule": "sum"}


@arguments.guided
@dataclass(frozen=True, init=False)
class RenyiFilter:
    """Renyi divergences at one fixed `order` add up.

    The total for (epsilon, delta) is, with a the order, epsilon - ln((a-1)/a) + (ln delta + ln a)/(a-1), rounded down.

    Guarantee: releases chosen one after the other, each with knowledge of all before, keep (epsilon, delta) as long as
    their divergences add up to at most that total [feldman2021; canonne2020, Prop. 12]. A pure `Cost` is charged with
    the divergence of randomised response, the largest of all pure releases of its epsilon [kairouz2015]; a
    `GaussianCost` without delta with order mu^2 / 2. Both are rounded up.
    Edge cases: a cost with a delta is refused, because it bounds no divergence. A total that is not positive raises
    `Unsatisfiable`; a larger order helps, or a larger epsilon.

    >>> one, millionth = Cost(epsilon=1).epsilon, Cost(epsilon="1e-6").epsilon
    >>> print(RenyiFilter(order=16).total(one, millionth))
    divergence 0.328343732089 at order 16
    """

    order: Amount

    def __init__(self, *, order: Exact) -> None:
        object.__setattr__(self, "order", _order(order))

    def total(self, epsilon: Amount, delta: Amount) -> RenyiCost:
        """What may be spent so that the account keeps (epsilon, delta)."""
        if not delta.units:
            raise ArgumentError("delta=0: must be positive for a Renyi filter; plain sums do without delta")
        with decimal.localcontext(_CONTEXT):
            a, limit, slack = (Decimal(x.units) / SCALE for x in (self.order, epsilon, delta))
            total = limit - ((a - 1) / a).ln() + (slack.ln() + a.ln()) / (a - 1)
            units = math.floor(total * SCALE - _ROUNDING)
        if units <= 0:
            raise Unsatisfiable(
                f"order={self.order}: leaves nothing to spend within epsilon {epsilon}, delta {delta}; "
                "a larger order or a larger epsilon does"
            )
        return RenyiCost(order=self.order, divergence=Amount(units=min(units, LARGEST * SCALE)))

    def units(self, cost: AnyCost) -> Units:
        """The cost in this account's columns, or an error if it bounds no divergence at this order."""
        if type(cost) is RenyiCost and cost.order == self.order:
            return cost.units
        if type(cost) is Cost and not cost.delta.units:
            return _pure_divergence(cost.epsilon.units, self.order.units), 0
        if type(cost) is GaussianCost and not cost.delta.units:
            return _within(-(-self.order.units * cost.mu_squared.units // (2 * SCALE)), cost), 0
        raise ArgumentTypeError(
            f"cost={arguments.shown(cost)}: must be a RenyiCost(order={self.order}, divergence=...), or a cost without "
            "delta, or have one beside it in a tuple; the order of this account is fixed"
        )

    def cost(self, units: Units) -> RenyiCost:
        """The cost that these columns say."""
        return RenyiCost(order=self.order, divergence=Amount(units=units[0]))

    def left(self, units: Units, delta: Amount) -> str:
        """What these columns leave, in words; the promise has `delta`."""
        return str(self.cost(units))

    def to_dict(self) -> dict[str, str]:
        """The rule as plain data."""
        return {"rule": "renyi", "order": str(self.order)}


@arguments.guided
@dataclass(frozen=True, init=False)
class GaussianFilter:
    """Squares of `mu` add up, and so do deltas: an account in Gaussian differential privacy.

    Of the promised delta, the part `spare` is for the deltas of its releases; the rest is for Gaussian noise. The total
    of mu^2 is that of the largest mu whose profile at epsilon is at most that rest, rounded down. A quarter by default:
    at epsilon 1 and delta 1e-6 or less this takes at most 1.4 % of mu, and tables with private keys, which need a
    delta, can be charged. An account whose releases have no delta takes `spare=0`.

    Guarantee: releases chosen one after the other, each with knowledge of all before, keep (epsilon, delta) as long as
    their mu^2 and their deltas add up to at most the totals. Proof: fix two neighbours. Draw each release as
    `GaussianCost` says: with probability d from P'' (or Q''), and raise a flag, else from P' (or Q'); this does not
    change its distribution. Let p and q be the distributions of all releases together if each is drawn from P' (or Q'),
    and w the product of all 1 - d, a function of what was released, and the same one for both neighbours. For a set S
    of outcomes, S happens without a flag with probability E_p[w 1_S] for the one neighbour and E_q[w 1_S] for the
    other. Since w 1_S is a test and (p, q) is mu-GDP [smith2022, fully adaptive composition],
    E_p[w 1_S] <= e^epsilon E_q[w 1_S] + delta(epsilon; mu). A flag is raised with probability 1 - E_p[w], at most the
    sum of all deltas, since w >= 1 - sum d. So Pr[S] <= e^epsilon Pr'[S] + delta(epsilon; mu) + sum of deltas.

    Any (epsilon, delta)-private release, a `Cost`, is charged with the mu of its epsilon and with its delta: it is made
    from a coin that is e^epsilon times as likely to fall on one side as on the other, but for an event of probability
    delta that reveals everything [kairouz2015], and the coin is mu-GDP (`gdp.mu_of_pure`).
    Edge cases: a promise without delta is refused, and one so small that nothing is left raises `Unsatisfiable`. A
    `RenyiCost` is refused, because one order bounds no mu.

    >>> one, millionth = Cost(epsilon=1).epsilon, Cost(epsilon="1e-6").epsilon
    >>> print(GaussianFilter().total(one, millionth))
    mu 0.233459072876 (mu^2 0.054503138708), delta 0.00000025
    """

    spare: Amount

    def __init__(self, *, spare: Exact = "0.25") -> None:
        number = exact("spare", spare)
        if not number < 1 or math.floor(number * SCALE) != number * SCALE:
            raise ArgumentError(f"spare={arguments.shown(spare)}: must lie in [0, 1), with at most twelve decimals")
        object.__setattr__(self, "spare", Amount(units=int(number * SCALE)))

    def total(self, epsilon: Amount, delta: Amount) -> GaussianCost:
        """What may be spent so that the account keeps (epsilon, delta)."""
        if not delta.units:
            raise ArgumentError("delta=0: must be positive for a Gaussian filter; plain sums do without delta")
        noise = self._noise(delta)
        units = math.floor(Fraction(largest_mu(epsilon.fraction, noise.fraction)) ** 2 * SCALE)
        if not units:
            raise Unsatisfiable(
                f"epsilon {epsilon}, delta {delta}: leave nothing to spend, since mu^2 would be below 1e-12; a larger "
                "epsilon or delta does"
            )
        return GaussianCost.of_units((min(units, LARGEST * SCALE), delta.units - noise.units))

    def units(self, cost: AnyCost) -> Units:
        """The cost in this account's columns, or an error if it bounds no mu."""
        if type(cost) is GaussianCost:
            return cost.units
        if type(cost) is Cost:
            return _within(_pure_mu_squared(cost.epsilon.units), cost), cost.delta.units
        raise ArgumentTypeError(
            f"cost={arguments.shown(cost)}: must be a GaussianCost(mu=..., delta=...) or a Cost(epsilon=..., "
            "delta=...), or have one beside it in a tuple; this account adds squares of mu"
        )

    def cost(self, units: Units) -> GaussianCost:
        """The cost that these columns say."""
        return GaussianCost.of_units(units)

    def left(self, units: Units, delta: Amount) -> str:
        """What these columns leave, in words; the promise has `delta`.

        >>> one, millionth = Cost(epsilon=1).epsilon, Cost(epsilon="1e-6").epsilon
        >>> rule = GaussianFilter()
        >>> print(rule.left(rule.total(one, millionth).units, millionth).replace(", ", "\\n"))
        one more release of up to mu 0.233459
        that is epsilon 1 at delta 0.00000075
        or a pure one of up to epsilon 0.186388
        and delta 0.00000025 for releases that have one
        """
        mu, noise = self.cost(units).mu, self._noise(delta)
        beside = f", and delta {Amount(units=units[1])} for releases that have one" if units[1] else ""
        if not mu:
            return f"no mu{beside}"
        epsilon = arguments.upwards(epsilon_of_mu(mu, delta=float(noise)))
        pure = arguments.downwards(pure_epsilon(mu))
        return (
            f"one more release of up to mu {arguments.downwards(mu)}, that is epsilon {epsilon} at delta {noise}, or a "
            f"pure one of up to epsilon {pure}{beside}"
        )

    def to_dict(self) -> dict[str, str]:
        """The rule as plain data."""
        return {"rule": "gaussian", "spare": str(self.spare)}

    def _noise(self, delta: Amount) -> Amount:
        """The part of a promised delta that is for Gaussian noise; at least one unit, since `spare` is below 1."""
        return Amount(units=delta.units - delta.units * self.spare.units // SCALE)


Rule: TypeAlias = PlainSum | RenyiFilter | GaussianFilter


def charged(rule: Rule, costs: tuple[C, ...]) -> tuple[C, Units]:
    """The first of these costs that a rule can hold, and its columns; each says of the same release what is true.

    >>> gaussian, plain = GaussianCost(mu=0.1), Cost(epsilon="0.6", delta="1e-9")
    >>> charged(PlainSum(), (gaussian, plain))[0] == plain, charged(GaussianFilter(), (gaussian, plain))[0] == gaussian
    (True, True)
    """
    reasons = []
    for cost in costs:
        try:
            return cost, rule.units(cost)
        except ArgumentTypeError as reason:
            reasons.append(reason)
    raise reasons[0]


def rule_from_dict(data: dict[str, str]) -> Rule:
    """The rule that `to_dict` wrote.

    >>> rule_from_dict({"rule": "renyi", "order": "16"}).to_dict()
    {'rule': 'renyi', 'order': '16'}
    """
    match data:
        case {"rule": "sum", **rest} if not rest:
            return PlainSum()
        case {"rule": "renyi", "order": order, **rest} if not rest:
            return RenyiFilter(order=order)
        case {"rule": "gaussian", "spare": spare, **rest} if not rest:
            return GaussianFilter(spare=spare)
    raise ArgumentError(
        f"rule={arguments.shown(data)}: must be a plain sum, a Renyi filter or a Gaussian filter; a rule of a later "
        "version needs that version"
    )


def _order(value: Exact) -> Amount:
    number = exact("order", value)
    if not number > 1 or math.floor(number * SCALE) != number * SCALE:
        raise ArgumentError(f"order={arguments.shown(value)}: must be above 1, with at most twelve decimals")
    return Amount(units=int(number * SCALE))


def _within(units: int, cost: AnyCost) -> int:
    if units > LARGEST * SCALE:
        raise ArgumentError(f"cost={cost}: is more than an account of this rule can hold ({LARGEST})")
    return units


@lru_cache(maxsize=1024)
def _pure_mu_squared(epsilon: int) -> int:
    """The mu^2 of every pure release of an epsilon, rounded up; both in units."""
    mu = mu_of_pure(numeric.rounded_up(Fraction(epsilon, SCALE)))
    return math.ceil(Fraction(mu) ** 2 * SCALE)


@lru_cache(maxsize=1024)
def _pure_divergence(epsilon: int, order: int) -> int:
    """The largest Renyi divergence of a pure release of an epsilon, rounded up; all in units.

    It is that of randomised response, ln((e^(a epsilon) + e^((1 - a) epsilon)) / (1 + e^epsilon)) / (a - 1) at order a
    [mironov2017, Prop. 5; kairouz2015], written so that nothing overflows, and never above epsilon.
    """
    with decimal.localcontext(_CONTEXT):
        a, x = Decimal(order) / SCALE, Decimal(epsilon) / SCALE
        more = (1 + ((1 - 2 * a) * x).exp()).ln() - (1 + (-x).exp()).ln()
        return min(math.ceil((x + more / (a - 1)) * SCALE + _ROUNDING), epsilon)
