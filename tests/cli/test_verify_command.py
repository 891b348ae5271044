"""A certificate that somebody has sent is proved again by one command, whatever it is about."""

import dataclasses
import json
import re

import pytest

import rangebound as rb
from rangebound.cli import verify_command
from rangebound.ledger.book import Ledger
from tests.cli.visits import PLAN

COUNT = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
SHORT = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)


@pytest.fixture(scope="session")
def certificates():
    truncated = rb.calibrate(noise=rb.Laplace, query=COUNT, epsilon=1.0)
    table = rb.optimal(query=SHORT, epsilon=1.0)
    clamped = rb.DiscreteLaplace(scale=2.0, support=rb.Interval(0, 9))
    return {
        "interval": rb.certify(truncated, epsilon=1.0),
        "delta": rb.certify(rb.Mechanism(noise=rb.Gaussian(scale=5.0), query=COUNT), epsilon=1.0, delta=1e-5),
        "metric": rb.certify(rb.Mechanism(noise=rb.Laplace(scale=3.0), query=COUNT), epsilon=1.0, notion="metric"),
        "table": rb.certify(table, epsilon=1.0),
        "integers": rb.certify(clamped, epsilon=1.0),
        "remapped": rb.certify(rb.remap(rb.Mechanism(noise=rb.Laplace(scale=1.0), query=SHORT)), epsilon=2.0),
    }


def test_a_certificate_of_every_kind_of_mechanism_is_proved_again(certificates, tmp_path, done):
    path = tmp_path / "c.json"
    for name, certificate in certificates.items():
        path.write_text(certificate.to_json(), encoding="utf-8")
        out = done("verify", path)
        assert out.startswith(f"ok: proved again.\n{certificate}\n"), name
        assert out.endswith("compare this with what you were promised.\n")
        said = json.loads(done("verify", path, "--json"))
        assert (said["ok"], said["epsilon"]) == (True, certificate.epsilon)
        assert (said["delta"], said["notion"]) == (certificate.delta, certificate.notion.value)
        assert said["sensitivity"] == certificate.mechanism.query.sensitivity


def test_control_a_claim_that_is_too_good_is_refused(certificates, tmp_path, refused):
    path = tmp_path / "c.json"
    for certificate in certificates.values():
        path.write_text(json.dumps({**json.loads(certificate.to_json()), "epsilon": 0.01}), encoding="utf-8")
        assert refused("verify", path)


def test_a_limit_is_proved_again_and_one_that_is_too_high_is_refused(tmp_path, done, refused):
    path, found = tmp_path / "limit.json", rb.limit(query=SHORT, epsilon=1.0)
    path.write_text(found.to_json(), encoding="utf-8")
    out = done("verify", path)
    assert out.startswith(
        "ok: proved again. No mechanism of epsilon 1 and delta 0 that answers\n  Query(range=Interval("
    )
    assert "has a mean absolute error below 0.3" in out
    assert json.loads(done("verify", path, "--json"))["value"] == found.value
    data = json.loads(found.to_json())
    data["prices"] = [1.001 * each for each in data["prices"]]
    data["value"] = dataclasses.replace(found, prices=data["prices"]).value
    path.write_text(json.dumps(data), encoding="utf-8")
    assert refused("verify", path) == "error: limit: some output is cheaper than its price; it is not proved\n"


def test_what_goes_with_a_certificate_and_what_does_not_is_said(certificates, tmp_path, refused):
    own, other, table = (tmp_path / name for name in ("c.json", "t.json", "released.json"))
    own.write_text(certificates["interval"].to_json(), encoding="utf-8")
    other.write_text("{}", encoding="utf-8")
    table.write_text('{"format": "rangebound release certificate 1"}', encoding="utf-8")
    assert refused("verify", own, other).startswith(
        "error: certificate: is a 'rangebound certificate 1', not that of a table; it is verified alone, without "
    )
    assert "goes with the certificate of a table" in refused("verify", own, "--ledger", "l.ledger")
    assert refused("verify", table).startswith("error: published: missing; the certificate is that of a table")
    for text in ("", "[]", "{", '{"format": 7}', "[" * 100_000):
        other.write_text(text, encoding="utf-8")
        assert re.search("must be (JSON|of the format)|at most 16 levels", refused("verify", other))
    other.write_text('{"format": "rangebound certificate 99"}', encoding="utf-8")
    assert "must be of the format" in refused("verify", other)


def test_a_file_of_no_end_and_a_damaged_one_are_refused(certificates, tmp_path, monkeypatch, done, refused):
    path = tmp_path / "c.json"
    text = certificates["interval"].to_json()
    monkeypatch.setattr(verify_command, "_LONGEST", len(text) + 10)
    path.write_text(text + " " * 9, encoding="utf-8")
    done("verify", path, "--work", 0)
    assert "certificate: is larger than" in refused("verify", "/dev/zero", "--work", 0)
    path.write_text("{}", encoding="utf-8")
    assert refused("verify", path, "/dev/zero", "--work", 0).startswith("error: published: is larger than")
    path.write_bytes(text.encode().replace(b"rangebound", b"rangeb\xffund", 1))
    assert "this one is damaged, or not UTF-8" in refused("verify", path)


def test_what_is_stated_of_the_ledger_alone_is_not_said_to_be_so(folder, done, refused):
    """Anyone can write a promise into a certificate: without the ledger it is repeated as what the file says."""
    with Ledger.open("people.ledger") as ledger:
        ledger.open_account("visits", epsilon=1, period="year")
    (folder / "plan.toml").write_text(PLAN.replace('"people"', '"visits"'))
    done("release", "plan.toml", "--request", "r1", "-o", "t.json", "--certificate", "c.json")
    out = done("verify", "c.json", "t.json", "--ledger", "people.ledger")
    assert "for each year" in out
    assert "not checked" not in out
    data = json.loads((folder / "c.json").read_text())
    data["ledger"]["promise"] = "Charged in the ledger, all releases together are (0.1, 0)-private."
    (folder / "c.json").write_text(json.dumps(data, indent=1, sort_keys=True))
    said = "The certificate states this, which was not checked: 'Charged in the ledger"
    assert said in done("verify", "c.json", "t.json")
    found = json.loads(done("verify", "c.json", "t.json", "--json"))
    assert (found["charged"], found["promise_checked"]) == (False, False)
    assert refused("verify", "c.json", "t.json", "--ledger", "people.ledger")


def test_a_key_without_a_table_and_a_long_format_are_refused_in_a_line(certificates, tmp_path, refused):
    own, other = tmp_path / "c.json", tmp_path / "t.json"
    own.write_text(certificates["interval"].to_json(), encoding="utf-8")
    assert "goes with the certificate of a table" in refused("verify", own, "--key", "k")
    own.write_text(json.dumps({"format": "rangebound " * 10_000}), encoding="utf-8")
    other.write_text("{}", encoding="utf-8")
    assert len(refused("verify", own, other)) < 400
