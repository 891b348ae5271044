"""Grids and wide ranges: the published number is the supremum to 1e-6, and it comes in time.

The second route is numpy alone: the weights of all points at many positions, zooming in on the best ones, and for
every listed case a number that the code before this test got wrong, or took minutes for.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.special
from flint import arb

import rangebound as rb
from rangebound.accounting import renyi
from rangebound.accounting.event import MechanismEvent
from rangebound.ball import ball, down, precision, span, taylor, up
from rangebound.privacy.pairs.lattice_sums import Theta
from rangebound.privacy.search.endless_lattice import Threshold, renyi_ceiling, stick_ceiling
from rangebound.privacy.worst import worst_delta, worst_loss, worst_renyi
from tests.matrix.deadline import deadline

INF = math.inf


def grid(low, high, step=1.0):
    return rb.Grid(step=step, within=rb.Interval(low, high))


def mechanism(noise, answers, sensitivity, support, bounding=rb.TRUNCATE):
    query = rb.Query(range=rb.Interval(*answers), sensitivity=sensitivity)
    return rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)


def log_weights(m, at):
    """The logarithm of the probability of each point, for each position: nothing of the package is used."""
    scale, points = m.noise.scale, np.asarray(m.support.points)
    if m.bounding is rb.QUANTIZE:
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(cell_masses(m, at)), -700.0)
    off = points - at[:, None]
    logs = -0.5 * (off / scale) ** 2 if isinstance(m.noise, rb.Gaussian) else -np.abs(off) / scale
    return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)


def cell_masses(m, at):
    """The mass of each cell, from the tail in which less cancels."""
    scale, points = m.noise.scale, np.asarray(m.support.points)
    cuts = 0.5 * (points[1:] + points[:-1]) - at[:, None]
    beyond = 0.5 * math.exp(-m.noise.limit / scale) if isinstance(m.noise, rb.TruncatedLaplacian) else 0.0

    def upper(y):
        if isinstance(m.noise, rb.Gaussian):
            return scipy.special.ndtr(-y / scale)
        tail = 0.5 * np.exp(-np.abs(y) / scale)
        return (np.where(y > 0.0, tail, 1.0 - tail) - beyond) / (1.0 - 2.0 * beyond)

    tails = np.concatenate([np.ones((len(at), 1)), upper(cuts), np.zeros((len(at), 1))], axis=1)
    heads = np.concatenate([np.zeros((len(at), 1)), upper(-cuts), np.ones((len(at), 1))], axis=1)
    left, right = np.diff(heads, axis=1), -np.diff(tails, axis=1)
    return np.where(np.concatenate([cuts, cuts[:, -1:]], axis=1) < 0.0, left, right)


def stick(epsilon):
    def number(p, q):
        excess = np.where(p > q + epsilon, p, -INF)
        return (np.exp(excess) * -np.expm1(np.minimum(q + epsilon - p, 0.0))).sum(axis=1)

    return number


def divergence(order):
    return lambda p, q: np.logaddexp.reduce(order * p + (1.0 - order) * q, axis=1) / (order - 1.0)


def loss(p, q):
    return (p - q).max(axis=1)


def brute(m, number, low, high):
    """The largest number over the pairs (p, p + D) in both directions: kinks, and a scan that zooms in."""
    best, d = -INF, m.query.sensitivity
    points = np.asarray(m.support.points)
    for swap in (False, True):
        start, end = low, high - d
        for zoom in range(5):
            at = np.linspace(start, end, 401 if zoom == 0 else 41)
            if zoom == 0:
                at = np.sort(np.concatenate([at, np.clip([*points, *(points - d)], start, end)]))
            pair = log_weights(m, at), log_weights(m, at + d)
            values = number(*pair[::-1]) if swap else number(*pair)
            top = int(np.argmax(values))
            best = max(best, float(values[top]))
            start, end = at[max(top - 1, 0)], at[min(top + 1, len(at) - 1)]
    return best


LONG = mechanism(rb.Gaussian(scale=10.0), (0, 500), 1.0, grid(0, 500))
NARROW = mechanism(rb.Gaussian(scale=2.0), (0, 100), 1.0, grid(0, 100))
CASES = {
    "delta, whole numbers to 500": (LONG, "delta", 0.5, (200.0, 300.0)),
    "rdp, whole numbers to 500": (LONG, "rdp", 2.0, (200.0, 300.0)),
    "delta, whole numbers to 100": (NARROW, "delta", 0.5, (40.0, 60.0)),
    "rdp, whole numbers to 100": (NARROW, "rdp", 16.0, (40.0, 60.0)),
    "a step that is no double": (
        mechanism(rb.Gaussian(scale=1.0), (0, 20), 0.1, grid(0, 20, 0.1)),
        "delta",
        0.1,
        (8, 12),
    ),
    "rdp, a step that is no double": (
        mechanism(rb.Gaussian(scale=1.0), (0, 20), 0.1, grid(0, 20, 0.1)),
        "rdp",
        8.0,
        (8.0, 12.0),
    ),
    "points far apart": (
        mechanism(rb.Gaussian(scale=0.62), (0, 100), 14.4, grid(0, 100, 3.47)),
        "rdp",
        3.0,
        (0.0, 100.0),
    ),
    "a grid of a few scales": (mechanism(rb.Gaussian(scale=20.0), (0, 100), 1.0, grid(0, 100)), "delta", 0.1, (0, 100)),
    "rdp, a grid of a few scales": (
        mechanism(rb.Gaussian(scale=20.0), (0, 100), 1.0, grid(0, 100)),
        "rdp",
        4.0,
        (0.0, 100.0),
    ),
    "Laplace, epsilon": (mechanism(rb.Laplace(scale=10.0), (0, 400), 1.0, grid(0, 400)), "epsilon", 0.0, (0.0, 400.0)),
    "Laplace, epsilon of a pair no multiple of the step": (
        mechanism(rb.Laplace(scale=3.0), (0, 200), 0.7, grid(0, 200)),
        "epsilon",
        0.0,
        (0.0, 200.0),
    ),
    "Laplace, delta": (mechanism(rb.Laplace(scale=3.0), (0, 400), 1.0, grid(0, 400)), "delta", 0.2, (0.0, 60.0)),
    "Laplace, delta near an end": (
        mechanism(rb.Laplace(scale=3.0), (0, 400), 1.0, grid(0, 400)),
        "delta",
        0.45,
        (0.0, 20.0),
    ),
    "Laplace, rdp": (mechanism(rb.Laplace(scale=3.0), (0, 400), 1.0, grid(0, 400)), "rdp", 4.0, (0.0, 60.0)),
    "Laplace, rdp of a high order": (
        mechanism(rb.Laplace(scale=3.0), (0, 400), 1.0, grid(0, 400)),
        "rdp",
        64.0,
        (0.0, 60.0),
    ),
    "Laplace, a step that is no double": (
        mechanism(rb.Laplace(scale=0.3), (0, 30), 0.25, grid(0, 30, 0.1)),
        "delta",
        0.3,
        (0.0, 20.0),
    ),
    "Laplace, a grid of a few scales": (
        mechanism(rb.Laplace(scale=20.0), (0, 100), 5.0, grid(0, 100)),
        "rdp",
        3.0,
        (0.0, 100.0),
    ),
    "rounded Laplace": (
        mechanism(rb.Laplace(scale=5.0), (0, 1000), 1.0, grid(0, 1000), rb.QUANTIZE),
        "rdp",
        2.0,
        (470.0, 490.0),
    ),
    "rounded Laplace, a wide pair": (
        mechanism(rb.Laplace(scale=5.0), (0, 40), 7.3, grid(0, 40), rb.QUANTIZE),
        "rdp",
        5.0,
        (0.0, 40.0),
    ),
    "rounded truncated Laplacian": (
        mechanism(rb.TruncatedLaplacian(scale=20.0, limit=200.0), (0, 40), 1.0, grid(0, 40), rb.QUANTIZE),
        "rdp",
        64.0,
        (0.0, 40.0),
    ),
    "rounded Gaussian": (
        mechanism(rb.Gaussian(scale=2.0), (0, 19), 1.0, grid(0, 19), rb.QUANTIZE),
        "rdp",
        5.0,
        (0.0, 19.0),
    ),
    "rounded Gaussian, a long grid": (
        mechanism(rb.Gaussian(scale=0.5), (0, 365), 0.1, grid(0, 365), rb.QUANTIZE),
        "rdp",
        10.0,
        (150.0, 160.0),
    ),
    "an endless range": (mechanism(rb.Gaussian(scale=2.0), (-INF, INF), 1.0, grid(0, 100)), "delta", 0.5, (40, 60)),
    "rdp, an endless range": (mechanism(rb.Gaussian(scale=2.0), (0, INF), 1.0, grid(0, 100)), "rdp", 4.0, (40, 60)),
}
NUMBERS = {
    "delta": (lambda m, x: worst_delta(m.setting, x), stick),
    "rdp": (lambda m, x: worst_renyi(m.setting, x), divergence),
    "epsilon": (lambda m, x: worst_loss(m.setting), lambda x: loss),
}


@pytest.mark.parametrize("name", CASES)
def test_the_supremum_over_a_grid_is_exact(name):
    m, kind, argument, (low, high) = CASES[name]
    ask, number = NUMBERS[kind]
    with deadline(name, 5.0):
        worst = ask(m, argument)
    assert worst.lower <= worst.upper <= worst.lower * (1.0 + 1e-6)
    truth = brute(m, number(argument), low, high)
    assert worst.upper >= truth * (1.0 - 1e-11)
    assert worst.upper <= truth * (1.0 + 1e-5)  # the scan is the coarser of the two


def test_no_order_is_above_the_pure_epsilon():
    m = mechanism(rb.TruncatedLaplacian(scale=20.0, limit=60.0), (0, 50), 1.0, grid(0, 50), rb.QUANTIZE)
    pure = m.epsilon()
    curve = m.rdp([1.5, 8.0, 64.0, 1000.0])
    assert (np.diff(curve) > 0.0).all()
    assert (curve <= [min(pure, 0.5 * order * pure**2) * (1.0 + 1e-12) for order in (1.5, 8.0, 64.0, 1000.0)]).all()


def test_a_curve_of_a_hundred_releases_comes_in_time():
    m = mechanism(rb.Gaussian(scale=10.0), (0, 100), 1.0, rb.Interval(0, 100))
    with deadline("renyi", 5.0):
        found = renyi.epsilon(MechanismEvent(mechanism=m, times=100), 1e-6)
    orders = np.linspace(2.0, 40.0, 400)
    worth = 100 * orders / 200.0 + np.log1p(-1.0 / orders) - (math.log(1e-6) + np.log(orders)) / (orders - 1.0)
    assert (
        0.999 * worth.min() < found <= worth.min() * (1.0 + 1e-3)
    )  # truncation to an interval lowers the curve a little


@pytest.mark.parametrize("step", [1.0, 0.1])
def test_calibration_on_a_long_grid_comes_in_time(step):
    query = rb.Query(range=rb.Interval(0, 200), sensitivity=1.0)
    with deadline("calibrate", 8.0):
        m = rb.calibrate(noise=rb.Gaussian, query=query, support=grid(0, 200, step), epsilon=1.0, delta=1e-6)
    assert m.delta(1.0) <= 1e-6
    less = rb.Mechanism(noise=rb.Gaussian(scale=m.noise.scale * (1.0 - 1e-6)), query=query, support=m.support)
    assert less.delta(1.0) > 1e-6


@pytest.mark.parametrize("epsilon", [1.0, 1.5])
def test_a_delta_far_below_the_smallest_that_anyone_states_is_exact(epsilon):
    m = mechanism(rb.Gaussian(scale=2.0), (0, 100), 0.1, grid(0, 100))
    worst = worst_delta(m.setting, epsilon)
    truth = brute(m, stick(epsilon), 0.0, 100.0)
    assert truth < 1e-60
    assert truth * (1.0 - 1e-9) <= worst.upper <= min(truth * (1.0 + 1e-5), worst.lower * (1.0 + 1e-6))


def test_the_scan_notices_a_number_that_is_too_small():
    """The control: the same comparison refuses a number a little below, and one of a coarser grid."""
    truth = brute(LONG, stick(0.5), 200.0, 300.0)
    assert not truth * (1.0 - 1e-5) >= truth * (1.0 - 1e-11)
    coarse = mechanism(rb.Gaussian(scale=10.0), (0, 500), 1.0, grid(0, 500, 25.0))
    assert worst_delta(coarse.setting, 0.5).upper > 1.001 * truth


def best_stick(points, scale, d, epsilon):
    """The largest hockey stick over all positions of Gaussian noise truncated to any points."""
    points = np.asarray(points)
    low, high = points[0] - 6.0 * scale - d, points[-1] + 6.0 * scale
    best = 0.0
    for _ in range(5):
        at = np.linspace(low, high, 2001)
        p, q = (-0.5 * ((points - x[:, None]) / scale) ** 2 for x in (at, at + d))
        p, q = (x - np.logaddexp.reduce(x, axis=1, keepdims=True) for x in (p, q))
        values = stick(epsilon)(p, q)
        best, width = max(best, values.max()), 2.0 * (high - low) / 2000
        low, high = at[values.argmax()] - width, at[values.argmax()] + width
    return best


@pytest.mark.parametrize("seed", range(40))
def test_points_added_at_the_ends_never_lower_the_largest_delta(seed):
    generator = np.random.default_rng(seed)
    points = np.cumsum(generator.uniform(0.05, 2.0, size=generator.integers(3, 12)))
    scale, d, epsilon = generator.uniform(0.2, 3.0), generator.uniform(0.1, 2.0), generator.uniform(0.0, 2.0)
    fewer = points[generator.integers(0, 2) : len(points) - generator.integers(0, 2)]
    assert best_stick(fewer, scale, d, epsilon) <= best_stick(points, scale, d, epsilon) * (1.0 + 1e-9) + 1e-15


def test_points_added_inside_may_lower_it():
    """The control: the theorem is about the ends."""
    assert best_stick([0.0, 2.0], 1.0, 1.0, 0.5) > 1.2 * best_stick([0.0, 1.0, 2.0], 1.0, 1.0, 0.5)


def variance(weights):
    at = np.arange(len(weights))
    mean = (weights * at).sum() / weights.sum()
    return (weights * (at - mean) ** 2).sum() / weights.sum()


@pytest.mark.parametrize("seed", range(40))
def test_a_log_concave_law_on_a_run_of_whole_numbers_varies_less(seed):
    generator = np.random.default_rng(seed)
    slopes = np.sort(generator.normal(scale=generator.uniform(0.1, 3.0), size=12))[::-1]
    weights = np.exp(np.concatenate([[0.0], np.cumsum(slopes)]))
    for first, last in itertools.combinations(range(14), 2):
        assert variance(weights[first:last]) <= variance(weights) * (1.0 + 1e-9)


def test_a_law_with_two_peaks_may_vary_more_on_a_run():
    """The control: without log-concavity the lemma is false."""
    weights = np.asarray([1.0, 0.01, 0.01, 1.0, 100.0])
    assert variance(weights[:4]) > variance(weights)


@pytest.mark.parametrize(
    ("scale", "order", "d"), [(0.2, 1.5, 1.0), (0.4, 3.0, 0.7), (1.3, 2.5, 0.3), (0.3, 16.0, 0.45)]
)
def test_the_endless_lattice_is_the_limit_of_long_grids(scale, order, d):
    with precision(128):
        top = renyi_ceiling(ball(1.0), ball(scale), ball(order), ball(d)).value
        sticks = stick_ceiling(ball(1.0), ball(scale), ball(0.4), ball(d)).value
    m = mechanism(rb.Gaussian(scale=scale), (0, 80), d, grid(0, 80))
    truth = brute(m, divergence(order), 40.0, 42.0 + d)
    assert truth * (1.0 - 1e-11) <= up(top) <= truth * (1.0 + 1e-6)
    truth = brute(m, stick(0.4), 40.0, 42.0 + d)
    assert truth * (1.0 - 1e-11) <= up(sticks) <= truth * (1.0 + 1e-6)


@pytest.mark.parametrize("steps", [0.7, 9.0, 20.0, 100.0])
@pytest.mark.parametrize(("first", "last"), [(0, None), (1, None), (1, 60), (17, 90)])
@pytest.mark.parametrize("place", [-11.0, -3.0, 0.0, 2.0, 6.0])
def test_sums_by_integrals_agree_with_sums_of_terms(steps, first, last, place, monkeypatch):
    """Euler and Maclaurin against term by term, every coefficient; and against numpy."""
    with precision(128):
        rate, t = 1 / arb(steps) ** 2, arb(place) / arb(steps)
        one_by_one = Theta(rate).sum(taylor(t, 9), first, last)
        monkeypatch.setattr("rangebound.privacy.pairs.lattice_sums._MANY", -1)
        formula = Theta(rate).sum(taylor(t, 9), first, last)
        for k in range(10):
            assert formula[k].overlaps(one_by_one[k])
            if steps >= 9.0:
                assert formula[k].rel_accuracy_bits() > 40
    j = np.arange(first, 4000 if last is None else last + 1, dtype=float)
    terms = -0.5 * (j / steps) ** 2 + j * place / steps
    assert float(one_by_one[0].mid()) == pytest.approx(float(np.exp(terms).sum()), rel=1e-11)


def test_a_sum_over_a_cell_of_positions_covers_every_position():
    with precision(128):
        theta = Theta(1 / arb(25))
        wide = theta.sum(taylor(span(0.1, 0.6), 5), 0, 40)
        for t in np.linspace(0.1, 0.6, 11):
            there = theta.sum(taylor(ball(float(t)), 5), 0, 40)
            assert all(wide[k].contains(there[k]) for k in range(5))
        outside = theta.sum(taylor(ball(0.7), 5), 0, 40)
        assert not wide[0].overlaps(outside[0])  # the control


def test_points_off_their_places_are_covered_by_the_wobble():
    generator = np.random.default_rng(5)
    off = 1e-3
    j = np.arange(0, 30)
    with precision(128):
        theta, plain = Theta(1 / arb(16), (ball(off), ball(30.0))), Theta(1 / arb(16))
        for _ in range(20):
            x = j + np.where(j > 0, generator.uniform(-off, off, size=30), 0.0)
            t = float(generator.uniform(-1.0, 2.0))
            terms = np.exp(-0.5 * x**2 / 16.0 + x * t)
            found = theta.sum(taylor(ball(t), 3), 0, 29)
            missed = plain.sum(taylor(ball(t), 3), 0, 29)
            for k in range(4):
                exact = float((x**k * terms).sum()) / math.factorial(k)
                assert down(found[k]) <= exact <= up(found[k])
                assert k == 0 or not down(missed[k]) <= exact <= up(missed[k])  # the control


def test_the_ceiling_of_a_threshold_test_holds_on_every_cell():
    with precision(128):
        objective = Threshold(ball(1.0), ball(3.0), ball(0.4))
        generator = np.random.default_rng(2)
        for _ in range(60):
            start = float(generator.uniform(-15.0, 15.0))
            end = start + float(generator.exponential(4.0))
            top = up(objective.ceiling(start, end, ball(1.0)))
            inside = [up(objective.value(ball(x), ball(1.0))) for x in np.linspace(start, end, 9).tolist()]
            assert max(inside) <= top * (1.0 + 1e-12) + 1e-30
