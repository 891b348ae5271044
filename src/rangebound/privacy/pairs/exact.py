"""What one pair of true answers gives away, in ball arithmetic.

A pair is a position `p` and a distance `d > 0`: P is the law at p, Q the law at p + d, so that P/Q falls with x
(the monotone likelihood ratio). Only this direction is written down; the other one is the same question
about the mirrored mechanism. Positions may be balls, or Taylor series where derivatives are wanted. The threshold of
the best attack moves with the position, in closed form.

Three families cover every mechanism: `Restricted` (truncation to spans), `RestrictedGrid` (truncation to points), both
with a special case for Laplace noise, and `Mapped` (a nondecreasing map of the noisy value: clamp, round, nothing).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from flint import ctx

from rangebound.ball import Ball, ball, largest
from rangebound.law import Shape
from rangebound.noise import Gaussian, Noise
from rangebound.privacy.pairs.mapped import Mapped
from rangebound.privacy.pairs.truncated import Restricted
from rangebound.privacy.pairs.truncated_grid import RestrictedGrid
from rangebound.privacy.pairs.truncated_laplace import RestrictedLaplace, RestrictedLaplaceGrid


def stick(kind: Any, p: Ball, d: Ball, epsilon: Ball) -> Ball:
    """Hockey stick of a pair: the best of its threshold events, the empty event and the certain one."""
    return largest(ball(0.0), 1 - epsilon.exp(), *kind.sticks(p, d, epsilon).values())


def family(noise: Noise, shape: Shape) -> Any:
    """The family that a mechanism belongs to, at the precision in force; the last few are remembered."""
    return _family(noise, shape, ctx.prec)


@lru_cache(maxsize=16)
def _family(noise: Noise, shape: Shape, bits: int) -> Any:
    if not shape.normalised:
        return Mapped(noise, shape)
    return _FAMILIES[isinstance(noise, Gaussian), bool(shape.spans)](noise, shape)


# By whether the noise is Gaussian, and whether the support is made of spans or of points.
_FAMILIES: dict[tuple[bool, bool], Any] = {
    (False, True): RestrictedLaplace,
    (False, False): RestrictedLaplaceGrid,
    (True, True): Restricted,
    (True, False): RestrictedGrid,
}


__all__ = ["Mapped", "Restricted", "RestrictedGrid", "family", "stick"]
