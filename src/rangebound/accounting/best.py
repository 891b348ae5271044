"""The smaller of what the privacy-loss and the Renyi accountant prove."""

from __future__ import annotations

from rangebound.accounting import renyi
from rangebound.accounting.enclosure import Enclosure
from rangebound.accounting.event import Event
from rangebound.accounting.pld import accountant


def epsilon(event: Event, delta: float) -> Enclosure:
    """The epsilon that a composition needs at delta: the better upper end of both accountants.

    Guarantee: the upper end holds for all databases and adaptive choices; the lower end is given away by some pair.
    Assumes: as for `rangebound.accounting.pld.accountant.delta`.
    Edge cases: delta = 0 adds up the pure epsilons; `inf` where no epsilon is enough.

    >>> import rangebound as rb
    >>> from rangebound.accounting import Release
    >>> count = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=count)
    >>> found = epsilon(Release(mechanism=m, times=1000), 1e-6)
    >>> 480 < found.lower <= found.upper < 500
    True
    """
    found = accountant.epsilon(event, delta)
    upper = renyi.epsilon_within(event, delta, found.upper)
    return Enclosure(lower=min(found.lower, upper), upper=upper)


def delta(event: Event, epsilon: float) -> Enclosure:
    """The delta that a composition needs at epsilon: the better upper end of both accountants.

    Guarantee: as for `epsilon`.
    Assumes: as for `rangebound.accounting.pld.accountant.delta`.
    Edge cases: 0 from the sum of the pure epsilons on.

    >>> import rangebound as rb
    >>> from rangebound.accounting import Release
    >>> count = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=count)
    >>> 0.0 < delta(Release(mechanism=m, times=10), 5.0).upper < 0.0014
    True
    """
    found = accountant.delta(event, epsilon)
    upper = min(found.upper, renyi.delta(event, epsilon))
    return Enclosure(lower=min(found.lower, upper), upper=upper)
