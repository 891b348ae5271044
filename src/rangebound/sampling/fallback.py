"""The decision of a draw in ball arithmetic: as exact as it takes, for any law.

A word is the first 64 bits of a uniform number U. The number drawn is the point at which the distribution function of
the rounded law passes U. Here that is decided by comparing U with the exact probability of everything left of an edge:
at growing precision, and with further random bits appended to U whenever those it has do not tell.
"""

from __future__ import annotations

import bisect
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpz

from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.sampling.draw_plan import Lattice
from rangebound.sampling.entropy import WordSource
from rangebound.values.ball import Ball, ball, precision

_BITS = 128
_LARGEST = sys.float_info.max
_ALONE = threading.Lock()  # the precision of ball arithmetic belongs to the whole process


class Uniform:
    """A uniform number in (0, 1) of which as many bits are known as were needed so far."""

    def __init__(self, word: int, source: WordSource) -> None:
        self._bits, self._known, self._source = word, 64, source

    def below(self, share: Callable[[], tuple[Ball, Ball]]) -> bool:
        """Whether the number is below part/whole, where `share` gives both at the precision in force."""
        bits = _BITS
        while True:
            with precision(bits):
                part, whole = share()
                if arb(fmpz(self._bits + 1)) * whole <= part * arb(2) ** self._known:
                    return True
                if arb(fmpz(self._bits)) * whole >= part * arb(2) ** self._known:
                    return False
            bits *= 2
            self._bits, self._known = (self._bits << 64) | self._source.word(), self._known + 64


@dataclass(frozen=True)
class Fallback:
    """Exact draws from the laws of one mechanism, rounded to a lattice if they have a density."""

    noise: Noise
    shape: Shape
    lattice: Lattice | None

    def __call__(self, word: int, answer: float, guess: float, source: WordSource) -> float:
        """The number that `word` draws at the true answer; `guess`, right or not, only saves time."""
        with _ALONE:
            uniform = Uniform(word, source)
            if self.shape.normalised and not self.shape.spans:
                return self._weighed(uniform, answer)
            if not self.shape.spans:
                return self._quantized(uniform, answer, guess)
            return self._rounded(uniform, answer, guess)

    def _rounded(self, uniform: Uniform, answer: float, guess: float) -> float:
        """A law with density: first the span, then the multiple of the step, clamped to the span."""
        assert self.lattice is not None
        lattice, spans = self.lattice, self.shape.spans
        given = spans if self.shape.normalised else ((-math.inf, math.inf),)
        last = len(given) - 1
        chosen = _search(lambda i: uniform.below(lambda: self._left(given, answer, given[i][1])), last, 0, last)
        low, high = spans[chosen]
        if not self.shape.normalised:  # clamped before it is rounded: the ends take all that falls beyond them
            if math.isfinite(low) and uniform.below(lambda: self._left(given, answer, low)):
                return low
            if math.isfinite(high) and not uniform.below(lambda: self._left(given, answer, high)):
                return high

        def reached(index: int) -> bool:
            edge = lattice.edge(index)
            return high <= edge or (low < edge and uniform.below(lambda: self._left(given, answer, edge)))

        start = min(max(guess if math.isfinite(guess) else answer, low), high)
        value = lattice.point(_search(reached, round(Fraction(start) / lattice.step)))
        return min(max(value, low, -_LARGEST), high, _LARGEST)

    def _left(self, given: tuple[tuple[float, float], ...], answer: float, edge: float | Fraction) -> tuple[Ball, Ball]:
        """The noise that falls into the part of `given` left of the edge, and into all of it."""
        noise, at = self.noise.in_balls(), ball(answer)
        part = whole = ball(0.0)
        for low, high in given:
            start, end = _offset(low, at), _offset(high, at)
            mass = noise.mass(start, end)
            whole += mass
            if high <= edge:
                part += mass
            elif low < edge:
                part += noise.mass(start, _offset(edge, at))
        return part, whole

    def _quantized(self, uniform: Uniform, answer: float, guess: float) -> float:
        """Rounding to given points: the cell into which the noisy value falls."""
        points, cells = self.shape.points, self.shape.cells

        def left(index: int) -> tuple[Ball, Ball]:
            return self.noise.in_balls().cdf(ball(cells[index][1]) - ball(answer)), ball(1.0)

        start = bisect.bisect_left(points, guess if math.isfinite(guess) else answer)
        return points[_search(lambda i: uniform.below(lambda: left(i)), start, 0, len(points) - 1)]

    def _weighed(self, uniform: Uniform, answer: float) -> float:
        """Points that weigh as much as the density at them."""
        points = self.shape.points

        def left(index: int) -> tuple[Ball, Ball]:
            noise, at = self.noise.in_balls(), ball(answer)
            weights = [noise.pdf(ball(x) - at) for x in points]
            part = sum(weights[: index + 1], ball(0.0))
            return part, part + sum(weights[index + 1 :], ball(0.0))

        start = bisect.bisect_left(points, answer)
        return points[_search(lambda i: uniform.below(lambda: left(i)), start, 0, len(points) - 1)]


def _offset(x: float | Fraction, at: Ball) -> Ball | None:
    """x - at in balls; None for an infinite end."""
    if isinstance(x, Fraction):
        return arb(fmpz(x.numerator)) / arb(fmpz(x.denominator)) - at
    return None if math.isinf(x) else ball(x) - at


def _search(reached: Callable[[int], bool], start: int, bottom: float = -math.inf, top: float = math.inf) -> int:
    """The first index with `reached`, from a guess: in growing steps until it is enclosed, then by halves.

    It is taken for granted that `bottom` - 1 is not reached and `top` is.
    """

    def known(index: int) -> bool:
        return index >= top or (index >= bottom and reached(index))

    stride = 1
    if known(start):
        low, high = start - 1, start
        while known(low):
            low, high, stride = low - 2 * stride, low, 2 * stride
    else:
        low, high = start, start + 1
        while not known(high):
            low, high, stride = high, high + 2 * stride, 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if known(middle) else (middle, high)
    return high
