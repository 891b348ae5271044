"""How far the numbers of a plan are above the least error that any private mechanism can have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.optimum.limit_proof import LimitedError, Over
from rangebound.optimum.lower_limit import proved
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher
from rangebound.release.noise.table_publisher import TablePublisher
from rangebound.release.plan.kinds.kind import OneCoordinate
from rangebound.release.plan.kinds.whole_kind import WholeKind
from rangebound.release.prepare import Prepared
from rangebound.values.numeric import rounded_down, rounded_up
from rangebound.values.query import Query
from rangebound.values.support import Grid, Interval

_INPUTS = 81
_FINEST = 16  # inputs to a sensitivity
_WIDE, _LEAST_WIDE = 30, 4  # noise units and sensitivities of the part of a range that a limit is proved over
_LARGEST = 10.0  # epsilon: with more, errors are next to 0, and proofs take long
_PROOFS = 4  # of one plan, each of which takes less than a second
_LEAST = Fraction(1, 10**12)  # of a limit, for its product with a step


@dataclass(frozen=True, kw_only=True)
class LimitedMean:
    """The worst-case mean absolute error of a question's numbers beside the proved limit, in units of a coordinate.

    `above` is the error over the limit, less 1, rounded up. Without a limit, `reason` says why.
    """

    error: float = math.nan
    limit: float | None = None
    reason: str = ""

    @property
    def above(self) -> float | None:
        """How far the error is above the limit, as a part of it, rounded up; None without a limit."""
        if self.limit is None:
            return None
        return max(rounded_up(Fraction(self.error) / Fraction(self.limit) - 1), 0.0)

    def words(self) -> str:
        """The comparison in a line."""
        if self.above is None:
            return f"no limit: {self.reason}"
        part = percent(self.above)
        return f"limit: at most {part} above the least worst-case mean absolute error of any private mechanism"


@dataclass(frozen=True)
class LimitProblem:
    """A limit to prove: `count` true answers one unit apart, neighbours at most `reach` of them apart."""

    count: int
    reach: int
    epsilon: float


def plan_limits(ready: Prepared) -> tuple[LimitedMean, ...]:
    """The comparison for every question of a plan, in its order; touches no data.

    A limit is proved for questions whose number is made of one coordinate with a pure epsilon: over a part of its range
    where that is wide, and at fewer true answers than there are, both of which make it lower and leave it true. So
    does to take true answers m sensitivities apart as neighbours at m epsilon, where epsilon is small.

    Guarantee: no mechanism that spends as much on such a number has a smaller worst-case mean absolute error than the
    limit. Edge cases: limits are proved for the first four different shares and ranges of a plan.
    """
    known: set[LimitProblem] = set()
    return tuple(_limited(ready, index, known) for index in range(len(ready.plan.query)))


def _limited(ready: Prepared, index: int, known: set[LimitProblem]) -> LimitedMean:
    """The comparison for one question; `known` are the limits that were proved for others."""
    question, publisher = ready.plan.query[index], ready.publishers[index]
    reason = _no_limit(ready, index)
    if reason:
        return LimitedMean(reason=reason)
    one = question.one_coordinate(ready.plan.unit_of(question))
    assert one is not None
    sensitivity, epsilon = ready.allocation.sensitivities[index].cell, ready.allocation.questions[index].epsilon
    problem, step = limit_problem(one, sensitivity, epsilon)
    if problem not in known and len(known) == _PROOFS:
        return LimitedMean(reason=f"{_PROOFS} others of this plan were proved, and each takes time")
    known.add(problem)
    assert isinstance(publisher, (DiscreteLaplacePublisher, MechanismPublisher, TablePublisher))
    try:
        least = _proved(problem)
    except (ArgumentError, Unsatisfiable):
        return LimitedMean(reason="none could be proved at this epsilon")
    if not least > 0.0:
        return LimitedMean(reason="the proved limit is 0")
    return LimitedMean(error=publisher.mae, limit=rounded_down(Fraction(least) * step * (1 - _LEAST)))


def _no_limit(ready: Prepared, index: int) -> str:
    """Why no limit is proved for a question; empty where one may be."""
    question, share = ready.plan.query[index], ready.allocation.questions[index]
    if not ready.allocation.sensitivities[index].cell:
        return "the number is public, and has no error"
    if question.one_coordinate(ready.plan.unit_of(question)) is None:
        return question.no_limit
    if share.mu or ready.allocation.workload(index) is not None:
        return "it is proved for pure privacy, and the noise is Gaussian"
    if share.delta:
        return "it is proved for pure privacy, and the share has a delta"
    whole = isinstance(question, WholeKind) and question.is_whole
    moved = question.step not in (None, 1.0 if whole else None) or len(question.allowed.spans) > 1
    if moved and not isinstance(ready.publishers[index], TablePublisher):
        return "numbers are rounded to a step or moved out of gaps after they were drawn"
    if share.epsilon > _LARGEST:
        return f"none is proved above epsilon {_LARGEST:g}, where errors are next to 0"
    return ""


def limit_problem(one: OneCoordinate, sensitivity: Fraction, epsilon: float) -> tuple[LimitProblem, Fraction]:
    """The problem whose limit, times the distance of true answers, is a lower bound on the error of a coordinate.

    True answers h apart, h <= D, that are at most floor(D / h) of them apart, are neighbours. Where this many of them
    would not span the range, or as much of it as matters, h is m D: answers m sensitivities apart are joined by m steps
    in the range, so a mechanism is m epsilon-private for these.

    >>> whole = OneCoordinate(range=Interval(0, 20), whole=True, support=Interval(0, 20))
    >>> limit_problem(whole, Fraction(2), 1.0)
    (LimitProblem(count=21, reach=2, epsilon=1.0), Fraction(1, 1))
    >>> counts = OneCoordinate(range=Interval(0, math.inf), whole=True, support=Interval(0, math.inf))
    >>> limit_problem(counts, Fraction(1), 0.1)
    (LimitProblem(count=75, reach=1, epsilon=0.4), Fraction(4, 1))
    """
    wide = sensitivity * max(Fraction(_LEAST_WIDE), _WIDE / Fraction(epsilon))
    if one.range.bounded:
        width = Fraction(one.range.upper) - Fraction(one.range.lower)
        wide, sensitivity = min(wide, width), min(sensitivity, width)
    steps = (_INPUTS - 1) * sensitivity / wide
    if steps < 1:
        times = math.ceil(1 / steps)
        step = times * sensitivity
        return LimitProblem(int(wide // step) + 1, 1, rounded_up(times * Fraction(epsilon))), step
    step = sensitivity / min(math.floor(steps), _FINEST)
    if one.whole:
        step = _whole_step(sensitivity, step, wide)
    return LimitProblem(min(int(wide // step) + 1, _INPUTS), int(sensitivity // step), epsilon), step


def _whole_step(sensitivity: Fraction, step: Fraction, wide: Fraction) -> Fraction:
    """A whole number near a step, with which true answers span most of the range and neighbours most of a sensitivity.

    >>> _whole_step(Fraction(20), Fraction(20, 16), Fraction(100))
    Fraction(2, 1)
    """
    parts = (Fraction(math.floor(sensitivity / each)) for each in range(1, _FINEST + 1))
    near = {Fraction(math.floor(step)), Fraction(math.ceil(step)), *parts} - {Fraction(0)}

    def spanned(each: Fraction) -> Fraction:
        return min((_INPUTS - 1) * each / wide, Fraction(1)) * (sensitivity // each * each / sensitivity)

    return min(near, key=lambda each: (-spanned(each), each))


@lru_cache(maxsize=256)
def _proved(problem: LimitProblem) -> float:
    """The proved limit on the worst-case mean absolute error, in units of the distance of true answers."""
    answers = Grid(step=1.0, within=Interval(0.0, float(problem.count - 1)))
    query = Query(range=answers, sensitivity=float(problem.reach))
    return proved(query, problem.epsilon, LimitedError.MAE, Over.WORST).value


def percent(above: float) -> str:
    """A part as percent, rounded up: with one decimal below 10, without one from there on."""
    tenths = math.ceil(Fraction(above) * 1000)
    return f"{tenths / 10:.1f} %" if tenths < 100 else f"{math.ceil(Fraction(above) * 100)} %"
