"""The commands that plan, publish and check tables. What cannot be read or written: `test_output_files.py`."""

import json
import re

import pytest

from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import GaussianFilter
from rangebound.release import Release
from tests.cli.visits import PLAN as COUNTED
from tests.cli.visits import remaining

PLAN = COUNTED + '[[query]]\nname = "wait"\nkind = "mean"\ncolumn = "wait"\nrange = [0, 100]\n'


@pytest.fixture
def plan(folder):
    """The plan of the folder, with a mean too."""
    (folder / "plan.toml").write_text(PLAN)
    return folder / "plan.toml"


def test_a_release_is_published_charged_and_verified(plan, folder, done, refused, command):
    written = ["-o", "t.json", "-o", "t.csv", "-o", "t.html", "--certificate", "c.json"]
    assert "visits" in done("release", plan, "--request", "r1", *written)
    assert remaining() == "epsilon 0.5"
    terms = "; in other terms mu 0.3929 (rho 0.07719 of zCDP)\n"
    unchecked = "the charge was not checked, which needs --ledger"
    assert done("verify", "c.json", "t.json") == f"ok: 2 numbers, epsilon 0.5, delta 0, {unchecked}{terms}"
    checked = f"ok: 2 numbers, epsilon 0.5, delta 0, charged in the ledger{terms}"
    assert done("verify", "c.json", "t.json", "--ledger", "people.ledger") == checked
    with Ledger.create("other.ledger") as other:
        other.open_account("people", epsilon=1)
    assert refused("verify", "c.json", "t.json", "--ledger", "other.ledger")
    data = json.loads((folder / "c.json").read_text())
    for change in ({"account": "nobody"}, {"request": "never"}, {"head": "no head"}):
        forged = {**data, "ledger": {**data["ledger"], **change}}
        (folder / "forged.json").write_text(json.dumps(forged, indent=1, sort_keys=True))
        assert command("verify", "forged.json", "t.json")[0] == (2 if "account" in change else 0)
        assert refused("verify", "forged.json", "t.json", "--ledger", "people.ledger")
    assert "verify the .json form" in refused("verify", "c.json", "t.csv")
    again = json.loads(done("release", plan, "--request", "r1", "--json"))
    assert again["rows"] == json.loads(json.dumps(Release.from_bytes((folder / "t.json").read_bytes()).rows()))
    half = {"epsilon": "0.5", "delta": "0"}
    charge = {"account": "people", "request": "r1", "before": True, "charged": half, "remaining": half}
    assert again["charge"] == charge
    assert remaining() == "epsilon 0.5"
    (folder / "t.json").write_bytes((folder / "t.json").read_bytes().replace(b"visits", b"visitz"))
    assert refused("verify", "c.json", "t.json")


JOINED = """
[[join]]
path = "who/houses.csv"
public = true
on = ["who"]
columns = ["house"]
[unit]
column = "house"
[columns]
wait = {range = [0, 100]}
[per_unit]
waited = {value = "sum(wait)", range = [0, 200]}
[[query]]
name = "waited"
kind = "mean"
column = "waited"
"""


def test_joined_files_count_from_the_folder_of_the_plan_and_are_never_overwritten(
    plan, folder, monkeypatch, done, refused
):
    (folder / "who").mkdir()
    monkeypatch.chdir(folder / "who")
    houses = folder / "who" / "houses.csv"
    plan.write_text(PLAN.partition("[[query]]")[0] + JOINED)
    missing = refused("plan", "check", plan)
    assert re.search(r"plan.toml:10: join\[0\].path='.*houses.csv': there is no such file", missing)
    houses.write_text("who,house\na,1\nb,1\nb,2\n")
    twice = "plan.toml:12: join[0].on: the key 'b' is in more than one row"
    assert twice in refused("release", plan, "--dry-run")
    houses.write_text("who,house\na,1\nb,1\nc,2\n")
    assert done("plan", "check", plan) == "ok: 1 query\n"
    out = done("release", plan, "--dry-run")
    assert "Joins house of the public table 'who/houses.csv' by who." in out
    assert "Makes one row of all rows of each 'house': waited = SUM(wait), clipped to" in out
    assert refused("release", plan, "--request", "r1", "-o", houses)
    assert remaining("../people.ledger") == "epsilon 1"
    done("release", plan, "--request", "r1", "-o", "t.json", "--certificate", "c.json")
    assert remaining("../people.ledger") == "epsilon 0.5"
    houses.unlink()  # what was published can be checked without the tables that it was made of
    plan.unlink()
    done("verify", "c.json", "t.json", "--ledger", "../people.ledger")


def test_plans_are_checked_explained_and_described(plan, folder, done, refused):
    assert done("plan", "check", plan) == "ok: 2 queries\n"
    assert "expected error" in done("release", plan, "--dry-run")
    (folder / "cut.toml").write_text(f"report_clipping = true\n{PLAN}")
    said = done("plan", "check", "cut.toml")
    assert said.startswith("ok: 2 queries, and ")  # those that were written, and those that were added
    assert said.endswith(" about what is cut\n")
    assert "Spends epsilon 0.5" in done("plan", "explain", plan)
    assert json.loads(done("plan", "schema"))["title"] == "Plan"
    bad = folder / "bad.toml"
    bad.write_text(PLAN.replace('column = "wait"', 'column = "weight"'))
    column = f"error: {bad}:14: query[1].column='weight': the table has no such column; did you mean 'wait'?\n"
    for line in (["plan", "check", bad], ["release", bad, "--dry-run"], ["release", bad, "--request", "r1"]):
        assert refused(*line) == column
    bad.write_text(PLAN + 'mechanism = "truncate Gaussian"\n')
    assert f"{bad}:16: query[1].mechanism=" in refused("plan", "explain", bad)
    bad.write_text(PLAN.replace('name = "visits"', 'name = "visits"\nmechanism = "truncate Gaussian"'))
    for word in ("explain", "check"):
        assert f"{bad}:10: query[0].mechanism: " in refused("plan", word, bad)


def test_a_first_plan_is_written_for_a_table_and_runs_as_it_is(folder, command, done):
    (folder / "plans").mkdir()
    note = "note: rows = 1 and groups = 1 count one row of each 'who' and cut the others; raise them"
    first, second = done("plan", "new", "visits.csv", "--unit", "who", "-o", "plans/first.toml").splitlines()
    page = "fill it in on a page: rangebound explore plans/first.toml"
    assert first == f"plans/first.toml: {page} (or in the file; then rangebound plan check plans/first.toml)"
    assert second.startswith(note)
    assert done("plan", "check", "plans/first.toml") == "ok: 1 query\n"
    done("ledger", "open", "plans/visits.ledger", "visits", "--epsilon", "4")
    done("release", "plans/first.toml", "--request", "r1")
    _, shown, said = command("plan", "new", "visits.csv", "--unit", "who")
    assert said.startswith(note)
    assert shown == (folder / "plans" / "first.toml").read_text().replace("../visits.csv", "visits.csv")


def test_names_in_a_plan_cannot_steer_the_terminal(folder, done, refused):
    (folder / "odd.toml").write_text(PLAN.replace('"visits"', r'"\u001b]0;owned\u0007\nSpends epsilon 0 in all."'))
    for line in ("plan explain odd.toml", "release odd.toml --dry-run", "release odd.toml --request r1"):
        out = done(*line.split())
        assert r"\x1b]0;owned\x07" in out
        assert "\x1b" not in out
        assert "\nSpends epsilon 0 in all" not in out
    (folder / "odd.toml").write_text(PLAN + r'"\u001b[31m" = 1' + "\n")
    assert refused("plan", "check", "odd.toml")


@pytest.mark.claim("page")
def test_the_demo_prints_a_table_and_writes_a_report(tmp_path, done, command):
    out = done("demo", "--folder", tmp_path)
    (report,) = tmp_path.rglob("report.html")
    assert f"spent epsilon 4; account 'clinics' has epsilon 4 left\nreport in {report}, " in out
    plan = report.parent / "plan.toml"
    assert done("plan", "check", plan) == "ok: 9 queries\n"
    again = done("release", plan, "--request", "demo")
    assert again.endswith("'demo' was published before and costs nothing more; account 'clinics' has epsilon 4 left\n")
    for line in out.splitlines()[-2:]:  # what the demo says to try next
        assert done(*line.split()[1:]).splitlines()[-1].rpartition(" 27 numbers, ")[2] in (
            "epsilon 4, delta 0, charged in the ledger; in other terms mu 1.106 (rho 0.6108 of zCDP)",
            "spent epsilon 4; account 'clinics' has epsilon 0 left",
        )
    assert "has left (epsilon 0)" in command("release", plan, "--request", "another")[2]


def test_paths_in_a_plan_count_from_its_folder_and_the_charge_is_said(
    plan, folder, tmp_path_factory, monkeypatch, done
):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    out = done("release", plan, "--request", "r1", "-o", "t.csv")
    assert out.endswith("spent epsilon 0.5; account 'people' has epsilon 0.5 left\n")
    assert (elsewhere / "t.csv").exists()
    absolute = PLAN.replace('"visits.csv"', f'"{folder}/visits.csv"').replace('"people.l', f'"{folder}/people.l')
    (elsewhere / "plan.toml").write_text(absolute)
    done("release", "plan.toml", "--request", "r2")


MARGINS = """
budget = {epsilon = 1.0, delta = 1e-6, account = "people", ledger = "m.ledger"}
source = {path = "visits.csv"}
query = [{name = "visits", kind = "count", margin = 25}, {name = "again", kind = "count", margin = 40}]
"""


def test_a_plan_is_solved_for_its_margins_and_not_changed(plan, done, refused):
    plan.write_text(MARGINS)
    out = done("plan", "solve", plan)
    assert out.startswith("epsilon 0.1914, delta 1e-06 meets all margins; the plan file is not changed\n")
    assert re.search(r"^visits +25 +25 +61\.4 %", out, re.MULTILINE)
    assert plan.read_text() == MARGINS
    found = json.loads(done("plan", "solve", plan, "--json"))
    assert (found["epsilon"], found["changed"], found["queries"][0]["margin"]) == (0.1914, False, 25.0)
    plan.write_text(MARGINS.replace("1.0", "0.01"))
    err = refused("plan", "check", plan)
    assert err.startswith(
        f"error: {plan}:2: budget.epsilon=0.01: is less than what the margins need ('visits', 'again')"
    )
    assert "epsilon 0.1914 would do, 0.1814 more; rangebound plan solve shows the shares" in err
    assert "rest=2.0: must lie in [0, 1)" in refused("plan", "solve", plan, "--rest", 2)


@pytest.mark.parametrize("words", [("release", "--dry-run"), ("plan explain",)])
def test_a_dry_run_has_a_table_of_shares_and_intervals(plan, done, words):
    plan.write_text(MARGINS.replace(", margin = 40", ""))
    out = done(*words[0].split(), plan, *words[1:])
    head = r"^query +kind +share +half-width +margin +at half epsilon +at twice epsilon +above limit +error"
    assert re.search(head, out, re.MULTILINE)
    assert re.search(r"^visits +count +11\.7 % +25 +25 +25 +25 +(\+[\d.]+ % +)?\d", out, re.MULTILINE)
    assert re.search(r"^again +count +88\.3 % +3 +8 +1 +\d", out, re.MULTILINE)
    found = json.loads(done(*words[0].split(), plan, *words[1:], "--json"))
    assert [each["half_width"] for each in found["queries"]] == [25.0, 3.0]
    assert [each["epsilon"] for each in found["privacy"]["deltas"]] == [0.5, 1.0, 2.0]


def test_an_account_that_adds_squares_of_mu_says_which_mu_was_charged(plan, done):
    with Ledger.create("m.ledger") as ledger:
        ledger.open_account("people", epsilon=4, delta="1e-5", rule=GaussianFilter(spare="0.25"))
    plan.write_text(MARGINS)
    out = done("release", plan, "--request", "r1")
    charged = re.search(r"spent epsilon 1, delta 1e-06, charged as mu (0\.\d+) \(mu\^2 0\.\d+\); account 'people'", out)
    assert charged
    found = json.loads(done("release", plan, "--request", "r1", "--json"))
    assert found["charge"]["charged"]["mu"] == charged[1]
    assert float(charged[1]) == pytest.approx(found["privacy"]["mu"], rel=1e-6)
    assert found["privacy"]["account"] == "gaussian"
