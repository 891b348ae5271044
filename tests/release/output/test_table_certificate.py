"""A certificate is checked against all that follows from the plan: nothing else verifies, however it is hashed."""

import itertools
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rangebound.calibration import calibrate
from rangebound.errors import CertificateInvalid
from rangebound.release import Release, check_certificate, make_plan, release
from rangebound.release.noise import publishers
from rangebound.release.output.table import sha256
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.prepare import cells_of, prepare
from tests.release.plans import KINDS, SUPPORTED, WAIT, plan_data
from tests.release.random_plans import random_plan, random_table
from tests.release.test_range import PEOPLE, table
from tests.thinning import some

CLINICS = {"clinic": ["a", "b", "nobody's"]}


@pytest.fixture(scope="module")
def found():
    return release(make_plan(plan_data(["clinic"], KINDS, unit=PEOPLE, keys=CLINICS)), table(50), ledger=None)


def forged(found, data):
    """The certificate of other bytes: nothing is signed, so anyone can write the hash of what they made up."""
    return found.certificate.replace(sha256(found.to_bytes()), sha256(data))


def written(data):
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("seed", some(range(3), of=3))
@pytest.mark.parametrize("keys", [CLINICS, {}], ids=["public keys", "selected keys"])
def test_releases_of_every_kind_verify(keys, seed):
    data = plan_data(["clinic"], SUPPORTED, unit=PEOPLE, keys=keys, consistent=True)
    plan = make_plan({**data, "budget": {"epsilon": 90.0, "delta": 0.1}})
    made = release(plan, table(200, seed), ledger=None)
    assert made.cells
    assert check_certificate(made.certificate, made.to_bytes()).numbers == len(made.cells)


PUBLISHED = json.loads((Path(__file__).parent / "published_tables.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("at", range(len(PUBLISHED)))
def test_tables_that_were_published_by_an_earlier_version_verify(at):
    table, certificate = PUBLISHED[at]["table"], PUBLISHED[at]["certificate"]
    text = json.dumps(certificate, indent=1, sort_keys=True)
    found = check_certificate(text, table.encode())
    assert found.numbers == len(json.loads(table)["cells"])
    data = json.loads(table)  # control: an interval that is longer in its last bit is not that of the table
    data["cells"][0]["upper"] = math.nextafter(data["cells"][0]["upper"], math.inf)
    other = written(data)
    with pytest.raises(CertificateInvalid):
        check_certificate(text.replace(sha256(table.encode()), sha256(other)), other)


@pytest.fixture
def made_elsewhere(monkeypatch):
    """A release on a machine whose calibration ends at this multiple of the scale that is found here."""
    makers = publishers._mechanism, publishers.whole_number, publishers.real_number

    def forget():
        for each in makers:
            each.cache_clear()

    def make(name, factor):
        def calibrated(**asked):
            m = calibrate(**asked)
            return replace(m, noise=replace(m.noise, scale=m.noise.scale * factor))

        query = {"kind": "sum", **WAIT, "mechanism": name, "support": [0, 900]}
        plan = make_plan(plan_data(["clinic"], [query], keys=CLINICS))
        forget()
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(publishers, "calibrate", calibrated)
            found = release(plan, table(50), ledger=None)
        forget()
        return found

    yield make
    forget()


@pytest.mark.parametrize("name", ["truncate Laplace", "truncate Gaussian"])
def test_a_scale_that_another_machine_rounded_otherwise_is_proved_as_it_is_stated(made_elsewhere, name):
    found = made_elsewhere(name, 1.0 + 2.0**-50)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    for factor in (
        1.0 + 1e-8,
        1.0 - 1e-8,
        1.0 - 9e-10,
    ):  # controls: not what calibration finds; less than the claim needs
        found = made_elsewhere(name, factor)
        with pytest.raises(CertificateInvalid, match="less private" if factor == 1.0 - 9e-10 else "queries"):
            check_certificate(found.certificate, found.to_bytes())


def test_the_published_tables_are_of_all_kinds_and_mechanisms():
    plans = [json.loads(each["table"]) for each in PUBLISHED]
    later = {"central range"}  # came after these tables were published
    kinds = {each["kind"] for each in KINDS} - later
    assert {query["kind"] for each in plans for query in each["plan"]["query"]} >= kinds
    words = {name.partition(",")[0] for each in plans for name in each["mechanisms"]}
    assert {"exponential mechanism", "clamped geometric noise", "no mechanism", "rectify Gaussian"} < words
    assert len(words) >= 9


FIELDS = [
    {"value": 4.5},
    {"value": float("inf")},
    {"value": float("nan")},
    {"value": 5},
    {"value": True},
    {"value": "5"},
    {"lower": -99.0},
    {"lower": 1e9},
    {"lower": 9.0, "upper": 3.0, "value": 5.0},
    {"upper": -1.0},
    {"epsilon": 0.0001},
    {"delta": 0.1},
    {"rank_error": 3.0},
    {"key": ["somebody"]},
    {"key": ["a", "b"]},
    {"key": "a"},
    {"question": -1},
    {"question": 99},
    {"part": "<script>"},
    {"exact": 12},
    {"draws": []},
    {"draws": [4.5]},
    {"draws": [-1.0]},
    {"draws": [5.0, 5.0]},
    {"draws": [5]},
    {"draws": 5.0},
    {"draws": None},
    {"draws": [float("inf")]},
    {"draws": [float("nan")]},
    {"draws": [-0.0], "value": 0.0, "lower": 0.0},
]


@pytest.mark.parametrize("change", FIELDS, ids=str)
def test_no_cell_that_the_plan_cannot_give_verifies(found, change):
    data = json.loads(found.to_bytes())
    data["cells"][0] |= change
    with pytest.raises(CertificateInvalid):
        check_certificate(forged(found, written(data)), written(data))


def test_control_another_draw_that_the_mechanism_can_give_verifies(found):
    plan = found.plan
    keys = [(key,) for key in CLINICS["clinic"]]
    drawn = [[(5.0,)], [(0.0,)], [(7.0,)]]
    first = cells_of(prepare(plan), {0: keys}, {0: drawn})
    data = Release(plan=plan, cells=(*first, *found.cells[3:]), mechanisms=found.mechanisms).to_bytes()
    assert data != found.to_bytes()
    check_certificate(forged(found, data), data)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["cells"].pop(),
        lambda data: data["cells"].clear(),
        lambda data: data["cells"].reverse(),
        lambda data: data.update(cells=data["cells"] * 3),
        lambda data: data.update(cells=None),
        lambda data: data.update(mechanisms=["exact!"] * 12),
        lambda data: data["mechanisms"].pop(),
        lambda data: data.update(exact_rows=[1, 2]),
        lambda data: data["plan"].update(level=2.0),
    ],
)
def test_no_other_table_verifies(found, change):
    data = json.loads(found.to_bytes())
    change(data)
    with pytest.raises(CertificateInvalid):
        check_certificate(forged(found, written(data)), written(data))


@pytest.mark.parametrize(
    "data",
    [lambda data: b'{"cells":[],' + data[1:], lambda data: data + b"\n", lambda _: b"\xff", lambda _: b"[" * 10**5],
)
def test_no_other_bytes_verify(found, data):
    other = data(found.to_bytes())
    with pytest.raises(CertificateInvalid):
        check_certificate(forged(found, other), other)


@pytest.mark.parametrize(
    "change",
    [
        {"note": "certified"},
        {"epsilon": True},
        {"queries": None},
        {"queries": [None] * 12},
        {"ledger": [1]},
        {"ledger": {"account": 1, "request": "r", "head": "h"}},
        {"ledger": {}},
    ],
    ids=str,
)
def test_no_other_certificate_verifies(found, change):
    data = {**json.loads(found.certificate), **change}
    with pytest.raises(CertificateInvalid):
        check_certificate(json.dumps(data, indent=1, sort_keys=True), found.to_bytes())


def test_a_charge_to_another_account_than_the_plan_s_is_refused(found):
    entry = {"account": "another", "request": "r", "head": "h"}
    data = {**json.loads(found.certificate), "ledger": entry}
    with pytest.raises(CertificateInvalid, match="ledger: is not the account of the plan"):
        check_certificate(json.dumps(data, indent=1, sort_keys=True), found.to_bytes())


@pytest.mark.parametrize("text", ["[" * 10**5, "[]", '"ledger"', "\ufffd"])
def test_what_is_no_certificate_is_refused_in_one_way(found, text):
    with pytest.raises(CertificateInvalid, match="cannot be read"):
        check_certificate(text, found.to_bytes())


def test_parts_are_told_apart_however_near_they_are():
    levels = {"kind": "quantiles", **WAIT, "levels": [0.1234567, 0.1234568]}
    bins = {"kind": "histogram", "column": "wait", "range": [1e6, 1e6 + 10], "bins": 4}
    plan = make_plan(plan_data([], [levels, bins], unit=PEOPLE))
    made = release(plan, table(9), ledger=None)
    assert [cell.part for cell in made.cells] == [*plan.query[0].parts, *plan.query[1].parts]
    assert len({cell.part for cell in made.cells}) == 6
    assert Histogram(name="h", **WAIT, bins=2).parts == ("0 to 50", "50 to 100")


ROWS = pa.table({"u": [1, 1, 2, 3] * 20, "x": [0.5, 0.7, 0.2, 0.9] * 20, "s": ["a", "b"] * 40})
SIZE = {"neighbours": "replace", "size": 80}
X = {"column": "x", "range": [0, 1]}
SOME = {"where": [{"column": "s", "is": "==", "value": "a"}]}


def at(value, **more):
    """Every number said to be `value`, exactly, and to have been drawn so."""
    return {"value": value, "lower": value, "upper": value, "draws": [value]} | more


IMPOSSIBLE = {
    "another count than the public one": (SIZE, {"kind": "count"}, at(7.0)),
    "more rows than the public size": (SIZE, {"kind": "count", **SOME}, at(1e6)),
    "the interval of a count without width": ({}, {"kind": "count"}, at(5.0)),
    "a sum off its lattice": ({}, {"kind": "sum", **X}, at(12.3456789012345)),
    "a sum off its step": ({}, {"kind": "sum", **X, "step": 0.25}, at(12.3)),
    "a count in a gap": ({}, {"kind": "count", "support": [[0, 10], [20, 30]]}, at(15.0)),
    "a median off its grid": ({}, {"kind": "median", **X}, at(0.50001, draws=[0.50001, 0.0, 1.0])),
    "a median with a narrower interval than was drawn": ({}, {"kind": "median", **X}, {"lower": 0.5, "upper": 0.5}),
    "a median without draws for its interval": ({}, {"kind": "median", **X}, at(0.5)),
    "an interval where nothing was spent on one": ({}, {"kind": "median", **X, "interval_share": 0.0}, at(0.5)),
    "the end of an interval where none can be": (
        {},
        {"kind": "median", **X},
        {"draws": [0.5, 0.31, 0.71], "value": 0.5, "lower": 0.31, "upper": 0.71},
    ),
    "the interval of a mean without width": ({}, {"kind": "mean", **X}, {"value": 0.25, "lower": 0.25, "upper": 0.25}),
    "a mean of two coordinates from one": ({}, {"kind": "mean", **X}, at(0.25)),
    "a share above its coordinates": ({}, {"kind": "share", "of": SOME["where"]}, {"value": 1.0, "upper": 1.0}),
}


@pytest.mark.parametrize(("unit", "question", "change"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_table_is_refused(unit, question, change):
    plan = make_plan({"budget": {"epsilon": 1.0}, "unit": unit, "query": [{"name": "q", **question}]})
    made = release(plan, ROWS, ledger=None)
    check_certificate(made.certificate, made.to_bytes())
    data = json.loads(made.to_bytes())
    data["cells"] = [cell | change for cell in data["cells"]]
    with pytest.raises(CertificateInvalid, match=r"queries\[0\]"):
        check_certificate(forged(made, written(data)), written(data))


def test_quantiles_that_fall_are_refused_where_they_must_rise():
    levels = {"name": "q", "kind": "quantiles", **X, "levels": [0.25, 0.75], "interval_share": 0.0}
    plan = make_plan({"budget": {"epsilon": 1.0}, "consistent": True, "query": [levels]})
    made = release(plan, ROWS, ledger=None)

    def told(order):
        data = json.loads(made.to_bytes())
        for cell, draw, value in zip(data["cells"], (0.9, 0.1), order, strict=True):
            cell |= {"draws": [draw], "value": value}
        check_certificate(forged(made, written(data)), written(data))

    told((0.1, 0.9))
    with pytest.raises(CertificateInvalid, match="follow"):
        told((0.9, 0.1))


NARROW = {
    "a count in less than a unit has rows": ({"column": "u", "rows": 10}, {"kind": "count", "support": [0, 5]}),
    "a sum in less than one row's reach": ({}, {"kind": "sum", "column": "x", "range": [0, 120], "support": [0, 100]}),
    "with a gap": ({"column": "u", "rows": 99}, {"kind": "count", "support": [[0, 5], [20, 30]]}),
}


@pytest.mark.parametrize(("unit", "question"), NARROW.values(), ids=NARROW)
def test_a_support_narrower_than_what_a_unit_moves_verifies(unit, question):
    plan = make_plan({"budget": {"epsilon": 1.0}, "unit": unit, "query": [{"name": "q", **question}]})
    made = release(plan, ROWS, ledger=None)
    check_certificate(made.certificate, made.to_bytes())


def leaves(data, place=()):
    """The places of all that is no list and no mapping, and of lists that are empty."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    found = [each for name, value in items for each in leaves(value, (*place, name))]
    return found or [place]


def changed(data, place, new):
    """A copy of plain data with another value at a place."""
    copy = json.loads(json.dumps(data))
    *outer, last = place
    inner = copy
    for name in outer:
        inner = inner[name]
    inner[last] = new
    return copy


def value_at(data, place):
    for name in place:
        data = data[name]
    return data


def others(value):
    """Hand-made changes of a value: each is wrong whatever was drawn."""
    if isinstance(value, float):
        up, down = math.nextafter(value, math.inf), math.nextafter(value, -math.inf)
        return [up, down, -value or -0.0, value + 1e-6, math.nan, math.inf, -math.inf, str(value), None, [value], True]
    if isinstance(value, str):
        return [value + " ", value.upper() + "x", "", 0, None, [value], {"": value}]
    if isinstance(value, int):
        return [value + 1, -1, float(value), str(value), None, True]
    return [0.0, 1, "", [0.0], {}]


def is_possible(plan, table, place, new):
    """Whether a change gives another table that might have been: a privately selected key may be any text."""
    if repr(value_at(table, place)) == repr(new):
        return True
    if place[0] != "cells" or "key" not in place:
        return False
    return plan.private(plan.query[table["cells"][place[1]]["question"]].by) and isinstance(new, str)


@pytest.mark.parametrize("seed", some(range(400), of=50))
def test_a_release_of_a_random_plan_verifies_and_no_changed_one_does(seed):
    source = random.Random(seed)
    plan, rows = make_plan(random_plan(source)), random_table(source)
    made = release(plan, rows, ledger=None)
    assert check_certificate(made.certificate, made.to_bytes()).numbers == len(made.cells)
    table, certificate = json.loads(made.to_bytes()), json.loads(made.certificate)
    parts = [place for place in leaves(table) if place[0] != "plan"]
    for place in source.sample(parts, min(len(parts), 8)):
        for new in source.sample(others(value_at(table, place)), 2):
            if not is_possible(plan, table, place, new):
                data = written(changed(table, place, new))
                with pytest.raises(CertificateInvalid):
                    check_certificate(forged(made, data), data)
    for place in source.sample(leaves(certificate), 4):
        new = source.choice(others(value_at(certificate, place)))
        if place != ("ledger",):
            text = json.dumps(changed(certificate, place, new), indent=1, sort_keys=True)
            with pytest.raises(CertificateInvalid):
                check_certificate(text, made.to_bytes())


def test_a_table_in_which_no_key_was_selected_verifies_and_no_changed_one_does():
    plan = make_plan(plan_data(["clinic"], [{"kind": "count"}], unit=PEOPLE))
    made = release(plan, table(0), ledger=None)
    assert check_certificate(made.certificate, made.to_bytes()).numbers == len(made.cells) == 0
    data = json.loads(made.to_bytes())
    places = [place for place in leaves(data) if place[0] != "plan"]
    assert ("cells",) in places
    for place in places:
        for new in others(value_at(data, place)):
            if not is_possible(plan, data, place, new):
                other = written(changed(data, place, new))
                with pytest.raises(CertificateInvalid):
                    check_certificate(forged(made, other), other)


@pytest.mark.long
def test_no_change_of_any_field_verifies():
    plan = make_plan(plan_data([], SUPPORTED, unit=PEOPLE, consistent=True))
    made = release(plan, table(50), ledger=None)
    data, certificate = json.loads(made.to_bytes()), json.loads(made.certificate)
    for place in leaves(data):
        for new in others(value_at(data, place))[:2]:
            if not is_possible(plan, data, place, new):
                other = written(changed(data, place, new))
                with pytest.raises(CertificateInvalid):
                    check_certificate(forged(made, other), other)
    for place in leaves(certificate):
        for new in others(value_at(certificate, place))[:2]:
            text = json.dumps(changed(certificate, place, new), indent=1, sort_keys=True)
            with pytest.raises(CertificateInvalid):
                check_certificate(text, made.to_bytes())


def test_a_table_that_would_take_long_is_refused_and_told_the_limit(found):
    text, data = found.certificate, found.to_bytes()
    with pytest.raises(CertificateInvalid, match=r"takes \d+ steps .*, where 100 are allowed"):
        check_certificate(text, data, work=100.0)
    assert check_certificate(text, data, work=math.inf) == check_certificate(text, data)
    with pytest.raises(CertificateInvalid, match="steps"):
        check_certificate(text + " " * 10**8, data)


@pytest.mark.parametrize("spans", [40, 1000])
def test_a_plan_whose_mechanism_takes_long_to_find_is_refused(within, found, spans):
    support = [[20 * each, 20 * each + 10] for each in range(spans)]
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "q", "kind": "count", "support": support}]})
    data = Release(plan=plan, cells=(), mechanisms=("x",)).to_bytes()
    with within(10.0), pytest.raises(CertificateInvalid, match="steps"):
        check_certificate(forged(found, data), data)


def test_plans_of_many_different_mechanisms_are_refused(within, found):
    counts = [{"name": f"q{each}", "kind": "count", "weight": 1.0 + each} for each in range(1000)]
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": counts})
    data = Release(plan=plan, cells=(), mechanisms=("x",) * 1000).to_bytes()
    with within(20.0), pytest.raises(CertificateInvalid, match="steps"):
        check_certificate(forged(found, data), data)


def test_a_plan_of_many_groups_without_numbers_is_refused_before_they_are_listed(within, found):
    orders = itertools.islice(itertools.permutations("abcdefgh"), 1000)
    counts = [{"name": f"q{at}", "kind": "count", "by": list(by)} for at, by in enumerate(orders)]
    keys = {column: ["1", "2", "3", "4"] for column in "abcdefgh"}
    plan = make_plan({"budget": {"epsilon": 1.0}, "keys": keys, "query": counts})
    data = Release(plan=plan, cells=(), mechanisms=("x",) * 1000).to_bytes()
    with within(10.0), pytest.raises(CertificateInvalid, match="steps"):
        check_certificate(forged(found, data), data)
