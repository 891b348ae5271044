"""Rounded Laplace noise: worst Renyi divergences from windows, against balls, sums in mpmath and the old search."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import rangebound as rb
from rangebound.laws.laplace import TruncatedLaplacian
from rangebound.privacy.branch_and_bound import enclose
from rangebound.privacy.counterexample import tasks
from rangebound.privacy.objectives import Loss, Renyi
from rangebound.privacy.pairs.mapped import Mapped
from rangebound.privacy.windows import laplace_rounded
from rangebound.privacy.windows.chebyshev import exactly
from rangebound.privacy.windows.laplace_rounded import clipped, enclosed
from rangebound.privacy.windows.segments import windows_of
from rangebound.values.ball import INFINITY, ball, down, precision, up

INF = math.inf


def setting(noise, step, low, high, sensitivity, answers=None):
    query = rb.Query(range=rb.Interval(*(answers or (low, high))), sensitivity=sensitivity)
    grid = rb.Grid(step=step, within=rb.Interval(low, high))
    return rb.Mechanism(noise=noise, query=query, support=grid, bounding=rb.QUANTIZE).setting


def laplace(scale, *rest):
    return setting(rb.Laplace(scale=scale), *rest)


def limited(scale, limit, *rest):
    return setting(rb.TruncatedLaplacian(scale=scale, limit=limit), *rest)


SETTINGS = {
    "grid": laplace(1.5, 1.0, 0.0, 11.0, 1.0),
    "two cells": laplace(0.7, 1.0, 0.0, 1.0, 0.4),
    "three cells": laplace(0.7, 1.0, 0.0, 2.0, 3.0),
    "fine": laplace(5.0, 0.25, 0.0, 10.0, 1.0),
    "very fine": laplace(1e4, 1.0, 0.0, 12.0, 5e3, (-2e4, 3e4)),
    "coarse": laplace(0.3, 5.0, -20.0, 20.0, 1.0),
    "very coarse": laplace(1e-3, 1.0, 0.0, 4.0, 2e-3),
    "steps that are not doubles": laplace(0.3, 0.1, -1.0, 1.0, 0.25),
    "far from 0": laplace(2.0, 1.0, 4e6, 4e6 + 10.0, 1.0),
    "wide sensitivity": laplace(3.0, 1.0, 0.0, 6.0, 6.0),
    "over the width": laplace(3.0, 1.0, 0.0, 6.0, 50.0),
    "distant pairs": laplace(1.0, 1.0, 0.0, 20.0, 12.0),
    "range wider": laplace(2.0, 1.0, 0.0, 7.0, 3.0, (-20.0, 30.0)),
    "range beside": laplace(2.0, 1.0, 0.0, 7.0, 1.0, (9.0, 15.0)),
    "half-line": laplace(1.0, 1.0, 0.0, 9.0, 1.0, (0.0, INF)),
    "line": laplace(1.0, 2.0, -8.0, 8.0, 1.0, (-INF, INF)),
    "limited": limited(2.0, 16.0, 1.0, 0.0, 10.0, 1.0),
    "barely reached": limited(2.0, 9.01, 1.0, 0.0, 9.0, 0.25),
    "limited, two cells": limited(1.0, 9.0, 1.0, 0.0, 1.0, 0.5),
}
ORDERS = (1.01, 2.0, 7.5, 64.0)
ONCE_OPEN = {
    "many steps": laplace(0.1, 0.1, 0.0, 10.0, 0.1, (0.0, 20.0)),
    "fine steps": laplace(5.0, 0.1, 0.0, 24.0, 0.1),
    "limited reach": limited(20.0, 280.0, 1.0, -100.0, 100.0, 1.0),
    "much narrower than a step": laplace(0.0049, 0.1, 0.0, 99.9, 0.00936),
}
EXTREME = ["grid", "two cells", "coarse", "distant pairs", "over the width", "half-line"]
CASES = [*itertools.product(SETTINGS, ORDERS), *itertools.product(EXTREME, (1.0001, 256.0, 1e3, 1e4))]
CASES += zip(ONCE_OPEN, (8.0, 3.0, 256.0, 472.0), strict=True)
SEARCHED = ["grid", "two cells", "three cells", "coarse", "range wider", "limited", "line"]


def made(of, order):
    with precision(256):
        return tasks(of, lambda noise, shape: Renyi(noise, shape, order))


def found_for(of, order):
    with precision(128):
        found = enclosed(made(of, order))
    assert found.closed
    return found


def places(of, line, dice, count):
    cuts, d, b = np.asarray([high for _, high in of.shape.cells[:-1]]), line.far - line.near, of.noise.scale
    low, high = max(line.start, cuts[0] - d - 9.0 * b), min(line.end, cuts[-1] + 9.0 * b)
    low, high = min(max(low, line.start), line.end), max(min(high, line.end), line.start)
    near = dice.choice(cuts, count) - d * dice.integers(0, 2, count) + b * dice.normal(size=count) ** 3 / 9.0
    found = np.clip(np.concatenate([dice.uniform(low, high, count), near, [low, high]]), low, high)
    return [float(x) for x in found]


def by_mpmath(of, p, d, order):
    """The sum over all cells, one by one, with digits enough for differences of probabilities."""
    b = mpmath.mpf(of.noise.scale)
    limit = mpmath.mpf(of.noise.limit) if isinstance(of.noise, TruncatedLaplacian) else mpmath.inf

    def below(x):
        x = max(min(x, limit), -limit)
        half = mpmath.exp(-abs(x) / b) / 2
        lost = mpmath.exp(-limit / b) / 2
        return ((half if x < 0 else 1 - half) - lost) / (1 - 2 * lost)

    total = mpmath.mpf(0)
    for low, high in of.shape.cells:
        one, other = (below(high - at) - below(low - at) for at in (mpmath.mpf(p), mpmath.mpf(p) + d))
        total += one**order * other ** (1 - mpmath.mpf(order))
    return mpmath.log(total) / (mpmath.mpf(order) - 1)


@pytest.mark.claim("privacy")
@pytest.mark.few(5)
@pytest.mark.parametrize(("name", "order"), CASES)
def test_the_enclosure_is_narrow_and_above_every_value_in_balls(name, order):
    of = {**SETTINGS, **ONCE_OPEN}[name]
    lines, found, dice = made(of, order), found_for(of, order), np.random.default_rng(7)
    assert found.cells == ()
    assert name not in ONCE_OPEN or found.upper <= found.lower * (1.0 + 1e-8)
    with precision(128):
        for task in lines:
            for at in places(of, task.line, dice, 20):
                assert down(task.objective.value(ball(at), task.line.d)) <= found.upper
        task = lines[found.task]
        assert task.line.start <= found.position <= task.line.end
        assert found.lower == down(task.objective.value(ball(found.position), task.line.d))
        if order == 2.0 and name in SEARCHED:
            old = enclose(lines)
            assert max(found.lower, old.lower) <= min(found.upper, old.upper)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SETTINGS)
def test_sums_of_all_cells_one_by_one_agree(name):
    of, order = SETTINGS[name], 3.5
    found, dice = found_for(of, order), np.random.default_rng(8)
    lines = made(of, order)
    cuts = of.shape.cells[0][1], of.shape.cells[-1][0]
    away = max(abs(cut - end) for cut in cuts for line in of.lines() for end in places(of, line, dice, 0))
    with mpmath.workdps(60 + int((away + of.sensitivity) / of.noise.scale)):
        for side, task in zip([s for s in of.sides() for _ in s.lines()], lines, strict=True):
            d = mpmath.mpf(task.line.far) - mpmath.mpf(task.line.near)
            for at in places(of if side == of else side, task.line, dice, 6):
                assert by_mpmath(side, at, d, order) <= found.upper
            if task is lines[found.task]:
                assert abs(by_mpmath(side, found.position, d, order) / found.lower - 1) < 1e-12


def contained(of, order):
    """Whether the discs of windows at random offsets hold what balls say."""
    dice, held = np.random.default_rng(10), True
    with precision(256), np.errstate(all="ignore"):
        for task in made(of, order):
            cuts = [high for _, high in task.objective.shape.cells[:-1]]
            line = task.line if isinstance(of.noise, TruncatedLaplacian) else clipped(task.line, cuts)
            ends = laplace_rounded._ends(cuts, of.noise.scale, [line])
            windows = windows_of(ends, 0, line)
            start = ends.places[windows.first]
            at = start + dice.uniform(windows.low, windows.high)
            kept = start + (at - start) == at  # so that both are given the same position
            sigma = exactly((at - start)[kept, None]) / of.noise.scale
            discs = laplace_rounded._problem(task.objective, ends, 0.0).values(
                windows.at(kept), windows.first[kept], sigma
            )
            for mid, rad, x in zip(discs.mid[:, 0], discs.rad[:, 0], at[kept].tolist(), strict=True):
                value = task.objective.value(ball(x), line.d)
                held = held and up(value) >= mid - rad and down(value) <= mid + rad
    return held


@pytest.mark.few(24)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "far from 0"])  # there offsets are rounded
def test_every_disc_holds_the_value_in_balls(name, order):
    assert contained(SETTINGS[name], order)


@pytest.mark.parametrize("part", ["_left", "_right", "_inner", "_own"])
def test_a_term_that_is_left_out_and_a_mass_that_is_off_by_little_would_be_seen(part, monkeypatch):
    own = laplace_rounded._own
    wrong = (lambda *given: own(*given) * (1.0 + 1e-12)) if part == "_own" else lambda *_: exactly(np.zeros((1, 1)))
    monkeypatch.setattr(laplace_rounded, part, wrong)
    assert not contained(*((SETTINGS["grid"], 2.0) if part == "_own" else (SETTINGS["distant pairs"], 1.01)))


def wobble(of, order):
    """How far cuts are off their places, where one step may stand for all."""
    cuts = [high for _, high in of.shape.cells[:-1]]
    return laplace_rounded._wobble(made(of, order)[0].objective, cuts, of.lines())


@pytest.mark.few(2)
@pytest.mark.parametrize("order", [1.5, 8.0, 64.0])
@pytest.mark.parametrize("sensitivity", [0.1, 0.37, 1.9])
def test_one_step_stands_for_all(sensitivity, order, monkeypatch):
    of = laplace(0.2, 0.1, 0.0, 10.0, sensitivity, (-3.0, 10.03))
    assert wobble(of, order)
    short = found_for(of, order)
    monkeypatch.setattr(laplace_rounded, "_wobble", lambda *_: None)
    long = found_for(of, order)
    assert max(short.lower, long.lower) <= min(short.upper, long.upper)
    assert abs(short.upper / long.upper - 1.0) < 1e-9


def test_a_step_is_not_taken_for_all_where_cuts_are_off_their_places():
    assert wobble(ONCE_OPEN["much narrower than a step"], 472.0) is not None
    assert wobble(laplace(1.0, 0.1, 1e9, 1e9 + 10.0, 0.1), 2.0) is None


@pytest.mark.parametrize("order", ORDERS)
def test_beyond_the_cuts_the_divergence_falls(order):
    of = SETTINGS["line"]
    task, cuts = made(of, order)[0], [high for _, high in of.shape.cells[:-1]]
    kept = clipped(task.line, cuts)
    assert kept.start <= cuts[0] - 1.0 < cuts[-1] <= kept.end
    with precision(256):
        for edge, way in ((cuts[0] - 1.0, -1.0), (cuts[-1], 1.0)):
            values = [task.objective.value(ball(edge + way * k / 4), task.line.d) for k in range(30)]
            assert all(after < before for before, after in itertools.pairwise(values))
        inside = task.objective.value(ball(cuts[0] - 0.9), task.line.d)
        assert inside > task.objective.value(ball(cuts[0] - 1.0), task.line.d)


def test_what_is_not_covered_is_left_to_the_search():
    grid = SETTINGS["grid"]
    assert enclosed([]) is None
    assert enclosed(tasks(grid, Loss)) is None
    assert enclosed(made(setting(rb.Gaussian(scale=1.0), 1.0, 0.0, 5.0, 1.0), 2.0)) is None
    assert enclosed(made(limited(2.0, 5.0, 1.0, 0.0, 10.0, 1.0), 2.0)) is None  # it does not reach every cut
    assert enclosed(made(laplace(1.0, 1.0, 0.0, 9.0, 1.0, (2e3, 2e3 + 5.0)), 2.0)) is None  # all but 0
    query = rb.Query(range=rb.Interval(0.0, 5.0), sensitivity=1.0)
    clamped = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=query.range, bounding=rb.RECTIFY)
    assert enclosed(made(clamped.setting, 2.0)) is None


def test_the_loss_of_noise_of_limited_reach_is_that_of_the_leftmost_outcome():
    of = limited(1.5, 12.0, 1.0, 0.0, 60.0, 0.8)
    mapped, d = Mapped(of.noise, of.shape), ball(0.8)
    places = np.concatenate([np.random.default_rng(11).uniform(-30.0, 90.0, 300), np.arange(-30.0, 90.0, 0.5)])
    kinds = set()
    for p in map(float, places):
        reached = [high for _, high in of.shape.cells[:-1] if high > p - 12.0]
        found = mapped.loss(ball(p), d)
        if not reached:  # both are in the last cell
            kinds.add("none")
            assert found == 0
        elif ball(reached[0]) <= ball(p) + d - 12:
            kinds.add("infinite")
            assert found == INFINITY
        else:
            kinds.add("finite")
            cut = ball(reached[0])
            expected = mapped.noise.cdf(cut - p).log() - mapped.noise.cdf(cut - p - d).log()
            assert expected.overlaps(found)
    assert kinds == {"none", "infinite", "finite"}
