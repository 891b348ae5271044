"""Discrete Laplace noise: whole-number noise for counts, clamped to a support and drawn exactly.

Rounding continuous noise to whole numbers adds a twelfth to its variance; noise that is whole from the start does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Self

from flint import arb

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.error import Error
from rangebound.mechanisms.lattice_mechanism import LatticeMechanism, whole_numbers
from rangebound.mechanisms.stair_noise import StairNoise
from rangebound.privacy.setting import Claim
from rangebound.privacy.tradeoff_curve import PairProfile
from rangebound.values import arguments
from rangebound.values.array_types import Floats, np, npt
from rangebound.values.ball import ZERO, Ball, refine, up
from rangebound.values.numeric import rounded_up
from rangebound.values.serial import number, parse_number
from rangebound.values.support import Interval, Query

_LARGEST_SCALE = 1e150
_FAR = 350.0  # from here on the error is below 1e-300
_CUTS = 2  # on either side of the best one that are looked at too

_LINE = Interval(-math.inf, math.inf)


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(LatticeMechanism):
    """A whole number plus noise X with P(X = k) proportional to e^(-|k| / scale), clamped to the ends of `support`.

    The noise is also called two-sided geometric. The true answer is a whole number, which a unit moves by at most
    `sensitivity`; it may lie outside the support.

    `claim` is what `calibrated` or `choose` made it for, or None, as for a `Mechanism`.

    Guarantee: (sensitivity / scale)-private, in pure form, since neighbouring answers differ by whole numbers and
    clamping is post-processing [ghosh2012]. Privacy numbers are exact for the clamped law and rounded to the safe side.
    Assumes: true answers are whole numbers, and the sensitivity is true.
    Edge cases: a support whose ends are not whole numbers is refused; without one, any whole number can be published.
    At a true answer outside the support, errors are those of the published number, which lies inside.

    >>> import rangebound as rb
    >>> m = rb.DiscreteLaplace(scale=2.0, sensitivity=1, support=rb.Interval(0, math.inf))
    >>> m.epsilon(), round(m.epsilon(delta=0.01), 4)
    (0.5, 0.4838)
    >>> m.release(42) >= 0.0
    True
    """

    scale: float
    sensitivity: int = 1
    support: Interval = _LINE
    claim: Claim | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", arguments.positive("scale", self.scale))
        if self.scale > _LARGEST_SCALE:
            raise ArgumentError(
                f"scale={self.scale!r}: must be at most {_LARGEST_SCALE:g}, so that every draw is a double"
            )
        arguments.instance("support", self.support, Interval, "an Interval, such as rb.Interval(0, 100)")
        if isinstance(self.sensitivity, bool) or not isinstance(self.sensitivity, int):
            raise ArgumentTypeError(f"sensitivity={arguments.shown(self.sensitivity)}: must be a whole number (int)")
        if self.sensitivity < 1:
            raise ArgumentError(
                f"sensitivity={arguments.shown(self.sensitivity)}: must be a whole number from 1; "
                "a query that no one can change needs no noise"
            )
        if any(math.isfinite(end) and end != math.floor(end) for end in (self.support.lower, self.support.upper)):
            raise ArgumentError(f"support={self.support}: must end at whole numbers, since answers are whole numbers")

    @classmethod
    def calibrated(cls, *, sensitivity: int = 1, epsilon: float, support: Interval = _LINE) -> DiscreteLaplace:
        """The mechanism with the smallest scale that is epsilon-private.

        Guarantee: sensitivity / scale <= epsilon, exactly; the next smaller double does not have that.
        Edge cases: an epsilon so small that no double is the scale is refused.

        >>> DiscreteLaplace.calibrated(sensitivity=1, epsilon=0.5, support=Interval(0, math.inf)).scale
        2.0
        """
        target = arguments.positive("epsilon", epsilon)
        scale = rounded_up(Fraction(sensitivity) / Fraction(target))
        return cls(scale=scale, sensitivity=sensitivity, support=support).with_claim(Claim(epsilon=target))

    @cached_property
    def _stairs(self) -> StairNoise:
        """The noise, in whole numbers."""
        return StairNoise(steps=1, plateau=1, levels=self.sensitivity, rate=1 / Fraction(self.scale))

    @property
    def step(self) -> float:
        """How far apart true answers are: they are whole numbers.

        >>> DiscreteLaplace(scale=1.0).step
        1.0
        """
        return 1.0

    @property
    def query(self) -> Query:
        """The question whose answers it publishes: they lie in the support, and are whole numbers.

        >>> DiscreteLaplace(scale=1.0, support=Interval(0, 9)).query.range
        Interval(lower=0.0, upper=9.0)
        """
        return Query(range=self.support, sensitivity=float(self.sensitivity))

    @property
    def _ends(self) -> tuple[float, float]:
        return self.support.lower, self.support.upper

    def _true(self, answer: npt.ArrayLike) -> Floats:
        """True answers that are whole numbers; no error shows one."""
        true = arguments.answers(answer, -math.inf, math.inf)
        if (true != np.floor(true)).any():
            raise ArgumentError("answer: must be a whole number; round it yourself, and add that to the sensitivity")
        return true

    def _index(self, answer: float) -> int:
        return int(answer)

    def _label(self, index: int) -> float:
        return min(max(float(index), self.support.lower), self.support.upper)

    def _place(self, published: float) -> int | None:
        return int(published) if self.can_draw(published) else None

    @property
    def _is_wide(self) -> bool:
        """Whether both answers of a pair fit into the support: then clamping hides nothing of the worst pair."""
        return self.support.upper - self.support.lower >= self.sensitivity

    def _attack_pairs(self, epsilon: float) -> tuple[PairProfile, ...]:
        """In a narrower support another pair is the worst at each epsilon, and all but one cut of its outcomes may go.

        Answers may lie outside of the support, so every cut is seen of some pair.
        """
        if self._is_wide:
            return super()._attack_pairs(epsilon)
        return tuple(partial(self._cut_profile, j) for j in self._stairs.near(epsilon, _CUTS))

    def _cut_profile(self, j: int, epsilon: float) -> Ball:
        """What a pair leaks of which only whether the noise of the first answer is above j is seen."""
        (above, below), t = self._stairs.cut(j), arb(epsilon).exp()
        return (1 - above - t * below).max(above - t * (1 - below)).max(1 - t).max(ZERO)

    def _known_pairs(self) -> tuple[PairProfile, PairProfile] | None:
        return None if self._is_wide else (self._attack_pairs(0.0)[0], self._attack_pairs(self.epsilon())[0])

    @property
    def _is_mirrored(self) -> bool:
        return self._is_wide

    def worst_pair(self) -> tuple[float, float]:
        """Two neighbouring true answers with the largest privacy loss: the sensitivity apart, near an end if any.

        >>> DiscreteLaplace(scale=1.0, sensitivity=3, support=Interval(0, 9)).worst_pair()
        (0.0, 3.0)
        """
        lower, upper, apart = self.support.lower, self.support.upper, float(self.sensitivity)
        start = lower if math.isfinite(lower) else upper - apart if math.isfinite(upper) else 0.0
        return start, start + apart

    @property
    def mse(self) -> float:
        """The mean squared error far from the ends: 2 r / (1 - r)^2, r = e^(-1/scale); clamping makes it no larger.

        >>> round(DiscreteLaplace(scale=1.0).mse, 6)
        1.841347
        """
        half = 0.5 / self.scale
        return 0.5 / math.sinh(half) ** 2 if half < _FAR else 0.0

    def _errors(self, true: Floats, index: Floats) -> Error[Floats]:
        """Outside the support the distance to it cannot be avoided, and of the noise only what is beyond it counts.

        P(X >= missed + k) = r^missed P(X >= k) for k >= 0, r = e^(-1/scale).
        """
        sums, (lower, upper) = self.sums, self._ends
        inside = np.clip(true, lower, upper)
        above, below = upper - inside, inside - lower
        bias, mae = sums.first(above) - sums.first(below), sums.first(above) + sums.first(below)
        missed = np.abs(true - inside)
        fade = np.exp(-missed / self.scale)
        return Error(
            bias=np.where(missed > 0.0, np.sign(inside - true) * (missed + fade * mae), bias),
            mae=missed + fade * mae,
            mse=missed**2 + 2.0 * missed * fade * mae + fade * (sums.second(above) + sums.second(below)),
        )

    def _extremes(self) -> tuple[Floats, Floats]:
        """Whole numbers of the support."""
        far = math.ceil(60.0 * self.scale) + 4.0
        ends = [end for end in (self.support.lower, self.support.upper) if math.isfinite(end)] or [0.0]
        low = self.support.lower if math.isfinite(self.support.lower) else min(ends) - far
        high = self.support.upper if math.isfinite(self.support.upper) else max(ends) + far
        found = whole_numbers(low, high)
        return found, found

    def _nodes(self) -> tuple[Floats, Floats, Floats]:
        if not self.support.bounded:
            raise ArgumentError(f"range={self.support}: must be bounded for an average over it")
        answers = self._extremes()[0]
        return answers[None], answers[None], np.append(np.diff(answers), 1.0)

    def reach(self, level: float) -> float:
        """The smallest k with |X| <= k at probability `level`, or one more: P(|X| > k) = 2 r^(k+1) / (1 + r).

        Guarantee: rounded up, at every scale.

        >>> DiscreteLaplace(scale=1.0).reach(0.95)
        3.0
        """
        r = math.exp(-1.0 / self.scale)
        near = math.ceil(-self.scale * math.log((1.0 - level) * (1.0 + r) / 2.0) - 1.0 + 1e-9)

        def exact() -> Ball:
            rate = 1 / arb(self.scale)
            return -(((1 - arb(level)) * (1 + (-rate).exp()) / 2).log()) / rate - 1

        # Published intervals have the first number, in doubles; where the scale is large these round it too low.
        return max(0.0, float(near), float(math.ceil(up(refine(exact)))))

    def _interval(self, numbers: Floats, level: float) -> tuple[Floats, Floats]:
        wide, (lower, upper) = self.reach(level), self._ends
        return np.clip(numbers - wide, lower, upper), np.clip(numbers + wide, lower, upper)

    def can_draw(self, value: float) -> bool:
        """Whether a number can be drawn: a whole one in the support; not the negative zero.

        >>> DiscreteLaplace(scale=1.0).can_draw(3.0), DiscreteLaplace(scale=1.0).can_draw(3.5)
        (True, False)
        """
        inside = math.isfinite(value) and self.support.lower <= value <= self.support.upper
        return inside and value == math.floor(value) and str(value) != "-0.0"

    def _plain(self) -> dict[str, object]:
        ends = [number(each) for each in (self.support.lower, self.support.upper)]
        return {"geometric": {"scale": self.scale, "sensitivity": self.sensitivity, "support": ends}}

    @classmethod
    def _from_plain(cls, data: Mapping[str, object]) -> Self | None:
        match data:
            case {
                "geometric": {"scale": scale, "sensitivity": sensitivity, "support": [lower, upper], **more},
                **rest,
            } if not (more or rest):
                support = Interval(parse_number(lower), parse_number(upper))
                return cls(scale=scale, sensitivity=sensitivity, support=support)
        return None
