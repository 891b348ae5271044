"""Roots of falling functions: from above zero, to the tolerance, in few steps, whatever the function looks like."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from rangebound.values.roots import boundary, bracket, falling_bracket, falling_root, first_above

FUNCTIONS: list[tuple[Callable[[float], float], float, float, float]] = [
    (lambda x: 2.0 - x**3, 0.0, 5.0, 2.0 ** (1 / 3)),
    (lambda x: max(1.1 - x, 0.0) ** 2 - 1e-6, 0.0, 1.2, 1.099),
    (lambda x: 0.2 * math.exp(-4.0 * x * x) - 1e-6, 0.0, 2.0, math.sqrt(math.log(2e5)) / 2.0),
    (lambda x: math.exp(-50.0 * x) - 1e-15, 0.0, 10.0, 15.0 * math.log(10.0) / 50.0),
    (lambda x: 1.0 - 1.1 * x**3 if x <= 1.0 else -math.inf, 0.0, 4.0, (1 / 1.1) ** (1 / 3)),
    (lambda x: math.inf if x < 0.25 else 0.5 - x, 0.0, 4.0, 0.5),
    (lambda x: 1.0 if x < 0.3 else -1.0, 0.0, 1.0, 0.3),
    (lambda x: 1e-300 if x < 0.7 else -1e300, 0.0, 1.0, 0.7),
]


@pytest.mark.parametrize(("above", "low", "high", "root"), FUNCTIONS)
def test_the_root_is_found_from_above_zero(
    above: Callable[[float], float], low: float, high: float, root: float
) -> None:
    calls = []
    found = falling_root(lambda x: calls.append(x) or above(x), low, high)  # type: ignore[func-returns-value]
    assert above(found) > 0.0
    assert found == pytest.approx(root, rel=2e-12)
    assert all(low <= x <= high for x in calls)
    assert len(calls) <= (12 if root == 2.0 ** (1 / 3) else 50)  # halving alone takes 43 or so


def test_an_absolute_tolerance_is_kept() -> None:
    assert 0.4 <= falling_root(lambda x: 0.5 - x, -7.0, 9.0, absolute=0.1) <= 0.5
    assert falling_root(lambda x: -1.0 - x, 0.25, 4.0) == 0.25  # the lower end, where nothing is above zero


@pytest.mark.parametrize(("start", "root"), [(0.0, 0.3), (0.0, 123.0), (1.0, 1.0001), (1.0, 40.0), (5.0, 2.0)])
def test_a_bracket_holds_the_root(start: float, root: float) -> None:
    low, high = bracket(lambda x: root - x, 1e6, start)
    assert start <= low < high
    assert low <= max(root, start) <= high
    assert bracket(lambda x: 1.0, 7.0 + start, start)[1] == 7.0 + start  # the limit


CURVES = {
    "line": lambda root: lambda x: root - x,
    "cubic": lambda root: lambda x: (root - x) ** 3,
    "steep": lambda root: lambda x: math.expm1(50.0 * (root - x)),
    "cliff": lambda root: lambda x: 1.0 if x < root else -math.inf,
}


@pytest.mark.parametrize("root", [1.0 + 1e-9, 1.25, math.pi / 2.0, 2.0 - 1e-9])
@pytest.mark.parametrize("name", CURVES)
def test_both_ends_of_a_bracket_are_on_their_sides(name: str, root: float) -> None:
    """The safe end is the one on which the function is not above zero, and it is evaluated, not inferred."""
    above = CURVES[name](root)
    low, high = falling_bracket(above, 1.0, 2.0, 1e-6)
    assert above(low) > 0.0 >= above(high)
    assert 1.0 <= low < high <= min(2.0, low * (1.0 + 2e-6))
    low, high = boundary(lambda x: above(x) <= 0.0, 1.0, 2.0, 1e-9)
    assert above(low) > 0.0 >= above(high)
    assert high <= low * (1.0 + 2e-9)


def test_a_bracket_ends_where_there_is_no_double_between() -> None:
    low, high = boundary(lambda x: x * x >= 2.0, 1.0, 2.0, 0.0)
    assert high == math.nextafter(low, 2.0)
    assert low * low < 2.0 <= high * high


def test_the_first_point_is_at_the_start_or_just_above() -> None:
    assert first_above(1.5, lambda x: True) == 1.5
    assert first_above(1.5, lambda x: x >= 1.5 + 4 * math.ulp(1.5)) <= 1.5 + 8 * math.ulp(1.5)
    assert first_above(1.5, lambda x: x >= 1.6) >= 1.6


def test_the_unsafe_end_would_be_noticed() -> None:
    """A control: the last point above zero is not on the safe side."""
    above = CURVES["line"](math.sqrt(2.0))
    assert above(falling_root(above, 1.0, 2.0)) > 0.0
