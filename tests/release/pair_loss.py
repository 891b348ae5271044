"""What two neighbouring tables lose to a plan: the privacy loss of the very draws, by another route than the plan's.

The coordinates of both tables are given exactly. What is drawn from them is asked of the publishers, with the noise
taken away or put in by hand: a strategy is any map from counts and noise to published numbers, found by trying one
count and one noise after the other, and a quantile is the weights that are handed to its draw.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from unittest import mock

import numpy as np
from scipy.special import ndtri

from rangebound.noise import Curve
from rangebound.release.noise import exponential_mechanism
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher
from rangebound.release.noise.quantile_publisher import QuantilePublisher
from rangebound.release.noise.strategies.contributions import NoiseAccount
from rangebound.release.noise.strategies.lattice_noise import LatticeNoise, wholes
from rangebound.release.noise.workload_publisher import WorkloadPublisher

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


def strategy_of(publisher, cells):
    """The strategy of a workload, by what it publishes for each single count and each single noise."""
    scales = []

    def published(counts, noise):
        place = 0

        def drawn(self, count, bits):
            nonlocal place
            own = noise[place : place + count] if noise else [0] * count
            scales[place : place + count] = [(self.scale, self.step)] * count
            place += count
            return wholes(np.array(own, dtype=object))

        with mock.patch.object(LatticeNoise, "draw", drawn):
            (group,) = publisher.draw([(Fraction(int(each)),) for each in counts], None)
        return np.array([each for draw in group for each in draw])

    none = published([0] * cells, [])
    counts = [published(row, []) - none for row in np.eye(cells, dtype=int)]
    noises = np.eye(len(scales), dtype=int).tolist()
    noise = [
        (published([0] * cells, row) - none) * scale / step
        for row, (scale, step) in zip(noises, list(scales), strict=True)
    ]
    pure = publisher.measured.account is NoiseAccount.PURE
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

    with mock.patch.object(exponential_mechanism, "draw", drawn):
        publisher.draw([truth], None)
    return [np.array([float(Fraction(each, sum(weights))) for each in weights]) for weights in found]


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


def question_losses(publisher, share, before, after):
    """For every pair: epsilon, mu^2 and delta of one question; epsilon is infinite where the noise is Gaussian.

    `before` and `after` are coordinates by pair and group.
    """
    if isinstance(publisher, WorkloadPublisher):
        moved = [[x[0] - y[0] for x, y in zip(*each, strict=True)] for each in zip(before, after, strict=True)]
        found = strategy_of(publisher, len(moved[0]))
        losses = found.losses(np.array(moved, dtype=float))
        return np.array([(each, math.inf, 0.0) if found.pure else (math.inf, each, 0.0) for each in losses.tolist()])
    return np.array(
        [
            np.sum(
                [group_loss(publisher, share, x, y) for x, y in zip(*each, strict=True) if x != y] or [(0.0,) * 3], 0
            )
            for each in zip(before, after, strict=True)
        ]
    )


def group_loss(publisher, share, x, y):
    """epsilon, mu^2 and delta of the draws of one group."""
    if isinstance(publisher, QuantilePublisher):
        found = [coins(*each) for each in zip(weights_of(publisher, x), weights_of(publisher, y), strict=True)]
        return sum(epsilon for epsilon, _ in found), sum(mu**2 for _, mu in found), 0.0
    if isinstance(publisher, DiscreteLaplacePublisher):
        epsilon = float(abs(x[0] - y[0])) / publisher.mechanism.scale
        return epsilon, of_pure(epsilon), 0.0
    assert isinstance(publisher, MechanismPublisher)
    noise = publisher.mechanism.noise
    far = np.array([publisher.exact(a) - publisher.exact(b) for a, b in zip(x, y, strict=True)])
    if share.mu:
        assert noise.curve is Curve.QUADRATIC
        return math.inf, float((far**2).sum()) / noise.scale**2, 0.0
    additive = noise.curve is Curve.LINEAR and math.isinf(noise.extent) and not publisher.mechanism.shape.normalised
    if additive and not share.delta:
        epsilon = float(np.abs(far).sum()) / noise.scale
        return epsilon, of_pure(epsilon), 0.0
    assert np.abs(far).sum() <= publisher.mechanism.query.sensitivity * (1 + CLOSE)
    return (share.epsilon, of_pure(share.epsilon), share.delta) if far.any() else (0.0, 0.0, 0.0)
