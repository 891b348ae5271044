"""`rangebound sql`: the plan is shown and saved before anything is charged, then released like any other."""

import json
import random
import re
import shlex
from pathlib import Path

import pytest
import yaml

import rangebound as rb
from rangebound.cli.app import run
from rangebound.release import read_plan

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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chance = random.Random(1)
    rows = [f"{at},{'north' if at % 3 else 'south'},{chance.randint(0, 60)},{20 if at % 2 else 5}" for at in range(600)]
    (tmp_path / "visits.csv").write_text("person,clinic,wait,age\n" + "\n".join(rows))
    (tmp_path / "base.toml").write_text(BASE)
    assert run(["ledger", "open", "visits.ledger", "people", "--epsilon", "100"]) == 0
    return tmp_path


def spent():
    with rb.Ledger.open("visits.ledger") as ledger:
        return float(str(ledger.account("people").spent.epsilon))


def test_the_plan_is_shown_then_charged_and_answered(folder, capsys):
    capsys.readouterr()
    assert (
        run(["sql", SELECT, "--plan", "base.toml", "--request", "one", "-o", "table.json", "--certificate", "c.json"])
        == 0
    )
    out = capsys.readouterr().out
    assert out.index("[[query]]") < out.index("spent epsilon 60")
    lines = out[out.index("clinic  ") :].splitlines()
    assert lines[0].split() == ["clinic", "n", "wait"]
    assert lines[1].split()[:2] == ["north", "200"]
    assert lines[2].split()[:2] == ["south", "100"]
    assert spent() == 60
    assert run(["verify", "c.json", "table.json", "--ledger", "visits.ledger"]) == 0
    capsys.readouterr()
    assert run(["sql", SELECT, "--plan", "base.toml", "--request", "one"]) == 0
    assert "costs nothing more" in capsys.readouterr().out
    assert spent() == 60
    assert run(["sql", "SELECT COUNT(*) FROM visits", "--plan", "base.toml", "--request", "one"]) == 2
    assert spent() == 60


def test_a_dry_run_shows_and_saves_and_charges_nothing(folder, capsys):
    (folder / "plans").mkdir()
    capsys.readouterr()
    assert run(["sql", SELECT, "--plan", "base.toml", "--dry-run", "--save", "plans/saved.toml"]) == 0
    out = capsys.readouterr().out
    assert "Spends epsilon 60 in all" in out
    assert spent() == 0
    saved = read_plan("plans/saved.toml")
    assert [each.name for each in saved.query] == ["n", "wait"]
    assert saved.source.path == "../visits.csv"
    assert saved.budget.ledger == "../visits.ledger"
    assert run(["plan", "check", "plans/saved.toml"]) == 0
    assert run(["release", "plans/saved.toml", "--request", "two"]) == 0
    assert spent() == 60
    assert (
        run(["sql", SELECT, "--plan", "base.toml", "--dry-run", "--save", "plans/saved.toml"]) == 2
    )  # never over a file
    capsys.readouterr()
    assert run(["sql", SELECT, "--plan", "base.toml", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"].count("[[query]]") == 2


def test_json_has_the_rows_the_plan_and_the_charge(folder, capsys):
    capsys.readouterr()
    assert run(["sql", f"{SELECT} LIMIT 1", "--plan", "base.toml", "--request", "one", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["columns"] == ["clinic", "n", "wait"]
    assert [row["clinic"] for row in found["answer"]] == ["north"]
    assert len(found["rows"]) == 4  # the release has those that LIMIT leaves out
    assert found["charge"]["charged"]["epsilon"] == "60"


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("SELECT COUNT(*) FROM vists", "sql:1:22: vists: is not the table of the base plan; write FROM visits"),
        (
            "SELECT clinix, COUNT(*) FROM visits GROUP BY 1",
            "sql:1:8: clinix: the table has no such column; did you",
        ),
        ("SELECT AVG(age) FROM visits", "sql:1:8: AVG(age): needs the public range of 'age'"),
        ("DROP TABLE visits", "sql:1:1: must be one SELECT"),
        ("SELECT COUNT(*) FROM visits WHERE clinic = 3 GROUP", "sql:1:"),
    ],
)
def test_a_refusal_is_one_line_and_charges_nothing(folder, capsys, select, words):
    capsys.readouterr()
    assert run(["sql", select, "--plan", "base.toml", "--request", "one"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {words}")
    assert error.count("\n") == 1
    assert spent() == 0


def test_a_fault_of_the_base_is_named_with_its_line(folder, capsys):
    (folder / "base.toml").write_text(BASE.replace("epsilon = 60.0", "epsilon = -1"))
    assert run(["sql", SELECT, "--plan", "base.toml", "--request", "one"]) == 2
    assert "error: base.toml:7: budget.epsilon=-1" in capsys.readouterr().err
    assert run(["sql", SELECT, "--plan", "nowhere.toml"]) == 2
    (folder / "base.toml").write_text("budget = {epsilon = 1}")
    assert run(["sql", SELECT, "--plan", "base.toml"]) == 2
    assert "source: missing" in capsys.readouterr().err


def test_the_same_in_python(folder):
    import pandas

    frame = pandas.read_csv("visits.csv")
    base = {"unit": {"column": "person"}, "budget": {"epsilon": 60.0}, "columns": {"wait": {"range": [0, 60]}}}
    base["keys"] = {"clinic": ["north", "south"]}
    found = rb.sql(SELECT, frame, plan=base, ledger=None)
    assert [(row["clinic"], row["n"]) for row in found.rows()] == [("north", 200.0), ("south", 100.0)]
    assert found.columns == ("clinic", "n", "wait")
    assert list(found.to_pandas().columns) == ["clinic", "n", "wait"]
    assert found.to_csv().splitlines()[0] == "clinic,n,wait"
    assert "rows without a key" in str(found)
    assert "<td>north</td>" in found._repr_html_()
    assert "2 rows" in repr(found)
    assert len(found.release.cells) == 4
    with pytest.raises(rb.PlanError, match="sql:1:30: agee: the table has no such column"):
        rb.sql("SELECT COUNT(*) FROM t WHERE agee > 3", frame, plan=base, ledger=None)


def test_the_page_s_base_and_command_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
    (tmp_path / "base.toml").write_text(re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
    (tmp_path / "visits.csv").write_text("person,clinic,waiting,age\n1,north,20,40\n2,south,30,50\n")
    assert run(["ledger", "open", "visits.ledger", "people", "--epsilon", "3"]) == 0
    program, *words = shlex.split(re.search(r"```sh\n(.*?)```", page, re.DOTALL)[1])
    assert program == "rangebound"
    assert run(words) == 0
    assert "clinic  COUNT(*)  AVG(waiting)" in capsys.readouterr().out


def test_a_saved_plan_finds_its_joined_tables(folder, capsys):
    (folder / "plans").mkdir()
    (folder / "regions.csv").write_text("code,side\nnorth,left\nsouth,right\n")
    join = '[[join]]\npath = "regions.csv"\npublic = true\non = {clinic = "code"}\nhow = "left"\ncolumns = ["side"]\n'
    (folder / "base.toml").write_text(f'{BASE}side = ["left", "right"]\n{join}')
    text = (
        "SELECT r.side, COUNT(*) AS n FROM visits v LEFT JOIN regions r ON v.clinic = r.code GROUP BY r.side ORDER BY 1"
    )
    assert run(["sql", text, "--plan", "base.toml", "--request", "joined", "--save", "plans/saved.toml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["left", "400"] in [line.split() for line in lines]
    assert read_plan("plans/saved.toml").join[0].path == "../regions.csv"
    assert run(["plan", "check", "plans/saved.toml"]) == 0


def test_the_record_and_the_fact_sheet_are_those_of_the_plan_that_was_asked(folder, capsys):
    asked = ["sql", SELECT, "--plan", "base.toml", "--record", "record.yaml", "--fact-sheet", "sheet.md"]
    assert run([*asked, "--dry-run"]) == 0
    before = yaml.safe_load((folder / "record.yaml").read_text())["deployment"]
    assert "OPEN" in before["basic"]["publication_date"]
    assert run([*asked, "--request", "one"]) != 0  # filled in by hand, it is not replaced
    assert "exists already" in capsys.readouterr().err
    for name in ("record.yaml", "sheet.md"):
        (folder / name).unlink()
    assert run([*asked, "--request", "one"]) == 0
    found = yaml.safe_load((folder / "record.yaml").read_text())["deployment"]
    assert "request 'one'" in found["deployment_model"]["release_type_details"]
    assert "OPEN" not in found["basic"]["publication_date"]
    assert "'one'" in (folder / "sheet.md").read_text()
    assert spent() == 60
