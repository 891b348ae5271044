"""Hockey-stick divergences of truncated Gaussian laws on windows: thresholds, branches and events."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rangebound.ball import ball, down, precision, up
from rangebound.law import Shape
from rangebound.noise import Gaussian
from rangebound.privacy.search.delta_objective import Delta
from rangebound.privacy.search.loss_objective import Loss
from rangebound.privacy.windows import gaussian_hockey_stick as tested
from rangebound.privacy.windows.gaussian_hockey_stick import loss_bounds, stick, stick_of_pair
from rangebound.privacy.windows.gaussian_laws import Laws
from rangebound.privacy.windows.gaussian_windows import windows_of

UNION = Shape(spans=((0.0, 0.3), (0.35, 0.5), (1.1, 3.0)), normalised=True)
GRID = Shape(points=(0.0, 0.2, 0.5, 0.55, 1.5, 3.0), normalised=True)
CASES = [(shape, epsilon, d) for shape in (UNION, GRID) for epsilon, d in ((0.0, 0.1), (0.3, 0.25), (1.5, 0.6))]


def values(shape: Shape, scale: float, epsilon: float, d: float, positions: np.ndarray) -> np.ndarray:
    objective = Delta(Gaussian(scale=scale), shape, epsilon)
    with precision(128):
        return np.asarray([down(objective.value(ball(float(p)), ball(d))) for p in positions])


def enclosed(shape: Shape, scale: float, epsilon: float, d: float, start: float, end: float) -> tuple[float, float]:
    found = stick(Laws(scale, shape), epsilon, windows_of([(start, end, d, 0, 0, 0.0)]))
    assert found is not None
    return found.lower, found.upper


@pytest.mark.parametrize("scale", [0.15, 1.0])
@pytest.mark.parametrize(("shape", "epsilon", "d"), CASES)
def test_no_position_is_above_the_bound(shape: Shape, epsilon: float, d: float, scale: float) -> None:
    lower, upper = enclosed(shape, scale, epsilon, d, -1.0, 3.5)
    largest = values(shape, scale, epsilon, d, np.linspace(-1.0, 3.5, 301)).max()
    assert largest <= upper
    assert upper <= max(lower * (1.0 + 1e-7), 1e-25)
    assert lower <= largest * 1.01 + 1e-25


def test_a_branch_less_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without the windows of one branch the bound is too small."""
    whole = tested._branches

    def fewer(*args: object) -> object:
        found = whole(*args)  # type: ignore[arg-type]
        return found.some(found.branch != 4)

    monkeypatch.setattr(tested, "_branches", fewer)
    _, upper = enclosed(UNION, 0.15, 0.3, 0.25, -1.0, 3.5)
    assert values(UNION, 0.15, 0.3, 0.25, np.linspace(-1.0, 3.5, 301)).max() > upper


def test_the_events_between_the_thresholds_are_taken() -> None:
    """At the left end the last points have a mass of 1e-16, so that sums of floats do not tell the best event."""
    shape = Shape(points=(0.0, 0.5, 1.0, 30.0, 30.5, 31.0, 31.5), normalised=True)
    laws = Laws(1.0, shape)
    window = windows_of([(13.0, 14.9, 0.5, 0, 0, 4.0)])
    low, _ = tested._thresholds_at(laws, 0.1, window.start, window.d)
    high, _ = tested._thresholds_at(laws, 0.1, window.end, window.d)
    found = tested._events(laws, 0.1, window._replace(start=np.asarray([14.0])), None, {4.0: 48})
    assert values(shape, 1.0, 0.1, 0.5, np.linspace(14.0, 14.9, 40)).max() <= found.upper[0]
    assert low[0] < high[0]


@pytest.mark.parametrize("epsilon", [0.1, 0.85, 3.0])
def test_events_of_equal_gain_do_not_confuse(epsilon: float) -> None:
    """Before, the best event came from sums of floats, and was found lower at the right end than at the left."""
    points = tuple(1e-6 * k for k in range(-5, 6))
    scale, d = 3.110996400175739e-07, 2.9897027261130724e-06
    laws = Laws(scale, Shape(points=points, normalised=True))
    found = stick(laws, epsilon, windows_of([(-12e-6, 12e-6, d, 0, 0, 0.0)]))
    assert found is not None
    assert values(Shape(points=points, normalised=True), scale, epsilon, d, np.linspace(-12e-6, 12e-6, 101)).max() <= (
        found.upper
    )


def test_an_event_less_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the largest delta on a grid is that of one event, and without it the bound is too small."""
    whole = tested._difference

    def fewer(epsilon: float, pair: object, rows: object, piece: np.ndarray) -> object:
        value, error = whole(epsilon, pair, rows, piece)  # type: ignore[arg-type]
        return np.where(piece == 4, -1.0, value), error

    monkeypatch.setattr(tested, "_difference", fewer)
    _, upper = enclosed(GRID, 0.15, 0.3, 0.25, 0.5, 1.5)
    assert values(GRID, 0.15, 0.3, 0.25, np.linspace(0.5, 1.5, 301)).max() > upper


@pytest.mark.parametrize(("shape", "epsilon", "d"), CASES)
def test_one_pair_is_rounded_down_and_close(shape: Shape, epsilon: float, d: float) -> None:
    """Where it is told at all, which is where floats know it to 1e-11."""
    objective = Delta(Gaussian(scale=0.4), shape, epsilon)
    told = 0
    for p in np.linspace(-2.0, 4.0, 25):
        found = stick_of_pair(Laws(0.4, shape), epsilon, float(p), d)
        if found is None:
            continue
        told += 1
        with precision(128):
            true = objective.value(ball(float(p)), ball(d))
        assert found <= up(true)
        assert found >= down(true) * (1.0 - 1e-10) - 1e-300
    assert told >= 8


def test_losses_are_enclosed_and_unknown_ones_stay() -> None:
    p, d = np.linspace(-1.0, 2.5, 15), np.full(15, 0.4)
    low, high = loss_bounds(Laws(0.4, UNION), p, d)
    objective = Loss(Gaussian(scale=0.4), UNION)
    with precision(128):
        for k, at in enumerate(p):
            true = objective.value(ball(float(at)), ball(0.4))
            assert low[k] <= up(true)
            assert down(true) <= high[k]
    assert (high - low < 1e-9).all()
    lost = Laws(1.0, Shape(points=(-5e7, 5e7), normalised=True))
    low, high = loss_bounds(lost, np.zeros(1), np.ones(1))
    assert low[0] == -math.inf
    assert high[0] == math.inf


@pytest.mark.parametrize(("scale", "d"), [(0.15, 0.1), (0.15, 0.25), (1.0, 0.1), (1.0, 0.25)])
def test_the_bound_in_an_ellipse_is_that_of_its_mirror_image(scale: float, d: float) -> None:
    """At epsilon 0 the mirror image of a pair is the pair in the other direction: the thresholds drift both ways."""
    mirror = Shape(spans=tuple((-high, -low) for low, high in reversed(UNION.spans)), normalised=True)
    rows = [(p, p + 0.05 * scale, 2 * k + 1) for p in np.linspace(-0.5, 2.5, 9).tolist() for k in range(3)]
    here = windows_of([(start, end, d, 0, branch, 4.0) for start, end, branch in rows])
    there = windows_of([(-end - d, -start - d, d, 0, 6 - branch, 4.0) for start, end, branch in rows])
    found, mirrored = (
        tested._in_ellipse(Laws(scale, UNION), 0.0, here),
        tested._in_ellipse(Laws(scale, mirror), 0.0, there),
    )
    assert np.allclose(found, mirrored, rtol=1e-7, atol=0.0)
