"""What two neighbouring tables lose to a plan: the privacy loss of the very draws, by another route than the plan's.

The coordinates of both tables are given exactly. What is drawn from them is asked of the publishers, with the noise
taken away or put in by hand: a strategy is any map from counts and noise to published numbers, found by trying one
count and one noise after the other, a quantile is the weights that are handed to its draw, and selected keys
are every way that their draw can go.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import groupby
from unittest import mock

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import binom

from rangebound.laws.family import Curve
from rangebound.ledger.rule import RenyiFilter
from rangebound.privacy.gdp import delta_of_mu
from rangebound.release.noise import exponential_mechanism
from rangebound.release.noise.exponential_mechanism import SelectionPublisher
from rangebound.release.noise.joint_loss import NoiseAccount, added_up
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher, floored
from rangebound.release.noise.partition_selection import WHOLE
from rangebound.release.noise.quantiles import QuantilePublisher
from rangebound.release.noise.range_ends import RangePublisher
from rangebound.release.noise.strategies.strategy import LatticeNoise, wholes
from rangebound.release.noise.table_publisher import TablePublisher
from rangebound.release.noise.workload_publisher import WorkloadPublisher
from rangebound.release.output.ledger_entry import charges
from rangebound.release.output.plan_risk import account_profile, conversions
from tests.release.all_draws import law_of

CLOSE = 1e-9
"""Relative rounding of doubles in the losses; the bounds themselves are attained exactly."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """Published numbers as a linear map of the counts, with the covariance (or the scales) of their noise."""

    counts: np.ndarray
    noise: np.ndarray
    pure: bool

    def losses(self, moved):
        """mu^2, or epsilon, for each row of moved counts."""
        far = moved @ self.counts.T
        if self.pure:
            return np.abs(far / self.noise.sum(axis=1)).sum(axis=1)
        covariance = self.noise @ self.noise.T
        return (far * np.linalg.solve(covariance, far.T).T).sum(axis=1)


@lru_cache(maxsize=16)
def strategy_of(publisher, *sizes):
    """The strategy of a workload, by what it publishes for each single count and each single noise.

    `sizes` are the numbers of counts in each of its groups; but for several counts by public keys there is one group.
    """
    scales, cells, together = [], sum(sizes), isinstance(publisher, WorkloadPublisher)
    starts = np.cumsum([0, *sizes]).tolist()

    def published(counts, noise):
        place = 0

        def drawn(self, count, bits):
            nonlocal place
            own = noise[place : place + count] if noise else [0] * count
            scales[place : place + count] = [(self.scale, self.step)] * count
            place += count
            return wholes(np.array(own, dtype=object))

        exact = [Fraction(int(each)) for each in counts]
        truths = [(each,) for each in exact]
        if not together:
            truths = [tuple(exact[start : start + size]) for start, size in zip(starts, sizes, strict=False)]
        with mock.patch.object(LatticeNoise, "draw", drawn):
            groups = publisher.draw(truths, None)
        return np.array([each for group in groups for draw in group for each in (draw if together else draw[1:])])

    none = published([0] * cells, [])
    counts = [published(row, []) - none for row in np.eye(cells, dtype=int)]
    noises = np.eye(len(scales), dtype=int).tolist()
    noise = [
        (published([0] * cells, row) - none) * scale / step
        for row, (scale, step) in zip(noises, list(scales), strict=True)
    ]
    pure = together and publisher.strategy.account is NoiseAccount.PURE
    found = Strategy(counts=np.stack(counts, axis=1), noise=np.stack(noise, axis=1), pure=pure)
    assert not pure or ((found.noise != 0.0).sum(axis=1) == 1).all()  # each number has noise of its own
    some = np.arange(cells) % 5 * 3 + 1  # it is linear
    assert (published(some, []) - none == found.counts @ some).all()
    return found


def weights_of(publisher, truth):
    """The weights of all draws that are made for one group."""
    found = []

    def drawn(weights, bits):
        found.append(weights)
        return 0

    with mock.patch.object(exponential_mechanism, "draw", drawn), mock.patch.object(LatticeNoise, "measured", _exact):
        publisher.draw([truth], None)
    return [_law(weights) for weights in found]


def _exact(noise, exact, bits):
    """Counts without noise, in steps."""
    return wholes(exact) * int(1 / noise.step)


def counts_law(publisher, x, y):
    """What noisy counts around quantiles show of two tables, where all quantiles are drawn at the first place."""
    if getattr(publisher, "noise", None) is None:
        return PairLaw()
    with (
        mock.patch.object(exponential_mechanism, "draw", return_value=0),
        mock.patch.object(LatticeNoise, "measured", _exact),
    ):
        one, two = (
            np.array([count for draw in publisher.draw([each], None)[0] for count in draw[1:]]) for each in (x, y)
        )
    far = np.abs(one - two) / publisher.noise.scale
    if publisher.noise.account is NoiseAccount.GAUSSIAN:
        return PairLaw(square=float((far**2).sum()))
    return PairLaw(pairs=tuple(laplace_pair(_STEPS, _STEPS / each) for each in far.tolist() if each))


def _law(weights):
    """Weights as probabilities; of equal ones in a row each is divided once."""
    total, parts = sum(weights), [(each, sum(1 for _ in alike)) for each, alike in groupby(weights)]
    return np.repeat([float(Fraction(each, total)) for each, _ in parts], [count for _, count in parts])


def coins(one, two):
    """epsilon and mu of two laws on a finite set, each the smallest that holds for the pair.

    The trade-off curve has its corners at the likelihood-ratio tests: mu-GDP if Phi^-1(q) - Phi^-1(p) <= mu at each.
    """
    ratios = np.log(one / two)
    order = np.argsort(ratios)
    p, q = np.cumsum(one[order])[:-1], np.cumsum(two[order])[:-1]
    inside = (p > 1e-12) & (q < 1 - 1e-12)  # elsewhere doubles would say nothing
    far = np.where(inside, ndtri(q) - ndtri(np.maximum(p, 1e-300)), 0.0)
    return float(np.abs(ratios).max()), float(far.max(initial=0.0))


def of_pure(epsilon):
    """The mu^2 of a pure loss, by its coin: 2 Phi^-1(1 / (1 + e^-epsilon)), squared."""
    return (2.0 * float(ndtri(1.0 / (1.0 + math.exp(-epsilon))))) ** 2


def profile(square, pure, epsilon):
    """The delta at epsilon of Gaussian noise with mu^2 = `square` and of pure parts: the mean over a coin for each.

    A coin has the privacy loss e with probability 1 / (1 + exp(-e)), else -e; losses add up.
    """
    losses, chances = np.zeros(1), np.ones(1)
    for own, count in Counter(pure).items():
        heads = np.arange(count + 1)
        losses = np.add.outer(losses, own * (2 * heads - count)).ravel()
        chances = np.multiply.outer(chances, binom.pmf(heads, count, 1.0 / (1.0 + math.exp(-own)))).ravel()
    return float(chances @ _gone(epsilon - losses, math.sqrt(square) if square > 1e-12 else 0.0))


def _gone(left, mu):
    """The delta at each epsilon that is left, of Gaussian noise with that mu or none."""
    if not mu:
        return -np.expm1(np.minimum(left, 0.0))
    return np.maximum(ndtr(mu / 2 - left / mu) - np.exp(left + log_ndtr(-mu / 2 - left / mu)), 0.0)


@dataclass(frozen=True, kw_only=True)
class PairLoss:
    """What one pair loses: `epsilon`, or `square` = mu^2, of all draws; the `delta` beside it; epsilons of pure parts.

    `epsilon` is infinite where the noise is Gaussian, and `square` that of a strategy with Laplace noise.
    """

    epsilon: float = 0.0
    square: float = 0.0
    delta: float = 0.0
    pure: tuple[float, ...] = ()

    def __add__(self, other):
        return PairLoss(
            epsilon=self.epsilon + other.epsilon,
            square=self.square + other.square,
            delta=self.delta + other.delta,
            pure=self.pure + other.pure,
        )


def pure_loss(epsilon, delta=0.0):
    """A pure number, but for an event of probability delta."""
    return PairLoss(epsilon=epsilon, square=of_pure(epsilon), delta=delta, pure=(epsilon,))


def laws_of_groups(publisher, share):
    """`group_law` of one question, computed once for each pair of groups: most worlds have the same few."""
    return cache(partial(group_law, publisher, share))


def question_losses(publisher, share, before, after, law=None):
    """What every pair loses by one question; `before` and `after` are coordinates by pair and group."""
    if isinstance(publisher, WorkloadPublisher):
        moved = [[x[0] - y[0] for x, y in zip(*each, strict=True)] for each in zip(before, after, strict=True)]
        found = strategy_of(publisher, len(moved[0]))
        losses = found.losses(np.array(moved, dtype=float)).tolist()
        return [
            PairLoss(epsilon=each, square=math.inf) if found.pure else PairLoss(epsilon=math.inf, square=each)
            for each in losses
        ]
    loss = cache(partial(group_loss, publisher, share, law or laws_of_groups(publisher, share)))
    return [
        sum((loss(x, y) for x, y in zip(*each, strict=True) if x != y), PairLoss())
        for each in zip(before, after, strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class PairLaw:
    """What is published on two neighbouring tables: a pair of laws on a finite set for each draw, and Gaussian noise.

    `square` is the mu^2 of the noise that is Gaussian. Sums are those of independent draws.
    """

    pairs: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...] = ()
    square: float = 0.0

    def __add__(self, other):
        return PairLaw(pairs=self.pairs + other.pairs, square=self.square + other.square)

    def deltas(self, epsilons):
        """The delta at each epsilon, of the worse of both orders; never above the exact one but for rounding."""
        return np.maximum(_deltas(self, epsilons, 1), _deltas(self, epsilons, -1))

    def divergence(self, order):
        """The Renyi divergence of the worse of both orders; infinite where an output reveals which table it was."""
        return self.square * order / 2 + max(
            sum(_divergence(*each[::step], order) * number for each, number in Counter(self.pairs).items())
            for step in (1, -1)
        )


@lru_cache(maxsize=64)
def _deltas(law, epsilons, step):
    losses, chances, revealed = _composed(Counter(each[::step] for each in law.pairs))
    return _gone(np.subtract.outer(np.array(epsilons), losses), math.sqrt(law.square)) @ chances + revealed


@lru_cache(maxsize=4096)
def _divergence(one, two, order):
    p, q = np.array(one), np.array(two)
    seen = p > 0.0
    if (q[seen] == 0.0).any():
        return math.inf
    terms = order * np.log(p[seen]) + (1 - order) * np.log(q[seen])
    return float(terms.max() + np.log(np.exp(terms - terms.max()).sum())) / (order - 1)


_FEW, _STEP, _CELLS = 20_000, 2.0**-11, 2**18
"""Pairs of losses that are added up one by one; of more, what is in one cell counts at its lower end.

A cell is that part of the standard deviation of the whole loss, or more where there would be too many of them.
"""


def _composed(pairs):
    """The privacy losses of all pairs together, each with its chance, and the chance of an output that reveals all."""
    laws = {each: _loss_law(*each) for each in pairs}
    spread = sum(float(losses**2 @ chances) * pairs[each] for each, (losses, chances, _) in laws.items())
    reach = sum(float(np.abs(losses).max(initial=0.0)) * pairs[each] for each, (losses, _, _) in laws.items())
    step = max(_STEP * math.sqrt(spread), 2.0 * reach / _CELLS) or 1.0
    found, hidden = (np.zeros(1), np.ones(1)), 1.0
    for each, (losses, chances, seen) in laws.items():
        number, power = pairs[each], (losses, chances)
        hidden *= (1.0 - seen) ** number
        while number:
            if number % 2:
                found = _together(found, power, step)
            number //= 2
            power = _together(power, power, step) if number else power
    return *found, 1.0 - hidden


@lru_cache(maxsize=4096)
def _loss_law(one, two):
    p, q = np.array(one), np.array(two)
    both = (p > 0.0) & (q > 0.0)
    return *_merged(np.log(p[both] / q[both]), p[both]), float(p[~both].sum())


def _merged(losses, chances):
    """Losses in order; the chances of equal ones are added up, and what cannot be seen is left out."""
    order = np.argsort(losses)
    losses, chances = losses[order], chances[order]
    new = np.concatenate([[True], np.diff(losses) > 1e-12])[: len(losses)]
    losses, chances = losses[new], np.add.reduceat(chances, np.flatnonzero(new)) if len(losses) else chances
    seen = chances > 1e-17
    return losses[seen], chances[seen]


def _together(one, two, step):
    if len(one[0]) * len(two[0]) > _FEW:
        (first, p), (second, q) = _on_lattice(*one, step), _on_lattice(*two, step)
        size = len(p) + len(q) - 1
        chances = np.fft.irfft(np.fft.rfft(p, 2 ** size.bit_length()) * np.fft.rfft(q, 2 ** size.bit_length()))[:size]
        seen = chances > 1e-16  # of less, doubles would say nothing
        return (first + second + np.flatnonzero(seen)) * step, chances[seen]
    return _merged(np.add.outer(one[0], two[0]).ravel(), np.multiply.outer(one[1], two[1]).ravel())


def _on_lattice(losses, chances, step):
    """The number of the first step, and the chance of each step from there; what is between counts at the lower one."""
    places = np.floor(losses / step + 1e-6).astype(int)
    return int(places.min()), np.bincount(places - places.min(), weights=chances)


@cache
def laplace_pair(steps, scale):
    """Discrete Laplace noise at two whole numbers that are `steps` apart: what lies beyond both is one output."""
    ratio = math.exp(-1.0 / scale)
    inner = [(1 - ratio) / (1 + ratio) * ratio**at for at in range(1, steps)]
    law = (1 / (1 + ratio), *inner, ratio**steps / (1 + ratio))
    return law, law[::-1]


def workload_law(found, moved):
    """What a strategy publishes on two tables whose counts differ by `moved`."""
    far = found.counts @ np.asarray(moved, dtype=float)
    if not found.pure:
        return PairLaw(square=float(found.losses(np.asarray([moved], dtype=float))[0]))
    scales = found.noise.sum(axis=1)
    steps = np.abs(np.rint(far)).astype(int).tolist()
    return PairLaw(pairs=tuple(laplace_pair(n, s) for n, s in zip(steps, scales.tolist(), strict=True) if n))


_STEPS = 64  # that stand for the very many by which counts in grains differ
_SPREAD = 10.0
_POINTS = 100


def group_law(publisher, share, x, y):
    """What is published for one group at exact coordinates x and y; numbers are told apart as far as cells allow."""
    if isinstance(publisher, QuantilePublisher | RangePublisher):
        laws = zip(weights_of(publisher, x), weights_of(publisher, y), strict=True)
        drawn = PairLaw(pairs=tuple((tuple(one.tolist()), tuple(two.tolist())) for one, two in laws))
        return drawn + counts_law(publisher, x, y)
    if isinstance(publisher, SelectionPublisher):
        one, two = (law_of(lambda each=each: tuple(publisher.draw([each], None)[0])) for each in (x, y))
        return PairLaw(pairs=((tuple(map(float, one.values())), tuple(float(two[key]) for key in one)),))
    if isinstance(publisher, DiscreteLaplacePublisher):
        return PairLaw(pairs=(laplace_pair(int(abs(x[0] - y[0])), publisher.mechanism.scale),))
    if isinstance(publisher, TablePublisher):
        rows = (publisher.table.weights[nearest(publisher.table.inputs, each[0])] / 2.0**62 for each in (x, y))
        return PairLaw(pairs=(tuple(tuple(each.tolist()) for each in rows),))
    assert isinstance(publisher, MechanismPublisher)
    exact = [(floored(a, publisher.grain), floored(b, publisher.grain)) for a, b in zip(x, y, strict=True)]
    if share.mu:
        return PairLaw(square=sum((a - b) ** 2 for a, b in exact) / publisher.mechanism.noise.scale**2)
    return PairLaw(pairs=tuple(_cell_laws(publisher.mechanism, a, b) for a, b in exact if a != b))


def _cell_laws(mechanism, a, b):
    """The laws at two answers on cells of the line; the answers themselves are ends of cells."""
    far = _SPREAD * mechanism.noise.scale
    ends = np.unique([*np.linspace(min(a, b) - far, max(a, b) + far, _POINTS), a, b])
    laws = []
    for each in (a, b):
        below = np.asarray(mechanism.law(float(each)).cdf(ends), dtype=float)
        laws.append(np.diff(below, prepend=0.0, append=1.0))
    seen = np.maximum(*laws) > 1e-11  # of less, doubles would say nothing
    return tuple(tuple(np.maximum(each[seen], 0.0).tolist()) for each in laws)


def question_laws(publisher, share, before, after, law=None):
    """What every pair sees of one question; `before` and `after` are coordinates by pair and group."""
    if isinstance(publisher, WorkloadPublisher):
        moved = [[x[0] - y[0] for x, y in zip(*each, strict=True)] for each in zip(before, after, strict=True)]
        found = strategy_of(publisher, len(moved[0]))
        return [workload_law(found, each) for each in np.array(moved, dtype=float)]
    law = law or laws_of_groups(publisher, share)
    return [
        sum((law(x, y) for x, y in zip(*each, strict=True) if x != y), PairLaw())
        for each in zip(before, after, strict=True)
    ]


def selection_law(selection, one, two):
    """What the names of keys reveal: each is named or not, by its number of units in both tables."""

    def law(units):
        named = selection.probabilities[min(units, len(selection.probabilities) - 1)] / WHOLE
        return named, 1.0 - named

    keys = [key for key in {*one, *two} if one.get(key, 0) != two.get(key, 0)]
    return PairLaw(pairs=tuple((law(one.get(key, 0)), law(two.get(key, 0))) for key in keys))


PARTS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Of a plan's epsilon, at which its profile is compared: at epsilon itself nothing shows that plain sums hold."""
ORDERS = (2, 16)


def as_stated_before(ready):
    """What version 0.2 stated: every question as if each of its numbers were drawn by itself."""
    shares = [*ready.allocation.once.values(), *ready.allocation.selections.values()]
    return added_up(each.apart for each in shares)


def check_stated(ready, laws, *, loss=None):
    """That nothing which is stated or charged is below what the laws of pairs of tables show; the nearest ratio.

    `loss` is stated in place of the plan's own, to see that a smaller one is caught.
    """
    if loss is not None:
        ready = replace(ready)
        ready.__dict__["loss"] = loss
    epsilons = tuple(part * ready.plan.budget.epsilon for part in PARTS)
    gaussian, plain = charges(ready)
    mu, added = math.sqrt(gaussian.mu_squared.fraction), float(gaussian.delta)
    laws = [*dict.fromkeys(laws)]
    exact = np.max([law.deltas(epsilons) for law in laws], axis=0)
    least = exact * (1.0 - 1e-7) - 1e-13  # what doubles may be off
    of_mu = np.array([delta_of_mu(mu, epsilon=each) for each in epsilons]) + added
    assert (least <= of_mu).all(), ("mu", epsilons, exact, of_mu)
    terms = conversions(ready)  # also states delta at some of these epsilons
    assert terms.mu <= mu * (1.0 + 1e-9), "conversions"
    at, known = account_profile(ready), dict(terms.deltas)
    profile = np.array([known[each] if each in known else at(each) for each in epsilons])
    assert (least <= profile).all(), ("profile", epsilons, exact, profile)
    assert exact[-1] <= float(plain.delta) * (1 + 1e-9) + 1e-13, "plain sums"
    for order in ORDERS if not gaussian.delta.units else ():
        paid = float(RenyiFilter(order=order).cost(RenyiFilter(order=order).units(gaussian)).divergence)
        assert max(law.divergence(order) for law in laws) <= paid * (1 + 1e-9), ("divergence", order)
    shown = profile > 1e-9
    return float((exact[shown] / profile[shown]).max(initial=0.0))


def nearest(inputs, value):
    """The place of the input that is nearest to an exact number; of two, the last one."""
    return min(range(len(inputs)), key=lambda at: (abs(Fraction(inputs[at]) - value), -at))


def group_loss(publisher, share, law, x, y):
    if not isinstance(publisher, MechanismPublisher):
        found = [coins(*map(np.array, each)) for each in law(x, y).pairs]
        if isinstance(publisher, DiscreteLaplacePublisher | TablePublisher):
            return pure_loss(found[0][0])
        return PairLoss(epsilon=sum(epsilon for epsilon, _ in found), square=sum(mu**2 for _, mu in found))
    noise = publisher.mechanism.noise
    far = np.array([floored(a, publisher.grain) - floored(b, publisher.grain) for a, b in zip(x, y, strict=True)])
    if share.mu:
        assert noise.curve is Curve.QUADRATIC
        return PairLoss(epsilon=math.inf, square=float((far**2).sum()) / noise.scale**2)
    additive = noise.curve is Curve.LINEAR and math.isinf(noise.extent) and not publisher.mechanism.shape.normalised
    if additive and not share.delta:
        return pure_loss(float(np.abs(far).sum()) / noise.scale)
    assert np.abs(far).sum() <= publisher.mechanism.query.sensitivity * (1 + CLOSE)
    return pure_loss(share.epsilon, share.delta) if far.any() else PairLoss()
