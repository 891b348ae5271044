"""Windows of positions: what is cut is covered, what is unknown is not swallowed, rounding of nodes is allowed for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rangebound.privacy.windows import gaussian_windows as tested
from rangebound.privacy.windows.chebyshev import UNIT, lebesgue
from rangebound.privacy.windows.gaussian_windows import (
    GaussianWindows,
    WindowBounds,
    bounds,
    folded,
    highest,
    nodes_of,
    windows_of,
)


def some(*pairs: tuple[float, float], rho: float = 32.0) -> GaussianWindows:
    return windows_of([(a, b, 1.0, k, 0, rho) for k, (a, b) in enumerate(pairs)])


def test_parts_share_their_ends_and_cover_the_whole() -> None:
    parts = some((-1.0, 0.3), (2.0, 2.0)).cut(np.asarray([7, 3]))
    assert (parts.start[0], parts.end[6]) == (-1.0, 0.3)
    assert (parts.end[:6] == parts.start[1:7]).all()
    assert (parts.start[7:] == 2.0).all()
    assert (parts.end[7:] == 2.0).all()


@pytest.mark.parametrize("at", [0.0, 1e-3, 1.0, 1e6, -1e12])
@pytest.mark.parametrize("width", [0.0, 1e-9, 1.0])
def test_the_nodes_reach_over_both_ends_of_a_window(at: float, width: float) -> None:
    window = some((at, at + width))
    p, _ = nodes_of(window, 20)
    assert p.min() <= at
    assert p.max() >= at + width


def tent(p: np.ndarray) -> np.ndarray:
    return 1.0 - (p - 0.3) ** 2


def subdivided(windows: GaussianWindows) -> GaussianWindows:
    return windows._replace(rho=np.full_like(windows.rho, 32.0))


def evaluated(windows: GaussianWindows) -> WindowBounds:
    p, _ = nodes_of(windows, 20)
    return bounds(windows, tent(p), np.zeros_like(p), 20, 0.0, None)


def test_the_supremum_over_windows_is_enclosed() -> None:
    found = highest(subdivided(some((-1.0, 0.0), (0.0, 2.0))), evaluated, None)
    assert found is not None
    assert found.lower <= 1.0 <= found.upper <= 1.0 + 1e-9
    assert found.line == 1
    assert found.place == pytest.approx(0.3, abs=1e-4)


@pytest.mark.parametrize("field", ["upper", "lower", "rounding"])
def test_what_is_not_a_number_is_never_a_bound(field: str) -> None:
    """One window of several that is not known leaves the supremum unknown."""

    def unknown(windows: GaussianWindows) -> WindowBounds:
        found = evaluated(windows)
        value = getattr(found, field).copy()
        value[0] = math.nan
        return found._replace(**{field: value})

    assert highest(subdivided(some((-1.0, 0.0), (0.0, 2.0))), unknown, None) is None
    assert highest(subdivided(some((-1.0, 0.0), (0.0, 2.0))), unknown, 0.5) is None


def test_a_bound_that_smaller_windows_cannot_improve_ends_the_search() -> None:
    """What the polynomial misses does not shrink: it must not be halved until nothing is left of the time."""
    rounds = []

    def vague(windows: GaussianWindows) -> WindowBounds:
        rounds.append(windows.start.size)
        p, _ = nodes_of(windows, 20)
        return bounds(windows, 0.0 * p, np.zeros_like(p), 20, 1e-30, None)

    highest(subdivided(some((-1.0, 0.0), (0.0, 2.0))), vague, None)
    assert len(rounds) <= 2


def test_too_many_windows_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tested, "_MOST", 3)

    def vague(windows: GaussianWindows) -> WindowBounds:
        found = evaluated(windows)
        return found._replace(upper=found.upper + 1.0)

    assert highest(subdivided(some((-1.0, 0.0), (0.0, 2.0))), vague, None) is None


@pytest.mark.parametrize("at", [0.0, 1e3, 1e9])
def test_rounded_nodes_are_allowed_for(at: float) -> None:
    """A steep line: values belong to rounded places, and the bound covers the exact end all the same."""
    window = some((at, at + 1e-3))
    p, _ = nodes_of(window, 20)
    found = bounds(window, 1e3 * (p - at), np.zeros_like(p), 20, 0.0, None)
    assert found.upper[0] >= 1.0
    off = UNIT * (abs(at) + 3.0 * window.radius[0]) / window.radius[0]
    # an error of `off` in a node, times the slope in the window, times the Lebesgue constant
    assert found.upper[0] - 1.0 >= lebesgue(20) * off * 0.5


def test_nodes_that_rounding_moves_too_far_tell_nothing() -> None:
    window = some((1e9, 1e9), rho=4.0)
    p, _ = nodes_of(window, 120)
    assert math.isinf(bounds(window, 0.0 * p, np.zeros_like(p), 120, 0.0, None).rounding[0])


def test_one_step_stands_for_the_middle_and_no_less() -> None:
    found = folded(some((0.0, 100.0)), (20.0, 80.0), 1.0, (-2.0, 0.0, 1.0))
    ends = sorted(zip(found.start, found.end, strict=True))
    assert ends[0] == (0.0, 22.0)
    assert ends[1][0] == 22.0
    assert 23.0 < ends[1][1] < 23.001
    assert ends[2] == (79.0, 100.0)
    assert folded(some((0.0, 100.0)), None, 1.0, (0.0,)).start.size == 1
