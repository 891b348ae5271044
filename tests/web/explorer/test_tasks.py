"""What the page asks for, by name."""

import json

import pytest
import yaml

from rangebound.cli.app import run
from rangebound.errors import ArgumentError, PlanError
from rangebound.release import demo, parse_plan, solve
from rangebound.release.output.forecast import expected_widths
from rangebound.web.explorer import tasks
from rangebound.web.explorer.question_forms import Asked

PLAN = 'budget = {epsilon = 1.0}\nquery = [{name = "visits", kind = "count"}]'
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
WITH_MARGIN = parse_plan(PLAN.replace('"count"', '"count", margin = 20'))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits.csv").write_text("person_id,age,clinic\n")
    return tmp_path


def asked(task, folder, plan=PLAN, **more):
    return tasks.TASKS[task](Asked.read({"plan": plan, **more}), folder)


def test_margins_are_solved_as_the_command_does(tmp_path, capsys):
    margins = {"visits by clinic": 50.0, "patients": 20.0}
    found = asked("solve", tmp_path, demo.plan(), changes={"margins": margins})
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
        asked("solve", tmp_path, demo.plan())


def test_a_small_epsilon_and_one_that_leaves_more_are_offered(tmp_path):
    mean = '{name = "age", kind = "mean", column = "age", range = [0, 100]}'
    two = PLAN.replace("}]", f'}}, {{name = "more", kind = "count"}}, {mean}]')
    changes = {"margins": {"visits": 20}}
    found = asked("solve", tmp_path, two, changes=changes, rows=1000)
    plan = parse_plan(two.replace('kind = "count"}', 'kind = "count", margin = 20}', 1))
    ways = [solve(plan, rest=0.1), solve(plan)]
    assert [each["epsilon"] for each in found["offered"]] == [each.epsilon for each in ways]
    assert found["margins_alone"] == solve(WITH_MARGIN).epsilon < ways[0].epsilon
    assert found["words"] == f"The margins alone need epsilon {found['margins_alone']}."
    for offer, way in zip(found["offered"], ways, strict=True):
        _, more, _ = way.questions
        width = expected_widths(way.plan, 1000)[2].half_width
        said = f"(more: half-width {more.half_width:.4g}; age: half-width about {width:.4g} for 1000 rows)."
        assert offer["words"].endswith(said)
    assert "leaves 10 % of the budget" in found["offered"][0]["words"]
    assert "leaves 66.7 % of the budget" in found["offered"][1]["words"]
    few = asked("solve", tmp_path, two, changes=changes, rows=20)["offered"]
    assert few[0]["words"].count(", hopeless") == 2
    without = asked("solve", tmp_path, two, changes=changes)["offered"][0]["words"]
    assert without.endswith("divided by the number of rows that count).")
    (only,) = asked("solve", tmp_path, changes=changes)["offered"]  # the control: nothing is left to be said
    assert only["words"] == "meets all margins."


def test_a_text_that_is_edited_wins_where_it_differs_and_keeps_what_was_moved_since(tmp_path):
    changes = {"epsilon": 2.0, "margins": {"visits": 20.0}}
    shown = PLAN.replace("1.0", "1.5")  # what the page showed when somebody began to edit it
    moved = asked("kept", tmp_path, plan=shown.replace("visits", "stays"), before=shown, changes=changes)
    assert (moved["changes"], moved["words"]) == ({}, "Checked.")
    assert moved["plan"] == PLAN.replace("1.0", "2.0").replace("visits", "stays")
    edited = asked("kept", tmp_path, plan=shown.replace("1.5", "3.0"), before=shown, changes=changes)
    assert parse_plan(edited["plan"]).budget.epsilon == 3.0
    assert parse_plan(edited["plan"]).query[0].margin == 20.0


def test_the_text_that_is_shown_has_the_changes_and_warnings_are_those_of_the_dry_run(folder):
    found = asked("certified", folder, TEXT, changes={"epsilon": 12.0})
    assert found["text"] == TEXT.replace("1.0", "12.0")
    assert found["ready"]
    assert not asked("certified", folder, TEXT.replace("person_id", "?"))["ready"]  # a first plan
    assert found["expected"] is None
    warned = asked("certified", folder, changes={"epsilon": 12.0}, rows=50)
    assert warned["expected"][0]["rows"] == 50.0
    assert any("epsilon 12 is above 10" in each for each in warned["warnings"])
    assert any("single row" in each for each in warned["warnings"])


def test_what_is_saved_is_checked_as_the_command_does(folder, capsys):
    found = asked("checked", folder, TEXT, changes={"epsilon": 2.0})
    assert found["ready"]
    assert found["words"] == "Checked, as rangebound plan check does: ok, 1 query."
    assert found["text"] == TEXT.replace("1.0", "2.0")
    (folder / "plan.toml").write_text(found["text"])
    assert run(["plan", "check", str(folder / "plan.toml")]) == 0
    assert "ok: 1 query" in capsys.readouterr().out
    first = asked("checked", folder, TEXT.replace("person_id", "?"))  # the control
    assert not first["ready"]
    assert "Not ready yet: unit.column='?': is still to be filled in" in first["words"]
    inline = "# ours\nbudget = {epsilon = 1.0}\nquery = [{name = 'a', kind = 'count'}, {name = 'b', kind = 'count'}]"
    with pytest.raises(ArgumentError, match="cannot be written with its comments"):
        asked("checked", folder, inline, changes={"margins": {"b": 20.0}})


def test_a_question_has_bounds_of_its_own(folder):
    found = asked("bounds", folder, TEXT, query="visits", bounds={"rows": 3, "groups": None})
    assert found["plan"] == TEXT.replace('name = "visits" # all\n', 'name = "visits" # all\nrows = 3\n')
    assert asked("certified", folder, found["plan"])["questions"][0]["bounds"] == {"rows": 3}
    assert asked("bounds", folder, found["plan"], query="visits", bounds={})["plan"] == TEXT
    for odd in ({"query": "odd", "bounds": {}}, {"query": "visits", "bounds": {"rows": 0}}, {"query": "visits"}):
        with pytest.raises(ArgumentError):
            asked("bounds", folder, TEXT, **odd)


@pytest.mark.slow
def test_values_that_the_plan_lists_are_taken_and_it_says_so(folder):
    form = {"kind": "count", "by": "clinic", "keys": "north, south"}
    first = asked("add", folder, TEXT, form=form)
    assert first["words"] == "Added."
    again = asked("add", folder, first["plan"], form={**form, "keys": ""})
    assert again["words"] == "Added, for the values of 'clinic' that the plan lists."
    assert asked("certified", folder, again["plan"])["keys"] == {"clinic": ["north", "south"]}
    with pytest.raises(ArgumentError, match="the plan has north, south for 'clinic'"):
        asked("add", folder, first["plan"], form={**form, "keys": "east"})


def test_a_plan_is_exported_with_its_changes_and_its_comments(folder):
    for name in tasks.EXPORTS:
        assert asked("export", folder, name=name)["text"]
    changes = {"epsilon": 2.5, "margins": {"visits": 25.0}}
    found = asked("export", folder, TEXT, name="plan.toml", changes=changes)["text"]
    assert [each in found for each in ("# ours", "# whose visit", "epsilon = 2.5", "# all")] == [True] * 4
    assert parse_plan(found).query[0].margin == 25.0
    assert asked("export", folder, TEXT, name="plan.toml")["text"] == TEXT
    cells = json.loads(asked("export", folder, name="plan.ipynb")["text"])["cells"]
    assert "epsilon = 1.0" in "".join(cells[1]["source"])
    record = yaml.safe_load(asked("export", folder, name="record.yaml", changes={"epsilon": 2.5})["text"])
    assert record["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"] == 2.5


@pytest.mark.slow
def test_a_trial_shows_days_as_dates(tmp_path):
    found = asked("trial", tmp_path, demo.plan())
    days = [row for row in found["rows"] if row[0] == "median day of visit"]
    place = found["columns"].index("value")
    assert days[0][place].startswith("2025-")
    assert found["columns"][:2] == ["query", "clinic"]


def test_a_question_is_added_and_removed_in_the_text_itself(folder):
    changes = {"epsilon": 2.0, "rows": 3, "margins": {"visits": 20.0}}
    form = {"kind": "mean", "column": "age", "lower": 0, "upper": 110}
    found = asked("add", folder, TEXT, form=form, changes=changes)
    assert found["plan"].startswith(TEXT)
    assert found["changes"] == changes
    assert found["words"] == "Added."
    more = {**changes, "margins": {"visits": 20.0, "mean of age": None}}
    back = asked("remove", folder, found["plan"], query="mean of age", changes=more)
    assert back["plan"].strip() == TEXT.strip()
    assert back["changes"] == changes
    with pytest.raises(ArgumentError, match="only one"):
        asked("remove", folder, TEXT, query="visits")
    with pytest.raises(ArgumentError, match="not in the plan"):
        asked("remove", folder, TEXT, query="odd")


def test_a_column_that_the_table_does_not_have_is_said(folder, tmp_path_factory):
    form = {"kind": "mean", "column": "agee", "lower": 0, "upper": 110}
    assert "not checked" in asked("add", tmp_path_factory.mktemp("without"), TEXT, form=form)["words"]
    with pytest.raises(PlanError, match="no such column; did you mean 'age'"):
        asked("add", folder, TEXT, form=form)
    with pytest.raises(PlanError, match="no such column; did you mean 'person_id'"):
        asked("kept", folder, TEXT.replace("person_id", "person"), before=TEXT)
    assert asked("columns", folder, TEXT) == {"columns": ["person_id", "age", "clinic"]}


@pytest.mark.parametrize(
    ("task", "more"),
    [
        *(("certified", each) for each in ({"plan": 7}, {"answers": "1"}, {"answers": [True, 1, 2]}, {"rows": "50"})),
        *(("publish", each) for each in ({}, {"request": ""}, {"request": 1, "confirmed": "epsilon 1"})),
        ("certified", {"question": "odd"}),
        ("publish", {"request": "one"}),  # and nothing is confirmed
        ("kept", {}),
        ("export", {"name": "odd.txt"}),
        ("unit", {"column": 3}),
    ],
)
def test_odd_questions_are_refused(tmp_path, task, more):
    words = {"publish": "request", "kept": "before", "export": "name", "unit": "column"}
    with pytest.raises(ArgumentError, match=words.get(task)):
        asked(task, tmp_path, **more)


def test_the_column_that_says_whose_a_row_is_is_set_in_the_text(folder):
    first = TEXT.replace("person_id", "?")
    assert asked("unit", folder, first, column="person_id")["plan"] == TEXT
    assert asked("unit", folder, column="rider")["plan"].endswith('[unit]\ncolumn = "rider"\n')
    none = asked("unit", folder, TEXT, column=" ")["plan"]
    assert parse_plan(none).unit.column is None
    assert "# ours" in none
    with pytest.raises(PlanError, match="did you mean 'age'"):
        asked("unit", folder, first, column="ages")
