"""`rangebound dummy`: rows for a plan, and a plan beside them that is released as it stands."""

import re
import shlex
from pathlib import Path

import pytest

from rangebound.cli.app import run

PLAN = """
source = {postgres = "postgresql://db.example/clinic", table = "visits"}
budget = {epsilon = 1, account = "people", ledger = "real.ledger"}
keys = {clinic = ["north", "south"]}

[[query]]
name = "visits"
kind = "count"
by = ["clinic"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def test_a_plan_for_a_database_is_tried_on_a_file(folder, capsys):
    assert run(["dummy", "plan.toml", "--rows", "50", "-o", "rows.csv"]) == 0
    assert capsys.readouterr().out == "made up: rows.csv; rows.toml reads it\n"
    assert run(["ledger", "open", "trial.ledger", "people", "--epsilon", "2"]) == 0
    assert run(["release", "rows.toml", "--request", "one", "--ledger", "trial.ledger"]) == 0
    assert "spent epsilon 1" in capsys.readouterr().out
    assert run(["release", "rows.toml", "--request", "one"]) == 2  # the copy names no ledger
    assert "ledger: missing" in capsys.readouterr().err


def test_rows_go_to_standard_output(folder, capsys):
    assert run(["dummy", "plan.toml", "--rows", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "clinic"


def test_a_plan_with_joins_needs_files(folder, capsys):
    joined = '[[join]]\ntable = "regions"\npublic = true\non = ["clinic"]\ncolumns = ["region"]\n'
    (folder / "plan.toml").write_text(PLAN + joined)
    assert run(["dummy", "plan.toml"]) == 2
    assert "output: missing" in capsys.readouterr().err
    assert run(["dummy", "plan.toml", "-o", "rows.csv"]) == 0
    assert capsys.readouterr().out == "made up: rows.csv, rows-1.csv; rows.toml reads them\n"
    assert run(["plan", "check", "rows.toml"]) == 0


def test_nothing_is_overwritten(folder, capsys):
    assert run(["dummy", "plan.toml", "-o", "plan.csv"]) == 2  # plan.toml would be the plan beside it
    assert "'plan.toml': exists already" in capsys.readouterr().err
    assert (folder / "plan.toml").read_text() == PLAN


def test_the_commands_of_the_page_run_in_their_order(folder, capsys):
    page = Path(__file__).parents[2] / "docs" / "data-sources.md"
    section = page.read_text(encoding="utf-8").partition("## Made-up rows")[2]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert block
    (folder / "plan.toml").write_text(PLAN.replace('"people"', '"visits"'))
    lines = [shlex.split(line) for line in block[1].splitlines()]
    assert len(lines) == 3
    for program, *arguments in lines:
        assert (program, run(arguments)) == ("rangebound", 0)
    assert "spent epsilon 1" in capsys.readouterr().out
