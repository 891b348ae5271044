"""How much noise additive noise must have: upper and lower limits of amplitude and power for (epsilon, delta)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rangebound.errors import ArgumentError
from rangebound.values import arguments
from rangebound.values.ball import Ball, ball, down, refine, up


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Mean absolute (`amplitude`) and mean squared (`power`) noise: what truncated Laplacian noise has, and what any
    additive noise must have at least.
    """

    amplitude: float
    power: float
    amplitude_at_least: float
    power_at_least: float


def additive_noise_limits(*, epsilon: float, delta: float, sensitivity: float = 1.0) -> Limits:
    """The noise of the truncated Laplacian, and the lower limits for any additive mechanism [geng2020, Thm 3].

    With c = (e^eps - 1)/(2 delta): amplitude (D/eps)[1 - ln(1+c)/c], power (2D^2/eps^2)[1 - (ln^2(1+c)/2 + ln(1+c))/c].
    The lower limits are sums over floor(n) steps, a(1 - b^n)/(1 - b) = 1/2 with a = (delta + (e^eps-1)/2)/e^eps and
    b = e^-eps; the rounding down is what makes them rigorous.

    Assumes: 0 < delta < 1/2, noise added to a query on the whole line.

    >>> limits = additive_noise_limits(epsilon=1.0, delta=1e-6)
    >>> round(limits.amplitude, 5), round(limits.amplitude_at_least, 3)
    (0.99998, 0.582)
    """
    epsilon = arguments.positive("epsilon", epsilon)
    delta = arguments.finite("delta", delta)
    sensitivity = arguments.positive("sensitivity", sensitivity)
    if not 0.0 < delta < 0.5:
        raise ArgumentError(f"delta={delta}: must lie in (0, 1/2)")
    amplitude, power = (up(refine(lambda k=k: _published(epsilon, delta, sensitivity)[k])) for k in (0, 1))  # type: ignore[misc]
    least, least_power = (down(refine(lambda k=k: _least(epsilon, delta, sensitivity)[k])) for k in (0, 1))  # type: ignore[misc]
    return Limits(
        amplitude=amplitude, power=power, amplitude_at_least=max(least, 0.0), power_at_least=max(least_power, 0.0)
    )


def _published(epsilon: float, delta: float, sensitivity: float) -> tuple[Ball, Ball]:
    """Amplitude and power of the truncated Laplacian."""
    scale = ball(sensitivity) / ball(epsilon)
    c = ball(epsilon).expm1() / (2 * ball(delta))
    log = c.log1p()
    return scale * (1 - log / c), 2 * scale * scale * (1 - (log * log / 2 + log) / c)


def _least(epsilon: float, delta: float, sensitivity: float) -> tuple[Ball, Ball]:
    """The lower limits. Rounding the number of steps down can only lower them, so its last bit needs no care."""
    b = (-ball(epsilon)).exp()
    a = (ball(delta) + ball(epsilon).expm1() / 2) * b
    gone = -(-ball(epsilon)).expm1()
    left = 1 - gone / (2 * a)  # b^n for the real n of the theorem
    n = max(math.floor(down(-left.log() / ball(epsilon))), 0) if left > 0 else 0
    tail = b**n
    first = (b - tail) / (gone * gone) - (n - 1) * tail / gone
    second = (b * (1 + b) - tail * (n * n * gone * gone + 2 * n * b * gone + b * (1 + b))) / gone**3
    if n == 0:
        first = second = ball(0.0)
    return 2 * a * ball(sensitivity) * first, 2 * a * ball(sensitivity) ** 2 * second
