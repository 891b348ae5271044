"""Numbers and supports as plain data, and back exactly."""

import copy
import csv
import itertools
import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rangebound as rb
from rangebound.errors import ArgumentError, RangeboundError
from rangebound.ledger.export import _cell as export_cell
from rangebound.ledger.export import plain_cell
from rangebound.values.serial import (
    csv_text,
    json_data,
    number,
    parse_number,
    plain_text,
    spreadsheet_cell,
    support_from_dict,
    support_to_dict,
    workbook_text,
)

INF = math.inf


@given(st.floats(allow_nan=False))
def test_a_number_comes_back_exactly_through_json(x):
    assert parse_number(json.loads(json.dumps(number(x), allow_nan=False))) == x


@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=8, unique=True).map(sorted), st.booleans())
def test_a_support_comes_back_exactly_through_json(ends, as_union):
    ends = ends[: len(ends) // 2 * 2]
    spans = [(ends[i], ends[i + 1]) for i in range(0, len(ends), 2)]
    support = rb.Union(*spans) if as_union else rb.Interval(*spans[0])
    grid = rb.Grid(step=0.1, within=rb.Interval(1 / 3, 2.5))
    for each in (support, grid):
        assert support_from_dict(json.loads(json.dumps(support_to_dict(each), allow_nan=False))) == each


@pytest.mark.parametrize(
    "value", [None, True, "1", "nan", "Infinity", "+inf", "INF", b"inf", [], {}, math.nan, INF, 1j]
)
def test_what_number_did_not_write_is_refused(value):
    with pytest.raises(RangeboundError, match="number="):
        parse_number(value)


BAD_SUPPORTS = [
    None,
    [],
    {},
    {"interval": [0, 1], "union": [[0, 1]]},
    {"disc": [0, 1]},
    {"interval": [0, 1, 2]},
    {"interval": ["nan", 1]},
    {"interval": [True, 2]},
    {"interval": [0.0, 1.0], "width": 1.0},
    {"union": [[0, 1], 2]},
    {"union": {"0": 1}},
    {"union": [[0.0, 1.0], [2.0, 3.0]], "gaps": 1},
    {"grid": {"step": 1.0}},
    {"grid": {"step": 0.0, "within": [0, 1]}},
    {"grid": {"step": 1.0, "within": ["-inf", 1]}},
    {"grid": {"step": 1.0, "within": [0.0, 9.0]}, "points": 10},
    {"grid": {"step": 1.0, "within": [0.0, 9.0], "points": 10}},
]


MECHANISM = rb.Mechanism(
    noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
).to_dict()


@pytest.mark.parametrize("data", BAD_SUPPORTS, ids=repr)
def test_bad_data_for_a_support_is_refused_by_an_error_of_ours(data):
    with pytest.raises(RangeboundError):
        rb.Mechanism.from_dict({**MECHANISM, "support": data})
    with pytest.raises(RangeboundError):
        rb.Mechanism.from_dict({**MECHANISM, "query": {"range": data, "sensitivity": 1.0}})


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(composition=2),
        lambda data: data["query"].update(neighbours="households"),
        lambda data: data["noise"].update(seed=1),
    ],
)
def test_a_mechanism_with_a_field_more_is_refused(change):
    data = copy.deepcopy(MECHANISM)
    assert rb.Mechanism.from_dict(data)
    change(data)
    with pytest.raises(ArgumentError):
        rb.Mechanism.from_dict(data)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-x", "-1+1", "@x", " =1", "\xa0=1", "\uff1d1"])
def test_a_cell_that_begins_like_a_formula_gets_an_apostrophe(text):
    assert spreadsheet_cell(text) == "'" + text


@pytest.mark.parametrize(
    "value", ["-1", "plain", "1=1", "", "'x", "a; b", "1;5.5;3", "C:\\new", 'a "b"', -1, -0.5, None, True]
)
def test_any_other_cell_stays_as_it_is(value):
    assert spreadsheet_cell(value) is value


def harmful(cell: str) -> bool:
    """Whether a text is several lines for some reader, or several cells, of which one is run, where ; separates."""
    first, *others = cell.split(";")
    parts = [first.strip(" \ufeff"), *(each.strip('" \ufeff') for each in others)]
    runs = [each for each in parts if each.startswith(("=", "+", "-", "@", "\uff1d"))]
    runs = [] if runs == [first] and re.fullmatch("-[0-9]+", first) else runs
    return bool(runs) or len(cell.splitlines()) > 1 or not all(each >= " " for each in cell)


ODD_TEXTS = st.text(
    st.sampled_from([*"=+-@;,\"' \\ux0d'1a|\t\r\n\v\f\0\x1c\x1e\x85\u2028\u2029\ufeff\uff1d\u202e\u2066"]), max_size=12
)


NASTY = ["=", "-", "'", "\\", "1", ";", '"', "\r", "u", " ", ",", "\ufeff", "\uff1d", "\ud800"]


@pytest.mark.parametrize("length", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_every_short_text_has_its_own_cell_and_is_read_back(length):
    texts = ["".join(each) for size in range(length + 1) for each in itertools.product(NASTY, repeat=size)]
    for written, read in (
        (spreadsheet_cell, plain_text),
        (export_cell, lambda cell: plain_cell("note", cell)),
        (lambda text: next(csv.reader([csv_text([[text]])]))[0], plain_text),
    ):
        cells = [written(each) for each in texts]
        assert len(set(cells)) == len(texts)
        assert [read(each) for each in cells] == texts
        assert not [each for each in cells if harmful(each)]
    assert len({workbook_text(each) for each in texts}) == len(texts)


def test_the_empty_text_is_not_read_as_nothing():
    assert csv_text([["", None]]) == '"\'\\",\n'
    assert csv_text([[None]]) == '""\n'  # some readers skip an empty line
    assert plain_text("'\\") == ""


@given(text=ODD_TEXTS)
@settings(max_examples=150, deadline=None)
def test_a_cell_is_one_line_and_no_formula_and_can_be_read_back(text):
    cell = spreadsheet_cell(text)
    assert not harmful(cell)
    assert plain_text(cell) == text
    assert plain_cell("note", export_cell(text)) == text
    assert not harmful(export_cell(text))


def test_what_was_written_before_is_harmful():
    """The control: what the tests above look for is found in texts that only got an apostrophe in front."""
    assert all(map(harmful, ["north\r=1", "'\n=1", "a;=1", 'a;"=1"', "a\u2028b", "'\t=1", "a\0", "x;-5"]))


@pytest.mark.parametrize("levels", [1, 2, 40])
@pytest.mark.parametrize(("begin", "end"), [("[1,", "]"), ('{"a":', "}")])
def test_data_have_as_many_levels_as_they_may_and_not_one_more(begin, end, levels):
    text = begin * (levels - 1) + "[]" + end * (levels - 1)
    assert json_data(text, deepest=levels) == json.loads(text)
    with pytest.raises(ArgumentError, match=f"must have at most {levels - 1} levels"):
        json_data(text, deepest=levels - 1)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5000, "-" + "9" * 5000])
def test_a_number_that_is_none_or_of_thousands_of_digits_is_refused(text):
    for place in (text, f"[{text}]", f'{{"a": {text}}}'):
        with pytest.raises(ArgumentError, match="must be finite, and not too long"):
            json_data(place, deepest=2)
    for plain in ("0", "-0", "7", "-7", "1.5e3", "1E5", "-0.0"):
        assert repr(json_data(plain, deepest=0)) == repr(json.loads(plain))
