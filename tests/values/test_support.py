"""Supports: intervals, unions and grids as values."""

import copy
import dataclasses
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangebound as rb
from rangebound.errors import ArgumentError
from rangebound.values.support import is_line

INF = math.inf
EXAMPLES = [
    rb.Interval(0, 10),
    rb.Interval(-INF, 3),
    rb.Interval(-3, INF),
    rb.Interval(-INF, INF),
    rb.Union((0, 1), (2, 3)),
    rb.Union((-INF, 1), (2, 3), (4, INF)),
    rb.Grid(step=0.5, within=rb.Interval(0, 10)),
]
TWINS = [
    (rb.Interval(0, 10), rb.Interval(0.0, np.float32(10))),
    (rb.Interval(-0.0, 10), rb.Interval(0, 10)),
    (rb.Union((0, 1), (2, 3)), rb.Union([0.0, 1.0], rb.Interval(2, 3))),
    (rb.Grid(step=1, within=rb.Interval(0, 2)), rb.Grid(step=1.0, within=rb.Interval(0.0, 2.0))),
]
ends = st.lists(st.integers(-1000, 1000), min_size=2, max_size=12, unique=True).map(sorted)


@pytest.mark.parametrize("support", EXAMPLES, ids=repr)
def test_a_support_is_frozen_and_survives_copying_pickling_and_its_words(support):
    for field in dataclasses.fields(support):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(support, field.name, 1.0)
    words = {"Interval": rb.Interval, "Union": rb.Union, "inf": INF}
    said = support if isinstance(support, rb.Grid) else eval(repr(support), words)
    for twin in (copy.copy(support), copy.deepcopy(support), pickle.loads(pickle.dumps(support)), said):
        assert twin == support
        assert hash(twin) == hash(support)
        assert twin.spans == support.spans
    assert is_line(support) == (support == rb.Interval(-INF, INF))


@pytest.mark.parametrize(("one", "other"), TWINS, ids=repr)
def test_equal_supports_have_equal_hashes_and_words(one, other):
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)
    assert len({one, other}) == 1


@given(st.integers(-100, 100), st.integers(1, 50), st.sampled_from([0.1, 0.25, 1 / 3, 0.7, 1.0, 3.0]))
def test_a_grid_starts_at_its_lower_end_and_reaches_its_upper_one(lower, count, step):
    upper = lower + step * count
    grid = rb.Grid(step=step, within=rb.Interval(lower, upper))
    assert len(grid.points) == count + 1
    assert grid.points[0] == lower
    assert grid.points[-1] <= upper
    assert grid.points[-1] == pytest.approx(upper, abs=1e-9 * step)
    assert np.allclose(np.diff(grid.points), step, rtol=1e-9)
    assert grid.bounded
    assert grid.hull == rb.Interval(grid.points[0], grid.points[-1])
    assert rb.Grid(step=step, within=rb.Interval(lower, upper + 0.9 * step)).points.tolist() == grid.points.tolist()
    with pytest.raises(ValueError, match="read-only"):
        grid.points[0] = 7.0


@given(ends)
def test_a_union_said_by_its_spans_or_by_its_gaps_is_the_same(numbers):
    numbers = numbers[: len(numbers) // 2 * 2]
    spans = [tuple(numbers[i : i + 2]) for i in range(0, len(numbers), 2)]
    union = rb.Union(*spans)
    assert union.spans == tuple(spans)
    assert union.hull == rb.Interval(numbers[0], numbers[-1])
    assert len(union.gaps) == len(spans) - 1
    if union.gaps:
        assert rb.Union.excluding(*union.gaps, within=union.hull) == union


@given(ends)
def test_excluding_from_the_line_leaves_the_complement(numbers):
    numbers = numbers[: len(numbers) // 2 * 2]
    gaps = [tuple(numbers[i : i + 2]) for i in range(0, len(numbers), 2)]
    rest = rb.Union.excluding(*gaps)
    assert rest.gaps == tuple(gaps)
    assert rest.spans[0][0] == -INF
    assert rest.spans[-1][1] == INF
    assert not rest.bounded


@pytest.mark.parametrize(
    ("gaps", "within", "rest"),
    [
        ([(-INF, 0)], None, rb.Interval(0, INF)),
        ([(0, INF)], None, rb.Interval(-INF, 0)),
        ([(0, 1)], rb.Interval(0, 3), rb.Interval(1, 3)),
        ([(2, 9)], rb.Interval(0, 3), rb.Interval(0, 2)),
        ([(-1, 1), (2, 9)], rb.Interval(0, 3), rb.Interval(1, 2)),
        ([(1, 2)], rb.Interval(0, 3), rb.Union((0, 1), (2, 3))),
    ],
)
def test_a_gap_at_an_end_cuts_the_end_off(gaps, within, rest):
    assert rb.Union.excluding(*gaps, within=within) == rest


@pytest.mark.parametrize("gaps", [[(4, 5)], [(-2, -1)], [(3, 4)], [(-1, 0)], [(1, 2), (4, 5)], [(-2, -1), (1, 2)]])
def test_a_gap_that_misses_is_refused(gaps):
    with pytest.raises(ArgumentError, match="gaps="):
        rb.Union.excluding(*gaps, within=rb.Interval(0, 3))


def test_a_union_of_nothing_is_refused():
    for spans, call in (("spans", rb.Union), ("gaps", rb.Union.excluding)):
        with pytest.raises(ArgumentError, match=rf"{spans}=\(\)"):
            call()
    for gap, within in (((-1, 11), rb.Interval(0, 10)), ((-INF, INF), None)):
        with pytest.raises(ArgumentError, match="gaps="):
            rb.Union.excluding(gap, within=within)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_the_width_is_the_rounded_difference(lower, upper):
    if lower < upper:
        interval = rb.Interval(lower, upper)
        exact = Fraction(upper) - Fraction(lower)
        assert interval.width == INF or abs(Fraction(interval.width) - exact) <= exact / 2**53 + Fraction(5e-324)
        assert interval.bounded
