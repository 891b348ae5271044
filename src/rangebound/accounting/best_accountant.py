"""The better of the two accountants: the smaller upper bound of privacy loss and Renyi."""

from __future__ import annotations

from dataclasses import dataclass

from rangebound.accounting import renyi
from rangebound.accounting.enclosure import Enclosure
from rangebound.accounting.event import Event
from rangebound.accounting.pld import accountant


@dataclass(frozen=True, kw_only=True)
class BothAccountants:
    """What each accountant proves about one number: `pld` encloses it, `renyi` is an upper bound."""

    pld: Enclosure
    renyi: float

    @property
    def better(self) -> Enclosure:
        """The lower bound of the privacy-loss accountant and the smaller upper bound of the two.

        >>> BothAccountants(pld=Enclosure(lower=1.0, upper=1.5), renyi=1.25).better
        Enclosure(lower=1.0, upper=1.25)
        """
        upper = min(self.pld.upper, self.renyi)
        return Enclosure(lower=min(self.pld.lower, upper), upper=upper)


def epsilon(event: Event, delta: float) -> Enclosure:
    """The epsilon of a composition at delta, by the better accountant.

    Guarantee: the upper bound holds for all neighbouring datasets and adaptive choices; the lower bound is what some
    pair of answers leaks.
    Assumes: as for `rangebound.accounting.pld.accountant.delta`.
    Edge cases: delta = 0 adds up the pure epsilons; `inf` where no epsilon is enough.

    >>> import rangebound as rb
    >>> from rangebound.accounting import MechanismEvent
    >>> count = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=count)
    >>> found = epsilon(MechanismEvent(mechanism=m, times=1000), 1e-6)
    >>> 480 < found.lower <= found.upper < 500
    True
    """
    pld = accountant.epsilon(event, delta)
    return BothAccountants(pld=pld, renyi=renyi.epsilon_within(event, delta, pld.upper)).better


def delta(event: Event, epsilon: float) -> Enclosure:
    """The delta of a composition at epsilon, by the better accountant.

    Guarantee: as for `epsilon`.
    Assumes: as for `rangebound.accounting.pld.accountant.delta`.
    Edge cases: 0 from the sum of the pure epsilons on.

    >>> import rangebound as rb
    >>> from rangebound.accounting import MechanismEvent
    >>> count = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=count)
    >>> 0.0 < delta(MechanismEvent(mechanism=m, times=10), 5.0).upper < 0.0014
    True
    """
    return both_deltas(event, epsilon).better


def both_epsilons(event: Event, delta: float) -> BothAccountants:
    """The epsilon at delta as each accountant has it, for a comparison of the two; `epsilon` takes less time."""
    return BothAccountants(pld=accountant.epsilon(event, delta), renyi=renyi.epsilon(event, delta))


def both_deltas(event: Event, epsilon: float) -> BothAccountants:
    """The delta at epsilon as each accountant has it."""
    return BothAccountants(pld=accountant.delta(event, epsilon), renyi=renyi.delta(event, epsilon))
