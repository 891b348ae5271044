"""Gaussian noise on an endless lattice: a ceiling for every regular grid (see docs/theory.md, *Adding points*).

Points added beyond the ends of a support never lower the largest hockey-stick divergence over all positions. So no
regular grid reveals more than the endless lattice of its step, which looks the same from every position, up to a shift
by a step.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from flint import arb

from rangebound.laws.family import Noise
from rangebound.privacy.pairs.integrals import near_pair, up_to
from rangebound.privacy.pairs.lattice_sums import Theta
from rangebound.privacy.search.branch_and_bound import enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.setting import SearchLine
from rangebound.values.ball import INFINITY, Ball, ball, expm1, largest, precision, taylor, up, value_of
from rangebound.values.numeric import rounded_up

_CALM, _CLOSER = 6.0, 7  # scales to either side of the best position that are searched, and in how many pieces


@dataclass(frozen=True)
class Ceiling:
    """The largest value on the endless lattice, and a position that attains it (threshold or point at 0)."""

    value: Ball
    position: float


class Threshold:
    """P(x <= 0) - e^epsilon Q(x <= 0) on the lattice of all multiples of `step`, as an objective of the search.

    Over all positions, this is every threshold test on the lattice.
    """

    smooth, attained, peaked, monotone = True, True, False, False

    def __init__(self, step: Ball, scale: Ball, epsilon: Ball) -> None:
        ratio = step / scale
        self._theta, self._step, self._scale = Theta(ratio * ratio), step, scale
        self._variance, self._epsilon = scale * scale, epsilon

    def branches(self, p: Ball, d: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        return {0: self.value(p, d)}

    def value(self, p: Ball, d: Ball) -> Ball:
        share = self._share(p)
        if near_pair(p, d):  # the two nearly agree: from the slope of the logarithm
            below, above = self.parts(taylor(p[0] + up_to(d), p.prec))
            if not (value_of(share).is_finite() and value_of(below) > 0):
                return arb.nan()
            slope = below.log().derivative() - (below + above).log().derivative()
            return share * -expm1(self._epsilon + d * slope)
        return share - self._share(p + d) * self._epsilon.exp()

    def kinks(self, line: SearchLine) -> list[float]:
        return []

    def step(self) -> float:
        return float(self._scale)

    def size(self) -> int:
        return 2

    def parts(self, p: Ball) -> tuple[Ball, Ball]:
        """The weights of the points up to 0 and of those above, for the location p, but for a common factor."""
        t = p * (self._step / self._variance)
        return self._theta.sum(-t), self._theta.sum(t, 1)

    def _share(self, p: Ball) -> Ball:
        """P(x <= 0), which falls with the location."""
        below, above = self.parts(p)
        if value_of(below) > value_of(above):
            return 1 / (1 + above / below)
        ratio = below / above if value_of(above) > 0 else arb.nan()
        return ratio / (1 + ratio) if value_of(ratio) > -1 else arb.nan()  # nothing is known on a cell too wide

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """P at the left end less Q at the right one; 0 where the log-ratio of the event stays below epsilon.

        The logarithm of P(x <= 0) has the slope (E[x | x <= 0] - E[x])/s^2, and both means rise with the location.
        """
        if math.isfinite(start) and math.isfinite(end):
            low, high = self.parts(taylor(ball(start), 1)), self.parts(taylor(ball(end) + d, 1))
            if value_of(low[0]) > 0 and value_of(high[0] + high[1]) > 0:
                fall = (high[0] + high[1]).log()[1] - low[0].log()[1]
                if d * fall <= self._epsilon:
                    return ball(0.0)
        left = ball(1.0) if math.isinf(start) else self._share(ball(start))
        right = ball(0.0) if math.isinf(end) else self._share(ball(end) + d)
        return largest(left - self._epsilon.exp() * right, ball(0.0))

    def seeds(self, line: SearchLine) -> list[float]:
        """Where the threshold of the continuous noise would be at half a step."""
        d = line.d
        return [float((self._epsilon * self._variance / d - d / 2 + self._step / 2).mid())]

    def cuts(self, line: SearchLine) -> list[float]:
        """Ever closer to the best position: a cell may be as wide as it is far from there."""
        best, reach = self.seeds(line)[0], _CALM * float(self._scale)
        return [best, *(best + side * reach * 2.0**-k for k in range(_CLOSER) for side in (-1.0, 1.0))]


def stick_ceiling(step: Ball, scale: Ball, epsilon: Ball, d: Ball, target: float | None = None) -> Ceiling:
    """The largest hockey-stick divergence on the endless lattice; with a target, whether it is at most that."""
    found = enclose([Task(Threshold(step, scale, epsilon), SearchLine(-math.inf, math.inf, up(d), 0.0))], target)
    return Ceiling(ball(max(found.upper, 0.0)), found.position)


Exact = tuple[Ball, Ball]  # mantissa and exponent
Cells = tuple[tuple[float, float], ...]

_BITS = 128
_DIGITS = 48.0  # of the sum, in units of ln: what is farther out adds less than e^-48 of it
_SHARP = 3e-8  # relative: an excess below this is not worth another position
_ROW = 400  # positions across a step, at most
_MOST = 20_000  # cells of a window
_TURNS = [0.1 * k for k in range(1, 32)]  # how far the phase may turn across a cell; below pi


class Top(NamedTuple):
    """A ceiling, whether it is as sharp as a search would be, and the best position seen, from the first cut on."""

    value: Ball
    sharp: bool
    position: float


def rounded_top(noise: Noise, cells: Cells, order: Ball, d: Ball) -> Top:
    """The ceiling for rounding to a grid with these cells."""
    lattice = _regular(tuple(high for _, high in cells[:-1]))
    if lattice is None:
        return Top(INFINITY, False, 0.0)
    return _known(lattice[0], noise.scale, order.man_exp(), (d.mid().man_exp(), d.rad().man_exp()), up(lattice[1]))


@lru_cache(maxsize=256)
def _known(step: float, scale: float, order: Exact, d: tuple[Exact, Exact], off: float) -> Top:
    with precision(_BITS):
        a, gap, blur = (arb(mantissa) * arb(2) ** exponent for mantissa, exponent in (order, *d))
        return rounded_ceiling(ball(step), ball(scale), a, gap.union(gap - blur).union(gap + blur), ball(off))


def rounded_ceiling(step: Ball, scale: Ball, order: Ball, d: Ball, off: Ball) -> Top:
    """An upper bound on the Renyi divergence after rounding to an endless lattice; `inf` where none is known.

    Rounding to a regular grid is rounding to the endless lattice of its step and then collecting what lies beyond the
    ends: post-processing. On the endless lattice the sum f(p) of P^a Q^(1-a) over the cells has the period of a step h,
    and is analytic in a strip about the real line. There a cell of the width h has, at p + iy,

        e^(y^2/2s^2) P cos(yh/2s^2) <= |P| <= e^(y^2/2s^2) P,

    because the phase of the density turns by yh/s^2 at most across the cell. So |f| is at most m = e^(y^2/2s^2)
    cos(yh/2s^2)^(1-a) times its largest value on the real line, its n-th Fourier coefficient at most that times q^|n|,
    q = e^(-2 pi y/h), and f is nowhere above f(0)/(1 - 4 m q/(1-q)). From a row of N positions across a step the excess
    is pi^2 m q (1+q)/((1-q)^3 N^2) instead: next to its largest value f is flat, and f'' is bounded by the same
    coefficients.

    Guarantee: holds at every position, for cuts that are no further than `off` from their places on the lattice, and so
    for all regular grids of that step. Sharp where the step is less than about the scale.
    """
    with precision(_BITS):
        variance = scale * scale
        lift = order * (order - 1) * d * d / (2 * variance)
        hidden = float((lift * (step / scale) ** 2).mid())
        reach = float(scale) * math.sqrt(2.0 * (min(up(lift), hidden) + _DIGITS))
        if not math.isfinite(reach) or 2.0 * reach > _MOST * float(step) or not 8 * off <= step:
            return Top(INFINITY, False, 0.0)
        r = (1 - order) * d
        first = math.floor(float((r - reach).mid()) / float(step)) - 1
        last = math.ceil(float((r + reach).mid()) / float(step)) + 2
        total = _window(step, scale, order, d, ball(0.0), first, last)
        enough = _SHARP * total.log()
        count = _positions(up(_excess(step, scale, order)) / max(float(enough.mid()), 1e-300))
        excess, best = _excess(step, scale, order, count), 0.0
        if not excess < 1:
            return Top(INFINITY, False, 0.0)
        for k in range(1, count):
            value = _window(step, scale, order, d, step * k / count, first, last)
            best = float((step * k / count).mid()) if value.mid() > total.mid() else best
            total = total.max(value)
        beyond = _outside(first * step - r, scale) + _outside(r + step - last * step, scale)
        total = (total + beyond * lift.exp()) / (1 - excess)
        if off > 0:
            far = order * d + reach + 5 * step
            moved = 2 * off * (4 / step + (far + step) / variance)
            total = total * ((2 * order - 1) * moved).exp()
            total = total + 2 * _outside(2 * step + off - ball(reach), scale) * lift.exp()
        return Top(total.log() / (order - 1), bool(excess <= 10 * enough), best)


def _positions(ratio: float) -> int:
    """How many positions bring the excess down by so much; one where it is small enough as it is."""
    return 1 if ratio <= 1.0 else min(max(math.ceil(1.7 * math.sqrt(ratio)), 4), _ROW)


@lru_cache(maxsize=64)
def _regular(cuts: tuple[float, ...]) -> tuple[float, Ball] | None:
    """The step of a row of cuts and how far a cut may be from its place; None where they are not regular at all."""
    if len(cuts) < 3:
        return None
    step = (cuts[-1] - cuts[0]) / (len(cuts) - 1)
    begin, pace = Fraction(cuts[0]), Fraction(step)
    off = max(abs(Fraction(cut) - begin - k * pace) for k, cut in enumerate(cuts))
    return (step, ball(rounded_up(off))) if off * 2**20 <= pace else None


def _excess(step: Ball, scale: Ball, order: Ball, count: int = 1) -> Ball:
    """By how much the largest value may exceed that of one position, or of the best of a row across a step."""
    ratio = float((scale / step).mid()) ** 2

    def size(turn: float) -> float:
        return ratio * turn * (turn / 2.0 - 2.0 * math.pi) - (float(order) - 1.0) * math.log(math.cos(turn / 2.0))

    turn = ball(min(_TURNS, key=size))
    squared = (scale / step) ** 2
    q = (-2 * arb.pi() * turn * squared).exp()
    grown = (turn * turn * squared / 2).exp() * ((1 - order) * (turn / 2).cos().log()).exp()
    if count == 1:
        return 4 * grown * q / (1 - q)
    return (arb.pi() / count) ** 2 * grown * q * (1 + q) / (1 - q) ** 3


def _window(step: Ball, scale: Ball, order: Ball, d: Ball, p: Ball, first: int, last: int) -> Ball:
    """The sum of P^order Q^(1-order) over the cells from first to last."""
    here, there = (_masses(step, scale, at, first, last) for at in (p, p + d))
    total = ball(0.0)
    for p, q in zip(here, there, strict=True):
        total = total + p * ((order - 1) * (p / q).log()).exp()
    return total


def _masses(step: Ball, scale: Ball, at: Ball, first: int, last: int) -> list[Ball]:
    """What noise about `at` has in each cell [k step, (k+1) step], from the tails on its own side of `at`."""
    unit = scale * ball(2.0).sqrt()
    places = [(k * step - at) / unit for k in range(first, last + 1)]
    tails = [abs(x).erfc() / 2 for x in places]
    found = []
    for k in range(last - first):
        if places[k] >= 0:
            found.append(tails[k] - tails[k + 1])
        elif places[k + 1] <= 0:
            found.append(tails[k + 1] - tails[k])
        else:
            found.append(1 - tails[k] - tails[k + 1])
    return found


def _outside(x: Ball, scale: Ball) -> Ball:
    """The mass of Gaussian noise below x."""
    return (-x / (scale * ball(2.0).sqrt())).erfc() / 2
