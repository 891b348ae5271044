"""The worst-case search: no cell is bounded too low, the cells leave no gap, and the enclosure is true."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.ball import ball, down, precision, up
from rangebound.privacy.search.branch_and_bound import Found, climb, enclose
from rangebound.privacy.search.cell_bound import Task, bound
from rangebound.privacy.search.delta_objective import Delta
from rangebound.privacy.search.loss_objective import Loss
from rangebound.privacy.search.positions import SearchLine
from rangebound.privacy.search.renyi_objective import Renyi
from tests.matrix.cells import ALLOWED, Cell

INF = math.inf
BITS = 128
SEARCHED = [
    cell
    for cell in ALLOWED
    if cell.bounding == "truncate" and cell.support != "line" and cell.range in ("larger", "smaller")
]
OBJECTIVES = {
    "delta": lambda m: Delta(m.noise, m.shape, 0.4),
    "renyi": lambda m: Renyi(m.noise, m.shape, 3.0),
    "loss": lambda m: Loss(m.noise, m.shape),
}


def value(task: Task, position: float) -> float:
    """The number at one position, rounded down."""
    return down(task.objective.value(ball(position), task.line.d))


def cells(generator: np.random.Generator, count: int) -> list[tuple[float, float]]:
    """Random cells of positions, from wide to very narrow."""
    starts = generator.uniform(-3.0, 4.0, size=count)
    widths = np.exp(generator.uniform(-12.0, 1.0, size=count))
    return [(float(a), float(a + w)) for a, w in zip(starts, widths, strict=True)]


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("cell", SEARCHED, ids=str)
def test_the_bound_of_a_cell_is_above_every_position_in_it(cell: Cell, name: str) -> None:
    generator = np.random.default_rng([71, len(str(cell))])
    mechanism = cell.mechanism()
    for shape in (mechanism.shape, mechanism.shape.mirrored()):
        other = rb.Mechanism.__new__(rb.Mechanism)
        object.__setattr__(other, "noise", mechanism.noise)
        other.__dict__["shape"] = shape
        with precision(BITS):
            task = Task(OBJECTIVES[name](other), SearchLine(-3.0, 4.0, 1.0))
            for start, end in cells(generator, 4):
                top = bound(task, start, end)
                inside = [start, end, *generator.uniform(start, end, size=5).tolist()]
                for position in inside:
                    assert value(task, position) <= top, (start, end, position)


ENDLESS = [cell for cell in SEARCHED if cell.noise != "truncated_laplacian"]
"""Noise of limited reach must have its support in reach, so its ranges end."""


@pytest.mark.parametrize("cell", ENDLESS[::3], ids=str)
def test_the_bound_of_an_endless_cell_is_above_every_position_in_it(cell: Cell) -> None:
    mechanism = cell.mechanism()
    with precision(BITS):
        for name, make in OBJECTIVES.items():
            task = Task(make(mechanism), SearchLine(-INF, INF, 1.0))
            for start, end, inside in ((-INF, -2.0, (-2.0, -5.0, -30.0)), (3.0, INF, (3.0, 8.0, 50.0))):
                top = bound(task, start, end)
                assert all(value(task, position) <= top for position in inside), (name, start, end)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_narrow_cells_are_bounded_sharply(noise: str) -> None:
    """Second order: the bound's excess is no more than the square of the width, in scales."""
    mechanism = Cell(noise, "truncate", "interval", "equal").mechanism()
    with precision(BITS):
        task = Task(Delta(mechanism.noise, mechanism.shape, 0.4), SearchLine(-1.0, 1.0, 1.0))
        for middle in (-0.6, 0.0, 0.2):
            for width in (1e-1, 1e-2, 1e-3):
                top = bound(task, middle - width / 2, middle + width / 2)
                best = max(value(task, x) for x in np.linspace(middle - width / 2, middle + width / 2, 21))
                assert best <= top <= best * (1.0 + width**2) + 1e-15


def covered(found: Found, tasks: list[Task]) -> bool:
    """Whether the cells of each task reach from one end of its line to the other without a gap."""
    for number, task in enumerate(tasks):
        mine = sorted((cell.start, cell.end) for cell in found.cells if cell.task == number)
        reached = task.line.start
        for start, end in mine:
            if start > reached:
                return False
            reached = max(reached, end)
        if not mine or reached < task.line.end:
            return False
    return True


ENCLOSED = [
    (cell, name)
    for cell in ENDLESS[::2]
    for name in OBJECTIVES
    # The loss of Gaussian noise on an unbounded support is infinite, and known without a search.
    if not (name == "loss" and cell.noise == "gaussian" and not cell.mechanism().support.bounded)
]


@pytest.mark.parametrize(("cell", "name"), ENCLOSED, ids=str)
def test_an_enclosure_covers_its_lines_and_holds_at_random_positions(cell: Cell, name: str) -> None:
    mechanism = cell.mechanism()
    generator = np.random.default_rng(72)
    with precision(BITS):
        tasks = [
            Task(OBJECTIVES[name](mechanism), line)
            for _, line in [(0, SearchLine(-2.0, 1.0, 1.0)), (1, SearchLine(1.5, 1.5, 0.5))]
        ]
        found = enclose(tasks)
        assert found.lower <= found.upper <= found.lower * (1.0 + 1e-6) + 1e-30
        assert covered(found, tasks)
        assert max(cell.upper for cell in found.cells) <= found.upper
        at_best = tasks[found.task].objective.value(ball(found.position), tasks[found.task].line.d)
        assert up(at_best) >= found.lower >= down(at_best) * (1.0 - 1e-12)
        for position in generator.uniform(-2.0, 1.0, size=20):
            assert value(tasks[0], float(position)) <= found.upper


def test_with_a_target_the_search_only_decides() -> None:
    mechanism = Cell("laplace", "truncate", "interval", "equal").mechanism()
    with precision(BITS):
        tasks = [Task(Delta(mechanism.noise, mechanism.shape, 0.4), SearchLine(-1.0, 1.0, 1.0))]
        full = enclose(tasks)
        above, below = full.upper * 1.01, full.lower * 0.99
        proved, refuted = enclose(tasks, above), enclose(tasks, below)
    assert proved.upper <= above
    assert covered(proved, tasks)
    assert refuted.lower > below
    assert len(proved.cells) <= len(full.cells)


def test_climbing_never_goes_down_or_away() -> None:
    mechanism = Cell("laplace", "truncate", "interval", "equal").mechanism()
    with precision(BITS):
        task = Task(Delta(mechanism.noise, mechanism.shape, 0.4), SearchLine(-1.0, 1.0, 1.0))
        for start in (-1.0, -0.3, 0.4, 1.0):
            better = climb(task, start)
            assert -1.0 <= better <= 1.0
            assert value(task, better) >= value(task, start) * (1.0 - 1e-12)


def test_a_gap_between_cells_is_noticed() -> None:
    """A control: the check of coverage fails when one cell is taken away."""
    mechanism = Cell("laplace", "truncate", "interval", "equal").mechanism()
    with precision(BITS):
        tasks = [Task(Delta(mechanism.noise, mechanism.shape, 0.4), SearchLine(-1.0, 1.0, 1.0))]
        found = enclose(tasks)
    assert covered(found, tasks)
    assert len(found.cells) > 1
    for i in range(len(found.cells)):
        less = Found(found.lower, found.upper, 0, found.position, found.cells[:i] + found.cells[i + 1 :])
        assert not covered(less, tasks)
