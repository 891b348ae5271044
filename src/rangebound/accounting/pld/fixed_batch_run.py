"""Many steps on batches of fixed size: one pair in all of them, and one small step more, dominate every adversary.

In `step_profile` the worst gradients of one step differ between epsilons above and below zero, and the supremum
of the profiles leaks more than any choice of gradients. Here it is bounded what an adversary can gain who chooses
others in each step, in the direction with against without.

**The family.** Let V_t(x) be the largest H_x of t steps over all adversaries: V_0(x) = (1-x)+, and V_(t+1)(x) is the
supremum over u, v of E[H_(x/R)(P || Q)], R the likelihood ratio of the t steps. With c = v.u/(|u| C), and H(c) for the
pair |u| = |v| = C of that cosine:

* For x >= 1, if c >= b and |u| >= bC, H_x is at most H_x(b). The event A of `step_profile` holds z + d with z if
  u.d >= 0 and (u-v).d >= 0, and v may move along -d, u along d. As there, v moves away from the line of u to the length
  C, and on the circle towards -u, but only to the cosine b. Then u grows along itself: (u-v).u = |u| (|u| - bC) >= 0.
* For x < 1 and c <= b, H_x is at most H_x(b). Now H_x = 1 - x + sup over B of xQ(B) - P(B), attained where
  q e^(u.z - |u|^2/2) + (1-x)(1-q) e^(v.z - |v|^2/2) < xq. B has u.z < |u|^2/2, so N(u)(B) falls as u grows along
  itself. And B holds z - d with z if u.d >= 0 and v.d >= 0, so N(v)(B) falls as v moves along d: away from the line of
  u to the length C, and on the circle towards u.
* For |u| <= bC, H_x is at most that of |u| = bC with v = -C u/|u| for x >= 1 and v = C u/|u| for x < 1, for the same
  reasons.

So all pairs of a cell b <= c <= b' are below F(x) = H_x(b) for x >= 1, H_x(b') for x < 1, and short u have an F of
their own. Let F_0 be that of the first cell, which begins at b = -1; it is a profile, since its slope rises at 1. Above
1 no F is more than F_0, below 1 none is less, if F_0 is put in its place where it is.

**The bound.** Let U be the profile of the pair whose ratio R has, under P, the density proportional to R^s below
1 + 1/s: U(x) = 1 - x + x (x/(1 + 1/s))^s/(1 + s), and 0 from 1 + 1/s on. Then E[F_0(x/R) - F(x/R)] is a positive
number times the integral of (F_0 - F)(y) y^(-s-2) over y > x/(1 + 1/s), which is least from y = 0 on. If that is not
negative for any cell, one more step with F is at most one more step with F_0 where U is what is left, and then also
where t steps with F_0 and U are left, since the order of independent steps is free. By induction V_t is at most the
profile of t steps with F_0 and one with U. The integrals begin at a y below which F - (1-y) is at most `_FAR`; that is
added once for each step.

Steps of several kinds need one s for all, and steps of other mechanisms may come between. Without against with keeps
the supremum over all pairs: with much noise it is the larger of the two, up to a tenth above what a pair leaks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from rangebound.accounting.event import FixedBatchEvent, SingleEvent
from rangebound.accounting.pld import discretization, step_profile
from rangebound.accounting.pld.discretization import DiscretePLD
from rangebound.accounting.pld.fourier import PLDComposition
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values.array_types import Floats
from rangebound.values.ball import Ball, ball, precision

_COSINES = (-1.0, -0.95, -0.85, -0.6, -0.2, 0.2, 0.5, 1.0)
_SHORT = 0.5  # b of short u: the last cell but one ends there
_POINTS = 250
_GAP = 0.4  # of the points of a normal number
_WIDE = 11.0
_DEEP = 10.0
_FAR = 1e-23  # more than the normal tail from _DEEP on
_ROUND_OFF = 1e-12  # of a dozen operations on masses, relative to the largest
_HALVINGS = 48
_KNOTS = 64
_LEAST_POWER, _LARGEST_POWER = 0.25, 4096.0
_LEAST_MU, _LARGEST_MU, _LEAST_RATE = 0.1, 4.0, 1e-6  # beyond, floats lose the curves


def fixed_batch_run(counts: Mapping[SingleEvent, int], plds: Sequence[DiscretePLD]) -> PLDComposition | None:
    """Upper PLDs of steps, with against without the example, from their suprema over all pairs (see the module).

    Guarantee: all adaptive adversaries leak at most as much.
    Edge cases: None without a step on batches of fixed size, and where no s is found.
    """
    sizes = {step: _size(step) for step in counts if isinstance(step, FixedBatchEvent)}
    powers = [_power(*each) for each in sizes.values()]
    if not powers or not min(powers) > 0.0:
        return None
    with precision(step_profile.BITS):
        found = [_first_cell(step, pld) if step in sizes else pld for step, pld in zip(counts, plds, strict=True)]
        last = _last_step(min(powers), min(each.step for each in plds))
    far = _FAR * sum(counts[step] for step in sizes)
    return PLDComposition((*found, replace(last, infinite=last.infinite + far)), (*counts.values(), 1))


def _size(step: FixedBatchEvent) -> tuple[float, float]:
    mechanism = step.mechanism
    assert isinstance(mechanism, Mechanism)
    return mechanism.query.sensitivity / mechanism.noise.scale, step.rate


def _first_cell(step: FixedBatchEvent, supremum: DiscretePLD) -> DiscretePLD:
    """F_0 on the knots of the supremum over all pairs."""
    assert isinstance(step.mechanism, Mechanism)
    exact, losses = step_profile.opposed(step.mechanism, step.rate), supremum.losses
    below = losses[losses < 0.0]
    mu, rate = _size(step)
    more = dict(zip(below.tolist(), _below(mu, mu, rate, _COSINES[1], below).tolist(), strict=True))

    def at(epsilon: float) -> Ball:
        return exact(epsilon) if epsilon >= 0.0 else 1 - ball(epsilon).exp() + ball(more[epsilon])

    return discretization.dominating(at, supremum.index.tolist(), supremum.step)[0]


def _last_step(power: float, width: float) -> DiscretePLD:
    """The pair with the profile U, on a grid."""
    top, s = 1 + 1 / ball(power), ball(power)

    def at(epsilon: float) -> Ball:
        x = ball(epsilon).exp()
        return 1 - x + x * (x / top) ** s / (1 + s) if x < top else ball(0.0)

    gap = max(int(1.0 / ((1.0 + power) * _KNOTS * width)), 1)
    end = math.ceil(math.log1p(1.0 / power) / width) + 1
    return discretization.dominating(at, [end - gap * k for k in range(40 * _KNOTS, -1, -1)], width)[0]


@lru_cache(maxsize=64)
def _power(mu: float, rate: float) -> float:
    """An s at which no cell has more than the first one, as large as is easily found; 0 where none is."""
    low, high = _LEAST_POWER, _LARGEST_POWER
    if not (_LEAST_MU < mu < _LARGEST_MU and rate >= _LEAST_RATE and _is_first(mu, rate, low)):
        return 0.0
    for _ in range(8):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _is_first(mu, rate, middle) else (low, middle)
    return low


def _is_first(mu: float, rate: float, s: float) -> bool:
    """Whether the integrals of (F_0 - F)(y) y^(-s-2) are positive.

    Over an interval a function that is bent upward has at least its value at the centroid, and at most its chord.
    """
    right, left = _levels(2.0 * mu * _DEEP, rate), -_levels(mu * _DEEP + 0.5 * mu**2, rate)[::-1]
    above, below = _cells(mu, rate)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):  # NaN proves nothing
        first, second = _Weights(right, s), _Weights(left, s)
        most = _above(mu, mu, rate, -1.0, first.centroids) * (1.0 - 1e-9) * first.total
        least = _below(mu, mu, rate, _COSINES[1], second.centroids, rounded_up=False) * (1.0 - 1e-9) * second.total
        gains = [np.maximum(most - first.chords(each), 0.0).sum() for each in above]
        losses = [np.maximum(second.chords(each) - least, 0.0).sum() for each in below]
    return all(gain > loss * (1.0 + 1e-9) for gain, loss in zip(gains, losses, strict=True))


def _levels(end: float, rate: float) -> Floats:
    return np.log1p(rate * np.expm1(np.linspace(0.0, end, _POINTS)))


@lru_cache(maxsize=64)
def _cells(mu: float, rate: float) -> tuple[list[Floats], list[Floats]]:
    """Upper bounds on F for the cells after the first, above 1, and on F - (1-y) below 1, where short u may have less
    than F_0.
    """
    right, left = _levels(2.0 * mu * _DEEP, rate), -_levels(mu * _DEEP + 0.5 * mu**2, rate)[::-1]
    above = [_above(mu, mu, rate, each, right) for each in _COSINES[1:-1]]
    below = [_below(mu, mu, rate, each, left) for each in _COSINES[2:]]
    above.append(_above(_SHORT * mu, mu, rate, -1.0, right))
    below.append(np.maximum(_below(_SHORT * mu, mu, rate, 1.0, left), _below(mu, mu, rate, _COSINES[1], left)))
    return above, below


class _Weights:
    """The weight y^(-s-2) between neighbouring levels, y = e^level: its integrals and centroids."""

    def __init__(self, levels: Floats, s: float) -> None:
        gaps, starts = np.diff(levels), levels[:-1]
        self.total: Floats = np.exp(-(s + 1.0) * starts) * -np.expm1(-(s + 1.0) * gaps) / (s + 1.0)
        self.share = (-np.expm1(-s * gaps) / s / (-np.expm1(-(s + 1.0) * gaps) / (s + 1.0)) - 1.0) / np.expm1(gaps)
        self.centroids: Floats = starts + np.log1p(self.share * np.expm1(gaps))

    def chords(self, values: Floats) -> Floats:
        """The integrals of the lines through these values at the levels."""
        found: Floats = self.total * ((1.0 - self.share) * values[:-1] + self.share * values[1:])
        return found


def _above(mu: float, other: float, rate: float, cosine: float, levels: Floats) -> Floats:
    """H_x of the pair of |u| = mu, |v| = other and a cosine below 1, x = e^level >= 1, rounded up.

    Given the coordinate across u, of which N(v) has the mean a = |v| sqrt(1 - c^2), the ratio of N(v) to the two others
    is multiplied by k = e^(a z - a^2/2). So H_x is the mean of h(k), a convex function of k, along the line of u.
    """
    from scipy.special import ndtr

    factors, weights = _factors(other * math.sqrt(1.0 - cosine**2))
    x, start = np.exp(levels)[:, None], levels[:, None] / mu + 0.5 * mu
    price, shift = np.expm1(levels)[:, None] * (1.0 - rate) * factors, cosine * other

    def value(z: Floats) -> Floats:
        with np.errstate(over="ignore"):
            found: Floats = rate * (np.exp(mu * z - 0.5 * mu**2) - x) - price * np.exp(shift * z - 0.5 * shift**2)
        return found

    z = _root(value, start + 0.0 * price, start + 60.0 + 0.0 * price)
    largest = rate * ndtr(mu - z)
    found: Floats = largest * (1.0 + _ROUND_OFF) - x * rate * ndtr(-z) - price * ndtr(shift - z)
    result: Floats = np.maximum(found, _ROUND_OFF * largest) @ weights
    return result


def _below(mu: float, other: float, rate: float, cosine: float, levels: Floats, *, rounded_up: bool = True) -> Floats:
    """H_x - (1-x) of such a pair of any cosine, x = e^level <= 1, rounded up, or a number below it."""
    from scipy.special import ndtr

    x = np.exp(levels)[:, None]
    if cosine == 1.0 and other == mu:  # v = u
        level = np.log1p(np.expm1(-levels) / rate)
        largest = x[:, 0] * rate * ndtr(0.5 * mu - level / mu)
        less = x[:, 0] * rate * np.exp(level) * ndtr(-0.5 * mu - level / mu)
        exact: Floats = largest * (1.0 + _ROUND_OFF) - less
        return exact
    factors, weights = _factors(other * math.sqrt(1.0 - cosine**2), spread_out=rounded_up)
    price, shift = -np.expm1(levels)[:, None] * (1.0 - rate) * factors, cosine * other

    def value(z: Floats) -> Floats:
        with np.errstate(over="ignore"):
            found: Floats = x * rate - rate * np.exp(mu * z - 0.5 * mu**2) - price * np.exp(shift * z - 0.5 * shift**2)
        return found

    peak = np.full(price.shape, -60.0)  # where the event is an interval, a point in it, or else far on its left
    if cosine < 0.0:
        with np.errstate(divide="ignore"):
            place = (np.log(-shift / mu * price / rate) + 0.5 * mu**2 - 0.5 * shift**2) / (mu - shift)
        peak = np.maximum(peak, place)
    start = _root(value, peak - 60.0, peak)
    end = _root(lambda z: -value(z), peak, np.maximum(levels[:, None] / mu + mu, peak))

    def mass(mean: float) -> Floats:
        low, high = start - mean, end - mean
        found: Floats = np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        return found

    largest = x * rate * mass(0.0)
    found = largest * (1.0 + _ROUND_OFF) - rate * mass(mu) - price * mass(shift)
    result: Floats = np.where(value(peak) > -1e-14 * x * rate, np.maximum(found, _ROUND_OFF * largest), 0.0) @ weights
    return result


def _factors(spread: float, *, spread_out: bool = True) -> tuple[Floats, Floats]:
    """Points and weights for the mean of a convex falling function of e^(a z - a^2/2), a the spread.

    The mean is at least the true one where each interval is spread out to its ends, and at most that with all of it at
    its own mean.
    """
    from scipy.special import ndtr

    if spread == 0.0:
        return np.ones(1), np.ones(1)

    def mass(z: Floats) -> Floats:
        low, high = z[:-1], z[1:]
        found: Floats = np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        return found

    z = np.arange(-_WIDE, _WIDE + spread + _GAP, _GAP)
    k = np.exp(spread * z - 0.5 * spread**2)
    inside = mass(z)
    if not spread_out:
        return mass(z - spread) / inside, inside
    # By the mean on both sides of an interval; a little more on the left, where the function is larger.
    right = np.clip((mass(z - spread) - k[:-1] * inside) / np.diff(k) - 1e-9 * inside, 0.0, inside)
    weights = np.zeros(len(z) + 1)
    weights[1:-1] += inside - right
    weights[2:] += right
    weights[0] += ndtr(z[0])
    weights[-1] += ndtr(-z[-1])
    return np.concatenate([[0.0], k]), weights * (1.0 + _ROUND_OFF)


def _root(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Where a rising function passes zero."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rises = function(middle) < 0.0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    return 0.5 * (low + high)
