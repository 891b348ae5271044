"""The worst-case search: its lines hold every pair, no cell is bounded too low or left out, the enclosure is true."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import rangebound as rb
from rangebound.laws.boundings import Shape
from rangebound.privacy.branch_and_bound import Found, Task, bound, climb, enclose
from rangebound.privacy.objectives import Delta, Loss, Renyi
from rangebound.privacy.pairs.truncated_grid import TruncatedLaplaceGrid
from rangebound.privacy.setting import SearchLine, lines
from rangebound.values.ball import PRECISIONS, ball, down, precision, up
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


def value(task, position):
    return down(task.objective.value(ball(position), task.line.d))


def cells(generator, count):
    starts = generator.uniform(-3.0, 4.0, size=count)
    widths = np.exp(generator.uniform(-12.0, 1.0, size=count))
    return [(float(a), float(a + w)) for a, w in zip(starts, widths, strict=True)]


@pytest.mark.few(20)
@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("cell", SEARCHED, ids=str)
def test_the_bound_of_a_cell_is_above_every_position_in_it(cell, name):
    generator = np.random.default_rng([71, len(str(cell))])
    mechanism = cell.mechanism()
    for shape in (mechanism.shape, mechanism.shape.mirrored()):
        with precision(BITS):
            task = Task(
                OBJECTIVES[name](SimpleNamespace(noise=mechanism.noise, shape=shape)), SearchLine(-3.0, 4.0, 1.0)
            )
            for start, end in cells(generator, 4):
                top = bound(task, start, end)
                inside = [start, end, *generator.uniform(start, end, size=5).tolist()]
                for position in inside:
                    assert value(task, position) <= top, (start, end, position)


def wide_cells():
    """That no cell with more points than events are told apart is bounded below a position in it."""
    fine = Shape(points=tuple(at / 128 for at in range(-1024, 1025)), normalised=True)
    with precision(BITS):
        task = Task(Delta(rb.Laplace(scale=1.0), fine, 0.4), SearchLine(-3.0, 4.0, 1.0))
        for start, end in ((0.1, 0.2), (0.1, 0.5), *cells(np.random.default_rng(73), 4)):
            assert max(value(task, float(at)) for at in np.linspace(start, end, 7)) <= bound(task, start, end)


def test_the_bound_of_a_cell_with_many_points_is_above_every_position_in_it():
    wide_cells()


def test_control_the_best_event_of_a_cell_about_a_middle_without_the_points_between_is_caught(monkeypatch):
    sticks = TruncatedLaplaceGrid.sticks

    def mixed(self, p, d, epsilon, only=()):
        found = sticks(self, p, d, epsilon, [max(each, 0) for each in only])
        return {each: found[max(each, 0)] for each in only} if only else found

    monkeypatch.setattr(TruncatedLaplaceGrid, "sticks", mixed)
    with pytest.raises(AssertionError):
        wide_cells()


ENDLESS = [cell for cell in SEARCHED if cell.noise != "truncated_laplacian"]
"""Noise of limited reach must have its support in reach, so its ranges end."""


@pytest.mark.parametrize("cell", ENDLESS[::3], ids=str)
def test_the_bound_of_an_endless_cell_is_above_every_position_in_it(cell):
    mechanism = cell.mechanism()
    with precision(BITS):
        for name, make in OBJECTIVES.items():
            task = Task(make(mechanism), SearchLine(-INF, INF, 1.0))
            for start, end, inside in ((-INF, -2.0, (-2.0, -5.0, -30.0)), (3.0, INF, (3.0, 8.0, 50.0))):
                top = bound(task, start, end)
                assert all(value(task, position) <= top for position in inside), (name, start, end)


def on_interval():
    mechanism = Cell("laplace", "truncate", "interval", "equal").mechanism()
    return Task(Delta(mechanism.noise, mechanism.shape, 0.4), SearchLine(-1.0, 1.0, 1.0))


def covered(found, tasks):
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


@pytest.mark.few(17)
@pytest.mark.parametrize(("cell", "name"), ENCLOSED, ids=str)
def test_an_enclosure_covers_its_lines_and_holds_at_random_positions(cell, name):
    mechanism = cell.mechanism()
    generator = np.random.default_rng(72)
    with precision(BITS):
        lines = SearchLine(-2.0, 1.0, 1.0), SearchLine(1.5, 1.5, 0.5)
        tasks = [Task(OBJECTIVES[name](mechanism), line) for line in lines]
        found = enclose(tasks)
        assert found.lower <= found.upper <= found.lower * (1.0 + 1e-6) + 1e-30
        assert covered(found, tasks)
        assert max(cell.upper for cell in found.cells) <= found.upper
        at_best = tasks[found.task].objective.value(ball(found.position), tasks[found.task].line.d)
        assert up(at_best) >= found.lower >= down(at_best) * (1.0 - 1e-12)
        for position in generator.uniform(-2.0, 1.0, size=20):
            assert value(tasks[0], float(position)) <= found.upper


def test_with_a_target_the_search_only_decides_and_climbing_never_goes_down_or_away():
    with precision(BITS):
        task = on_interval()
        full = enclose([task])
        above, below = full.upper * 1.01, full.lower * 0.99
        proved, refuted = enclose([task], above), enclose([task], below)
        assert proved.upper <= above
        assert covered(proved, [task])
        assert refuted.lower > below
        assert len(proved.cells) <= len(full.cells)
        for start in (-1.0, -0.3, 0.4, 1.0):
            better = climb(task, start)
            assert -1.0 <= better <= 1.0
            assert value(task, better) >= value(task, start) * (1.0 - 1e-12)


def test_a_gap_between_cells_is_noticed():
    """A control: the check of coverage fails when one cell is taken away."""
    with precision(BITS):
        tasks = [on_interval()]
        found = enclose(tasks)
    assert covered(found, tasks)
    assert len(found.cells) > 1
    for i in range(len(found.cells)):
        less = Found(found.lower, found.upper, 0, found.position, found.cells[:i] + found.cells[i + 1 :])
        assert not covered(less, tasks)


def dominated(pair, line):
    low, high = map(Fraction, pair)
    distance = Fraction(line.far) - Fraction(line.near)
    # positions p of the line with p <= low and p + distance >= high
    first = max(high - distance, Fraction(line.start) if math.isfinite(line.start) else high - distance)
    last = min(low, Fraction(line.end) if math.isfinite(line.end) else low)
    return first <= last


def random_union(generator):
    count = int(generator.integers(1, 6))
    cuts = np.cumsum(generator.exponential(size=2 * count)).tolist()
    spans = [list(pair) for pair in zip(cuts[::2], cuts[1::2], strict=True)]
    if generator.uniform() < 0.2:
        spans[0][0] = -INF
    if generator.uniform() < 0.2:
        spans[-1][1] = INF
    return rb.Interval(*spans[0]) if count == 1 else rb.Union(*spans)


def random_answers(generator, answers, count):
    spans = np.clip(np.asarray(answers.spans), -20.0, 40.0)
    chosen = spans[generator.integers(len(spans), size=count)]
    fraction = generator.choice([0.0, 1.0, -1.0], size=count, p=[0.2, 0.2, 0.6])
    fraction = np.where(fraction < 0.0, generator.uniform(size=count), fraction)
    return np.clip(chosen[:, 0] + fraction * (chosen[:, 1] - chosen[:, 0]), chosen[:, 0], chosen[:, 1])


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(8))
def test_every_pair_of_neighbours_lies_inside_a_pair_of_a_line_and_no_line_is_wider(seed):
    generator = np.random.default_rng([61, seed])
    for _ in range(20):
        answers = random_union(generator)
        sensitivity = float(generator.exponential())
        found = lines(answers, sensitivity)
        p = random_answers(generator, answers, 30)
        for a in p:
            for b in p:
                near = Fraction(float(b)) - Fraction(float(a))
                if 0 < near <= Fraction(sensitivity):
                    assert any(dominated((a, b), line) for line in found), (answers, sensitivity, a, b)
        for line in found:
            assert Fraction(line.far) - Fraction(line.near) <= Fraction(sensitivity)
            assert line.start <= line.end
            for at in (x for x in (line.start, line.end) if math.isfinite(x)):
                for x in (at, at + line.far - line.near):
                    assert any(a - 1e-12 <= x <= b + 1e-12 for a, b in answers.spans), (answers, sensitivity, line)


def test_the_distance_is_exact():
    line = SearchLine(0.1, 0.1, 0.7, 0.1)
    exact = Fraction(0.7) - Fraction(0.1)
    assert Fraction(down(line.d)) <= exact <= Fraction(up(line.d))
    assert exact != Fraction(0.7 - 0.1)  # a control: the difference of the two doubles, rounded, is another number
    with precision(PRECISIONS[0]):
        mantissa, exponent = line.d.man_exp()  # which only an exact ball has
    assert Fraction(int(mantissa)) * Fraction(2) ** int(exponent) == exact


def test_a_line_that_is_missing_is_noticed():
    """A control: without the pair that jumps the gap, some neighbours are in no line."""
    answers = rb.Union((0, 1), (3, 4))
    found = lines(answers, 2.5)
    assert any(dominated((1.0, 3.0), line) for line in found)
    assert not any(dominated((1.0, 3.0), line) for line in found if line.near != 1.0 and line.start > 1.0)
    assert not dominated((0.0, 3.0), SearchLine(0.0, 4.0, 2.5))
