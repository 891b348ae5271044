"""The noise families once more, in ball arithmetic: plain probabilities instead of logarithms, for proofs.

Arguments are balls, or Taylor series of balls where derivatives are wanted; an infinite end is None. Every function
encloses its true value for every number inside its arguments, kinks included. A pair of locations is given as the
left one and the distance `d` to the right one, because the distance stays sharp when the position is a wide ball.
"""

from __future__ import annotations

from typing import Any

from flint import arb, arb_series

from rangebound.ball import Ball, ball, is_taylor, kinked, largest, rising, smallest, value_of
from rangebound.noise import Gaussian, Laplace, Noise, TruncatedLaplacian

INFINITY = arb.pos_inf()


class ExactNoise:
    """What the three families share: masses from a distribution function and its density."""

    scale: Ball

    def sf(self, y: Ball) -> Ball:
        """Probability that the noise is at least `y`; the families are symmetric."""
        return self.cdf(-y)

    def mass(self, lower: Any, upper: Any) -> Any:
        """Probability of [lower, upper], from the tail in which less cancels."""
        if lower is None:
            return ball(1.0) if upper is None else self.cdf(upper)
        if upper is None:
            return self.sf(lower)
        if value_of(lower) + value_of(upper) < 0:
            mass = self.cdf(upper) - self.cdf(lower)
        else:
            mass = self.sf(lower) - self.sf(upper)
        if is_taylor(mass) and not value_of(lower).is_exact() and (upper - lower)[1].is_zero():
            return arb_series([self._shifted_mass(lower[0], upper[0]), *mass.coeffs()[1:]], prec=mass.prec)
        return mass

    def _shifted_mass(self, lower: Ball, upper: Ball) -> Ball:
        """The mass of an interval that shifts as a whole: log-concave in the shift, so least at one end of it."""
        ends = self.mass(lower.lower(), upper.lower()).union(self.mass(lower.upper(), upper.upper()))
        if lower + upper > 0 or lower + upper < 0:
            return ends
        half = (upper - lower).upper() / 2  # a ball that is no narrower than the interval itself
        return ends.union(self.mass(-half, half))

    def pdf(self, y: Ball) -> Ball:
        """Density at the offset `y` from the location."""
        raise TypeError("a family defines its own density")

    def cdf(self, y: Ball) -> Ball:
        """Probability that the noise is at most `y`."""
        raise TypeError("a family defines its own distribution function")


class ExactLaplace(ExactNoise):
    """Laplace noise in balls."""

    def __init__(self, noise: Laplace) -> None:
        self.scale = ball(noise.scale)

    def pdf(self, y: Ball) -> Ball:
        at = value_of(y)
        if at <= 0 or at >= 0:
            return ((y if at <= 0 else -y) / self.scale).exp() / (2 * self.scale)
        value = rising(arb.exp, -abs(at) / self.scale) / (2 * self.scale)
        return kinked(y, value, (value / self.scale).union(-value / self.scale)) if is_taylor(y) else value

    def cdf(self, y: Ball) -> Ball:
        at = value_of(y)
        if at <= 0:
            return (y / self.scale).exp() / 2
        if at >= 0:
            return 1 - (-y / self.scale).exp() / 2
        value = (at.lower() / self.scale).exp() / 2
        value = value.union(1 - (-at.upper() / self.scale).exp() / 2)
        return kinked(y, value, self.pdf(at)) if is_taylor(y) else value

    def score(self, y: Ball) -> Ball:
        """-(log g)'(y), a plain ball: sign(y)/b."""
        return y.sgn() / self.scale

    def log_ratio(self, y: Any, d: Ball) -> Any:
        """log g(y) - log g(y - d) for d > 0; `y` None means far to the left."""
        if y is None:
            return d / self.scale
        return smallest(largest(d - 2 * y, -d), d) / self.scale

    def thresholds(self, p: Any, d: Ball, level: Ball) -> list[Any]:
        """Where the log-ratio of the pair (p, p + d) falls through `level`: the best attack is at one of these.

        They move with p: at the best threshold its own motion does not count, and far from the ends nothing changes.
        """
        return [p + smallest(largest((d - level * self.scale) / 2, ball(0.0)), d)]

    def free_threshold(self, p: Any, d: Ball, level: Any) -> Any:
        """The threshold where it is known to lie between the two locations."""
        return p + (d - level * self.scale) / 2

    def blend(self, p: Any, d: Ball, order: Ball, lower: Any, upper: Any) -> Any:
        """Integral over [lower, upper] of g(x-p)^order g(x-p-d)^(1-order)."""
        b, zero = self.scale, ball(0.0)
        start = None if lower is None else lower - p
        end = None if upper is None else upper - p

        def fall(y: Any, rate: Ball) -> Any:
            return zero if y is None else (-y * rate / b).exp()

        def below(y: Any) -> Any:
            return (smallest(y, zero) / b).exp()

        def clip(y: Any, otherwise: Ball) -> Any:
            return otherwise if y is None else smallest(largest(y, zero), d)

        def above(y: Any) -> Any:
            return None if y is None else largest(y - d, zero)

        rate, one = 2 * order - 1, ball(1.0)
        near, far = ((order - 1) * d / b).exp() / 2, (-order * d / b).exp() / 2
        left = (one if end is None else below(end)) - (zero if start is None else below(start))
        middle = (fall(clip(start, zero), rate) - fall(clip(end, d), rate)) / rate
        right = fall(zero if start is None else above(start), one) - fall(above(end), one)
        return near * (left + middle) + far * right


class ExactGaussian(ExactNoise):
    """Gaussian noise in balls."""

    def __init__(self, noise: Gaussian) -> None:
        self.scale = ball(noise.scale)
        self._shrink = 1 / (self.scale * ball(2.0).sqrt())
        self._height = 1 / (self.scale * (2 * arb.pi()).sqrt())
        self._known: dict[Any, Ball] = {}

    def pdf(self, y: Ball) -> Ball:
        z = y * self._shrink
        return (-(z * z)).exp() * self._height

    def cdf(self, y: Ball) -> Ball:
        if not is_taylor(y):
            return rising(self._cdf, y)
        if not y[0].is_exact():
            return (y * -self._shrink).erfc() / 2
        return (self.pdf(y) * y.derivative()).integral() + self._cdf(y[0])

    def _cdf(self, y: Ball) -> Ball:
        """The same at an exact offset; the ends of a cell are the ends of its neighbours and come up again."""
        if not y.is_finite():
            return (-y).erfc() / 2
        key = y.man_exp()
        if key not in self._known:
            self._known[key] = rising(arb.erfc, y * -self._shrink) / 2  # erfc of a ball far out never ends
        return self._known[key]

    def score(self, y: Ball) -> Ball:
        """-(log g)'(y), a plain ball: y/s^2."""
        return y / (self.scale * self.scale)

    def log_ratio(self, y: Any, d: Ball) -> Any:
        """log g(y) - log g(y - d) for d > 0; `y` None means far to the left."""
        if y is None:
            return INFINITY
        return (d - 2 * y) * (d / (2 * self.scale * self.scale))

    def thresholds(self, p: Any, d: Ball, level: Ball) -> list[Any]:
        """Where the log-ratio of the pair (p, p + d) falls through `level`."""
        return [self.free_threshold(p, d, level)]

    def free_threshold(self, p: Any, d: Ball, level: Any) -> Any:
        """The threshold, wherever it lies."""
        return p + (d / 2 - level * self.scale * self.scale / d)

    def blend(self, p: Any, d: Ball, order: Ball, lower: Any, upper: Any) -> Any:
        """Integral over [lower, upper] of g(x-p)^order g(x-p-d)^(1-order)."""
        centre = p + (1 - order) * d
        ratio = d / self.scale
        start = None if lower is None else lower - centre
        end = None if upper is None else upper - centre
        return self.mass(start, end) * (order * (order - 1) * ratio * ratio / 2).exp()


class ExactTruncatedLaplacian(ExactNoise):
    """Truncated Laplacian noise in balls."""

    def __init__(self, noise: TruncatedLaplacian) -> None:
        self.whole = ExactLaplace(noise.untruncated)
        self.scale = self.whole.scale
        self.limit = ball(noise.limit)
        self.kept = -(-self.limit / self.scale).expm1()

    def pdf(self, y: Ball) -> Ball:
        distance = abs(value_of(y))
        if distance > self.limit:
            return ball(0.0)
        if distance <= self.limit:
            return self.whole.pdf(y) / self.kept
        value = (self.whole.pdf(value_of(y)) / self.kept).union(ball(0.0))
        return kinked(y, value, arb.nan()) if is_taylor(y) else value

    def cdf(self, y: Ball) -> Ball:
        at = value_of(y)
        if at <= -self.limit:
            return ball(0.0)
        if at >= self.limit:
            return ball(1.0)
        if abs(at) <= self.limit:
            beyond = (-self.limit / self.scale).exp() / 2
            return (self.whole.cdf(y) - beyond) / self.kept
        inside = at.lower().max(-self.limit).union(at.upper().min(self.limit))
        value = self.cdf(inside.lower().max(-self.limit)).union(self.cdf(inside.upper().min(self.limit)))
        return kinked(y, value, self.pdf(at)) if is_taylor(y) else value

    def log_ratio(self, y: Any, d: Ball) -> Any:
        """log g(y) - log g(y - d) for d > 0 where g(y) > 0; `y` None means as far left as the noise goes."""
        if y is None or value_of(y) - d < -self.limit:
            return INFINITY
        if value_of(y) - d >= -self.limit:
            return self.whole.log_ratio(y, d)
        return arb.nan()

    def thresholds(self, p: Any, d: Ball, level: Ball) -> list[Any]:
        """Where the log-ratio falls through `level`, where the right one's noise begins, where the left one's ends."""
        begins = p + (d - self.limit)
        ends = p + self.limit
        inner = [smallest(largest(t, begins), ends) for t in self.whole.thresholds(p, d, level)]
        return [begins, *inner, ends]

    def blend(self, p: Any, d: Ball, order: Ball, lower: Any, upper: Any) -> Any:
        """Integral over [lower, upper] of g(x-p)^order g(x-p-d)^(1-order); infinite where only the left one lives."""
        position = value_of(p)
        starts = position - self.limit if lower is None else largest(lower, position - self.limit)
        ends = position + self.limit if upper is None else smallest(upper, position + self.limit)
        if ends <= starts:
            return ball(0.0)
        begins = position + (d - self.limit)
        if starts < begins and starts < ends:
            return INFINITY
        if not starts >= begins:
            return arb.nan()
        top = p + self.limit
        end = top if upper is None else smallest(upper, top)
        return self.whole.blend(p, d, order, lower, end) / self.kept


_EXACT: dict[type[Any], Any] = {
    Laplace: ExactLaplace,
    Gaussian: ExactGaussian,
    TruncatedLaplacian: ExactTruncatedLaplacian,
}


def exact(noise: Noise) -> Any:
    """The noise in ball arithmetic, at the precision in force."""
    return _EXACT[type(noise)](noise)
