"""What one unit can lose by all that is drawn: the one account that is charged, stated, converted and certified."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from rangebound.privacy.gdp import delta_of_parts, mu_of_parts, mu_of_pure
from rangebound.values.numeric import root_up, rounded_up

_MOST_LOSSES = 2000  # of pure parts together that are added up one by one; other parts count by their mu


@dataclass(frozen=True, kw_only=True)
class JointLoss:
    """The privacy loss of one unit in all that is drawn together, for the worst pair of neighbours.

    `pure` has losses that are at most an epsilon, each with how many there are; `square` is the mu^2 of everything
    else. `delta` is the probability of an event in which more is lost. `epsilon` bounds the loss of all of it together
    but for that event; it is infinite where noise is Gaussian, and None stands for that.

    Guarantee: every pair of neighbours, but for an event of probability `delta`, is dominated by independent coins with
    the losses `pure` [kairouz2015] beside a release that is mu-GDP with mu^2 = `square`.
    """

    pure: tuple[tuple[Fraction, int], ...] = ()
    square: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    epsilon: Fraction | None = Fraction(0)

    def __add__(self, other: JointLoss) -> JointLoss:
        """The loss of both, drawn independently."""
        known = None if self.epsilon is None or other.epsilon is None else self.epsilon + other.epsilon
        counts = Counter(dict(self.pure))
        for epsilon, number in other.pure:
            counts[epsilon] += number
        return JointLoss(
            pure=tuple(counts.items()),
            square=self.square + other.square,
            delta=self.delta + other.delta,
            epsilon=known,
        )

    @cached_property
    def _parts(self) -> tuple[Fraction, tuple[tuple[Fraction, int], ...]]:
        """mu^2, and the pure losses beside it that are few enough to be added up one by one, the largest first."""
        losses, listed, square = 1, [], self.square
        for epsilon, number in sorted(self.pure, key=lambda item: item[0] ** 2 * item[1], reverse=True):
            if losses * (number + 1) <= _MOST_LOSSES:
                losses *= number + 1
                listed.append((epsilon, number))
            else:
                square += Fraction(mu_of_pure(rounded_up(epsilon))) ** 2 * number
        return square, tuple(listed)

    @property
    def parts(self) -> tuple[float, tuple[tuple[Fraction, int], ...]]:
        """A mu, rounded up, and pure losses beside it, that dominate all of it but for `delta`."""
        square, listed = self._parts
        return root_up(square), listed

    @cached_property
    def mu(self) -> float:
        """A mu for which all of it is mu-GDP but for `delta`, rounded up: what is charged, and stated everywhere."""
        square, listed = self._parts
        found = root_up(square + Fraction(mu_of_parts(listed)) ** 2)
        return found if self.epsilon is None else min(found, mu_of_pure(rounded_up(self.epsilon)))

    def delta_at(self, epsilon: float) -> float:
        """The delta at an epsilon, rounded up: that of the parts together, and `delta`."""
        mu, listed = self.parts
        return min(rounded_up(self.delta + Fraction(delta_of_parts(mu, listed, epsilon=epsilon))), 1.0)


def added_up(losses: Iterable[JointLoss]) -> JointLoss:
    """The loss of all of them, drawn independently."""
    return sum(losses, JointLoss())
