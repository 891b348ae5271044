"""How much was cut: the numbers of `report_clipping` against a count by hand, their sensitivity, and their cost."""

import datetime
import json
import math
import random
import re
from collections import Counter, defaultdict
from fractions import Fraction

import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.noise.draw import Reading
from rangebound.release.output.plan_facts import plan_from_json, plan_json
from rangebound.release.plan.kinds.cuts import Clipped, cut_questions
from rangebound.release.plan.source import Source
from rangebound.release.prepare import prepare, prepared
from tests.release import reference
from tests.release.engine.test_engines import found as found_by
from tests.release.plans import SALT
from tests.thinning import some_pairs

CLINICS = ["a", "b", "c"]
COLUMNS = {"who": pa.int64(), "clinic": pa.string(), "wait": pa.float64(), "age": pa.int64()}
ADULT = [{"column": "age", "is": ">=", "value": 18}]
WAIT = {"column": "wait", "range": [0, 100]}
MEAN = {"name": "waits", "kind": "mean", **WAIT}
SURE = {"budget": {"epsilon": 100.0}, "level": 1 - 1e-9}  # so that an interval misses once in a thousand million tables
QUERIES = [
    {"name": "n", "kind": "count", "by": ["clinic"]},
    {"name": "u", "kind": "count of units", "by": ["clinic"]},
    {"name": "mean", "kind": "mean", **WAIT, "by": ["clinic"], "where": ADULT},
    {"name": "sum", "kind": "sum", **WAIT, "by": ["clinic"], "where": ADULT},
    {"name": "all", "kind": "median", **WAIT, "missing": 5, "step": 10},
    {"name": "bins", "kind": "histogram", "column": "wait", "range": [-20, 30]},
    {"name": "middle", "kind": "median", **WAIT, "step": 10},
]


def plan_for(unit, queries=QUERIES, *, public=True, **parts):
    queries = [each for each in queries if unit.get("column") or each["kind"] != "count of units"]
    keys = {"keys": {"clinic": CLINICS}} if public else {}
    data = {"unit": unit, "budget": {"epsilon": 1.0, "delta": 0.0 if public else 1e-6}, "query": queries, **keys}
    return make_plan({**data, "report_clipping": True, **parts})


UNITS = [
    {"column": "who", "rows": 2, "groups": 2},
    {"column": "who", "rows": 3, "groups": 1},
    {"column": "who", "rows": 1, "groups": 5},
    {},
    {"neighbours": "replace", "size": 200},
    {"column": "who", "rows": 2, "groups": 2, "neighbours": "replace", "size": 50},
]


def some_rows(chance, people):
    odd = [None, float("nan"), float("inf"), -50.0, 0.0, 100.0, 101.0, 1e9]
    return [
        {
            "who": person,
            "clinic": chance.choice([*CLINICS, "other", None]),
            "wait": chance.choice([*odd, chance.uniform(0, 100)]),
            "age": chance.choice([None, 5, 18, 70]),
        }
        for person in people
        for _ in range(chance.choice([1, 1, 2, 5, 90]))
    ]


def exact(plan, rows, salt=SALT):
    """The coordinates of what was cut, row by row, from the words of the documentation."""
    found = {}
    for index, question in enumerate(plan.query):
        if not question.made:
            continue
        by, unit = question.over, plan.unit
        keys = None if plan.private(by) else [(each,) for each in CLINICS] if by else [()]
        cells = defaultdict(list)
        for at, row in enumerate(rows):
            owner = at if unit.column is None else row[unit.column]
            key = tuple(row[column] for column in by)
            if owner is not None and None not in key and (keys is None or key in keys):
                cells[owner, key].append(row)
        groups = defaultdict(list)
        for owner, key in cells:
            groups[owner].append(key)
        first = total = Fraction(0)
        for owner, own in groups.items():
            order = sorted(own, key=lambda key, owner=owner: reference.order(owner, key, keys, salt)) if by else own
            kept = set(order if unit.column is None else order[: unit.groups])
            there = counted = clipped = 0
            for key in own:
                asked = [row for row in cells[owner, key] if reference.meets(row, question.where)]
                if not isinstance(question, Clipped) and question.valued is not None:
                    asked = [row for row in asked if reference.as_number(row[question.valued]) is not None]
                if isinstance(question, Clipped):
                    values = [reference.as_number(row["wait"]) for row in asked]
                    if question.filler is None:
                        values = [each for each in values if each is not None]
                    n, lower, upper = len(values), *question.within
                    share = Fraction(min(n, unit.rows), max(n, 1))
                    far = sum(each is not None and not lower <= each <= upper for each in values)
                    clipped += (key in kept) * Fraction(int(far * share * 2**30), 2**30)
                    counted += (key in kept) * min(n, unit.rows)
                else:
                    n = min(len(asked), 1) if question.units else len(asked)
                    there, counted = there + n, counted + (key in kept) * min(n, 1 if question.units else unit.rows)
            if isinstance(question, Clipped):
                first, total = first + counted - clipped, total + clipped
            else:
                most = (1 if question.units else unit.rows) * min(unit.groups, plan.groups(by))
                first, total = first + counted, total + min(there, 10 * most) - counted
        found[index] = (first, total)
    return found


def arrow(rows):
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()})


def by_engine(plan, engine):
    return {index: each[()] for index, each in found_by(plan, engine)[0].items() if plan.query[index].made}


@pytest.mark.few(1)
@pytest.mark.parametrize(("unit", "public"), some_pairs(UNITS, [True, False], of=2), ids=str)
def test_the_engine_counts_what_was_cut_as_the_words_say(unit, public):
    plan = plan_for(unit, public=public)
    rows = some_rows(random.Random(len(UNITS) * public + UNITS.index(unit)), [None, *range(12)])
    with DuckDB(arrow(rows)) as engine:
        assert by_engine(plan, engine) == exact(plan, rows)
    with DuckDB(arrow([])) as engine:
        assert set(by_engine(plan, engine).values()) == {(0, 0)}


def test_what_would_be_the_same_is_asked_once():
    plan = plan_for(UNITS[0])
    cuts = [(each.name, each.about) for each in plan.query if each.made]
    assert cuts == [
        ("n: rows dropped", ("n",)),
        ("u: groups dropped", ("u",)),
        ("mean: rows dropped", ("mean", "sum")),
        ("mean: values clipped", ("mean", "sum", "middle")),  # one for each column and range, whatever else differs
        ("all: rows dropped", ("all", "bins", "middle")),
        ("all: values clipped", ("all",)),  # a missing value counts as the plan's
        ("bins: values clipped", ("bins",)),
    ]
    pooled = {each.name: (each.over, each.where) for each in plan.query if each.made and each.pooled}
    assert pooled == {"mean: values clipped": ((), ()), "all: rows dropped": ((), ())}
    said = explain(plan)
    assert "outside 0 to 100 among all rows within the contribution bounds, once for 'mean', 'sum', 'middle'" in said
    assert "rows without a value counted" in said
    rows = plan_for({})
    assert {each.kind for each in rows.query if each.made} == {"share clipped"}
    with pytest.raises(PlanError, match="give that one another name"):
        plan_for(UNITS[0], [QUERIES[0], {**QUERIES[0], "name": "n: rows dropped"}])


def test_tables_with_a_number_for_each_question_are_still_read_and_cost_what_they_did():
    """As version 0.2 made them: more numbers, with less of the budget each."""
    plan = plan_for(UNITS[0])
    asked = [each for each in plan.query if not each.made]
    older = cut_questions(asked, unit_of=plan.unit_of, groups=lambda by: math.inf if by else 1, apart=True)
    assert [each.name for each in older] == [
        *("n: rows dropped", "u: groups dropped", "mean: rows dropped", "mean: values clipped", "all: rows dropped"),
        *("all: values clipped", "bins: rows dropped", "bins: values clipped", "middle: values clipped"),
    ]
    written = json.loads(plan_json(plan))
    again = plan_from_json({**written, "query": [*written["query"][: len(asked)], *map(as_json, older)]})
    assert again.query == (*plan.query[: len(asked)], *older)
    assert plan_from_json(json.loads(plan_json(again))) == again
    with pytest.raises(PlanError, match="made by report_clipping = true alone"):  # control: neither these nor those
        plan_from_json({**written, "query": [*written["query"][: len(asked)], *map(as_json, older[1:])]})
    now, before = (
        [each for at, each in prepare(one).allocation.questions.items() if one.query[at].made] for one in (plan, again)
    )
    assert (len(now), len(before)) == (7, 9)
    assert float(now[0].epsilon) == pytest.approx(float(before[0].epsilon) * 9 / 7)


def made_by(unit, queries, **parts):
    plan = make_plan({"unit": unit, "budget": {"epsilon": 1.0}, "query": queries, "report_clipping": True, **parts})
    return plan, [each for each in plan.query if each.made]


@pytest.mark.parametrize(("groups", "pooled"), [(1, True), (2, None)])
def test_questions_with_other_bounds_on_groups_share_a_number_about_all_rows(groups, pooled):
    """Not that of the rows which count for the first of them; the control has the same bounds, stated twice."""
    asked = [{**MEAN, "name": "0", "by": ["clinic"], "groups": groups}, {**MEAN, "name": "1", "by": ["clinic"]}]
    _, cuts = made_by(UNITS[0], asked, keys={"clinic": CLINICS})
    (clipped,) = (each for each in cuts if each.kind == "share clipped")
    assert (clipped.about, clipped.pooled) == (("0", "1"), pooled)
    assert (clipped.over, clipped.groups) == (((), None) if pooled else (("clinic",), groups))


def test_what_is_about_all_rows_needs_no_value_in_another_column():
    asked = {"kind": "mean", **WAIT, "weighted_by": {"column": "age", "range": [0, 50]}, "by": ["clinic"]}
    asked = [{**asked, "name": "0", "where": ADULT}, {**asked, "name": "1"}]
    plan, cuts = made_by({}, asked, keys={"clinic": CLINICS})
    assert [(each.pooled, each.also, each.over, each.where) for each in cuts] == [(True, None, ("clinic",), ())] * 2
    assert "among all rows of their groups within the contribution bounds, once for '0', '1'" in explain(plan)
    alone = made_by({}, asked[:1], keys={"clinic": CLINICS})[1]
    assert all(each.also and not each.pooled for each in alone)


@pytest.mark.parametrize(("by", "numbers"), [("day", 2), ("clinic", 1)])
def test_groups_of_one_period_each_are_not_put_together(by, numbers):
    """Together a unit would count in all of a year's days, 365 times as much; of other groups it does so anyway."""
    days = [datetime.date(2025, 1, 1), datetime.date(2025, 12, 31)]
    rows = 10_000 if by == "day" else 10  # of a unit in all days together there may not be this many
    bounds = {"rows": rows, "period": {"column": "day", "each": "day", "range": days}}
    asked = [{**MEAN, **bounds, "name": "0", "by": [by]}, {**MEAN, **bounds, "name": "1", "by": [by, "age"]}]
    keys = {"day": {"days": days}, "clinic": CLINICS}
    plan, cuts = made_by({"column": "who"}, asked, keys={by: keys[by], "age": [5, 70]})
    found = [(each.over, plan.unit_of(each).most_rows) for each in cuts if each.kind == "share clipped"]
    assert found == ([((by,), rows), ((by, "age"), rows)] if numbers == 2 else [((), 365 * rows)])


def test_each_number_has_a_name_of_its_own():
    """Two ranges of one column, columns and questions whose names begin alike; the control: no more than needed."""
    long, wide = "y" * 40, {"range": [0, 1]}
    asked = [{"name": "0", "kind": "ratio", "numerator": WAIT, "denominator": {"column": "wait", "range": [1, 100]}}]
    asked += [{"name": "1", "kind": "line", "x": {"column": f"{long}1", **wide}, "y": {"column": f"{long}2", **wide}}]
    asked += [{"name": "x" * 160 + str(at), "kind": "mean", "column": "age", "range": [0, at]} for at in (2, 3)]
    names = [each.name for each in made_by({}, asked)[1]]
    assert names == [
        *("0: wait clipped", "0: wait clipped 2", f"1: {'y' * 30} clipped", f"1: {'y' * 30} clipped 2"),
        *(f"{'x' * 150}: values clipped", f"{'x' * 150}: values clipped 2"),
    ]


def test_a_table_of_version_0_2_names_a_question_twice_that_cuts_the_same_twice():
    """As that version wrote it; three times is of neither form."""
    plan, cuts = made_by({}, [{"name": "0", "kind": "correlation", "x": WAIT, "y": WAIT}])
    assert [each.about for each in cuts] == [("0",)]
    written = json.loads(plan_json(plan))
    asked, cut = written["query"]
    again = plan_from_json({**written, "query": [asked, {**cut, "about": ["0", "0"]}]})
    assert [each.about for each in again.query if each.made] == [("0", "0")]
    with pytest.raises(PlanError, match="made by report_clipping = true alone"):
        plan_from_json({**written, "query": [asked, {**cut, "about": ["0", "0", "0"]}]})


def as_json(question):
    return question.model_dump(by_alias=True, exclude_none=True)


def test_what_the_noise_hides_is_said_to_be_unknown():
    """Of few rows at a small epsilon nothing is told; the control, of many at a large one, has no such note."""
    for count, parts, hidden in ((20, {}, True), (2000, {"budget": {"epsilon": 100.0}, "clipping_share": 0.5}, False)):
        rows = [{"who": at, "clinic": "a", "wait": 50.0, "age": 30} for at in range(count)]
        plan = plan_for({"column": "who", "rows": 2}, [MEAN], public=False, **parts)
        notes = release(plan, arrow(rows), ledger=None).notes
        said = "their noise is larger than what they would say: 'waits: rows dropped', 'waits: values clipped'; raise"
        assert any(said in each for each in notes) == hidden
        assert any("unknown" in each for each in notes) == hidden


@pytest.mark.few(1)
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_the_share_of_the_budget_is_what_the_plan_says(share):
    for unit in (UNITS[0], {}):
        plan = plan_for(unit, QUERIES[:4], clipping_share=share)
        allocation = prepare(plan).allocation
        total = prepared(plan, allocation).loss.epsilon
        cuts = [each for index, each in allocation.questions.items() if plan.query[index].made]
        own = sum(Fraction(each.epsilon) * each.groups * each.parts for each in cuts)
        assert total <= Fraction(plan.budget.epsilon)
        assert float(own / total) == pytest.approx(share, rel=1e-9)
    assert f"Of this, {100 * share:g} % of epsilon goes into how much is cut" in explain(plan)


def test_the_plan_says_how_many_rows_make_the_numbers_worth_their_share():
    """Below that many rows the intervals are wider than a fifth, and above it not: by the noise that is drawn."""
    plan = plan_for(UNITS[0], QUERIES)
    ready, said = prepare(plan), explain(plan)
    line = next(each for each in said.splitlines() if "share it: an interval narrower than 0.2 takes" in each)
    least, most = (float(each.replace(",", "")) for each in re.findall(r"(?:takes|and) ([0-9,]+)", line))
    cuts = [at for at, each in enumerate(plan.query) if each.made]
    assert line.startswith(f"{len(cuts)} numbers share it")
    assert f"for {plan.query[max(cuts, key=lambda at: ready.publishers[at].half_width)].name!r}" in line
    for at in cuts:
        form, half = ready.questions[at].form, ready.publishers[at].half_width
        for rows, narrow in ((0.8 * least, False), (most, True)):
            whole = (rows / 2, rows / 2)
            ends = tuple((each - half, each + half) for each in whole)
            found = form.estimate(Reading(values=whole, intervals=ends))
            assert (found.upper - found.lower <= 0.2) == narrow
    assert "share it" not in explain(plan_for(UNITS[0], QUERIES[:1], report_clipping=False))


def test_the_table_says_how_much_was_cut_and_the_certificate_covers_it():
    """Of 20 rows of each person 5 count; a quarter of the waits lie outside; rows without a wait are not dropped."""
    waits = [150.0, 50.0, 50.0, 50.0, None]
    rows = [{"who": at % 50, "clinic": "a", "wait": waits[at // 50 % 5], "age": 30} for at in range(1250)]
    plan = plan_for({"column": "who", "rows": 5}, [MEAN], public=False, clipping_share=0.5, **SURE)
    made = release(plan, arrow(rows), ledger=None)
    found = {row["query"]: row for row in made.rows()}
    dropped, clipped = found["waits: rows dropped"], found["waits: values clipped"]
    for row, true in ((dropped, 0.75), (clipped, 0.25)):
        assert row["lower"] <= true <= row["upper"]
        assert row["value"] == pytest.approx(true, abs=0.15)
    assert dropped["scope"].startswith("rows dropped by the contribution bounds for 'waits', rows per 'who' looked at")
    assert clipped["scope"] == "values outside 0 to 100 among the rows that count for 'waits'"
    assert check_certificate(made.certificate, made.to_bytes()).numbers == 3


def test_rows_whose_text_is_not_a_date_are_not_dropped(tmp_path):
    days = ["2025-01-31", "none", "2025-02-30", "3"]
    (tmp_path / "t.csv").write_text("who,day\n" + "".join(f"{at // 4},{days[at % 4]}\n" for at in range(400)))
    year = [datetime.date(2025, 1, 1), datetime.date(2026, 1, 1)]
    queries = [{"name": "days", "kind": "median", "column": "day", "range": year}]
    queries += [{"name": "x", "kind": "mean", "column": "day", "range": [0, 9]}]
    found = []
    for asked in ([queries[0]], [queries[1]], queries):
        plan = plan_for({"column": "who", "rows": 4}, asked, public=False)
        with DuckDB(Source(path=str(tmp_path / "t.csv"))) as engine:
            found += [each for at, each in by_engine(plan, engine).items() if plan.query[at].kind == "share dropped"]
    assert found == [(100, 0), (100, 0), (400, 0)]  # one date, one number each; and all rows for both together


def test_what_a_distinct_count_drops_is_named_as_not_counted():
    """Its bound `values` drops values, which no number says; groups are counted like those of a count of units."""
    asked = {"name": "drugs", "kind": "distinct count", "column": "drug", "values": 2, "by": ["place"]}
    data = {"budget": {"epsilon": 1.0}, "keys": {"place": ["a", "b"]}, "report_clipping": True, "query": [asked]}
    plan = make_plan({**data, "unit": {"column": "who", "groups": 1}})
    assert [each.name for each in plan.query] == ["drugs", "drugs: groups dropped"]
    assert "Not counted there: the values of a unit beyond `values`, for 'drugs'." in explain(plan)
    with pytest.raises(PlanError, match="the values of a unit beyond `values` are not counted, and nothing else is"):
        make_plan({**data, "unit": {"column": "who", "groups": 2}})
    with pytest.raises(PlanError, match="nothing is cut; every row counts"):
        make_plan({**data, "query": [{**asked, "values": 1}]})


WAYS = [[], ["clinic"], ["age"]]
ASKED = [
    {"kind": "count"},
    {"kind": "count of units"},
    {"kind": "count", "weighted_by": {"column": "age", "range": [0, 50]}},
    {"kind": "mean", **WAIT},
    {"kind": "sum", **WAIT},
    {"kind": "mean", **WAIT, "missing": 5},
    {"kind": "mean", **WAIT, "weighted_by": {"column": "age", "range": [0, 50]}},
    {"kind": "median", **WAIT, "step": 10},
    {"kind": "histogram", "column": "wait", "range": [-20, 30]},
    {"kind": "correlation", "x": WAIT, "y": {"column": "age", "range": [0, 50]}},
    {"kind": "correlation", "x": WAIT, "y": WAIT},
]


def asked_by_chance(chance):
    """A unit and up to four questions, by different groups, with conditions and bounds of their own or without."""
    unit, queries = chance.choice(UNITS), []
    for at in range(chance.choice([2, 3, 4])):
        each = {"by": chance.choice(WAYS), "where": chance.choice([[], ADULT])}
        if queries and chance.random() < 0.5:
            each = {name: queries[-1][name] for name in each}
        each |= {**chance.choice(ASKED), "name": str(at)}
        if "column" in unit:
            own = {"rows": each["kind"] != "count of units", "groups": bool(each["by"])}
            each |= {name: chance.choice([1, 3]) for name, may in own.items() if may and chance.random() < 0.4}
        elif each["kind"] == "count of units":
            each["kind"] = "count"
        queries.append(each)
    return unit, queries


def cuts_in(unit, queries, engine):
    """The numbers about cuts of a plan, by what they say."""
    used = {column for each in queries for column in each["by"]}
    keys = {name: each for name, each in {"clinic": CLINICS, "age": [5, 18, 70]}.items() if name in used}
    try:
        plan = plan_for(unit, queries, keys=keys)
    except PlanError:  # nothing is cut
        return []
    return [(plan.query[at], each) for at, each in by_engine(plan, engine).items()]


def what(cut):
    return (cut.kind, cut.units) if cut.kind == "share dropped" else (cut.kind, cut.valued, cut.within, cut.filler)


def pooled_alone(cut):
    """The one question that a number about different ones is about."""
    own = {name: getattr(cut, name) for name in ("rows", "groups") if getattr(cut, name) is not None}
    own |= {"name": "0", "by": list(cut.over), "where": ADULT if cut.where else []}
    if cut.kind == "share dropped":
        return {**own, "kind": "count"}
    filler = {} if cut.filler is None else {"missing": cut.filler}
    return {**own, "kind": "mean", "column": cut.valued, "range": list(cut.within), **filler}


def check_shared(seed):
    """That each shared number is that of every question it is about, alone; returns how many are shared and pooled."""
    chance, shared = random.Random(seed), Counter()
    unit, queries = asked_by_chance(chance)
    with DuckDB(arrow(some_rows(chance, [None, *range(12)])), threads=1) as engine:
        for cut, found in cuts_in(unit, queries, engine):
            shared[cut.kind, cut.pooled] += len(cut.about) > 1
            about = [pooled_alone(cut)] if cut.pooled else [queries[int(name)] for name in cut.about]
            for one in about:
                alone = [each for other, each in cuts_in(unit, [one], engine) if what(other) == what(cut)]
                assert found in alone, (seed, cut.name, one)
    return shared


@pytest.mark.slow
def test_a_number_that_questions_share_is_that_of_each_alone():
    """Questions with other groups, conditions, bounds and rows without a value: where they differ, that of all rows."""
    shared = sum(map(check_shared, range(30)), Counter())
    assert min(shared[kind, pooled] for kind in ("share dropped", "share clipped") for pooled in (None, True)) > 0
