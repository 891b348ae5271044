"""What an attacker gains from what is published: the methods of every mechanism, and one sentence for everybody."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import overload

from rangebound.privacy.tradeoff_curve import (
    CLOSE,
    TOLERANCE,
    PairProfile,
    Profile,
    attained_miss_rate,
    attained_mu,
    best_line,
    mirrored,
    share,
    smallest_mu,
    turned,
)
from rangebound.values import arguments
from rangebound.values.array_types import Floats, np
from rangebound.values.ball import PRECISIONS, Ball, ball, down, precision, refine, up
from rangebound.values.numeric import Enclosure

_EPSILONS = (0.0, 1.0, 4.0, 16.0, 64.0)  # at which a mu may be needed; far ones count where losses have no bound


@arguments.brief
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

    risk: AttackRisk

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


_CROWDS = (100, 10_000, 1_000_000)


class AttackRisk(ABC):
    """What an attacker gains from what is published, over all neighbouring datasets: the methods of every mechanism.

    The attacker knows everything but whether one person is in the data, and may choose everybody else. Every risk is
    never understated: a miss rate is rounded down, all others up. `rangebound.privacy.tradeoff_curve` has the
    mathematics. `enclosed` has the same risks with both ends.
    """

    @abstractmethod
    def _attack_delta(self, epsilon: float) -> float:
        """The privacy profile: delta at epsilon over all ordered pairs of neighbours, never too small."""

    @abstractmethod
    def _attack_pure(self) -> float:
        """An epsilon at which delta is 0, as small as is known; inf where there is none."""

    def _attack_mu(self) -> float:
        """A mu for which it is known to be mu-GDP, from elsewhere than the profile; inf where none is."""
        return math.inf

    def _attack_pairs(self, epsilon: float) -> Sequence[PairProfile]:
        """Pairs of neighbours that leak much at epsilon, in one order each; none where none is known."""
        return ()

    def _attack_pure_below(self) -> float:
        """An epsilon that the privacy loss of some pair comes near to, or exceeds."""
        return 0.0

    @property
    def enclosed(self) -> EnclosedRisk:
        """The same risks, each as an `Enclosure`: the safe bound, and what some pair of neighbours attains.

        >>> import rangebound as rb
        >>> found = rb.DiscreteLaplace(scale=1.0).enclosed.advantage()
        >>> found.lower <= math.tanh(0.5) <= found.upper, found.width < 1e-12
        (True, True)
        """
        return EnclosedRisk(self)

    def _best_line(self, false_positives: float, tolerance: float) -> tuple[float, float]:
        return best_line(self._attack_delta, self._attack_pure(), false_positives, tolerance=tolerance)

    def _smallest_mu(self) -> tuple[float, float]:
        return smallest_mu(self._attack_delta, self._attack_pure(), self._attack_mu())

    @precision(PRECISIONS[0])
    def _miss_rates(self, false_positives: Sequence[float], tolerance: float = TOLERANCE) -> list[float]:
        pure, known = self._attack_pure(), dict[float, float]()
        return [best_line(self._attack_delta, pure, each, known, tolerance)[1] for each in false_positives]

    @overload
    def tradeoff(self, false_positive_rate: float, *, tolerance: float = TOLERANCE) -> float: ...

    @overload
    def tradeoff(self, false_positive_rate: Sequence[float] | Floats, *, tolerance: float = TOLERANCE) -> Floats: ...

    def tradeoff(
        self, false_positive_rate: float | Sequence[float] | Floats, *, tolerance: float = TOLERANCE
    ) -> float | Floats:
        """The least miss rate of an attacker with this false positive rate (one or an array): the trade-off curve.

        f(alpha) = sup over epsilon >= 0 of max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)).

        Guarantee: no test misses less, for any pair of neighbours; at most `tolerance` below what the profile allows: a
        larger one is faster. A pair attains it where one pair is the worst at every epsilon; else it is the convex hull
        of the curves of all pairs.
        Edge cases: 1 - alpha would be perfect privacy. At 0 it is below 1 only where some output reveals who is in the
        data.

        >>> import rangebound as rb
        >>> m = rb.DiscreteLaplace(scale=1.0)
        >>> m.tradeoff([0.0, 0.1, 0.5]).round(4).tolist()
        [1.0, 0.7282, 0.1839]
        """
        close = arguments.positive("tolerance", tolerance)
        if isinstance(false_positive_rate, (list, tuple)) or np.ndim(false_positive_rate):
            rates = arguments.reals("false_positive_rate", false_positive_rate)
            found = self._miss_rates([share("false_positive_rate", each) for each in rates.reshape(-1).tolist()], close)
            return np.asarray(found).reshape(rates.shape)
        return self._miss_rates([share("false_positive_rate", false_positive_rate)], close)[0]

    @precision(PRECISIONS[0])
    def advantage(self) -> float:
        """The largest membership advantage: the true positive rate of an attacker less the false positive rate.

        It is the maximum of 1 - alpha - f(alpha), the total variation distance, and delta(0).

        Guarantee: never below the true value; attained by some pair as closely as delta(0) is.

        >>> import rangebound as rb
        >>> round(rb.DiscreteLaplace(scale=1.0).advantage(), 4)
        0.4621
        """
        return self._attack_delta(0.0)

    @precision(PRECISIONS[0])
    def gdp(self) -> float:
        """The smallest mu for which it is mu-GDP: neighbours are as hard to tell apart as N(0, 1) and N(mu, 1).

        Guarantee: never below the true value, and at most 1e-7 relative above it where the pure epsilon is finite. Of
        Gaussian noise, it is at most sensitivity / scale, which is exact without bounds.
        Edge cases: inf where some output reveals who is in the data, and where no bound for all outputs is known, such
        as Gaussian noise truncated to a support that has gaps and no end.

        >>> import rangebound as rb
        >>> round(rb.DiscreteLaplace(scale=1.0).gdp(), 3)
        1.232
        """
        return self._smallest_mu()[0]

    @precision(PRECISIONS[0])
    def posterior(self, prior: float) -> float:
        """The largest certainty that any output gives an attacker who held `prior` before: the posterior probability.

        Bayes' rule: the odds prior / (1 - prior) grow by e^epsilon at most, with the pure epsilon.

        Guarantee: never below the true value, for the worst output of the worst pair.
        Edge cases: 1 where there is no pure epsilon, though such outputs may be as rare as you like; see `success` for
        what they are worth on average.

        >>> import rangebound as rb
        >>> round(rb.DiscreteLaplace(scale=1.0).posterior(0.5), 4)
        0.7311
        """
        held, epsilon = share("prior", prior), self._attack_pure()
        if held in (0.0, 1.0):
            return held
        return min(up(refine(lambda: certainty(held, epsilon))), 1.0)

    @precision(PRECISIONS[0])
    def success(self, prior: float = 0.5) -> float:
        """The largest probability that an attacker decides right who held `prior` before, over outputs as they come.

        The best test of P with the weight w = prior against Q with 1 - w is right with probability max over A of
        w P(A) + (1 - w)(1 - Q(A)) = 1 - w + w H, where H is the hockey-stick divergence of P and Q at
        epsilon = log((1 - w)/w). With P and Q exchanged where w > 1/2, it is

            max(w, 1 - w) + min(w, 1 - w) delta(|log((1 - w)/w)|).

        Guarantee: never below the true value; as close to it as delta is.
        Edge cases: without the output it would be max(w, 1 - w). At 1/2 it is 1/2 and half the advantage.

        >>> import rangebound as rb
        >>> round(rb.DiscreteLaplace(scale=1.0).success(0.5), 4)
        0.7311
        """
        held = ball(share("prior", prior))
        small, large = sorted((held, 1 - held), key=float)
        if small == 0:
            return 1.0
        epsilon = max(down(refine(lambda: (large / small).log())), 0.0)
        return min(up(large + small * ball(self._attack_delta(epsilon))), 1.0)

    @precision(PRECISIONS[0])
    def reconstruction(self, baseline: float) -> float:
        """The largest probability to reconstruct a record that is guessed with probability `baseline` without output.

        `baseline` is the chance of the best guess before: 1/2 for a coin, 1/n for one of n records that are equally
        likely. Afterwards it is at most 1 - f(baseline) [hayes2023] [kaissis2023].

        Guarantee: never below the true value.
        Assumes: the attacker knows all other records and the distribution of this one.

        >>> import rangebound as rb
        >>> round(rb.DiscreteLaplace(scale=1.0).reconstruction(0.1), 4)
        0.2718
        """
        return min(up(1 - ball(self._miss_rates([share("baseline", baseline)])[0])), 1.0)

    def odds(self, crowd: str = "people") -> str:
        """The risk in one sentence, for every reader.

        Guarantee: the number is rounded up.

        >>> import rangebound as rb
        >>> print(rb.DiscreteLaplace(scale=1.0).odds())
        Of 100 people, each in the data or not by the toss of a coin, an attacker who knows all the rest is right about
        at most 74 on average with the published numbers, and about 50 without.
        """
        return odds(self.advantage(), crowd)


class MechanismRisk(AttackRisk):
    """The same for whatever has an exact `delta(epsilon)` and a pure `epsilon()`."""

    @abstractmethod
    def epsilon(self, delta: float = 0.0) -> float:
        """The smallest epsilon that holds with this delta for all neighbouring datasets."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """The smallest delta that holds with this epsilon for all neighbouring datasets."""

    def _attack_delta(self, epsilon: float) -> float:
        return self.delta(epsilon)

    def _attack_pure(self) -> float:
        return self.epsilon()


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class ProfileRisk(AttackRisk):
    """The risk of anything whose privacy profile is known: `profile` at every epsilon >= 0, never too small.

    `pure` is an epsilon at which it is 0, and `mu` one for which all is mu-GDP; inf where there is none. `pairs` has
    the profiles of pairs that leak much at an epsilon, and `pure_below` a loss that one of them comes near to; they are
    what `enclosed` needs.

    >>> ProfileRisk(profile=lambda epsilon: max(0.0, 0.25 * (1.0 - epsilon)), pure=1.0).advantage()
    0.25
    """

    profile: Profile
    pure: float = math.inf
    mu: float = math.inf
    pairs: Callable[[float], Sequence[PairProfile]] = lambda _: ()
    pure_below: Callable[[], float] = lambda: 0.0

    def _attack_delta(self, epsilon: float) -> float:
        return self.profile(epsilon)

    def _attack_pure(self) -> float:
        return self.pure

    def _attack_mu(self) -> float:
        return self.mu

    def _attack_pairs(self, epsilon: float) -> Sequence[PairProfile]:
        return self.pairs(epsilon)

    def _attack_pure_below(self) -> float:
        return self.pure_below()


def odds(advantage: float, crowd: str = "people", secret: str = "in the data or not") -> str:
    """An advantage in one sentence: how many of a crowd an attacker is right about, with the output and without.

    Guarantee: the number is rounded up. The crowd is as large as it takes to show a whole person of difference.

    >>> print(odds(0.001))
    Of 10,000 people, each in the data or not by the toss of a coin, an attacker who knows all the rest is right about
    at most 5,005 on average with the published numbers, and about 5,000 without.
    """
    gain = Fraction(repr(arguments.finite("advantage", advantage))) / 2  # the decimal that the double prints as
    size = next((each for each in _CROWDS if each * gain >= 1), _CROWDS[-1])
    right = min(math.ceil(size * (gain + Fraction(1, 2))), size)
    return (
        f"Of {size:,} {crowd}, each {secret} by the toss of a coin, an attacker who knows all the rest is "
        f"right about at most {right:,} on average with the published numbers, and about {size // 2:,} without."
    )


def guaranteed(epsilon: float, delta: float) -> ProfileRisk:
    """The profile of all that a bare guarantee allows: (epsilon, delta)-privacy, whatever the mechanism.

    The worst mechanism reveals everything with probability delta, and else tosses a coin that is e^epsilon times as
    likely to fall on one side [kairouz2015]. So the delta at x < epsilon is
    delta + (1 - delta) (e^epsilon - e^x) / (e^epsilon + 1).

    >>> round(guaranteed(1.0, 0.0).advantage(), 4)
    0.4621
    """
    lost = arguments.nonnegative("delta", delta)

    def exact(x: float) -> Ball:
        if x >= epsilon or lost >= 1.0 or math.isinf(epsilon):
            return ball(1.0) if math.isinf(epsilon) else ball(min(lost, 1.0))
        coin = (1 - (ball(x) - ball(epsilon)).exp()) / (1 + (-ball(epsilon)).exp())
        return ball(lost) + (1 - ball(lost)) * coin

    return ProfileRisk(
        profile=lambda x: min(up(refine(lambda: exact(x))), 1.0),
        pure=math.inf if lost else epsilon,
        pairs=lambda _: (mirrored(exact),),
        pure_below=lambda: math.inf if lost else epsilon,
    )
