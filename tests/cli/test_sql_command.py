"""`rangebound sql`: the plan is shown and saved before anything is charged, then released like any other."""

import json
import random
import re
from functools import partial
from pathlib import Path

import pandas
import pytest
import yaml

import rangebound as rb
from rangebound.ledger.book import Ledger
from rangebound.release import read_plan
from tests.cli.visits import remaining

BASE = """
[source]
path = "visits.csv"
[unit]
column = "person"
[budget]
epsilon = 60.0
account = "people"
ledger = "visits.ledger"
[columns]
wait = {range = [0, 60]}
[keys]
clinic = ["north", "south"]
"""
SELECT = "SELECT clinic, COUNT(*) AS n, AVG(wait) AS wait FROM visits WHERE age >= 18 GROUP BY clinic ORDER BY n DESC"
ASKED = ["sql", SELECT, "--plan", "base.toml"]
left = partial(remaining, "visits.ledger")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chance = random.Random(1)
    rows = [f"{at},{'north' if at % 3 else 'south'},{chance.randint(0, 60)},{20 if at % 2 else 5}" for at in range(600)]
    (tmp_path / "visits.csv").write_text("person,clinic,wait,age\n" + "\n".join(rows))
    (tmp_path / "base.toml").write_text(BASE)
    with Ledger.create("visits.ledger") as ledger:
        ledger.open_account("people", epsilon=100)
    return tmp_path


def test_the_plan_is_shown_then_charged_and_answered(done, command):
    out = done(*ASKED, "--request", "one", "-o", "table.json", "--certificate", "c.json")
    assert out.index("[[query]]") < out.index("spent epsilon 60")
    lines = out[out.index("clinic  ") :].splitlines()
    assert re.split(" {2,}", lines[0].strip()) == ["clinic", "n", "95 % interval", "wait", "95 % interval"]
    published = json.loads(Path("table.json").read_text())["cells"]
    for line, key in zip(lines[1:3], ("north", "south"), strict=True):
        n, wait = (each for each in published if each["key"] == [key])
        ends = [f"{each['lower']:g} to {each['upper']:g}" for each in (n,)]
        assert re.split(" {2,}", line.strip())[:3] == [key, f"{n['value']:g}", *ends]
        assert f"{wait['lower']:.6g} to {wait['upper']:.6g}" in line
    assert left() == "epsilon 40"
    done("verify", "c.json", "table.json", "--ledger", "visits.ledger")
    assert "costs nothing more" in done(*ASKED, "--request", "one")
    assert command("sql", "SELECT COUNT(*) FROM visits", "--plan", "base.toml", "--request", "one")[0] == 2
    assert left() == "epsilon 40"


def test_a_dry_run_shows_and_saves_and_charges_nothing(place, done, command):
    (place / "plans").mkdir()
    dry = [*ASKED, "--dry-run", "--save", "plans/saved.toml"]
    assert "Spends epsilon 60 in all" in done(*dry)
    assert left() == "epsilon 100"
    saved = read_plan("plans/saved.toml")
    assert [each.name for each in saved.query] == ["n", "wait"]
    assert (saved.source.path, saved.budget.ledger) == ("../visits.csv", "../visits.ledger")
    done("plan", "check", "plans/saved.toml")
    done("release", "plans/saved.toml", "--request", "two")
    assert left() == "epsilon 40"
    assert command(*dry)[0] == 2  # never over a file
    assert json.loads(done(*ASKED, "--dry-run", "--json"))["plan"].count("[[query]]") == 2


def test_json_has_the_rows_the_plan_and_the_charge(done):
    found = json.loads(done("sql", f"{SELECT} LIMIT 1", "--plan", "base.toml", "--request", "one", "--json"))
    assert found["columns"] == ["clinic", "n", "wait"]
    assert [row["clinic"] for row in found["answer"]] == ["north"]
    assert len(found["rows"]) == 4  # the release has those that LIMIT leaves out
    assert found["charge"]["charged"]["epsilon"] == "60"


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("SELECT COUNT(*) FROM vists", "sql:1:22: vists: is not the table of the base plan; write FROM visits"),
        ("SELECT clinix, COUNT(*) FROM visits GROUP BY 1", "sql:1:8: clinix: the table has no such column; did you"),
        ("SELECT AVG(age) FROM visits", "sql:1:8: AVG(age): needs the public range of 'age'"),
        ("DROP TABLE visits", "sql:1:1: must be one SELECT"),
        ("SELECT COUNT(*) FROM visits WHERE clinic = 3 GROUP", "sql:1:"),
    ],
)
def test_a_refusal_is_one_line_and_charges_nothing(command, select, words):
    code, _, error = command("sql", select, "--plan", "base.toml", "--request", "one")
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith(f"error: {words}")
    assert left() == "epsilon 100"


def test_a_fault_of_the_base_is_named_with_its_line(place, refused):
    (place / "base.toml").write_text(BASE.replace("epsilon = 60.0", "epsilon = -1"))
    assert "error: base.toml:7: budget.epsilon=-1" in refused(*ASKED, "--request", "one")
    (place / "base.toml").write_text("budget = {epsilon = 1}")
    assert "source: missing" in refused(*ASKED)


def test_the_same_in_python():
    frame = pandas.read_csv("visits.csv")
    base = {"unit": {"column": "person"}, "budget": {"epsilon": 60.0}, "columns": {"wait": {"range": [0, 60]}}}
    base["keys"] = {"clinic": ["north", "south"]}
    found = rb.sql(SELECT, frame, plan=base, ledger=None)
    assert [(row["clinic"], row["n"]) for row in found.rows()] == [("north", 200.0), ("south", 100.0)]
    assert found.columns == tuple(found.to_pandas().columns) == ("clinic", "n", "wait")
    assert found.to_csv().splitlines()[0] == "clinic,n,wait"
    assert "rows without a key" in str(found)
    assert re.search("<th>n</th><th>95 % interval</th>", found._repr_html_())
    assert all(len(each) == 5 for each in found.table())
    assert "<td>north</td>" in found._repr_html_()
    assert "2 rows" in repr(found)
    assert len(found.release.cells) == 4
    with pytest.raises(rb.PlanError, match="sql:1:30: agee: the table has no such column"):
        rb.sql("SELECT COUNT(*) FROM t WHERE agee > 3", frame, plan=base, ledger=None)


def test_a_saved_plan_finds_its_joined_tables(place, done):
    (place / "plans").mkdir()
    (place / "regions.csv").write_text("code,side\nnorth,left\nsouth,right\n")
    join = '[[join]]\npath = "regions.csv"\npublic = true\non = {clinic = "code"}\nhow = "left"\ncolumns = ["side"]\n'
    (place / "base.toml").write_text(f'{BASE}side = ["left", "right"]\n{join}')
    text = "SELECT r.side, COUNT(*) AS n FROM visits v LEFT JOIN regions r ON v.clinic = r.code GROUP BY r.side"
    out = done("sql", text, "--plan", "base.toml", "--request", "joined", "--save", "plans/saved.toml")
    assert ["left", "400"] in [line.split()[:2] for line in out.splitlines()]
    assert read_plan("plans/saved.toml").join[0].path == "../regions.csv"
    done("plan", "check", "plans/saved.toml")


def test_the_record_and_the_fact_sheet_are_those_of_the_plan_that_was_asked(place, done, refused):
    asked = [*ASKED, "--record", "record.yaml", "--fact-sheet", "sheet.md"]
    done(*asked, "--dry-run")
    before = yaml.safe_load((place / "record.yaml").read_text())["deployment"]
    assert "OPEN" in before["basic"]["publication_date"]
    assert "exists already" in refused(*asked, "--request", "one")  # filled in by hand, it is not replaced
    for name in ("record.yaml", "sheet.md"):
        (place / name).unlink()
    done(*asked, "--request", "one")
    found = yaml.safe_load((place / "record.yaml").read_text())["deployment"]
    assert "request 'one'" in found["deployment_model"]["release_type_details"]
    assert "OPEN" not in found["basic"]["publication_date"]
    assert "'one'" in (place / "sheet.md").read_text()
    assert left() == "epsilon 40"
