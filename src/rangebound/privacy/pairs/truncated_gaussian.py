"""A Gaussian law truncated to spans, in ball arithmetic (see `exact`): an exponential family in its location."""

from __future__ import annotations

from typing import ClassVar

from flint import arb

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.exponential_family import Tilted
from rangebound.privacy.pairs.integrals import Integrals, LawView, Plain
from rangebound.privacy.pairs.truncated import Truncated
from rangebound.values.ball import INFINITY, Ball, ball, is_taylor, smallest, taylor, value_of

_NARROW, _FAR = 1.0, 1.0  # scales: a support this narrow is tilted, and any support seen from this far away


class TruncatedGaussian(Truncated):
    """Truncated Gaussian noise on spans."""

    rising: ClassVar[bool] = True

    def __init__(self, noise: Noise, shape: Shape) -> None:
        super().__init__(noise, shape)
        self._plain = Plain(self.noise, spans=shape.spans)
        self._tilted = [
            None if end is None else Tilted(self.noise.scale, end, from_below=below)
            for end, below in zip(self.edges(), (True, False), strict=True)
        ]

    def _view(self, p: Ball) -> LawView:
        """The form in which series about p are sharp: offsets from p, or tilted weights.

        Offsets do not change where a pair moves along the inside of a support. Seen from outside, or across a support
        that is narrow against the noise, the weights change less.
        """
        (low, from_low), (high, from_high) = zip(self.edges(), self._tilted, strict=True)
        here, scale = value_of(p).mid(), self.noise.scale
        left = -INFINITY if low is None else (low - here) / scale  # how far outside on either side, or less than 0
        right = -INFINITY if high is None else (here - high) / scale
        narrow = left + right > -_NARROW
        if is_taylor(p) and from_low is not None and (left > _FAR or (narrow and left > right)):
            return from_low
        if is_taylor(p) and from_high is not None and (right > _FAR or narrow):
            return from_high
        return self._plain

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """Renyi divergence of P from Q of an order above 1."""
        return self._series_renyi(p, d, order) if is_taylor(p) else super().renyi(p, d, order)

    def _series_renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """The same as order d^2/(2 s^2) plus a weighted sum of log Z at three places, each in the form that suits it.

        A tilted mass lacks the factor e^{-(at-c)^2/(2 s^2)}. The weights add up to zero, and so do the squares of p.
        Over a cell wider than those places are apart, the divergence is order d^2/2 times a mean of the second
        derivative of log Z + p^2/(2 s^2) between them, and so is each coefficient of its series.
        """
        variance = self.noise.scale * self.noise.scale
        reach = ((1 - order) * d).union(d)
        if reach.rad() < p[0].rad():
            view = self._view(p)
            normaliser = Integrals(view, taylor(p[0] + reach, p.prec + 1)).mass(self.spans)
            if value_of(normaliser) > 0:
                bend = normaliser.log().derivative().derivative()
                return (bend if isinstance(view, Tilted) else bend + 1 / variance) * (order * d * d / 2)
        total: Ball = order * d * d / (2 * variance)
        square, linear, rest = ball(0.0), ball(0.0), ball(0.0)
        for offset, weight in ((ball(0.0), -order), (d, order - 1), ((1 - order) * d, ball(1.0))):
            view = self._view(p + offset)
            normaliser = Integrals(view, p + offset).mass(self.spans)
            if not value_of(normaliser) > 0:
                return arb.nan()
            total = total + normaliser.log() * weight / (order - 1)
            if isinstance(view, Tilted):
                away = offset - view.centre
                square, linear, rest = square + weight, linear + weight * away, rest + weight * away * away
                rest = rest + weight * variance * (2 * arb.pi()).log()
        return total - ((p * square + 2 * linear) * p + rest) / (2 * variance * (order - 1))

    def elsewhere(self, start: float, end: float) -> tuple[Ball, Ball | None]:
        """The most mass outside the span that matters, in units of the mass inside, over the positions [start, end].

        The mass of a span on the right, relative to one on the left, rises with the position. Also the width of what
        matters, None for a whole span.
        """
        if len(self.spans) == 1:
            return ball(0.0), None
        before, after = self._masses_at(start), self._masses_at(end)
        last, best = len(self.spans) - 1, INFINITY
        for k, (one, other) in enumerate(zip(before, after, strict=True)):
            if (k > 0 and not one > 0) or (k < last and not other > 0) or not (k > 0 or k < last):
                continue
            left = sum(before[:k], ball(0.0)) / one if k else ball(0.0)
            right = sum(after[k + 1 :], ball(0.0)) / other if k < last else ball(0.0)
            best = smallest(best, left + right)
        return best, None

    def mean(self, p: Ball) -> Ball:
        """Expectation at p, for Gaussian noise."""
        total, first, _ = self._plain.scores(self.spans, p)
        return p + self.noise.scale * self.noise.scale * first / total

    def spread(self, p: Ball, edge: Ball) -> Ball:
        """E (x - edge)^2 at p, for Gaussian noise."""
        lowest, zero = self.spans[0][0], ball(0.0)
        view = Tilted(self.noise.scale, edge, from_below=lowest is not None and bool(edge == lowest))
        total, second = (sum((view.mass(span, p, power) for span in self.spans), zero) for power in (0, 2))
        return self.noise.scale * self.noise.scale * second / total
