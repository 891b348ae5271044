"""A Gaussian law on spans as an exponential family in its location, in ball arithmetic (see `exact`).

With c an outer end of the support, y = (x - c)/s and theta = (p - c)/s, the density on the support is in proportion to
the weight e^{-y^2/2 + y theta}. The factor that all weights share is left out: far from the support it varies by orders
of magnitude with p, and across a support much narrower than the noise it hides all that varies. The moments of the
weight are what series in p are made of. Since y has one sign each of them is monotone in theta and in the ends of a
span, so over a wide cell of positions they are known from the corners, as sharp as can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flint import arb, arb_series, ctx

from rangebound.privacy.pairs.integrals import Span
from rangebound.values.ball import PRECISIONS, Ball, End, ball, hull, is_taylor, precision, value_of

_COMMON = 5  # order of the series that are asked for most often
_KEPT = 4096  # stretches whose moments are remembered


class Tilted:
    """Integrals of the weights over spans; `centre` is the lower or the upper end of all of them."""

    def __init__(self, scale: Ball, centre: Ball, *, from_below: bool) -> None:
        self.scale, self.centre, self._from_below = scale, centre, from_below
        self._known: dict[tuple[object, ...], list[Ball]] = {}
        self._scales: list[Ball] = []

    def mass(self, span: Span, p: Ball, power: int = 0) -> Ball:
        """The integral of y^power times the weight; the upper end may be a series in p."""
        order = p.prec - 1 if is_taylor(p) else 0
        lower, upper = span
        if upper is not None and not value_of(upper).is_finite():
            return arb.nan()
        total = [ball(0.0)] * (order + 1)
        for start, ends in self._parts(lower, None if upper is None else value_of(upper)):
            corners = [
                self._moments(start, end, place, order)[power : power + order + 1]
                for end, place in self._corners(start, ends, value_of(p))
            ]
            total = [before + hull(each) for before, each in zip(total, zip(*corners, strict=True), strict=True)]
        if not is_taylor(p):
            return total[0]
        coefficients = [each * factor for each, factor in zip(total, self._factors(order), strict=True)]
        series = arb_series(coefficients, prec=order + 1)
        return series if upper is None or not is_taylor(upper) else series + self._motion(upper, p, power)

    def pull(self, span: Span, p: Ball) -> Ball:
        """The derivative of the mass in p with the ends held."""
        return self.mass(span, p, 1) / self.scale

    def reach(self, p: Ball) -> Ball | None:
        """Every span counts."""
        return None

    def rest(self, count: int, reach: Ball, p: Ball, *, slope: bool) -> Ball:
        """Every span counts."""
        raise TypeError("no span is left out of a tilted view")

    def threshold(self, p: Ball, d: Ball, level: Ball) -> Ball:
        """Where the log-ratio of the weights of p and p + d is `level`."""
        return self.centre - level * (self.scale * self.scale / d)

    def _parts(self, lower: End, upper: End) -> list[tuple[End, Sequence[End]]]:
        """A span as stretches on one side of the centre each: the start, and the first and the last possible end."""
        if upper is None:
            return [(lower, [None])]
        ends = _ends(upper)
        if self._from_below:
            inside, beyond = [x.max(self.centre) for x in ends], [x.min(self.centre) for x in ends]
        else:
            inside, beyond = [x.min(self.centre) for x in ends], [x.max(self.centre) for x in ends]
        if all(x == self.centre for x in beyond):
            return [(lower, ends)]
        return [(lower, inside), (self.centre, beyond)]

    def _corners(self, start: End, ends: Sequence[End], p: Ball) -> list[tuple[End, Ball]]:
        """The corners of the rectangle of ends and places between which all moments lie."""
        places = _ends(p)
        exact = [end for end in ends if end is not None]
        if len(exact) == len(places) == 2 and start is not None and (exact[0] >= start or exact[1] <= start):
            # A longer stretch has larger moments, and so has one seen from where its weights are larger.
            longer, shorter = exact if exact[1] <= start else exact[::-1]
            nearer, farther = places if longer < self.centre or start < self.centre else places[::-1]
            return [(longer, nearer), (shorter, farther)]
        return [(end, place) for end in ends for place in places]

    def _factors(self, order: int) -> list[Ball]:
        """1/(k! s^k)."""
        if len(self._scales) <= order:
            self._scales = [1 / (math.factorial(k) * self.scale**k) for k in range(order + 1)]
        return self._scales[: order + 1]

    def _motion(self, upper: Ball, p: Ball, power: int) -> Ball:
        """What the motion of an upper end adds: the integral from where it is to where it goes, power 0 or 1.

        The weight at y + u is its value at y times the sum of He_j(theta - y) u^j/j!.
        """
        y = (upper[0] - self.centre) / self.scale
        theta = (p - self.centre) / self.scale
        z = theta - y
        way: Ball = arb_series([0, *(upper / self.scale).coeffs()[1:]], prec=p.prec)
        nothing: Ball = arb_series([0], prec=p.prec)
        first = second = before = nothing
        here: Ball = arb_series([1], prec=p.prec)
        step = way
        for j in range(p.prec - 1):
            term = here * step / math.factorial(j)
            first = first + term / (j + 1)
            if power:
                second = second + term * way / (j + 2)
            before, here, step = here, z * here - j * before, step * way
        weight = (y * (theta - y / 2)).exp()
        return weight * (y * first + second if power else first)

    def _moments(self, lower: Ball | None, upper: Ball | None, place: Ball, order: int) -> list[Ball]:
        """Integrals of y^k times the weight from `lower` to `upper`, seen from an exact place, for k up to order + 2.

        By parts: M_k = (k-1) M_{k-2} + theta M_{k-1} - [y^{k-1} weight]. Each step loses digits where the stretch is
        short or far away; as everything is exact here, enough of them can be had.
        """
        key = tuple(None if x is None else x.man_exp() for x in (lower, upper, place))
        known = self._known.get(key)
        if known is None or len(known) < order + 3:
            width = 1.0 if lower is None or upper is None else abs(float(((upper - lower) / self.scale).mid()))
            rate = abs(float(((place - self.centre) / self.scale).mid())) + (1.0 / width if width > 1e-300 else 0.0)
            count = max(order, _COMMON) + 2
            lost = 2 * (count + 1) * math.ceil(math.log2(2.0 + rate))
            if len(self._known) >= _KEPT:
                self._known.clear()
            with precision(min(ctx.prec + lost, PRECISIONS[-1])):
                known = self._known[key] = self._by_parts(lower, upper, place, count)
        return known

    def _by_parts(self, lower: Ball | None, upper: Ball | None, place: Ball, count: int) -> list[Ball]:
        theta = (place - self.centre) / self.scale
        low, high = (None if x is None else (x - self.centre) / self.scale for x in (lower, upper))
        at_low, at_high = (ball(0.0) if y is None else (y * (theta - y / 2)).exp() for y in (low, high))
        found = [_gaussian_integral(low, high, theta)]
        for k in range(1, count + 1):
            above = found[-2] * (k - 1) if k > 1 else ball(0.0)
            found.append(above + theta * found[-1] - (at_high - at_low))
            at_low, at_high = (at if y is None else at * y for at, y in ((at_low, low), (at_high, high)))
        return found


def _gaussian_integral(low: End, high: End, theta: Ball) -> Ball:
    """The integral of e^{-y^2/2 + y theta} from low to high, from the tail in which less cancels."""
    root = ball(0.5).sqrt()
    first, last = (None if y is None else (y - theta) * root for y in (low, high))
    if first is None or (last is not None and first + last < 0):
        first, last = (None if last is None else -last), (None if first is None else -first)
    mass = (ball(2.0) if first is None else first.erfc()) - (ball(0.0) if last is None else last.erfc())
    return mass * (theta * theta / 2).exp() * (arb.pi() / 2).sqrt()


def _ends(x: Ball) -> list[Ball]:
    """The two ends of a ball, exactly."""
    return [x] if x.is_exact() else [x.lower(), x.upper()]
