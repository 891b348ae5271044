"""Grids and wide ranges: the published number is the supremum to 1e-6, and it comes in time.

The second route is numpy alone: the weights of all points at many positions, zooming in on the best ones, and for
every listed case a number that the code before this test got wrong, or took minutes for.
"""

import math

import numpy as np
import pytest
import scipy.special

import rangebound as rb
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


def on_grid(noise, width, sensitivity, step=1.0, bounding=rb.TRUNCATE):
    return mechanism(noise, (0, width), sensitivity, grid(0, width, step), bounding)


def laplace(scale, width=400, sensitivity=1.0, **others):
    return on_grid(rb.Laplace(scale=scale), width, sensitivity, **others)


def gaussian(scale, width, sensitivity=1.0, **others):
    return on_grid(rb.Gaussian(scale=scale), width, sensitivity, **others)


LONG, NARROW, SHORT, TENTHS = (
    gaussian(10.0, 500),
    gaussian(2.0, 100),
    gaussian(20.0, 100),
    gaussian(1.0, 20, 0.1, step=0.1),
)
LIMITED = rb.TruncatedLaplacian(scale=20.0, limit=200.0)
CASES = {
    "delta, whole numbers to 500": (LONG, "delta", 0.5, (200, 300)),
    "rdp, whole numbers to 500": (LONG, "rdp", 2.0, (200, 300)),
    "delta, whole numbers to 100": (NARROW, "delta", 0.5, (40, 60)),
    "rdp, whole numbers to 100": (NARROW, "rdp", 16.0, (40, 60)),
    "a step that is not a double": (TENTHS, "delta", 0.1, (8, 12)),
    "rdp, a step that is not a double": (TENTHS, "rdp", 8.0, (8, 12)),
    "points far apart": (gaussian(0.62, 100, 14.4, step=3.47), "rdp", 3.0, (0, 100)),
    "a grid of a few scales": (SHORT, "delta", 0.1, (0, 100)),
    "rdp, a grid of a few scales": (SHORT, "rdp", 4.0, (0, 100)),
    "Laplace, epsilon": (laplace(10.0), "epsilon", 0.0, (0, 400)),
    "Laplace, epsilon of a pair no multiple of the step": (laplace(3.0, 200, 0.7), "epsilon", 0.0, (0, 200)),
    "Laplace, delta": (laplace(3.0), "delta", 0.2, (0, 60)),
    "Laplace, delta near an end": (laplace(3.0), "delta", 0.45, (0, 20)),
    "Laplace, rdp": (laplace(3.0), "rdp", 4.0, (0, 60)),
    "Laplace, rdp of a high order": (laplace(3.0), "rdp", 64.0, (0, 60)),
    "Laplace, a step that is not a double": (laplace(0.3, 30, 0.25, step=0.1), "delta", 0.3, (0, 20)),
    "Laplace, a grid of a few scales": (laplace(20.0, 100, 5.0), "rdp", 3.0, (0, 100)),
    "rounded Laplace": (laplace(5.0, 1000, bounding=rb.QUANTIZE), "rdp", 2.0, (470, 490)),
    "rounded Laplace, a wide pair": (laplace(5.0, 40, 7.3, bounding=rb.QUANTIZE), "rdp", 5.0, (0, 40)),
    "rounded truncated Laplacian": (on_grid(LIMITED, 40, 1.0, bounding=rb.QUANTIZE), "rdp", 64.0, (0, 40)),
    "rounded Gaussian": (gaussian(2.0, 19, bounding=rb.QUANTIZE), "rdp", 5.0, (0, 19)),
    "rounded Gaussian, a long grid": (gaussian(0.5, 365, 0.1, bounding=rb.QUANTIZE), "rdp", 10.0, (150, 160)),
    "an endless range": (mechanism(rb.Gaussian(scale=2.0), (-INF, INF), 1.0, grid(0, 100)), "delta", 0.5, (40, 60)),
    "rdp, an endless range": (mechanism(rb.Gaussian(scale=2.0), (0, INF), 1.0, grid(0, 100)), "rdp", 4.0, (40, 60)),
}
NUMBERS = {
    "delta": (lambda m, x: worst_delta(m.setting, x), stick),
    "rdp": (lambda m, x: worst_renyi(m.setting, x), divergence),
    "epsilon": (lambda m, x: worst_loss(m.setting), lambda x: loss),
}


@pytest.mark.few(2)
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


@pytest.mark.slow
@pytest.mark.parametrize("step", [1.0, 0.1])
def test_calibration_on_a_long_grid_comes_in_time(step):
    query = rb.Query(range=rb.Interval(0, 200), sensitivity=1.0)
    with deadline("calibrate", 8.0):
        m = rb.calibrate(noise=rb.Gaussian, query=query, support=grid(0, 200, step), epsilon=1.0, delta=1e-6)
    assert m.delta(1.0) <= 1e-6
    less = rb.Mechanism(noise=rb.Gaussian(scale=m.noise.scale * (1.0 - 1e-6)), query=query, support=m.support)
    assert less.delta(1.0) > 1e-6


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [1.0, 1.5])
def test_a_delta_far_below_the_smallest_that_anyone_states_is_exact(epsilon):
    m = gaussian(2.0, 100, 0.1)
    worst = worst_delta(m.setting, epsilon)
    truth = brute(m, stick(epsilon), 0.0, 100.0)
    assert truth < 1e-60
    assert truth * (1.0 - 1e-9) <= worst.upper <= min(truth * (1.0 + 1e-5), worst.lower * (1.0 + 1e-6))


def test_the_scan_notices_a_number_that_is_too_small():
    """The control: the same comparison refuses a number a little below, and one of a coarser grid."""
    truth = brute(LONG, stick(0.5), 200.0, 300.0)
    assert not truth * (1.0 - 1e-5) >= truth * (1.0 - 1e-11)
    assert worst_delta(gaussian(10.0, 500, step=25.0).setting, 0.5).upper > 1.001 * truth
