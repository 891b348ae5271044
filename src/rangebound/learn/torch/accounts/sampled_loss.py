"""Per-instance Renyi divergences of a step on a Poisson sample, from the moments of one likelihood ratio.

Fix the other members of the batch. Without the example the step has the law P, with it Q; r = dQ/dP is a product over
coordinates, so its moments E_P[r^k] are products too. At the sampling rate q the step is (1-q) P + q Q, whose ratio to
P is z = 1 - q + q r. **Joining** is D_a(sample || P) = log E_P[z^a] / (a-1), **leaving** D_a(P || sample) =
log E_P[z^(1-a)] / (a-1).

| what | lower bound | upper bound |
| --- | --- | --- |
| joining, whole order | the binomial sum of the moments | the same |
| joining, order m + s, 0 < s < 1 | Gauss on z^(s+1), weight z^(m-1) | Radau on the same; chord of m and m + 1 |
| leaving | Gauss on z^(1-a) | Radau on z^(1-a); never above -log(1-q); the chord of 1 and r |

The chord of orders holds because log E[z^a] is convex in a. The chord of 1 and r: z lies between them at 1 - q and q,
and x^(1-a) is convex, so z^(1-a) <= 1 - q + q r^(1-a), and E_P[r^(1-a)] = exp((a-1) D_a(P || Q)), which is the loss of
leaving without sampling. Near the rate 1 it is best. For h(z) = z^s with s < 0 or 1 < s < 2 the even derivatives are
positive and the odd ones from the third on negative. So the polynomial p that meets h and its slope at n points has
h - p = h^(2n) / (2n)! times a square: p is below. If it meets h in r = 0 too, h - p = h^(2n+1) / (2n+1)! times r times
a square: p is above for every r >= 0. **This holds for any points, so none of them needs to be exact**; those of
Gauss's and Radau's rules, found in doubles, are the best. What is left is E[p] or E[weight * p], a linear combination
of moments, which is evaluated in balls that enclose each moment by itself. So every bound holds for every r whose
moments are within the enclosures, whether or not its ends are the moments of one law; wide enclosures cost tightness,
and the best of n = 1, 2, 3 is taken (n = 1 in leaving needs an upper bound of E r^2 alone).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rangebound.errors import ArgumentError
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.ball import Ball, ball, down, hull, precision, up

_BITS = 320  # of polynomials through points that lie close together
_NODES = (1, 2, 3)
_DENSE = 32  # moments up to this order are tabulated without gaps, for fractional orders
_FEWEST = 2 * max(_NODES)


def tabulated(orders: Sequence[float]) -> tuple[int, ...]:
    """The orders whose moments are needed for these: all at first, and some beyond, for upper bounds by convexity."""
    highest = max(_FEWEST, math.ceil(max(orders)) + 1)
    found = list(range(2, min(highest, _DENSE) + 1))
    while found[-1] < highest:
        found.append(min(highest, math.ceil(1.05 * found[-1])))
    return tuple(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """Lower and upper bounds of log E[r^k] for k = 0, 1, 2, ..., of a ratio r of two laws: the first two are 0."""

    lower: Floats
    upper: Floats

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or len(self.lower) <= _FEWEST:
            raise ArgumentError(f"moments: must be as many from below as from above, at least {_FEWEST + 1}")
        finite = np.isfinite(self.lower).all() and np.isfinite(self.upper).all()
        if not finite or not (self.lower <= self.upper).all() or self.lower[:2].any() or self.upper[:2].any():
            raise ArgumentError("moments: must be finite, from below not above the others, and 0 at the orders 0 and 1")

    @classmethod
    def between(cls, orders: Sequence[int], lower: Floats, upper: Floats) -> Moments:
        """All moments from those of some orders: log E[r^k] is convex in k, and its slope from k = 1 on rises."""
        known, every = np.array([0, 1, *orders]), np.arange(orders[-1] + 1)
        above = np.interp(every, known, np.concatenate([[0.0, 0.0], upper])) * (1.0 + 1e-14)
        last = known[np.searchsorted(known, every, side="right") - 1]
        below = np.concatenate([[0.0, 0.0], np.maximum(lower, 0.0)])[np.searchsorted(known, last)]
        below = below * np.maximum(every - 1, 0) / np.maximum(last - 1, 1) * (1.0 - 1e-14)
        return cls(lower=np.minimum(below, above), upper=above)

    @cached_property
    def points(self) -> dict[tuple[float, int, int, bool], list[Ball] | None]:
        """The points of the rules that were used: they are the same for all orders of leaving."""
        return {}

    @cached_property
    def enclosed(self) -> list[Ball]:
        """The moments up to `_DENSE` as balls."""
        ends = zip(self.lower[: _DENSE + 1].tolist(), self.upper[: _DENSE + 1].tolist(), strict=True)
        return [hull((ball(a).exp(), ball(b).exp())) for a, b in ends]


def sampled(lower: Floats, upper: Floats, rate: float, orders: Sequence[float]) -> Floats:
    """Upper bounds of the divergence of a step, one for each order, joining and leaving.

    `lower` and `upper` are bounds of the summed (k - 1) D_k for k in `tabulated(orders)`, as `LossTable.sums` has them:
    a row for Q at the sums of this run, and one for P there.
    """
    found = np.zeros(len(orders))
    rows = [Moments.between(tabulated(orders), lower[row], upper[row]) for row in range(2)]
    for moments, reverse in (rows, rows[::-1]):  # P and Q exchanged: the other row, for the same shifts
        both = [max(joining_above(moments, rate, each), leaving_above(moments, rate, each, reverse)) for each in orders]
        found = np.maximum(found, both)
    return found


def joining_below(moments: Moments, rate: float, order: float) -> float:
    """A lower bound of D_order(sample || P)."""
    whole = _checked(moments, rate, order)
    if whole == order:
        found = _binomial(moments.lower, rate, whole, -1)
    else:
        found = _quadrature(moments, rate, 1.0 + (order - whole), whole - 1, fixed=False)
    return max(found, 0.0) / (order - 1.0) * (1.0 - 1e-15)


def joining_above(moments: Moments, rate: float, order: float) -> float:
    """An upper bound of D_order(sample || P)."""
    whole = _checked(moments, rate, order)
    found = _binomial(moments.upper, rate, whole, 1)
    if whole != order:
        part = order - whole
        found = ((1.0 - part) * found + part * _binomial(moments.upper, rate, whole + 1, 1)) * (1.0 + 1e-14)
        found = min(found, _quadrature(moments, rate, 1.0 + part, whole - 1, fixed=True))
    return found / (order - 1.0) * (1.0 + 1e-15)


def leaving_below(moments: Moments, rate: float, order: float) -> float:
    """A lower bound of D_order(P || sample)."""
    _checked(moments, rate, order)
    return max(_quadrature(moments, rate, 1.0 - order, 0, fixed=False) / (order - 1.0) * (1.0 - 1e-15), 0.0)


def leaving_above(moments: Moments, rate: float, order: float, reverse: Moments | None = None) -> float:
    """An upper bound of D_order(P || sample), never above -log(1 - q), since z is never below 1 - q.

    With `reverse`, the moments of P to Q in Q, also never above what the loss without sampling gives.
    """
    _checked(moments, rate, order)
    found = _quadrature(moments, rate, 1.0 - order, 0, fixed=True)
    if reverse is not None:
        _checked(reverse, rate, order)
        whole = np.interp(order, np.arange(len(reverse.upper)), reverse.upper) * (1.0 + 1e-14)  # convex in the order
        chord = whole + math.log(rate + (1.0 - rate) * math.exp(-whole)) + 1e-15 * (whole + 1.0)
        found = min(found, chord * (1.0 + 1e-14))
    return min(found / (order - 1.0), -math.log1p(-rate)) * (1.0 + 1e-15)


def _checked(moments: Moments, rate: float, order: float) -> int:
    """The whole part of an order for which there are moments."""
    if not 0.0 < arguments.finite("rate", rate) < 1.0:
        raise ArgumentError(f"rate={rate}: must lie between 0 and 1, without its ends")
    if math.ceil(arguments.finite("order", arguments.order("order", order))) >= len(moments.upper):
        raise ArgumentError(f"order={order}: needs moments up to the next whole order")
    return math.floor(order)


def _binomial(logs: Floats, rate: float, order: int, way: int) -> float:
    """A bound on log E[z^order] = log(1 + sum over k of C(order, k) (1-q)^(order-k) q^k (E[r^k] - 1)), k from 2 on."""
    if order < 2:
        return 0.0
    k = np.arange(2, order + 1)
    counts = np.array([math.log(math.comb(order, int(each))) for each in k])
    known = logs[2 : order + 1]
    some = known > 0.0
    if not some.any():
        return 0.0
    k, counts, known = k[some], counts[some], known[some]
    terms = counts + (order - k) * math.log1p(-rate) + k * math.log(rate) + known + np.log(-np.expm1(-known))
    top = float(terms.max())
    total = top + math.log(float(np.exp(terms - top).sum()))
    size = float((counts + abs(terms) + known).max()) - order * (math.log1p(-rate) + math.log(rate))
    margin = 2.0**-43 + 2.0**-49 * (size + order)  # of a sum of up to some thousand terms, and of each term
    return float(np.logaddexp(0.0, total + way * margin)) * (1.0 + way * 2.0**-50)


def _quadrature(moments: Moments, rate: float, power: float, tilt: int, *, fixed: bool) -> float:
    """The best bound of log E[z^(tilt + power)], from above if a point is fixed at 0; infinite where there is none."""
    best = math.inf if fixed else -math.inf
    with precision(_BITS):
        weight = _powers(1.0 - ball(rate), ball(rate), tilt)
        for count in _NODES:
            if tilt + 2 * count > min(_DENSE, len(moments.upper) - 1):
                break
            key = rate, tilt, count, fixed
            if key not in moments.points:
                moments.points[key] = _points(moments.enclosed, weight, count, fixed)
            points = moments.points[key]
            if points is None:
                continue
            value = _expectation(moments.enclosed, weight, _through(points, rate, power, fixed))
            if value.is_finite() and value.lower() > 0:
                best = min(best, up(value.log())) if fixed else max(best, down(value.log()))
    return best


def _powers(first: Ball, second: Ball, power: int) -> list[Ball]:
    """The coefficients of (first + second r)^power."""
    return [math.comb(power, k) * first ** (power - k) * second**k for k in range(power + 1)]


def _times(first: Sequence[Ball], second: Sequence[Ball]) -> list[Ball]:
    found = [ball(0.0)] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            found[i + j] += a * b
    return found


def _expectation(moments: Sequence[Ball], weight: Sequence[Ball], polynomial: Sequence[Ball]) -> Ball:
    """E of the product of two polynomials in r: like powers are collected first, so that each moment counts once."""
    found = ball(0.0)
    for coefficient, moment in zip(_times(weight, polynomial), moments, strict=False):
        found += coefficient * moment
    return found


def _points(moments: Sequence[Ball], weight: Sequence[Ball], count: int, fixed: bool) -> list[Ball] | None:
    """About the points of Gauss's rule, or with a fixed point at 0 of Radau's; any positive points give bounds."""
    plain: list[Ball] = []
    for k in range(2 * count):
        terms = zip(weight, moments[k + fixed :], strict=False)
        plain.append(sum((a.mid() * b.mid() for a, b in terms), ball(0.0)).mid())
    mean = (plain[1] / plain[0]).mid()
    if count == 1:
        return [mean]
    central = []
    for k in range(2 * count):
        shifted = zip(_powers(-mean, ball(1.0), k), plain, strict=False)
        central.append((sum((a * b for a, b in shifted), ball(0.0)) / plain[0]).mid())
    if not central[2] > 0:
        return None
    spread = central[2].sqrt().mid()
    third, *rest = (float(each / spread**k) for k, each in enumerate(central) if k > 2)
    if count == 2:
        roots = [0.5 * (third - math.hypot(third, 2.0)), 0.5 * (third + math.hypot(third, 2.0))]
    else:
        fourth, fifth = rest
        room = fourth - third * third - 1.0
        if not room > 1e-9:
            return None
        a = (third + third * fourth - fifth) / room
        coefficients = [1.0, a, -fourth - a * third, -third - a]
        if not np.isfinite(coefficients).all():
            return None
        roots = np.roots(coefficients).real.tolist()
    return [abs(mean + spread * each).mid() for each in sorted(roots)]


def _through(points: Sequence[Ball], rate: float, power: float, fixed: bool) -> list[Ball]:
    """The polynomial in r that meets z^power and its slope at these points; if `fixed`, it meets it in r = 0 too."""
    q, s = ball(rate), ball(power)
    at = ([ball(0.0)] if fixed else []) + [x for each in points for x in (each, each)]
    column, slopes = [], []
    for x in at:
        z = 1 - q + q * x
        column.append((s * z.log()).exp())
        slopes.append(s * q * column[-1] / z)
    newton = [column[0]]
    for step in range(1, len(at)):
        column = [
            slopes[i] if step == 1 and at[i] is at[i + 1] else (column[i + 1] - column[i]) / (at[i + step] - at[i])
            for i in range(len(column) - 1)
        ]
        newton.append(column[0])
    found = [newton[-1]]
    for x, value in zip(reversed(at[:-1]), reversed(newton[:-1]), strict=True):
        found = _times(found, [-x, ball(1.0)])
        found[0] += value
    return found
