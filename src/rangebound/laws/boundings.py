"""Boundings: how a noisy number is brought into its support, as the `Shape` of every law.

*Truncate* redraws until the value fits (here: draws from the conditional law at once), *rectify* clamps the output
to the nearest end, *quantize* rounds it to the nearest point of a grid, *unbounded* publishes it unchanged.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from rangebound.errors import ArgumentError
from rangebound.laws.family import Noise
from rangebound.values.support import Grid, Interval, Support, Union, is_line


@dataclass(frozen=True)
class Shape:
    """How a bounding turns noise into a law, whatever the true answer.

    `spans` carry density. `points` are atoms: point i collects the noise that falls into `cells[i]`, or, when
    there are no cells, weighs as much as the noise density at it. `normalised` says that what lies in `spans` and
    `points` is scaled up to one, as truncation does; otherwise the map of the noise is already a distribution.
    """

    spans: tuple[tuple[float, float], ...] = ()
    points: tuple[float, ...] = ()
    cells: tuple[tuple[float, float], ...] = ()
    normalised: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number that can be published."""
        ends = [end for span in self.spans for end in span]
        return min(*ends, *self.points, math.inf), max(*ends, *self.points, -math.inf)

    def mirrored(self) -> Shape:
        """The mirror image: x becomes -x."""

        def flip(pairs: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
            return tuple((-b, -a) for a, b in reversed(pairs))

        points = tuple(-x for x in reversed(self.points))
        return Shape(flip(self.spans), points, flip(self.cells), self.normalised)


UNBOUNDED_SHAPE = Shape(spans=((-math.inf, math.inf),))


class Bounding(enum.Enum):
    """The four boundings; also available as rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE and rb.UNBOUNDED."""

    TRUNCATE = "truncate"
    RECTIFY = "rectify"
    QUANTIZE = "quantize"
    UNBOUNDED = "unbounded"

    def __repr__(self) -> str:
        return self.name


TRUNCATE, RECTIFY, QUANTIZE, UNBOUNDED = Bounding


def truncate(noise: Noise, support: Support) -> Shape:
    """Density g(x-q)/Z(q) on the support; on a grid, probabilities in proportion to g at the points."""
    if is_line(support):
        return Shape(spans=support.spans)
    if not isinstance(support, Grid):
        return Shape(spans=support.spans, normalised=True)
    if noise.limited:
        raise ArgumentError(
            f"bounding=TRUNCATE with {noise} on {support}: the set of possible points would depend on the true answer; "
            "use QUANTIZE"
        )
    return Shape(points=tuple(support.points.tolist()), normalised=True)


def check_reach(noise: Noise, answers: Interval | Union, shape: Shape) -> None:
    """Refuse truncated noise of limited extent that reaches no part of the support from some true answer."""
    if not (noise.limited and shape.normalised):
        return
    for lower, upper in answers.spans:
        reached = lower  # every answer left of this is within reach, and so is this one once `inside`
        inside = False
        for start, end in shape.spans:
            if start - noise.extent < reached or start == lower == -math.inf:
                inside = inside or end + noise.extent > reached
                reached = max(reached, end + noise.extent)
        if not inside or (reached <= upper and math.isfinite(reached)):
            raise ArgumentError(
                f"noise={noise}: cannot reach the support from every true answer in {answers}; "
                "take a larger limit, or RECTIFY"
            )


def rectify(noise: Noise, support: Support) -> Shape:
    """Density g(x-q) inside, and at each finite end an atom with the mass that fell beyond it."""
    if isinstance(support, Grid):
        raise ArgumentError(f"bounding=RECTIFY on {support}: clamping does not reach the points; use QUANTIZE")
    if len(support.spans) > 1:
        raise ArgumentError(
            f"bounding=RECTIFY on {support}: clamping leaves values in the gaps; use TRUNCATE, or the hull's Interval"
        )
    ((lower, upper),) = support.spans
    cells = {lower: (-math.inf, lower), upper: (upper, math.inf)}
    finite = tuple(end for end in (lower, upper) if math.isfinite(end))
    return Shape(spans=support.spans, points=finite, cells=tuple(cells[end] for end in finite))


def quantize(noise: Noise, support: Support) -> Shape:
    """Atoms only: each point gets the mass of the cell of values nearest to it (cut at float midpoints)."""
    if not isinstance(support, Grid):
        raise ArgumentError(f"bounding=QUANTIZE on {support}: there is nothing to round to; give a Grid as the support")
    points = support.points
    cuts = [-math.inf, *(0.5 * points[:-1] + 0.5 * points[1:]).tolist(), math.inf]
    return Shape(points=tuple(points.tolist()), cells=tuple(itertools.pairwise(cuts)))


def unbounded(noise: Noise, support: Support) -> Shape:
    """Density g(x-q) on the line."""
    if not is_line(support):
        raise ArgumentError(
            f"bounding=UNBOUNDED with support={support}: unbounded noise leaves every support except the whole line; "
            "use TRUNCATE or RECTIFY, or leave the support out"
        )
    return Shape(spans=support.spans)


_SHAPES: dict[Bounding, Callable[[Noise, Support], Shape]] = {
    TRUNCATE: truncate,
    RECTIFY: rectify,
    QUANTIZE: quantize,
    UNBOUNDED: unbounded,
}


def shape(bounding: Bounding, noise: Noise, support: Support) -> Shape:
    """The shape of every law of a mechanism; an invalid combination is refused, with the reason."""
    return _SHAPES[bounding](noise, support)
