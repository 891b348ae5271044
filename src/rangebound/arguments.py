"""Checks of arguments: one clear error at construction, then never again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError, ArgumentTypeError

_SHOWN = 60
_NO_NUMBERS = (bool, np.bool_, np.timedelta64)  # a duration counts as an integer to NumPy


def shown(value: object) -> str:
    """A value as an error message shows it: its repr, cut short."""
    try:
        text = repr(value)
    except Exception:  # a value that cannot be shown must not hide the error that it caused
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def plain(text: str) -> str:
    """Text of others on one line, which cannot move the cursor, change colours or ring the bell.

    >>> print(plain("\\x1b[31mred\\n"))
    \\x1b[31mred\\n
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def real(name: str, value: object) -> float:
    """`value` as a float that may be infinite; booleans, strings, arrays and NaN are refused."""
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"{name}={shown(value)}: must be a real number (int or float)")
    try:
        number = float(value)
    except OverflowError:
        raise ArgumentError(f"{name}={shown(value)}: must fit into a double (below about 1.8e308)") from None
    if math.isnan(number):
        raise ArgumentError(f"{name}=nan: must be a number")
    if number != value:
        raise ArgumentError(f"{name}={shown(value)}: must be a double exactly; round it yourself, on the safe side")
    return number


def finite(name: str, value: object) -> float:
    """`value` as a finite float."""
    number = real(name, value)
    if math.isinf(number):
        raise ArgumentError(f"{name}={number}: must be finite")
    return number


def positive(name: str, value: object, *, why: str = "") -> float:
    """`value` as a finite float above zero."""
    number = finite(name, value)
    if number <= 0.0:
        raise ArgumentError(f"{name}={shown(value)}: must be positive" + (f"; {why}" if why else ""))
    return number


def nonnegative(name: str, value: object) -> float:
    """`value` as a finite float that is zero or more."""
    number = finite(name, value)
    if number < 0.0:
        raise ArgumentError(f"{name}={shown(value)}: must be zero or more")
    return abs(number)


def probability(name: str, value: object) -> float:
    """`value` as a float in [0, 1)."""
    number = finite(name, value)
    if not 0.0 <= number < 1.0:
        raise ArgumentError(f"{name}={shown(value)}: must lie in [0, 1)")
    return abs(number)


def order(name: str, value: object) -> float:
    """`value` as a Renyi order: above 1, infinity allowed."""
    number = real(name, value)
    if not number > 1.0:
        raise ArgumentError(f"{name}={shown(value)}: must be above 1; infinity means the pure epsilon")
    return number


def instance(name: str, value: object, kinds: type | tuple[type, ...], rule: str) -> Any:
    """`value` unchanged if it is of one of `kinds`."""
    if not isinstance(value, kinds):
        raise ArgumentTypeError(f"{name}={shown(value)}: must be {rule}")
    return value


def reals(name: str, value: object, *, infinite: bool = False) -> npt.NDArray[np.float64]:
    """`value` (a number, a sequence or an array) as a new float64 array of finite numbers (or `infinite` ones too)."""
    rule = "must be a real number or an array of them"
    if isinstance(value, (bool, np.bool_, str, bytes, bytearray, memoryview, np.ma.MaskedArray)) or value is None:
        raise ArgumentTypeError(f"{name}={shown(value)}: {rule}")
    if isinstance(value, (list, tuple)) and any(isinstance(each, (bool, np.bool_)) for each in value):
        raise ArgumentTypeError(f"{name}={shown(value)}: {rule}, without booleans")
    try:
        array = np.asarray(value)
    except Exception:  # whatever the value raises when it is asked for its numbers, it has none for us
        raise ArgumentTypeError(f"{name}={shown(value)}: {rule}") from None
    if array.dtype.kind not in "iuf":
        raise ArgumentTypeError(f"{name}={shown(value)}: must hold real numbers, not {array.dtype}")
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float64)
    if (np.isinf(numbers) & ~np.isinf(array)).any():
        raise ArgumentError(f"{name}={shown(value)}: must fit into doubles (below about 1.8e308)")
    if np.isnan(numbers).any() or not (infinite or np.isfinite(numbers).all()):
        raise ArgumentError(f"{name}={shown(value)}: must be {'no NaN' if infinite else 'finite'} everywhere")
    return numbers


def together(*arrays: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], ...]:
    """Arrays of one shape, or an error that says which shapes do not fit."""
    try:
        return tuple(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(str(each.shape) for each in arrays)
        raise ArgumentError(f"shapes={shapes}: do not fit together") from None
