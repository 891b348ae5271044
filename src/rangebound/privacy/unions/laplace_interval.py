"""Scales of truncated Laplace noise that need no search: on one interval, and whatever the support is."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from rangebound.laws.family import Noise
from rangebound.privacy.claim import Claim
from rangebound.privacy.pairs.laplace_pair import top_loss, top_stick
from rangebound.values.ball import PRECISIONS, ball, precision
from rangebound.values.roots import boundary, first_above
from rangebound.values.support import Interval

_LARGEST = 10**308


def interval_scale(answers: Interval, epsilon: float, sensitivity: float) -> float:
    """On [l, u] = the query's range: the fixed point of [holohan2018, Thm 3.5], on the safe side.

    With x = 1/b and W = u - l the worst pair (l, l + D) has the loss
    D x + ln(1 + (1 - e^{-Dx})(1 - e^{-(W-D)x})/(1 - e^{-Wx})), rising in x. Newton's steps in floats find the root; one
    evaluation in ball arithmetic decides on which side of it the answer lies.

    Guarantee: private, and the smallest scale to 1e-12 relative.
    Edge cases: one end may be infinite.

    >>> interval_scale(Interval(0, 10), 1.0, 1.0) > 1.0
    True
    """
    rest, width = math.inf, answers.width
    if answers.bounded:  # exactly: the width of two doubles need not be one
        exact = Fraction(answers.upper) - Fraction(answers.lower) - Fraction(sensitivity)
        rest = float(exact) if exact < _LARGEST else math.inf
    x = epsilon / sensitivity if rest <= 0.0 else 0.5 * epsilon / sensitivity
    for _ in range(60):
        near, far = -math.expm1(-sensitivity * x), -math.expm1(-rest * x)
        whole = -math.expm1(-width * x)
        lift = near * far / whole
        value = sensitivity * x + math.log1p(lift) - epsilon
        bent = (1.0 - near) * sensitivity * far + (near * (1.0 - far) * rest if math.isfinite(rest) else 0.0)
        shrink = lift * (1.0 - whole) * width if math.isfinite(width) else 0.0
        step = value / (sensitivity + (bent - shrink) / whole / (1.0 + lift))
        x -= step
        if abs(step) <= 1e-15 * x:
            break
    exact_width = (
        ball(sensitivity) if rest <= 0.0 else ball(answers.upper) - ball(answers.lower) if answers.bounded else None
    )

    def private(scale: float) -> bool:
        inverse = 1 / ball(scale)
        loss = ball(sensitivity) * inverse
        if exact_width is None:
            loss = loss + (-(-loss).expm1()).log1p()
        elif rest > 0.0:
            ratio = (
                (-loss).expm1() * (-(exact_width - sensitivity) * inverse).expm1() / -(-exact_width * inverse).expm1()
            )
            loss = loss + ratio.log1p()
        return bool(loss <= epsilon)

    with precision(PRECISIONS[0]):
        return first_above(1.0 / x, private)


def universal_scale(claim: Claim, sensitivity: float, noise: Callable[[float], Noise]) -> float:
    """The scale at which no truncated law of a purely private family exceeds an ordinary claim, whatever its support.

    Guarantee: rounded up.

    >>> from rangebound.laws.families import Laplace
    >>> round(universal_scale(Claim(epsilon=1.0), 1.0, lambda scale: Laplace(scale=scale)), 4)
    2.0
    """

    def private(scale: float) -> bool:
        d = noise(scale).in_balls().log_ratio(None, ball(sensitivity))
        return bool((top_loss(d) if claim.pure else top_stick(d, ball(claim.epsilon))) <= claim.limit)

    with precision(PRECISIONS[1]):
        low = high = sensitivity / claim.epsilon
        while not private(high):
            low, high = high, 2.0 * high
        while private(low):
            low, high = 0.5 * low, low
        return boundary(private, low, high, 1e-12)[1]
