"""Counts of the same rows, asked in several ways, agree in every margin that they share, or it is said which do not."""

import itertools
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rangebound.release import check_certificate, make_plan, release
from rangebound.release.noise.draw import Cell
from rangebound.release.output.consistency import consistent, notes
from rangebound.release.output.table_margins import _moved_to, fit_whole
from tests.thinning import some

KEYS = {"a": ["x", "y", "z"], "b": ["p", "q"], "c": ["1", "2", "3", "4"]}
HISTOGRAM = {"kind": "histogram", "column": "v", "range": [0, 10], "bins": 3, "missing": 0}
GROUPINGS = [each for size in range(4) for each in itertools.combinations("abc", size)]


def make(asked, **parts_of_plan):
    """A consistent plan of counts (or more), each by some columns."""
    queries = [{"name": str(at), "kind": "count", **each} for at, each in enumerate(asked)]
    used = {column for each in queries for column in each.get("by", ())}
    keys = {name: each for name, each in KEYS.items() if name in used}
    return make_plan({"budget": {"epsilon": 1.0}, "consistent": True, "keys": keys, "query": queries, **parts_of_plan})


def drawn(plan, truth, chance, noise=6):
    """Cells as a release would draw them: whole numbers around the true counts, not below zero."""
    cells = []
    for index, question in enumerate(plan.query):
        for key in itertools.product(*(KEYS[column] for column in question.by)):
            for part in question.parts:
                exact = sum(
                    count
                    for row, count in truth.items()
                    if all(row["abc".index(column)] == value for column, value in zip(question.by, key, strict=True))
                    and (question.kind == "count" or question.parts[row[3]] == part)
                )
                value = float(max(0, exact + chance.randint(-noise, noise)))
                value = min(max(value, question.allowed.hull.lower), question.allowed.hull.upper)
                facts = {"lower": max(0.0, value - 9), "upper": value + 9, "epsilon": 0.5, "delta": 0.0}
                cells.append(Cell(question=index, key=key, part=part, value=value, **facts))
    return cells


def truths(chance):
    rows = itertools.product(*KEYS.values(), range(3))
    return Counter({row: chance.choice([0, 0, 1, 7, 40]) for row in rows})


def margin_of(plan, cells, index, columns, binned):
    """A margin by adding up, in another way than the package does."""
    found = Counter()
    for cell in cells:
        if cell.question == index:
            key = dict(zip(plan.query[index].by, cell.key, strict=True))
            found[(*(key[each] for each in columns), cell.part if binned else "")] += cell.value
    return found


def apart(plan, cells):
    """The pairs of questions whose margins do not agree."""
    found = set()
    for one, two in itertools.combinations(range(len(plan.query)), 2):
        columns = sorted(set(plan.query[one].by) & set(plan.query[two].by))
        binned = {plan.query[at].kind for at in (one, two)} == {"histogram"}
        sums = [margin_of(plan, cells, at, columns, binned) for at in (one, two)]
        if sums[0] != sums[1]:
            found.add((str(one), str(two)))
    return found


def said(plan, cells):
    return {
        (one, two)
        for one, two in itertools.permutations([each.name for each in plan.query], 2)
        if any(f"{one!r} and {two!r}" in note or f"{two!r} and {one!r}" in note for note in notes(plan, cells))
        and int(one) < int(two)
    }


def check_numbers(plan, cells):
    for cell in cells:
        hull = plan.query[cell.question].allowed.hull
        assert cell.value == int(cell.value)
        assert hull.lower <= cell.value <= hull.upper
        assert cell.lower <= cell.value <= cell.upper


@pytest.mark.parametrize("seed", some(range(60), of=3))
def test_random_plans_agree_or_say_which_do_not(seed):
    chance = random.Random(seed)
    asked = [{"by": list(each)} for each in chance.sample(GROUPINGS, chance.randint(2, 6))]
    asked += [{**HISTOGRAM, "by": list(chance.choice(GROUPINGS))} for _ in range(chance.randint(0, 2))]
    plan = make(asked)
    cells = drawn(plan, truths(chance), chance)
    result = consistent(plan, cells)
    check_numbers(plan, result)
    left = apart(plan, result)
    assert said(plan, result) == left
    assert left or consistent(plan, result) == result
    assert len({sum(each.value for each in result if each.question == at) for at in range(len(asked))}) == 1
    sets = {frozenset([*each["by"], *["bins"][: "kind" in each]]) for each in asked}
    beside = [each for each in itertools.combinations(sets, 3) if not any(a <= b for a in each for b in each if a != b)]
    assert not left or beside  # only margins that form a circle may stay apart


def test_three_tables_and_a_histogram_agree_in_a_release(tmp_path):
    chance = random.Random(7)
    rows = [(*(chance.choice(each) for each in KEYS.values()), chance.random() * 10) for _ in range(500)]
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(("a", "b", "c", "v"))})
    asked = [{}, {"by": ["a"]}, {"by": ["b"]}, {"by": ["a", "b"]}, {**HISTOGRAM, "by": ["b"]}, HISTOGRAM]
    plan = make(asked, budget={"epsilon": 2.0})
    for _ in range(3):
        made = release(plan, table, ledger=None)
        assert made.notes == ()
        assert apart(plan, made.cells) == set()
        check_numbers(plan, made.cells)
        check_certificate(made.certificate, made.to_bytes())


def test_without_a_total_tables_agree_all_the_same():
    chance = random.Random(1)
    plan = make([{"by": ["a"]}, {"by": ["b"]}, {"by": ["a", "c"]}, {"by": ["b", "c"]}])
    result = consistent(plan, drawn(plan, truths(chance), chance))
    assert apart(plan, result) == set()
    assert notes(plan, result) == ()


def test_the_total_stays_as_drawn_and_others_move_no_more_than_the_noise():
    chance = random.Random(2)
    plan = make([{}, {"by": ["a"]}, {"by": ["b"]}, {"by": ["a", "b"]}])
    worst = [0.0, 0.0]
    for _ in range(40):
        truth = truths(chance)
        cells = drawn(plan, truth, chance)
        exact = [each.value for each in drawn(plan, truth, chance, noise=0)]
        result = consistent(plan, cells)
        assert result[0].value == cells[0].value
        for at, shown in enumerate((cells, result)):
            worst[at] += sum((one.value - other) ** 2 for one, other in zip(shown, exact, strict=True))
    assert worst[1] < worst[0]  # numbers that agree are nearer to the true ones on the whole


@pytest.mark.parametrize(
    "odd",
    [{"step": 5.0}, {"support": [[0, 3], [1000, 2000]]}, {"support": [0, 4]}],
    ids=["step", "gap", "bound"],
)
def test_what_cannot_agree_stays_as_drawn_and_is_named(odd):
    chance = random.Random(3)
    plan = make([{}, {"by": ["a"], **odd}, {"by": ["b"]}])
    cells = drawn(plan, truths(chance), chance)
    cells = [each if each.question != 1 else Cell(**{**vars(each), "value": 0.0, "lower": 0.0}) for each in cells]
    result = consistent(plan, cells)
    assert [each for each in result if each.question == 1] == [each for each in cells if each.question == 1]
    assert apart(plan, result) == said(plan, result) == {("0", "1"), ("1", "2")}


def test_histograms_that_leave_rows_out_are_named():
    plan = make([{}, {**HISTOGRAM, "missing": None}, {**HISTOGRAM, "missing": None, "by": ["a"]}])
    chance = random.Random(4)
    result = consistent(plan, drawn(plan, truths(chance), chance))
    assert [each.partition(":")[0] for each in notes(plan, result)] == [
        "histogram '1' is not fitted to '0'",
        "histogram '2' is not fitted to '0'",
    ]
    assert ("1", "2") not in apart(plan, result)  # which are of the same rows


def test_control_tables_as_drawn_do_not_agree():
    chance = random.Random(5)
    plan = make([{}, {"by": ["a"]}, {"by": ["b"]}])
    cells = drawn(plan, truths(chance), chance)
    assert apart(plan, cells) == said(plan, cells) != set()


SUMS = st.lists(st.integers(0, 60), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(SUMS, SUMS, st.integers(0, 2**32))
def test_a_matrix_has_the_sums_that_it_is_given_and_is_the_nearest(rows, sides, seed):
    """Beside the sums themselves: no move of 1 around a rectangle, which keeps all sums, comes nearer."""
    gap = sum(rows) - sum(sides)
    sides, rows = [*sides, max(gap, 0)], [*rows, max(-gap, 0)]
    matrix = np.random.default_rng(seed).integers(-5, 30, (len(rows), len(sides)))
    keys = [(str(i), str(j)) for i in range(len(rows)) for j in range(len(sides))]
    margins = {
        frozenset("a"): {(str(i),): total for i, total in enumerate(rows)},
        frozenset("b"): {(str(j),): total for j, total in enumerate(sides)},
        frozenset(): {(): sum(rows)},
    }
    table = _moved_to(dict(zip(keys, matrix.ravel().tolist(), strict=True)), frozenset("ab"), margins)
    found = np.array([table[key] for key in keys]).reshape(matrix.shape)
    assert (found >= 0).all()
    assert found.sum(1).tolist() == rows
    assert found.sum(0).tolist() == sides
    for i, j in itertools.permutations(range(len(rows)), 2):
        for k, m in itertools.permutations(range(len(sides)), 2):
            if found[i, k] and found[j, m]:
                off = (found - matrix)[[i, i, j, j], [k, m, k, m]]
                assert (off**2).sum() <= ((off + np.array([-1, 1, 1, -1])) ** 2).sum()


def test_the_first_margins_of_a_circle_that_cannot_be_are_kept():
    """By a and b, b and c, a and c: such sums without a table, of which the first two are met."""
    pairs = list(itertools.product("01", repeat=2))
    ones = {pair: int(pair[0] == pair[1]) for pair in pairs}
    margins = {frozenset("ab"): ones, frozenset("bc"): ones, frozenset("ac"): {pair: 1 - ones[pair] for pair in pairs}}
    start = dict.fromkeys(itertools.product("01", repeat=3), 0)
    found = _moved_to(start, frozenset("abc"), margins)
    assert min(found.values()) >= 0
    sums = [Counter(), Counter(), Counter()]
    for (a, b, c), count in found.items():
        for at, pair in enumerate(((a, b), (a, c), (b, c))):
            sums[at][pair] += count
    met = [dict(each) == margins[frozenset(names)] for each, names in zip(sums, ("ab", "ac", "bc"), strict=True)]
    assert met == [True, True, False]


def test_tables_that_share_very_many_sums_stay_as_drawn_and_it_is_said(within):
    columns = [f"c{at}" for at in range(14)]  # without one each, they share the sums by any set of columns
    counts = [{"name": f"q{at}", "kind": "count", "by": columns[:at] + columns[at + 1 :]} for at in range(14)]
    keys = {column: ["1"] for column in columns}
    plan = make_plan({"budget": {"epsilon": 1.0}, "consistent": True, "keys": keys, "query": counts})
    with within(10.0):
        made = release(plan, pa.table({column: ["1", "1"] for column in columns}), ledger=None)
        check_certificate(made.certificate, made.to_bytes())
    assert all(cell.value == cell.draws[0] for cell in made.cells)
    assert len(made.notes) == 13
    assert all("more than 64 sums" in each for each in made.notes)


@given(st.lists(st.floats(0.0, 1e30), min_size=1, max_size=5), st.floats(0.0, 1e30))
def test_numbers_beyond_what_doubles_tell_apart_add_up_at_once(parts, total):
    found = fit_whole([int(each) for each in parts], int(total))
    assert sum(found) == int(total)
    assert min(found) >= 0
