"""Means, shares, counts and sums by optimal tables: what may be asked, what is refused and why, and what comes out."""

import json

import numpy as np
import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid
from rangebound.ledger.book import Ledger
from rangebound.mechanisms.finite import Table
from rangebound.release import Release, check_certificate, explain, forecast, make_plan, release
from rangebound.release.noise import table_publisher
from rangebound.release.output.plan_facts import sha256

ALL = {"neighbours": "replace", "size": 12}
ROWS = [{"x": float(at % 7), "k": "ab"[at % 3 == 0]} for at in range(12)]
TABLE = pa.table({name: [row[name] for row in ROWS] for name in ("x", "k")})
X = {"column": "x", "range": [0, 6]}


def plan(*asked, unit=None, epsilon=1.0, delta=0.0, **more):
    query = [{"name": f"q{at}", "mechanism": "optimal", **each} for at, each in enumerate(asked)]
    return make_plan({"unit": unit or {}, "budget": {"epsilon": epsilon, "delta": delta}, "query": query, **more})


def drawn(*asked, **more):
    return release(plan(*asked, **more), TABLE, ledger=None)


ASKED = [
    {"kind": "count", "where": "x > 3"},
    {"kind": "share", "of": "x > 3"},
    {"kind": "mean", **X, "missing": 0.0},
    {"kind": "sum", **X, "support": [20, 44]},
]


def exact(name):
    x = np.array([row["x"] for row in ROWS])
    return {"q0": (x > 3).sum(), "q1": (x > 3).mean(), "q2": x.mean(), "q3": x.sum()}[name]


HALF_CELLS = {"q0": 0.0, "q1": 0.0, "q2": 6 / 12 / 2 / 5, "q3": 6 / 2 / 8}
"""Half the distance of two inputs, on the scale of the answer: an output is as near to an answer, or twice that."""


@pytest.fixture
def without_noise(monkeypatch):
    """Tables that publish the output nearest to the input to which a true answer goes."""

    def nearest(self, answers):
        outputs = np.array(self.outputs)
        return outputs[np.abs(np.subtract.outer(np.asarray(answers), outputs)).argmin(axis=1)]

    monkeypatch.setattr(Table, "release", nearest)


@pytest.mark.claim("answer")
@pytest.mark.usefixtures("without_noise")
def test_without_noise_the_numbers_are_those_of_numpy():
    for row in drawn(*ASKED, unit=ALL).rows():
        assert abs(row["value"] - exact(row["query"])) <= 2 * HALF_CELLS[row["query"]] + 1e-12, row
        assert row["lower"] <= exact(row["query"]) <= row["upper"], row


def test_selected_keys_and_a_gaussian_account_take_tables_as_pure_parts():
    asked = [{"kind": "count", "support": [0, 25], "by": ["k"]}, {"kind": "mean", **X, "mechanism": None}]
    found = drawn(*asked, epsilon=3.0, delta=0.01)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    assert {row["delta"] for row in found.rows() if row["query"] == "q0"} <= {0.0}


def test_numbers_lie_in_their_intervals_and_are_explained_and_forecast_before_any_data():
    found = drawn(*ASKED, unit=ALL)
    for row in found.rows():
        assert row["lower"] <= row["value"] <= row["upper"]
        assert row["bias"] is not None
    made = found.plan
    assert "by optimal table, 13 inputs and 13 outputs" in explain(made)
    first = forecast(made)[0]
    assert first.half_width is None
    assert first.above_limit < 0.1
    assert first.error_at_half_epsilon > 1.0 > 0.8 > first.error_at_twice_epsilon


def forged(found, change):
    """The bytes and the certificate of a table that somebody changed, with all hashes written anew."""
    data, certificate = json.loads(found.to_bytes()), json.loads(found.certificate)
    change(data)
    raw = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    other = Release.from_bytes(raw)
    for at, table in other.tables.items():
        text = json.dumps(table.to_dict(), sort_keys=True, separators=(",", ":"))
        certificate["queries"][at]["mechanism"] = {"optimal": {"table": sha256(text.encode())}}
    certificate["published"] = sha256(raw)
    return json.dumps(certificate, indent=1, sort_keys=True), raw


def test_a_table_that_is_less_private_is_refused_whoever_writes_the_hashes():
    found, sharp = drawn(ASKED[0], unit=ALL), drawn(ASKED[0], unit=ALL, epsilon=1.01)
    assert check_certificate(*forged(found, lambda data: None)).numbers == 1  # control: with all hashes written anew
    sharper = json.loads(sharp.to_bytes())["tables"]
    with pytest.raises(CertificateInvalid, match=r"queries\[0\]: has a table that is less private than it says"):
        check_certificate(*forged(found, lambda data: data.update(tables=sharper)))


def test_a_missing_table_and_one_too_many_are_refused():
    found = drawn(ASKED[0], unit=ALL)
    with pytest.raises(CertificateInvalid, match="tables: are not those"):
        check_certificate(*forged(found, lambda data: data.pop("tables")))
    two = drawn(ASKED[0], {"kind": "count", "where": "x > 4", "mechanism": None}, unit=ALL)

    def more(data):
        data["tables"]["q1"] = data["tables"]["q0"]

    with pytest.raises(CertificateInvalid, match="tables: are not those"):
        check_certificate(*forged(two, more))


@pytest.mark.few(4)
@pytest.mark.parametrize("tables", [[], 1, 1e400, True, None, "q0", [["q0", 1]], {"q0": None}], ids=repr)
def test_tables_that_are_no_mapping_are_refused(tables):
    found = drawn(ASKED[0], unit=ALL)
    data = json.dumps({**json.loads(found.to_bytes()), "tables": tables}, sort_keys=True, separators=(",", ":"))
    with pytest.raises(CertificateInvalid):
        check_certificate(found.certificate, data.encode())


def test_a_check_computes_no_table(monkeypatch):
    found = drawn(*ASKED[:2], unit=ALL)
    monkeypatch.setattr(table_publisher, "solved", None)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == 2
    assert Release.from_bytes(found.to_bytes()).rows() == found.rows()
    without = json.loads(found.certificate)
    without["queries"] = []
    with pytest.raises(CertificateInvalid, match="queries"):
        check_certificate(json.dumps(without), found.to_bytes())


def test_a_request_that_was_published_keeps_its_table(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger")
    ledger.open_account("people", epsilon=2.0)
    asked = {"name": "q0", "kind": "count", "support": [0, 25], "mechanism": "optimal"}
    made = make_plan({"budget": {"epsilon": 1.0, "account": "people"}, "query": [asked]})
    first = release(made, TABLE, ledger=ledger, request="one")

    def other(query, support, epsilon, step):  # as another machine might round it
        return table_publisher.optimal(query=query, epsilon=0.999 * epsilon)

    monkeypatch.setattr(table_publisher, "solved", other)
    again = release(made, TABLE, ledger=ledger, request="one")
    assert again.to_bytes() == first.to_bytes()
    assert again.tables == first.tables
    assert check_certificate(again.certificate, again.to_bytes()).numbers == 1
    assert release(made, TABLE, ledger=ledger, request="two").tables != first.tables
