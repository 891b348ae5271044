"""Gaussian noise truncated to an interval that may be far from the location, where its tail has no digits left.

From a location d > 0 standard deviations outside the near end, the way y from that end inwards obeys, with R the
Mills ratio,

    -log P(Y > y) = d y + y^2/2 - log(R(d + y)/R(d)) =: f(y)        (no far end)

and with a far end at w the same E = f(y) for E = -log(1 - U (1 - e^-f(w))). f is convex with slope 1/R(d + y), so
Newton's method closes in from one side, and what is left of f(y) - E bounds the error of y. Nothing here is lost to the
size of d.
"""

from __future__ import annotations

import math

import numpy as np

from rangebound.sampling.draw_plan import NEAR, RARE, DrawPlan
from rangebound.sampling.entropy import Words
from rangebound.sampling.inversion import Drawn, inverted, uniform
from rangebound.values.array_types import Floats

_STEPS = 5
_LEFT_OVER = 2.0**-46


def inverted_tail(plan: DrawPlan, words: Words, answers: Floats) -> Drawn:
    """Numbers before rounding, from locations anywhere: both formulas for every draw, and the one that holds."""
    lower, upper = plan.given
    location = np.clip(answers, *plan.answers)
    reach = NEAR * plan.scale
    near = inverted(plan, words, np.clip(location, lower - reach, upper + reach))
    with np.errstate(all="ignore"):
        under = location < lower
        away = np.where(under, lower - location, location - upper) / plan.scale
        distance = np.maximum(away, 1.0)
        up, down = uniform(words), uniform(~words)
        first, second = np.where(under, up, down), np.where(under, down, up)
        rest = np.exp(-_exponent(distance, np.full_like(distance, (upper - lower) / plan.scale)))
        passed = rest + second * (1.0 - rest)
        exponent = np.where(first < 0.5, -np.log1p(-first * (1.0 - rest)), -np.log(passed))
        y = 2.0 * exponent / (distance + np.hypot(distance, np.sqrt(2.0 * exponent)))
        for _ in range(_STEPS):
            y = np.maximum(y - (_exponent(distance, y) - exponent) * _mills(distance + y), 0.0)
        off = np.abs(_exponent(distance, y) - exponent) * _mills(distance)
        fine = (passed >= RARE) & (off < _LEFT_OVER)
    far = away > NEAR
    return Drawn(
        np.where(far, np.where(under, lower, upper), near.centre),
        np.where(far, np.where(under, y, -y), near.noise),
        np.where(far, fine, near.fine),
    )


def _mills(z: Floats) -> Floats:
    """P(Z > z) over the density at z."""
    from scipy.special import erfcx  # here, because it is not needed to import the package

    ratio: Floats = math.sqrt(0.5 * math.pi) * erfcx(z * math.sqrt(0.5))
    return ratio


def _exponent(d: Floats, y: Floats) -> Floats:
    """-log P(Z > d + y | Z > d)."""
    endless = np.isinf(y)
    way = np.where(endless, 0.0, y)
    return np.where(endless, np.inf, way * (d + 0.5 * way) - np.log(_mills(d + way) / _mills(d)))
