"""What one unit can lose by all that is drawn: the one account that is charged, stated, converted and certified.

And what it can contribute to a workload, and what it can lose by that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
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
            pure=tuple(counts.items()), square=self.square + other.square, delta=self.delta + other.delta, epsilon=known
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


HALF_PI = Fraction(1_570_796_326_794_897, 10**15)
"""A little above pi / 2: a pure loss of x is mu-GDP with mu^2 = (pi / 2) x^2; see `layer_loss`."""
_MOST_OUTCOMES = 4000  # of all coins, over all ways to spread cells over sums: a tenth of a second


class NoiseAccount(Enum):
    """How privacy loss adds up: `GAUSSIAN` in squares of mu (L2 distances), `PURE` in epsilon (L1 distances)."""

    GAUSSIAN = "gaussian"
    PURE = "pure"


@dataclass(frozen=True, kw_only=True)
class Contributions:
    """A unit has at most `rows` rows in each of at most `cells` finest cells of the workload.

    With `replaced`, neighbouring datasets differ by one unit's rows being replaced by those of another, else by one
    unit being added or removed.

    >>> Contributions(rows=1, cells=3)
    Contributions(rows=1, cells=3, replaced=False)
    """

    rows: int = 1
    cells: int = 1
    replaced: bool = False

    @property
    def reach(self) -> int:
        """By how much a unit moves counts of disjoint cells, in L1: rows times cells, twice where it is replaced."""
        return self.rows * self.cells * (2 if self.replaced else 1)


def layer_loss(scale: float, *, capacity: int, nodes: int, bounds: Contributions) -> JointLoss:
    """The loss of counts with Laplace noise of one scale: `nodes` disjoint sums of finest cells, of `capacity` at most.

    A unit has at most r rows in each of at most g cells, and no more cells than there are. If n of its cells are in a
    node, that node moves by at most r n, and the loss there is at most n c for c = r / scale; n <= min(capacity, g),
    and all n add up to at most g. Noise of different nodes is independent, and so are the coins below.

    - All cells may be in one node, capacity >= g: losses that add up to at most g c are together at most g c, and so
      are dominated by one coin of g c.
    - One cell for each node, capacity 1: g coins of c, one in each node that moves.
    - Between: a loss of at most x is sqrt(pi/2) x-GDP (below). The squares add up to at most
      (pi/2) c^2 sum n^2 <= (pi/2) c^2 g capacity. Several coins of `capacity` c would not do, though they have the
      larger sum of squares: near the largest loss of all, coins that are more alike lose more. Where there are not too
      many ways to spread the cells, it is the largest mu of coins of n c over all of them. Two sums that have no more
      than `capacity` cells together lose no more than one that has these, and a way with fewer than g cells no more
      than one with all: only ways are left in which any two sums have more.

    A unit that is replaced leaves g cells and enters g others. Nodes that fall and nodes that rise move by at most r g
    each, all together: the same twice; and no more coins, or squares of `capacity` c, than there are nodes.

    A loss x is mu-GDP with x = ln(Phi(mu/2) / Phi(-mu/2)) (`gdp.pure_epsilon`). Its slope in mu/2 is
    h(t) + h(-t) for the hazard rate h of the normal law, which is convex, so the slope is least at t = 0, where it is
    2 sqrt(2/pi): x >= sqrt(2/pi) mu.

    >>> layer_loss(70.0, capacity=43, nodes=9, bounds=Contributions(rows=1, cells=30)).pure
    ((Fraction(3, 7), 1),)
    """
    cells, sides = min(bounds.cells, capacity * nodes), 2 if bounds.replaced else 1
    each, held = bounds.rows / Fraction(scale), min(capacity, cells)
    if held == cells:
        return JointLoss(pure=((cells * each, min(sides, nodes)),), epsilon=min(sides, nodes) * cells * each)
    if held == 1:
        number = min(sides * cells, nodes)
        return JointLoss(pure=((each, number),), epsilon=number * each)
    full = min(sides * Fraction(cells, held), Fraction(nodes))
    square = HALF_PI * full * (held * each) ** 2
    ways, left = list[tuple[tuple[Fraction, int], ...]](), _MOST_OUTCOMES
    for spread in _spreads(cells, held):
        counts = Counter(spread)
        left -= math.prod(number + 1 for number in counts.values())
        if left < 0:
            break
        ways.append(tuple((n * each, number) for n, number in counts.items()))
    else:
        square = min(square, sides * Fraction(max(map(mu_of_parts, ways))) ** 2)
    return JointLoss(square=square, epsilon=full * held * each)


def _spreads(cells: int, most: int, first: int | None = None) -> Iterator[tuple[int, ...]]:
    """All ways to have this many cells in sums of at most `most`, falling, any two of which have more together.

    `first` is how many the sum before them has.

    >>> list(_spreads(10, 4))
    [(4, 4, 2), (4, 3, 3)]
    """
    if not cells:
        yield ()
    for own in range(min(cells, first or most), most - first if first else 0, -1):
        for rest in _spreads(cells - own, most, own):
            yield (own, *rest)
