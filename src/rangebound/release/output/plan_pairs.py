"""Two tables that a plan's numbers tell apart: a large one, and the same with one unit more.

All other units, as many as you like, have in one group as many rows as count, with the value that moves a sum most, and
so has the one that is added. So it moves every number below by all that the plan's sensitivity allows, far from the
ends of its support, where what is drawn has the law of the noise alone. The draws are published with the table, so that
what is made of them afterwards hides nothing. The losses are those of the limit, which large tables come near to.

Left out are the numbers for which such tables are not at hand: of questions with conditions or weights, with privately
selected keys, on another grouping, on columns that are made of others or joined, with bounds by periods, of all kinds
that have several coordinates, sums of columns that have keys, groupings by the unit itself, and all numbers where units
are replaced. What is left leaks no more than all of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from rangebound.accounting import Composition, compose
from rangebound.laws.boundings import QUANTIZE, UNBOUNDED
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.release.noise.allocation import Allocation
from rangebound.release.noise.form import Publisher
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.kinds.scalars import Count, CountOfUnits, Sum
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import prepared
from rangebound.values.numeric import rounded_down
from rangebound.values.query import Query
from rangebound.values.support import Grid, Interval

_LINE = Interval(-math.inf, math.inf)
_CELLS = 100  # of a rounded law on each side of the pair, at most
_REACH = 8.0  # scales: beyond that all outcomes count as one


def attained(plan: Plan, allocation: Allocation) -> Composition:
    """The noise of the numbers that one unit moves at once, as a composition: no more than the plan leaks.

    Guarantee: there are neighbouring tables whose published draws have pairs of laws that come as near as you like to
    those of these mechanisms at two answers, the sensitivity apart.
    """
    publishers = prepared(plan, allocation).publishers
    found = [_noise(publishers[index], allocation.sensitivities[index].cell) for index in _moved(plan)]
    return compose(*(each for each in found if each is not None))


def _moved(plan: Plan) -> Iterator[int]:
    """The questions whose numbers the unit moves, by their places."""
    grouping: tuple[str, ...] = ()
    ends: dict[str, tuple[float, float]] = {}
    made = {each.name for each in (*plan.made, *plan.early)}
    if plan.unit.replaced or plan.join or plan.per_unit:
        return
    for index, each in enumerate(plan.query):
        if each.conditions or plan.private(each.by) or plan.unit_of(each).period or not _is_plain(each):
            continue
        if isinstance(each, Sum):
            range_ = (each.bounds.lower, each.bounds.upper)
            column = each.column  # one with keys has the value of its group
            if column in made or plan.rule(column) or ends.setdefault(column, range_) != range_:
                continue
        grouping = grouping or each.by
        if made.isdisjoint(each.by) and plan.unit.column not in each.by and each.by in ((), grouping):
            yield index


def _is_plain(question: Kind) -> bool:
    """Whether it is a count or a sum of rows that count once, and may become as large as it likes."""
    if not isinstance(question, Count | CountOfUnits | Sum) or question.weights is not None:
        return False
    spans = question.allowed.spans
    return len(spans) == 1 and math.inf in (abs(spans[0][0]), abs(spans[0][1]))


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
