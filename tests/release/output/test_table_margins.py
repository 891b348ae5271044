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
from rangebound.release.output.agreement import _moved_to, consistent, fit_whole, notes
from tests.thinning import some

KEYS = {"a": ["x", "y", "z"], "b": ["p", "q"], "c": ["1", "2", "3", "4"]}
HISTOGRAM = {"kind": "histogram", "column": "v", "range": [0, 10], "bins": 3, "missing": 0}
GROUPINGS = [each for size in range(4) for each in itertools.combinations("abc", size)]


def make(asked, **parts_of_plan):
    queries = [{"name": str(at), "kind": "count", **each} for at, each in enumerate(asked)]
    used = {column for each in queries for column in each.get("by", ())}
    keys = {name: each for name, each in KEYS.items() if name in used}
    return make_plan({"budget": {"epsilon": 1.0}, "consistent": True, "keys": keys, "query": queries, **parts_of_plan})


def drawn(plan, truth, chance, noise=6):
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


def apart(plan, cells):
    """The pairs of questions whose margins do not agree, by adding up in another way than the package does."""
    found = set()
    for pair in itertools.combinations(range(len(plan.query)), 2):
        columns = set.intersection(*(set(plan.query[at].by) for at in pair))
        binned = {plan.query[at].kind for at in pair} == {"histogram"}
        sums = {at: Counter() for at in pair}
        for cell in cells:
            if cell.question in pair:
                named = sorted(zip(plan.query[cell.question].by, cell.key, strict=True))
                key = [value for name, value in named if name in columns]
                sums[cell.question][*key, cell.part if binned else ""] += cell.value
        if sums[pair[0]] != sums[pair[1]]:
            found.add(tuple(map(str, pair)))
    return found


def said(plan, cells):
    return {
        (one, two)
        for one, two in itertools.permutations([each.name for each in plan.query], 2)
        if any(f"{one!r} and {two!r}" in note or f"{two!r} and {one!r}" in note for note in notes(plan, cells))
        and int(one) < int(two)
    }


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", some(range(60), of=3))
def test_random_plans_agree_or_say_which_do_not(seed):
    chance = random.Random(seed)
    asked = [{"by": list(each)} for each in chance.sample(GROUPINGS, chance.randint(2, 6))]
    asked += [{**HISTOGRAM, "by": list(chance.choice(GROUPINGS))} for _ in range(chance.randint(0, 2))]
    plan = make(asked)
    cells = drawn(plan, truths(chance), chance)
    result = consistent(plan, cells)
    for new, old in zip(result, cells, strict=True):
        hull = plan.query[new.question].allowed.hull
        assert new.value == int(new.value)
        assert max(hull.lower, new.lower) <= new.value <= min(hull.upper, new.upper)
        assert old.key or old.part or new == old  # a total that is asked for stays as it was drawn
    left = apart(plan, result)
    assert said(plan, result) == left
    assert left or consistent(plan, result) == result
    assert len({sum(each.value for each in result if each.question == at) for at in range(len(asked))}) == 1
    sets = {frozenset([*each["by"], *["bins"][: "kind" in each]]) for each in asked}
    beside = [each for each in itertools.combinations(sets, 3) if not any(a <= b for a in each for b in each if a != b)]
    assert not left or beside  # only margins that form a circle may stay apart


@pytest.mark.parametrize("odd", [{"step": 5.0}, {"support": [[0, 3], [1000, 2000]]}, {"support": [0, 4]}], ids=str)
def test_what_cannot_agree_stays_as_drawn_and_is_named(odd):
    chance = random.Random(3)
    plan = make([{}, {"by": ["a"], **odd}, {"by": ["b"]}])
    cells = drawn(plan, truths(chance), chance)
    cells = [each if each.question != 1 else Cell(**{**vars(each), "value": 0.0, "lower": 0.0}) for each in cells]
    assert apart(plan, cells) == said(plan, cells) != set()  # control: as they are drawn they do not agree
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


@pytest.mark.slow
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
