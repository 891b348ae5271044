"""Lines of pairs: every pair of neighbours lies inside one of them, and none is wider than the sensitivity."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.ball import PRECISIONS, down, precision, up
from rangebound.privacy.search.positions import SearchLine, lines

INF = math.inf


def dominated(pair: tuple[float, float], line: SearchLine) -> bool:
    """Whether some pair of the line contains this one."""
    low, high = map(Fraction, pair)
    distance = Fraction(line.far) - Fraction(line.near)
    # positions p of the line with p <= low and p + distance >= high
    first = max(high - distance, Fraction(line.start) if math.isfinite(line.start) else high - distance)
    last = min(low, Fraction(line.end) if math.isfinite(line.end) else low)
    return first <= last


def random_union(generator: np.random.Generator) -> rb.Interval | rb.Union:
    """A union of one to five spans, some with infinite ends."""
    count = int(generator.integers(1, 6))
    cuts = np.cumsum(generator.exponential(size=2 * count)).tolist()
    spans = [list(pair) for pair in zip(cuts[::2], cuts[1::2], strict=True)]
    if generator.uniform() < 0.2:
        spans[0][0] = -INF
    if generator.uniform() < 0.2:
        spans[-1][1] = INF
    return rb.Interval(*spans[0]) if count == 1 else rb.Union(*spans)


def random_answers(generator: np.random.Generator, answers: object, count: int) -> np.ndarray:
    """Answers inside the range, ends included."""
    spans = np.clip(np.asarray(answers.spans), -20.0, 40.0)
    chosen = spans[generator.integers(len(spans), size=count)]
    fraction = generator.choice([0.0, 1.0, -1.0], size=count, p=[0.2, 0.2, 0.6])
    fraction = np.where(fraction < 0.0, generator.uniform(size=count), fraction)
    return np.clip(chosen[:, 0] + fraction * (chosen[:, 1] - chosen[:, 0]), chosen[:, 0], chosen[:, 1])


@pytest.mark.parametrize("seed", range(8))
def test_every_pair_of_neighbours_lies_inside_a_pair_of_a_line(seed: int) -> None:
    generator = np.random.default_rng([61, seed])
    for _ in range(10):
        answers = random_union(generator)
        sensitivity = float(generator.exponential())
        found = lines(answers, sensitivity)
        p = random_answers(generator, answers, 60)
        for a in p:
            for b in p:
                near = Fraction(float(b)) - Fraction(float(a))
                if 0 < near <= Fraction(sensitivity):
                    assert any(dominated((a, b), line) for line in found), (answers, sensitivity, a, b)


@pytest.mark.parametrize("seed", range(4))
def test_no_line_is_wider_than_the_sensitivity_or_leaves_the_range(seed: int) -> None:
    generator = np.random.default_rng([62, seed])
    for _ in range(20):
        answers = random_union(generator)
        sensitivity = float(generator.exponential())
        for line in lines(answers, sensitivity):
            assert Fraction(line.far) - Fraction(line.near) <= Fraction(sensitivity)
            assert line.start <= line.end
            for at in (x for x in (line.start, line.end) if math.isfinite(x)):
                other = at + line.far - line.near
                for x in (at, other):
                    assert any(a - 1e-12 <= x <= b + 1e-12 for a, b in answers.spans), (answers, sensitivity, line)


def test_an_interval_has_one_line() -> None:
    found = lines(rb.Interval(0, 10), 1.0)
    assert [line for line in found if line.start < line.end] == [SearchLine(0.0, 9.0, 1.0)]
    assert lines(rb.Interval(-INF, INF), 1.0) == [SearchLine(-INF, INF, 1.0)]


def test_the_distance_is_exact() -> None:
    line = SearchLine(0.1, 0.1, 0.7, 0.1)
    exact = Fraction(0.7) - Fraction(0.1)
    assert Fraction(down(line.d)) <= exact <= Fraction(up(line.d))
    assert exact != Fraction(0.7 - 0.1)  # a control: the difference of the two doubles, rounded, is another number
    with precision(PRECISIONS[0]):
        mantissa, exponent = line.d.man_exp()  # which only an exact ball has
    assert Fraction(int(mantissa)) * Fraction(2) ** int(exponent) == exact


def test_a_line_that_is_missing_is_noticed() -> None:
    """A control: without the pair that jumps the gap, some neighbours are in no line."""
    answers = rb.Union((0, 1), (3, 4))
    found = lines(answers, 2.5)
    assert any(dominated((1.0, 3.0), line) for line in found)
    assert not any(dominated((1.0, 3.0), line) for line in found if line.near != 1.0 and line.start > 1.0)
    assert not dominated((0.0, 3.0), SearchLine(0.0, 4.0, 2.5))
