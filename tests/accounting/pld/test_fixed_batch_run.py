"""Runs on batches of fixed size: the cells against dense grids of the plane, the bound against adaptive adversaries."""

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, FixedBatchEvent, MechanismEvent
from rangebound.accounting.pld import accountant, fixed_batch_run, step_profile
from rangebound.accounting.pld.step_profile import fixed_batch, opposed
from rangebound.values.ball import ball, precision


def gaussian(scale):
    line = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    return rb.Mechanism(noise=rb.Gaussian(scale=scale), query=line, bounding=rb.UNBOUNDED)


def plane_pair(rate, u, v, points=4001):
    """Masses of P and Q on a grid of the plane, fine along the line of u, which is the first axis."""
    reach = 8.0 + max(abs(u), math.hypot(*v))

    def law(mean):
        axes = (np.linspace(-reach, reach, each) for each in (points, 101))
        along, across = (
            np.exp(-0.5 * (x - each) ** 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
            for x, each in zip(axes, mean, strict=True)
        )
        return np.outer(along, across).ravel()

    others = (1.0 - rate) * law(v)
    return others + rate * law((u, 0.0)), others + rate * law((0.0, 0.0))


def stick(pair, levels):
    return np.asarray([np.maximum(pair[0] - x * pair[1], 0.0).sum() for x in np.exp(levels).tolist()])


LEVELS = np.asarray([0.0, 0.004, 0.03, 0.2, 0.8, 2.0])


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.02), (0.4, 0.3), (1.8, 0.1)])
def test_the_curves_of_a_cosine_are_those_of_a_dense_grid(mu, rate):
    for cosine in (-1.0, -0.97, -0.1, 0.3, 1.0):
        pair = plane_pair(rate, mu, (mu * cosine, mu * math.sqrt(1.0 - cosine**2)))
        levels = -LEVELS[::-1]
        below, low = stick(pair, levels) + np.expm1(levels), fixed_batch_run._below(mu, mu, rate, cosine, levels)
        assert (below - 1e-5 * rate < low).all()
        assert (low < 1.03 * below + 0.02 * rate).all()
        lower = fixed_batch_run._below(mu, mu, rate, cosine, levels, rounded_up=False)
        assert (lower < below + 1e-5 * rate).all()
        if cosine < 1.0:
            above, high = stick(pair, LEVELS), fixed_batch_run._above(mu, mu, rate, cosine, LEVELS)
            assert (above - 1e-5 * rate < high).all()
            assert (high < 1.03 * above + 0.02 * rate).all()


def cell_excess(mu, rate, u, v):
    """What the pair of u and v (of lengths in units of mu) has more than the bound of its cell, above and below 1."""
    short, cosines = fixed_batch_run._SHORT, fixed_batch_run._COSINES
    length = math.hypot(*u)
    cosine, across = (u[0] * v[0] + u[1] * v[1]) / length, (u[0] * v[1] - u[1] * v[0]) / length
    levels = -LEVELS[:0:-1]
    if length <= short:
        high = fixed_batch_run._above(short * mu, mu, rate, -1.0, LEVELS)
        low = fixed_batch_run._below(short * mu, mu, rate, 1.0, levels)
    else:
        at = min(max(int(np.searchsorted(cosines, cosine, side="right")) - 1, 0), len(cosines) - 2)
        high = fixed_batch_run._above(mu, mu, rate, cosines[at], LEVELS)
        low = fixed_batch_run._below(mu, mu, rate, cosines[at + 1], levels)
    pair = plane_pair(rate, mu * length, (mu * cosine, mu * across))
    return (stick(pair, LEVELS) - high).max() / rate, (stick(pair, levels) + np.expm1(levels) - low).max() / rate


def test_every_pair_is_below_its_cell():
    rng = np.random.default_rng(33)
    for _ in range(16):
        u, v = ((rng.uniform() ** 0.3 * np.asarray([math.cos(f), math.sin(f)])) for f in rng.uniform(0, 2 * math.pi, 2))
        mu, rate = rng.uniform(0.3, 2.0), rng.uniform(0.01, 0.6)
        assert max(cell_excess(mu, rate, u, v)) < 2e-5, (mu, rate, u, v)


def test_control_a_pair_beside_its_cell_is_seen(monkeypatch):
    monkeypatch.setattr(fixed_batch_run, "_COSINES", (-1.0, 0.9, 0.95, 1.0))
    monkeypatch.setattr(fixed_batch_run, "_SHORT", 0.0)
    assert max(cell_excess(1.0, 0.1, (1.0, 0.0), (0.0, 1.0))) < 2e-5
    monkeypatch.setattr(fixed_batch_run, "_COSINES", (-0.5, -0.4, -0.3))  # of another cosine than the pair's
    high, low = cell_excess(1.0, 0.1, (1.0, 0.0), (-1.0, 0.0)), cell_excess(1.0, 0.1, (1.0, 0.0), (1.0, 0.0))
    assert high[0] > 1e-3
    assert low[1] > 1e-3


def test_the_curves_at_the_ends_are_the_exact_ones():
    mu, rate = 1.3, 0.07
    with precision(step_profile.BITS):
        one, all_pairs = opposed(gaussian(1.0 / mu), rate), fixed_batch(gaussian(1.0 / mu), rate)
        above = [float(one(level).mid()) for level in LEVELS.tolist()]
        below = [
            float((found(-level) + ball(-level).exp() - 1).mid())
            for found in (one, all_pairs)
            for level in LEVELS[1:].tolist()
        ]
    assert fixed_batch_run._above(mu, mu, rate, -1.0, LEVELS) == pytest.approx(above, rel=1e-9)
    ours = [fixed_batch_run._below(mu, mu, rate, cosine, -LEVELS[1:]) for cosine in (-1.0, 1.0)]
    assert np.concatenate(ours) == pytest.approx(below, rel=1e-9, abs=1e-18)


def adaptive_delta(mu, rate, times, epsilon):
    """What an adversary attains who chooses the best of ten pairs at each likelihood ratio; losses are rounded down."""
    turns = [(1.0, angle) for angle in (0.0, 0.25, 0.5, 0.75, 1.0)] + [(0.7, 0.0), (0.7, 1.0), (1.0, 0.9), (0.4, 0.5)]
    width, kernels = 0.004, []
    for length, turn in turns:
        v = (mu * math.cos(math.pi * turn), mu * math.sin(math.pi * turn))
        p, q = plane_pair(rate, mu * length, v, points=801)
        seen = p > 1e-14
        at = np.floor(np.log(p[seen] / q[seen]) / width).astype(int)
        kernels.append(np.bincount(np.clip(at, -1000, 3000) + 1000, p[seen], minlength=4001))
    low, high = -1500, 2500
    value = np.maximum(-np.expm1(width * np.arange(low, high + 1)), 0.0)
    for _ in range(times):
        row = np.concatenate([np.full(3000, value[0]), value, np.full(1000, value[-1])])
        size = len(row) + 4000
        found = [np.fft.irfft(np.fft.rfft(row, 8192 * 2) * np.fft.rfft(each, 8192 * 2), 8192 * 2) for each in kernels]
        assert size < 8192 * 2
        value = np.max([each[4000 : 4000 + len(value)] for each in found], axis=0)
        value[:1] = 1.0 - math.exp(width * low)
    return float(np.interp(epsilon, width * np.arange(low, high + 1), value))


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "rate", "times"), [(1.0, 0.05, 30), (0.5, 0.1, 60)])
def test_no_adaptive_adversary_leaks_more(mu, rate, times):
    run = accountant.epsilon(FixedBatchEvent(mechanism=gaussian(1.0 / mu), rate=rate, times=times), 1e-4)
    assert adaptive_delta(mu, rate, times, run.upper) <= 1e-4 < adaptive_delta(mu, rate, times, 0.85 * run.lower)


@pytest.mark.slow
def test_a_long_run_is_close_to_what_one_pair_leaks(monkeypatch):
    event = FixedBatchEvent(mechanism=gaussian(2.0), rate=0.01, times=3000)
    found = accountant.epsilon(event, 1e-5)
    assert found.upper < 1.003 * found.lower
    monkeypatch.setattr(accountant, "fixed_batch_run", lambda *_: None)
    assert accountant.epsilon(event, 1e-5).upper > 1.07 * found.lower


@pytest.mark.slow
def test_runs_of_several_kinds_are_bounded_together():
    first, second = (FixedBatchEvent(mechanism=gaussian(scale), rate=0.02, times=400) for scale in (2.0, 3.0))
    alone = MechanismEvent(mechanism=gaussian(20.0))
    found = accountant.epsilon(ComposedEvent(events=(first, second, alone)), 1e-5)
    assert found.lower < found.upper < 1.02 * found.lower
    assert accountant.epsilon(first, 1e-5).upper < found.upper


@pytest.mark.slow
def test_the_last_step_is_one_after_which_no_cell_gains():
    """E[F_0(x/R) - F(x/R)] over the ratio R of the last step, from its quantiles."""
    mu, rate, cosines = 0.5, 0.05, fixed_batch_run._COSINES
    power = fixed_batch_run._power(mu, rate)
    assert power > 1.0

    def gains(s):
        ratios = (1.0 + 1.0 / s) * ((np.arange(400) + 0.5) / 400) ** (1.0 / (s + 1.0))
        for x in (0.5, 0.9, 1.0):
            levels = math.log(x) - np.log(ratios)
            up, down = levels[levels >= 0.0], levels[levels < 0.0]
            for at in (1, 4, len(cosines) - 2):
                most, less = (fixed_batch_run._above(mu, mu, rate, each, up) for each in (-1.0, cosines[at]))
                more = most - less
                first, own = (fixed_batch_run._below(mu, mu, rate, cosines[each], down) for each in (1, at + 1))
                yield (more.sum() - (own - first).sum()) / max(more.sum() + (own - first).sum(), 1e-9)

    assert min(gains(power)) > -0.01
    assert min(gains(8.0 * power)) < -0.05  # the control


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("mu", "rate", "found"), [(3.9, 1e-5, False), (0.09, 0.01, False), (1.0, 1e-9, False), (0.5, 1e-6, True)]
)
def test_where_floats_lose_the_curves_nothing_is_claimed(mu, rate, found):
    assert (fixed_batch_run._power(mu, rate) > 0.0) is found


def test_short_gradients_count_at_least_as_much_as_the_first_cell_below_one():
    """Their own curve crosses it there, so that what is above and what is below would cancel."""
    left = -fixed_batch_run._levels(0.15 * 10.0 + 0.5 * 0.15**2, 0.01)[::-1]
    first = fixed_batch_run._below(0.15, 0.15, 0.01, fixed_batch_run._COSINES[1], left)
    assert (fixed_batch_run._below(0.075, 0.15, 0.01, 1.0, left) < first).any()  # the control
    assert (fixed_batch_run._cells(0.15, 0.01)[1][-1] >= first).all()
