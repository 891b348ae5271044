"""Queries: a range, a sensitivity, and clipping."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import rangebound as rb

INF = math.inf
INTERVAL = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
UNION = rb.Query(range=rb.Union((0, 1), (2, 3), (5, 9)), sensitivity=1.0)
HALF = rb.Query(range=rb.Interval(-INF, 10), sensitivity=1.0)
finite = st.floats(-1e300, 1e300)


@given(finite, finite)
@example(-0.1, 1e16)
def test_a_sensitivity_is_never_cut_below_the_width(one, other):
    """The difference of the ends as a double may be below the width, and adding it to one end may hide that."""
    lower, upper = sorted((one, other))
    assume(lower < upper)
    exact = Fraction(upper) - Fraction(lower)
    cut = rb.Query(range=rb.Interval(lower, upper), sensitivity=1.5e308).sensitivity
    assert math.nextafter(cut, 0.0) < exact <= cut
    for kept in (cut, cut / 2):
        assert kept == 0.0 or rb.Query(range=rb.Interval(lower, upper), sensitivity=kept).sensitivity == kept


@pytest.mark.parametrize("sensitivity", [1.0, 10.0, 1e300])
def test_an_unbounded_range_cuts_no_sensitivity(sensitivity):
    for answers in (rb.Interval(0, INF), rb.Interval(-INF, INF), rb.Union((-INF, 0), (1, 2))):
        assert rb.Query(range=answers, sensitivity=sensitivity).sensitivity == sensitivity
    assert rb.Query(range=rb.Union((0, 1), (2, 3)), sensitivity=99).sensitivity == 3.0  # the hull of it


@given(finite)
def test_clipping_to_an_interval_is_the_nearest_point(answer):
    assert INTERVAL.clip(answer) == min(max(answer, 0.0), 10.0)
    assert HALF.clip(answer) == min(answer, 10.0)


@given(st.floats(-20, 20))
def test_clipping_to_a_union_is_the_nearest_span(answer):
    clipped = float(UNION.clip(answer))
    spans = UNION.range.spans
    assert any(lower <= clipped <= upper for lower, upper in spans)
    nearest = min(max(lower - answer, answer - upper, 0.0) for lower, upper in spans)
    assert abs(clipped - answer) == pytest.approx(nearest, abs=1e-15)


@given(st.lists(st.floats(-20, 20), max_size=6))
def test_clipping_many_is_clipping_each_once(answers):
    for query in (INTERVAL, UNION, HALF):
        clipped = query.clip(np.asarray(answers))
        assert clipped.tolist() == [float(query.clip(answer)) for answer in answers]
        assert query.clip(clipped).tolist() == clipped.tolist()


WIDE = rb.Query(range=rb.Interval(0, 2.0**62), sensitivity=1.0)
LARGE = 2**60 + 128  # halfway between two doubles


def kinds_of(number):
    """An integer, or one beyond 2^53 among other numbers, in every form in which answers come."""
    yield from (number, [number], (number,), [[number], [3]], [number, 0.5], [np.int64(number), 0.5])
    yield from (np.int64(number), np.uint64(number), np.array(number), np.full(3, number), np.full(3, number, "uint64"))
    yield from (np.full((2, 2), number, dtype=">i8"), [np.array([number]), np.array([0.5])])
    pandas = pytest.importorskip("pandas")
    yield from (pandas.Series([number]), pandas.DataFrame({"whole": [number], "other": [0.5]}))
    torch = pytest.importorskip("torch")
    yield from (torch.tensor(number), torch.tensor([number, 3]), [torch.tensor(number), torch.tensor(0.5)])


@pytest.mark.parametrize("number", [LARGE, LARGE + 1, 2**60, 2**53 + 1])
def test_integers_beyond_doubles_are_refused_before_they_are_rounded(number):
    """Two answers that differ by 1 became doubles that differ by 256. Even the last digits must not decide."""
    mechanism = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=WIDE, bounding=rb.RECTIFY)
    for answer in kinds_of(number):
        for call in (mechanism.release, mechanism.law, mechanism.error, mechanism.fisher, WIDE.clip):
            with pytest.raises(rb.errors.ArgumentError, match="2\\^53") as caught:
                call(answer)
            assert str(number)[:4] not in str(caught.value)


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_beyond_doubles_are_clipped_to_a_range_that_ends_before(sign):
    """Where the range is public and ends below 2^53, no answer whatever decides whether there is a release."""
    query = rb.Query(range=rb.Interval(-(2.0**53), 2.0**53), sensitivity=1.0)
    mechanism = rb.Mechanism(noise=rb.Laplace(scale=1e-3), query=query, bounding=rb.RECTIFY)
    for number in (2**53 + 1, LARGE, 2**63 - 1):
        for answer in (sign * number, [sign * number, 0.5], np.array([sign * number]), np.int64(sign * number)):
            assert np.asarray(query.clip(answer)).reshape(-1)[0] == sign * 2.0**53
            assert abs(np.asarray(mechanism.release(answer)).reshape(-1)[0] - sign * 2.0**53) < 1.0


@given(st.integers(-(2**63), 2**64 - 1), st.sampled_from([0, 1, 2, 3]))
def test_an_integer_answer_is_exact_or_refused(number, form):
    """The property that holds for every integer, range and form: what is clipped is the number itself."""
    for query in (WIDE, HALF, INTERVAL, rb.Query(range=rb.Interval(-1e18, 100), sensitivity=1.0)):
        answer = [number, [number], [number, 0.5], np.asarray(number)][form]
        hull = query.range.hull
        try:
            clipped = query.clip(answer).reshape(-1)[0]
        except rb.errors.ArgumentError:
            assert abs(number) > 2**53
            assert (hull.upper if number > 0 else -hull.lower) > 2**53
        else:
            assert Fraction(float(clipped)) == min(max(Fraction(number), ends(hull)[0]), ends(hull)[1])


def ends(hull):
    """The ends of a range as fractions, or what no integer of 64 bits reaches."""
    return [
        Fraction(each) if math.isfinite(each) else Fraction(math.copysign(2.0**70, each))
        for each in (hull.lower, hull.upper)
    ]


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="this platform's long double is a double")
def test_long_doubles_are_exact_or_refused():
    mechanism = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=INTERVAL)
    for exact in (np.longdouble(0.5), np.array([0.5, 3.0], dtype=np.longdouble)):
        assert np.asarray(INTERVAL.clip(exact)).reshape(-1)[0] == 0.5
        mechanism.release(exact)
    for longer in (np.longdouble("0.1"), np.array([0.5, np.longdouble("0.1")]), [np.longdouble("0.1")]):
        for call in (mechanism.release, mechanism.law, INTERVAL.clip):
            with pytest.raises(rb.errors.ArgumentError, match="double exactly"):
                call(longer)


def test_noise_on_a_grid_of_answers_is_that_of_the_grid_as_support():
    whole = rb.Query(range=rb.Grid(step=1, within=rb.Interval(0, 10)), sensitivity=1.0)
    real = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    on_grid = rb.calibrate(noise=rb.Laplace, query=whole, epsilon=1.0)
    other = rb.calibrate(noise=rb.Laplace, query=real, support=whole.range, epsilon=1.0)
    assert on_grid.support == whole.range
    assert on_grid.noise == other.noise
    assert rb.Mechanism.from_dict(on_grid.to_dict()) == on_grid
    assert on_grid.release(3.0) in whole.range.points
