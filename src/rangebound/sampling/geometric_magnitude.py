"""The magnitude of two-sided geometric noise, drawn exactly from random bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from flint import arb, fmpq

from rangebound.values.ball import Ball, precision

Bits = Callable[[int], int]

_FIRST, _MORE, _GUARD = 128, 64, 128  # bits of the first comparison, of every further one, and of precision beyond
_LEAST = 2**64  # first bits from here on say a uniform number to 2^-64 of itself
_LOG_2 = math.log(2.0)
_SAFE = 2.0**-40  # doubles are off by far less: a logarithm, a sum and a product, each by a few times 2^-53


def magnitude(scale: float | Fraction, bits: Bits) -> int:
    """|X| drawn exactly: floor(-scale ln(u (1 + r) / 2)), not below 0, for a uniform u that is known as far as needed.

    Doubles decide where this is farther from a whole number than all they can be off by, ball arithmetic elsewhere. A
    scale that is not a double is rounded to one for the former alone, which is off by far less than they allow for.
    """
    known = bits(_FIRST)
    found = _floor_of_doubles(float(scale), known)
    return _floor_of_balls(scale, known, bits) if found is None else max(found, 0)


def _floor_of_doubles(scale: float, known: int) -> int | None:
    """The same for all u whose first bits these are; None where doubles might be wrong about it."""
    if known < _LEAST:
        return None
    uniform = math.log(known) - _FIRST * _LOG_2
    value = -scale * (uniform + math.log((1.0 + math.exp(-1.0 / scale)) / 2.0))
    unsure = _SAFE * (scale * (1.0 - uniform) + 1.0)
    found = math.floor(value - unsure)
    return found if found == math.floor(value + unsure) else None


def _floor_of_balls(scale: float | Fraction, known: int, bits: Bits) -> int:
    """The same, with more bits of u where they are needed.

    u lies between two neighbouring fractions of 2^n; if both give the same whole number in ball arithmetic, that is the
    answer, else more bits of u are drawn.
    """
    size = _FIRST
    while True:
        with precision(size + _GUARD):
            rate = 1 / (arb(fmpq(scale.numerator, scale.denominator)) if isinstance(scale, Fraction) else arb(scale))
            half = ((1 + (-rate).exp()) / 2).log()
            found = {_floor(known + end, size, half, rate) for end in (0, 1)}
        if len(found) == 1 and None not in found:
            (only,) = found
            assert only is not None
            return max(only, 0)
        size, known = size + _MORE, known << _MORE | bits(_MORE)


def _floor(numerator: int, size: int, half: Ball, rate: Ball) -> int | None:
    """The whole number below -(ln u + half) / rate, if the ball around it has just one."""
    if numerator == 0:
        return None
    value = -(arb(fmpq(numerator, 1 << size)).log() + half) / rate
    low, high = value.lower().floor(), value.upper().floor()
    return int(str(low.unique_fmpz())) if low == high else None
