"""The mechanism of every question: made from public facts alone, before any data are read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rangebound.bounding import Bounding
from rangebound.calibration import calibrate
from rangebound.choice import choose
from rangebound.discrete_laplace import Geometric, geometric
from rangebound.errors import PlanError
from rangebound.mechanism import Mechanism
from rangebound.noise import FAMILIES, Laplace
from rangebound.query import Query
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.allocation import Allocation, Share
from rangebound.release.noise.estimate import nearest
from rangebound.release.noise.public_constant import Known, known_rows
from rangebound.release.plan.model import Plan
from rangebound.release.plan.question import Count, CountUnits, RankQuestion, Sum
from rangebound.release.sql.aggregate import width
from rangebound.sampling.lattice import default_lattice, lattice_of
from rangebound.support import Interval, Union, is_line

Floats = npt.NDArray[np.float64]

_FINEST = 2.0**-20  # steps of true answers, in sensitivities
_MOST = 2.0**52  # steps that a true answer may be away from zero, so that doubles hold it exactly


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How a question's coordinates are published: true answers in multiples of `grain`, through `mechanism`.

    `step` is the distance of published numbers; without one the mechanism's own is taken.
    """

    mechanism: Mechanism | Geometric | Known
    grain: float
    step: float | None

    def truth(self, value: Fraction) -> float:
        """A coordinate as a double: the multiple of the grain below it, exactly."""
        steps = math.floor(value / Fraction(self.grain))
        return float(min(max(steps, -int(_MOST)), int(_MOST))) * self.grain

    def can_draw(self, value: float) -> bool:
        """Whether a number can be drawn at some true answer: a point of the lattice in the support, to the last bit."""
        mechanism = self.mechanism
        if not isinstance(mechanism, Mechanism):
            return mechanism.can_draw(value)
        lattice = default_lattice(mechanism.noise, mechanism.shape) if self.step is None else lattice_of(self.step)
        collected = not mechanism.shape.normalised
        return any(lattice.can_give(value, span, collected=collected) for span in mechanism.shape.spans)


def noise_for(plan: Plan, index: int, allocation: Allocation) -> Noise | None:
    """The noise of a question's coordinates; None for quantiles, which are drawn without any.

    A count or a sum has one coordinate and gets the best mechanism in range, or the one that the plan names; for counts
    geometric noise is among those to choose from. Questions
    of several coordinates get Laplace noise on the scale of their joint L1 sensitivity, clamped to where they can be.

    Guarantee: private at the question's share, for all neighbouring tables. The grain is a power of two, and what
    rounding to it adds to the sensitivity is in the noise.
    """
    question, share = plan.query[index], allocation.questions[index]
    if isinstance(question, RankQuestion):
        if not exponential.candidates(question):
            raise PlanError(
                f"query[{index}].support: holds no point of the grid; take a finer step",
                field=f"query[{index}].support",
            )
        return None
    cell = allocation.sensitivities[index].cell
    if not cell:
        assert plan.unit.size is not None
        size = nearest(float(plan.unit.size), question.allowed, question.step or 1.0)
        return Noise(mechanism=Known(value=size), grain=1.0, step=None)
    grain = 2.0 ** math.floor(math.log2(float(cell))) * _FINEST
    if isinstance(question, Count | CountUnits):
        grain = 1.0
    if isinstance(question, Count | CountUnits | Sum):
        reach = _up(Fraction(math.ceil(cell / Fraction(grain))) * Fraction(grain))
        step = question.step or (None if isinstance(question, Sum) else 1.0)
        best = _scalar(plan, question, reach, share, index)
        whole = question.mechanism is None and step == 1.0 and not isinstance(question, Sum)
        return Noise(mechanism=_whole(best, cell, share) if whole else best, grain=grain, step=step)
    several, rows = width(question, plan.unit), known_rows(question, plan.unit)
    reach = _up(cell + several * Fraction(grain))
    scale = _up(Fraction(reach) / Fraction(share.epsilon))
    return Noise(
        mechanism=Mechanism(
            noise=Laplace(scale=scale),
            query=Query(range=Interval(0.0, float(rows) if rows and several == 1 else math.inf), sensitivity=reach),
            bounding=Bounding.RECTIFY,
        ),
        grain=grain,
        step=None,
    )


@lru_cache(maxsize=1024)
def _whole(best: Mechanism, cell: Fraction, share: Share) -> Mechanism | Geometric:
    """Geometric noise, where it can be had and has the smaller error."""
    assert best.support is not None
    if not isinstance(best.support, Interval):
        return best
    other = geometric(cell, share.epsilon, best.support)
    return other if other is not None and other.mse <= best.worst_error().mse else best


def intervals(noise: Noise, published: Floats, level: float) -> tuple[Floats, Floats]:
    """Intervals for the true answers behind published numbers, each right with probability `level` at least.

    Additive noise that was clamped lies within z of the true answer with probability `level`, and so does the number
    after clamping: published +- (z + a step), inside the range. Other mechanisms are asked themselves.
    """
    mechanism = noise.mechanism
    if not isinstance(mechanism, Mechanism):
        wide, span = mechanism.reach(level), mechanism.support
        return np.clip(published - wide, span.lower, span.upper), np.clip(published + wide, span.lower, span.upper)
    family = mechanism.noise
    if mechanism.bounding not in (Bounding.RECTIFY, Bounding.UNBOUNDED):
        lower, upper = mechanism.confidence_interval(published, level, step=noise.step)
        return lower, upper
    hull = mechanism.query.range.hull
    reach = (family.radius(level) + (noise.step or family.scale * 2.0**-20)) * (1.0 + 1e-12)
    return np.clip(published - reach, hull.lower, hull.upper), np.clip(published + reach, hull.lower, hull.upper)


def _scalar(plan: Plan, question: Any, reach: float, share: Share, index: int) -> Mechanism:
    support = question.allowed
    if plan.unit.size is not None and question.support is None and not isinstance(question, Sum):
        rows = 1 if isinstance(question, CountUnits) else plan.unit.rows
        support = Interval(0.0, float(plan.unit.size * rows))
    try:
        return _made(support, reach, share.epsilon, share.delta, question.mechanism)
    except ValueError as reason:
        raise PlanError(f"query[{index}].mechanism: {reason}", field=f"query[{index}].mechanism") from None


@lru_cache(maxsize=1024)
def _made(support: Interval | Union, reach: float, epsilon: float, delta: float, name: str | None) -> Mechanism:
    query = Query(range=support.hull, sensitivity=reach)
    if name is None:
        return choose(query=query, epsilon=epsilon, delta=delta, support=support, objective="mse").best
    bounding, _, family = name.partition(" ")
    families = {each.__name__: each for each in FAMILIES.values()}
    kind = Bounding.UNBOUNDED if is_line(support) else Bounding(bounding)
    return calibrate(noise=families[family], query=query, support=support, bounding=kind, epsilon=epsilon, delta=delta)


def _up(value: Fraction) -> float:
    """The double next above, or equal."""
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)
