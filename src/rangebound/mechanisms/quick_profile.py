"""Privacy profiles that are quick: of Gaussian noise on the line, and of Laplace noise truncated to an interval."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rangebound.values.ball import Ball, ball, precision

_BITS = 192
_MARGIN = 1e-12  # of the array route: far above the round-off of its dozen operations


def free_gaussian(sensitivity: float, scale: float, epsilon: float, summands: int = 1) -> Ball:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) with mu = sensitivity over scale [balle2018, Thm 8].

    Of the sum of this many numbers, one of which is the sensitivity and not 0, the noise has the scale of one number
    times the root of their number.
    """
    with precision(_BITS):
        mu = ball(sensitivity) / (ball(scale) * ball(summands).sqrt())
        root, level = ball(2.0).sqrt(), ball(epsilon)
        near, far = (level / mu - mu / 2) / root, (level / mu + mu / 2) / root
        return (near.erfc() - level.exp() * far.erfc()) / 2


def truncated_laplace(width: float, d: float) -> Callable[[float], float] | None:
    """The profile of Laplace noise truncated to the query's bounded interval, from a dense row of positions.

    In units of the scale, with the pair at distances A from the left end and d from each other, the stick is the
    largest of F_t(A) - e^eps F_t(A + d) over the thresholds t, F_t(q) = N/Z the truncated distribution function. Each
    has a second derivative in A of at least -M, M = (2/z + 2) + e^eps (5 + 2/z), z = 1 - e^-W, because |N'| <= N,
    |Z'| <= Z, N'' >= -2, Z'' = Z - 2 and Z >= z. So is their supremum bent downward by at most M, and at its
    largest, where it is flat or at an end, it is at most M w^2/8 above its largest value on a row of spacing w.

    Edge cases: None where the row is too coarse to say much.
    """
    if not (1e-6 < width < 300.0 and d > 1e-9):
        return None
    count = int(min(max(2000 * width / math.sqrt(min(d, 1.0)), 2000), 40000)) if width > d else 1
    a = np.linspace(0.0, max(width - d, 0.0), count)
    b = np.maximum(width - d - a, 0.0)
    z = -math.expm1(-width)
    norm_p = -np.expm1(-a) - np.expm1(-(d + b))
    norm_q = -np.expm1(-(a + d)) - np.expm1(-b)
    reach = d + np.log(norm_q / norm_p)
    spacing = (width - d) / (count - 1) if count > 1 else 0.0

    def best(epsilon: float) -> float:
        y = np.clip((reach - epsilon) / 2.0, 0.0, d)
        return float(((-2.0 * np.expm1(-y) + np.exp(-a) * np.expm1(-2.0 * y)) / norm_p).max()) * (1.0 + _MARGIN)

    def room(epsilon: float) -> float:
        bend = (2.0 / z + 2.0) + math.exp(epsilon) * (5.0 + 2.0 / z)
        return 1e-14 * (1.0 + d + epsilon) / z + bend * spacing**2 / 8.0

    return (lambda epsilon: best(epsilon) + room(epsilon)) if room(0.0) <= 2e-5 * best(0.0) else None
