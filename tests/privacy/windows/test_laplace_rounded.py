"""Rounded Laplace noise: worst Renyi divergences from windows, against balls, sums in mpmath and the old search."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest

import rangebound as rb
from rangebound.ball import INFINITY, ball, down, precision, up
from rangebound.noise import TruncatedLaplacian
from rangebound.privacy.pairs.mapped import Mapped
from rangebound.privacy.search.branch_and_bound import Found, enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.search.loss_objective import Loss
from rangebound.privacy.search.positions import SearchLine
from rangebound.privacy.search.renyi_objective import Renyi
from rangebound.privacy.setting import Setting
from rangebound.privacy.supremum import tasks
from rangebound.privacy.windows import laplace_rounded
from rangebound.privacy.windows.discs import Discs, exactly
from rangebound.privacy.windows.laplace_rounded import clipped, enclosed
from rangebound.privacy.windows.segments import windows_of
from rangebound.privacy.worst import worst_renyi
from tests import random_calls

INF = math.inf


def setting(noise: Any, step: float, low: float, high: float, sensitivity: float, answers: Any = None) -> Setting:
    query = rb.Query(range=rb.Interval(*(answers or (low, high))), sensitivity=sensitivity)
    grid = rb.Grid(step=step, within=rb.Interval(low, high))
    return rb.Mechanism(noise=noise, query=query, support=grid, bounding=rb.QUANTIZE).setting


def laplace(scale: float, *rest: Any) -> Setting:
    return setting(rb.Laplace(scale=scale), *rest)


def limited(scale: float, limit: float, *rest: Any) -> Setting:
    return setting(rb.TruncatedLaplacian(scale=scale, limit=limit), *rest)


SETTINGS = {
    "grid": laplace(1.5, 1.0, 0.0, 11.0, 1.0),
    "two cells": laplace(0.7, 1.0, 0.0, 1.0, 0.4),
    "three cells": laplace(0.7, 1.0, 0.0, 2.0, 3.0),
    "fine": laplace(5.0, 0.25, 0.0, 10.0, 1.0),
    "very fine": laplace(1e4, 1.0, 0.0, 12.0, 5e3, (-2e4, 3e4)),
    "coarse": laplace(0.3, 5.0, -20.0, 20.0, 1.0),
    "very coarse": laplace(1e-3, 1.0, 0.0, 4.0, 2e-3),
    "steps that are no doubles": laplace(0.3, 0.1, -1.0, 1.0, 0.25),
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


def made(of: Setting, order: float) -> list[Task]:
    with precision(256):
        return tasks(of, lambda noise, shape: Renyi(noise, shape, order))


def found_for(of: Setting, order: float) -> Found:
    with precision(128):
        found = enclosed(made(of, order))
    assert found is not None
    assert found.closed
    return found


def places(of: Setting, line: SearchLine, dice: np.random.Generator, count: int) -> list[float]:
    """Positions anywhere, and near the kinks."""
    cuts, d, b = np.asarray([high for _, high in of.shape.cells[:-1]]), line.far - line.near, of.noise.scale
    low, high = max(line.start, cuts[0] - d - 9.0 * b), min(line.end, cuts[-1] + 9.0 * b)
    low, high = min(max(low, line.start), line.end), max(min(high, line.end), line.start)
    near = dice.choice(cuts, count) - d * dice.integers(0, 2, count) + b * dice.normal(size=count) ** 3 / 9.0
    found = np.clip(np.concatenate([dice.uniform(low, high, count), near, [low, high]]), low, high)
    return [float(x) for x in found]


def by_mpmath(of: Setting, p: float, d: Any, order: float) -> Any:
    """The sum over all cells, one by one, with digits enough for differences of probabilities."""
    b = mpmath.mpf(of.noise.scale)
    limit = mpmath.mpf(of.noise.limit) if isinstance(of.noise, TruncatedLaplacian) else mpmath.inf

    def below(x: Any) -> Any:
        x = max(min(x, limit), -limit)
        half = mpmath.exp(-abs(x) / b) / 2
        lost = mpmath.exp(-limit / b) / 2
        return ((half if x < 0 else 1 - half) - lost) / (1 - 2 * lost)

    total = mpmath.mpf(0)
    for low, high in of.shape.cells:
        one, other = (below(high - at) - below(low - at) for at in (mpmath.mpf(p), mpmath.mpf(p) + d))
        total += one**order * other ** (1 - mpmath.mpf(order))
    return mpmath.log(total) / (mpmath.mpf(order) - 1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SETTINGS)
def test_the_enclosure_is_narrow_and_above_every_value_in_balls(name: str, order: float) -> None:
    of = SETTINGS[name]
    lines, found, dice = made(of, order), found_for(of, order), np.random.default_rng(7)
    assert found.cells == ()
    with precision(128):
        for task in lines:
            for at in places(of, task.line, dice, 40):
                assert down(task.objective.value(ball(at), task.line.d)) <= found.upper
        task = lines[found.task]
        assert task.line.start <= found.position <= task.line.end
        assert found.lower == down(task.objective.value(ball(found.position), task.line.d))


@pytest.mark.parametrize("name", SETTINGS)
def test_sums_of_all_cells_one_by_one_agree(name: str) -> None:
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


@pytest.mark.parametrize("name", ["grid", "two cells", "three cells", "coarse", "range wider", "limited", "line"])
def test_the_old_search_overlaps(name: str) -> None:
    found = found_for(SETTINGS[name], 2.0)
    with precision(128):
        old = enclose(made(SETTINGS[name], 2.0))
    assert found.lower <= old.upper
    assert old.lower <= found.upper


@pytest.mark.parametrize("order", [1.0001, 1.01, 256.0, 1e3, 1e4])
@pytest.mark.parametrize("name", ["grid", "two cells", "coarse", "distant pairs", "over the width", "half-line"])
def test_extreme_orders(name: str, order: float) -> None:
    of, dice = SETTINGS[name], np.random.default_rng(9)
    found = found_for(of, order)
    with precision(128):
        for task in made(of, order):
            for at in places(of, task.line, dice, 20):
                assert down(task.objective.value(ball(at), task.line.d)) <= found.upper


def by_windows(of: Setting, order: float, dice: np.random.Generator) -> tuple[list[Discs], list[list[Any]]]:
    """The function of windows at random offsets, and the same in balls."""
    discs, balls = [], []
    for task in made(of, order):
        objective = task.objective
        assert isinstance(objective, Renyi)
        cuts = [high for _, high in objective.shape.cells[:-1]]
        line = task.line if isinstance(of.noise, TruncatedLaplacian) else clipped(task.line, cuts)
        ends = laplace_rounded._ends(cuts, of.noise.scale, [line])
        windows = windows_of(ends, 0, line)
        offsets = dice.uniform(windows.low, windows.high)[:, None]
        at = ends.places[windows.first][:, None] + offsets
        exact = at - ends.places[windows.first][:, None]  # so that both are given the same position
        kept = (ends.places[windows.first][:, None] + exact == at)[:, 0]
        problem = laplace_rounded._problem(objective, ends, 0.0)
        with np.errstate(all="ignore"):
            sigma = exactly(exact[kept]).over(exactly(of.noise.scale))
            discs.append(problem.values(windows.at(kept), windows.first[kept], sigma))
        balls.append([objective.value(ball(float(x)), line.d) for x in at[kept, 0]])
    return discs, balls


def contained(of: Setting, order: float, seed: int = 10) -> bool:
    with precision(256):
        discs, balls = by_windows(of, order, np.random.default_rng(seed))
        return all(
            up(value) >= mid - rad and down(value) <= mid + rad
            for some, values in zip(discs, balls, strict=True)
            for mid, rad, value in zip(some.mid[:, 0], some.rad[:, 0], values, strict=True)
        )


FAR = ("far from 0",)  # where offsets are not the positions that the balls are given, to the last bit


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", [name for name in SETTINGS if name not in FAR])
def test_every_disc_holds_the_value_in_balls(name: str, order: float) -> None:
    assert contained(SETTINGS[name], order)


@pytest.mark.parametrize("part", ["_left", "_right", "_inner"])
def test_a_term_that_is_left_out_would_be_seen(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laplace_rounded, part, lambda *_: exactly(np.zeros((1, 1))))
    assert not contained(SETTINGS["distant pairs"], 1.01)


def test_a_mass_that_is_off_by_little_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    own = laplace_rounded._own
    monkeypatch.setattr(laplace_rounded, "_own", lambda cells, at: own(cells, at).scaled(1.0 + 1e-12))
    assert not contained(SETTINGS["grid"], 2.0)


@pytest.mark.parametrize("order", [1.5, 8.0, 64.0])
@pytest.mark.parametrize("sensitivity", [0.1, 0.37, 1.9])
def test_one_step_stands_for_all(sensitivity: float, order: float, monkeypatch: pytest.MonkeyPatch) -> None:
    of = laplace(0.2, 0.1, 0.0, 10.0, sensitivity, (-3.0, 10.03))
    assert laplace_rounded._wobble(made(of, order)[0].objective, [0.1 * k for k in range(99)], of.lines())  # type: ignore[arg-type]
    short = found_for(of, order)
    monkeypatch.setattr(laplace_rounded, "_wobble", lambda *_: None)
    long = found_for(of, order)
    assert max(short.lower, long.lower) <= min(short.upper, long.upper)
    assert abs(short.upper / long.upper - 1.0) < 1e-9


def test_one_step_stands_for_all_where_noise_is_much_narrower_than_a_step() -> None:
    of = laplace(0.0049, 0.1, 0.0, 99.9, 0.00936)
    objective = made(of, 472.0)[0].objective
    assert isinstance(objective, Renyi)
    assert laplace_rounded._wobble(objective, [high for _, high in of.shape.cells[:-1]], of.lines()) is not None
    found, dice = found_for(of, 472.0), np.random.default_rng(12)
    assert found.upper <= found.lower * (1.0 + 1e-8)
    with precision(128):
        for task in made(of, 472.0):
            for at in places(of, task.line, dice, 100):
                assert down(task.objective.value(ball(at), task.line.d)) <= found.upper


def test_a_step_is_not_taken_for_all_where_cuts_are_off_their_places() -> None:
    of = laplace(1.0, 0.1, 1e9, 1e9 + 10.0, 0.1)
    objective = made(of, 2.0)[0].objective
    assert isinstance(objective, Renyi)
    cuts = [high for _, high in of.shape.cells[:-1]]
    assert laplace_rounded._wobble(objective, cuts, of.lines()) is None


@pytest.mark.parametrize("order", ORDERS)
def test_beyond_the_cuts_the_divergence_falls(order: float) -> None:
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


def test_what_is_not_covered_is_left_to_the_search() -> None:
    grid = SETTINGS["grid"]
    assert enclosed([]) is None
    assert enclosed(tasks(grid, Loss)) is None
    assert enclosed(made(setting(rb.Gaussian(scale=1.0), 1.0, 0.0, 5.0, 1.0), 2.0)) is None
    assert enclosed(made(limited(2.0, 5.0, 1.0, 0.0, 10.0, 1.0), 2.0)) is None  # it does not reach every cut
    assert enclosed(made(laplace(1.0, 1.0, 0.0, 9.0, 1.0, (2e3, 2e3 + 5.0)), 2.0)) is None  # all but 0
    query = rb.Query(range=rb.Interval(0.0, 5.0), sensitivity=1.0)
    clamped = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=query.range, bounding=rb.RECTIFY)
    assert enclosed(made(clamped.setting, 2.0)) is None


ISSUE = {
    "many steps": (laplace(0.1, 0.1, 0.0, 10.0, 0.1, (0.0, 20.0)), 8.0),
    "fine steps": (laplace(5.0, 0.1, 0.0, 24.0, 0.1), 3.0),
    "limited reach": (limited(20.0, 280.0, 1.0, -100.0, 100.0, 1.0), 256.0),
}


@pytest.mark.parametrize("name", ISSUE)
def test_calls_that_ended_open_are_closed(name: str) -> None:
    of, order = ISSUE[name]
    worst = worst_renyi(of, order)
    assert worst.closed
    assert worst.upper <= worst.lower * (1.0 + 1e-9)


def test_random_calls_are_closed() -> None:
    asked = [call for call in random_calls.calls(2000, seed=1207) if "QUANTIZE" in call and ".rdp(" in call]
    asked = [call for call in asked if "Laplac" in call]
    assert len(asked) > 25
    outcomes = [random_calls.outcome(call) for call in asked]
    assert [each for each in outcomes if not each.closed or each.refused] == []


def test_the_loss_of_noise_of_limited_reach_is_that_of_the_leftmost_outcome() -> None:
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
