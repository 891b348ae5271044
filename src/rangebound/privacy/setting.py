"""All that the privacy of a mechanism depends on, its mirror image, and the pairs of answers that matter."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.search.positions import SearchLine, lines
from rangebound.values.support import Interval, Union


@dataclass(frozen=True)
class Setting:
    """All that the privacy of a mechanism depends on."""

    noise: Noise
    shape: Shape
    answers: Interval | Union
    sensitivity: float

    def simplified(self) -> Setting:
        """The same laws in plainer terms: noise that reaches all of the support from every answer shows no edge."""
        hull, (low, high) = self.answers.hull, self.shape.ends
        if not (self.noise.limited and self.shape.normalised and hull.bounded):
            return self
        if math.isinf(low) or math.isinf(high):
            return self
        reach = max(Fraction(high) - Fraction(hull.lower), Fraction(hull.upper) - Fraction(low))
        return replace(self, noise=self.noise.untruncated) if reach <= Fraction(self.noise.extent) else self

    def sides(self) -> tuple[Setting, ...]:
        """The setting and its mirror image, which is the other direction of every divergence; one if they agree."""
        mirror = Setting(self.noise, self.shape.mirrored(), mirrored(self.answers), self.sensitivity)
        return (self,) if _symmetric(self) else (self, mirror)

    def lines(self) -> list[SearchLine]:
        """The lines of pairs that matter. A truncated Laplace law does not change beyond the ends of its support."""
        hull = self.answers.hull
        if hull.bounded and Fraction(hull.upper) - Fraction(hull.lower) <= Fraction(self.sensitivity):
            found = [SearchLine(hull.lower, hull.lower, hull.upper, hull.lower)]
        else:
            found = lines(self.answers, self.sensitivity)
        if self.shape.normalised and self.noise.laplace:
            low, high = self.shape.ends
            return [part for line in found for part in line.clipped(low, high)]
        return found

    def pairs(self) -> list[tuple[Setting, SearchLine]]:
        """Every direction with every line of pairs."""
        return [(side, line) for side in self.sides() for line in side.lines()]


def mirrored(answers: Interval | Union) -> Interval | Union:
    spans = [(-b, -a) for a, b in reversed(answers.spans)]
    return Interval(*spans[0]) if isinstance(answers, Interval) else Union(*spans)


@lru_cache(maxsize=256)
def _symmetric(setting: Setting) -> bool:
    """Whether mirroring changes nothing but the place: every span and point has the same centre as its mirror image."""
    hull, shape, mirror = setting.answers.hull, setting.shape, setting.shape.mirrored()
    ends = (hull.lower, hull.upper) if hull.bounded else shape.ends
    if any(map(math.isinf, ends)):
        return shape == mirror and setting.answers == mirrored(setting.answers)
    centre = sum(map(Fraction, ends))

    def same(x: float, y: float) -> bool:
        return x == y if math.isinf(x) or math.isinf(y) else Fraction(x) == Fraction(y) + centre

    pairs = (
        *zip(shape.spans, mirror.spans, strict=True),
        *zip(shape.cells, mirror.cells, strict=True),
        *zip(setting.answers.spans, mirrored(setting.answers).spans, strict=True),
    )
    flat = all(same(a, c) and same(b, d) for (a, b), (c, d) in pairs)
    return flat and all(same(a, b) for a, b in zip(shape.points, mirror.points, strict=True))
