"""Worst cases from windows of positions, against the search in balls, values at random places and high precision."""

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.privacy.branch_and_bound import enclose
from rangebound.privacy.counterexample import tasks
from rangebound.privacy.objectives import Delta, Loss, Renyi
from rangebound.privacy.windows import laplace_windows, segments
from rangebound.privacy.windows.chebyshev import Discs
from rangebound.privacy.windows.laplace_windows import enclosed
from rangebound.privacy.worst import worst_delta
from rangebound.values.ball import ball, down, precision
from tests.crosscheck.oracle import oracle
from tests.privacy.test_long_unions import union


def grid(count, step=1.0, low=0.0):
    return rb.Grid(step=step, within=rb.Interval(low, low + step * (count - 1)))


def made(support, scale, sensitivity, answers=None):
    hull = support.within if isinstance(support, rb.Grid) else support
    query = rb.Query(range=answers or hull, sensitivity=sensitivity)
    return rb.Mechanism(noise=rb.Laplace(scale=scale), query=query, support=support)


def delta(epsilon):
    return lambda noise, shape: Delta(noise, shape, epsilon)


def renyi(order):
    return lambda noise, shape: Renyi(noise, shape, order)


LOSS = Loss
MECHANISMS = {
    "grid": made(grid(12), 1.5, 1.0),
    "fine grid": made(grid(41, 0.25), 5.0, 1.0),
    "coarse grid": made(grid(9, 5.0), 0.7, 1.0),
    "uneven steps": made(grid(20, 0.1, low=-1.0), 0.3, 0.25),
    "far from 0": made(grid(11, 1.0, low=4e6), 2.0, 1.0),
    "wide sensitivity": made(grid(7), 3.0, 6.0),
    "over the width": made(grid(7), 3.0, 50.0),
    "two points": made(grid(2), 0.5, 0.25),
    "range wider": made(grid(8), 2.0, 3.0, rb.Interval(-20.0, 30.0)),
    "union": made(union(4, 1), 1.0, 0.7),
    "union, hull": made(union(5, 2), 0.8, 0.5, rb.Interval(union(5, 2).hull.lower, union(5, 2).hull.upper)),
    "narrow spans": made(rb.Union((0.0, 1e-3), (1.0, 1.001), (2.5, 2.501)), 0.6, 0.4, rb.Interval(0.0, 2.501)),
    "two spans": made(rb.Union((0.0, 3.0), (4.0, 9.0)), 0.5, 1.0),
    "tiny scale": made(union(3, 3, size=1e-6), 1e-6, 5e-7),
    "huge scale": made(union(3, 4, size=1e7), 3e7, 1e6),
}
SETTINGS = {name: each.setting for name, each in MECHANISMS.items()}
ASKED = {
    "loss": lambda s: LOSS,
    "delta 0": lambda s: delta(0.0),
    "delta": lambda s: delta(0.4 * min(s.sensitivity, _width(s)) / s.noise.scale),
    "delta late": lambda s: delta(1.05 * min(s.sensitivity, _width(s)) / s.noise.scale),
    "renyi 1.25": lambda s: renyi(1.25),
    "renyi 2": lambda s: renyi(2.0),
    "renyi 64": lambda s: renyi(64.0),
}


def _width(of):
    return of.shape.ends[1] - of.shape.ends[0]


@pytest.mark.few(5)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", SETTINGS)
def test_the_enclosure_is_narrow_overlaps_that_of_the_search_and_is_above_every_value(name, asked):
    with precision(128):
        lines = tasks(SETTINGS[name], ASKED[asked](SETTINGS[name]))
        found = enclosed(lines)
        assert found.closed
        assert found.cells == ()
        old = enclose(lines)
        assert max(found.lower, old.lower) <= min(found.upper, old.upper)
        dice = np.random.default_rng(5)
        for task in lines:
            for at in dice.uniform(task.line.start, task.line.end, max(200 // len(lines), 2)).tolist():
                assert down(task.objective.value(ball(at), task.line.d)) <= found.upper
        task = lines[found.task]
        assert task.line.start <= found.position <= task.line.end
        assert found.lower == down(task.objective.value(ball(found.position), task.line.d))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", SETTINGS)
def test_a_target_is_decided_on_either_side(name):
    with precision(128):
        lines = tasks(SETTINGS[name], ASKED["delta"](SETTINGS[name]))
        known = enclosed(lines)
        assert known.lower > 0.0
        above = enclosed(lines, known.upper * (1.0 + 1e-7))
        below = enclosed(lines, known.lower * (1.0 - 1e-7))
    assert above.upper <= known.upper * (1.0 + 1e-7)
    assert below.lower > known.lower * (1.0 - 1e-7)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SETTINGS)
def test_no_pair_has_a_larger_delta_by_the_definition(name):
    of, dice = SETTINGS[name], np.random.default_rng(8)
    epsilon = 0.4 * min(of.sensitivity, _width(of)) / of.noise.scale
    found = worst_delta(of, epsilon)
    pairs = [found.pair]
    for line in of.lines():
        pairs += [
            (at, at + min(line.far - line.near, of.shape.ends[1] - at)) for at in dice.uniform(line.start, line.end, 10)
        ]
    values = [oracle(MECHANISMS[name]).stick(*pair, epsilon) for pair in pairs]
    assert max(values) <= found.upper
    assert values[0] >= found.lower * (1.0 - 1e-9)


def test_windows_leave_no_position_out():
    for of in SETTINGS.values():
        for side, line in of.pairs():
            ends = segments.ends_of(side.shape, side.noise.scale)
            windows = segments.windows_of(ends, 0, line)
            starts = ends.places[windows.first]
            parts = sorted(zip((starts + windows.low).tolist(), (starts + windows.high).tolist(), strict=True))
            slop = 4.0 * max(math.ulp(line.start), math.ulp(line.end), math.ulp(starts.max()))
            reached = line.start
            for low, high in parts:
                assert low <= reached + slop
                reached = max(reached, high)
            assert reached >= line.end - slop


def test_what_is_not_covered_is_left_to_the_search():
    """A half-line has no end to see from, and a single span has a theorem of its own."""
    for support in (rb.Union((0.0, 1.0), (2.0, math.inf)), rb.Interval(0.0, 5.0)):
        query = rb.Query(range=rb.Interval(0.0, 5.0), sensitivity=1.0)
        of = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=support).setting
        with precision(128):
            assert enclosed(tasks(of, delta(0.1))) is None
        assert worst_delta(of, 0.1).closed


# Controls: each part of the bound that is left out lets something above it through.


def undercut(found, lines):
    if found is None:
        return False
    best = 0.0
    for task in lines:
        for at in np.linspace(task.line.start, task.line.end, 400).tolist():
            best = max(best, down(task.objective.value(ball(at), task.line.d)))
    return best > found.upper


@pytest.fixture
def rough(monkeypatch):
    """Few points on long windows, and no bound of first order."""
    monkeypatch.setattr(laplace_windows, "_DEGREE", 2)
    monkeypatch.setattr(laplace_windows, "_LONGEST", 100.0)
    infinite = lambda self, windows, values: laplace_windows.WindowBounds(  # noqa: E731
        np.full(windows.low.size, np.inf), np.full(windows.low.size, -np.inf), windows.low, np.zeros(windows.low.size)
    )
    monkeypatch.setattr(laplace_windows.Problem, "glance", infinite)
    monkeypatch.setattr(laplace_windows, "LOOSE", 1.0)
    return monkeypatch


def test_the_control_without_the_size_in_the_discs_undercuts(rough):
    with precision(128):
        lines = tasks(made(rb.Union((0.0, 3.0), (9.0, 12.0)), 1.0, 1.0, rb.Interval(0.0, 12.0)).setting, delta(0.3))
        assert not undercut(enclosed(lines), lines)
        rough.setattr(Discs, "top", property(lambda self: np.zeros_like(self.mid)))
        assert undercut(enclosed(lines), lines)


def test_the_control_with_the_branch_of_another_window_undercuts():
    """A normaliser that is continued beyond a point of the grid is too large, and the loss too small."""
    with precision(128):
        lines = tasks(SETTINGS["grid"], LOSS)
        true = enclosed(lines)
        ends = segments.ends_of(lines[0].objective.shape, SETTINGS["grid"].noise.scale)
        windows = segments.windows_of(ends, 0, lines[0].line).halves().halves()
        before = np.maximum(windows.first - 1, 0)
        shift = ends.places[windows.first] - ends.places[before]
        apart = windows.apart - shift / ends.scale
        wrong = windows._replace(first=before, low=windows.low + shift, high=windows.high + shift, apart=apart)
        problem = laplace_windows._problem(lines[0].objective, ends, windows)
        right = problem.bounds(windows, -math.inf)
        assert true.lower <= right.upper.max() < 1.1 * true.upper
        assert (right.lower <= right.upper).all()
        assert (problem.bounds(wrong, -math.inf).upper < 0.99 * right.lower).sum() > 10


def test_the_control_with_one_event_too_few_undercuts(monkeypatch):
    with precision(128):
        lines = tasks(SETTINGS["fine grid"], delta(0.02))
        assert not undercut(enclosed(lines), lines)
        right = laplace_windows.events_of

        def fewer(*given):
            found = right(*given)
            return found._replace(segments=np.maximum(found.segments - 2, 0))

        monkeypatch.setattr(laplace_windows, "events_of", fewer)
        monkeypatch.setattr(laplace_windows, "LOOSE", 1e9)
        assert undercut(enclosed(lines), lines)


def test_a_point_that_is_one_of_the_answers_is_on_a_side():
    """With q a point of the grid, every point between the two was added one by one: 250 of them took milliseconds."""
    with precision(128):
        family = Loss(rb.Laplace(scale=3.0), made(grid(501, 0.125), 3.0, 1.0).shape).family
        for at, d in ((1.0, 25.0), (1.0, 25.03125), (0.96875, 25.03125), (0.0, 62.5)):
            left, first, last, right = family._sums._places_of(ball(at), ball(d))
            assert (left, last) == (first, right)
            places = np.asarray(family._places)
            assert left == (places <= at).sum()
            assert right == (places < at + d).sum()
