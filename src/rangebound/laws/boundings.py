"""Boundings: how a noisy number is brought into its support. One file each; each returns a `Shape`.

*Truncate* redraws until the value fits (here: draws from the conditional law at once), *rectify* clamps the output
to the nearest end, *quantize* rounds it to the nearest point of a grid, *unbounded* publishes it unchanged.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from rangebound.laws.family import Noise
from rangebound.laws.quantize import quantize
from rangebound.laws.rectify import rectify
from rangebound.laws.shape import Shape
from rangebound.laws.truncate import check_reach, truncate
from rangebound.laws.unbounded import unbounded
from rangebound.values.support import Support


class Bounding(enum.Enum):
    """The four boundings; also available as rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE and rb.UNBOUNDED."""

    TRUNCATE = "truncate"
    RECTIFY = "rectify"
    QUANTIZE = "quantize"
    UNBOUNDED = "unbounded"

    def __repr__(self) -> str:
        return self.name


TRUNCATE, RECTIFY, QUANTIZE, UNBOUNDED = Bounding

_SHAPES: dict[Bounding, Callable[[Noise, Support], Shape]] = {
    TRUNCATE: truncate,
    RECTIFY: rectify,
    QUANTIZE: quantize,
    UNBOUNDED: unbounded,
}


def shape(bounding: Bounding, noise: Noise, support: Support) -> Shape:
    """The shape of every law of a mechanism; an invalid combination is refused, with the reason."""
    return _SHAPES[bounding](noise, support)


__all__ = ["QUANTIZE", "RECTIFY", "TRUNCATE", "UNBOUNDED", "Bounding", "check_reach", "shape"]
