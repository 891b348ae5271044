"""Accuracy first: the share that a margin needs, and the smallest epsilon with which all margins of a plan are met.

A margin is half the width of an interval, and follows from the noise alone: it says which noise is needed, and so which
part of the account. None of it depends on the plan's epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from rangebound.errors import PlanError
from rangebound.release.noise.allocation import (
    SMALLEST,
    BudgetShare,
    LossForm,
    Request,
    fixed_epsilon,
    fixed_square,
    gaussian_epsilon,
)
from rangebound.release.noise.draw import Columns
from rangebound.release.noise.forms import form_of
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.statistic import Sensitivity
from rangebound.release.plan.unit import Unit
from rangebound.values.numeric import root_up, rounded_up
from rangebound.values.roots import boundary

LARGEST = 100.0
"""The largest epsilon that a plan may have."""
_CLOSE = 2.0**-30  # relative: a share is that near to the smallest one
_STEPS = 3


class Unmet(Exception):
    """A margin that cannot be met in an account, whatever its size; `field` is the one at fault."""

    def __init__(self, words: str, field: str) -> None:
        super().__init__(words)
        self.field = field

    def error(self) -> PlanError:
        """The same as an error of a plan."""
        return PlanError(str(self), field=self.field)


def needed(
    question: Kind,
    unit: Unit,
    found: Sensitivity,
    request: Request,
    *,
    level: float,
    columns: Columns,
    gaussian: bool,
) -> BudgetShare:
    """The smallest share with which half the width of a question's interval is at most its margin.

    In plain sums it is an epsilon for each number, without a delta; in a Gaussian account the mu of all its numbers
    together or, for a named mechanism that is pure, again an epsilon.

    Guarantee: the intervals of the share that is returned are no wider; one that is smaller by a billionth has wider
    ones, since the width falls as the share grows.
    Edge cases: a margin that no share meets, up to 100 in epsilon or in mu, raises `Unmet`; so does a mechanism that
    cannot be calibrated in this account.

    >>> from rangebound.release.plan.kinds.scalars import Count
    >>> question, request = Count(name="visits", margin=25.0), Request(weight=Fraction(0), groups=1)
    >>> one = Sensitivity(cell=Fraction(1), groups=1, square=Fraction(1))
    >>> round(needed(question, Unit(), one, request, level=0.95, columns=(), gaussian=False).epsilon, 4)
    0.1174
    """
    nameless = question.model_copy(update={"name": ""})  # many questions differ by their names alone
    return _needed(nameless, unit, found, request, level, columns, gaussian)


@lru_cache(maxsize=1024)
def _needed(
    question: Kind,
    unit: Unit,
    found: Sensitivity,
    request: Request,
    level: float,
    columns: Columns,
    gaussian: bool,
) -> BudgetShare:
    assert question.margin is not None
    form, margin = form_of(question, unit), question.margin
    of_all = gaussian and form.loss is LossForm.GAUSSIAN

    def share(size: float) -> BudgetShare:
        return replace(request.share(0.0, 0.0), mu=size) if of_all else request.share(size, 0.0)

    def half_width(size: float) -> float:
        try:
            publisher = form.publisher(found, share(size), level=level, columns=columns)
            width = form.half_width(publisher)
        except PlanError as reason:
            raise Unmet(str(reason), field=reason.field) from None
        assert width is not None  # a kind that has none refuses a margin
        return width

    near = _near(half_width, margin) if question.together else None
    if near is not None:
        return share(boundary(lambda size: half_width(size) <= margin, *near, _CLOSE)[1])
    high = 1.0
    while half_width(high) > margin:
        if high >= LARGEST:
            raise Unmet(
                f"margin={margin:g}: cannot be met; at {'mu' if of_all else 'epsilon'} {LARGEST:g} for "
                f"{'all its numbers' if of_all else 'each number'} half the width of an interval is still "
                f"{half_width(LARGEST):.4g}",
                field="margin",
            )
        high = min(2.0 * high, LARGEST)
    low = high / 2.0
    while low > SMALLEST and half_width(low) <= margin:
        low, high = low / 2.0, low
    return share(boundary(lambda size: half_width(size) <= margin, low, high, _CLOSE)[1])


def _near(half_width: Callable[[float], float], margin: float) -> tuple[float, float] | None:
    """Two shares near each other, of which the larger meets a margin and the smaller does not; None if none is found.

    The noise of a strategy is nearly proportional to 1 / share, so a few steps find it; each makes a whole strategy.
    """
    size = 1.0
    for _ in range(_STEPS):
        size = min(max(size * half_width(size) / margin, SMALLEST), LARGEST)
    for slack in (_CLOSE / 2.0, 2.0**-20, 2.0**-10):
        low, high = size * (1.0 - slack), size * (1.0 + slack)
        if high <= LARGEST and half_width(high) <= margin < half_width(low):
            return low, high
    return None


def smallest_epsilon(requests: Sequence[Request], delta: float, rest: Fraction, *, gaussian: bool) -> float:
    """The smallest epsilon at which the shares of fixed size leave the part `rest` of the account, rounded up.

    In plain sums their epsilons add up. In a Gaussian account the squares of their mu do, and the profile of all parts
    together at delta says the epsilon.

    >>> share = BudgetShare(epsilon=0.25, delta=0.0, groups=2, parts=1)
    >>> fixed = Request(weight=Fraction(0), groups=2, needs=share)
    >>> smallest_epsilon([fixed, fixed], 0.0, Fraction(0), gaussian=False)
    1.0
    """
    if not gaussian:
        return rounded_up(fixed_epsilon(requests) / (1 - rest))
    mu = root_up(fixed_square(requests) / (1 - rest))
    return gaussian_epsilon(mu, delta, requests) if delta else math.inf


def even_rest(requests: Sequence[Request]) -> Fraction:
    """The part of what has no margin, questions and partition selections: that of its number among all that cost."""
    others = sum(each.needs is None and each.weight > 0 for each in requests)
    return Fraction(others, others + sum(each.needs is not None for each in requests) or 1)
