"""L1 and L2 sensitivities against all that one unit can do in a small world: none is too small, and none too large.

A unit's contribution is a multiset of up to `rows` values in each of up to `groups` groups. All of them are made, with
values at the ends of the range and between, and all pairs of neighbours that differ in one unit: with and without it
(add-remove), or with one contribution and with another (replace). Since coordinates are sums over units, what the other
units hold does not matter.
"""

import functools
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest

from rangebound.release.plan import measure as m
from rangebound.release.plan.kinds.cuts import Dropped
from rangebound.release.plan.kinds.kind import KINDS
from rangebound.release.plan.kinds.scalars import Sum
from rangebound.release.plan.kinds.selections import SelectionKind, TopK
from rangebound.release.plan.kinds.two_columns import MomentsKind
from rangebound.release.plan.unit import Unit

RANGES = [(0.0, 4.0), (-20.0, 100.0), (-100.0, 20.0), (-5.0, 5.0), (3.0, 7.0), (-7.0, -3.0)]
PARTS = [Fraction(0), Fraction(1, 5), Fraction(1, 3), Fraction(1)]
"""Values as parts of the range, among them those at which the coordinates of two variances are farthest apart."""
PAIRS = [*itertools.product((Fraction(0), Fraction(1)), repeat=2), (Fraction(1, 3), Fraction(2, 3))]
"""Values of two columns, for questions that read two."""
FINE = 40 * m.ONE
"""Coordinates are multiples of 1 / m.ONE, or of these times twentieths, or half of them."""
UNITS = {
    "add": Unit(column="u", rows=2, groups=2),
    "add to many groups": Unit(column="u", rows=1, groups=5),
    "replace": Unit(column="u", rows=2, groups=1, neighbours="replace", size=9),
    "replace in two": Unit(column="u", rows=1, groups=2, neighbours="replace", size=9),
}
POSITIVE = ({"column": "x", "is": ">", "value": 0.0},)
SIZE_KNOWN = Unit(neighbours="replace", size=9)


def ask(kind, **fields):
    return KINDS[kind](name="q", **fields)


def kinds(ends):
    """One question of each kind, over one range."""
    column = {"column": "x", "range": ends}
    step = {**column, "step": (ends[1] - ends[0]) / 3}
    return [
        *(ask(each) for each in ("count", "count of units")),
        ask("crosstab", by=("k", "l")),
        ask("hierarchy", by=("k",), levels=({"name": "l", "members": {"all": ["a"]}},)),
        ask("series", by=("k",)),
        *(ask(each, **column) for each in ("sum", "mean", "variance", "standard deviation")),
        ask("share", of=POSITIVE),
        *(each.with_squares() for each in (ask("mean", **column), ask("share", of=POSITIVE))),
        *(ask(each, **column, bins=3) for each in ("histogram", "mode")),
        *(ask(each, **step) for each in ("median", "minimum", "maximum", "central range")),
        ask("quantiles", **step, levels=(0.25, 0.75)),
        ask("bounds", column="x"),
        TopK(name="q", column="x", k=2).with_keys({"x": ("a", "b", "c")}),
        TopK(name="q", column="x", k=2).with_keys({}),
        ask("share dropped", about=("a",), over=("k",)),
        ask("share dropped", about=("a",), over=("k",), units=True),
        ask("share clipped", about=("a",), over=("k",), valued="x", within=ends),
        *two_columns(column),
        ask("distinct count", column="x", values=1),
    ]


def two_columns(column):
    """Questions that read a second column."""
    y = {"column": "y", "range": (0.0, 4.0)}
    ranged, own = {"column": "x", "range": (-4.0, 4.0)}, {"column": "x", "range": (0.0, 2.0)}
    return [
        ask("count", weighted_by=y),
        *(ask(each, **column, weighted_by=y) for each in ("sum", "mean")),
        ask("share", of=POSITIVE, weighted_by=y),
        *(ask("ratio", numerator=each, denominator=y, support=(0.0, 1.0)) for each in (ranged, own)),
        *(ask(each, x=ranged, y=y) for each in ("correlation", "line")),
    ]


def added(measure, rows, most=1):
    """What rows of a unit, of which this many count, add to the sum of a measure, by the words of the vocabulary."""
    if isinstance(measure, m.UnitPart):
        parts = [added(each, rows) * (m.ONE if isinstance(each, m.Counted) else 1) // most for each in measure.of]
        return parts[0] if len(parts) == 1 else parts[0] * parts[1] // m.ONE
    return min(len(rows), 1) if isinstance(measure, m.Owned) else sum(measured(measure, row) for row in rows)


def measured(measure, row):
    """What a row adds; it has a value in the column x, as a part of its range, and one in all others."""
    match measure:
        case m.Counted():
            return 1
        case m.Value(of=values):
            return math.floor(row[values.column != "x"] * m.ONE + Fraction(1, 2))
        case m.Product(of=(first, second)):
            return measured(first, row) * measured(second, row) // m.ONE
        case m.Met() | m.Outside():  # any row may meet a condition, or lie outside its range
            return m.ONE if row[0] > Fraction(1, 4) else 0
    raise AssertionError(measure)


def found(question, asked, rows, unit):
    """What the engine finds in a group that holds some rows of one unit alone; `rows` are parts of the range."""
    if isinstance(asked, m.EdgeCounts):
        places = [int(4 * each) for each, _ in rows]
        return {at: m.ONE * places.count(at) // len(places) for at in places}
    if isinstance(asked, m.KeyCounts):
        return dict.fromkeys({min(int(4 * each), 2) for each, _ in rows}, m.ONE)
    if isinstance(asked, m.Places):
        ends = question.natural if isinstance(question, SelectionKind) else question.bounds
        width = ends.upper - ends.lower
        places = [sum(border <= ends.lower + float(each) * width for border in asked.borders) for each, _ in rows]
        return {at: m.ONE * (1 if asked.once else places.count(at)) for at in places}
    if isinstance(asked, m.DistinctValues):
        return {"n": min(len({each for each, _ in rows}), asked.most)}
    return {name: added(each, rows, unit.rows) for name, each in asked.of.items()}


def contributions(question, unit, groups):
    """All that one unit can add: coordinates for each group, after the contribution bounds.

    Coordinates of a group follow from the rows in it alone, so each is made once, and those that are equal are one.
    """
    own, asked = min(unit.groups, groups), question.measures(unit, groups)
    values = PAIRS if question.reads_also else [(each, each) for each in PARTS]
    most = 3 if isinstance(asked, m.KeyCounts) or getattr(asked, "once", False) else unit.rows  # at each of 3 keys once
    least = 1 if unit.column is None else 0  # a row that is a unit is there, whatever it holds
    cells = [each for size in range(least, most + 1) for each in itertools.combinations_with_replacement(values, size)]
    if isinstance(asked, m.Totals):
        return sorted(totals(question, asked, unit, cells, own))
    made, empty = set(), question.coordinates(found(question, asked, (), unit), unit)
    own_cells = {question.coordinates(found(question, asked, rows, unit), unit) for rows in cells}
    for where in itertools.combinations(range(groups), own):
        for some in itertools.product(own_cells, repeat=own):
            held = dict(zip(where, some, strict=True))
            made.add(tuple(held.get(at, empty) for at in range(groups)))
    return sorted(made)


def totals(question, asked, unit, cells, own):
    """All that one unit can add to the totals of all groups."""
    sums = {tuple(added(each, rows) for each in asked.of.values()) for rows in cells}
    made = set()
    for some in itertools.combinations_with_replacement(sums, own):
        whole = dict(zip(asked.of, map(sum, zip(*some, strict=True)), strict=True))
        most = asked.limit if asked.existing and whole["n"] else whole["n"]
        for existing in {*range(whole["n"], most, 3), whole["n"], most}:
            made.add((question.coordinates({**whole, "m": existing}, unit),))
    return made


@functools.cache
def distances(question, unit, groups):
    """The largest L1 distance in a group, L1 and squared L2 distance in all, and how many groups move."""
    exact = functools.cache(lambda cell: tuple(map(whole, cell)))
    made = [tuple(map(exact, each)) for each in contributions(question, unit, groups)]
    others = made if unit.replaced else [tuple((0,) * len(cell) for cell in made[0])]
    apart = {}
    for one, two in itertools.product(
        {cell for each in made for cell in each}, {cell for each in others for cell in each}
    ):
        moves = [abs(x - y) for x, y in zip(one, two, strict=True)]
        apart[one, two] = (max if isinstance(question, SelectionKind) else sum)(moves), sum(x * x for x in moves)
    cell = total = square = moved = 0
    for one, two in itertools.product(made, others):
        moves = [apart[pair] for pair in zip(one, two, strict=True)]
        cell, total = max(cell, *(each for each, _ in moves)), max(total, sum(each for each, _ in moves))
        square = max(square, sum(each for _, each in moves))
        moved = max(moved, sum(each > 0 for each, _ in moves))
    return Fraction(cell, FINE), Fraction(total, FINE), Fraction(square, FINE**2), moved


def whole(value):
    """A coordinate in units of 1 / FINE, exactly."""
    assert (value * FINE).denominator == 1
    return int(value * FINE)


def check(question, unit, groups, declared):
    """That a sensitivity is not too small, and that L1 and L2 are attained; what is wrong, in words."""
    cell, total, square, moved = distances(question, unit, groups)
    wrong = []
    if cell > declared.cell * (2 if declared.twice else 1):
        wrong.append("cell")
    if total > declared.total or moved > declared.groups:
        wrong.append("total")
    if square > declared.square:
        wrong.append("square")
    near = 1 - Fraction(1, 1000)
    if isinstance(question, Dropped):  # a unit that has rows has one that counts, so not all can be dropped
        near = Fraction(2, 5)
    if declared.supremum and unit.replaced:  # two steps of one sign each move no coordinate twice
        near = Fraction(1, 2)
    if isinstance(question, MomentsKind) and unit.replaced:  # the bound for one group is also that for two steps
        near = Fraction(9, 10)
    if total < declared.total * near and not isinstance(question, Sum):  # of a sum across 0, one of two bounds
        wrong.append("total is loose")
    if square < declared.square * (1 if declared.supremum else near):
        wrong.append("square is loose")
    return wrong


def said(question):
    """The kind of a question, and whether it has weights."""
    squared = ", squared" if getattr(question, "squared", False) else ""
    return f"{question.kind}{', weighted' if getattr(question, 'weighted_by', None) else ''}{squared}"


CASES = [
    pytest.param(question, unit, groups, id=f"{said(question)}, {name}, {groups} groups, {ends}")
    for ends in RANGES
    for question in kinds(ends)
    if ends == RANGES[1] or isinstance(question, Sum)
    for name, unit in UNITS.items()
    for groups in (1, 2, 3)
]


@pytest.mark.few
@pytest.mark.parametrize(("question", "unit", "groups"), CASES)
def test_no_unit_moves_coordinates_by_more_and_some_unit_by_as_much(question, unit, groups):
    assert check(question, unit, groups, question.sensitivity(unit, groups)) == []


@pytest.mark.parametrize(
    "question",
    [each for each in kinds((-20.0, 100.0)) if "missing" in type(each).model_fields and not each.reads_also],
    ids=said,
)
def test_where_the_number_of_rows_is_public(question):
    question = question.model_copy(update={"missing": 0.0})
    assert check(question, SIZE_KNOWN, 1, question.sensitivity(SIZE_KNOWN, 1)) == []


def test_every_kind_is_here():
    assert KINDS.keys() == {each.kind for each in kinds(RANGES[0])}, "add a question of the kind to `kinds` here"


def wrong_sums(question, unit, groups):
    """Sensitivities of a sum that are wrong, as slips of the pen would make them."""
    right = question.sensitivity(unit, groups)
    lower, upper = (Fraction(each) for each in question.range)
    ends = {"abs(upper)": abs(upper), "abs(lower)": abs(lower), "min": min(abs(lower), abs(upper))}
    for name, far in ends.items():
        if 0 < far < max(abs(lower), abs(upper)):
            yield name, replace(right, cell=unit.rows * far)
    yield "upper - lower, halved", replace(right, cell=right.cell / 2)
    yield "no groups", replace(right, groups=1) if right.groups > 1 else replace(right, cell=right.cell / 2)
    yield "no rows", replace(right, cell=right.cell / max(unit.rows, 2))


@pytest.mark.parametrize("ends", RANGES, ids=str)
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS.keys())
def test_control_slips_in_the_sensitivity_of_a_sum_are_caught(ends, unit):
    question = Sum(name="q", column="x", range=ends)
    for name, wrong in wrong_sums(question, unit, 3):
        assert {"cell", "total"} & set(check(question, unit, 3, wrong)), name


@pytest.mark.parametrize("question", kinds((-20.0, 100.0)), ids=said)
def test_control_a_smaller_square_and_a_larger_one_are_caught(question):
    unit = UNITS["replace in two"]
    right = question.sensitivity(unit, 3)
    attained = distances(question, unit, 3)[2]
    assert check(question, unit, 3, replace(right, square=attained * Fraction(99, 100))) == ["square"]
    assert check(question, unit, 3, replace(right, square=right.square * 3)) == ["square is loose"]


@pytest.mark.parametrize(("ends", "expected"), [((-20.0, 100.0), 360), ((-5.0, 5.0), 20), ((3.0, 7.0), 21)], ids=str)
def test_of_two_bounds_for_a_replaced_sum_the_smaller_is_taken(ends, expected):
    """2 g steps to the farther end, or 3 groups from end to end: 4 * 100 > 3 * 120, 4 * 5 < 3 * 10, 4 * 7 > 3 * 7."""
    question = Sum(name="q", column="x", range=ends)
    assert question.sensitivity(UNITS["replace in two"], 3).total == expected
