"""Arrays of any kind (their library, and its special functions), and numbers rounded to a safe side or enclosed."""

from __future__ import annotations

import importlib
import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any

from rangebound.errors import ArgumentError
from rangebound.values import arguments

# Arrays of NumPy, PyTorch or another library of the array API standard; no static type covers them all.
Array = Any

_SPECIAL = {"numpy": "scipy.special", "torch": "torch.special"}


def rounded_up(value: Fraction) -> float:
    """The smallest double that is not below an exact number; infinity where the number is above every double.

    >>> rounded_up(Fraction(1, 3)) > Fraction(1, 3), rounded_up(Fraction(1, 2)), rounded_up(Fraction(10**400))
    (True, 0.5, inf)
    """
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def rounded_down(value: Fraction) -> float:
    """The largest double that is not above an exact number; minus infinity where the number is below every double.

    >>> rounded_down(Fraction(1, 10)) < Fraction(1, 10), rounded_down(Fraction(1, 2))
    (True, 0.5)
    """
    return 0.0 - rounded_up(-value)  # zero stays positive: a published -0.0 would be another number


def root_up(value: Fraction) -> float:
    """The smallest double whose square is not below an exact number.

    >>> Fraction(root_up(Fraction(2))) ** 2 >= 2, root_up(Fraction(9, 4)), root_up(Fraction(0))
    (True, 1.5, 0.0)
    """
    found = root_down(value)
    return found if Fraction(found) ** 2 == value else math.nextafter(found, math.inf)


def root_down(value: Fraction) -> float:
    """The largest double whose square is not above an exact number.

    >>> Fraction(root_down(Fraction(2))) ** 2 <= 2, root_down(Fraction(9, 4))
    (True, 1.5)
    """
    shift = max(0, 160 - value.numerator.bit_length() + value.denominator.bit_length())
    shift += shift % 2  # the root of a whole number that has more digits than a double
    return rounded_down(Fraction(math.isqrt((value.numerator << shift) // value.denominator), 1 << shift // 2))


def namespace(*arrays: Array) -> Any:
    """The array API namespace of the arrays among `arrays` (plain numbers adapt to it)."""
    import array_api_compat  # not at the top: with it comes NumPy, which the rounding of a fraction does without

    found = [each for each in arrays if array_api_compat.is_array_api_obj(each)]
    return array_api_compat.array_namespace(*found)


def as_in(array: Array, values: Any) -> Array:
    """Values as an array of the same library, kind and device."""
    import array_api_compat

    device = array_api_compat.device(array)
    return namespace(array).asarray(values, dtype=array.dtype, device=device)


def special(*arrays: Array) -> ModuleType:
    """The module with `log_ndtr` and its like for the arrays' library, imported when first asked for."""
    name = namespace(*arrays).__name__.rpartition(".")[2]
    return importlib.import_module(_SPECIAL[name])


def log_ndtr(z: Array) -> Array:
    """log of the standard normal distribution function, with a gradient that is 0 and not NaN at infinite ends."""
    xp = namespace(z)
    finite = xp.isfinite(z)
    ends = xp.where(z > 0.0, xp.zeros_like(z), xp.full_like(z, -xp.inf))
    return xp.where(finite, special(z).log_ndtr(xp.where(finite, z, xp.zeros_like(z))), ends)


def ldexpm1(x: Array) -> Array:
    """log(1 - e^x) for x <= 0, without cancellation: -inf at 0."""
    xp = namespace(x)
    cut = -0.6931471805599453  # log(1/2): either form is accurate on its own side
    far = xp.log1p(-xp.exp(xp.where(x < cut, x, cut)))
    inner = -xp.expm1(xp.where(x < cut, cut, x))
    zero = inner <= 0.0
    near = xp.where(zero, -xp.inf, xp.log(xp.where(zero, 1.0, inner)))
    return xp.where(x < cut, far, near)


def log_sum(logs: Array) -> Array:
    """log of the sum of exp(logs) over the last axis; -inf where every term is zero."""
    xp = namespace(logs)
    top = xp.max(logs, axis=-1, keepdims=True)
    safe = xp.where(xp.isinf(top), xp.zeros_like(top), top)
    total = xp.sum(xp.exp(logs - safe), axis=-1)
    empty = total == 0.0
    return xp.where(empty, -xp.inf, xp.log(xp.where(empty, 1.0, total)) + safe[..., 0])


@dataclass(frozen=True, kw_only=True)
class Enclosure:
    """lower <= the exact value <= upper. A budget uses the upper bound.

    >>> Enclosure(lower=0.9, upper=1.1).width < 0.3
    True
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", arguments.real("lower", self.lower))
        object.__setattr__(self, "upper", arguments.real("upper", self.upper))
        if not self.lower <= self.upper:
            raise ArgumentError(f"lower={self.lower}, upper={self.upper}: the lower bound must not be above the upper")

    @property
    def width(self) -> float:
        """The distance of the bounds; 0 where both are infinite."""
        return self.upper - self.lower if self.lower < self.upper else 0.0
