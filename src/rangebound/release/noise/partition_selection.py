"""Private keys: which groups may be named at all, decided by how many units they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from flint import arb

from rangebound import arguments
from rangebound.ball import precision
from rangebound.errors import ArgumentError

Bits = Callable[[int], int]
"""n secure random bits as an integer below 2^n."""

_UNIT_BITS, _RATIO_BITS = 128, 96
WHOLE = 1 << _UNIT_BITS
"""Probability one, in the whole numbers that probabilities are computed in."""
_LONGEST = 1_000_000


@lru_cache(maxsize=64, typed=True)  # True is no 1.0, and is refused
def keep_probabilities(epsilon: float, delta: float) -> tuple[int, ...]:
    """The chance of naming a key that has n = 0, 1, 2, ... units, up to the first n where it is certain.

    p(0) = 0, p(n+1) = min(e^epsilon p(n) + delta, 1 - e^-epsilon (1 - p(n) - delta), 1), in units of 2^-128, the
    largest numbers that keep every pair of neighbours within (epsilon, delta) [desfontaines2022, Thm 1].

    Guarantee: (epsilon, delta)-private for a unit in one group, exactly: e^epsilon is rounded down to a fraction, and
    every step is rounded down in whole numbers.
    Edge cases: an epsilon so small that a million units would not do is refused.

    >>> [round(each / WHOLE, 3) for each in keep_probabilities(1.0, 0.1)]
    [0.0, 0.1, 0.372, 0.806, 0.965, 1.0]
    """
    epsilon = arguments.positive("epsilon", epsilon)
    delta = arguments.probability("delta", delta)
    if delta == 0.0:
        raise ArgumentError("delta=0.0: must be positive; a key that only one unit has could never be named")
    with precision(256):
        ratio = int(str((arb(min(epsilon, 40.0)).exp() * (1 << _RATIO_BITS)).lower().floor().unique_fmpz()))
        slack = int(str((arb(delta) * WHOLE).lower().floor().unique_fmpz()))
    found = [0]
    while found[-1] < WHOLE:
        p = found[-1]
        rising = (p * ratio >> _RATIO_BITS) + slack
        falling = WHOLE - -(-(max(WHOLE - p - slack, 0) << _RATIO_BITS) // ratio)
        found.append(min(rising, falling, WHOLE))
        if len(found) > _LONGEST or found[-1] <= p:
            raise ArgumentError(
                f"epsilon={epsilon}: is too small to select keys with; list them, or give it more weight"
            )
    return tuple(found)


def select(units: Mapping[tuple[str, ...], int], probabilities: tuple[int, ...], bits: Bits) -> list[tuple[str, ...]]:
    """The keys that may be named, in order; each is drawn on its own by its number of units."""
    last = len(probabilities) - 1
    return [key for key in sorted(units) if bits(_UNIT_BITS) < probabilities[min(units[key], last)]]
