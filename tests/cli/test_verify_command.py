"""A certificate that somebody has sent is proved again by one command, whatever it is about."""

import dataclasses
import json
import re
import shlex
from pathlib import Path

import pytest

import rangebound as rb
from rangebound.cli import verify_command
from rangebound.cli.app import run
from rangebound.ledger.book import Ledger
from rangebound.release import demo

PAGE = Path(__file__).parents[2] / "docs" / "verify.md"
COUNT = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
SHORT = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)


def command(capsys, *arguments):
    code = run([str(each) for each in arguments])
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
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


def test_a_certificate_of_every_kind_of_mechanism_is_proved_again(certificates, tmp_path, capsys):
    path = tmp_path / "c.json"
    for name, certificate in certificates.items():
        path.write_text(certificate.to_json(), encoding="utf-8")
        code, out, err = command(capsys, "verify", path)
        assert (code, err) == (0, ""), name
        assert out.startswith(f"ok: proved again.\n{certificate}\n")
        assert out.endswith("compare this with what you were promised.\n")
        code, out, _ = command(capsys, "verify", path, "--json")
        said = json.loads(out)
        assert (code, said["ok"], said["epsilon"]) == (0, True, certificate.epsilon)
        assert (said["delta"], said["notion"]) == (certificate.delta, certificate.notion.value)
        assert said["sensitivity"] == certificate.mechanism.query.sensitivity


def test_control_a_claim_that_is_too_good_is_refused(certificates, tmp_path, capsys):
    path = tmp_path / "c.json"
    for name, certificate in certificates.items():
        path.write_text(json.dumps({**json.loads(certificate.to_json()), "epsilon": 0.01}), encoding="utf-8")
        code, out, err = command(capsys, "verify", path)
        assert (code, out) == (2, ""), name
        assert err.startswith("error: ")
        assert err.count("\n") == 1


def test_a_limit_is_proved_again_and_one_that_is_too_high_is_refused(tmp_path, capsys):
    path, found = tmp_path / "limit.json", rb.limit(query=SHORT, epsilon=1.0)
    path.write_text(found.to_json(), encoding="utf-8")
    code, out, _ = command(capsys, "verify", path)
    assert code == 0
    assert out.startswith(
        "ok: proved again. No mechanism of epsilon 1 and delta 0 that answers\n  Query(range=Interval("
    )
    assert "has a mean absolute error below 0.3" in out
    assert json.loads(command(capsys, "verify", path, "--json")[1])["value"] == found.value
    data = json.loads(found.to_json())
    data["prices"] = [1.001 * each for each in data["prices"]]
    data["value"] = dataclasses.replace(found, prices=data["prices"]).value
    path.write_text(json.dumps(data), encoding="utf-8")
    assert command(capsys, "verify", path)[::2] == (
        2,
        "error: limit: some output is cheaper than its price; it is not proved\n",
    )


def test_what_goes_with_a_certificate_and_what_does_not_is_said(certificates, tmp_path, capsys):
    own, other, table = (tmp_path / name for name in ("c.json", "t.json", "released.json"))
    own.write_text(certificates["interval"].to_json(), encoding="utf-8")
    other.write_text("{}", encoding="utf-8")
    table.write_text('{"format": "rangebound release certificate 1"}', encoding="utf-8")
    assert command(capsys, "verify", own, other)[2].startswith(
        "error: certificate: is a 'rangebound certificate 1', not that of a table; it is verified alone, without "
    )
    assert "goes with the certificate of a table" in command(capsys, "verify", own, "--ledger", "l.ledger")[2]
    assert command(capsys, "verify", table)[2].startswith(
        "error: published: missing; the certificate is that of a table"
    )
    for text in ("", "[]", "{", '{"format": 7}', "[" * 100_000):
        other.write_text(text, encoding="utf-8")
        assert command(capsys, "verify", other)[2].startswith("error: certificate: cannot be read; give the JSON file")
    other.write_text('{"format": "rangebound certificate 99"}', encoding="utf-8")
    assert "must be of the format" in command(capsys, "verify", other)[2]


@pytest.fixture
def received(tmp_path, monkeypatch):
    """A folder with what the page speaks of: a published table with its certificate and ledger, and a ledger."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(demo.table())
    plan = 'source = {path = "visits.csv"}\nbudget = {epsilon = 1.0, account = "visits", ledger = "visits.ledger"}\n'
    (tmp_path / "plan.toml").write_text(plan + '[[query]]\nname = "visits"\nkind = "count"\n')
    with Ledger.create("visits.ledger") as ledger:
        ledger.open_account("visits", epsilon=1)
    with Ledger.create("census.ledger") as ledger:
        ledger.open_account("census", epsilon=1)
        return ledger.head


def test_the_commands_of_the_page_run_in_their_order(received, capsys):
    page = PAGE.read_text(encoding="utf-8").replace('"$HEAD"', str(received))
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(block, {})
    assert run(shlex.split("release plan.toml --request 1 -o table.json --certificate table-certificate.json")) == 0
    capsys.readouterr()
    lines = [shlex.split(line, comments=True) for line in re.findall(r"^\$ rangebound (.*)$", page, re.MULTILINE)]
    assert len(lines) == 5
    for arguments in lines:
        code, out, err = command(capsys, *arguments)
        assert (code, err) == (0, ""), arguments
        assert out.startswith("ok: ")


def test_a_file_of_no_end_and_a_damaged_one_are_refused(certificates, tmp_path, monkeypatch, capsys):
    path = tmp_path / "c.json"
    text = certificates["interval"].to_json()
    monkeypatch.setattr(verify_command, "_LONGEST", len(text) + 10)
    path.write_text(text + " " * 9, encoding="utf-8")
    assert command(capsys, "verify", path, "--work", 0)[0] == 0
    assert "certificate: is larger than" in command(capsys, "verify", "/dev/zero", "--work", 0)[2]
    path.write_text("{}", encoding="utf-8")
    assert command(capsys, "verify", path, "/dev/zero", "--work", 0)[2].startswith("error: published: is larger than")
    path.write_bytes(text.encode().replace(b"rangebound", b"rangeb\xffund", 1))
    assert "this one is damaged, or not UTF-8" in command(capsys, "verify", path)[2]


def test_what_is_stated_of_the_ledger_alone_is_not_said_to_be_so(tmp_path, monkeypatch, capsys):
    """Anyone can write a promise into a certificate: without the ledger it is repeated as what the file says."""
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text(demo.table())
    plan = 'source = {path = "visits.csv"}\nbudget = {epsilon = 1.0, account = "visits", ledger = "visits.ledger"}\n'
    Path("plan.toml").write_text(plan + '[[query]]\nname = "visits"\nkind = "count"\n')
    with Ledger.create("visits.ledger") as ledger:
        ledger.open_account("visits", epsilon=1, period="year")
    release = ["release", "plan.toml", "--request", "r1", "-o", "t.json", "--certificate", "c.json"]
    assert command(capsys, *release)[0] == 0
    code, out, _ = command(capsys, "verify", "c.json", "t.json", "--ledger", "visits.ledger")
    assert code == 0
    assert "for each year" in out
    assert "not checked" not in out
    data = json.loads(Path("c.json").read_text())
    data["ledger"]["promise"] = "Charged in the ledger, all releases together are (0.1, 0)-private."
    Path("c.json").write_text(json.dumps(data, indent=1, sort_keys=True))
    code, out, _ = command(capsys, "verify", "c.json", "t.json")
    assert code == 0
    assert "The certificate states this, which was not checked: 'Charged in the ledger" in out
    said = json.loads(command(capsys, "verify", "c.json", "t.json", "--json")[1])
    assert (said["charged"], said["promise_checked"]) == (False, False)
    assert command(capsys, "verify", "c.json", "t.json", "--ledger", "visits.ledger")[:2] == (2, "")


def test_a_key_without_a_table_and_a_long_format_are_refused_in_a_line(certificates, tmp_path, capsys):
    own, other = tmp_path / "c.json", tmp_path / "t.json"
    own.write_text(certificates["interval"].to_json(), encoding="utf-8")
    assert "goes with the certificate of a table" in command(capsys, "verify", own, "--key", "k")[2]
    own.write_text(json.dumps({"format": "rangebound " * 10_000}), encoding="utf-8")
    other.write_text("{}", encoding="utf-8")
    assert len(command(capsys, "verify", own, other)[2]) < 400
