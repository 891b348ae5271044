"""Numbers made of noisy coordinates stay in their support, and their intervals follow from those of the coordinates."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangebound as rb
from rangebound.release.noise.draw import Reading, nearest
from rangebound.release.noise.forms import form_of
from rangebound.release.plan.kinds.fractions import Mean, Share, StandardDeviation, Variance
from rangebound.release.plan.unit import Unit

COLUMN = {"name": "q", "column": "x", "range": (-20.0, 100.0)}
QUESTIONS = [
    Mean(**COLUMN),
    Mean(**COLUMN, support=((0.0, 10.0), (50.0, 60.0)), step=0.5),
    Variance(**COLUMN),
    StandardDeviation(**COLUMN, step=3.0),
    Share(name="s", of=({"column": "x", "is": "present"},)),
]
COORDINATE = st.floats(0, 1e9) | st.sampled_from([0.0, 1e-300, 1e300])


def estimate(question, noisy, intervals):
    return form_of(question, Unit()).estimate(Reading(values=tuple(noisy), intervals=tuple(intervals)))


@given(
    st.sampled_from(QUESTIONS),
    st.lists(COORDINATE, min_size=3, max_size=3),
    st.lists(st.floats(0, 1e6), min_size=3, max_size=3),
)
def test_the_value_is_in_the_support_and_the_interval_in_its_hull(question, noisy, widths):
    count = 3 if question.kind in ("variance", "standard deviation") else 2
    pairs = [(max(x - w, 0.0), x + w if w < 5e5 else math.inf) for x, w in zip(noisy, widths, strict=True)]
    found = estimate(question, noisy[:count], pairs[:count])
    assert any(lower <= found.value <= upper for lower, upper in question.allowed.spans)
    hull = question.allowed.hull
    assert (0.0 if count == 3 else hull.lower) <= found.lower <= found.upper <= hull.upper  # 0 is never published


@pytest.mark.parametrize(
    ("value", "support", "step", "expected"),
    [
        (4.4, rb.Union((0, 3), (5, 9)), 2.0, 5.0),
        (24.21, rb.Interval(0, 100), 0.1, 24.2),
        (0.3, rb.Interval(0.25, 0.35), 0.5, 0.25),
        (-5.0, rb.Interval(0, math.inf), None, 0.0),
        (7.0, rb.Interval(0, math.inf), 3.0, 6.0),
        (99.9, rb.Interval(0, 99.7), 0.5, 99.5),
        (1e12, rb.Interval(0, 1e13), 1e-308, 1e12),
    ],
)
def test_the_nearest_point(value, support, step, expected):
    assert nearest(value, support, step) == expected


@given(
    st.floats(allow_nan=False),
    st.sampled_from([rb.Interval(-1e150, 1e150), rb.Interval(0, math.inf), rb.Union((-1e308, 0), (5e-324, 1e308))]),
    st.floats(5e-324, 1.7e308) | st.sampled_from([5e-324, 1e-308, 1e-300, 0.1, 1e300]),
)
def test_the_nearest_point_is_in_the_support_whatever_the_step(value, support, step):
    """A step that no table of nobody shows to be too fine must not stop a release that was paid for."""
    found = nearest(value, support, step)
    assert any(lower <= found <= upper for lower, upper in support.spans)
