"""What a noise family is: the facts that the rest of the package asks of it, in floats and in ball arithmetic.

Every family is symmetric about zero and log-concave. That is what the monotonicity theorem needs, and with it
everything in `rangebound.privacy`; a distribution without it has no place here. A new family is one file with a
subclass of `Noise` and one of `BallNoise`, and one line in `FAMILIES`. A class that lacks a fact cannot be created.
"""

from __future__ import annotations

import abc
import enum
import inspect
import math
from typing import ClassVar, Self

from flint import arb_series

from rangebound.values import arguments
from rangebound.values.array_types import np
from rangebound.values.ball import INFINITY, PRECISIONS, Ball, End, ball, is_taylor, precision, value_of
from rangebound.values.numeric import Array

_MORE = 2.0**-50  # relative: the first step by which a radius is rounded up


class Curve(enum.Enum):
    """The log-density as a function of x, up to a constant and within the extent: what theorems about one family need.

    A family of another curve gets what holds for every log-concave density: branch and bound over all pairs, and draws
    in ball arithmetic.
    """

    LINEAR = "-|x|/scale"
    QUADRATIC = "-x^2/(2 scale^2)"
    OTHER = "any other concave function"


class Complete:
    """A class whose subclasses define every abstract member and every declared value, checked when they are created."""

    def __init_subclass__(cls, **given: object) -> None:
        super().__init_subclass__(**given)
        if Complete in cls.__bases__:
            return
        missing = {name for name in dir(cls) if getattr(getattr(cls, name, None), "__isabstractmethod__", False)}
        base = next(each for each in cls.__mro__ if Complete in each.__bases__)
        own = {name for each in cls.__mro__[: cls.__mro__.index(base)] for name in (*vars(each), *_declared(each))}
        missing |= {name for name in _declared(base) if name not in vars(base) and name not in own}
        if missing:
            raise TypeError(f"class {cls.__name__}: must define {', '.join(sorted(missing))}")


def _declared(cls: type) -> set[str]:
    """The names that a class annotates itself."""
    return set(inspect.get_annotations(cls))


class Noise(Complete, abc.ABC):
    """Noise that is added to a true answer: symmetric about zero, with a log-concave density.

    Functions of arrays are logarithms, so that nothing underflows; they broadcast, and follow the array API.
    """

    name: ClassVar[str]  # in files and on the command line
    curve: ClassVar[Curve]
    # Whether log g(x) - log g(x - d) is bounded in x, so that the unbounded noise has a pure epsilon.
    pure: ClassVar[bool]
    scale: float  # the unit of length: noise of twice the scale is twice the noise

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", arguments.positive("scale", self.scale))

    @property
    @abc.abstractmethod
    def extent(self) -> float:
        """How far from zero the noise can lie: inf, or the limit of a truncated family."""

    @property
    @abc.abstractmethod
    def untruncated(self) -> Noise:
        """The noise of which this one is a part; itself where the extent is infinite."""

    @property
    @abc.abstractmethod
    def kinks(self) -> tuple[float, ...]:
        """Where the log-density is not smooth inside its extent, and the ends of the extent."""

    @classmethod
    def calibrated(cls, scale: float, epsilon: float, delta: float) -> Self:
        """The member of the family with this scale that is tried when it is calibrated for (epsilon, delta)."""
        return cls(scale=scale)  # type: ignore[call-arg]  # what every family has

    @classmethod
    def refusal(cls, epsilon: float, delta: float) -> str | None:
        """Why no member of the family is calibrated for (epsilon, delta), whatever its scale; None where one may be."""
        return None

    @abc.abstractmethod
    def log_pdf(self, x: Array) -> Array:
        """log of the density at `x`."""

    @abc.abstractmethod
    def log_mass(self, lower: Array, upper: Array, location: Array) -> Array:
        """log of the probability that `location` + noise falls into [lower, upper]."""

    @abc.abstractmethod
    def reach(self, lower: Array, log_mass: Array, location: Array) -> Array:
        """The x for which [lower, x] has mass e^log_mass; NaN-free where the mass to the right suffices."""

    @abc.abstractmethod
    def crossing(self, p: Array, q: Array, level: Array) -> Array:
        """For p < q: where log g(x-p) - log g(x-q) falls through `level`."""

    @abc.abstractmethod
    def log_renyi_integral(self, p: Array, q: Array, order: float, lower: Array, upper: Array) -> Array:
        """log of the integral over [lower, upper] of g(x-p)^order g(x-q)^(1-order)."""

    @abc.abstractmethod
    def decay(self, start: Array) -> Array:
        """A length over which the density falls by a factor of about e beyond the distance `start` from zero."""

    @abc.abstractmethod
    def in_balls(self) -> BallNoise:
        """The same noise in ball arithmetic, at the precision in force."""

    @property
    def exponential(self) -> bool:
        """Whether the log-density is linear on either side of zero, as the theorems about Laplace noise assume."""
        return self.curve is Curve.LINEAR

    @property
    def laplace(self) -> bool:
        """Whether the log-density is linear on either side of zero and the noise reaches everywhere."""
        return self.exponential and not self.limited

    @property
    def gaussian(self) -> bool:
        """Whether the density is Gaussian, as the theorems about exponential families in the location assume."""
        return self.curve is Curve.QUADRATIC

    @property
    def limited(self) -> bool:
        """Whether the extent is finite, so that an edge of the noise may show."""
        return math.isfinite(self.extent)

    def radius(self, level: float) -> float:
        """How far from zero the noise is with probability `level`, at least.

        Guarantee: rounded up, by at most 1e-12 relative for levels up to 1 - 1e-9.
        Edge cases: 0 at level 0, and the extent at level 1.

        >>> from rangebound.laws.families import Gaussian
        >>> round(Gaussian(scale=2.0).radius(0.95), 4)
        3.9199
        """
        if level <= 0.0:
            return 0.0
        if level >= 1.0:
            return self.extent
        zero = np.asarray(0.0)
        found, step = float(self.reach(zero, np.asarray(math.log(level) - math.log(2.0)), zero)), _MORE
        with precision(PRECISIONS[0]):
            exact = self.in_balls()
            while found < self.extent and not exact.mass(ball(-found), ball(found)) >= ball(level):
                found, step = found * (1.0 + step) + 5e-324, 4.0 * step
        return min(found, self.extent)


class BallNoise(Complete, abc.ABC):
    """A noise family in ball arithmetic: plain probabilities instead of logarithms, for proofs.

    Arguments are balls, or Taylor series of balls where derivatives are wanted; an infinite end is None. Every function
    encloses its true value for every number inside its arguments, kinks included. A pair of locations is given as the
    left one and the distance `d` to the right one, because the distance stays sharp when the position is a wide ball.
    """

    def __init__(self, noise: Noise) -> None:
        self.scale: Ball = ball(noise.scale)

    @property
    def limit(self) -> Ball:
        """How far from zero the noise can lie."""
        return INFINITY

    @property
    def normaliser(self) -> Ball:
        """The mass that the untruncated noise has within the limit."""
        return ball(1.0)

    @property
    def untruncated(self) -> BallNoise:
        """The noise of which this one is a part; itself where the limit is infinite."""
        return self

    @property
    @abc.abstractmethod
    def steepness(self) -> Ball:
        """The largest |log g(x) - log g(y)|/|x - y|; infinite where there is none."""

    @abc.abstractmethod
    def pdf(self, y: Ball) -> Ball:
        """Density at the offset `y` from the location."""

    @abc.abstractmethod
    def cdf(self, y: Ball) -> Ball:
        """Probability that the noise is at most `y`."""

    @abc.abstractmethod
    def score(self, y: Ball) -> Ball:
        """-(log g)'(y), a plain ball."""

    @abc.abstractmethod
    def score_moments(self, lower: End, upper: End) -> tuple[Ball, Ball, Ball]:
        """Integrals of g, score g and score^2 g over [lower, upper]."""

    @abc.abstractmethod
    def partial_moments(self, start: Ball, end: End) -> tuple[Ball, Ball, Ball]:
        """Integrals of g, y g and y^2 g over [start, end] with 0 <= start."""

    @abc.abstractmethod
    def log_ratio(self, y: End, d: Ball) -> Ball:
        """log g(y) - log g(y - d) for d > 0 where g(y) > 0; `y` None means its supremum, far to the left."""

    @abc.abstractmethod
    def thresholds(self, p: Ball, d: Ball, level: Ball) -> list[Ball]:
        """Where the log-ratio of the pair (p, p + d) falls through `level`: the best attack is at one of these.

        They move with p: at the best threshold its own motion does not count, and far from the ends nothing changes.
        """

    @abc.abstractmethod
    def renyi_integral(self, p: Ball, d: Ball, order: Ball, lower: End, upper: End) -> Ball:
        """Integral over [lower, upper] of g(x-p)^order g(x-p-d)^(1-order)."""

    def sf(self, y: Ball) -> Ball:
        """Probability that the noise is at least `y`; every family is symmetric."""
        return self.cdf(-y)

    def mass(self, lower: End, upper: End) -> Ball:
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
