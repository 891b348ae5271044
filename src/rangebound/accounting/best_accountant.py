"""The best of three accountants: the smallest upper bound of privacy loss, Renyi and the adaptive recursion."""

from __future__ import annotations

from dataclasses import dataclass

from rangebound.accounting import adaptive_accountant, renyi
from rangebound.accounting.adaptive_accountant import Progress
from rangebound.accounting.event import Event
from rangebound.accounting.pld import accountant
from rangebound.values.numeric import Enclosure


@dataclass(frozen=True, kw_only=True)
class EveryAccountant:
    """What each accountant proves about one number: `pld` encloses it, `renyi` and `adaptive` are upper bounds.

    Where the adaptive recursion has nothing to add, `adaptive` is the smaller one of the two others.
    """

    pld: Enclosure
    renyi: float
    adaptive: float

    @property
    def best(self) -> Enclosure:
        """The lower bound of the privacy-loss accountant and the smallest upper bound.

        >>> EveryAccountant(pld=Enclosure(lower=1.0, upper=1.5), renyi=1.25, adaptive=1.125).best
        Enclosure(lower=1.0, upper=1.125)
        """
        upper = min(self.pld.upper, self.renyi, self.adaptive)
        return Enclosure(lower=min(self.pld.lower, upper), upper=upper)


def epsilon(event: Event, delta: float, progress: Progress | None = None) -> Enclosure:
    """The epsilon of a composition at delta, by the best accountant.

    Guarantee: the upper bound holds for all neighbouring datasets and adaptive choices; the lower bound is what some
    pair of answers leaks.
    Assumes: as for `rangebound.accounting.pld.accountant.delta`.
    Edge cases: delta = 0 adds up the pure epsilons; `inf` where no epsilon is enough.

    >>> import rangebound as rb
    >>> from rangebound.accounting import MechanismEvent
    >>> count = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=count)
    >>> found = epsilon(MechanismEvent(mechanism=m, times=100), 1e-6)
    >>> 71 < found.lower <= found.upper < 73
    True
    """
    pld = accountant.epsilon(event, delta)
    by_renyi = renyi.epsilon_within(event, delta, pld.upper)
    return _every_epsilon(event, delta, pld, by_renyi, progress).best


def delta(event: Event, epsilon: float, progress: Progress | None = None) -> Enclosure:
    """The delta of a composition at epsilon, by the best accountant.

    Guarantee: as for `epsilon`.
    Assumes: as for `rangebound.accounting.pld.accountant.delta`.
    Edge cases: 0 from the sum of the pure epsilons on.

    >>> import rangebound as rb
    >>> from rangebound.accounting import MechanismEvent
    >>> count = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=count)
    >>> 0.0 < delta(MechanismEvent(mechanism=m, times=100), 73.0).upper < 1e-6
    True
    """
    return every_delta(event, epsilon, progress).best


def every_epsilon(event: Event, delta: float, progress: Progress | None = None) -> EveryAccountant:
    """The epsilon at delta as each accountant has it, for a comparison; `epsilon` takes less time."""
    return _every_epsilon(event, delta, accountant.epsilon(event, delta), renyi.epsilon(event, delta), progress)


def every_delta(event: Event, epsilon: float, progress: Progress | None = None) -> EveryAccountant:
    """The delta at epsilon as each accountant has it."""
    pld, by_renyi = accountant.delta(event, epsilon), renyi.delta(event, epsilon)
    adaptive = adaptive_accountant.delta_within(event, epsilon, pld.lower, min(pld.upper, by_renyi), progress)
    return EveryAccountant(pld=pld, renyi=by_renyi, adaptive=adaptive)


def _every_epsilon(
    event: Event, delta: float, pld: Enclosure, by_renyi: float, progress: Progress | None
) -> EveryAccountant:
    known = min(pld.upper, by_renyi)
    adaptive = adaptive_accountant.epsilon_within(event, delta, min(pld.lower, known), known, progress)
    return EveryAccountant(pld=pld, renyi=by_renyi, adaptive=adaptive)
