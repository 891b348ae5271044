"""Laws at the extremes against mpmath: densities, masses, quantiles, moments and errors."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from tests.crosscheck.compare import TIGHT, agree
from tests.crosscheck.extremes import Pair, draw
from tests.crosscheck.oracle import Oracle, oracle
from tests.thinning import some

INF = math.inf
BATCHES, BATCH = 6, 25
SMALLEST = 1e-290  # below this a double has no room for nine digits
CHANCES = (1e-12, 1e-3, 0.3, 0.5, 0.8, 1.0 - 1e-9)


def outputs(mechanism: rb.Mechanism, at: float) -> list[float]:
    """Places in every span: its ends, next to them, inside, and the nearest to the location."""
    scale, found = mechanism.noise.scale, []
    for lower, upper in mechanism.shape.spans or [(mechanism.support.hull.lower, mechanism.support.hull.upper)]:
        low = lower if math.isfinite(lower) else min(at, upper) - 2.9 * scale
        high = upper if math.isfinite(upper) else max(at, lower) + 2.9 * scale
        found += [low, high, low + 0.3 * (high - low), low + 1e-7 * (high - low), min(max(at, low), high)]
    return sorted(set(found))


def cases(batch: int) -> list[tuple[Pair, Oracle]]:
    """Random extremes, each with its oracle."""
    generator = np.random.default_rng([131, batch])
    pairs = [draw(generator) for _ in range(BATCH)]
    return [(pair, oracle(pair.mechanism, pair.digits)) for pair in pairs]


@pytest.mark.parametrize("batch", some(range(BATCHES), of=3))
def test_densities_and_masses(batch: int) -> None:
    for pair, true in cases(batch):
        at, law = pair.p, pair.mechanism.law(pair.p)
        places = outputs(pair.mechanism, at)
        for x in places:
            agree(law.cdf(x), true.mass(at, -mp.inf, x), floor=SMALLEST, what=("cdf", x, pair))
            agree(law.sf(x), true.mass(at, x, mp.inf), floor=SMALLEST, what=("sf", x, pair))
            agree(law.pdf(x), true.pdf(at, x), floor=SMALLEST, what=("pdf", x, pair))
            if pair.mechanism.shape.spans:
                agree(law.log_pdf(x), true.log_pdf(at, x), floor=1.0, what=("log_pdf", x, pair))
        for a, b in itertools.pairwise(places):
            agree(law.mass(a, b), true.mass(at, a, b), floor=SMALLEST, what=("mass", a, b, pair))


@pytest.mark.parametrize("batch", some(range(BATCHES), of=3))
def test_moments_and_errors(batch: int) -> None:
    for pair, true in cases(batch):
        law, error, moments = pair.mechanism.law(pair.p), pair.mechanism.error(pair.p), true.moments(pair.p)
        agree(law.mean, moments["mean"], what=("mean", pair))
        agree(law.variance, moments["variance"], floor=1e-100, what=("variance", pair))
        for name in ("bias", "mae", "mse"):
            agree(getattr(error, name), moments[name], floor=1e-100, what=(name, pair))


@pytest.mark.parametrize("batch", some(range(BATCHES), of=3))
def test_moments_of_a_batch(batch: int) -> None:
    """In doubles: 1e-9 of the value, or of the law's own spread where the value is smaller."""
    for pair, true in cases(batch):
        law, moments = pair.mechanism.law(np.array([pair.p])), true.moments(pair.p)
        spread = float(mp.sqrt(moments["variance"]))
        agree(law.mean[0], moments["mean"], floor=spread, what=("mean", pair))
        agree(law.variance[0], moments["variance"], floor=1e-100, what=("variance", pair))


@pytest.mark.parametrize("batch", some(range(BATCHES), of=3))
def test_quantiles(batch: int) -> None:
    """The x returned is within 1e-9 of the true quantile, by what the distribution function is there."""
    for pair, true in cases(batch):
        at, law = pair.p, pair.mechanism.law(pair.p)
        floor = (
            0.0 if pair.mechanism.support.bounded else pair.mechanism.noise.scale
        )  # x may be any number, also near 0
        for chance in CHANCES:
            x = float(law.quantile(chance))
            assert math.isfinite(x), (chance, pair)
            with mp.workdps(pair.digits):
                short = mp.mpf(chance) - true.mass(at, -mp.inf, x)  # positive: x is too small
                over = (1 - true.mass(at, x, mp.inf)) - mp.mpf(chance)  # positive: x is too large
                off = max(short, over)
                if off <= 0:
                    continue  # an atom, or exact
                move = (abs(mp.mpf(x)) + floor) * mp.mpf(TIGHT)
                nearer = mp.mpf(x) + (move if short > 0 else -move)
                reached = true.mass(at, -mp.inf, nearer)
                assert (reached >= chance) if short > 0 else (reached <= chance), (chance, x, pair)


def test_a_misplaced_law_is_caught() -> None:
    """A control: a location that is off in its tenth digit fails the same comparisons."""
    generator = np.random.default_rng(132)
    pair = next(p for p in (draw(generator) for _ in range(999)) if p.mechanism.bounding is rb.UNBOUNDED)
    true = oracle(pair.mechanism)
    law = pair.mechanism.law(pair.p + 1e-8 * pair.mechanism.noise.scale)
    x = pair.p - 2.0 * pair.mechanism.noise.scale
    with pytest.raises(AssertionError):
        agree(law.cdf(x), true.mass(pair.p, -mp.inf, x))
    with pytest.raises(AssertionError):
        agree(law.pdf(x), true.pdf(pair.p, x))
