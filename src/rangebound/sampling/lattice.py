"""The public lattice: the numbers that can be published, whatever the data.

Its points are the multiples of a step inside the support, and the ends of the support. The step is a power of two taken
from the public parameters, or the user's own; a decimal step such as 0.01 means what it says, 1/100, and each point is
the double nearest to the true multiple. A number is published as the nearest multiple, moved to the end of its span if
it lies beyond.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.values import arguments

_FINENESS = 20  # a default step is at most 2^-20 of the scale
_EXACT = 2**53


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """The multiples of `numerator / denominator`, both integers; at least one is 1 or both are below 2^53."""

    numerator: int
    denominator: int

    @property
    def step(self) -> Fraction:
        """The distance of two neighbours."""
        return Fraction(self.numerator, self.denominator)

    @property
    def dyadic(self) -> bool:
        """Whether the step is a power of two, so that the place of a double among the points is exact."""
        return self.numerator & (self.numerator - 1) == 0 and self.denominator & (self.denominator - 1) == 0

    def point(self, index: int) -> float:
        """The double that stands for a multiple: the nearest one, as the kernel computes it."""
        try:
            return float(index) * float(self.numerator) / float(self.denominator) + 0.0
        except OverflowError:  # more steps than a double can count, so the kernel leaves them to us
            return (-1.0 if index < 0 else 1.0) * _quotient(abs(index) * self.numerator, self.denominator)

    def edge(self, index: int) -> Fraction:
        """Where the cell of multiple `index` ends and the next begins: half a step further."""
        return Fraction((2 * index + 1) * self.numerator, 2 * self.denominator)

    def can_give(self, value: float, span: tuple[float, float], *, collected: bool) -> bool:
        """Whether a number in a span, rounded, can become `value`: exactly, by the cells that meet the span.

        With `collected` the finite ends of the span can be had whatever the lattice: they take what falls beyond them.

        >>> thirds = Lattice(numerator=1, denominator=3)
        >>> thirds.can_give(2 / 3, (0.1, 1.0), collected=False), thirds.can_give(0.1, (0.1, 1.0), collected=False)
        (True, True)
        >>> thirds.can_give(1e300, (0.0, math.inf), collected=False)
        True
        >>> thirds.can_give(0.2, (0.2, 1.0), collected=False)  # numbers just above it are rounded to 1/3
        False
        """
        low, high = span
        if not math.isfinite(value) or not low <= value <= high or repr(value) == "-0.0":
            return False
        if collected and value in span:
            return True
        near = round(Fraction(value) / self.step)
        first = math.floor(Fraction(low) / self.step + Fraction(1, 2)) if math.isfinite(low) else None
        last = math.ceil(Fraction(high) / self.step - Fraction(1, 2)) if math.isfinite(high) else None
        if value == low and first is not None and self.point(first) <= low:
            return True
        if value == high and last is not None and self.point(last) >= high:
            return True
        # Where doubles are coarser than the step, many multiples share a double, and rounding may miss it by one.
        slack = abs(near) >> 50
        below = near - slack - 1 if first is None else max(near - slack - 1, first)
        above = near + slack + 1 if last is None else min(near + slack + 1, last)
        while below < above:  # the first multiple that is not below the value; there may be more than `bisect` counts
            middle = (below + above) // 2
            below, above = (middle + 1, above) if self.point(middle) < value else (below, middle)
        return below == above and self.point(below) == value


def _quotient(a: int, b: int) -> float:
    try:
        return a / b
    except OverflowError:
        return math.inf


def default_lattice(noise: Noise, shape: Shape) -> Lattice:
    """A power of two at most 2^-20 of what the noise and the support leave to choose from: public numbers only."""
    sizes = [noise.scale, noise.extent, shape.ends[1] - shape.ends[0]]
    exponent = math.frexp(min(sizes))[1] - 1 - _FINENESS
    exponent = max(exponent, -1022)  # below that doubles themselves are as coarse
    return Lattice(numerator=2 ** max(exponent, 0), denominator=2 ** max(-exponent, 0))


def lattice_of(step: object) -> Lattice:
    """The lattice of a user's step, read as the decimal number that it prints as.

    >>> lattice_of(0.01)
    Lattice(numerator=1, denominator=100)
    """
    number = arguments.positive("step", step)
    size = Fraction(repr(number))
    if max(size.numerator, size.denominator) >= _EXACT:
        size = Fraction(number)  # no short decimal, so the double itself is meant
    lattice = Lattice(numerator=size.numerator, denominator=size.denominator)
    if max(size.numerator, size.denominator) >= _EXACT and not lattice.dyadic:
        raise ArgumentError(
            f"step={number}: must be a decimal number of at most 15 digits, or a power of two; take a rounder step"
        )
    return lattice
