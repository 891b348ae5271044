"""Rows of pairs, and kernels that cover them: every pair lies below, by the exact route and by a linear program."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog

import rangebound as rb
from rangebound.accounting.kernel_cover import Kernels, cover
from rangebound.accounting.pair_rows import SampledRows, pair_rows
from rangebound.accounting.pld import step_profile
from rangebound.privacy.worst import pair_profile
from rangebound.values.ball import ball, precision
from tests.accounting.mechanisms import short
from tests.privacy.closed_forms import table

INF = math.inf
LAPLACE, GAUSSIAN = rb.Laplace, rb.Gaussian
GRID = rb.Grid(step=1, within=rb.Interval(0, 5))


def made(noise, answers, support, sensitivity=1.0):
    query = rb.Query(range=rb.Interval(*answers), sensitivity=sensitivity)
    return rb.Mechanism(noise=noise, query=query, support=support and rb.Interval(*support))


MECHANISMS = [
    made(LAPLACE(scale=1.0), (0, 10), None),
    made(LAPLACE(scale=20.0), (0, 100), None),
    made(LAPLACE(scale=4.0), (0, 5), None),
    made(LAPLACE(scale=0.2), (0, 3), None),
    made(LAPLACE(scale=30.0), (0, 2), None, 0.3),
    made(LAPLACE(scale=4.0), (0, 5), (-3, 9)),
    made(LAPLACE(scale=2.0), (0, 5), (0, INF)),
    made(LAPLACE(scale=2.0), (-INF, 5), (-INF, 7)),
    made(LAPLACE(scale=1.0), (0, 20), (3, 9)),
    made(LAPLACE(scale=1.0), (0, 0.8), (0, 1)),
    made(rb.TruncatedLaplacian(scale=1.0, limit=20.0), (0, 5), None),
    made(GAUSSIAN(scale=2.0), (0, 5), None),
    made(GAUSSIAN(scale=1.0), (0, 1.5), (-1, 1)),
    made(GAUSSIAN(scale=5.0), (0, 5), None, 0.1),
    made(GAUSSIAN(scale=0.8), (-1, 2), (-2, 3)),
]


def between(m, side, line, rows, random):
    count, scale = len(rows.places), m.noise.scale
    for _ in range(4):
        i = int(random.integers(count - 1)) if count > 1 else 0
        share = float(random.uniform()) if count > 1 else 0.0
        gone = (rows.places[i] + share * (rows.places[min(i + 1, count - 1)] - rows.places[i])) * scale
        from_left = math.isfinite(side.shape.ends[0])
        p = line.start + gone if from_left else line.end - gone
        q = line.far if line.near == p else p + (line.far - line.near)
        sign = 1.0 if side == m.setting.simplified() else -1.0
        yield i, share, (sign * p, sign * q)


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: f"{type(m.noise).__name__}-{m.query.range}-{m.support}")
def test_every_pair_lies_below_the_mixture_of_its_rows(m):
    random = np.random.default_rng(5)
    setting = m.setting.simplified()
    found = pair_rows(m)
    lines = [(side, line) for side in setting.sides() for line in side.lines()]
    levels = random.uniform(-1.1, 1.1, 6) * m.epsilon()
    for (side, line), rows in zip(lines, found, strict=True):
        curves = rows.at(levels)
        for i, share, pair in between(m, side, line, rows, random):
            upper = (1.0 - share) * curves[i] + share * curves[min(i + 1, len(curves) - 1)]
            with precision(step_profile.BITS):
                exact = np.asarray([float(pair_profile(m.noise, m.shape, pair)(float(each)).mid()) for each in levels])
            assert (exact <= upper + rows.most).all()
            assert (exact >= upper - 3.0 * rows.most - 1e-9).all()


def test_the_slack_is_needed_and_small():
    """In the middle of two rows the curve can be above the chord: without the slack the rows would be too low."""
    (rows,) = pair_rows(MECHANISMS[0]) or ()
    curves = rows.at(np.linspace(0.0, 1.4, 30))
    bends = curves[1:-1] - 0.5 * (curves[:-2] + curves[2:])
    assert bends.max() > 1e-9
    assert bends.max() < rows.most < 1e-6


def test_a_sampled_row_is_the_profile_s():
    m = MECHANISMS[0]
    (rows,) = pair_rows(m) or ()
    with precision(step_profile.BITS):
        profile = step_profile.sampled(pair_profile(m.noise, m.shape, (0.0, 1.0)), 0.1)
        for level in (-0.2, -0.05, 0.0, 0.1, 0.3):
            exact, x = profile(level), ball(level).exp()
            back = 1 - x * (1 - profile(-level))
            for removed, value in ((False, exact), (True, back)):
                found = SampledRows(rows, 0.1, removed).at(np.asarray([level]))[0, 0]
                assert float(value.mid()) == pytest.approx(found, abs=1e-11)


@pytest.mark.parametrize(
    "m",
    [
        short(LAPLACE(scale=1.0), bounding=rb.RECTIFY),
        short(LAPLACE(scale=1.0), bounding=rb.UNBOUNDED),
        made(rb.TruncatedLaplacian(scale=1.0, limit=3.0), (0, 5), None),
        made(GAUSSIAN(scale=0.1), (0, 5), None),
        made(LAPLACE(scale=1e4), (0, 5), None),
        short(LAPLACE(scale=1.0), support=GRID, bounding=rb.QUANTIZE),
        short(LAPLACE(scale=1e-3), support=GRID),
        table([[16, 0], [8, 8]]),  # an infinite loss
    ],
)
def test_other_laws_have_no_rows(m):
    assert pair_rows(m) is None


COVERED = [
    short(rb.Laplace(scale=1.0)),
    short(rb.Laplace(scale=20.0)),
    short(rb.Gaussian(scale=4.0)),
    short(rb.Laplace(scale=3.0), support=rb.Interval(0, math.inf)),
]
TILTS = np.asarray([0.1, 0.3, 1.0])


def curves(kernels, levels):
    losses = np.arange(kernels.first, kernels.last + 1) * kernels.step
    hinges = np.maximum(-np.expm1(levels[None, :] - losses[:, None]), 0.0)
    return kernels.mass @ hinges + kernels.infinite[:, None]


def shortfall(row, found):
    """What a row has more than the best mixture of kernels: minimise t with row - mixture <= t, by a linear program."""
    count = len(found)
    answer = linprog(
        np.asarray([0.0] * count + [1.0]),
        A_ub=np.hstack([-found.T, -np.ones((found.shape[1], 1))]),
        b_ub=-row,
        A_eq=np.asarray([[1.0] * count + [0.0]]),
        b_eq=[1.0],
        bounds=[(0.0, None)] * count + [(None, None)],
    )
    assert answer.status == 0
    return float(answer.fun)


def plain(m):
    return pair_rows(m), m.epsilon()


def sampled(m, removed, rate=0.05):
    top = math.log1p(rate * math.expm1(m.epsilon())) * (1.0 + 1e-12)
    return [SampledRows(each, rate, removed) for each in pair_rows(m)], top


CASES = [(m, None, 20, TILTS, tolerance) for m in COVERED for tolerance in (1e-4, 1e-2)]
CASES += [(COVERED[0], removed, 30, TILTS * 20.0, 1e-3) for removed in (False, True)]


@pytest.mark.few(2)
@pytest.mark.parametrize(("m", "removed", "count", "tilts", "tolerance"), CASES)
def test_every_row_lies_below_a_mixture_of_kernels(m, removed, count, tilts, tolerance):
    rows, top = plain(m) if removed is None else sampled(m, removed)
    kernels = cover(rows, top / count, top, tilts, tolerance)
    assert (kernels.mass >= 0.0).all()
    assert (kernels.mass.sum(axis=1) >= 1.0).all()
    assert kernels.mass.sum(axis=1) == pytest.approx(1.0, abs=1e-9)
    levels = np.arange(-count - 5, count + 6) * kernels.step
    found = curves(kernels, levels)
    for line in rows:
        exact = line.at(levels)
        for i in np.linspace(0, len(exact) - 1, 25).astype(int):
            assert shortfall(exact[i], found) <= 1e-9  # of the solver; the rows without the slack


def test_a_kernel_that_is_made_smaller_is_caught():
    """The control: without its last hundredth of loss a kernel no longer covers its rows."""
    rows, top = plain(COVERED[1])
    kernels = cover(rows, top / 20.0, top, TILTS, 1e-4)
    smaller = Kernels(kernels.step * 0.99, kernels.first, kernels.mass, kernels.infinite)
    levels = np.arange(-20, 21) * kernels.step
    assert max(shortfall(row, curves(smaller, levels)) for row in rows[0].at(levels)[::400]) > 1e-4


def test_a_grid_that_is_too_coarse_has_no_kernels():
    """Rows that no pair can have, above the pair that dominates all others, are refused and never cut."""
    above = SimpleNamespace(slack=lambda levels: 0.0 * levels, at=lambda levels: np.ones((1, len(levels))))
    assert cover([above], 0.1, 1.0, TILTS, 1e-3) is None
