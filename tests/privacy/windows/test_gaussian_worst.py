"""The supremum over lines of pairs from windows of positions, against balls at many positions and against mpmath."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from rangebound.ball import ball, down, precision
from rangebound.law import Shape
from rangebound.noise import Gaussian
from rangebound.privacy.search.branch_and_bound import Found, enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.search.delta_objective import Delta
from rangebound.privacy.search.renyi_objective import Renyi
from rangebound.privacy.setting import Setting
from rangebound.privacy.supremum import tasks
from rangebound.privacy.windows import gaussian_worst as tested
from rangebound.privacy.windows.gaussian_worst import enclosed
from rangebound.support import Interval, Union

INF = math.inf


def random_shape(dice: np.random.Generator, place: Any) -> Shape:
    """Spans or points on [0, 1], moved to their place."""
    if dice.random() < 0.5:
        count = int(dice.choice([2, 3, 5, 20]))
        ends = np.cumsum(10.0 ** dice.uniform(-3.0, 0.5, size=2 * count))
        ends = (ends - ends[0]) / (ends[-1] - ends[0])
        spans = [(place(float(a)), place(float(b))) for a, b in ends.reshape(-1, 2)]
        if dice.random() < 0.15:
            spans[0] = (-INF, spans[0][1])
        if dice.random() < 0.15:
            spans[-1] = (spans[-1][0], INF)
        return Shape(spans=tuple(spans), normalised=True)
    count = int(dice.choice([2, 3, 7, 70]))
    inner = np.linspace(0.0, 1.0, count) if dice.random() < 0.5 else np.sort([0.0, 1.0, *dice.random(count - 2)])
    return Shape(points=tuple(place(float(x)) for x in inner), normalised=True)


def random_setting(dice: np.random.Generator) -> Setting:
    """Any support, scale, sensitivity, range, place and unit."""
    unit, shift = float(dice.choice([1.0, 1.0, 7.3e4, 1e-150, 1e140])), float(dice.choice([0.0, -0.5, 100.0, 1e6]))

    def place(x: float) -> float:
        return (x + shift) * unit

    shape = random_shape(dice, place)
    scale = float(10.0 ** dice.uniform(-2.0, 1.0)) * unit
    d = float(10.0 ** dice.uniform(-2.0, 0.5)) * (scale if dice.random() < 0.6 else unit)
    low, high = place(0.0), place(1.0)
    wider = float(dice.exponential()) * max(scale, unit)
    answers = [
        Interval(low, high),
        Interval(low - wider, high + wider),
        Interval(low - wider, INF),
        Interval(-INF, high + wider),
        Interval(-INF, INF),
        Interval(low + 9.0 * wider, high + 9.0 * wider),
    ][int(dice.integers(6))]
    return Setting(Gaussian(scale=scale), shape, answers, d)


def random_objective(dice: np.random.Generator) -> Any:
    if dice.random() < 0.5:
        epsilon = float(dice.choice([0.0, dice.exponential(), 10.0 ** dice.uniform(-4.0, 1.0)]))
        return lambda noise, shape: Delta(noise, shape, epsilon)
    order = 1.0 + float(10.0 ** dice.uniform(-3.0, 2.0))
    return lambda noise, shape: Renyi(noise, shape, order)


def places(dice: np.random.Generator, task: Task, found: Found, count: int) -> list[float]:
    """Random positions of a line, its ends, and the neighbourhood of the ends of the support and of the worst one."""
    line, shape, scale = task.line, task.objective.shape, task.objective.step()  # type: ignore[attr-defined]
    ends = [x for x in (*shape.points, *(x for span in shape.spans for x in span)) if math.isfinite(x)]
    d = line.far - line.near
    low, high = max(line.start, ends[0] - 9.0 * scale - d), min(line.end, ends[-1] + 9.0 * scale + d)
    near = [float(x) - d * part for x in dice.choice(ends, size=4) for part in (0.0, 0.5, 1.0)]
    near += [found.position + scale * step for step in (0.0, 1e-5, -1e-5, 1e-2, -1e-2)]
    every = [line.start, line.end, *near, *(low + (high - low) * dice.random(count))]
    return [float(x) for x in every if math.isfinite(x) and line.start <= x <= line.end]


def attack(seed: int, count: int) -> tuple[int, int]:
    """How many settings were told at all, and how many of these as closely as a search asks."""
    told, closed = 0, 0
    for number in range(count):
        dice = np.random.default_rng([seed, number])
        todo = tasks(random_setting(dice), random_objective(dice))
        target = float(10.0 ** dice.uniform(-6.0, 0.0)) if dice.random() < 0.2 else None
        found = enclosed(todo, target)
        if found is None:
            continue
        assert 0.0 <= found.lower <= found.upper, (seed, number)
        told += 1
        closed += found.closed or target is not None
        with precision(128):
            for which in {found.task, int(dice.integers(len(todo)))}:
                task = todo[which]
                for position in places(dice, task, found, 8):
                    value = down(task.objective.value(ball(position), task.line.d))
                    assert value <= found.upper, (seed, number, position)
    return told, closed


@pytest.mark.filterwarnings("error")
def test_no_position_is_above_the_enclosure_of_random_settings() -> None:
    told, closed = attack(930, 60)
    assert told >= 30
    assert closed >= 20


@pytest.mark.long
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(8))
def test_no_position_is_above_the_enclosure_of_many_random_settings(seed: int) -> None:
    told, closed = attack(940 + seed, 250)
    assert told >= 120
    assert closed >= 80


def test_the_attack_finds_a_bound_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a polynomial of degree 4 without its truncation error."""
    monkeypatch.setattr(tested, "_DEGREES", {32.0: 4, 4.0: 4})
    monkeypatch.setattr(tested, "_BENT", 0.0)
    monkeypatch.setattr(
        "rangebound.privacy.windows.gaussian_hockey_stick._degrees", lambda epsilon, level: {32.0: 4, 4.0: 4}
    )
    monkeypatch.setattr("rangebound.privacy.windows.gaussian_hockey_stick.truncation", lambda degree, rho: 0.0)
    with pytest.raises(AssertionError):
        attack(930, 60)


SMALL = [
    Setting(Gaussian(scale=0.3), Shape(spans=((0.0, 0.4), (0.7, 1.0)), normalised=True), Interval(0.0, 1.0), 0.2),
    Setting(
        Gaussian(scale=0.3),
        Shape(spans=((0.0, 0.4), (0.7, 1.0)), normalised=True),
        Union((0.0, 0.4), (0.7, 1.0)),
        0.35,
    ),
    Setting(Gaussian(scale=1.0), Shape(points=(0.0, 1.0, 3.0), normalised=True), Interval(-2.0, 5.0), 0.5),
    Setting(Gaussian(scale=0.5), Shape(spans=((0.0, 1.0),), normalised=True), Interval(-INF, INF), 0.25),
]
MAKES = [lambda n, s: Delta(n, s, 0.2), lambda n, s: Renyi(n, s, 3.5), lambda n, s: Renyi(n, s, 1.01)]


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("setting", SMALL)
def test_the_search_in_balls_agrees(setting: Setting, make: Any) -> None:
    found = enclosed(tasks(setting, make), None)
    assert found is not None
    assert found.closed
    with precision(128):
        other = enclose(tasks(setting, make))
    assert found.lower <= other.upper
    assert other.lower <= found.upper


def largest(shape: Shape, scale: float, d: float, epsilon: float | None, order: float, positions: np.ndarray) -> Any:
    """From the definition, in mpmath."""
    best = mp.mpf(0)
    for p in positions:
        p, s = mp.mpf(float(p)), mp.mpf(scale)
        q = p + mp.mpf(d)
        near, far = ([mp.exp(-(((mp.mpf(x) - at) / s) ** 2) / 2) for x in shape.points] for at in (p, q))
        near, far = [x / mp.fsum(near) for x in near], [x / mp.fsum(far) for x in far]
        pairs = list(zip(near, far, strict=True))
        if epsilon is not None:
            value = mp.fsum(max(a - mp.exp(epsilon) * b, mp.mpf(0)) for a, b in pairs)
        else:
            value = mp.log(mp.fsum(a**order * b ** (1 - order) for a, b in pairs)) / (order - 1)
        best = max(best, value)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_mpmath_agrees_on_points(seed: int) -> None:
    dice = np.random.default_rng([950, seed])
    shape = Shape(points=tuple(np.sort(dice.random(int(dice.integers(2, 9)))).tolist()), normalised=True)
    scale, d = float(10.0 ** dice.uniform(-1.0, 0.5)), float(10.0 ** dice.uniform(-1.0, 0.0))
    epsilon, order = (float(dice.exponential(0.3)), 2.0) if seed % 2 else (None, 1.0 + float(dice.exponential(2.0)))
    line = Interval(-0.5, 1.5)
    setting = Setting(Gaussian(scale=scale), shape, line, d)
    found = enclosed(tasks(setting, lambda n, s: Renyi(n, s, order) if epsilon is None else Delta(n, s, epsilon)), None)
    assert found is not None
    with mp.workdps(40):
        true = max(
            largest(side.shape, scale, d, epsilon, order, np.linspace(a.start, a.end, 120))
            for side in setting.sides()
            for a in side.lines()
        )
        assert true <= found.upper
        assert found.lower <= true * 1.01 + 1e-25


def test_a_target_that_is_exceeded_says_nothing_of_the_rest() -> None:
    """Nobody looked at the positions farther out, so no finite upper end may be reported."""
    todo = tasks(Setting(Gaussian(scale=1.0), SMALL[2].shape, Interval(-INF, INF), 0.5), lambda n, s: Delta(n, s, 0.0))
    found = enclosed(todo, 1e-3)
    assert found is not None
    assert found.lower > 1e-3
    assert found.upper == INF
