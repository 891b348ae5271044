"""A certificate is checked against all that follows from the plan: nothing else verifies, however it is hashed."""

import itertools
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid
from rangebound.mechanisms.calibration import calibrate
from rangebound.release import Release, check_certificate, make_plan, release
from rangebound.release.noise import publishers
from rangebound.release.output.plan_facts import sha256
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.prepare import cells_of, prepare
from tests.release.output.asked import asked, released
from tests.release.output.test_certificate_fields import published, refuses, said, walk
from tests.release.plans import KINDS, SUPPORTED, WAIT, plan_data
from tests.release.random_plans import random_plan, random_table
from tests.release.test_range import PEOPLE, table
from tests.thinning import some

CLINICS = {"clinic": ["a", "b", "nobody's"]}


@pytest.fixture(scope="session")
def found():
    return release(make_plan(plan_data(["clinic"], KINDS, unit=PEOPLE, keys=CLINICS)), table(50), ledger=None)


def forged(found, table):
    """The certificate of another table: nothing is signed, so anyone can write the hash of what they made up."""
    data = table if isinstance(table, bytes) else published(table)
    return found.certificate.replace(sha256(found.to_bytes()), sha256(data))


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", some(range(3), of=3))
@pytest.mark.parametrize("keys", [CLINICS, {}], ids=["public keys", "selected keys"])
def test_releases_of_every_kind_verify(keys, seed):
    data = plan_data(["clinic"], SUPPORTED, unit=PEOPLE, keys=keys, consistent=True)
    plan = make_plan({**data, "budget": {"epsilon": 90.0, "delta": 0.1}})
    made = release(plan, table(200, seed), ledger=None)
    assert made.cells
    assert check_certificate(made.certificate, made.to_bytes()).numbers == len(made.cells)


PUBLISHED = json.loads((Path(__file__).parent / "published_tables.json").read_text(encoding="utf-8"))


@pytest.mark.few(6)
@pytest.mark.parametrize("at", range(len(PUBLISHED)))
def test_tables_that_were_published_by_an_earlier_version_verify_and_have_the_new_columns(at):
    table, text = PUBLISHED[at]["table"].encode(), said(PUBLISHED[at]["certificate"])
    data = json.loads(table)
    assert check_certificate(text, table).numbers == len(data["cells"])
    found = Release.from_bytes(table)
    assert [row["unbiased"] for row in found.rows()] == [None] * len(found.cells)
    assert found.to_bytes() == table
    data["cells"][0]["upper"] = math.nextafter(data["cells"][0]["upper"], math.inf)  # control: the last bit
    with pytest.raises(CertificateInvalid):
        check_certificate(text.replace(sha256(table), sha256(published(data))), published(data))


def made_elsewhere(monkeypatch, name, factor):
    """A release on a machine whose calibration ends at this multiple of the scale that is found here."""

    def calibrated(**given):
        m = calibrate(**given)
        return replace(m, noise=replace(m.noise, scale=m.noise.scale * factor))

    makers = publishers._mechanism, publishers.one_coordinate
    question = {"kind": "sum", **WAIT, "mechanism": name, "support": [0, 900]}
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(publishers, "calibrate", calibrated)
        for each in makers:
            each.cache_clear()
        found = release(make_plan(plan_data(["clinic"], [question], keys=CLINICS)), table(50), ledger=None)
    for each in makers:
        each.cache_clear()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["truncate Laplace", "truncate Gaussian"])
def test_a_scale_that_another_machine_rounded_otherwise_is_proved_as_it_is_stated(monkeypatch, name):
    found = made_elsewhere(monkeypatch, name, 1.0 + 2.0**-50)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    # controls: not what calibration finds; less than the claim needs
    for factor in (1.0 + 1e-8, 1.0 - 1e-8, 1.0 - 9e-10):
        found = made_elsewhere(monkeypatch, name, factor)
        with pytest.raises(CertificateInvalid, match="less private" if factor == 1.0 - 9e-10 else "queries"):
            check_certificate(found.certificate, found.to_bytes())


FIELDS = [
    {"lower": 9.0, "upper": 3.0, "value": 5.0},
    {"key": ["somebody"]},
    {"key": ["a", "b"]},
    {"key": "a"},
    {"draws": [12345.0]},  # farther out than chance goes; far below, it may give the same number, clamped
    {"draws": [-0.0], "value": 0.0, "lower": 0.0},
]
TABLES = [
    *(lambda data, change=change: data["cells"][0].update(change) for change in FIELDS),
    lambda data: data.update(cells=data["cells"] * 3),
    lambda data: data.update(cells=None),
]


@pytest.mark.parametrize("change", TABLES)
def test_no_table_that_the_plan_cannot_give_verifies(found, change):
    data = json.loads(found.to_bytes())
    change(data)
    assert refuses(found, data)


@pytest.mark.parametrize(
    "data",
    [lambda data: b'{"cells":[],' + data[1:], lambda data: data + b"\n", lambda _: b"\xff", lambda _: b"[" * 10**5],
)
def test_no_other_bytes_verify(found, data):
    other = data(found.to_bytes())
    with pytest.raises(CertificateInvalid):
        check_certificate(forged(found, other), other)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queries": None}, None),
        ({"queries": [None] * 12}, None),
        ({"ledger": [1]}, None),
        ({"ledger": {"account": 1, "request": "r", "head": "h"}}, None),
        ({"ledger": {"account": "another", "request": "r", "head": "h"}}, "is not the account of the plan"),
        ({"ledger": {}}, None),
        *((text, "cannot be read") for text in ("[" * 10**5, "[]", '"ledger"', "\ufffd")),
    ],
    ids=lambda each: str(each)[:50],
)
def test_no_other_certificate_verifies(found, change, words):
    text = change if isinstance(change, str) else said({**json.loads(found.certificate), **change})
    with pytest.raises(CertificateInvalid, match=words):
        check_certificate(text, found.to_bytes())


def test_control_another_draw_that_the_mechanism_can_give_verifies(found):
    plan = found.plan
    keys = [(key,) for key in CLINICS["clinic"]]
    drawn = [[(5.0,)], [(0.0,)], [(7.0,)]]
    first = cells_of(prepare(plan), {0: keys}, {0: drawn})
    data = Release(plan=plan, cells=(*first, *found.cells[3:]), mechanisms=found.mechanisms).to_bytes()
    assert data != found.to_bytes()
    check_certificate(forged(found, data), data)


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


@pytest.mark.few(6)
@pytest.mark.parametrize(("unit", "question", "change"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_table_is_refused(unit, question, change):
    made = released(asked(question, unit=unit), ROWS)
    check_certificate(made.certificate, made.to_bytes())
    data = json.loads(made.to_bytes())
    data["cells"] = [cell | change for cell in data["cells"]]
    with pytest.raises(CertificateInvalid, match=r"queries\[0\]"):
        check_certificate(forged(made, data), published(data))


def test_quantiles_that_fall_are_refused_where_they_must_rise():
    levels = {"kind": "quantiles", **X, "levels": [0.25, 0.75], "interval_share": 0.0}
    made = released(asked(levels, consistent=True), ROWS)

    def told(order):
        data = json.loads(made.to_bytes())
        for cell, draw, value in zip(data["cells"], (0.9, 0.1), order, strict=True):
            cell |= {"draws": [draw], "value": value}
        check_certificate(forged(made, data), published(data))

    told((0.1, 0.9))
    with pytest.raises(CertificateInvalid, match="follow"):
        told((0.9, 0.1))


NARROW = {
    "a count in less than a unit has rows": ({"column": "u", "rows": 10}, {"kind": "count", "support": [0, 5]}),
    "a sum in less than one row's reach": ({}, {"kind": "sum", "column": "x", "range": [0, 120], "support": [0, 100]}),
    "with a gap": ({"column": "u", "rows": 99}, {"kind": "count", "support": [[0, 5], [20, 30]]}),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("unit", "question"), NARROW.values(), ids=NARROW)
def test_a_support_narrower_than_what_a_unit_moves_verifies(unit, question):
    made = released(asked(question, unit=unit), ROWS)
    check_certificate(made.certificate, made.to_bytes())


def numbers_alone(every):
    """The changes that do not concern the plan, whose hash is another."""
    return [each for each in every if each[0][0] != "plan" or len(each[0]) == 1]


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", some(range(400), of=50))
def test_a_release_of_a_random_plan_verifies_and_no_changed_one_does(seed):
    source = random.Random(seed)
    plan, rows = make_plan(random_plan(source)), random_table(source)
    walk(release(plan, rows, ledger=None), lambda every: source.sample(numbers_alone(every), 12))


@pytest.mark.slow
def test_a_table_in_which_no_key_was_selected_verifies_and_no_changed_one_does():
    plan = make_plan(plan_data(["clinic"], [{"kind": "count"}], unit=PEOPLE))
    made = release(plan, table(0), ledger=None)
    assert not made.cells
    assert walk(made, numbers_alone) > 50


def test_a_table_that_would_take_long_is_refused_and_told_the_limit(found):
    text, data = found.certificate, found.to_bytes()
    with pytest.raises(CertificateInvalid, match=r"takes \d+ steps .*, where 100 are allowed"):
        check_certificate(text, data, work=100.0)
    assert check_certificate(text, data, work=math.inf) == check_certificate(text, data)
    with pytest.raises(CertificateInvalid, match="steps"):
        check_certificate(text + " " * 10**8, data)


def test_the_letters_of_expressions_are_counted_before_any_is_read(found, monkeypatch):
    where = [{"column": "x", "is": "in", "value": ["a" * 100] * 100}]  # these are not
    plan = asked({**COUNT, "where": where}, columns={f"m{at}": "+".join(["x"] * 55) for at in range(40)})
    data = Release(plan=plan, cells=(), mechanisms=("x",)).to_bytes()
    monkeypatch.setattr(Release, "from_bytes", lambda _: pytest.fail("read"))
    with pytest.raises(CertificateInvalid, match="takes 22 steps"):
        check_certificate(forged(found, data), data, work=10.0)


COUNT = {"kind": "count"}
ORDERS = itertools.islice(itertools.permutations("abcdefgh"), 1000)
LONG = {
    "40 spans": [COUNT | {"support": [[20 * each, 20 * each + 10] for each in range(40)]}],
    "many groups without numbers": [COUNT | {"by": list(by)} for by in ORDERS],
    "1000 spans": [COUNT | {"support": [[20 * each, 20 * each + 10] for each in range(1000)]}],
    "many mechanisms": [COUNT | {"weight": 1.0 + each} for each in range(1000)],
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", LONG)
def test_a_plan_that_takes_long_to_prepare_is_refused_before(within, found, name):
    keys = {column: ["1", "2", "3", "4"] for column in LONG[name][0].get("by", ())}
    plan = asked(*LONG[name], keys=keys)
    data = Release(plan=plan, cells=(), mechanisms=("x",) * len(plan.query)).to_bytes()
    with within(10.0), pytest.raises(CertificateInvalid, match="steps"):
        check_certificate(forged(found, data), data)
