"""What quantiles are published as: points of the plan's step, else the roundest number that counts at a point."""

import datetime
import hashlib
import json
from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rangebound.errors import CertificateInvalid
from rangebound.release import check_certificate, make_plan, release
from rangebound.release.noise.draw import Reading, roundest
from rangebound.release.noise.forms import form_of
from rangebound.release.plan.unit import Unit

WIDE = [[0, 121], [0, 968], [-3, 4], [17, 94], [-900, 11], [0, 7.5]]


def median(ends, **fields):
    query = {"name": "m", "kind": "median", "column": "x", "range": ends, **fields}
    return make_plan({"budget": {"epsilon": 100.0}, "query": [query]})


def published(question, point):
    ends = question.allowed.hull
    reading = Reading(values=(point,), intervals=((ends.lower, ends.upper),), rank_error=0.0)
    return form_of(question, Unit()).estimate(reading).value


@pytest.mark.parametrize("ends", WIDE)
def test_whole_numbers_are_published_for_themselves(ends):
    question = median(ends).query[0]
    points, borders = question.points, question.borders
    for whole in range(int(ends[0]), int(ends[1]) + 1):
        assert published(question, points[bisect_right(borders, whole)]) == whole


def test_several_whole_numbers_at_one_point_are_published_as_one_of_them():
    question = median([0, 1501]).query[0]
    for point in question.points:
        assert published(question, point).is_integer()


def test_a_stated_step_and_days_are_published_as_they_are():
    question = median([0, 121], step=0.121).query[0]
    assert published(question, question.points[8]) == pytest.approx(0.968)  # the control: so were all of them
    days = median([datetime.date(1970, 1, 1), datetime.date(2070, 1, 1)]).query[0]
    assert all(published(days, point) == point for point in days.points)


ends = st.tuples(st.integers(-(10**6), 10**6), st.integers(1, 10**7), st.integers(0, 4)).map(
    lambda x: [x[0] / 10 ** x[2], (x[0] + x[1]) / 10 ** x[2]]
)


@settings(max_examples=40)
@given(ends=ends, at=st.integers(0, 1000), cut=st.sampled_from([None, (0.0, 0.4), (0.25, 1.0)]))
def test_what_is_published_counts_at_the_point_that_was_drawn(ends, at, cut):
    width = ends[1] - ends[0]
    support = {} if cut is None else {"support": [ends[0] + each * width for each in cut]}
    question = median(ends, **support).query[0]
    every = question.points
    points = [each for each in every if question.allowed.hull.lower <= each <= question.allowed.hull.upper]
    point = points[at % len(points)]
    found = published(question, point)
    assert every[bisect_right(question.borders, found)] == point
    assert question.allowed.hull.lower <= found <= question.allowed.hull.upper
    assert len(str(found)) <= max(len(str(point)), len(str(ends[0])), len(str(ends[1])), 3)


def test_the_roundest_number_of_a_cell():
    for low, high, near, found in [
        ("0.95", "1.05", "1", "1"),
        ("-0.5", "0.5", "0.1", "0"),
        ("37.31", "37.43", "37.37", "37.4"),
        ("1.2", "1.3", "1.25", "1.2"),
        ("1.21", "1.3", "1.25", "1.25"),  # the end belongs to the next cell
        ("-7.4", "-6.8", "-7.1", "-7"),
    ]:
        assert roundest(Fraction(low), Fraction(high), Fraction(near)) == Fraction(found)
    assert roundest(Fraction("1.21"), Fraction("1.3"), Fraction("1.3"), closed=True) == Fraction("1.3")
    assert roundest(Fraction(2), Fraction(2), Fraction(2)) == 2
    tiny = Fraction(1, 10**400)  # less than any double
    assert roundest(tiny, 2 * tiny, 3 * tiny / 2) == tiny


def rank_distance(values, point, rank):
    below, upto = (values < point).sum(), (values <= point).sum()
    return max(0, below - rank, rank - upto)


@pytest.mark.parametrize("ends", [[0, 121], [-3, 4], [0, 5003]])
def test_the_whole_number_for_a_point_is_no_farther_in_rows(ends):
    question, generator = median(ends).query[0], np.random.default_rng(6)
    values = generator.integers(ends[0], ends[1] + 1, 40)
    cells = np.searchsorted(question.borders, values, side="right")
    form = form_of(question, Unit())
    for at, point in enumerate(question.points):
        found = form.as_whole(form.estimate(Reading(values=(point,), intervals=((point, point),))))
        assert found.lower <= found.value <= found.upper
        assert found.value.is_integer()
        for rank in (1, 20, 37):
            drawn = max(0, (cells < at).sum() - rank, rank - (cells <= at).sum())
            beside = ((cells == at) & (values != found.value)).sum()  # they count at the point, too
            assert rank_distance(values, found.value, rank) <= drawn + beside


def test_quantiles_of_columns_of_whole_numbers_are_whole():
    levels = {"kind": "quantiles", "levels": [0.1, 0.5, 0.9], "column": "x", "range": [0, 10]}
    queries = [
        {"name": "q", **levels},
        {"name": "r", **levels, "range": [0, 10.5]},
        {"name": "s", **levels, "step": 0.5},
    ]
    plan = make_plan({"budget": {"epsilon": 0.5}, "query": queries})
    rows = np.arange(40) % 11
    found = release(plan, pa.table({"x": pa.array(rows, pa.int64())}), ledger=None)
    assert found.whole == ("q",)
    for cell in found.cells:
        assert cell.lower <= cell.value <= cell.upper
        assert cell.question or cell.value.is_integer()
    assert not all(cell.value.is_integer() for cell in found.cells if cell.question)  # control: nothing is known
    assert check_certificate(found.certificate, found.to_bytes()).numbers == 9
    assert release(plan, pa.table({"x": pa.array(rows, pa.float64())}), ledger=None).whole == ()
    for names in ([], ["r"], ["q", "q"], ["q", "s"]):
        data = {**json.loads(found.to_bytes()), "whole": names}
        other = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
        stated = {**json.loads(found.certificate), "published": hashlib.sha256(other).hexdigest()}
        with pytest.raises(CertificateInvalid):
            check_certificate(json.dumps(stated, indent=1, sort_keys=True), other)
