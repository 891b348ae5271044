"""Exact amounts of privacy: whole numbers of 1e-12, so that ten times 0.1 is exactly 1."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.values import arguments, numeric

SCALE = 10**12
"""Units in 1: an amount is a whole number of 1/SCALE."""

LARGEST = 10**6
"""The largest amount. A larger one would promise nothing, and sums of units stay within 64 bits."""

_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_TEXT = 1000  # characters
_EXPONENT = 9999


@dataclass(frozen=True, order=True, kw_only=True)
class Amount:
    """An amount of epsilon, delta or divergence, as a whole number of units of 1e-12.

    `str` gives the exact decimal. `float` gives the largest double that is not above the amount, so a mechanism that
    is calibrated to it spends at most the amount.

    >>> tenth = rounded_up("epsilon", 0.1)
    >>> str(tenth), float(tenth), Fraction(float(tenth)) <= Fraction(1, 10)
    ('0.1', 0.09999999999999999, True)
    """

    units: int

    def __post_init__(self) -> None:
        if type(self.units) is not int:
            raise ArgumentTypeError(f"units={arguments.shown(self.units)}: must be an int")
        if not 0 <= self.units <= LARGEST * SCALE:
            raise ArgumentError(f"units={self.units}: must lie in [0, {LARGEST * SCALE}]")

    def __str__(self) -> str:
        whole, part = divmod(self.units, SCALE)
        return f"{whole}.{part:012d}".rstrip("0").rstrip(".")

    def __float__(self) -> float:
        return numeric.rounded_down(self.fraction)

    @property
    def fraction(self) -> Fraction:
        """The amount as a fraction."""
        return Fraction(self.units, SCALE)


Ratio: TypeAlias = tuple[int, int]
"""A numerator and a positive denominator."""

Exact: TypeAlias = str | int | float | Fraction | Decimal | np.int64 | Amount
"""What is taken for an exact amount; a float means the decimal that it prints as."""


def rounded_up(name: str, value: Exact) -> Amount:
    """The smallest amount that is not below `value`: what a spend is charged.

    Guarantee: exact for up to twelve decimals, else at most 1e-12 too much and never too little.
    Edge cases: a positive value below 1e-12, such as a subnormal float, costs one unit. -0.0 is zero. NaN, infinities,
    negative numbers and numbers above 10^6 are refused, and so is any type that is not listed in `Exact` itself: a
    boolean, an array, a subclass, a per-instance number.

    >>> [str(rounded_up("epsilon", x)) for x in (0.1, "1e-13", Fraction(1, 3), 2)]
    ['0.1', '0.000000000001', '0.333333333334', '2']
    """
    numerator, denominator = _ratio(name, value)
    return Amount(units=-(-numerator * SCALE // denominator))


def rounded_down(name: str, value: Exact) -> Amount:
    """The largest amount that is not above `value`: what a total is when an account is opened.

    Edge cases: as in `rounded_up`, but a positive value below 1e-12 is refused, since nothing would be left of it.

    >>> str(rounded_down("epsilon", Fraction(2, 3)))
    '0.666666666666'
    """
    numerator, denominator = _ratio(name, value)
    units = numerator * SCALE // denominator
    if numerator and not units:
        raise ArgumentError(f"{name}={arguments.shown(value)}: must be zero or at least 1e-12, the smallest amount")
    return Amount(units=units)


def covering(name: str, value: float) -> Amount:
    """The smallest amount that is not below the double itself: the charge for a computed upper bound.

    A float that a person types means the decimal that it prints as. A float that was computed, such as `m.rdp(8.0)`, is
    a bound as the binary number that it is, which may be a little above that decimal.

    >>> str(rounded_up("divergence", 0.1)), str(covering("divergence", 0.1))
    ('0.1', '0.100000000001')
    """
    return rounded_up(name, Fraction(arguments.nonnegative(name, value)))


def promised(value: float) -> Fraction:
    """What a budget that was given as a float may be split from: the float, or the decimal that it prints as if less.

    The charge is the decimal. A mechanism that is calibrated to the float itself may spend a rounding more.

    >>> promised(0.1) == Fraction(1, 10), promised(0.3) == Fraction(0.3)
    (True, True)
    """
    return min(Fraction(value), Fraction(repr(float(value))))


def exact(name: str, value: Exact) -> Fraction:
    """`value` as a fraction in [0, 10^6], with nothing lost."""
    return Fraction(*_ratio(name, value))


def _ratio(name: str, value: Exact) -> Ratio:
    if type(value) not in _READERS:
        raise ArgumentTypeError(
            f"{name}={arguments.shown(value)}: must be a decimal string, an int, a float, a Fraction or a Decimal"
        )
    numerator, denominator = _READERS[type(value)](name, value)
    if not 0 <= numerator <= LARGEST * denominator:
        raise ArgumentError(f"{name}={arguments.shown(value)}: must lie in [0, {LARGEST}]")
    return numerator, denominator


def _text(name: str, value: str) -> Ratio:
    if len(value) > _TEXT or not _DECIMAL.fullmatch(value):
        raise ArgumentError(f"{name}={arguments.shown(value)}: must be a plain decimal, such as '0.1' or '1e-6'")
    return Decimal(value).as_integer_ratio()


def _float(name: str, value: float) -> Ratio:
    if not math.isfinite(value):
        raise ArgumentError(f"{name}={float(value)}: must be finite")
    return Decimal(repr(float(value))).as_integer_ratio()


def _decimal(name: str, value: Decimal) -> Ratio:
    # An exponent of a billion is a small object as a decimal and a huge one as a fraction.
    if not value.is_finite() or abs(value.adjusted()) > _EXPONENT or len(value.as_tuple().digits) > _EXPONENT:
        raise ArgumentError(f"{name}={arguments.shown(value)}: must be finite, with a sensible exponent")
    return value.as_integer_ratio()


_READERS: dict[type, Callable[[str, Any], Ratio]] = {
    str: _text,
    float: _float,
    np.float64: _float,
    int: lambda _, value: (value, 1),
    np.int64: lambda _, value: (int(value), 1),
    Fraction: lambda _, value: value.as_integer_ratio(),
    Decimal: _decimal,
    Amount: lambda _, value: (value.units, SCALE),
}
"""By exact type: a subclass of float may mean something else than a worst-case bound, and True is not an amount."""
