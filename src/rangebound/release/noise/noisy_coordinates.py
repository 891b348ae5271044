"""Publishers that add noise to exact coordinates: by a mechanism on its lattice, or by discrete Laplace noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rangebound.errors import ClaimFalse, Undecided
from rangebound.laws.boundings import Bounding
from rangebound.laws.error import Error
from rangebound.laws.family import Curve, Noise
from rangebound.mechanisms.certificates import certify
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.lattice_mechanism import draw
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.privacy.setting import Claim
from rangebound.privacy.worst import worst_under
from rangebound.release.noise.allocation import BudgetShare, demand
from rangebound.release.noise.bias import OVERSHOOTS, bias_at, clamping_bias, half_gap, rounding_bias
from rangebound.release.noise.draw import AddedNoise, Bits, Coordinates, Draw, Publisher, Reading
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.plan.statistic import Sensitivity
from rangebound.sampling.draw_plan import default_lattice, lattice_of
from rangebound.values.array_types import Floats
from rangebound.values.numeric import root_up
from rangebound.values.support import Interval, Query, Union, is_line

_MOST = 2.0**52  # steps that a true answer may be away from zero, so that doubles hold it exactly


@dataclass(frozen=True, kw_only=True)
class MechanismPublisher(Publisher):
    """Coordinates in multiples of `grain`, each published through `mechanism`; `width` of them make one of the `parts`.

    `step` is the distance of published numbers; without one the mechanism's own is taken. `level` is how often the
    interval of each coordinate holds it, at least. With `clamped` the mechanism leaves its numbers as they are, and
    they are moved into that interval when they are read: what was drawn has no bias. `whole` says that coordinates are
    multiples of the grain, so that nothing is rounded. This many numbers are made of each draw: `shared`.
    """

    mechanism: Mechanism
    grain: float
    step: float | None
    level: float
    width: int = 1
    parts: int = 1
    clamped: Interval | None = None
    whole: bool = False
    shared: int = 1

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        """Noise for every coordinate, by the mechanism's own exact draw."""
        if not truths:
            return []
        exact = np.array([[floored(each, self.grain) for each in truth] for truth in truths])
        published = self.mechanism.release(exact, step=self.step).tolist()
        width = self.width
        return [
            [tuple(group[at : at + width]) for at in range(0, self.parts * width, width) for _ in range(self.shared)]
            for group in published
        ]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether draws are points of the lattice in the support, to the last bit, and shared ones the same."""
        first = [draws[at - at % self.shared] for at in range(len(draws))]
        if any(tuple(map(repr, one)) != tuple(map(repr, two)) for one, two in zip(first, draws, strict=True)):
            return False
        shape = self.mechanism.shape
        lattice = default_lattice(self.mechanism.noise, shape) if self.step is None else lattice_of(self.step)
        return all(len(draw) == self.width for draw in draws) and all(
            any(lattice.can_give(each, span, collected=not shape.normalised) for span in shape.spans)
            for draw in draws
            for each in draw
        )

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """Noisy coordinates with their intervals, which hold together by the union bound."""
        found, mechanism = _readings(draws, self.intervals, self.clamped), self.mechanism
        if mechanism.bounding not in (Bounding.RECTIFY, Bounding.UNBOUNDED) or self.width * self.shared == 1:
            return found
        slack = (self.step or mechanism.noise.scale * 2.0**-20) + self.grain
        level = 1.0 - (1.0 - self.level) * self.width
        added = AddedNoise(noise=mechanism.noise, level=level, slack=slack)
        return [[replace(each, added=added, part=at % self.shared) for at, each in enumerate(group)] for group in found]

    def intervals(self, published: Floats) -> tuple[Floats, Floats]:
        """Intervals for the true answers behind published numbers.

        Additive noise that was clamped lies within z of the true answer with probability `level`, and so does the
        number after clamping: published +- (z + a step), inside the range. Other mechanisms are asked themselves.
        """
        mechanism, reach = self.mechanism, self.half_width
        if reach is None:
            lower, upper = mechanism.confidence_interval(published, self.level, step=self.step)
            return lower, upper
        hull = self.clamped or mechanism.query.range.hull
        return np.clip(published - reach, hull.lower, hull.upper), np.clip(published + reach, hull.lower, hull.upper)

    def bias(
        self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool
    ) -> Floats:
        """A bound on the bias at all true answers from `lower` to `upper`.

        Added noise, clamped: `clamping_bias`, and what gaps of the support and steps can move a number by. Rounding to
        the nearest multiple of a step moves it by half a step at most, but rounding symmetric noise around a multiple
        leaves it symmetric and unbiased: whole numbers with step 1 need nothing more. Rounded noise is beyond an end of
        the support by no more, on average, than noise that is not: P(noise > t) is convex in t >= 0, so its sum over
        the middles of steps is at most its integral.

        Truncated noise: at a true answer x it is noise W, given that W lies between L - x and U - x. That conditional
        mean is the bias. It rises with either end of the window, whatever the density, since a piece that is added at
        the top is above the mean and one that is taken away at the bottom is below it. As x rises both ends fall, so
        the bias falls, and |bias| is largest at an end of the interval. In a support with gaps that argument fails, and
        the root of the largest mean squared error stands for it.
        """
        mechanism, noise = self.mechanism, self.mechanism.noise
        small = 2.0**-19 * (noise.scale + (step or 0.0))  # what the default lattice, ties and quadrature can add
        floor = 0.0 if whole else self.grain  # true answers are rounded down to the grain
        if mechanism.bounding not in (Bounding.RECTIFY, Bounding.UNBOUNDED):
            if len(mechanism.shape.spans) > 1:
                own = np.full_like(lower, math.sqrt(self.mse))
            else:
                own = bias_at(mechanism, np.stack([lower, upper])).max(axis=0)
            return own + (self.step or small) / 2.0 + rounding_bias(step, self.step) + small + floor
        found = clamping_bias(lambda far: OVERSHOOTS[noise.curve](noise, far), lower, upper, support.hull)
        exact = 1.0 if whole else None
        drawn = 0.0 if self.step in (None, exact) else (self.step or 0.0) / 2.0
        return found + drawn + rounding_bias(step, self.step, exact) + half_gap(support) + small + floor

    @property
    def half_width(self) -> float | None:
        """How far the ends of an interval are from the number, for noise that is added and at most clamped."""
        family = self.mechanism.noise
        if self.mechanism.bounding not in (Bounding.RECTIFY, Bounding.UNBOUNDED):
            return None
        return (_RADII[family.curve](family, self.level) + (self.step or family.scale * 2.0**-20)) * (1.0 + 1e-12)

    @property
    def published_mechanism(self) -> Mechanism:
        """The mechanism as its numbers are published: clamped where they are clamped when they are read."""
        own, support = self.mechanism, self.clamped
        if support is None:
            return own
        query = Query(range=support, sensitivity=own.query.sensitivity)
        bounding = Bounding.UNBOUNDED if is_line(support) else Bounding.RECTIFY
        return Mechanism(noise=own.noise, query=query, support=support, bounding=bounding)

    def expected_error(self, scale: float = 1.0, form: str = "{} (root mean square)") -> str:
        """The error of one coordinate far from the ends of its range."""
        return form.format(f"{math.sqrt(self.mechanism.error(_somewhere(self.mechanism)).mse) * scale:.4g}")

    @property
    def mse(self) -> float:
        """The largest mean squared error of a published coordinate, over all true ones."""
        return _largest_error(self.published_mechanism).mse

    @property
    def mae(self) -> float:
        """The largest mean absolute error of a published coordinate, over all true ones."""
        return _largest_error(self.published_mechanism).mae

    def words(self) -> str:
        """Bounding, family and scale."""
        return self.published_mechanism._words()

    def to_dict(self) -> dict[str, object]:
        """The mechanism as plain data, without the claim it carries: a certificate states the share beside it."""
        return self.mechanism.with_claim(None).to_dict()

    def loss(self, share: BudgetShare) -> JointLoss:
        """That of the share: each group is drawn by itself. Laplace noise that is at most clamped uses no delta."""
        return replace(share, delta=0.0).apart if self._is_pure(share.epsilon) else share.apart

    def _is_pure(self, epsilon: float) -> bool:
        """Whether it is Laplace noise, clamped if at all, on the scale of the joint L1 sensitivity."""
        noise, reach = self.mechanism.noise, Fraction(self.mechanism.query.sensitivity)
        additive = not self.mechanism.shape.normalised and noise.curve is Curve.LINEAR and math.isinf(noise.extent)
        return additive and reach <= Fraction(noise.scale) * Fraction(epsilon)

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Raise if the noise was made for a smaller sensitivity than this question has, or if the claim is not proved.

        Rounding to the grain moves one coordinate by whole grains, and each of several by less than one grain more than
        the unit does. Several coordinates are private together where their noise is Laplace, clamped if at all: the
        privacy loss is then at most their joint L1 sensitivity divided by the scale.
        """
        if share.mu:
            self._check_gaussian(found, share.mu)
            return
        mechanism, several = self.mechanism, self.width * self.parts
        grain, hull, reach = Fraction(self.grain), mechanism.query.range.hull, Fraction(mechanism.query.sensitivity)
        needed = found.cell + several * grain if several > 1 else math.ceil(found.cell / grain) * grain
        if several == 1 and hull.bounded:  # true answers are clipped to the range: none are farther apart than its ends
            needed = min(needed, Fraction(hull.upper) - Fraction(hull.lower))
        demand(reach >= needed, "has a sensitivity that is too small")
        if several > 1:
            together = self._is_pure(share.epsilon)
            demand(together, "has a mechanism that is less private than it says, for its coordinates together")
        private = _is_certified(mechanism, share.epsilon, share.delta)
        demand(private, "has a mechanism that is less private than it says")

    def _check_gaussian(self, found: Sensitivity, mu: float) -> None:
        """Raise if the noise is not Gaussian, or was made for a smaller L2 sensitivity than this question has.

        Gaussian noise that is clamped, rounded or left as it is: mu-GDP with mu = distance / scale, since what is done
        with the noisy coordinates is post-processing. Truncated: no more than that. Let h(p) be the derivative of the
        trade-off curve by the location, at the quantile p of the truncated law with density f and quantile function Q:
        h = f(Q) - (1 - p) f(lower) - p f(upper) <= f(Q), in units of the scale, h(0) = h(1) = 0 and h'' = -1 / f(Q), so
        h h'' >= -1; for Gaussian noise without ends g g'' = -1. Where h / g had a largest value r > 1, h'' <= r g''
        there, that is h h'' <= -r^2 < -1. So h <= g everywhere, and all along the way from one location to another the
        curve of the truncated pair changes by no more than that of the other. All of it needs one interval: with a gap,
        truncated noise leaks more, and is refused.
        """
        noise, length = self.mechanism.noise, Fraction(self.mechanism.query.sensitivity)
        demand(noise.curve is Curve.QUADRATIC, "has noise that is not Gaussian in a Gaussian account")
        whole = not self.mechanism.shape.normalised or len(self.mechanism.shape.spans) == 1
        demand(whole, "has noise that is truncated to a support with gaps in a Gaussian account")
        distance = gaussian_length(found, 0.0 if self.whole else self.grain, self.width * self.parts)
        demand(length >= distance, "has a sensitivity that is too small")
        private = length <= Fraction(noise.scale) * Fraction(mu)
        demand(private, "has a mechanism that is less private than it says")


def gaussian_length(found: Sensitivity, grain: float, coordinates: int) -> Fraction:
    """The L2 distance of the coordinates of neighbours, once they are rounded down to the grain; rounded up.

    Rounding moves the difference of a coordinate by less than a grain, in each of this many `coordinates` of the groups
    in which neighbours differ.
    """
    moved = Fraction(found.groups * coordinates)
    return Fraction(root_up(found.square)) + Fraction(grain) * Fraction(root_up(moved))


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplacePublisher(Publisher):
    """A whole coordinate, published through discrete Laplace noise; its intervals hold at `level`.

    With `clamped` the mechanism leaves its numbers as they are, and they are moved into that interval when they are
    read: what was drawn has no bias.
    """

    mechanism: DiscreteLaplace
    level: float
    clamped: Interval | None = None

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        """Noise for the coordinate of every group."""
        if not truths:
            return []
        exact = np.array([[floored(each, 1.0) for each in truth] for truth in truths])
        return [[tuple(group)] for group in draw(self.mechanism, exact, bits).tolist()]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether every draw is one whole number in the support."""
        return all(len(draw) == 1 and self.mechanism.can_draw(draw[0]) for draw in draws)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The noisy coordinate with its interval."""
        return _readings(draws, self.intervals, self.clamped)

    def intervals(self, published: Floats) -> tuple[Floats, Floats]:
        """Intervals for the true answers behind published numbers, inside the support."""
        lower, upper = self.mechanism.confidence_interval(published, self.level)
        if self.clamped is None:
            return lower, upper
        ends = self.clamped.lower, self.clamped.upper
        return np.clip(lower, *ends), np.clip(upper, *ends)

    def bias(
        self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool
    ) -> Floats:
        """A bound on the bias at all true answers from `lower` to `upper`: `clamping_bias`, gaps and half a step.

        The noise exceeds d by e^(-d / scale) / (2 sinh(1 / scale)) on average, for d = 0, 1, 2, ...: the sum of
        P(X >= k) = r^k / (1 + r) over k > d, r = e^(-1 / scale).
        """
        rate = 1.0 / self.mechanism.scale
        most = 0.5 / math.sinh(rate) if rate < _STEEP else 0.0
        found = clamping_bias(lambda far: most * np.exp(-rate * np.floor(far)), lower, upper, support.hull)
        return found * (1.0 + 1e-12) + rounding_bias(step, None, 1.0) + half_gap(support)

    @property
    def half_width(self) -> float | None:
        """How far the ends of an interval are from the number."""
        return float(self.mechanism.reach(self.level))

    @property
    def published_mechanism(self) -> DiscreteLaplace:
        """The mechanism as its numbers are published: clamped where they are clamped when they are read."""
        return self.mechanism if self.clamped is None else replace(self.mechanism, support=self.clamped)

    @property
    def mse(self) -> float:
        """The largest mean squared error of the number, over all true ones."""
        return self.mechanism.mse

    @property
    def mae(self) -> float:
        """The largest mean absolute error of the number, over all true ones: 2 r / (1 - r^2), r = e^(-1 / scale).

        That is the error far from the ends; clamping makes it no larger.
        """
        rate = 1.0 / self.mechanism.scale
        return 1.0 / math.sinh(rate) if rate < _STEEP else 0.0

    def words(self) -> str:
        """Family and scale; published tables have these words."""
        signed = self.clamped is not None and is_line(self.clamped)
        return f"{'' if signed else 'clamped '}geometric noise, scale {self.mechanism.scale:.4g}"

    def to_dict(self) -> dict[str, object]:
        """The mechanism as plain data."""
        return self.mechanism.with_claim(None).to_dict()

    def loss(self, share: BudgetShare) -> JointLoss:
        """That of the share without its delta: each group is drawn by itself, with noise that is pure."""
        return replace(share, delta=0.0).apart

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Raise if the noise was made for a smaller sensitivity than this question has, or leaks more than it says."""
        demand(self.mechanism.sensitivity >= found.cell, "has a sensitivity that is too small")
        private = self.mechanism.is_private(share.epsilon)
        demand(private, "has a mechanism that is less private than it says")


def floored(value: Fraction, grain: float) -> float:
    """The multiple of the grain below a coordinate, exactly."""
    steps = math.floor(value / Fraction(grain))
    return float(min(max(steps, -int(_MOST)), int(_MOST))) * grain


def _readings(
    draws: Sequence[Sequence[Draw]],
    intervals: Callable[[Floats], tuple[Floats, Floats]],
    clamped: Interval | None = None,
) -> list[list[Reading]]:
    """Draws with the intervals of their numbers, which are found for all of them at once."""
    if not draws:
        return []
    found = np.array(draws)  # by group, part and coordinate
    lower, upper = intervals(found)
    values = draws if clamped is None else np.clip(found, clamped.lower, clamped.upper).tolist()
    return [
        [
            Reading(values=tuple(value), intervals=tuple(zip(low, high, strict=True)))
            for value, low, high in zip(group, lows, highs, strict=True)
        ]
        for group, lows, highs in zip(values, lower.tolist(), upper.tolist(), strict=True)
    ]


_STEEP = 700.0  # e to a larger power is not a double

# How far noise is from zero with probability `level`, or a little more: Laplace tails are above truncated ones.
# Published intervals are computed again to the last bit by the check of a certificate, so the first two cannot change.
_RADII: dict[Curve, Callable[[Noise, float], float]] = {
    Curve.LINEAR: lambda noise, level: -noise.scale * math.log1p(-level),
    Curve.QUADRATIC: lambda noise, level: noise.scale * statistics.NormalDist().inv_cdf(0.5 + level / 2),
    Curve.OTHER: lambda noise, level: noise.radius(level),
}


def _somewhere(mechanism: Mechanism) -> float:
    """A true answer far from the ends of the support, where it has any."""
    hull, far = mechanism.query.range.hull, 100.0 * mechanism.noise.scale
    if math.isinf(hull.upper):
        return 0.0 if math.isinf(hull.lower) else hull.lower + far
    return hull.upper - far if math.isinf(hull.lower) else hull.lower + (hull.upper - hull.lower) / 2


@lru_cache(maxsize=1024)
def _largest_error(mechanism: Mechanism) -> Error[float]:
    """The largest errors over all true answers."""
    if mechanism.shape.normalised or mechanism.query.range.hull.bounded:
        return mechanism.worst_error()
    return mechanism.error(_somewhere(mechanism))  # clamping at one end makes no error larger


@lru_cache(maxsize=1024)
def _is_certified(mechanism: Mechanism, epsilon: float, delta: float) -> bool:
    """Whether `rangebound.certify` proves a claim or, where it cannot decide, the enclosure of the worst case does."""
    try:
        certify(mechanism, epsilon, delta)
    except ClaimFalse:
        return False
    except Undecided:
        claim = Claim(epsilon=epsilon, delta=delta)
        return worst_under(mechanism.setting, claim).upper <= claim.limit  # also where the search did not converge
    return True
