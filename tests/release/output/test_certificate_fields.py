"""Every field of certificates and tables, changed by hand: numbers by one bit, texts, fields that are missing or added.

There is a plan of every shape. A change is refused, though whoever makes it writes the hash of what they made up into
the certificate; but for keys that were selected privately, which may be any texts.
"""

import copy
import datetime
import json
import math
import random
from functools import cache

import pyarrow as pa
import pytest

from rangebound.errors import ArgumentError, CertificateInvalid
from rangebound.ledger.book import Ledger
from rangebound.release import Release, check_certificate, check_entry, make_plan, release
from rangebound.release.output.table import plan_json, sha256

DAYS = [datetime.date(2025, 1, 30) + datetime.timedelta(days=at) for at in range(4)]
NOON, HOUR = datetime.datetime(2025, 1, 31, 12, tzinfo=datetime.UTC), datetime.timedelta(hours=1)
KEYS = {"sex": ["f", "m"], "city": ["a", "b", "c"], "day": DAYS}
LEVELS = [{"name": "region", "members": {"west": ["a", "c"], "east": ["b"]}}]
PEOPLE = {"column": "person", "rows": 2, "groups": 6}
X = {"column": "x", "range": [0, 10]}
WEIGHTED = {"weighted_by": {"column": "person", "range": [0, 40]}}
PURE, GAUSSIAN = {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 0.01}
CROSSTAB = {"kind": "crosstab", "by": ["sex", "city"]}
HIERARCHY = {"kind": "hierarchy", "by": ["city"], "levels": LEVELS}
SERIES = {"kind": "series", "by": ["day"]}
COUNT = {"kind": "count", "by": ["sex"]}
MARGINALS = [COUNT, {"kind": "count", "by": ["city"]}, {"kind": "count", "by": ["city", "sex"]}]
MARGINALS = [{"kind": "count", "by": by} for by in ([], ["sex"], ["city"], ["city", "sex"])]
SHAPES = {
    "a count": (PURE, {}, [{"kind": "count"}], {}),
    "counts": (GAUSSIAN, PEOPLE, [{"kind": "count", "by": ["city"]}] * 3, {"objective": "relative"}),
    "crosstab": (GAUSSIAN, PEOPLE, [CROSSTAB], {}),
    "pure crosstab": (PURE, PEOPLE, [CROSSTAB], {}),
    "hierarchy": (GAUSSIAN, PEOPLE, [HIERARCHY], {}),
    "pure hierarchy": (PURE, PEOPLE, [HIERARCHY], {}),
    "series": (GAUSSIAN, PEOPLE, [SERIES], {}),
    "pure series": (PURE, PEOPLE, [SERIES], {}),
    "workload": ({"epsilon": 1.0, "delta": 0.2}, {}, MARGINALS, {}),
    "workload of listed rows": ({"epsilon": 1.0, "delta": 0.2}, {}, MARGINALS, {"only_listed": True}),
    "keys by a threshold": (GAUSSIAN, {}, [{"kind": "count", "by": ["town"]}], {}),
    "keys by units": (GAUSSIAN, {}, [{"kind": "mean", **X, "by": ["town"]}], {"selection": 2.0}),
    "ranked keys": (GAUSSIAN, {}, [{"kind": "top k", "column": "town", "k": 2}], {}),
    "ranked keys beside all": (
        {"epsilon": 60.0, "delta": 0.01},
        {},
        [{"kind": "top k", "column": "town", "k": 1}, {"kind": "count", "by": ["town"]}],
        {},
    ),
    "margins": (GAUSSIAN, PEOPLE, [{**COUNT, "margin": 500.0}, {"kind": "sum", **X}], {}),
    "a crosstab's margin": (GAUSSIAN, {}, [{**CROSSTAB, "margin": 60.0}, COUNT], {}),
    "marginals": (GAUSSIAN, {}, MARGINALS, {}),
    "marginals of listed rows": (GAUSSIAN, {}, MARGINALS, {"only_listed": True}),
    "joint": (PURE, {}, [COUNT, {"kind": "histogram", **X, "bins": 2}], {"joint": True}),
    "signed": (PURE, {}, [{**COUNT, "signed": True}, {"kind": "sum", **X, "signed": True}], {}),
    "unbiased": (
        GAUSSIAN,
        {},
        [{**COUNT, "unbiased": True}, {"kind": "histogram", **X, "bins": 2, "unbiased": True}],
        {},
    ),
    "consistent": (PURE, {}, [{"kind": "count"}, COUNT, {"kind": "median", **X, "step": 1.0}], {"consistent": True}),
    "replaced": (GAUSSIAN, {**PEOPLE, "neighbours": "replace", "size": 60}, [COUNT, {"kind": "mean", **X}, SERIES], {}),
    "clipping": (
        PURE,
        PEOPLE,
        [{"kind": "share", "of": [{"column": "x", "is": ">", "value": 5}]}, COUNT],
        {"report_clipping": True},
    ),
    "keys by rule": (
        PURE,
        PEOPLE,
        [
            COUNT,
            {"kind": "count", "by": ["x", "day"]},
            {"kind": "count", "by": ["city", "town"]},
            {"kind": "histogram", "column": "x", "bins": [0, 1, 10], "bin_names": ["few", "many"]},
        ],
        {
            "keys": {
                "sex": {"fold": {"one": ["f"], "two": ["m"]}, "other": "x", "missing": "none"},
                "x": {"bins": [0, 4, 10], "names": ["low", "high"], "other": "out"},
                "day": {"weeks": [DAYS[0], DAYS[-1]]},
            },
            "combinations": [{"columns": ["town", "city"], "keys": [["o", "a"], ["p", "b"]]}],
        },
    ),
    "made columns": (
        PURE,
        PEOPLE,
        [{"kind": "mean", "column": "half"}, {"kind": "count", "where": "half * 2 > 5 or missing(day)"}],
        {"columns": {"x": {"range": [0, 10]}, "half": "x / 2"}},
    ),
    "a join and one row a unit": (
        GAUSSIAN,
        {"column": "person"},
        [{"kind": "count", "by": ["place"]}, {"kind": "mean", "column": "most"}],
        {
            "join": [{"table": "cities", "public": True, "on": {"city": "code"}, "columns": ["name"]}],
            "columns": {"x": {"range": [0, 10]}},
            "per_unit": {"place": "first(name, day)", "most": {"value": "max(x)", "range": [1, 9]}},
            "keys": {"place": ["A", "B"]},
        },
    ),
    "several columns": (
        PURE,
        PEOPLE,
        [
            {"kind": "mean", **X, "weighted_by": {"column": "person", "range": [0, 40]}},
            {"kind": "line", "x": X, "y": {"column": "person", "range": [0, 50]}},
            {"kind": "ratio", "numerator": X, "denominator": {"column": "person", "range": [1, 50]}},
            {"kind": "distinct count", "column": "city", "values": 2},
        ],
        {},
    ),
    "local times and periods": (
        PURE,
        {**PEOPLE, "period": {"column": "at", "each": "week", "range": [DAYS[0], DAYS[-1]]}},
        [
            {"kind": "count", "by": ["at"], "rows": 1},
            {"kind": "count of units", "by": ["hour"], "groups": 3},
            {"kind": "mean", "column": "hour", "by": ["sex"], "where": "date(at) >= date('2025-01-31')"},
        ],
        {
            "zone": "Europe/Paris",
            "columns": {"hour": {"value": "hour(at)", "range": [0, 23]}},
            "keys": {
                "at": {"days": [DAYS[0], DAYS[1]], "other": "another day", "missing": "no day"},
                "hour": {"numbers": [0, 3], "other": "later"},
                "sex": ["f", "m"],
            },
        },
    ),
    "joins with a private table and a public one": (
        GAUSSIAN,
        {"column": "person", "rows": 2, "groups": 2},
        [
            {"kind": "count", "by": ["drug"], "rows": 1},
            {"kind": "sum", "column": "dose", "range": [0, 4], "by": ["name"], "groups": 1},
        ],
        {
            "zone": "Asia/Kathmandu",
            "join": [
                {
                    "table": "taken",
                    "public": False,
                    "on": {"person": "who", "day": "day"},
                    "columns": {"drug": "drug", "dose": "amount"},
                    "rows": 2,
                    "own_rows": 3,
                    "how": "inner",
                },
                {"table": "cities", "public": True, "on": {"city": "code"}, "columns": ["name"]},
            ],
            "keys": {"drug": ["p", "q"], "name": ["A", "B"]},
        },
    ),
    "one row a unit in local time": (
        {"epsilon": 1.0, "delta": 0.2},
        {"column": "person", "neighbours": "replace", "size": 45},
        [
            {"kind": "count", "by": ["began"]},
            {"kind": "count", "by": ["often"]},
            {"kind": "count", "by": ["began", "often"]},
            {"kind": "median", "column": "most", "step": 1.0},
        ],
        {
            "zone": "America/New_York",
            "columns": {"x": {"range": [0, 10]}},
            "per_unit": {
                "began": "first(sex, at)",
                "often": "any(x > 5)",
                "most": {"value": "max(x)", "range": [1, 9]},
            },
            "keys": {"began": {"fold": {"known": ["f", "m"]}, "other": "other", "missing": "none"}, "often": [True]},
        },
    ),
    "keys that are drawn": (
        {"epsilon": 4.0},
        PEOPLE,
        [
            {"kind": "top k", "column": "city", "k": 3},
            {"kind": "top k", "column": "sex", "k": 1, "by": ["city"]},
            {"kind": "mode", "column": "sex"},
            {"kind": "mode", **X, "bins": 3},
            {"kind": "central range", **X, "step": 2.0, "share": 0.5},
            {"kind": "bounds", "column": "x"},
        ],
        {"keys": {"city": ["a", "b", "c"], "sex": {"values": ["f", "m"], "other": "x"}}},
    ),
    "weights": (
        GAUSSIAN,
        PEOPLE,
        [
            {"kind": "count", **WEIGHTED, "by": ["sex"]},
            {"kind": "sum", **X, **WEIGHTED, "rows": 1},
            {"kind": "share", "of": [{"column": "x", "is": ">", "value": 5}], **WEIGHTED},
        ],
        {},
    ),
    "moments by keys that are selected": (
        {"epsilon": 60.0, "delta": 0.01},
        {},
        [
            {"kind": "correlation", "x": X, "y": {"column": "person", "range": [0, 50]}, "by": ["town"], "step": 0.1},
            {"kind": "line", "x": X, "y": {"column": "person", "range": [0, 50]}, "slopes": [-3, 3], "by": ["town"]},
            {"kind": "ratio", "numerator": X, "denominator": X, "support": [[0, 1], [2, 9]], "by": ["town"]},
            {"kind": "distinct count", "column": "city", "by": ["town"]},
        ],
        {"selection": 9.0},
    ),
    "tables": (
        PURE,
        {},
        [
            {**COUNT, "mechanism": "optimal", "support": [0, 20]},
            {"kind": "sum", **X, "mechanism": "optimal", "support": [0, 20], "step": 5},
        ],
        {},
    ),
    "mechanisms": (
        GAUSSIAN,
        {},
        [
            {"kind": "count", "mechanism": "truncate Gaussian", "support": [0, 90]},
            {"kind": "sum", **X, "mechanism": "rectify Laplace"},
        ],
        {},
    ),
}


def table(rows=90):
    chance = random.Random(4)
    return pa.table(
        {
            "person": [at // 2 for at in range(rows)],
            "sex": [chance.choice("fmx") for _ in range(rows)],
            "city": [chance.choice("aabz") for _ in range(rows)],
            "town": [chance.choice("ooooooooop") for _ in range(rows)],
            "day": [DAYS[0] + datetime.timedelta(days=chance.randint(-1, 4)) for _ in range(rows)],
            "x": [chance.uniform(-1, 11) for _ in range(rows)],
            "at": pa.array([NOON + chance.randint(-60, 99) * HOUR for _ in range(rows)], pa.timestamp("us", "UTC")),
        }
    )


TABLES = {
    "cities": pa.table({"code": ["a", "b"], "name": ["A", "B"]}),
    "taken": pa.table(
        {
            "who": [at // 3 for at in range(90)],
            "day": [DAYS[at % 4] for at in range(90)],
            "drug": ["pq"[at % 2] for at in range(90)],
            "amount": [float(at % 5) for at in range(90)],
        }
    ),
}


def made(name, ledger=None, **other):
    budget, unit, asked, more = SHAPES[name]
    queries = [{"name": f"q{at}", **each} for at, each in enumerate(asked)]
    used = {column for each in asked for column in each.get("by", [])}
    keys = {column: own for column, own in KEYS.items() if column in used}
    account = {"account": "people"} if ledger else {}
    plan = make_plan({"unit": unit, "budget": {**budget, **other, **account}, "keys": keys, "query": queries, **more})
    return release(plan, table(), ledger=ledger, request="one" if ledger else None, tables=TABLES)


plain = cache(made)
"""A release that several tests only read."""


def others(value):
    """Other values for one: the doubles beside it, other numbers and texts, another type."""
    match value:
        case bool():
            return [not value, int(value)]
        case int():
            return [value + 1, value - 1, float(value), str(value)]
        case float():
            near = [math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]
            return [*near, 2.0 * value + 1.0, -value if value else -0.0, str(value)]
        case str():
            return [value + "1", value.swapcase() if value.swapcase() != value else value + " ", ""] if value else ["1"]
        case None:
            return ["f", 0, False]
    return []


def changes(data, place=()):
    """Every changed copy of plain data, with where the change is and what stands there."""
    items = list(data.items()) if isinstance(data, dict) else list(enumerate(data)) if isinstance(data, list) else []
    for name, value in items:
        for new in others(value):
            yield (*place, name), new
        yield from changes(value, (*place, name))
        yield (*place, name), REMOVED
    if isinstance(data, dict):
        yield (*place, "more"), 1.0
    if isinstance(data, list):
        yield place, ADDED
        yield from (((*place, at), SWAPPED) for at in range(len(data) - 1))


REMOVED, ADDED, SWAPPED = object(), object(), object()


def changed(data, place, new):
    """A copy with another value at a place, or without it, or in another order, or with one more behind the last."""
    found = inner = copy.deepcopy(data)
    if new is ADDED:
        for name in place:
            inner = inner[name]
        inner.append(inner[-1] if inner else 0.0)
        return found
    *above, last = place
    for name in above:
        inner = inner[name]
    if new is REMOVED:
        del inner[last]
    elif new is SWAPPED:
        inner[last], inner[last + 1] = inner[last + 1], inner[last]
    else:
        inner[last] = new
    return found


def said(data):
    return json.dumps(data, indent=1, sort_keys=True)


def published(data):
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def is_possible(found, table, place, new):
    """Whether a change makes another table that might have been published.

    A key that was selected may be any text, or may not have been selected. A number that was drawn may be another one
    that has the same numbers made of it; only those between the points of its lattice cannot be. The last rank of keys
    that were selected may be left out, as it is where a ledger has no room.
    """
    if place[0] != "cells" or len(place) < 2:
        return False
    cells, plan = table["cells"], found.plan
    if "draws" in place and isinstance(new, float):
        return abs(new - cells[place[1]]["draws"][place[3]]) > 1e-6
    if new is REMOVED and len(place) == 2 and plan.query[cells[place[1]]["question"]].ranked:
        behind = cells[place[1] + 1 : place[1] + 2]
        return not behind or behind[0]["part"] != str(int(cells[place[1]]["part"]) + 1)
    alone = sum(each["key"] == cells[place[1]]["key"] for each in cells) == 1
    selected = alone and plan.private(plan.query[cells[place[1]]["question"]].by)
    return selected and (new is REMOVED if len(place) == 2 else place[2] == "key" and isinstance(new, str))


def is_of_another_machine(certificate, place, new):
    """Whether a change is a scale whose last bits another machine may have found; its claim is proved all the same."""
    if "noise" not in place or not isinstance(new, float):
        return False
    old = certificate
    for each in place:
        old = old[each]
    return math.isclose(new, old, rel_tol=1e-9)


def is_refused(check):
    try:
        check()
    except CertificateInvalid:
        return True
    return False


def walk(found, part):
    """Try a part of all changes of the certificate and of the table; how many there were."""
    certificate, table = json.loads(found.certificate), json.loads(found.to_bytes())
    assert check_certificate(said(certificate), published(table)).numbers == len(found.cells)
    tried = 0
    for place, new in part(list(changes(certificate))):
        text = said(changed(certificate, place, new))
        if place != ("ledger",) and text != said(certificate) and not is_of_another_machine(certificate, place, new):
            assert is_refused(lambda: check_certificate(text, published(table))), ("certificate", place, new)  # noqa: B023
            tried += 1
    for place, new in part(list(changes(table))):
        data = published(changed(table, place, new))
        text = said({**certificate, "published": sha256(data)})
        if data != published(table) and not is_possible(found, table, place, new):
            assert is_refused(lambda: check_certificate(text, data)), ("table", place, new)  # noqa: B023
            tried += 1
    return tried


def forged(certificate, data):
    """The certificate with both hashes of a table that was made up; None where it has no valid plan."""
    try:
        plan = plan_json(Release.from_bytes(data).plan)
    except ArgumentError:
        return None
    return said({**certificate, "published": sha256(data), "plan": sha256(plan.encode())})


PROTECTING = {"epsilon", "delta", "neighbours", "rows", "own_rows", "period", "public", "how"}
"""Fields that say who is protected, and how well; beside the column of the unit."""


def protects(place):
    return place == ("plan", "unit", "column") or not PROTECTING.isdisjoint(place)


def accepted(found, wanted, part):
    """The places of the plan where a change passes, of those that are wanted, if both hashes are written anew.

    Others pass: the columns, conditions and joins of a plan say what its rows are, which no check without data sees.
    """
    certificate, table = json.loads(found.certificate), json.loads(found.to_bytes())
    for place, new in part([each for each in changes(table["plan"], ("plan",)) if wanted(each[0])]):
        data = published(changed(table, place, new))
        text = forged(certificate, data)
        if text and data != published(table) and not is_refused(lambda: check_certificate(text, data)):  # noqa: B023
            yield place, new


@pytest.mark.parametrize("name", SHAPES)
def test_changes_of_some_fields_are_refused(name):
    chance = random.Random(name)
    assert walk(plain(name), lambda every: chance.sample(every, 6)) >= 7


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_a_change_of_any_field_is_refused(name):
    tried = walk(made(name), lambda every: every)
    print(name, tried)
    assert tried > 200


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.01, 90.0])
@pytest.mark.parametrize("name", SHAPES)
def test_neither_with_much_noise_nor_with_hardly_any(name, epsilon):
    chance = random.Random(name)
    assert walk(made(name, epsilon=epsilon), lambda every: chance.sample(every, min(len(every), 150))) > 100


@pytest.mark.parametrize("name", SHAPES)
def test_nobody_who_writes_both_hashes_changes_who_is_protected_and_how_well(name):
    chance = random.Random(name)
    assert not list(accepted(plain(name), protects, lambda every: chance.sample(every, min(len(every), 2))))


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.01, 90.0])
@pytest.mark.parametrize("name", SHAPES)
def test_nor_at_other_budgets_and_any_field(name, epsilon):
    assert not list(accepted(made(name, epsilon=epsilon), protects, lambda every: every))


def test_control_what_no_check_can_see_may_be_changed():
    places = [place for place, _ in accepted(made("a count"), lambda place: place == ("plan", "title"), list)]
    assert places == [("plan", "title")]


def test_a_change_of_the_ledger_s_entry_is_refused(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger")
    ledger.open_account("people", epsilon=2.0, delta=0.1)
    found = made("a count", ledger)
    certificate = json.loads(found.certificate)
    check_both(found.certificate, found.to_bytes(), ledger)
    tried = 0
    for place, new in changes(certificate):
        if place[0] == "ledger":
            text = said(changed(certificate, place, new))
            assert is_refused(lambda: check_both(text, found.to_bytes(), ledger)), (place, new)  # noqa: B023
            tried += 1
    assert tried > 12


def check_both(text, data, ledger):
    check_entry(check_certificate(text, data), data, ledger)


def test_control_a_check_that_leaves_out_the_intervals_is_caught(monkeypatch):
    path = "rangebound.release.output.table_certificate._check_table"
    monkeypatch.setattr(path, lambda release, ready: None)
    with pytest.raises(AssertionError, match="table"):
        walk(made("a count"), lambda every: every)
