"""Every field of certificates and tables, changed by hand: numbers by one bit, texts, fields that are missing or added.

There is a plan of every shape. A change is refused, though whoever makes it writes the hash of what they made up into
the certificate; but for keys that were selected privately, which may be any texts.
"""

import contextlib
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
from rangebound.release import Release, check_certificate, check_entry, release
from rangebound.release.output.plan_facts import plan_json, sha256
from rangebound.release.plan.kinds.ranks import RankKind
from tests.release.output.asked import asked

DAYS = [datetime.date(2025, 1, 30) + datetime.timedelta(days=at) for at in range(4)]
NOON, HOUR = datetime.datetime(2025, 1, 31, 12, tzinfo=datetime.UTC), datetime.timedelta(hours=1)
KEYS = {"sex": ["f", "m"], "city": ["a", "b", "c"], "day": DAYS}
LEVELS = [{"name": "region", "members": {"west": ["a", "c"], "east": ["b"]}}]
PEOPLE = {"column": "person", "rows": 2, "groups": 6}
X = {"column": "x", "range": [0, 10]}
WEIGHTED = {"weighted_by": {"column": "person", "range": [0, 40]}}
HISTOGRAM = {"kind": "histogram", **X, "bins": 2}
SHARE = {"kind": "share", "of": [{"column": "x", "is": ">", "value": 5}]}
OWNERS = {"column": "person", "range": [0, 50]}
OPTIMAL = {"mechanism": "optimal", "support": [0, 20]}
TAKEN = {"on": {"person": "who", "day": "day"}, "columns": {"drug": "drug", "dose": "amount"}}
CROSSTAB = {"kind": "crosstab", "by": ["sex", "city"]}
HIERARCHY = {"kind": "hierarchy", "by": ["city"], "levels": LEVELS}
SERIES = {"kind": "series", "by": ["day"]}
COUNT = {"kind": "count", "by": ["sex"]}
MARGINALS = [{"kind": "count", "by": by} for by in ([], ["sex"], ["city"], ["city", "sex"])]


def shape(*questions, **parts):
    return questions, parts


SHAPES = {
    "a count": shape({"kind": "count"}),
    "counts": shape(*[{"kind": "count", "by": ["city"]}] * 3, delta=0.01, unit=PEOPLE, objective="relative"),
    "crosstab": shape(CROSSTAB, delta=0.01, unit=PEOPLE),
    "pure crosstab": shape(CROSSTAB, unit=PEOPLE),
    "hierarchy": shape(HIERARCHY, delta=0.01, unit=PEOPLE),
    "pure hierarchy": shape(HIERARCHY, unit=PEOPLE),
    "series": shape(SERIES, delta=0.01, unit=PEOPLE),
    "pure series": shape(SERIES, unit=PEOPLE),
    "workload": shape(*MARGINALS, delta=0.2),
    "workload of listed rows": shape(*MARGINALS, delta=0.2, only_listed=True),
    "keys by a threshold": shape({"kind": "count", "by": ["town"]}, delta=0.01),
    "keys by units": shape({"kind": "mean", **X, "by": ["town"]}, delta=0.01, selection=2.0),
    "ranked keys": shape({"kind": "top k", "column": "town", "k": 2}, delta=0.01),
    "ranked keys beside all": shape(
        {"kind": "top k", "column": "town", "k": 1}, {"kind": "count", "by": ["town"]}, epsilon=60.0, delta=0.01
    ),
    "margins": shape({**COUNT, "margin": 500.0}, {"kind": "sum", **X}, delta=0.01, unit=PEOPLE),
    "a crosstab's margin": shape({**CROSSTAB, "margin": 60.0}, COUNT, delta=0.01),
    "marginals": shape(*MARGINALS, delta=0.01),
    "marginals of listed rows": shape(*MARGINALS, delta=0.01, only_listed=True),
    "joint": shape(COUNT, HISTOGRAM, joint=True),
    "signed": shape({**COUNT, "signed": True}, {"kind": "sum", **X, "signed": True}),
    "unbiased": shape({**COUNT, "unbiased": True}, {**HISTOGRAM, "unbiased": True}, delta=0.01),
    "consistent": shape({"kind": "count"}, COUNT, {"kind": "median", **X, "step": 1.0}, CROSSTAB, consistent=True),
    "replaced": shape(
        COUNT, {"kind": "mean", **X}, SERIES, delta=0.01, unit={**PEOPLE, "neighbours": "replace", "size": 60}
    ),
    "clipping": shape(SHARE, COUNT, unit=PEOPLE, report_clipping=True),
    "keys by rule": shape(
        COUNT,
        {"kind": "count", "by": ["x", "day"]},
        {"kind": "count", "by": ["city", "town"]},
        {"kind": "histogram", "column": "x", "bins": [0, 1, 10], "bin_names": ["few", "many"]},
        unit=PEOPLE,
        keys={
            "sex": {"fold": {"one": ["f"], "two": ["m"]}, "other": "x", "missing": "none"},
            "x": {"bins": [0, 4, 10], "names": ["low", "high"], "other": "out"},
            "day": {"weeks": [DAYS[0], DAYS[-1]]},
        },
        combinations=[{"columns": ["town", "city"], "keys": [["o", "a"], ["p", "b"]]}],
    ),
    "several columns, one of them made": shape(
        {"kind": "mean", "column": "half"},
        {"kind": "count", "where": "half * 2 > 5 or missing(day)"},
        {"kind": "mean", **X, **WEIGHTED},
        {"kind": "line", "x": X, "y": OWNERS},
        {"kind": "ratio", "numerator": X, "denominator": {"column": "person", "range": [1, 50]}},
        {"kind": "distinct count", "column": "city", "values": 2},
        unit=PEOPLE,
        columns={"x": {"range": [0, 10]}, "half": "x / 2"},
    ),
    "local times and periods": shape(
        {"kind": "count", "by": ["at"], "rows": 1},
        {"kind": "count of units", "by": ["hour"], "groups": 3},
        {"kind": "mean", "column": "hour", "by": ["sex"], "where": "CAST(at AS DATE) >= DATE '2025-01-31'"},
        unit={**PEOPLE, "period": {"column": "at", "each": "week", "range": [DAYS[0], DAYS[-1]]}},
        zone="Europe/Paris",
        columns={"hour": {"value": "hour(at)", "range": [0, 23]}},
        keys={
            "at": {"days": [DAYS[0], DAYS[1]], "other": "another day", "missing": "no day"},
            "hour": {"numbers": [0, 3], "other": "later"},
            "sex": ["f", "m"],
        },
    ),
    "joins with a private table and a public one": shape(
        {"kind": "count", "by": ["drug"], "rows": 1},
        {"kind": "sum", "column": "dose", "range": [0, 4], "by": ["name"], "groups": 1},
        delta=0.01,
        unit={"column": "person", "rows": 2, "groups": 2},
        zone="Asia/Kathmandu",
        join=[
            {"table": "taken", "public": False, "how": "inner", "rows": 2, "own_rows": 3, **TAKEN},
            {"table": "cities", "public": True, "on": {"city": "code"}, "columns": ["name"]},
        ],
        keys={"drug": ["p", "q"], "name": ["A", "B"]},
    ),
    "one row per unit in local time": shape(
        *({"kind": "count", "by": by} for by in (["began"], ["often"], ["began", "often"])),
        {"kind": "median", "column": "most", "step": 1.0},
        delta=0.2,
        unit={"column": "person", "neighbours": "replace", "size": 45},
        zone="America/New_York",
        columns={"x": {"range": [0, 10]}},
        per_unit={"began": "ARG_MIN(sex, at)", "often": "BOOL_OR(x > 5)", "most": {"value": "max(x)", "range": [1, 9]}},
        keys={"began": {"fold": {"known": ["f", "m"]}, "other": "other", "missing": "none"}, "often": [True]},
    ),
    "keys that are drawn": shape(
        {"kind": "top k", "column": "city", "k": 3},
        {"kind": "top k", "column": "sex", "k": 1, "by": ["city"]},
        {"kind": "mode", "column": "sex"},
        {"kind": "mode", **X, "bins": 3},
        {"kind": "central range", **X, "step": 2.0, "share": 0.5},
        {"kind": "bounds", "column": "x"},
        epsilon=4.0,
        unit=PEOPLE,
        keys={"city": ["a", "b", "c"], "sex": {"values": ["f", "m"], "other": "x"}},
    ),
    "weights": shape(
        {**COUNT, **WEIGHTED},
        {"kind": "sum", **X, **WEIGHTED, "rows": 1},
        {**SHARE, **WEIGHTED},
        delta=0.01,
        unit=PEOPLE,
    ),
    "moments by keys that are selected": shape(
        {"kind": "correlation", "x": X, "y": OWNERS, "by": ["town"], "step": 0.1},
        {"kind": "line", "x": X, "y": OWNERS, "slopes": [-3, 3], "by": ["town"]},
        {"kind": "ratio", "numerator": X, "denominator": X, "support": [[0, 1], [2, 9]], "by": ["town"]},
        {"kind": "distinct count", "column": "city", "by": ["town"]},
        epsilon=60.0,
        delta=0.01,
        selection=9.0,
    ),
    "tables": shape({**COUNT, **OPTIMAL}, {"kind": "sum", **X, **OPTIMAL, "step": 5}),
    "mechanisms": shape(
        {"kind": "count", "mechanism": "truncate Gaussian", "support": [0, 90]},
        {"kind": "sum", **X, "mechanism": "rectify Laplace"},
        delta=0.01,
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
    questions, parts = SHAPES[name]
    used = {column for each in questions for column in each.get("by", [])}
    keys = {column: own for column, own in KEYS.items() if column in used}
    plan = asked(*questions, **{"keys": keys, **parts, **other})
    return release(plan, table(), ledger=ledger, request="one" if ledger else None, tables=TABLES)


plain = cache(made)
"""A release that several tests only read."""


def others(value):
    match value:
        case bool():
            return [not value, int(value), None]
        case int():
            return [value + 1, value - 1, -1, float(value), str(value), None, True]
        case float():
            near = [math.nextafter(value, math.inf), math.nextafter(value, -math.inf), value + 1e-6]
            far = [2.0 * value + 1.0, -value if value else -0.0, math.nan, math.inf, -math.inf]
            whole = int(value) if math.isfinite(value) else 0
            return [*near, *far, whole, str(value), None, [value], True]
        case str():
            return [value + "1", value + " ", value.swapcase(), "", 0, None, [value], {"": value}]
        case None:
            return ["f", 0, False]
    return [] if value else [0.0, 1, "", {}]


def changes(data, place=()):
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


def at(data, place):
    for name in place:
        data = data[name]
    return data


def changed(data, place, new):
    """A copy with another value at a place, or without it, or in another order, or with one more behind the last."""
    found = copy.deepcopy(data)
    if new is ADDED:
        inner = at(found, place)
        inner.append(inner[-1] if inner else 0.0)
        return found
    inner, last = at(found, place[:-1]), place[-1]
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
    that has the same numbers made of it, or change places with another count; only those between the points of its
    lattice cannot be. The last rank of keys that were selected may be left out, as it is where a ledger has no room.
    """
    if place[0] != "cells" or len(place) < 2:
        return False
    cells, plan = table["cells"], found.plan
    if "draws" in place[:-1] and isinstance(new, float):
        return 1e-6 < abs(new - cells[place[1]]["draws"][place[3]]) < math.inf
    if "draws" in place[:-1] and new is SWAPPED:  # two counts around a quantile
        return place[3] > 0 and isinstance(plan.query[cells[place[1]]["question"]], RankKind)
    if new is REMOVED and len(place) == 2 and plan.query[cells[place[1]]["question"]].ranked:
        behind = cells[place[1] + 1 : place[1] + 2]
        return not behind or behind[0]["part"] != str(int(cells[place[1]]["part"]) + 1)
    alone = sum(each["key"] == cells[place[1]]["key"] for each in cells) == 1
    selected = alone and plan.private(plan.query[cells[place[1]]["question"]].by)
    return selected and (new is REMOVED if len(place) == 2 else place[2] == "key" and isinstance(new, str))


def is_refused(check):
    try:
        check()
    except CertificateInvalid:
        return True
    return False


def refuses(found, table):
    """Whether another table is refused, with its hash in the certificate: nothing is signed, so anyone can write it."""
    data = published(table)
    text = said({**json.loads(found.certificate), "published": sha256(data)})
    return is_refused(lambda: check_certificate(text, data))


def walk(found, part):
    certificate, table = json.loads(found.certificate), json.loads(found.to_bytes())
    assert check_certificate(said(certificate), published(table)).numbers == len(found.cells)
    tried = 0
    for place, new in part(list(changes(certificate))):
        text = said(changed(certificate, place, new))
        if place[-2:] == ("noise", "scale") and isinstance(new, float):  # another machine may find other last bits
            text = said(certificate) if math.isclose(new, at(certificate, place), rel_tol=1e-9) else text
        if place != ("ledger",) and text != said(certificate):
            assert is_refused(lambda: check_certificate(text, published(table))), ("certificate", place, new)  # noqa: B023
            tried += 1
    for place, new in part(list(changes(table))):
        other = changed(table, place, new)
        if published(other) != published(table) and not is_possible(found, table, place, new):
            assert refuses(found, other), ("table", place, new)
            tried += 1
    return tried


PROTECTING = {"epsilon", "delta", "neighbours", "rows", "own_rows", "period", "public", "how"}
"""Fields that say who is protected, and how well; beside the column of the unit."""


def protects(place):
    return place == ("plan", "unit", "column") or not PROTECTING.isdisjoint(place)


def accepted(found, part, wanted=protects):
    """The places of the plan where a change passes, of those that are wanted, if both hashes are written anew.

    Others pass: the columns, conditions and joins of a plan say what its rows are, which no check without data sees.
    """
    certificate, table = json.loads(found.certificate), json.loads(found.to_bytes())
    for place, new in part([each for each in changes(table["plan"], ("plan",)) if wanted(each[0])]):
        data = published(changed(table, place, new))
        with contextlib.suppress(ArgumentError):  # of an invalid plan
            plan = plan_json(Release.from_bytes(data).plan)
            text = said({**certificate, "published": sha256(data), "plan": sha256(plan.encode())})
            if data != published(table) and not is_refused(lambda: check_certificate(text, data)):  # noqa: B023
                yield place, new


HEAVY = {"replaced", "keys that are drawn", "joins with a private table and a public one"}
HEAVY |= {"local times and periods", "one row per unit in local time"}
SOME = [pytest.param(name, marks=[pytest.mark.slow] * (name in HEAVY)) for name in SHAPES]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", SOME)
def test_changes_of_some_fields_are_refused(name):
    chance = random.Random(name)
    assert walk(plain(name), lambda every: chance.sample(every, 6)) >= 7


def test_a_change_of_any_field_of_a_count_is_refused():
    assert walk(plain("a count"), list) > 200


@pytest.mark.long
@pytest.mark.parametrize(("other", "most"), [({}, 10**9), ({"epsilon": 0.01}, 150), ({"epsilon": 90.0}, 150)], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_a_change_of_any_field_is_refused_with_much_noise_and_with_hardly_any(name, other, most):
    chance = random.Random(name)
    assert walk(made(name, **other), lambda every: chance.sample(every, min(len(every), most))) > 100


@pytest.mark.few(7)
@pytest.mark.parametrize("name", SOME)
def test_nobody_who_writes_both_hashes_changes_who_is_protected_and_how_well(name):
    chance = random.Random(name)
    assert not list(accepted(plain(name), lambda every: chance.sample(every, min(len(every), 2))))


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.01, 90.0])
@pytest.mark.parametrize("name", SHAPES)
def test_nor_at_other_budgets_and_any_field(name, epsilon):
    assert not list(accepted(made(name, epsilon=epsilon), list))


def test_control_what_no_check_can_see_may_be_changed():
    places = {place for place, _ in accepted(made("a count"), list, lambda place: place == ("plan", "title"))}
    assert places == {("plan", "title")}


def test_a_change_of_the_ledger_s_entry_is_refused(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger")
    ledger.open_account("people", epsilon=2.0, delta=0.1)
    found = made("a count", ledger, budget={"epsilon": 1.0, "account": "people"})
    data, certificate = found.to_bytes(), json.loads(found.certificate)

    def check(text):
        check_entry(check_certificate(text, data), data, ledger)

    check(found.certificate)
    places = [each for each in changes(certificate) if each[0][0] == "ledger"]
    assert len(places) > 12
    for place, new in places:
        text = said(changed(certificate, place, new))
        assert text == said(certificate) or is_refused(lambda: check(text)), (place, new)  # noqa: B023


def test_control_a_check_that_leaves_out_the_intervals_is_caught(monkeypatch):
    path = "rangebound.release.output.table_certificate._check_table"
    monkeypatch.setattr(path, lambda release, ready: None)
    with pytest.raises(AssertionError, match="table"):
        walk(made("a count"), lambda every: every)
