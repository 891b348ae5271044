"""What an attacker gains, enclosed: the safe bound of every risk, and beside it what one pair of neighbours attains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rangebound.privacy.risk.smallest_mu import CLOSE, attained_mu
from rangebound.privacy.risk.tradeoff_curve import TOLERANCE, PairProfile, attained_miss_rate, share, turned
from rangebound.values import arguments
from rangebound.values.ball import PRECISIONS, Ball, ball, down, precision, refine, up
from rangebound.values.enclosure import Enclosure


class SafeRisks(Protocol):
    """What is asked of an `AttackRisk`: its safe ends, and the pairs of neighbours that attain nearly as much."""

    def advantage(self) -> float: ...
    def success(self, prior: float) -> float: ...
    def posterior(self, prior: float) -> float: ...
    def _attack_pairs(self, epsilon: float) -> Sequence[PairProfile]: ...
    def _attack_pure_below(self) -> float: ...
    def _best_line(self, false_positives: float, tolerance: float) -> tuple[float, float]: ...
    def _smallest_mu(self) -> tuple[float, float]: ...


_EPSILONS = (0.0, 1.0, 4.0, 16.0, 64.0)  # at which a mu may be needed; far ones count where losses have no bound


@dataclass(frozen=True)
class EnclosedRisk:
    """The risks of `risk`, each as an `Enclosure` of the exact value over all pairs of neighbours.

    One end is the safe bound, which `risk` itself returns. The other is what one pair of neighbours attains: the attack
    exists. For a miss rate the safe end is the lower one, for all others the upper one.

    Guarantee: both ends are proved, each on its own: an error that says that the lower one is above the upper one would
    be a fault of ours. For one mechanism they are as close as the search for its worst pair (1e-6
    relative, usually 1e-9), where one pair is the worst at the epsilons that matter.
    Edge cases: where no pair is known (a remapped mechanism, an epoch of random allocation, questions of a plan whose
    neighbours are not written out), the other end is what is attained without the output.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, bounding=rb.UNBOUNDED)
    >>> found = m.enclosed.advantage()
    >>> found.lower <= 1 - math.exp(-0.5) <= found.upper, found.width < 1e-9
    (True, True)
    """

    risk: SafeRisks

    def _pairs(self, epsilon: float) -> list[PairProfile]:
        found = self.risk._attack_pairs(epsilon)
        return [*found, *map(turned, found)]

    def _delta(self, epsilon: float) -> float:
        """A delta that some pair attains at epsilon."""
        return max([0.0, *(down(each(epsilon)) for each in self._pairs(epsilon))])

    @precision(PRECISIONS[0])
    def advantage(self) -> Enclosure:
        """The largest membership advantage; see `AttackRisk.advantage`."""
        return Enclosure(lower=self._delta(0.0), upper=self.risk.advantage())

    @precision(PRECISIONS[0])
    def success(self, prior: float = 0.5) -> Enclosure:
        """The largest probability to decide right on average; see `AttackRisk.success`."""
        upper = self.risk.success(prior)
        held = ball(share("prior", prior))
        small, large = sorted((held, 1 - held), key=float)
        if small == 0:
            return Enclosure(lower=1.0, upper=upper)
        epsilon = max(up(refine(lambda: (large / small).log())), 0.0)
        return Enclosure(lower=down(large + small * ball(self._delta(epsilon))), upper=upper)

    @precision(PRECISIONS[0])
    def tradeoff(self, false_positive_rate: float, *, tolerance: float = TOLERANCE) -> Enclosure:
        """The least miss rate at a false positive rate, over all pairs; see `AttackRisk.tradeoff`.

        Guarantee: the upper bound is the miss rate of a test of one pair. Where several pairs are the worst in turn,
        the lower one is that of the convex hull of their curves, and the two need not meet. A larger `tolerance` makes
        them wider and is faster, as of compositions.
        """
        close = arguments.positive("tolerance", tolerance)
        return self._miss_rate(share("false_positive_rate", false_positive_rate), close)

    def _miss_rate(self, rate: float, tolerance: float) -> Enclosure:
        best, lower = self.risk._best_line(rate, tolerance)
        attained = [attained_miss_rate(each, rate, best, tolerance) for each in self._pairs(abs(best))]
        return Enclosure(lower=lower, upper=min([up(1 - ball(rate)), *attained]))

    @precision(PRECISIONS[0])
    def reconstruction(self, baseline: float) -> Enclosure:
        """The bound 1 - f(baseline) on the probability to reconstruct a record; see `AttackRisk.reconstruction`.

        Guarantee: the lower bound is the power of a test of one pair at this false positive rate. That a record is
        reconstructed so often is not said: the upper bound alone is about that.
        """
        rate = share("baseline", baseline)
        found = self._miss_rate(rate, TOLERANCE)
        return Enclosure(lower=max(down(1 - ball(found.upper)), 0.0), upper=min(up(1 - ball(found.lower)), 1.0))

    @precision(PRECISIONS[0])
    def posterior(self, prior: float) -> Enclosure:
        """The largest certainty that any output gives; see `AttackRisk.posterior`.

        Guarantee: some pair has outputs that come as near to the lower bound as you like.
        """
        held, upper = share("prior", prior), self.risk.posterior(prior)
        if held in (0.0, 1.0):
            return Enclosure(lower=held, upper=held)
        return Enclosure(lower=down(refine(lambda: certainty(held, self.risk._attack_pure_below()))), upper=upper)

    @precision(PRECISIONS[0])
    def gdp(self) -> Enclosure:
        """The smallest mu for which it is mu-GDP; see `AttackRisk.gdp`."""
        upper, epsilon = self.risk._smallest_mu()
        lower = 0.0
        for each in (epsilon, *_EPSILONS):
            if lower < upper * (1.0 - 2.0 * CLOSE):
                lower = max(lower, attained_mu(each, self._delta(each)))
        return Enclosure(lower=lower, upper=upper)


def certainty(prior: float, epsilon: float) -> Ball:
    """Bayes' rule: what the odds prior / (1 - prior) are as a probability when they have grown by e^epsilon."""
    if math.isinf(epsilon):
        return ball(1.0)
    return 1 / (1 + (1 - ball(prior)) / ball(prior) * (-ball(epsilon)).exp())
