"""What is left out by default is only more of the same: no value, and no two values that meet, is lost."""

import itertools
from collections import Counter

from tests.matrix.cells import ALLOWED, every_cell
from tests.thinning import covering, crossed


def kept(cases):
    return [case.values for case in cases if not case.marks]


def test_every_two_values_of_three_arguments_meet_by_default():
    lists = {"a": range(4), "b": "xyz", "c": [True, False]}
    _, cases = crossed(lists).args
    assert len(cases) == 24
    for (at, first), (to, second) in itertools.combinations(enumerate(lists.values()), 2):
        assert {(case[at], case[to]) for case in kept(cases)} == set(itertools.product(first, second))
    assert 12 <= len(kept(cases)) <= 14


def test_of_two_arguments_every_value_is_met():
    names, cases = crossed({"a, b": [(1, 2), (3, 4)], "c": range(5)}).args
    assert names == "a, b, c"
    assert len(kept(cases)) == 5
    assert {case[:2] for case in kept(cases)} == {(1, 2), (3, 4)}
    assert {case[2] for case in kept(cases)} == set(range(5))


def test_no_value_is_asked_far_less_often_than_another():
    _, cases = crossed({"a": range(30), "b": [True, False], "c": "xyz"}).args
    counts = Counter(case[1] for case in kept(cases))
    assert min(counts.values()) > 0.8 * max(counts.values())
    _, cases = crossed({"a": range(9), "b": "xyz"}).args
    assert Counter(case[1] for case in kept(cases)) == {"x": 3, "y": 3, "z": 3}


def test_a_kind_that_one_case_alone_meets_is_kept():
    cases = covering(range(10), lambda each: {each % 3, *(["seven"] if each == 7 else [])})
    assert {case.values[0] for case in cases if not case.marks} >= {7}
    assert {mark.name for case in cases for mark in case.marks} == {"long"}
    assert len(kept(cases)) == 3


def test_every_noise_bounding_and_support_is_asked_by_default_and_every_range_beside_each_of_them():
    cells = [cell for (cell,) in kept(every_cell.args[1])]
    assert len(cells) < len(ALLOWED) / 3
    assert {cell[:3] for cell in cells} == {cell[:3] for cell in ALLOWED}
    for at in range(3):
        assert {(cell[at], cell.range) for cell in cells} == {(cell[at], cell.range) for cell in ALLOWED}
    assert {tuple(cell) for cell in cells} != {tuple(cell) for cell in ALLOWED}
