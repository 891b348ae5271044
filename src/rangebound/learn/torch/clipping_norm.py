"""Clipping norms: how much one example may move the sum of the gradients, by coordinate or in Euclidean norm.

Elementwise clipping works in whole numbers. Each clipped coordinate is rounded to a multiple of a quantum, a power of
two; the clipping norm is between 2^17 and 2^18 quanta. So the sum over the examples is exact. It does not depend on
their order, and one example moves it by at most the clipping norm, to the last bit; a sum of floats does not guarantee
that. Layers round the last bits of an example's gradient by the shape of what they see. So they see one shape: chunks
of one public size, filled with zeros (`rangebound.learn.torch.gradients.per_example`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from rangebound.errors import ArgumentError
from rangebound.values import arguments

_BITS = 17
_SMALLEST, _LARGEST = 1e-30, 1e30  # so that the quantum and its inverse are ordinary floats
_SLACK = 2.0**-16


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Elementwise:
    """Each coordinate of each example's gradient is clamped to [-clip, clip] [hu2024, Sec 5.1].

    Guarantee: adding or removing an example moves each coordinate of the sum by at most `bound`.
    Assumes: the layers give an example the same gradient whichever others are in the batch.
    Edge cases: the bound is the clip rounded down to 18 binary digits, so 0.5 stays 0.5 and 0.1 becomes 0.0999994.

    >>> Elementwise(clip=0.5).bound
    0.5
    """

    clip: float
    quantum: float = field(init=False)
    levels: int = field(init=False)

    def __post_init__(self) -> None:
        clip = _checked(self.clip)
        quantum = math.ldexp(1.0, math.frexp(clip)[1] - 1 - _BITS)
        object.__setattr__(self, "clip", clip)
        object.__setattr__(self, "quantum", quantum)
        object.__setattr__(self, "levels", math.floor(clip / quantum))

    @property
    def bound(self) -> float:
        """The largest size of a clipped coordinate, a whole number of quanta."""
        return self.levels * self.quantum


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Euclidean:
    """Each example's gradient is scaled down to Euclidean norm `clip` at most, as is common; only for unbounded noise.

    Guarantee: adding or removing an example moves the sum by at most `clip` in Euclidean length, the rounding of the
    sum in doubles included.
    Assumes: as for `Elementwise`; at most about 100,000 examples in a step. The stated or expected number is checked,
    and a dataset with over twice as many in an expected batch is refused.

    >>> Euclidean(clip=1.0).bound
    1.0
    """

    clip: float
    most: ClassVar[int] = 100_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", _checked(self.clip))

    @property
    def bound(self) -> float:
        """The clipping norm itself."""
        return self.clip

    @property
    def target(self) -> float:
        """The target norm: slightly below the clipping norm, which leaves room for rounding."""
        return self.clip * (1.0 - _SLACK)


Clipping = Elementwise | Euclidean


def _checked(clip: object) -> float:
    number = arguments.positive("clip", clip, why="without a bound on each example nothing is protected")
    if not _SMALLEST <= number <= _LARGEST:
        raise ArgumentError(f"clip={number}: must lie between {_SMALLEST:g} and {_LARGEST:g}; change the loss's unit")
    return number
