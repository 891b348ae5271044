"""Makers of publishers of noisy coordinates, which know numbers, supports and shares alone; and of public numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.laws.boundings import Bounding
from rangebound.laws.families import FAMILIES
from rangebound.laws.gaussian import Gaussian
from rangebound.laws.laplace import Laplace
from rangebound.mechanisms.calibration import calibrate
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.optimum.choice import choose
from rangebound.release.noise.allocation import BudgetShare, demand
from rangebound.release.noise.draw import Bits, Coordinates, Draw, Publisher, Reading
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher, gaussian_length
from rangebound.release.plan.fields import LINE
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values.array_types import Floats
from rangebound.values.numeric import rounded_up
from rangebound.values.support import Interval, Query, Union, is_line

_FINEST = 2.0**-20  # steps of true answers, in sensitivities
_FAR = 60.0  # scales from an end, beyond which errors change no more
_ADDITIVE = "rectify Laplace"  # its intervals have one width, whatever the number


@dataclass(frozen=True, kw_only=True)
class PublicConstant(Publisher):
    """A number that is published as the plan states it; it costs nothing.

    Guarantee: 0-private, since the table is not looked at.
    """

    value: float

    mse, half_width = 0.0, 0.0

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        return [[(self.value,)] for _ in truths]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether every draw is the number, to the last bit."""
        return all(tuple(map(repr, draw)) == (repr(self.value),) for draw in draws)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The number, with an interval of no width."""
        return [[Reading(values=draw, intervals=((draw[0], draw[0]),)) for draw in group] for group in draws]

    def bias(
        self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool
    ) -> Floats:
        """None: it is not random, and its interval is the number itself."""
        return np.zeros_like(lower)

    def words(self) -> str:
        return "no mechanism, since it is public"

    def to_dict(self) -> dict[str, object]:
        return {"public": {"value": self.value}}

    def loss(self, share: BudgetShare) -> JointLoss:
        return JointLoss()

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a number that a unit can change."""
        demand(not found.cell, "has a sensitivity that is too small")


@lru_cache(maxsize=1024)
def one_coordinate(
    support: Interval | Union,
    found: Sensitivity,
    share: BudgetShare,
    *,
    whole: bool,
    step: float | None,
    mechanism: str | None,
    confidence: float,
    unclamped: bool = False,
    additive: bool = False,
) -> Publisher:
    """The publisher of a count or a sum: the best mechanism in the support, or the named one, in multiples of `step`.

    Discrete Laplace noise is among those to choose from for a `whole` number, where the step is 1. With `unclamped` it
    is the best additive noise, drawn as it is, a whole number in whole numbers; it is moved into the support and to the
    step when it is read. `additive` says that all intervals must have one width, so that truncated noise is not among
    those to choose from.

    Guarantee: private at the share. The grain of a number that is not whole is a power of two, and what rounding to it
    adds to the sensitivity is in the noise.
    Edge cases: a named mechanism that cannot be calibrated raises `ValueError`.
    """
    grain, clamped = 1.0 if whole else _grain(found.cell), support.hull if unclamped else None
    if unclamped:
        step = 1.0 if whole else None
    if share.mu:
        own, clamped = _gaussian(support, found, share, 0.0 if whole else grain, name=mechanism)
        return MechanismPublisher(mechanism=own, grain=grain, step=step, level=confidence, clamped=clamped, whole=whole)
    support = LINE if unclamped else support
    other = None
    ends = (end for end in (support.hull.lower, support.hull.upper) if math.isfinite(end))
    exact = found.cell.denominator == 1 and all(each == math.floor(each) for each in ends)
    if whole and exact and mechanism is None and step == 1.0 and isinstance(support, Interval):
        noise = DiscreteLaplace.calibrated(sensitivity=int(found.cell), epsilon=share.epsilon, support=support)
        other = DiscreteLaplacePublisher(mechanism=noise, level=confidence, clamped=clamped)
        if additive:
            return other
    reach = rounded_up(Fraction(math.ceil(found.cell / Fraction(grain))) * Fraction(grain))
    best = _mechanism(support, reach, share.epsilon, share.delta, mechanism or (_ADDITIVE if additive else None))
    if other is not None and _no_worse(other.mse, best):
        return other
    return MechanismPublisher(
        mechanism=best, grain=grain, step=step, level=confidence, clamped=clamped, whole=whole and unclamped
    )


def _no_worse(mse: float, best: Mechanism) -> bool:
    """Whether a mean squared error is at most the largest one of a mechanism; few answers show it most often."""
    hull, far = best.query.range.hull, _FAR * best.noise.scale
    ends = [end for end in (hull.lower, hull.upper) if math.isfinite(end)] or [0.0]
    few = np.array([ends[0] - far, ends[0], 0.5 * ends[0] + 0.5 * ends[-1], ends[-1], ends[-1] + far])
    return mse <= float(best.error(few).mse.max()) or mse <= best.worst_error().mse


def joint_coordinates(
    found: Sensitivity,
    share: BudgetShare,
    *,
    support: Interval,
    width: int,
    parts: int,
    confidence: float,
    unclamped: bool = False,
    shared: int = 1,
) -> Publisher:
    """The publisher of several coordinates in `support`: Laplace noise on the scale of their joint L1 sensitivity.

    In a Gaussian account it is Gaussian noise on the scale of their joint L2 sensitivity, over all groups.

    Each of `parts` numbers is made of `width` coordinates, whose intervals hold together at `confidence`. With
    `unclamped` the noise is drawn as it is, and moved into the support when it is read. This many numbers are made of
    each draw: `shared`.

    Guarantee: all coordinates together are private at the share. The grain is a power of two, and what rounding to it
    adds to the sensitivity is in the noise.
    """
    grain, level = _grain(found.cell), 1.0 - (1.0 - confidence) / width if parts == 1 else confidence
    clamped: Interval | None = support if unclamped else None
    if share.mu:
        own, clamped = _gaussian(support, found, share, grain, coordinates=width * parts)
    else:
        reach = rounded_up(found.cell + width * parts * Fraction(grain))
        query = Query(range=LINE if unclamped else support, sensitivity=reach)
        bounding = Bounding.UNBOUNDED if is_line(query.range) else Bounding.RECTIFY
        noise = Laplace(scale=rounded_up(Fraction(reach) / Fraction(share.epsilon)))
        own = Mechanism(noise=noise, query=query, bounding=bounding)
    return MechanismPublisher(
        mechanism=own, grain=grain, step=None, level=level, width=width, parts=parts, clamped=clamped, shared=shared
    )


def _gaussian(
    support: Interval | Union,
    found: Sensitivity,
    share: BudgetShare,
    grain: float,
    *,
    name: str | None = None,
    coordinates: int = 1,
) -> tuple[Mechanism, Interval | None]:
    """Gaussian noise on the scale of the L2 distance of neighbours, over all groups and coordinates together.

    It is drawn as it is and clamped when it is read, to the interval that comes with it, unless the plan names
    truncated noise. Coordinates are rounded down to the `grain`, 0 where they are multiples of it.

    Guarantee: all numbers of the question together are mu-GDP at the share's mu; see `MechanismPublisher.check`.
    """
    truncated = name is not None and name.startswith("truncate") and not is_line(support)
    length = rounded_up(gaussian_length(found, grain, coordinates))
    own = Mechanism(
        noise=Gaussian(scale=rounded_up(Fraction(length) / Fraction(share.mu))),
        query=Query(range=support.hull if truncated else LINE, sensitivity=length),
        support=support if truncated else LINE,
        bounding=Bounding.TRUNCATE if truncated else Bounding.UNBOUNDED,
    )
    return own, None if truncated else support.hull


def _grain(sensitivity: Fraction) -> float:
    """The distance of true answers: a power of two, about a millionth of the sensitivity."""
    return 2.0 ** math.floor(math.log2(float(sensitivity))) * _FINEST


@lru_cache(maxsize=1024)
def _mechanism(support: Interval | Union, reach: float, epsilon: float, delta: float, name: str | None) -> Mechanism:
    query = Query(range=support.hull, sensitivity=reach)
    if (
        name is None
        and not support.bounded
        and isinstance(support, Interval)
        and (found := _clamped(query, epsilon, delta))
    ):
        return found
    if name is None:
        ranked = choose(query=query, epsilon=epsilon, delta=delta, support=support, objective="mse")
        return next(each.mechanism for each in ranked if isinstance(each.mechanism, Mechanism))
    bounding, _, family = name.partition(" ")
    families = {each.__name__: each for each in FAMILIES.values()}
    kind = Bounding.UNBOUNDED if is_line(support) else Bounding(bounding)
    return calibrate(noise=families[family], query=query, support=support, bounding=kind, epsilon=epsilon, delta=delta)


def _clamped(query: Query, epsilon: float, delta: float) -> Mechanism | None:
    """The mechanism with the smallest worst-case squared error on a half-line or the line, if one can be calibrated.

    It is clamped noise, so that truncated noise need not be calibrated, which takes longer. Far from the end of a
    half-line both are the noise itself, so that truncated noise needs at least the same scale. Clamping brings no
    number farther from a true one in the support: the worst case is the variance of the noise, far from the end.
    """
    bounding = Bounding.UNBOUNDED if is_line(query.range) else Bounding.RECTIFY
    found = []
    for family in FAMILIES.values():
        with suppress(Unsatisfiable, ArgumentError):
            found.append(
                calibrate(
                    noise=family, query=query, support=query.range, bounding=bounding, epsilon=epsilon, delta=delta
                )
            )
    return min(found, key=_variance, default=None)


def _variance(mechanism: Mechanism) -> float:
    """The variance of the noise."""
    line = Query(range=LINE, sensitivity=1.0)
    return float(Mechanism(noise=mechanism.noise, query=line, bounding=Bounding.UNBOUNDED).law(0.0).variance)
