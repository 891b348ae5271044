"""Rigorous arithmetic: Arb balls, their Taylor series, and rounding to the safe side.

A ball is an interval that contains the true number; every operation keeps that promise [johansson2017].
A float is a dyadic number, so it enters without error. A Taylor series in the position, with balls for coefficients, is
what the bounds of the worst-case search are made of: about one point it is sharp, about a wide ball it covers the
coefficients at every point of it, and with them the remainder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from flint import arb, arb_series, ctx

# A ball or a Taylor series of balls: formulas are written once for both. The type in `typings/flint` has the methods of
# either; what a value is, `is_taylor` tells.
Ball = arb
End = Ball | None  # an end of a span; None where it is infinite

ZERO: Ball = arb(0)
INFINITY: Ball = arb.pos_inf()
PRECISIONS = (128, 256, 512, 1024, 4096)
_ENOUGH = 24  # bits of a result that are enough where more precision does not give more


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with `bits` of precision inside the block. Only tightness depends on it, never truth."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(x: float) -> Ball:
    """The float `x`, exactly."""
    return arb(x)


def span(lower: float, upper: float) -> Ball:
    """A ball around the interval [lower, upper]."""
    return arb(lower).union(arb(upper))


def inside(lower: float, upper: float) -> Ball | None:
    """A ball that reaches just not over [lower, upper], and leaves little of it out; None where it is too narrow.

    The radius of a ball has few digits: a ball around the interval always reaches over its ends, and so over a kink
    that is one of them.
    """
    margin = (arb(upper) - arb(lower)) / 2**29
    result = (arb(lower) + margin).union(arb(upper) - margin)
    return result if result.lower() >= lower and result.upper() <= upper else None


_HUGE = 1.7e308  # no finite number of ours is beyond this


def up(x: Ball) -> float:
    """The smallest double that is surely not below `x` (inf if `x` is unknown)."""
    if not x.is_finite():
        return -math.inf if x < -_HUGE else math.inf
    top = x.upper()
    value = float(top)
    return value if top <= value else math.nextafter(value, math.inf)


def down(x: Ball) -> float:
    """The largest double that is surely not above `x` (-inf if `x` is unknown)."""
    return -up(-x)


def hull(values: Iterable[Ball]) -> Ball:
    """One ball around all of `values`."""
    first, *others = values
    for value in others:
        first = first.union(value)
    return first


def rising(function: Callable[[Ball], Ball], x: Ball) -> Ball:
    """A monotone function of a ball from its two ends: no wider than it must be."""
    return function(x) if x.is_exact() else function(x.lower()).union(function(x.upper()))


def taylor(x: Ball, order: int) -> Ball:
    """The variable itself as a Taylor series about every point of the ball `x`, to be put through any function here."""
    return arb_series([x, 1], prec=order + 1)


def is_taylor(x: Ball) -> bool:
    """Whether `x` is a series rather than a plain ball."""
    return isinstance(x, arb_series)


def value_of(x: Ball) -> Ball:
    """The ball itself, without its derivatives."""
    return x[0] if isinstance(x, arb_series) else x


def tightened(series: Ball, function: Callable[[Ball], Ball], x: Ball) -> Ball:
    """`series`, which is `function` of the variable about the wide ball `x`, with its value made sharper.

    The value in the middle plus the slope times the distance is often far narrower than the value as it came out.
    """
    middle = x.mid()
    value = function(middle) + series[1] * (x - middle)
    if not value.is_finite() or not value.rad() < series[0].rad():
        return series
    return arb_series([value, *series.coeffs()[1:]], prec=series.prec)


def kinked(x: Ball, value: Ball, slope: Ball) -> Ball:
    """A function with a kink that may lie inside the series `x`: value and slope cover both sides, no more is known."""
    return arb_series([value, slope * x[1], *[arb.nan()] * (x.prec - 2)], prec=x.prec)


def largest(first: Ball, *others: Ball) -> Ball:
    """The maximum of balls and series; where it is unknown which one it is, the slope covers both."""
    for other in others:
        a, b = value_of(first), value_of(other)
        if b >= a:
            first = other
        elif not a >= b:
            first = a.max(b) if first is a and other is b else _either(first, other)
    return first


def smallest(first: Ball, *others: Ball) -> Ball:
    """The minimum of balls and series."""
    return -largest(-first, *(-other for other in others))


def _either(first: Ball, second: Ball) -> Ball:
    a, b = value_of(first), value_of(second)
    slope = (first[1] if is_taylor(first) else arb(0)).union(second[1] if is_taylor(second) else arb(0))
    prec = min(x.prec for x in (first, second) if is_taylor(x))
    return arb_series([a.max(b), slope, *[arb.nan()] * (prec - 2)], prec=prec)


def expm1(x: Ball) -> Ball:
    """e^x - 1 of a ball or a series, sharp near 0."""
    return arb_series([x[0].expm1(), *x.exp().coeffs()[1:]], prec=x.prec) if is_taylor(x) else x.expm1()


def log1p(x: Ball) -> Ball:
    """log(1 + x) of a ball or a series, sharp near 0."""
    return arb_series([x[0].log1p(), *(1 + x).log().coeffs()[1:]], prec=x.prec) if is_taylor(x) else x.log1p()


def power(base: Ball, exponent: Ball) -> Ball:
    """base ** exponent for a positive base (an unknown base gives an unknown result)."""
    return (base.log() * exponent).exp()


def refine(function: Callable[[], Ball], bits: int = 54) -> Ball:
    """Evaluate at growing precision until the relative error is below 2^-bits or the precision limit is reached.

    It also ends where more precision does not help, because an input is known to this many digits only.
    """
    value, before = arb.nan(), -math.inf
    for prec in PRECISIONS:
        with precision(prec):
            value = function()
        found = value.rel_accuracy_bits()
        stuck = _ENOUGH <= found <= before + 1
        if found >= bits or stuck or value.is_exact() or (not value.is_finite() and not value.is_nan()):
            break
        before = found
    return value
