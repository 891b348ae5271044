"""The shape of a law, whatever the true answer: spans that carry density, points that carry mass."""

from __future__ import annotations

import math
from dataclasses import dataclass


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
