"""How many right guesses a claim allows: linear programs, the binomial law, the best and rarely loud mechanisms."""

import math

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import ndtr

from rangebound.audit.right_guesses import Count, Curve, Reading, is_refuted, largest_refuted


def gaussian(mu):
    """The profile of N(0, 1) and N(mu, 1)."""
    epsilons = np.linspace(0.0, 6.0 * mu + mu**2 / 2, 40)
    return Curve(tuple((e, float(ndtr(-e / mu + mu / 2) - math.exp(e) * ndtr(-e / mu - mu / 2))) for e in epsilons))


def largest_tail(curve, canaries, guesses, right):
    """The second route: the largest P(W >= right) under R_(k+1) <= F(V_k) for all k, as a linear program."""
    k = np.arange(guesses + 1)
    rows, limits = [], []
    for start in range(guesses):
        r = np.where(k >= start + 1, k, 0) / canaries
        v = np.where(k >= start, guesses - k, 0) / canaries
        for epsilon, delta in curve.points:  # r <= e^eps v + delta, and r <= 1 - e^-eps (1 - delta - v)
            rows += [r - math.exp(epsilon) * v, r - math.exp(-epsilon) * v]
            limits += [delta, 1.0 - math.exp(-epsilon) * (1.0 - delta)]
    found = optimize.linprog(
        -(k >= right).astype(float), A_ub=rows, b_ub=limits, A_eq=[np.ones(guesses + 1)], b_eq=[1.0], method="highs"
    )
    return -found.fun


def best_attack(points, canaries, guesses, right):
    """The largest P(W >= right) of all mechanisms with this profile and all attackers, as a linear program.

    Permuting canaries and turning coins keeps privacy and W, so the best law of guesses follows from the number of
    wrong ones alone: g[w] is its probability. The coin of a guessed canary turned, w becomes w + 1 or w - 1.
    """
    w = np.arange(guesses)
    up = np.zeros((guesses, guesses + 1))  # mass of those with this canary right and w others wrong ...
    down = up.copy()  # ... and the mass of the same outputs with its coin turned
    up[w, w], down[w, w + 1] = (guesses - w) / canaries, (w + 1) / canaries
    rows, limits, size = [], [], 2 * guesses
    for at, (epsilon, delta) in enumerate(points):
        excess = np.vstack([up - math.exp(epsilon) * down, down - math.exp(epsilon) * up])
        parts = np.zeros((size + 1, len(points) * size))  # the positive parts of the excess, and their sum
        parts[:size, at * size : (at + 1) * size] = -np.eye(size)
        parts[size, at * size : (at + 1) * size] = 1.0
        rows.append(np.hstack([np.vstack([excess, np.zeros(guesses + 1)]), parts]))
        limits += [0.0] * size + [delta]
    wanted = np.zeros(guesses + 1 + len(points) * size)
    wanted[: guesses - right + 1] = -1.0
    whole = (np.arange(len(wanted)) <= guesses).astype(float)[None]
    return -optimize.linprog(wanted, A_ub=np.vstack(rows), b_ub=limits, A_eq=whole, b_eq=[1.0], method="highs").fun


@pytest.mark.parametrize(
    ("points", "canaries", "guesses"),
    [
        (gaussian(1.0).points[:15:2], 12, 12),
        (((1.0, 0.01),), 20, 20),
        (((0.5, 0.0),), 30, 12),
        (((0.0, 0.2),), 15, 15),
        (((3.0, 0.001),), 24, 8),
    ],
)
def test_no_mechanism_that_keeps_the_claim_is_refuted_more_often_than_is_said(points, canaries, guesses):
    """From the definition; where all guesses have to be right, some mechanism is refuted as often."""
    for right in range(guesses // 2 + 1, guesses + 1):
        best = best_attack(points, canaries, guesses, right)
        count = [Count(right, guesses, canaries)]
        assert not is_refuted(Curve(points), count, Reading.WHOLE, 1.0 - min(best * 0.999, 1.0 - 1e-9))
    assert is_refuted(Curve(points), count, Reading.WHOLE, 1.0 - best * 1.001)  # control


@pytest.mark.parametrize(
    ("curve", "canaries", "guesses"),
    [
        (gaussian(1.0), 20, 20),
        (gaussian(0.3), 25, 10),
        (Curve(((1.0, 0.01),)), 20, 20),
        (Curve(((0.5, 0.0),)), 30, 12),
        (Curve(((0.0, 0.2),)), 15, 15),
    ],
)
def test_the_tail_is_the_largest_that_the_claim_allows(curve, canaries, guesses):
    for right in range(guesses // 2 + 1, guesses + 1):
        tail = largest_tail(curve, canaries, guesses, right)
        count = [Count(right, guesses, canaries)]
        if tail < 0.999:
            assert is_refuted(curve, count, Reading.WHOLE, 1.0 - tail * 1.001)
        assert not is_refuted(curve, count, Reading.WHOLE, 1.0 - min(tail * 0.999, 1.0 - 1e-9))


def test_of_a_pure_claim_the_tail_is_binomial():
    """A count is refuted where a binomial one is that unlikely: randomised response is the worst."""
    curve, p = Curve(((1.0, 0.0),)), math.e / (1.0 + math.e)
    for reading in Reading:
        fewest = next(r for r in range(1001) if is_refuted(curve, [Count(r, 1000, 1000)], reading, 0.99))
        exact = next(r for r in range(1001) if stats.binom.sf(r - 1, 1000, p) < 0.01)
        assert exact <= fewest <= exact + (0 if reading is Reading.EACH else 12)


def test_the_whole_is_not_refuted_by_a_mechanism_that_rarely_reveals_much():
    """With 5 % it shows every coin through RR(p), else nothing: as private for each canary as N(0, 1) and N(1, 1)."""
    share, m, curve = 0.05, 10_000, gaussian(1.0)
    p = optimize.brentq(lambda p: share * p - ndtr(stats.norm.ppf(share * (1.0 - p)) + 1.0), 0.51, 0.99)
    caught = [Count(int(m * p), m, m)]  # what is seen in those 5 %
    assert is_refuted(curve, caught, Reading.EACH, 0.95)
    assert not is_refuted(curve, caught, Reading.WHOLE, 0.95)


def test_several_counts_share_the_risk_and_a_bound_is_below_what_it_refutes():
    one, none = Count(560, 1000, 1000), Count(500, 1000, 1000)
    weak = Curve(((0.0, 0.05),))
    assert is_refuted(weak, [one], Reading.EACH, 0.97)
    assert not is_refuted(weak, [one, none, none, none], Reading.EACH, 0.97)

    def family(mu, reading):
        return Curve(((0.0, float(2.0 * ndtr(mu / 2.0) - 1.0)),))

    found = largest_refuted(family, [Count(8500, 10_000, 10_000)], Reading.EACH, 0.95, 1.0, 16.0)
    exact = 2.0 * stats.norm.ppf(stats.beta.ppf(0.05, 8500, 1501))
    assert 0.998 * exact <= found <= exact
    assert largest_refuted(family, [none], Reading.EACH, 0.95, 1.0, 16.0) is None
