"""How many coins an attacker may guess right who sees a single run, from the profile of what is claimed.

There are m canaries; a fair coin says of each whether it is in. The attacker sees what is published and guesses coins.
A profile delta(epsilon) over ordered pairs of neighbours bounds the best test between in and out: with a probability x
of being wrong, it is right with at most F(x) = inf over epsilon of min(e^epsilon x + delta, 1 - e^-epsilon (1 - delta -
x)), which is 1 - f(x) of the trade-off curve f. F is concave and rises; G is its inverse. A claim is read in one of two
ways.

**Each canary, given those before it.** Given the coins and scores of earlier canaries, the scores of the next one tell
its coin no better than F. Then it is guessed right with probability at most p, where p = F(1 - p), which is (1 + the
total variation)/2, whatever the attacker has learned from the earlier ones. So the number of right guesses among n
is below a binomial one with n and p in the usual stochastic order (by induction over n), and the limit is that of
Clopper and Pearson. Noise that is drawn anew for each coordinate, each of which one canary moves, claims that; so does
noise that is drawn anew for each step with one canary a step, as every account that adds up steps relies on.

**The output as a whole.** Nothing but F for each canary, whatever is known of the others. The attacker guesses r of the
m coins; W counts the right ones, T_k = P(W >= k) [mahloujifar2024]. Fix all coins but that of canary i, and let W' be
the number of right guesses among the others, which depends on the output alone. "i is guessed to be in, and W' >= k"
is a set of outputs; where i is in, that is a right guess with W >= k + 1, and where it is out, a wrong one with
W >= k. So P(i right, W >= k + 1) <= F(P(i wrong, W >= k)) for the guess "in", likewise "out", and by concavity for
their mean, and for the mean over all other coins and over i:

    R_(k+1) <= F(V_k),  m R_k = k T_k + sum of T_j over j > k,  m V_k = (r - k) T_k - sum of T_j over j > k.

So (r - k) T_k >= m G(R_(k+1)) + sum of T_j over j > k: every tail has a lower bound that rises in the tails beyond it.
Begin with T_v = risk and nothing beyond; if that makes T_0 larger than 1, then P(W >= v) < risk under the claim.

This reading is weaker by necessity: a mechanism that with probability 5 % reveals much of every coin, else nothing,
satisfies the claim of one that always reveals a little, and no single run at 95 % tells them apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

_CLOSE, _FAR = 1e-3, 2.0**8  # relative, of a parameter
_SAFE = 1e-9  # far more than the round-off of these sums and of the inverse beta function


class Reading(Enum):
    """What a claim is taken to say of many canaries in a single run."""

    EACH = "each canary, given those before it"
    WHOLE = "the output as a whole"


@dataclass(frozen=True)
class Curve:
    """Points (epsilon, delta) of a profile, none too small, by rising epsilon; between them nothing is assumed."""

    points: tuple[tuple[float, float], ...]

    @property
    def right(self) -> float:
        """The largest probability p to guess a fair coin right: F(1 - p) <= p.

        >>> Curve(((math.log(3.0), 0.0),)).right
        0.75
        """
        return min((math.exp(epsilon) + delta) / (math.exp(epsilon) + 1.0) for epsilon, delta in self.points)

    def lines(self) -> list[tuple[float, float]]:
        """Slopes and heights at 0 of lines below G, by rising slope."""
        flat = [(math.exp(-epsilon), -delta * math.exp(-epsilon)) for epsilon, delta in reversed(self.points)]
        return flat + [(math.exp(epsilon), 1.0 - delta - math.exp(epsilon)) for epsilon, delta in self.points]


Family = Callable[[float, Reading], Curve]
"""The claims that differ in one parameter, larger ones claim less privacy; what a reading needs of their profiles."""


@dataclass(frozen=True)
class Count:
    """Right guesses among those made, of this many canaries whose coins were secret."""

    right: int
    guesses: int
    canaries: int


def is_refuted(curve: Curve, counts: Sequence[Count], reading: Reading, confidence: float) -> bool:
    """Whether one of the counts is too large for the claim; where there are several, each has its share of the risk.

    >>> is_refuted(Curve(((1.0, 0.0),)), [Count(800, 1000, 1000)], Reading.EACH, 0.99)
    True
    >>> is_refuted(Curve(((1.0, 0.0),)), [Count(700, 1000, 1000)], Reading.WHOLE, 0.99)
    False
    """
    refuted = {Reading.EACH: _each_is_refuted, Reading.WHOLE: _whole_is_refuted}[reading]
    risk = (1.0 - confidence) / max(len(counts), 1)
    return any(refuted(curve, each, risk) for each in counts)


def _each_is_refuted(curve: Curve, count: Count, risk: float) -> bool:
    from scipy.special import betaincinv

    if count.right == 0:
        return False
    low = float(betaincinv(count.right, count.guesses - count.right + 1, risk))
    return low * (1.0 - _SAFE) > curve.right * (1.0 + _SAFE)


def _whole_is_refuted(curve: Curve, count: Count, risk: float) -> bool:
    if 2 * count.right <= count.guesses:
        return False
    lines, at = curve.lines(), 0
    tail, beyond = risk, 0.0  # T_(k+1), and the sum of those after it
    for k in range(count.right - 1, -1, -1):
        share = ((k + 1) * tail + beyond) / count.canaries
        # R rises as k falls, so the best line only moves on. One that is not the best is below G as well.
        while at + 1 < len(lines) and _height(lines[at + 1], share) >= _height(lines[at], share):
            at += 1
        beyond += tail
        tail = max(tail, (count.canaries * max(_height(lines[at], share), 0.0) + beyond) / (count.guesses - k))
        if tail > 1.0 + _SAFE:
            return True
    return False


def _height(line: tuple[float, float], x: float) -> float:
    return line[0] * x + line[1]


def largest_refuted(
    family: Family, counts: Sequence[Count], reading: Reading, confidence: float, start: float, most: float
) -> float | None:
    """The largest parameter whose claim is refuted, rounded down, from `start` up to `most`; None where none is near.

    Assumes: larger parameters claim less privacy, so that all below a refuted one are refuted too.

    >>> def bare(epsilon, reading):
    ...     return Curve(((epsilon, 0.0),))
    >>> round(largest_refuted(bare, [Count(800, 1000, 1000)], Reading.EACH, 0.95, 1.0, 9.0), 2)
    1.25
    """

    def falls(parameter: float) -> bool:
        return is_refuted(family(parameter, reading), counts, reading, confidence)

    low = high = start
    if falls(start):
        while high < most and falls(high):
            low, high = high, 2.0 * high
    else:
        while not falls(low):
            low, high = 0.5 * low, low
            if low * _FAR < start:
                return None
    while high - low > _CLOSE * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falls(middle) else (low, middle)
    return low
