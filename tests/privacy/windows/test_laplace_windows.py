"""Worst cases from windows of positions, against the search in balls, values at random places and high precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import rangebound as rb
from rangebound.ball import ball, down, precision
from rangebound.privacy.search.branch_and_bound import Found, enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.search.delta_objective import Delta
from rangebound.privacy.search.loss_objective import Loss
from rangebound.privacy.search.renyi_objective import Renyi
from rangebound.privacy.setting import Setting
from rangebound.privacy.supremum import tasks
from rangebound.privacy.windows import laplace_windows, segments
from rangebound.privacy.windows.discs import Discs, exactly
from rangebound.privacy.windows.laplace_windows import enclosed
from rangebound.privacy.worst import worst_delta, worst_epsilon, worst_renyi

Make = Callable[..., Any]


def grid(count: int, step: float = 1.0, low: float = 0.0) -> rb.Grid:
    return rb.Grid(step=step, within=rb.Interval(low, low + step * (count - 1)))


def union(count: int, seed: int, size: float = 1.0) -> rb.Union:
    """Spans and gaps of 0.2 to 1 times the size."""
    places = (size * np.cumsum(np.random.default_rng(seed).uniform(0.2, 1.0, 2 * count))).tolist()
    return rb.Union(*zip(places[::2], places[1::2], strict=True))


def setting(support: Any, scale: float, sensitivity: float, answers: Any = None) -> Setting:
    hull = support.within if isinstance(support, rb.Grid) else support
    query = rb.Query(range=answers or hull, sensitivity=sensitivity)
    return rb.Mechanism(noise=rb.Laplace(scale=scale), query=query, support=support, bounding=rb.TRUNCATE).setting


def delta(epsilon: float) -> Make:
    return lambda noise, shape: Delta(noise, shape, epsilon)


def renyi(order: float) -> Make:
    return lambda noise, shape: Renyi(noise, shape, order)


LOSS: Make = Loss
SETTINGS = {
    "grid": setting(grid(12), 1.5, 1.0),
    "fine grid": setting(grid(41, 0.25), 5.0, 1.0),
    "coarse grid": setting(grid(9, 5.0), 0.7, 1.0),
    "uneven steps": setting(grid(20, 0.1, low=-1.0), 0.3, 0.25),
    "far from 0": setting(grid(11, 1.0, low=4e6), 2.0, 1.0),
    "wide sensitivity": setting(grid(7), 3.0, 6.0),
    "over the width": setting(grid(7), 3.0, 50.0),
    "two points": setting(grid(2), 0.5, 0.25),
    "range wider": setting(grid(8), 2.0, 3.0, rb.Interval(-20.0, 30.0)),
    "union": setting(union(4, 1), 1.0, 0.7),
    "union, hull": setting(union(5, 2), 0.8, 0.5, rb.Interval(union(5, 2).hull.lower, union(5, 2).hull.upper)),
    "narrow spans": setting(rb.Union((0.0, 1e-3), (1.0, 1.001), (2.5, 2.501)), 0.6, 0.4, rb.Interval(0.0, 2.501)),
    "two spans": setting(rb.Union((0.0, 3.0), (4.0, 9.0)), 0.5, 1.0),
    "tiny scale": setting(union(3, 3, 1e-6), 1e-6, 5e-7),
    "huge scale": setting(union(3, 4, 1e7), 3e7, 1e6),
}
ASKED = {
    "loss": lambda s: LOSS,
    "delta 0": lambda s: delta(0.0),
    "delta": lambda s: delta(0.4 * min(s.sensitivity, _width(s)) / s.noise.scale),
    "delta late": lambda s: delta(1.05 * min(s.sensitivity, _width(s)) / s.noise.scale),
    "renyi 1.25": lambda s: renyi(1.25),
    "renyi 2": lambda s: renyi(2.0),
    "renyi 64": lambda s: renyi(64.0),
}


def _width(of: Setting) -> float:
    return of.shape.ends[1] - of.shape.ends[0]


def made(name: str, asked: str) -> list[Task]:
    return tasks(SETTINGS[name], ASKED[asked](SETTINGS[name]))


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", SETTINGS)
def test_the_enclosure_is_narrow_overlaps_that_of_the_search_and_is_above_every_value(name: str, asked: str) -> None:
    with precision(128):
        lines = made(name, asked)
        found = enclosed(lines)
        assert found is not None
        assert found.closed
        assert found.cells == ()
        old = enclose(lines)
        assert found.lower <= old.upper
        assert old.lower <= found.upper
        dice = np.random.default_rng(5)
        for task in lines:
            for at in dice.uniform(task.line.start, task.line.end, max(200 // len(lines), 2)).tolist():
                assert down(task.objective.value(ball(at), task.line.d)) <= found.upper
        task = lines[found.task]
        assert task.line.start <= found.position <= task.line.end
        assert found.lower == down(task.objective.value(ball(found.position), task.line.d))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_target_is_decided_on_either_side(name: str) -> None:
    with precision(128):
        lines = made(name, "delta")
        known = enclosed(lines)
        assert known is not None
        assert known.lower > 0.0
        above = enclosed(lines, known.upper * (1.0 + 1e-7))
        below = enclosed(lines, known.lower * (1.0 - 1e-7))
    assert above is not None
    assert above.upper <= known.upper * (1.0 + 1e-7)
    assert below is not None
    assert below.lower > known.lower * (1.0 - 1e-7)


@mpmath.workdps(40)
def exact_delta(of: Setting, p: float, q: float, epsilon: float) -> Any:
    """From the definition, with 40 digits: on points a sum, on spans the best of many thresholds."""
    mp = mpmath.mp
    b, factor = mp.mpf(of.noise.scale), mp.exp(mp.mpf(epsilon))

    def to(x: Any, at: float) -> Any:  # the integral of e^{-|x - at|/b} from -inf to x
        s = (mp.mpf(x) - mp.mpf(at)) / b
        return mp.exp(s) if s <= 0 else 2 - mp.exp(-s)

    if of.shape.points:
        weights = [[mp.exp(-abs(mp.mpf(x) - mp.mpf(at)) / b) for x in of.shape.points] for at in (p, q)]
        totals = [mp.fsum(each) for each in weights]
        parts = (x / totals[0] - factor * y / totals[1] for x, y in zip(*weights, strict=True))
        return mp.fsum(max(part, mp.mpf(0)) for part in parts)
    totals = [mp.fsum(to(u, at) - to(low, at) for low, u in of.shape.spans) for at in (p, q)]

    def event(t: float) -> Any:
        cut = [(low, min(u, t)) for low, u in of.shape.spans if low < t]
        masses = [mp.fsum(to(u, at) - to(low, at) for low, u in cut) for at in (p, q)]
        return masses[0] / totals[0] - factor * masses[1] / totals[1]

    places = np.linspace(p, q, 15).tolist()
    return max([mp.mpf(0), *map(event, places)])


@pytest.mark.parametrize("name", SETTINGS)
def test_no_pair_has_a_larger_delta_by_the_definition(name: str) -> None:
    of, dice = SETTINGS[name], np.random.default_rng(8)
    epsilon = 0.4 * min(of.sensitivity, _width(of)) / of.noise.scale
    found = worst_delta(of, epsilon)
    pairs = [found.pair]
    for line in of.lines():
        pairs += [
            (at, at + min(line.far - line.near, of.shape.ends[1] - at)) for at in dice.uniform(line.start, line.end, 10)
        ]
    values = [exact_delta(of, min(pair), max(pair), epsilon) for pair in pairs]
    assert max(values) <= found.upper
    if of.shape.points and found.pair[0] < found.pair[1]:
        assert values[0] >= found.lower * (1.0 - 1e-9)


def test_windows_leave_no_position_out() -> None:
    for of in SETTINGS.values():
        for side, line in of.pairs():
            windows = segments.windows_of(segments.ends_of(side.shape, side.noise.scale), 0, line)
            starts = side_places(side)[windows.first]
            parts = sorted(zip((starts + windows.low).tolist(), (starts + windows.high).tolist(), strict=True))
            slop = 4.0 * max(math.ulp(line.start), math.ulp(line.end), math.ulp(starts.max()))
            reached = line.start
            for low, high in parts:
                assert low <= reached + slop
                reached = max(reached, high)
            assert reached >= line.end - slop


def side_places(side: Setting) -> np.ndarray[Any, np.dtype[np.float64]]:
    return segments.ends_of(side.shape, side.noise.scale).places


def test_what_is_not_covered_is_left_to_the_search() -> None:
    """A half-line has no end to see from, and a single span has a theorem of its own."""
    for support in (rb.Union((0.0, 1.0), (2.0, math.inf)), rb.Interval(0.0, 5.0)):
        query = rb.Query(range=rb.Interval(0.0, 5.0), sensitivity=1.0)
        of = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=support).setting
        with precision(128):
            assert enclosed(tasks(of, delta(0.1))) is None
        assert worst_delta(of, 0.1).closed


@pytest.mark.parametrize("wanted", [1e-15, 1e-9, 1e-3])
def test_epsilon_of_a_small_delta_and_back(wanted: float) -> None:
    of = SETTINGS["union"]
    found = worst_epsilon(of, wanted)
    assert found.closed
    assert worst_delta(of, found.upper).upper <= wanted * (1.0 + 1e-6)
    assert worst_delta(of, found.lower * (1.0 - 1e-6)).lower >= wanted


def test_a_large_epsilon_leaves_nothing_and_high_orders_come_to_the_loss() -> None:
    of = SETTINGS["grid"]
    with precision(128):
        nothing, loss, high = (enclosed(tasks(of, make)) for make in (delta(50.0), LOSS, renyi(1e4)))
    assert nothing is not None
    assert nothing.upper <= 0.0
    assert loss is not None
    assert high is not None
    assert 0.999 * loss.lower <= high.lower <= high.upper <= loss.upper
    assert worst_renyi(of, 1e4).closed


# Controls: each part of the bound that is left out lets something above it through.


def undercut(found: Found | None, lines: list[Task]) -> bool:
    """Whether some value is above the upper end."""
    if found is None:
        return False
    best = 0.0
    for task in lines:
        for at in np.linspace(task.line.start, task.line.end, 400).tolist():
            best = max(best, down(task.objective.value(ball(at), task.line.d)))
    return best > found.upper


@pytest.fixture
def rough(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Few points on long windows, and no bound of first order."""
    monkeypatch.setattr(laplace_windows, "_DEGREE", 2)
    monkeypatch.setattr(laplace_windows, "_LONGEST", 100.0)
    infinite = lambda self, windows, values: laplace_windows._Bounds(  # noqa: E731
        np.full(windows.low.size, np.inf), np.full(windows.low.size, -np.inf), windows.low, np.zeros(windows.low.size)
    )
    monkeypatch.setattr(laplace_windows.Problem, "glance", infinite)
    monkeypatch.setattr(laplace_windows, "LOOSE", 1.0)
    return monkeypatch


def test_the_control_without_the_size_in_the_discs_undercuts(rough: pytest.MonkeyPatch) -> None:
    with precision(128):
        lines = tasks(setting(rb.Union((0.0, 3.0), (9.0, 12.0)), 1.0, 1.0, rb.Interval(0.0, 12.0)), delta(0.3))
        assert not undercut(enclosed(lines), lines)
        rough.setattr(Discs, "top", property(lambda self: np.zeros_like(self.mid)))
        assert undercut(enclosed(lines), lines)


def test_the_control_with_the_branch_of_another_window_undercuts() -> None:
    """A normaliser that is continued beyond a point of the grid is too large, and the loss too small."""
    with precision(128):
        lines = tasks(SETTINGS["grid"], LOSS)
        true = enclosed(lines)
        assert true is not None
        ends = segments.ends_of(lines[0].objective.shape, SETTINGS["grid"].noise.scale)
        windows = segments.windows_of(ends, 0, lines[0].line).halves().halves()
        before = np.maximum(windows.first - 1, 0)
        shift = ends.places[windows.first] - ends.places[before]
        apart = windows.apart.minus(exactly(shift / ends.scale))
        wrong = windows._replace(first=before, low=windows.low + shift, high=windows.high + shift, apart=apart)
        problem = laplace_windows._problem(lines[0].objective, ends, windows)
        right = problem.bounds(windows, -math.inf)
        assert true.lower <= right.upper.max() < 1.1 * true.upper
        assert (right.lower <= right.upper).all()
        assert (problem.bounds(wrong, -math.inf).upper < 0.99 * right.lower).sum() > 10


def test_the_control_with_one_event_too_few_undercuts(monkeypatch: pytest.MonkeyPatch) -> None:
    with precision(128):
        lines = tasks(SETTINGS["fine grid"], delta(0.02))
        assert not undercut(enclosed(lines), lines)
        right = laplace_windows.events_of

        def fewer(*given: Any) -> Any:
            found = right(*given)
            return found._replace(segments=np.maximum(found.segments - 2, 0))

        monkeypatch.setattr(laplace_windows, "events_of", fewer)
        monkeypatch.setattr(laplace_windows, "LOOSE", 1e9)
        assert undercut(enclosed(lines), lines)


def test_values_and_thresholds_agree_with_balls() -> None:
    """The formulas over discs, at points, hold what the balls say, in every segment that a position can have."""
    with precision(128):
        for name in ("grid", "union", "narrow spans", "far from 0"):
            of = SETTINGS[name]
            line = max(of.lines(), key=lambda each: each.end - each.start)
            ends = segments.ends_of(of.shape, of.noise.scale)
            windows = segments.windows_of(ends, 0, line)
            sums = segments.sums_of(ends, int((windows.second - windows.first).max()) + 1, segments.rate_of(2.0))
            offset = 0.5 * windows.low + 0.5 * windows.high
            at = Discs(offset[:, None], np.full((offset.size, 1), 1e-9 * of.noise.scale)).over(exactly(of.noise.scale))
            with np.errstate(all="ignore"):
                found = {
                    Loss(of.noise, of.shape): segments.loss(ends, windows, at),
                    Renyi(of.noise, of.shape, 2.0): segments.renyi(ends, sums, 2.0, windows, at),
                }
            for objective, values in found.items():
                for k, place in enumerate((ends.places[windows.first] + offset).tolist()):
                    value = float(objective.value(ball(place), line.d).mid())
                    assert abs(value - values.mid[k, 0]) <= values.rad[k, 0]


def test_a_point_that_is_one_of_the_answers_is_on_a_side() -> None:
    """With q a point of the grid, every point between the two was added one by one: 250 of them took milliseconds."""
    with precision(128):
        family = Loss(rb.Laplace(scale=3.0), setting(grid(501, 0.125), 3.0, 1.0).shape).family
        for at, d in ((1.0, 25.0), (1.0, 25.03125), (0.96875, 25.03125), (0.0, 62.5)):
            left, first, last, right = family._sums._places_of(ball(at), ball(d))
            assert (left, last) == (first, right)
            places = np.asarray(family._places)
            assert left == (places <= at).sum()
            assert right == (places < at + d).sum()
