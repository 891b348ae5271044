"""Whatever publishes a number: one protocol, and the makers, which know numbers, supports and shares alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

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
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.draw import Bits, Coordinates, Draw, Reading
from rangebound.release.noise.exponential_mechanism import QuantileGrid
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher, gaussian_length
from rangebound.release.noise.public_constant import PublicConstant
from rangebound.release.noise.quantile_publisher import QuantilePublisher
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values.array_types import Floats
from rangebound.values.numeric import rounded_up
from rangebound.values.query import Query
from rangebound.values.support import Interval, Union, is_line

_LINE = Interval(-math.inf, math.inf)
_FINEST = 2.0**-20  # steps of true answers, in sensitivities
_FAR = 60.0  # scales from an end, beyond which errors change no more
_ADDITIVE = "rectify Laplace"  # its intervals have one width, whatever the number


class Publisher(Protocol):
    """Whatever publishes the numbers of a question: it is made from public facts alone, before any data are read."""

    @property
    def width(self) -> int:
        """How many doubles a draw has."""

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        """One draw for every part of every group: the only step that sees exact coordinates.

        Guarantee: private at the share that the publisher was made for, for all neighbouring tables.
        """

    def can_draw(self, *draws: Draw) -> bool:
        """Whether these can be drawn at some true coordinates, to the last bit: those of all groups and parts."""

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """What draws say about the true coordinates, each with an interval at the publisher's confidence."""

    def bias(
        self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool
    ) -> Floats | None:
        """A bound on the bias of a coordinate that is published in `support` and rounded to `step`.

        `whole` says that true coordinates are whole numbers, and so are the ends of the support.

        Guarantee: |E[published number] - x| is at most the bound for every true x from `lower` to `upper`. None where
        none is known.
        """

    def expected_error(self, scale: float = 1.0, form: str = "{} (root mean square)") -> str:
        """How far a number may be from the exact one, in words, as far as public facts say.

        An error of a coordinate is multiplied by `scale` and put into `form`.
        """

    @property
    def mse(self) -> float:
        """The largest mean squared error of a coordinate, by which ways to split a budget are compared."""

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval of a coordinate, before it is cut to the range; None where it depends on it.

        Guarantee: no interval is wider by more than the rounding of its two ends.
        """

    def words(self) -> str:
        """The mechanism in a few words, as a table states it."""

    def to_dict(self) -> dict[str, object] | str:
        """The mechanism as plain data, as a certificate states it."""

    def loss(self, share: BudgetShare) -> JointLoss:
        """What one unit can lose by all that it draws for the groups of the unit; the share is that it was made for.

        Guarantee: holds for all neighbouring tables, if `check` accepts the share. It is what is charged and stated.
        """

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a claim that is not proved: private at `share`, where a unit moves coordinates as `found` says.

        Guarantee: raises `CertificateInvalid` unless the claim is proved, in exact or rigorous arithmetic.
        """


def public_constant(value: float) -> Publisher:
    """The publisher of a number that is public."""
    return PublicConstant(value=value)


@lru_cache(maxsize=1024)
def whole_number(
    support: Interval | Union,
    found: Sensitivity,
    share: BudgetShare,
    *,
    step: float,
    mechanism: str | None,
    confidence: float,
    unclamped: bool = False,
    additive: bool = False,
) -> Publisher:
    """The publisher of a count: the best mechanism in the support, or the named one; answers are multiples of `step`.

    Discrete Laplace noise is among those to choose from, where the step is 1. With `unclamped` it is the best additive
    noise, drawn in whole numbers as it is; it is moved into the support and to the step when it is read. `additive`
    says that all intervals must have one width, so that truncated noise is not among those to choose from.

    Guarantee: private at the share. Edge cases: a named mechanism that cannot be calibrated raises `ValueError`.
    """
    if share.mu:
        own = 1.0 if unclamped else step
        return _gaussian(support, found, share, grain=1.0, step=own, mechanism=mechanism, level=confidence, whole=True)
    sensitivity = found.cell
    reach = rounded_up(Fraction(math.ceil(sensitivity)))
    clamped = support.hull if unclamped else None
    support, step = (_LINE, 1.0) if unclamped else (support, step)
    whole = mechanism is None and step == 1.0 and isinstance(support, Interval) and _are_whole(sensitivity, support)
    if whole and isinstance(support, Interval):
        other = DiscreteLaplace.calibrated(sensitivity=int(sensitivity), epsilon=share.epsilon, support=support)
        if additive:
            return DiscreteLaplacePublisher(mechanism=other, level=confidence, clamped=clamped)
    best = _mechanism(support, reach, share.epsilon, share.delta, mechanism or (_ADDITIVE if additive else None))
    if whole and _no_worse(other.mse, best):
        return DiscreteLaplacePublisher(mechanism=other, level=confidence, clamped=clamped)
    return MechanismPublisher(mechanism=best, grain=1.0, step=step, level=confidence, clamped=clamped, whole=unclamped)


def _no_worse(mse: float, best: Mechanism) -> bool:
    """Whether a mean squared error is at most the largest one of a mechanism; few answers show it most often."""
    hull, far = best.query.range.hull, _FAR * best.noise.scale
    ends = [end for end in (hull.lower, hull.upper) if math.isfinite(end)] or [0.0]
    few = np.array([ends[0] - far, ends[0], 0.5 * ends[0] + 0.5 * ends[-1], ends[-1], ends[-1] + far])
    return mse <= float(best.error(few).mse.max()) or mse <= best.worst_error().mse


def _are_whole(sensitivity: Fraction, support: Interval) -> bool:
    """Whether the sensitivity and the ends of the support are whole numbers, as discrete Laplace noise needs them."""
    ends = (each for each in (support.lower, support.upper) if math.isfinite(each))
    return sensitivity.denominator == 1 and all(each == math.floor(each) for each in ends)


@lru_cache(maxsize=1024)
def real_number(
    support: Interval | Union,
    found: Sensitivity,
    share: BudgetShare,
    *,
    step: float | None,
    mechanism: str | None,
    confidence: float,
    unclamped: bool = False,
    additive: bool = False,
) -> Publisher:
    """The publisher of a sum: the best mechanism in the support, or the named one; `additive` as for a whole number.

    With `unclamped` it is the best additive noise, drawn as it is; it is moved into the support and to the step when it
    is read.

    Guarantee: private at the share. The grain is a power of two, and what rounding to it adds to the sensitivity is in
    the noise. Edge cases: a named mechanism that cannot be calibrated raises `ValueError`.
    """
    grain, own = _grain(found.cell), None if unclamped else step
    if share.mu:
        return _gaussian(support, found, share, grain=grain, step=own, mechanism=mechanism, level=confidence)
    reach = rounded_up(Fraction(math.ceil(found.cell / Fraction(grain))) * Fraction(grain))
    name = mechanism or (_ADDITIVE if additive else None)
    best = _mechanism(_LINE if unclamped else support, reach, share.epsilon, share.delta, name)
    clamped = support.hull if unclamped else None
    return MechanismPublisher(mechanism=best, grain=grain, step=own, level=confidence, clamped=clamped)


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
    `unclamped` the noise is drawn as it is, and moved into the support when it is read. So many numbers are made of
    each draw: `shared`.

    Guarantee: all coordinates together are private at the share. The grain is a power of two, and what rounding to it
    adds to the sensitivity is in the noise.
    """
    grain, level = _grain(found.cell), 1.0 - (1.0 - confidence) / width if parts == 1 else confidence
    if share.mu:
        made = _gaussian(support, found, share, grain=grain, step=None, level=level, width=width, parts=parts)
        return replace(made, shared=shared)
    reach = rounded_up(found.cell + width * parts * Fraction(grain))
    scale = rounded_up(Fraction(reach) / Fraction(share.epsilon))
    query = Query(range=_LINE if unclamped else support, sensitivity=reach)
    bounding = Bounding.UNBOUNDED if is_line(query.range) else Bounding.RECTIFY
    return MechanismPublisher(
        mechanism=Mechanism(noise=Laplace(scale=scale), query=query, bounding=bounding),
        grain=grain,
        step=None,
        level=level,
        width=width,
        parts=parts,
        clamped=support if unclamped else None,
        shared=shared,
    )


def quantiles(
    grid: QuantileGrid,
    levels: Sequence[float],
    sensitivity: Fraction,
    share: BudgetShare,
    *,
    confidence: float,
    ordered: bool = False,
) -> Publisher:
    """The publisher of quantiles, each by the exponential mechanism, with two more draws for its interval.

    With `ordered` the numbers of a group are put in order after they were drawn.

    Guarantee: each quantile with its interval is private at the share.
    Edge cases: a support without a point of the grid raises `ValueError`.
    """
    if not grid.candidates:
        raise ArgumentError("support: holds no point of the grid; take a finer step")
    return QuantilePublisher(
        grid=grid,
        levels=tuple(levels),
        rates=tuple(exponential.rate(level, sensitivity, share.drawn) for level in levels),
        interval_rates=tuple(exponential.rate(level, sensitivity, share.end) for level in levels) if share.end else (),
        confidence=confidence,
        interval_epsilon=share.end,
        ordered=ordered,
    )


def _gaussian(
    support: Interval | Union,
    found: Sensitivity,
    share: BudgetShare,
    *,
    grain: float,
    step: float | None,
    level: float,
    mechanism: str | None = None,
    width: int = 1,
    parts: int = 1,
    whole: bool = False,
) -> MechanismPublisher:
    """Gaussian noise on the scale of the L2 distance of neighbours, over all groups and coordinates together.

    It is drawn as it is and clamped when it is read, unless the plan names truncated noise.

    Guarantee: all numbers of the question together are mu-GDP at the share's mu; see `MechanismPublisher.check`.
    """
    truncated = mechanism is not None and mechanism.startswith("truncate") and not is_line(support)
    form = MechanismPublisher(
        mechanism=Mechanism(
            noise=Gaussian(scale=1.0), query=Query(range=_LINE, sensitivity=1.0), bounding=Bounding.UNBOUNDED
        ),
        grain=grain,
        step=step,
        level=level,
        width=width,
        parts=parts,
        clamped=None if truncated else support.hull,
        whole=whole,
    )
    length = rounded_up(gaussian_length(found, form))
    noise = Gaussian(scale=rounded_up(Fraction(length) / Fraction(share.mu)))
    query = Query(range=support.hull if truncated else _LINE, sensitivity=length)
    bounding = Bounding.TRUNCATE if truncated else Bounding.UNBOUNDED
    own = Mechanism(noise=noise, query=query, support=support if truncated else _LINE, bounding=bounding)
    return replace(form, mechanism=own)


def _grain(sensitivity: Fraction) -> float:
    """The distance of true answers: a power of two, about a millionth of the sensitivity."""
    return 2.0 ** math.floor(math.log2(float(sensitivity))) * _FINEST


@lru_cache(maxsize=1024)
def _mechanism(support: Interval | Union, reach: float, epsilon: float, delta: float, name: str | None) -> Mechanism:
    query = Query(range=support.hull, sensitivity=reach)
    if name is None and (clamped := _clamped(query, support, epsilon, delta)):
        return clamped
    if name is None:
        ranked = choose(query=query, epsilon=epsilon, delta=delta, support=support, objective="mse")
        return next(each.mechanism for each in ranked if isinstance(each.mechanism, Mechanism))
    bounding, _, family = name.partition(" ")
    families = {each.__name__: each for each in FAMILIES.values()}
    kind = Bounding.UNBOUNDED if is_line(support) else Bounding(bounding)
    return calibrate(noise=families[family], query=query, support=support, bounding=kind, epsilon=epsilon, delta=delta)


def _clamped(query: Query, support: Interval | Union, epsilon: float, delta: float) -> Mechanism | None:
    """The mechanism with the smallest worst-case squared error on a half-line or the line; None on other supports.

    It is clamped noise, so that truncated noise need not be calibrated, which takes longer. Far from the end of a
    half-line both are the noise itself, so that truncated noise needs at least the same scale. Clamping brings no
    number farther from a true one in the support: the worst case is the variance of the noise, far from the end.
    """
    if support.bounded or not isinstance(support, Interval):
        return None
    bounding = Bounding.UNBOUNDED if is_line(support) else Bounding.RECTIFY
    found = []
    for family in FAMILIES.values():
        with suppress(Unsatisfiable, ArgumentError):
            found.append(
                calibrate(noise=family, query=query, support=support, bounding=bounding, epsilon=epsilon, delta=delta)
            )
    return min(found, key=_variance, default=None)


def _variance(mechanism: Mechanism) -> float:
    """The variance of the noise."""
    line = Query(range=_LINE, sensitivity=1.0)
    return float(Mechanism(noise=mechanism.noise, query=line, bounding=Bounding.UNBOUNDED).law(0.0).variance)
