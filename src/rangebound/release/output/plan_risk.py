"""What all numbers of a plan cost together: in the terms of several definitions, and as what an attacker gains.

What it costs at least is shown by two tables that the plan's numbers tell apart: a large one, and the same with one
unit more. All other units, as many as you like, have in one group as many rows as count, with the value that moves a
sum most, and so has the one that is added. So it moves every number below by all that the plan's sensitivity allows,
far from the ends of its support, where what is drawn has the law of the noise alone. The draws are published with the
table, so that what is made of them afterwards hides nothing. The losses are those of the limit, which large tables come
near to.

Left out are the numbers for which such tables are not at hand: of questions with conditions or weights, with privately
selected keys, on another grouping, on columns that are made of others or joined, with bounds by periods, of all kinds
that have several coordinates, sums of columns that have keys, groupings by the unit itself, and all numbers where units
are replaced. What is left leaks no more than all of it.

Last, how far its numbers are above the least error that any private mechanism can have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, partial

from rangebound.accounting import Composition, compose
from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.laws.boundings import QUANTIZE, UNBOUNDED
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.optimum.limit_proof import LimitedError, Over
from rangebound.optimum.lower_limit import proved
from rangebound.privacy.attack_risk import ProfileRisk, guaranteed, odds
from rangebound.privacy.gdp import rho_of_mu
from rangebound.privacy.tradeoff_curve import Profile
from rangebound.release.noise.draw import Publisher
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher
from rangebound.release.noise.table_publisher import TablePublisher
from rangebound.release.plan.kinds.facts import OneCoordinate
from rangebound.release.plan.kinds.scalars import Count, CountOfUnits, Sum
from rangebound.release.plan.unit import Unit
from rangebound.release.prepare import Prepared
from rangebound.values import arguments
from rangebound.values.numeric import rounded_down, rounded_up
from rangebound.values.support import Grid, Interval, Query

_LINE = Interval(-math.inf, math.inf)
_CELLS = 100  # of a rounded law on each side of the pair, at most
_REACH = 8.0  # scales: beyond that all outcomes count as one


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Conversions:
    """One privacy guarantee, stated in several ways, each true by itself.

    All parts together are `mu`-GDP and `rho`-zCDP, but for events of probability `added_delta`. `deltas` has the delta
    at half, once and twice the plan's epsilon. `gaussian` says that the budget was split in a Gaussian account.

    Guarantee: every number is rounded up.
    """

    gaussian: bool
    epsilon: float
    delta: float
    mu: float
    rho: float
    added_delta: float
    deltas: tuple[tuple[float, float], ...]

    def to_dict(self) -> dict[str, object]:
        """The same as plain data; `account` names the way in which the budget was split."""
        facts = {name: value for name, value in asdict(self).items() if name not in ("gaussian", "deltas")}
        deltas = [{"epsilon": epsilon, "delta": delta} for epsilon, delta in self.deltas]
        return {"account": "gaussian" if self.gaussian else "sums", **facts, "deltas": deltas}

    def __str__(self) -> str:
        deltas = ", ".join(f"{up(delta)} at epsilon {up(epsilon)}" for epsilon, delta in self.deltas)
        but = f", but for events of probability {up(self.added_delta)}" if self.added_delta else ""
        account = "One Gaussian account" if self.gaussian else "Plain sums of epsilon and delta"
        return f"{account}: {self.brief()}{but}; delta is {deltas}."

    def brief(self) -> str:
        """Mu and rho in a few words."""
        return f"mu {up(self.mu)} (rho {up(self.rho)} of zCDP)"


def up(value: float) -> str:
    """A cost as text, in four digits, rounded up."""
    return arguments.upwards(value, 4)


def conversions(ready: Prepared) -> Conversions:
    """What a plan that was made ready costs, in the terms of several definitions.

    Mu is that of `JointLoss`, also in plain sums. A delta is that of `account_profile`.

    >>> from rangebound.release import parse_plan
    >>> from rangebound.release.prepare import prepare
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> print(conversions(prepare(plan)).brief())
    mu 1.233 (rho 0.7591 of zCDP)
    """
    epsilon, delta, at = ready.plan.budget.epsilon, ready.plan.budget.delta, account_profile(ready)
    return Conversions(
        gaussian=bool(ready.allocation.mu),
        epsilon=epsilon,
        delta=delta,
        mu=ready.loss.mu,
        rho=rho_of_mu(ready.loss.mu),
        added_delta=rounded_up(ready.loss.delta),
        deltas=tuple((each, at(each)) for each in (epsilon / 2.0, epsilon, 2.0 * epsilon)),
    )


def account_profile(ready: Prepared) -> Profile:
    """The delta of all that is drawn together, at every epsilon.

    It is that of `JointLoss`, and no more than what its epsilon and delta allow by themselves.

    Guarantee: rounded up, for all pairs of neighbours.
    """
    bare = _bare(ready)
    return lambda epsilon: min(ready.loss.delta_at(epsilon), bare.profile(epsilon))


def _bare(ready: Prepared) -> ProfileRisk:
    """What the epsilon and the delta of all of it allow: the budget's, or in plain sums what they add up to."""
    budget, loss = ready.plan.budget, ready.loss
    if ready.allocation.mu or loss.epsilon is None:
        return guaranteed(budget.epsilon, budget.delta)
    return guaranteed(rounded_up(loss.epsilon), rounded_up(loss.delta))


class _PlanRisk(ProfileRisk):
    """The risk of a plan: its mu is that of `JointLoss`, which is charged and stated everywhere."""

    def _smallest_mu(self) -> tuple[float, float]:
        return (self.mu, 0.0) if math.isfinite(self.mu) else super()._smallest_mu()


def risk_of(ready: Prepared) -> ProfileRisk:
    """The attack risk of all numbers of a plan together; see `plan_risk`."""
    below = cache(partial(attained, ready))
    return _PlanRisk(
        profile=account_profile(ready),
        pure=_bare(ready).pure,
        mu=math.inf if ready.loss.delta else ready.loss.mu,
        pairs=lambda epsilon: below()._attack_pairs(epsilon),
        pure_below=lambda: below()._attack_pure_below(),
    )


def advantage_odds(unit: Unit, advantage: float) -> str:
    """An advantage in one sentence, for every reader of a plan or a report."""
    crowd = "owners of rows" if unit.column else "rows"
    secret = "one of two candidates" if unit.replaced else "in the data or not"
    return odds(advantage, crowd, secret)


def attained(ready: Prepared) -> Composition:
    """The noise of the numbers that one unit moves at once, as a composition: no more than the plan leaks.

    Guarantee: there are neighbouring tables whose published draws have pairs of laws that come as near as you like to
    those of these mechanisms at two answers, the sensitivity apart.
    """
    found = [_noise(ready.publishers[at], ready.allocation.sensitivities[at].cell) for at in _moved(ready)]
    return compose(*(each for each in found if each is not None))


def _moved(ready: Prepared) -> Iterator[int]:
    """The questions whose numbers the unit moves, by their places."""
    plan = ready.plan
    grouping: tuple[str, ...] = ()
    ends: dict[str, tuple[float, float]] = {}
    made = {each.name for each in (*plan.made, *plan.early)}
    if plan.unit.replaced or plan.join or plan.per_unit:
        return
    for index, each in enumerate(plan.query):
        free = len(each.allowed.spans) == 1 and math.inf in map(abs, each.allowed.spans[0])  # it may become large
        plain = isinstance(each, Count | CountOfUnits | Sum) and each.weights is None and not each.conditions
        if not plain or not free or plan.private(each.by) or plan.unit_of(each).period:
            continue
        if isinstance(each, Sum):
            range_ = (each.bounds.lower, each.bounds.upper)
            column = each.column  # one with keys has the value of its group
            if column in made or plan.rule(column) or ends.setdefault(column, range_) != range_:
                continue
        grouping = grouping or each.by
        if made.isdisjoint(each.by) and plan.unit.column not in each.by and each.by in ((), grouping):
            yield index


def _noise(publisher: Publisher, cell: Fraction) -> Mechanism | DiscreteLaplace | None:
    """The noise far from the ends of the support, at two answers that a unit's rows part; None for other publishers."""
    if isinstance(publisher, DiscreteLaplacePublisher):
        return replace(publisher.mechanism, support=_LINE)
    if not isinstance(publisher, MechanismPublisher) or publisher.width * publisher.parts * publisher.shared != 1:
        return None
    grain, noise, step = Fraction(publisher.grain), publisher.mechanism.noise, publisher.step
    apart = rounded_down(cell if cell % grain == 0 else cell - grain)  # both answers are rounded to the grain
    if apart <= 0.0:
        return None
    if step is None:
        return Mechanism(noise=noise, query=Query(range=_LINE, sensitivity=apart), bounding=UNBOUNDED)
    if apart % step:
        return None
    # Rounded to multiples of the step, and then to those of an odd number of steps: each cell is made of whole ones.
    wide = step * (2 * math.ceil(_REACH * noise.scale / step / _CELLS / 2) + 1)
    if apart % wide:
        wide = step
    reach = wide * min(math.ceil(_REACH * noise.scale / wide), _CELLS)
    points = Grid(step=wide, within=Interval(-reach, apart + reach))
    query = Query(range=Interval(0.0, apart), sensitivity=apart)
    return Mechanism(noise=noise, query=query, support=points, bounding=QUANTIZE)


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
    whole = question.is_whole
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
