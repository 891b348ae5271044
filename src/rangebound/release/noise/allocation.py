"""Who gets which part of the budget: by weight to questions and selections, then evenly to the groups a unit is in.

A budget is split in one of two accounts. In plain sums every number has an (epsilon, delta), and these add up. In a
Gaussian account every part has a mu, and the squares add up [dong2022]; see `rangebound.privacy.gdp`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import lru_cache

from rangebound.errors import CertificateInvalid
from rangebound.ledger.amount import promised
from rangebound.privacy.gdp import (
    bounded_range_epsilon,
    delta_of_parts,
    epsilon_of_mu,
    is_private,
    largest_mu,
    mu_of_bounded_range,
    mu_of_pure,
    pure_epsilon,
)
from rangebound.release.noise.joint_loss import JointLoss, added_up
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values.numeric import root_down, root_up, rounded_down
from rangebound.values.roots import boundary, falling_root

SMALLEST = 1e-30
"""An epsilon or a mu that promises all there is to promise, and keeps every scale within the doubles."""
_KEPT = 1 - Fraction(1, 2**40)  # of the square of a part that is turned into an epsilon and back, each rounded
_ADDED = Fraction(1, 2)  # of delta, for parts that add a delta to that of the Gaussian account
_FINE = 2.0**-40


class LossForm(Enum):
    """What the privacy loss of a part is like, which says what it costs in a Gaussian account."""

    GAUSSIAN = "gaussian"
    """That of Gaussian noise: (L2 distance / scale)^2 for all its numbers together; also where it is truncated."""
    RANGE = "range"
    """That of an exponential mechanism: it lies in an interval of length epsilon."""
    PURE = "pure"
    """At most epsilon, but for an event of probability delta."""


@dataclass(frozen=True, kw_only=True)
class BudgetShare:
    """What one number (or one selection of a key) may spend, of `parts` in each of the `groups` that a unit moves.

    A group counts twice where a replaced unit may move it by two steps of the sensitivity; `twice` says so.

    `groups` times `parts` times (`epsilon`, `delta`) is at most the question's part of plain sums. Of `epsilon`, a
    quantile spends `end` on each end of its interval, and `drawn` on itself. With Gaussian noise in a Gaussian account,
    all numbers of the question together may spend `mu`, and `epsilon` and `delta` are 0.
    """

    epsilon: float
    delta: float
    groups: int
    parts: int
    end: float = 0.0
    mu: float = 0.0
    loss: LossForm = LossForm.PURE
    twice: bool = False

    @property
    def drawn(self) -> float:
        """What is left for the number itself, rounded down."""
        return rounded_down(Fraction(self.epsilon) - 2 * Fraction(self.end))

    @property
    def square(self) -> Fraction:
        """The square of the mu that all its numbers together have, rounded up.

        For one neighbour, `groups` times `parts` numbers differ by one step each, and squares add up. Where two steps
        may be in one group, a number there is 2 mu-GDP: 4 mu^2 in half as many groups, twice the sum.
        """
        if self.mu:
            return Fraction(self.mu) ** 2
        if self.loss is LossForm.RANGE:
            each = Fraction(mu_of_bounded_range(self.drawn)) ** 2 + 2 * Fraction(mu_of_bounded_range(self.end)) ** 2
        else:
            each = Fraction(mu_of_pure(self.epsilon)) ** 2
        return each * self.groups * self.parts * (2 if self.twice else 1)

    @property
    def apart(self) -> JointLoss:
        """What a unit can lose where every number is drawn by itself, from the exact ones of its own group alone.

        A share with an epsilon is pure but for its delta, also where its noise would be Gaussian in a Gaussian account.
        A unit moves `groups` times `parts` numbers by a step each. Where two steps may be in one group, a pure number
        there loses 2 epsilon, in half as many groups: two coins of epsilon are no more than one of 2 epsilon. Of
        numbers that several groups move at once, see `WorkloadPublisher.loss`.
        """
        numbers = self.groups * self.parts
        if self.mu:
            return JointLoss(square=self.square, epsilon=None)
        steps = 2 if self.twice else 1
        pure = self.epsilon > 0.0 and self.loss is not LossForm.RANGE
        return JointLoss(
            pure=((steps * Fraction(self.epsilon), -(-numbers // steps)),) if pure else (),
            square=self.square if self.loss is LossForm.RANGE else Fraction(0),
            delta=Fraction(self.delta) * numbers,
            epsilon=Fraction(self.epsilon) * numbers,
        )


def demand(holds: bool, otherwise: str) -> None:
    """Refuse a claim of a certificate, in these words, unless it holds."""
    if not holds:
        raise CertificateInvalid(otherwise)


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """The shares of all questions, and of the partition selection of the blocks that need one.

    `mu` is that of the Gaussian account, or 0 for plain sums. `thresholds` are the groupings whose keys are selected by
    the noisy numbers of a question: these cost a delta and no epsilon. `workloads` are the questions that one strategy
    measures together: each of them has the share that all of them have. `earlier`
    says that earlier versions drew some of the numbers otherwise, and split the budget so.
    """

    questions: Mapping[int, BudgetShare]
    selections: Mapping[tuple[str, ...], BudgetShare]
    sensitivities: Mapping[int, Sensitivity]
    mu: float = 0.0
    thresholds: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    workloads: tuple[tuple[int, ...], ...] = ()
    earlier: bool = False

    @property
    def once(self) -> dict[int, BudgetShare]:
        """The shares of all questions, that of a workload at the first of its questions alone."""
        repeated = {index for each in self.workloads for index in each[1:]}
        return {index: share for index, share in self.questions.items() if index not in repeated}

    def workload(self, index: int) -> tuple[int, ...] | None:
        """The questions that are measured together with one, and it; None where it is measured by itself."""
        return next((each for each in self.workloads if index in each), None)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a question or a selection asks for: a share by `weight`, split evenly over the numbers that a unit moves.

    `uses_delta` says whether it can use a delta, `interval_share` which part of its budget goes into an interval.
    `free` says that in a Gaussian account it needs nothing but its delta.
    `needs` is a share of fixed size, which it gets before the rest is split by weight, in place of one by weight.
    """

    weight: Fraction
    groups: int
    parts: int = 1
    uses_delta: bool = False
    interval_share: float = 0.0
    loss: LossForm = LossForm.PURE
    twice: bool = False
    free: bool = False
    needs: BudgetShare | None = None

    def share(self, epsilon: float, delta: float, end: float = 0.0) -> BudgetShare:
        """What each of its numbers may spend."""
        return BudgetShare(
            epsilon=epsilon,
            delta=delta,
            groups=self.groups,
            parts=self.parts,
            end=end,
            loss=self.loss,
            twice=self.twice,
        )


def split(epsilon: float, delta: float, requests: Sequence[Request]) -> list[BudgetShare]:
    """Split a budget in plain sums: epsilon by weight among all, delta by weight among those that can use it.

    Guarantee: the shares, each times its groups and parts, add up to at most the budget, in exact arithmetic: the
    doubles, and the decimals that they print as, which are charged.
    Edge cases: shares of fixed size that are larger than the budget raise `Overdrawn`.

    >>> one, two = split(1.0, 1e-6, [Request(weight=Fraction(1), groups=2), Request(weight=Fraction(3), groups=1)])
    >>> one.epsilon, two.epsilon, two.delta
    (0.125, 0.75, 0.0)
    """
    total = sum((each.weight for each in requests), Fraction(0)) or Fraction(1)
    deltas = _deltas(promised(delta), [each if each.uses_delta and not each.needs else None for each in requests])
    left = promised(epsilon) - fixed_epsilon(requests)
    if left < 0:
        raise Overdrawn

    def share(each: Request, own: float) -> BudgetShare:
        if each.needs:
            return each.needs
        whole = rounded_down(left * each.weight / total / (each.groups * each.parts))
        return each.share(whole, own, rounded_down(Fraction(whole) * Fraction(each.interval_share) / 2))

    return [share(each, own) for each, own in zip(requests, deltas, strict=True)]


@lru_cache(maxsize=256)
def split_gaussian(epsilon: float, delta: float, requests: tuple[Request, ...]) -> tuple[float, list[BudgetShare]]:
    """Split a budget in a Gaussian account: the square of its mu by weight; the mu, and the shares.

    A part that can lose more than any epsilon with a small probability (a partition selection, noise of limited reach)
    gets a delta by weight, of half the budget's; the rest of it is that of the Gaussian account. Where some parts are
    pure, all parts together are better than mu-GDP, and mu is larger than without them.

    Guarantee: all together are (epsilon, delta)-private. The squares add up to at most mu^2, and the losses of all
    parts, with the deltas, to at most what the budget allows: see `is_within`.
    Edge cases: without a delta there is no such account, and `ArgumentError` is raised. Shares of fixed size that are
    larger than the account raise `Overdrawn`.

    >>> same = Request(weight=Fraction(1), groups=2, loss=LossForm.GAUSSIAN)
    >>> mu, (one, two) = split_gaussian(1.0, 1e-6, (same, same))
    >>> round(mu, 4), round(one.mu * 2**0.5, 4)
    (0.2367, 0.2367)
    """
    limit, (deltas, left) = promised(epsilon), _added_deltas(delta, requests)
    mu = largest_mu(limit, left)
    fixed = fixed_square(requests)
    least = mu if Fraction(mu) ** 2 >= fixed else root_up(fixed)
    shares = _gaussian_shares(least, requests, deltas)
    if not added_up(each.apart for each in shares).parts[1]:
        if least > mu:
            raise Overdrawn
        return mu, shares

    def room(size: float) -> float:
        total, pure = added_up(each.apart for each in _gaussian_shares(size, requests, deltas)).parts
        lost = delta_of_parts(total, pure, epsilon=rounded_down(limit))
        return math.log(left) - math.log(lost) if lost else math.inf

    if room(least) < 0.0:
        raise Overdrawn
    high = 2.0 * least
    while room(high) > 0.0:
        high *= 2.0
    best = falling_root(room, least, high)
    return best, _gaussian_shares(best, requests, deltas)


def _gaussian_shares(mu: float, requests: Sequence[Request], deltas: Sequence[float]) -> list[BudgetShare]:
    """The shares of a Gaussian account of size mu; those of fixed size must fit."""
    total = sum((each.weight for each in requests if not each.free), Fraction(0)) or Fraction(1)
    rest = Fraction(mu) ** 2 - fixed_square(requests)

    def share(each: Request, own: float) -> BudgetShare:
        if each.needs:
            return each.needs
        if each.free:
            return each.share(0.0, own)
        square = rest * each.weight / total
        if each.loss is LossForm.GAUSSIAN:
            return replace(each.share(0.0, 0.0), mu=root_down(square))
        number = _KEPT * square / (each.groups * each.parts * (2 if each.twice else 1))
        if each.loss is LossForm.PURE:
            return each.share(pure_epsilon(root_down(number)), own)
        part = Fraction(each.interval_share)
        end = bounded_range_epsilon(root_down(number * part / 2))
        drawn = bounded_range_epsilon(root_down(number * (1 - part)))
        return each.share(rounded_down(Fraction(drawn) + 2 * Fraction(end)), 0.0, end)

    return [share(each, own) for each, own in zip(requests, deltas, strict=True)]


class Overdrawn(Exception):
    """Shares of fixed size are larger than what is to be split."""


def fixed_epsilon(requests: Sequence[Request]) -> Fraction:
    """What the shares of fixed size take of the epsilon of plain sums, exactly."""
    fixed = [each.needs for each in requests if each.needs]
    return sum((Fraction(each.epsilon) * each.groups * each.parts for each in fixed), Fraction(0))


def fixed_square(requests: Sequence[Request]) -> Fraction:
    """What the shares of fixed size take of the square of mu of a Gaussian account, rounded up."""
    return sum((each.needs.square for each in requests if each.needs), Fraction(0))


def gaussian_epsilon(mu: float, delta: float, requests: Sequence[Request]) -> float:
    """The smallest epsilon for which a Gaussian account of size mu is (epsilon, delta)-private, rounded up."""
    deltas, left = _added_deltas(delta, requests)
    total, pure = added_up(each.apart for each in _gaussian_shares(mu, requests, deltas)).parts
    most = epsilon_of_mu(mu, delta=rounded_down(left))
    if not pure:
        return most
    return boundary(lambda epsilon: is_private(total, epsilon, left, pure), 0.0, most, _FINE)[1]


def _added_deltas(delta: float, requests: Sequence[Request]) -> tuple[list[float], Fraction]:
    """The deltas of the parts that add one to that of a Gaussian account, and what they leave for that."""
    slack = promised(delta)
    added = [
        each if each.uses_delta and each.loss is LossForm.PURE and not each.needs and each.weight else None
        for each in requests
    ]
    deltas = _deltas(slack * _ADDED if any(added) else Fraction(0), added)
    taken = (Fraction(own) * each.groups * each.parts for own, each in zip(deltas, requests, strict=True))
    return deltas, slack - sum(taken, Fraction(0))


def _deltas(delta: Fraction, requests: Sequence[Request | None]) -> list[float]:
    """The delta of each number of some requests, by weight."""
    total = sum((each.weight for each in requests if each), Fraction(0))
    if not total:
        return [0.0] * len(requests)
    return [
        rounded_down(delta * each.weight / total / (each.groups * each.parts)) if each else 0.0 for each in requests
    ]


def is_within(loss: JointLoss, mu: float, epsilon: float, delta: float) -> bool:
    """Whether all that is drawn is proved to be within a budget, in plain sums or in a Gaussian account of size mu.

    Guarantee: decided in exact or rigorous arithmetic.
    """
    left = Fraction(delta) - loss.delta
    if not mu:
        return loss.epsilon is not None and loss.epsilon <= Fraction(epsilon) and left >= 0
    return loss.mu <= mu and left >= 0 and is_private(loss.parts[0], epsilon, left, loss.parts[1])
