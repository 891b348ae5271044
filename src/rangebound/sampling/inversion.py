"""The draw in NumPy: the reference of the compiled kernel, and what runs where there is none.

One word k stands for a number U in [k, k + 1) 2^-64. The law's distribution function is inverted at U on the side whose
tail is smaller, so that the probability w of that tail, and with it the number drawn, keeps its relative precision:

    Laplace   location q clipped into [l, u], A = (q - l)/b, B = (u - q)/b, T = 2 - e^-A - e^-B
              left  (U T < 1 - e^-A):  w = e^-A + U T,        x = q + b log w
              right (otherwise):       w = e^-B + (1 - U) T,  x = q - b log w
    Gaussian  M = mass of [l, u];  left: w = P(X < l) + U M,  right: w = P(X > u) + (1 - U) M,  x = q -+ s z(w)

1 - U comes from the complement of the word, so nothing cancels. Every line is computed for every draw, whatever the
location. The bound on the error, and so the margin, is in docs/sampling.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rangebound.sampling.draw_plan import RARE, DrawFamily, DrawPlan
from rangebound.sampling.entropy import Words
from rangebound.values.array_types import Bools, Floats


class Drawn(NamedTuple):
    """Numbers before rounding: `centre` + `noise` (in scales), and whether the word is fine enough for them."""

    centre: Floats
    noise: Floats
    fine: Bools


def uniform(words: Words) -> Floats:
    """The middle of each word's place in (0, 1), with relative precision near 0."""
    high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
    return high.astype(np.float64) * 2.0**-32 + (low.astype(np.float64) + 0.5) * 2.0**-64


def inverted(plan: DrawPlan, words: Words, answers: Floats) -> Drawn:
    """Noise around each answer for each word."""
    up, down = uniform(words), uniform(~words)
    location = np.clip(answers, *plan.answers)
    return (_gaussian if plan.family in _GAUSSIAN else _laplace)(plan, up, down, location)


_GAUSSIAN = (DrawFamily.GAUSSIAN, DrawFamily.PLAIN_GAUSSIAN)


def _laplace(plan: DrawPlan, up: Floats, down: Floats, location: Floats) -> Drawn:
    centre = np.clip(location, *plan.given)
    reach = np.maximum(plan.limit - np.abs(location - centre), 0.0)
    below = np.exp(-np.minimum(centre - plan.given[0], reach) / plan.scale)
    above = np.exp(-np.minimum(plan.given[1] - centre, reach) / plan.scale)
    mass = (1.0 - below) + (1.0 - above)
    left = up * mass < 1.0 - below
    w = np.where(left, below + up * mass, above + down * mass)
    return Drawn(centre, np.where(left, 1.0, -1.0) * np.log(w), w >= mass * RARE)


def _gaussian(plan: DrawPlan, up: Floats, down: Floats, location: Floats) -> Drawn:
    from scipy.special import ndtr, ndtri  # here, because it is not needed to import the package

    low, high = (plan.given[0] - location) / plan.scale, (plan.given[1] - location) / plan.scale
    flip = low > -high
    deep, shallow = np.where(flip, high, -low), np.where(flip, -low, high)
    first, second = np.where(flip, down, up), np.where(flip, up, down)
    far, near = ndtr(-deep), ndtr(-np.abs(shallow))
    astride = shallow > 0.0
    mass = np.where(astride, 1.0 - near, near) - far
    left, right = far + first * mass, np.where(astride, near, 1.0 - near) + second * mass
    w = np.minimum(left, right)
    sign = np.where((left < right) != flip, 1.0, -1.0)
    return Drawn(location, sign * ndtri(w), w >= mass * RARE)


def rounded(plan: DrawPlan, drawn: Drawn) -> tuple[Floats, Bools]:
    """Nearest multiples, clamped; and which of them are undecided: too near to the edge of a cell."""
    lower, upper = plan.outputs
    with np.errstate(over="ignore", invalid="ignore"):
        noise = drawn.noise * plan.scale_steps
        place = drawn.centre * plan.per_step
        whole = np.rint(place)
        offset = (place - whole) + noise
        steps = np.rint(offset)
        values = (whole + steps) * float(plan.lattice.numerator) / float(plan.lattice.denominator)
        # What falls beyond an end belongs to the end, even if the nearest multiple lies inside.
        under, over = offset - (plan.collected[0] - whole), (plan.collected[1] - whole) - offset
        values = np.where(under < 0.0, lower, np.where(over < 0.0, upper, np.clip(values, lower, upper)))
        margin = plan.margin + plan.margin_growth * (np.abs(place) + np.abs(noise))
        sure = (np.abs(offset - steps) < 0.5 - margin) & (np.abs(under) > margin) & (np.abs(over) > margin)
    return values + 0.0, ~(sure & drawn.fine)
