"""A certificate is checked against all that follows from the plan: nothing else verifies, however it is hashed."""

import json
from dataclasses import replace

import pytest

from rangebound.errors import CertificateInvalid
from rangebound.release import Release, check_certificate, make_plan, release
from rangebound.release.answer import parts
from rangebound.release.question import Histogram
from rangebound.release.result import sha256
from tests.release.plans import KINDS, SUPPORTED, WAIT, plan_data
from tests.release.test_range import PEOPLE, table

CLINICS = {"clinic": ["a", "b", "nobody's"]}


@pytest.fixture(scope="module")
def found():
    return release(make_plan(plan_data(["clinic"], KINDS, unit=PEOPLE, keys=CLINICS)), table(50), ledger=None)


def forged(found, data):
    """The certificate of other bytes: nothing is signed, so anyone can write the hash of what they made up."""
    return found.certificate.replace(sha256(found.to_bytes()), sha256(data))


def written(data):
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("keys", [CLINICS, {}], ids=["public keys", "selected keys"])
def test_releases_of_every_kind_verify(keys):
    data = plan_data(["clinic"], SUPPORTED, unit=PEOPLE, keys=keys, consistent=True)
    plan = make_plan({**data, "budget": {"epsilon": 90.0, "delta": 0.1}})
    for seed in range(3):
        made = release(plan, table(200, seed), ledger=None)
        assert made.cells
        assert check_certificate(made.certificate, made.to_bytes()).numbers == len(made.cells)


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
]


@pytest.mark.parametrize("change", FIELDS, ids=str)
def test_no_cell_that_the_plan_cannot_give_verifies(found, change):
    data = json.loads(found.to_bytes())
    data["cells"][0] |= change
    with pytest.raises(CertificateInvalid):
        check_certificate(forged(found, written(data)), written(data))


def test_control_a_cell_that_the_plan_can_give_verifies(found):
    cells = (replace(found.cells[0], value=5.0, lower=3.0, upper=9.0), *found.cells[1:])
    data = Release(plan=found.plan, cells=cells, mechanisms=found.mechanisms).to_bytes()
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


@pytest.mark.parametrize("text", ["[" * 10**5, "[]", '"ledger"', "\ufffd"])
def test_what_is_no_certificate_is_refused_in_one_way(found, text):
    with pytest.raises(CertificateInvalid, match="cannot be read"):
        check_certificate(text, found.to_bytes())


def test_parts_are_told_apart_however_near_they_are():
    levels = {"kind": "quantiles", **WAIT, "levels": [0.1234567, 0.1234568]}
    bins = {"kind": "histogram", "column": "wait", "range": [1e6, 1e6 + 10], "bins": 4}
    plan = make_plan(plan_data([], [levels, bins], unit=PEOPLE))
    made = release(plan, table(9), ledger=None)
    assert [cell.part for cell in made.cells] == [*parts(plan.query[0]), *parts(plan.query[1])]
    assert len({cell.part for cell in made.cells}) == 6
    assert parts(Histogram(name="h", **WAIT, bins=2)) == ["0 to 50", "50 to 100"]
