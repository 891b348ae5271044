"""What one pair of true answers leaks, in ball arithmetic.

A pair is a position `p` and a distance `d > 0`: P is the law at p, Q the law at p + d, so that P/Q falls with x
(the monotone likelihood ratio). Only this direction is written down; the other one is the same question
about the mirrored mechanism. Positions may be balls, or Taylor series where derivatives are wanted. The threshold of
the best attack moves with the position, in closed form.

Three forms cover every mechanism: `Truncated` (truncation to spans) and `TruncatedGrid` (truncation to points), both
with a special case for Laplace and for Gaussian noise, and `Mapped` (a nondecreasing map of the noisy value: clamp,
round, nothing).
"""

from __future__ import annotations

from functools import lru_cache

from flint import ctx

from rangebound.laws.family import Curve, Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.mapped import Mapped
from rangebound.privacy.pairs.truncated import Truncated, TruncatedGaussian
from rangebound.privacy.pairs.truncated_grid import TruncatedGaussianGrid, TruncatedGrid
from rangebound.privacy.pairs.truncated_laplace import TruncatedLaplace
from rangebound.privacy.pairs.truncated_laplace_grid import TruncatedLaplaceGrid
from rangebound.values.ball import Ball, ball, largest

Pair = Mapped | Truncated | TruncatedGrid


def stick(kind: Pair, p: Ball, d: Ball, epsilon: Ball) -> Ball:
    """Hockey stick of a pair: the best of its threshold events, the empty event and the certain one."""
    return largest(ball(0.0), 1 - epsilon.exp(), *kind.sticks(p, d, epsilon).values())


def family(noise: Noise, shape: Shape) -> Pair:
    """The family that a mechanism belongs to, at the precision in force; the last few are remembered."""
    return _family(noise, shape, ctx.prec)


def mapped(noise: Noise, shape: Shape) -> Mapped:
    """The same for a shape that is a map of the noisy value."""
    found = family(noise, shape)
    assert isinstance(found, Mapped)
    return found


@lru_cache(maxsize=16)
def _family(noise: Noise, shape: Shape, bits: int) -> Pair:
    if not shape.normalised:
        return Mapped(noise, shape)
    return _TRUNCATED[noise.curve, bool(shape.spans)](noise, shape)


# By the curve of the noise, and whether the support is made of spans or of points.
_TRUNCATED: dict[tuple[Curve, bool], type[Truncated] | type[TruncatedGrid]] = {
    (Curve.LINEAR, True): TruncatedLaplace,
    (Curve.LINEAR, False): TruncatedLaplaceGrid,
    (Curve.QUADRATIC, True): TruncatedGaussian,
    (Curve.QUADRATIC, False): TruncatedGaussianGrid,
    (Curve.OTHER, True): Truncated,
    (Curve.OTHER, False): TruncatedGrid,
}


__all__ = [
    "Mapped",
    "Pair",
    "Truncated",
    "TruncatedGaussian",
    "TruncatedGaussianGrid",
    "TruncatedGrid",
    "family",
    "mapped",
    "stick",
]
