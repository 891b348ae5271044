"""Per-instance divergences on Poisson samples against direct integration, with rules that must fail beside them."""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy import special

import rangebound as rb
from rangebound.learn.torch import Elementwise, Noise, PrivacyEngine, RenyiWatcher, Sampling
from rangebound.learn.torch.accounts.renyi_watcher import LossTable
from rangebound.learn.torch.accounts.sampled_loss import (
    Moments,
    joining_above,
    joining_below,
    leaving_above,
    leaving_below,
    sampled,
    tabulated,
)
from tests.learn.torch.models import NoNoise, simple, train

LINE = rb.Interval(-math.inf, math.inf)
legendre = cache(np.polynomial.legendre.leggauss)
KINDS = (rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE, rb.UNBOUNDED)


@dataclass(frozen=True)
class Case:
    """One example moves coordinates at `places` by `shifts` of one size; noise of scale 1, support [-half, half]."""

    bounding: Any
    half: float
    rate: float
    order: float
    places: np.ndarray
    shifts: np.ndarray

    @property
    def mechanism(self) -> rb.Mechanism:
        grid = rb.Grid(step=self.half, within=rb.Interval(-self.half, self.half))
        support = {rb.UNBOUNDED: None, rb.QUANTIZE: grid}.get(self.bounding, rb.Interval(-self.half, self.half))
        query = rb.Query(range=LINE, sensitivity=float(abs(self.shifts[0])))
        return rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=query, support=support, bounding=self.bounding)


def drawn(generator: np.random.Generator, most: int = 3) -> Case:
    """A random case; rates from 1 % to 50 %, orders from 1.1 to 32, whole ones and others."""
    kind, count = KINDS[generator.integers(4)], int(generator.integers(1, most + 1))
    orders = (generator.uniform(1.1, 4), generator.uniform(4, 32), generator.integers(2, 33))
    size = math.exp(generator.uniform(math.log(0.05), math.log(1.5)))
    return Case(
        kind, float(generator.uniform(0.5, 3)), math.exp(generator.uniform(math.log(0.01), math.log(0.5))),
        float(orders[generator.integers(3)]), generator.uniform(-2, 2, count), size * generator.choice([-1, 1], count),
    )  # fmt: skip


def masses(case: Case, p: float, q: float, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of what one coordinate has at the points of a rule, at the location p, and of the ratio q to p."""
    half = case.half
    if case.bounding is rb.QUANTIZE:
        a, b = (np.log(np.diff(special.ndtr([-np.inf, -half / 2 - at, half / 2 - at, np.inf]))) for at in (p, q))
        return a, b - a
    x, weights = legendre(points)
    wide = case.bounding is rb.UNBOUNDED  # far enough for the order-th power of the ratio
    low, high = (min(p, q) - case.order * abs(q - p) - 14, max(p, q) + case.order * abs(q - p) + 14)
    low, high = (low, high) if wide else (-half, half)
    x, weights = (low + high) / 2 + (high - low) / 2 * x, weights * (high - low) / 2
    density = np.log(weights) - (x - p) ** 2 / 2 - math.log(2 * math.pi) / 2
    ratio = ((x - p) ** 2 - (x - q) ** 2) / 2
    if case.bounding is rb.TRUNCATE:
        inside = [math.log(special.ndtr(half - at) - special.ndtr(-half - at)) for at in (p, q)]
        return density - inside[0], ratio + inside[0] - inside[1]
    if case.bounding is rb.RECTIFY:
        ends = [special.log_ndtr([-half - at, at - half]) for at in (p, q)]
        return np.concatenate([density, ends[0]]), np.concatenate([ratio, ends[1] - ends[0]])
    return density, ratio


def brute(case: Case, points: int = 72) -> tuple[float, float]:
    """Joining and leaving by direct integration over all coordinates; of unbounded noise, along the shift."""
    laws, ratios = np.zeros(1), np.zeros(1)
    pairs = [(at, at + by) for at, by in zip(case.places, case.shifts, strict=True)]
    if case.bounding is rb.UNBOUNDED:
        pairs, points = [(0.0, float(np.linalg.norm(case.shifts)))], 800
    for p, q in pairs:
        law, ratio = masses(case, p, q, points)
        laws, ratios = (laws[:, None] + law).reshape(-1), (ratios[:, None] + ratio).reshape(-1)
    moved = case.rate * np.expm1(ratios)  # of mean 0, which is taken off: an error of the rule counts for less
    found = []
    for power in (case.order, 1.0 - case.order):
        terms = power * np.log1p(moved)
        if float(terms.max()) > 600.0:
            found.append(float(special.logsumexp(terms + laws)) / (case.order - 1.0))
            continue
        safe = np.exp(np.maximum(laws, -700.0))
        found.append(math.log1p(float((safe * (np.expm1(terms) - power * moved)).sum())) / (case.order - 1.0))
    return found[0], found[1]


def known(case: Case) -> Moments:
    """The moments of the ratio of the laws with and without the example, enclosed by the formulas of the table."""
    orders = tabulated([case.order])
    below, above = LossTable(case.mechanism, orders)._pairs(case.places + case.shifts, case.places)
    return Moments.between(orders, below[0].sum(axis=1), above[0].sum(axis=1))


def bounds(case: Case) -> list[tuple[float, float]]:
    moments, rest = known(case), (case.rate, case.order)
    joining = joining_below(moments, *rest), joining_above(moments, *rest)
    return [joining, (leaving_below(moments, *rest), leaving_above(moments, *rest))]


def excesses(cases: list[Case]) -> np.ndarray:
    """By how much the upper bounds are above direct integration; fails where a bound is on the wrong side."""
    found = []
    for case in cases:
        for exact, (low, high) in zip(brute(case), bounds(case), strict=True):
            slip = 1e-10 * exact + 1e-12  # of the integration
            assert low <= exact + slip, case
            assert high >= exact - slip, case
            found.append(high / exact - 1.0)
    return np.asarray(found)


@pytest.mark.claim("privacy")
def test_bounds_enclose_direct_integration() -> None:
    generator = np.random.default_rng(11)
    assert np.median(excesses([drawn(generator, most=2) for _ in range(50)])) <= 1e-3


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_bounds_enclose_direct_integration_in_ten_thousand_cases(seed: int) -> None:
    generator = np.random.default_rng(1000 + seed)
    assert np.median(excesses([drawn(generator) for _ in range(1000)])) <= 1e-3


def test_direct_integration_agrees_with_another_one() -> None:
    """One coordinate, in 30 digits, by a rule that chooses its own points."""
    case = Case(rb.RECTIFY, 1.0, 0.2, 5.5, np.array([0.3]), np.array([0.7]))
    with mpmath.workdps(30):
        p, q, half = (mpmath.mpf(float(each)) for each in (0.3, 0.3 + 0.7, 1.0))
        ends = [(mpmath.ncdf(-half - at), mpmath.ncdf(at - half)) for at in (p, q)]

        def total(power: float) -> Any:
            mixed = lambda a, b: a * (1 + mpmath.mpf(0.2) * (b / a - 1)) ** power  # noqa: E731
            inner = mpmath.quad(lambda x: mixed(mpmath.npdf(x, p), mpmath.npdf(x, q)), [-1, 0, 1])
            return mpmath.log(inner + sum(mixed(a, b) for a, b in zip(*ends, strict=True))) / mpmath.mpf(4.5)

        exact = [float(total(power)) for power in (5.5, -4.5)]
    assert brute(case) == pytest.approx(exact, rel=1e-11)
    for true, (low, high) in zip(exact, bounds(case), strict=True):
        assert low <= true <= high <= true * 1.001


def test_naive_rules_fall_below() -> None:
    """Controls: Radau's rule for joining at a large order, and leaving taken for joining, understate the loss."""
    case = Case(rb.TRUNCATE, 2.0, 0.3, 12.0, np.array([0.2]), np.array([1.0]))
    exact, low_of_leaving = brute(case)
    second = math.exp(float(known(case).upper[2]))  # E r^2: nodes 0 and E r^2, masses 1 - 1/E r^2 and the rest
    naive = (1 - 1 / second) * 0.7**12 + (0.7 + 0.3 * second) ** 12 / second
    assert math.log(naive) / 11.0 < 0.99 * exact
    assert low_of_leaving < 0.9 * exact
    assert exact <= joining_above(known(case), 0.3, 12.0) <= exact * (1.0 + 1e-9)


@pytest.mark.slow
def test_leaving_near_rate_one_is_bounded_by_leaving_without_sampling() -> None:
    """Never below integration; the rules alone are far above, and the chord of the other direction falls below."""
    generator, without, capped, wrong = np.random.default_rng(5), [], [], 0
    for _ in range(200):
        case = replace(drawn(generator, most=2), rate=1.0 - math.exp(generator.uniform(math.log(1e-3), math.log(0.5))))
        table, rest = LossTable(case.mechanism, orders := tabulated([case.order])), (case.rate, case.order)
        below, above = table._pairs(case.places + case.shifts, case.places)
        there, back = (Moments.between(orders, below[row].sum(axis=1), above[row].sum(axis=1)) for row in range(2))
        exact, found = brute(case)[1], leaving_above(there, *rest, back)
        assert found >= exact * (1.0 - 1e-10) - 1e-12, case
        without.append(leaving_above(there, *rest) / exact)
        capped.append(found / exact)
        wrong += leaving_above(there, *rest, there) < exact * (1.0 - 1e-9)
    assert max(capped) < 5.0 < 50.0 < max(without)
    assert wrong > 0


def test_wide_enclosures_stay_sound() -> None:
    """Moments that are known badly give wider bounds, not wrong ones; of the second alone the rest is not needed."""
    case = Case(rb.TRUNCATE, 1.0, 0.1, 6.0, np.array([0.2, -0.4]), np.array([0.5, 0.5]))
    sharp = known(case)
    wide = Moments(lower=sharp.lower * 0.0, upper=sharp.upper * 1.05)
    for function in (joining_above, leaving_above):
        assert function(sharp, 0.1, 6.0) < function(wide, 0.1, 6.0) < 3.0 * function(sharp, 0.1, 6.0)
    huge = Moments(lower=sharp.lower, upper=np.array([0.0, 0.0, *[1e5] * (len(sharp.upper) - 2)]))
    assert leaving_above(huge, 0.1, 6.0) <= -math.log1p(-0.1) * (1.0 + 1e-14)


@pytest.mark.parametrize("bounding", KINDS, ids=str)
def test_the_table_covers_every_example(bounding: Any) -> None:
    """Given the sums, with or without the example, whichever way it moves each coordinate, by as much as it may."""
    orders, places = (2.0, 7.3), np.array([0.4, -1.1])
    for size, rate, close in ((0.01, 0.01, 1.01), (0.8, 0.2, 5.0)):
        case = Case(bounding, 1.0, rate, 2.0, places, np.array([size, size]))
        table = LossTable(case.mechanism, tabulated(orders))
        ours = sampled(*table.sums(torch.from_numpy(places)), rate, orders)
        for order, bound in zip(orders, ours.tolist(), strict=True):
            found = []
            for signs in np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]):
                moved = places + signs * size
                for at, by in ((places, signs * size), (moved, -signs * size)):
                    found += brute(Case(bounding, 1.0, rate, order, at, by), 40)
            assert max(found) * (1.0 - 1e-10) <= bound <= max(found) * close


def test_a_training_on_samples_is_read() -> None:
    """The reading of mini-batches is below that of full batches at the same noise, and beside the worst case."""
    seen: list[torch.Tensor] = []
    watcher = RenyiWatcher(orders=(1.5, 2.0, 8.0))
    _, optimizer, loader = simple(
        batch_size=3, watchers=(watcher,), noise=NoNoise(seen=seen), bounding=rb.RECTIFY, support=rb.Interval(-1, 1)
    )
    train(optimizer, loader, 2)
    whole = LossTable(optimizer.mechanism, [2.0])
    full = sum(float(whole.divergence(each)[0]) for each in seen)
    assert 0.0 < watcher.divergence(2.0).reveal() < 0.15 * full  # about the square of a quarter
    assert watcher.epsilon(1e-5).reveal() > 0.0


def test_other_samples_are_refused() -> None:
    data = torch.utils.data.TensorDataset(torch.zeros(8, 3), torch.zeros(8, dtype=torch.long))
    module = torch.nn.Linear(3, 2)
    for way in ("random-allocation", "fixed-size"):
        with pytest.raises(rb.errors.ArgumentError, match="Poisson"):
            PrivacyEngine(RenyiWatcher()).make_private(
                module=module, optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
                data_loader=torch.utils.data.DataLoader(data, batch_size=2),
                criterion=torch.nn.functional.cross_entropy, clipping=Elementwise(clip=1.0),
                noise=Noise(multiplier=9.0), sampling=Sampling(way=way),
            )  # fmt: skip
    moments = known(Case(rb.RECTIFY, 1.0, 0.1, 3.0, np.array([0.4]), np.array([0.3])))
    for rate, order in ((0.0, 2.0), (1.0, 2.0), (math.nan, 2.0), (0.1, 1.0), (0.1, 99.0), (0.1, math.nan)):
        with pytest.raises(rb.errors.ArgumentError):
            leaving_above(moments, rate, order)
    for lower, upper in (([0.0] * 3, [0.0] * 3), ([0.0] * 7, [0.0, 0.1, *[1.0] * 5]), ([1.0] * 7, [0.0] * 7)):
        with pytest.raises(rb.errors.ArgumentError, match="moments"):
            Moments(lower=np.array(lower), upper=np.array(upper))
