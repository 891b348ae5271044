"""What the page asks for, by name."""

import json
import tomllib

import pytest
import yaml

from rangebound.cli.app import run
from rangebound.errors import ArgumentError, PlanError
from rangebound.explore import tasks
from rangebound.release import demo, parse_plan

PLAN = 'budget = {epsilon = 1.0}\nquery = [{name = "visits", kind = "count"}]'


def asked(task, folder, **more):
    return tasks.TASKS[task]({"plan": PLAN, **more}, folder)[0]


def test_margins_are_solved_as_the_command_does(tmp_path, capsys):
    margins = {"visits by clinic": 50.0, "patients": 20.0}
    found = tasks.TASKS["solve"]({"plan": demo.plan(), "changes": {"margins": margins}}, tmp_path)[0]
    text = demo.plan()
    for name, kind in (("visits by clinic", "count"), ("patients", "count of units")):
        text = text.replace(f'name = "{name}"\nkind', f'name = "{name}"\nmargin = {margins[name]}\nkind')
        assert f'kind = "{kind}"' in text
    (tmp_path / "plan.toml").write_text(text)
    assert run(["plan", "solve", str(tmp_path / "plan.toml"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said.pop("changed") is False
    assert {name: found[name] for name in said} == said
    with pytest.raises(PlanError, match="no question has a margin"):
        tasks.TASKS["solve"]({"plan": demo.plan()}, tmp_path)


def test_the_part_that_is_left_for_what_has_no_margin_is_said(tmp_path):
    two = PLAN.replace("}]", '}, {name = "more", kind = "count"}]')
    words = tasks.TASKS["solve"]({"plan": two, "changes": {"margins": {"visits": 20}}}, tmp_path)[0]["words"]
    assert "leaves 50 % of the budget for what has no margin" in words
    assert "leaves" not in asked("solve", tmp_path, changes={"margins": {"visits": 20}})["words"]  # the control


def test_a_text_that_is_checked_says_what_is_kept(tmp_path):
    changes = {"epsilon": 2.0, "margins": {"visits": 20.0}}
    same = asked("kept", tmp_path, before=PLAN, changes=changes)
    assert same == {
        "changes": changes,
        "words": "Checked. Your changes above are kept: epsilon 2.0, margin of 'visits'.",
    }
    other = asked("kept", tmp_path, before=PLAN.replace("1.0", "3.0"), changes=changes)
    assert other["changes"] == {"margins": {"visits": 20.0}}
    assert "taken their place" in other["words"]
    assert asked("kept", tmp_path, before=PLAN)["words"] == "Checked."
    with pytest.raises(ArgumentError, match="before"):
        asked("kept", tmp_path)


def test_warnings_are_those_of_the_dry_run(tmp_path):
    warned = asked("certified", tmp_path, changes={"epsilon": 12.0})["warnings"]
    assert any("epsilon 12 is above 10" in each for each in warned)
    assert any("single row" in each for each in warned)


def test_a_plan_is_exported_with_its_changes(tmp_path):
    found = asked("export", tmp_path, name="plan.toml", changes={"epsilon": 2.5})
    assert parse_plan(found["text"]).budget.epsilon == 2.5
    assert tomllib.loads(found["text"])["query"][0]["name"] == "visits"
    cells = json.loads(asked("export", tmp_path, name="plan.ipynb")["text"])["cells"]
    assert "epsilon = 1.0" in "".join(cells[1]["source"])
    with pytest.raises(ArgumentError, match="name"):
        asked("export", tmp_path, name="odd.txt")


def test_all_exports_that_are_offered_can_be_had(tmp_path):
    for name in tasks.exports():
        assert asked("export", tmp_path, name=name)["text"]
    record = yaml.safe_load(asked("export", tmp_path, name="record.yaml", changes={"epsilon": 2.5})["text"])
    assert record["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"] == 2.5


def test_a_trial_shows_days_as_dates(tmp_path):
    found = tasks.TASKS["trial"]({"plan": demo.plan()}, tmp_path)[0]
    days = [row for row in found["rows"] if row[0] == "median day of visit"]
    place = found["columns"].index("value")
    assert days[0][place].startswith("2025-")
    assert found["columns"][:2] == ["query", "clinic"]


def test_a_real_table_needs_an_id(tmp_path):
    for more in ({}, {"request": ""}, {"request": "one"}, {"request": 1, "confirmed": "epsilon 1"}):
        with pytest.raises(ArgumentError, match="request"):
            asked("publish", tmp_path, **more)


TEXT = """# ours
source = {path = "visits.csv"}
[unit]
column = "person_id" # whose visit
[budget]
epsilon = 1.0
[[query]]
name = "visits" # all
kind = "count"
"""


def edited(task, text, folder, **more):
    return tasks.TASKS[task]({"plan": text, **more}, folder)[0]


def test_a_question_is_added_and_removed_in_the_text_itself(tmp_path):
    (tmp_path / "visits.csv").write_text("person_id,age,clinic\n")
    changes = {"epsilon": 2.0, "rows": 3, "margins": {"visits": 20.0}}
    form = {"kind": "mean", "column": "age", "lower": 0, "upper": 110}
    found = edited("add", TEXT, tmp_path, form=form, changes=changes)
    assert found["plan"].startswith(TEXT)
    assert found["changes"] == changes
    assert found["words"] == "Added."
    more = {**changes, "margins": {"visits": 20.0, "mean of age": None}}
    back = edited("remove", found["plan"], tmp_path, query="mean of age", changes=more)
    assert back["plan"].strip() == TEXT.strip()
    assert back["changes"] == changes
    with pytest.raises(ArgumentError, match="only one"):
        edited("remove", TEXT, tmp_path, query="visits")
    with pytest.raises(ArgumentError, match="not in the plan"):
        edited("remove", TEXT, tmp_path, query="odd")


def test_a_column_that_the_table_does_not_have_is_said(tmp_path):
    form = {"kind": "mean", "column": "agee", "lower": 0, "upper": 110}
    assert "not checked" in edited("add", TEXT, tmp_path, form=form)["words"]  # there is no table here
    (tmp_path / "visits.csv").write_text("person_id,age,clinic\n")
    with pytest.raises(PlanError, match="no such column; did you mean 'age'"):
        edited("add", TEXT, tmp_path, form=form)
    with pytest.raises(PlanError, match="no such column; did you mean 'person_id'"):
        edited("kept", TEXT.replace("person_id", "person"), tmp_path, before=TEXT)
    assert edited("kept", TEXT, tmp_path, before=TEXT)["words"] == "Checked."
    assert edited("columns", TEXT, tmp_path) == {"columns": ["person_id", "age", "clinic"]}


def test_a_form_becomes_the_text_of_a_plan(tmp_path):
    text = asked("number", tmp_path, number={"kind": "count", "upper": 7})["plan"]
    assert parse_plan(text).query[0].allowed.hull.upper == 7.0


@pytest.mark.parametrize("more", [{"plan": 7}, {"answers": "1"}, {"answers": [True, 1, 2]}, {"question": "odd"}])
def test_odd_questions_are_refused(tmp_path, more):
    with pytest.raises(ArgumentError):
        asked("certified", tmp_path, **more)


def test_the_column_that_says_whose_a_row_is_is_set_in_the_text(tmp_path):
    (tmp_path / "rides.csv").write_text("rider,minutes\na,3\n")
    text = '# ours\n[source]\npath = "rides.csv"\n[unit]\ncolumn = "?" # who\n[budget]\nepsilon = 1.0\n'
    text += '[[query]]\nname = "rides"\nkind = "count"\n'
    found = asked("unit", tmp_path, plan=text, column="rider")
    assert found["plan"] == text.replace('"?"', '"rider"')
    assert asked("unit", tmp_path, plan=PLAN, column="rider")["plan"].endswith('[unit]\ncolumn = "rider"\n')
    none = asked("unit", tmp_path, plan=found["plan"], column=" ")["plan"]
    assert parse_plan(none).unit.column is None
    assert "# ours" in none
    with pytest.raises(PlanError, match="did you mean 'rider'"):
        asked("unit", tmp_path, plan=text, column="riders")
    with pytest.raises(ArgumentError, match="column"):
        asked("unit", tmp_path, column=3)


def test_a_plan_that_is_saved_keeps_its_comments(tmp_path):
    text = '# ours\n[budget] # a year\nepsilon = 1.0 # by the board\n[[query]]\nname = "rides" # all\nkind = "count"\n'
    changes = {"epsilon": 2.0, "margins": {"rides": 25.0}}
    found = asked("export", tmp_path, plan=text, name="plan.toml", changes=changes)["text"]
    assert [each in found for each in ("# ours", "# a year", "epsilon = 2.0 # by the board", "# all")] == [True] * 4
    assert parse_plan(found).query[0].margin == 25.0
    assert asked("export", tmp_path, plan=text, name="plan.toml")["text"] == text
