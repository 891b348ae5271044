"""What is claimed of the privacy of a mechanism, all that it depends on, and the pairs of answers that matter.

Those are for each position the farthest neighbour to its right: by the monotonicity theorem a pair inside another pair
leaks no more. In an interval they are (p, p + D) for one line of positions p. In a union, p + D may fall into a gap,
and then the widest such pair is a single one.
"""

from __future__ import annotations

import bisect
import enum
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.values import arguments
from rangebound.values.ball import Ball, ball
from rangebound.values.numeric import rounded_down, rounded_up
from rangebound.values.support import Interval, Union


class Notion(enum.Enum):
    """What privacy means: DP bounds every pair within the sensitivity, METRIC in proportion to the distance."""

    DP = "dp"
    METRIC = "metric"


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Claim:
    """That a mechanism is (`epsilon`, `delta`)-private, in the sense of `notion`.

    DP: for all neighbouring datasets and all sets A of outputs, P(A) <= e^epsilon Q(A) + delta.
    METRIC: any two true answers at distance i * sensitivity satisfy P(A) <= e^(i epsilon) Q(A), for every real i
    [croft2022, Thm 2]. That implies DP at the same epsilon.

    Guarantee: none. A claim is a statement; `rangebound.certify` proves it of a mechanism or refuses it.
    Edge cases: `delta=0` is a pure claim. A metric claim has no delta.

    >>> import rangebound as rb
    >>> print(rb.Claim(epsilon=0.5, delta=1e-6))
    (0.5, 1e-06)-differential privacy
    >>> print(rb.Claim(epsilon=0.5, notion="metric"))
    metric privacy with epsilon 0.5
    """

    epsilon: float
    delta: float = 0.0
    notion: Notion = Notion.DP

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", arguments.nonnegative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", arguments.probability("delta", self.delta))
        object.__setattr__(self, "notion", arguments.member("notion", self.notion, Notion))
        if self.notion is Notion.METRIC and self.delta > 0.0:
            raise ArgumentError(f"delta={self.delta}: metric privacy is pure; leave delta out")

    def __str__(self) -> str:
        epsilon, delta = arguments.upwards(self.epsilon), arguments.upwards(self.delta)
        if self.notion is Notion.METRIC:
            return f"metric privacy with epsilon {epsilon}"
        return f"({epsilon}, {delta})-differential privacy"

    @property
    def pure(self) -> bool:
        """Whether there is no delta, so that the privacy loss of every output is bounded.

        >>> Claim(epsilon=1.0).pure, Claim(epsilon=1.0, delta=1e-9).pure
        (True, False)
        """
        return self.delta == 0.0

    @property
    def limit(self) -> float:
        """What no pair of neighbours may exceed: delta at this epsilon or, for a pure claim, the privacy loss epsilon.

        Edge cases: a metric claim is refused, as by `ordinary`.

        >>> Claim(epsilon=1.0).limit, Claim(epsilon=1.0, delta=1e-9).limit
        (1.0, 1e-09)
        """
        return self.epsilon if self.ordinary().pure else self.delta

    def ordinary(self) -> Claim:
        """The claim itself, about pairs of neighbours; a metric one, which bounds a rate, is refused.

        >>> Claim(epsilon=1.0).ordinary().epsilon
        1.0
        """
        if self.notion is Notion.METRIC:
            raise ArgumentError(f"notion={self.notion.value!r}: a metric claim bounds a rate, not a pair of neighbours")
        return self

    @property
    def terms(self) -> str:
        """The arguments in full, for an error message.

        >>> Claim(epsilon=1.0).terms, Claim(epsilon=1.0, notion="metric").terms
        ('epsilon=1.0, delta=0.0', "epsilon=1.0, notion='metric'")
        """
        metric = self.notion is Notion.METRIC
        return f"epsilon={self.epsilon}, " + (f"notion={self.notion.value!r}" if metric else f"delta={self.delta}")

    def to_dict(self) -> dict[str, object]:
        """The claim as plain data, for JSON or TOML.

        >>> Claim(epsilon=1.0).to_dict()
        {'epsilon': 1.0, 'delta': 0.0, 'notion': 'dp'}
        """
        return {"epsilon": self.epsilon, "delta": self.delta, "notion": self.notion.value}

    @classmethod
    def from_dict(cls, data: object) -> Claim:
        """The claim that `to_dict` wrote; a missing or an unknown field is refused.

        >>> Claim.from_dict({"epsilon": 1.0, "delta": 0.0, "notion": "dp"})
        Claim(epsilon=1.0, delta=0.0, notion=<Notion.DP: 'dp'>)
        """
        match data:
            case {"epsilon": float(epsilon), "delta": float(delta), "notion": str(notion), **rest} if not rest:
                return cls(epsilon=epsilon, delta=delta, notion=arguments.member("notion", notion, Notion))
        raise ArgumentError(f"claim={arguments.shown(data)}: must be what Claim.to_dict writes")


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


@dataclass(frozen=True)
class SearchLine:
    """The pairs (p, p + d) for all p in [start, end]; `d` is the exact difference of two doubles."""

    start: float
    end: float
    far: float
    near: float = 0.0

    @property
    def d(self) -> Ball:
        return ball(self.far) - ball(self.near)

    def clipped(self, low: float, high: float) -> list[SearchLine]:
        """The pairs as they are after clipping both answers to [low, high], of those that collapse only the widest."""
        d = self.far - self.near
        if self.start == self.end:  # one pair: clip it, exactly where it is given by its ends
            other = self.far if self.near == self.start else _sum(self.start, d, +1)
            a, b = min(max(self.start, low), high), min(max(other, low), high)
            return [SearchLine(a, a, b, a)] if a < b else []
        found = []
        start, end = max(self.start, low), min(self.end, _sum(high, -d, +1))
        if start <= end:
            found.append(SearchLine(start, end, self.far, self.near))
        if self.start < low:
            reach = min(_sum(min(self.end, low), d, +1), high)
            found += [SearchLine(low, low, reach, low)] if low < reach else []
        if self.end > high - d:
            first = max(self.start, _sum(high, -d, -1), low)
            found += [SearchLine(first, first, high, first)] if first < high else []
        return found


def lines(answers: Interval | Union, sensitivity: float) -> list[SearchLine]:
    """Lines of pairs that dominate every pair of `answers` at most `sensitivity` apart.

    Guarantee: complete. Ends that are not doubles are rounded outward, so a line may reach over by one ulp.
    """
    spans = answers.spans
    ends = [end for _, end in spans]
    found: list[SearchLine] = []
    for lower, upper in spans:
        nearest, farthest = _sum(lower, sensitivity, -1), _sum(upper, sensitivity, +1)
        for i in range(bisect.bisect_left(ends, nearest), len(spans)):
            start, end = spans[i]
            if start > farthest:
                break
            low, high = max(lower, _sum(start, -sensitivity, -1)), min(upper, _sum(end, -sensitivity, +1))
            if low <= high:
                found.append(SearchLine(low, high, sensitivity))
        stop = _stop(lower, spans, ends, sensitivity)
        if stop is not None:
            found.append(SearchLine(lower, lower, stop, lower))
    return found


def _stop(lower: float, spans: tuple[tuple[float, float], ...], ends: list[float], sensitivity: float) -> float | None:
    """The farthest answer from `lower` if lower + sensitivity falls into a gap or beyond the last span."""
    if math.isinf(lower):
        return None
    reach = Fraction(lower) + Fraction(sensitivity)
    behind = bisect.bisect_right(ends, _sum(lower, sensitivity, +1))
    while behind and Fraction(ends[behind - 1]) > reach:
        behind -= 1
    if not behind or not ends[behind - 1] > lower:
        return None
    following = spans[behind][0] if behind < len(spans) else math.inf
    return ends[behind - 1] if math.isinf(following) or Fraction(following) > reach else None


def _sum(x: float, y: float, direction: int) -> float:
    """x + y rounded to a double in the given direction."""
    total = x + y
    if math.isinf(total):
        return total
    exact = Fraction(x) + Fraction(y)
    return rounded_up(exact) if direction > 0 else rounded_down(exact)


def pair_at(side: Setting, setting: Setting, line: SearchLine, position: float) -> tuple[float, float]:
    sign = 1.0 if side is setting or side == setting else -1.0
    if math.isinf(position):
        return sign * position, sign * position
    other = line.far if line.near == position else position + line.far - line.near
    position, other = neighbours(side, position, other)
    return sign * position + 0.0, sign * other + 0.0


def neighbours(setting: Setting, first: float, second: float) -> tuple[float, float]:
    """The answers nearest to two places that may have been rounded out of the range, or too far apart, by an ulp."""
    first, second = _inside(setting.answers, first), _inside(setting.answers, second)
    nearer = _inside(setting.answers, _within(first, second, setting.sensitivity))
    if abs(Fraction(nearer) - Fraction(first)) <= Fraction(setting.sensitivity):
        return first, nearer
    return _inside(setting.answers, _within(second, first, setting.sensitivity)), second


def _within(start: float, end: float, limit: float) -> float:
    """`end`, or the farthest double towards it that is at most `limit` from `start`."""
    apart = Fraction(end) - Fraction(start)
    if abs(apart) <= Fraction(limit):
        return end
    exact = Fraction(start) + (Fraction(limit) if apart > 0 else -Fraction(limit))
    return rounded_down(exact) if apart > 0 else rounded_up(exact)


def _inside(answers: Interval | Union, x: float) -> float:
    """The answer nearest to x: a line may reach over the end of a span by one ulp."""
    return min((min(max(x, lower), upper) for lower, upper in answers.spans), key=lambda y: abs(y - x))


def some_pair(setting: Setting) -> tuple[float, float]:
    hull = setting.answers.hull
    start = min(max(0.0, hull.lower), hull.upper)
    return start, min(start + setting.sensitivity, hull.upper)
