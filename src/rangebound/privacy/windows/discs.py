"""Discs in the complex plane with centres on the real axis, many at once, in floats.

A disc contains the true number. Every operation keeps that promise, rounding included, so the same formula gives two
things: from points of the real line a value with a proved error, and from wide discs a bound on an analytic function in
the complex plane, as `chebyshev` needs it.

Assumed of the machine: sums, products and quotients are rounded to nearest, exp, expm1 and log are within 4 ulp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rangebound.values.array_types import Bools, Floats, np, npt

UNIT = 2.0**-52  # twice the rounding error of one operation, which covers that of the radius as well
ROUGH = 8.0 * UNIT  # of an elementary function
_TINY = 1e-290  # absolute: what underflow may take away
_BLOCK = 16  # terms that are summed one by one


@dataclass(frozen=True, slots=True, eq=False)
class Discs:
    """The discs |z - mid| <= rad. A radius that is not finite says that nothing is known.

    Sums, products and so on are with other discs, or with doubles as they are; where a divisor may be 0 nothing is
    known of the quotient.
    """

    mid: Floats
    rad: Floats

    def __neg__(self) -> Discs:
        return Discs(-self.mid, self.rad)

    def __add__(self, other: Discs | Floats | float) -> Discs:
        other = _discs(other)
        mid = self.mid + other.mid
        return Discs(mid, (self.rad + other.rad) * (1.0 + 2.0 * UNIT) + UNIT * np.abs(mid))

    def __sub__(self, other: Discs | Floats | float) -> Discs:
        return self + -_discs(other)

    def __mul__(self, other: Discs | Floats | float) -> Discs:
        other = _discs(other)
        mid = self.mid * other.mid
        spread = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad)
        return Discs(mid, spread * (1.0 + 4.0 * UNIT) + UNIT * np.abs(mid) + _TINY)

    def __truediv__(self, other: Discs | Floats | float) -> Discs:
        other = _discs(other)
        size = np.abs(other.mid)
        room = size - other.rad
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mid = self.mid / other.mid
            spread = (self.rad + np.abs(mid) * other.rad) / np.where(room > 0.0, room, np.nan)
        return Discs(mid, spread * (1.0 + 8.0 * UNIT) + UNIT * np.abs(mid) + _TINY)

    def exp(self) -> Discs:
        """e^z: a disc of radius e^mid (e^rad - 1)."""
        with np.errstate(over="ignore", invalid="ignore"):
            mid = np.exp(self.mid)
            return Discs(mid, mid * (np.expm1(self.rad) * (1.0 + 2.0 * ROUGH) + ROUGH) + _TINY)

    def expm1(self) -> Discs:
        """e^z - 1, sharp near 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            mid = np.expm1(self.mid)
            spread = np.exp(self.mid) * np.expm1(self.rad)
            return Discs(mid, spread * (1.0 + 4.0 * ROUGH) + ROUGH * np.abs(mid) + _TINY)

    def log(self) -> Discs:
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self.mid > 0.0, self.rad / self.mid * (1.0 + UNIT), np.nan)
            mid = np.log(self.mid)
            spread = -np.log1p(-np.where(share < 1.0, share, np.nan))
        return Discs(mid, spread * (1.0 + ROUGH) + ROUGH * np.abs(mid) + _TINY)

    def at(self, index: Any) -> Discs:
        return Discs(self.mid[index], self.rad[index])

    def summed(self) -> Discs:
        """Running sums along the last axis, in blocks, which keeps rounding small."""
        count = self.mid.shape[-1]
        blocks = -(-count // _BLOCK)
        spare = [(0, 0)] * (self.mid.ndim - 1) + [(0, blocks * _BLOCK - count)]
        shape = (*self.mid.shape[:-1], blocks, _BLOCK)

        def running(x: Floats) -> Floats:
            inner = np.cumsum(np.pad(x, spare).reshape(shape), axis=-1)
            before = np.zeros_like(inner[..., -1:])
            before[..., 1:, 0] = np.cumsum(inner[..., :-1, -1], axis=-1)
            whole: Floats = (inner + before).reshape(*self.mid.shape[:-1], -1)[..., :count]
            return whole

        terms = _BLOCK + blocks + 2.0
        return Discs(running(self.mid), (running(self.rad) + UNIT * terms * running(np.abs(self.mid))) * (1.0 + 1e-12))

    @property
    def top(self) -> Floats:
        """No number of the disc is larger in absolute value; infinite where nothing is known."""
        size = (np.abs(self.mid) + self.rad) * (1.0 + 2.0 * UNIT)
        return np.where(np.isnan(size), np.inf, size)


def exactly(x: npt.ArrayLike) -> Discs:
    """Doubles as they are."""
    mid = np.asarray(x, dtype=np.float64)
    return Discs(mid, np.zeros_like(mid))


def difference(x: npt.ArrayLike, y: npt.ArrayLike) -> Discs:
    """x - y of doubles."""
    return exactly(x) - exactly(y)


def _discs(x: Discs | Floats | float) -> Discs:
    return x if isinstance(x, Discs) else exactly(x)


def where(chosen: Bools, first: Discs, second: Discs) -> Discs:
    """The first where it is chosen, else the second."""
    return Discs(np.where(chosen, first.mid, second.mid), np.where(chosen, first.rad, second.rad))


def side_by_side(parts: Sequence[Discs], axis: int = 0) -> Discs:
    return Discs(*(np.concatenate([getattr(part, x) for part in parts], axis=axis) for x in ("mid", "rad")))
