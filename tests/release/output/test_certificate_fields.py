"""Every field of certificates and tables, changed by hand: numbers by one bit, texts, fields that are missing or added.

There is a plan of every shape. A change is refused, though whoever makes it writes the hash of what they made up into
the certificate; but for keys that were selected privately, which may be any texts.
"""

import copy
import datetime
import json
import math
import random

import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid
from rangebound.ledger.book import Ledger
from rangebound.release import check_certificate, check_entry, make_plan, release
from rangebound.release.output.table import sha256

DAYS = [datetime.date(2025, 1, 30) + datetime.timedelta(days=at) for at in range(4)]
KEYS = {"sex": ["f", "m"], "city": ["a", "b", "c"], "day": DAYS}
LEVELS = [{"name": "region", "members": {"west": ["a", "c"], "east": ["b"]}}]
PEOPLE = {"column": "person", "rows": 2, "groups": 6}
X = {"column": "x", "range": [0, 10]}
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
        }
    )


def made(name, ledger=None):
    budget, unit, asked, more = SHAPES[name]
    queries = [{"name": f"q{at}", **each} for at, each in enumerate(asked)]
    used = {column for each in asked for column in each.get("by", [])}
    keys = {column: own for column, own in KEYS.items() if column in used}
    account = {"account": "people"} if ledger else {}
    plan = make_plan({"unit": unit, "budget": {**budget, **account}, "keys": keys, "query": queries, **more})
    cities = {"cities": pa.table({"code": ["a", "b"], "name": ["A", "B"]})}
    return release(plan, table(), ledger=ledger, request="one" if ledger else None, tables=cities)


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


REMOVED, ADDED = object(), object()


def changed(data, place, new):
    """A copy with another value at a place, or without it, or with one more behind the last."""
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
    that has the same numbers made of it; only those between the points of its lattice cannot be.
    """
    if place[0] != "cells" or len(place) < 2:
        return False
    cells, plan = table["cells"], found.plan
    if "draws" in place and isinstance(new, float):
        return abs(new - cells[place[1]]["draws"][place[3]]) > 1e-6
    alone = sum(each["key"] == cells[place[1]]["key"] for each in cells) == 1
    selected = alone and plan.private(plan.query[cells[place[1]]["question"]].by)
    return selected and (new is REMOVED if len(place) == 2 else place[2] == "key" and isinstance(new, str))


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
        if place != ("ledger",) and text != said(certificate):
            assert is_refused(lambda: check_certificate(text, published(table))), ("certificate", place, new)  # noqa: B023
            tried += 1
    for place, new in part(list(changes(table))):
        data = published(changed(table, place, new))
        text = said({**certificate, "published": sha256(data)})
        if data != published(table) and not is_possible(found, table, place, new):
            assert is_refused(lambda: check_certificate(text, data)), ("table", place, new)  # noqa: B023
            tried += 1
    return tried


@pytest.mark.parametrize("name", SHAPES)
def test_changes_of_some_fields_are_refused(name):
    chance = random.Random(name)
    assert walk(made(name), lambda every: chance.sample(every, 10)) >= 12


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_a_change_of_any_field_is_refused(name):
    tried = walk(made(name), lambda every: every)
    print(name, tried)
    assert tried > 200


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
