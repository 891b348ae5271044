"""The interval of a ratio of two sums that share their noise, by inverting a test of every ratio [fieller1954]."""

from __future__ import annotations

import math
from collections.abc import Callable

from rangebound.laws.family import Curve
from rangebound.release.noise.draw import AddedNoise

_HALVINGS = 80
_EQUAL = 1e-6  # two scales that differ by less are taken as the larger one


def ratio_interval(
    p: float, q: float, added: AddedNoise, *, lower: float, upper: float
) -> tuple[float, tuple[float, float]]:
    """The ratio (P + Q) / (P - Q) of coordinates with noise p and q, and an interval for it within two ends.

    At the true ratio R the sum (1 - R) P + (1 + R) Q is 0, so that (1 - R) p + (1 + R) q is noise alone, whose law is
    known. The interval has the ratios at which that is not too large to be noise: of all that the data allow, none is
    lost, however small the denominator is. Where p - q is not positive, all ratios are in it.

    Guarantee: it holds the true ratio, moved between the ends, with probability `added.level` at least.

    >>> from rangebound.laws.families import Laplace
    >>> added = AddedNoise(noise=Laplace(scale=1.0), level=0.95, slack=0.0)
    >>> value, (lower, upper) = ratio_interval(150.0, -50.0, added, lower=0.0, upper=10.0)
    >>> value, round(lower, 3), round(upper, 3)
    (0.5, 0.477, 0.524)
    """
    below = max(p - q, added.noise.scale)  # a denominator that noise may have made is no smaller than that noise
    value = min(max((p + q) / below, lower), upper)
    if p - q <= 0.0:
        return value, (lower, upper)

    def plausible(ratio: float) -> bool:
        a, b = abs(1.0 - ratio), abs(1.0 + ratio)
        seen = abs((1.0 - ratio) * p + (1.0 + ratio) * q) - added.slack * (a + b)
        return seen <= 0.0 or _tail(added, a, b, seen) >= 1.0 - added.level

    zero = (p + q) / (p - q)  # plausible, since nothing is seen there
    ends = _last(plausible, zero, lower), _last(plausible, zero, upper)
    least, most = (min(max(end, lower), upper) for end in ends)
    return value, (least, most)


def _last(plausible: Callable[[float], bool], inside: float, end: float) -> float:
    """The last plausible ratio on the way from one that is to an end; rounded away from it."""
    if plausible(end):
        return end
    outside = end
    for _ in range(_HALVINGS):
        middle = inside + (outside - inside) / 2
        if plausible(middle):
            inside = middle
        else:
            outside = middle
    return outside


def _tail(added: AddedNoise, a: float, b: float, seen: float) -> float:
    """P(|a X + b Y| > seen) for two independent draws of the noise, with a, b >= 0; rounded up where it is rounded.

    Laplace noise of the scales A > B: the characteristic function 1 / ((1 + A^2 s^2) (1 + B^2 s^2)) is
    (A^2 / (1 + A^2 s^2) - B^2 / (1 + B^2 s^2)) / (A^2 - B^2), so the tail is the same mixture of e^(-t / A) and
    e^(-t / B); for A = B it is (1 + t / (2 A)) e^(-t / A).
    """
    scale = added.noise.scale
    if added.noise.curve is Curve.QUADRATIC:
        return math.erfc(seen / (math.sqrt(2.0) * scale * math.hypot(a, b)))
    large, small = max(a, b) * scale, min(a, b) * scale
    if large - small <= _EQUAL * large:
        return (1.0 + seen / (2.0 * large)) * math.exp(-seen / large)
    rest = small**2 * math.exp(-seen / small) if small > 0.0 else 0.0
    return (large**2 * math.exp(-seen / large) - rest) / (large**2 - small**2)
