"""Who gets which part of the budget: by weight to questions and selections, then evenly to the groups a unit is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from rangebound.ledger.amount import promised
from rangebound.numeric import rounded_down

SMALLEST = 1e-30
"""An epsilon that promises all there is to promise, and keeps every scale within the doubles."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What one unit can change: a neighbour is at most `groups` steps away, each of `cell` in L1 within one group.

    `twice` says that two of the steps may be in the same group. Then only pure mechanisms may be used: two steps of an
    (epsilon, 0)-private one cost 2 epsilon, but those of an (epsilon, delta)-private one more than 2 delta.
    `square` is the square of the L2 distance of two neighbours, over all groups together.
    """

    cell: Fraction
    groups: int
    square: Fraction
    twice: bool = False

    @property
    def total(self) -> Fraction:
        """The L1 distance of two neighbours, over all groups together."""
        return self.cell * self.groups


@dataclass(frozen=True, kw_only=True)
class BudgetShare:
    """What one number (or one selection of a key) may spend, of `parts` in each of the `groups` that a unit moves.

    A group counts twice where a replaced unit may move it by two steps of the sensitivity.

    `groups` times `parts` times (`epsilon`, `delta`) is at most the question's part of the budget. Of `epsilon`, a
    quantile spends `end` on each end of its interval, and `drawn` on itself.
    """

    epsilon: float
    delta: float
    groups: int
    parts: int
    end: float = 0.0

    @property
    def drawn(self) -> float:
        """What is left for the number itself, rounded down."""
        return rounded_down(Fraction(self.epsilon) - 2 * Fraction(self.end))


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """The shares of all questions, and of the partition selection of the blocks that need one."""

    questions: Mapping[int, BudgetShare]
    selections: Mapping[tuple[str, ...], BudgetShare]
    sensitivities: Mapping[int, Sensitivity]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a question or a selection asks for: a share by `weight`, split evenly over the numbers that a unit moves.

    `uses_delta` says whether it can use a delta, `interval_share` which part of its epsilon goes into an interval.
    """

    weight: Fraction
    groups: int
    parts: int = 1
    uses_delta: bool = False
    interval_share: float = 0.0


def split(epsilon: float, delta: float, requests: Sequence[Request]) -> list[BudgetShare]:
    """Split a budget: epsilon by weight among all requests, delta by weight among those that can use it.

    Guarantee: the shares, each times its groups and parts, add up to at most the budget, in exact arithmetic: the
    doubles, and the decimals that they print as, which are charged.

    >>> one, two = split(1.0, 1e-6, [Request(weight=Fraction(1), groups=2), Request(weight=Fraction(3), groups=1)])
    >>> one.epsilon, two.epsilon, two.delta
    (0.125, 0.75, 0.0)
    """
    total = sum((each.weight for each in requests), Fraction(0)) or Fraction(1)
    slack = sum((each.weight for each in requests if each.uses_delta), Fraction(0))
    budget = promised(epsilon), promised(delta)

    def share(each: Request) -> BudgetShare:
        times = each.groups * each.parts
        part = budget[1] * each.weight / slack / times if each.uses_delta and slack else Fraction(0)
        whole = rounded_down(budget[0] * each.weight / total / times)
        found = BudgetShare(epsilon=whole, delta=rounded_down(part), groups=each.groups, parts=each.parts)
        return replace(found, end=rounded_down(Fraction(whole) * Fraction(each.interval_share) / 2))

    return [share(each) for each in requests]


def spent(allocation: Allocation) -> tuple[Fraction, Fraction]:
    """What a unit can lose in all, exactly: at most the budget."""
    shares = [*allocation.questions.values(), *allocation.selections.values()]
    times = [each.groups * each.parts for each in shares]
    return (
        sum((Fraction(each.epsilon) * n for each, n in zip(shares, times, strict=True)), Fraction(0)),
        sum((Fraction(each.delta) * n for each, n in zip(shares, times, strict=True)), Fraction(0)),
    )
