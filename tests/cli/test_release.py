"""The commands that plan, publish and check tables."""

import json

import pytest

from rangebound.accounting.ledger import Ledger
from rangebound.cli.app import run

PLAN = """
[source]
path = "{folder}/visits.csv"
[budget]
epsilon = 0.5
account = "people"
ledger = "{folder}/l.ledger"
[[query]]
name = "visits"
kind = "count"
[[query]]
name = "wait"
kind = "mean"
column = "wait"
range = [0, 100]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits.csv").write_text("wait,who\n1,a\n50.5,b\nnonsense,c\n")
    (tmp_path / "plan.toml").write_text(PLAN.format(folder=tmp_path))
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account("people", epsilon=1)
    return tmp_path


def command(capsys, *arguments):
    code = run([str(each) for each in arguments])
    return code, *capsys.readouterr()


def remaining(folder):
    with Ledger.open(folder / "l.ledger") as ledger:
        return str(ledger.account("people").remaining)


def test_a_release_is_published_charged_and_verified(folder, capsys):
    files = [folder / name for name in ("t.json", "t.csv", "t.html")]
    options = [part for file in files for part in ("-o", file)]
    certificate = folder / "c.json"
    code, out, _ = command(
        capsys, "release", folder / "plan.toml", "--request", "r1", *options, "--certificate", certificate
    )
    assert code == 0
    assert "visits" in out
    assert remaining(folder) == "epsilon 0.5"
    code, out, _ = command(capsys, "verify", certificate, folder / "t.json")
    assert (code, out) == (0, "ok: 2 numbers, epsilon 0.5, delta 0\n")
    code, out, _ = command(capsys, "release", folder / "plan.toml", "--request", "r1", "--json")
    assert json.loads(out)["rows"] == json.loads(json.dumps(_rows(folder / "t.json")))
    assert remaining(folder) == "epsilon 0.5"
    (folder / "t.json").write_bytes((folder / "t.json").read_bytes().replace(b"visits", b"visitz"))
    code, out, err = command(capsys, "verify", certificate, folder / "t.json")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


def _rows(path):
    from rangebound.release import Release

    return Release.from_bytes(path.read_bytes()).rows()


def test_a_dry_run_costs_nothing_and_says_the_error(folder, capsys):
    code, out, _ = command(capsys, "release", folder / "plan.toml", "--dry-run")
    assert code == 0
    assert "expected error" in out
    assert remaining(folder) == "epsilon 1"


def test_plans_are_checked_explained_and_described(folder, capsys):
    assert command(capsys, "plan", "check", folder / "plan.toml")[:2] == (0, "ok: 2 queries\n")
    assert "Spends epsilon 0.5" in command(capsys, "plan", "explain", folder / "plan.toml")[1]
    assert json.loads(command(capsys, "plan", "schema")[1])["title"] == "Plan"
    bad = folder / "bad.toml"
    bad.write_text((folder / "plan.toml").read_text().replace('column = "wait"', 'column = "weight"'))
    code, _, err = command(capsys, "plan", "check", bad)
    assert (code, err) == (2, "error: query[1].column='weight': the table has no such column\n")
    bad.write_text("[budget]\nepsilon = -1\n")
    code, _, err = command(capsys, "plan", "check", bad)
    assert code == 2
    assert f"{bad}:2: budget.epsilon=-1" in err


@pytest.mark.parametrize(
    "arguments", [["release", "PLAN"], ["release", "/nowhere"], ["verify", "/nowhere", "/nowhere"], ["plan"]]
)
def test_wrong_commands_end_with_one_line_and_code_2(folder, capsys, arguments):
    code, _, err = command(capsys, *(folder / "plan.toml" if each == "PLAN" else each for each in arguments))
    assert code == 2
    assert err.count("\n") == 1
    assert remaining(folder) == "epsilon 1"


def test_the_demo_prints_a_table_and_writes_a_report(tmp_path, capsys):
    code, out, _ = command(capsys, "demo", "--folder", tmp_path)
    assert code == 0
    (report,) = tmp_path.rglob("report.html")
    assert str(report) in out
    (certificate,) = tmp_path.rglob("certificate.json")
    plan = certificate.parent / "plan.toml"
    assert command(capsys, "plan", "check", plan)[:2] == (0, "ok: 9 queries\n")
    assert command(capsys, "release", plan, "--request", "demo")[0] == 0  # the same table, at no cost
    code, _, err = command(capsys, "release", plan, "--request", "another")
    assert (code, "has less left (epsilon 0)" in err) == (2, True)
    assert command(capsys, "verify", certificate, certificate.parent / "table.json")[0] == 0
