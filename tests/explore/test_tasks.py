"""What the page asks for, by name."""

import json
import tomllib

import pytest
import yaml

from rangebound.cli.app import run
from rangebound.errors import ArgumentError, PlanError
from rangebound.explore import tasks
from rangebound.release import demo, parse_plan, solve
from rangebound.release.output.expected_width import expected_widths

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


def test_a_small_epsilon_and_one_that_leaves_more_are_offered(tmp_path):
    mean = '{name = "age", kind = "mean", column = "age", range = [0, 100]}'
    two = PLAN.replace("}]", f'}}, {{name = "more", kind = "count"}}, {mean}]')
    changes = {"margins": {"visits": 20}}
    found = tasks.TASKS["solve"]({"plan": two, "changes": changes, "rows": 1000}, tmp_path)[0]
    plan = parse_plan(two.replace('kind = "count"}', 'kind = "count", margin = 20}', 1))
    ways = [solve(plan, rest=0.1), solve(plan)]
    assert [each["epsilon"] for each in found["offered"]] == [each.epsilon for each in ways]
    assert found["margins_alone"] == solve(PLAN_WITH_MARGIN).epsilon < ways[0].epsilon
    assert found["words"] == f"The margins alone need epsilon {found['margins_alone']}."
    for offer, way in zip(found["offered"], ways, strict=True):
        _, more, _ = way.questions
        width = expected_widths(way.plan, 1000)[2].half_width
        said = f"(more: half-width {more.half_width:.4g}; age: half-width about {width:.4g} for 1000 rows)."
        assert offer["words"].endswith(said)
    assert "leaves 10 % of the budget" in found["offered"][0]["words"]
    assert "leaves 66.7 % of the budget" in found["offered"][1]["words"]
    few = tasks.TASKS["solve"]({"plan": two, "changes": changes, "rows": 20}, tmp_path)[0]["offered"]
    assert few[0]["words"].count(", hopeless") == 2
    without = tasks.TASKS["solve"]({"plan": two, "changes": changes}, tmp_path)[0]["offered"][0]["words"]
    assert without.endswith("divided by the number of rows that count).")
    (only,) = asked("solve", tmp_path, changes=changes)["offered"]  # the control: nothing is left to be said
    assert only["words"] == "meets all margins."


PLAN_WITH_MARGIN = parse_plan(PLAN.replace('"count"', '"count", margin = 20'))


def test_a_text_that_is_edited_wins_where_it_differs_and_keeps_what_was_moved_since(tmp_path):
    changes = {"epsilon": 2.0, "margins": {"visits": 20.0}}
    shown = PLAN.replace("1.0", "1.5")  # what the page showed when somebody began to edit it
    moved = asked("kept", tmp_path, plan=shown.replace("visits", "stays"), before=shown, changes=changes)
    assert (moved["changes"], moved["words"]) == ({}, "Checked.")
    assert moved["plan"] == PLAN.replace("1.0", "2.0").replace("visits", "stays")
    edited = asked("kept", tmp_path, plan=shown.replace("1.5", "3.0"), before=shown, changes=changes)
    assert parse_plan(edited["plan"]).budget.epsilon == 3.0
    assert parse_plan(edited["plan"]).query[0].margin == 20.0


def test_the_text_that_is_shown_has_the_changes_and_keeps_comments(tmp_path):
    text = "# ours\n[budget]\nepsilon = 1.0 # a year\n[[query]]\nname = 'visits'\nkind = 'count'\n"
    found = asked("certified", tmp_path, plan=text, changes={"epsilon": 2.0})
    assert found["text"] == text.replace("1.0", "2.0")
    assert found["expected"] is None
    assert asked("certified", tmp_path, rows=50)["expected"][0]["rows"] == 50.0
    with pytest.raises(ArgumentError, match="rows"):
        asked("certified", tmp_path, rows="50")


def test_what_is_saved_is_checked_as_the_command_does(tmp_path, capsys):
    (tmp_path / "visits.csv").write_text("person_id,age,clinic\n")
    found = edited("checked", TEXT, tmp_path, changes={"epsilon": 2.0})
    assert found["ready"]
    assert found["words"] == "Checked, as rangebound plan check does: ok, 1 query."
    assert found["text"] == TEXT.replace("1.0", "2.0")
    (tmp_path / "plan.toml").write_text(found["text"])
    assert run(["plan", "check", str(tmp_path / "plan.toml")]) == 0
    assert "ok: 1 query" in capsys.readouterr().out
    first = edited("checked", TEXT.replace("person_id", "?"), tmp_path)  # the control
    assert not first["ready"]
    assert "Not ready yet: unit.column='?': is still to be filled in" in first["words"]
    inline = "# ours\nbudget = {epsilon = 1.0}\nquery = [{name = 'a', kind = 'count'}, {name = 'b', kind = 'count'}]"
    with pytest.raises(ArgumentError, match="cannot be written with its comments"):
        edited("checked", inline, tmp_path, changes={"margins": {"b": 20.0}})


def test_a_question_has_bounds_of_its_own(tmp_path):
    (tmp_path / "visits.csv").write_text("person_id,age,clinic\n")
    found = edited("bounds", TEXT, tmp_path, query="visits", rows=3, groups=None)
    assert found["plan"] == TEXT.replace('name = "visits" # all\n', 'name = "visits" # all\nrows = 3\n')
    assert edited("certified", found["plan"], tmp_path)["questions"][0]["bounds"] == {"rows": 3}
    assert edited("bounds", found["plan"], tmp_path, query="visits", rows=None)["plan"] == TEXT
    for odd in ({"query": "odd"}, {"query": "visits", "rows": 0}, {"query": "visits", "groups": 1.5}):
        with pytest.raises(ArgumentError):
            edited("bounds", TEXT, tmp_path, **odd)


def test_values_that_the_plan_lists_are_taken_and_it_says_so(tmp_path):
    (tmp_path / "visits.csv").write_text("person_id,age,clinic\n")
    form = {"kind": "count", "by": "clinic", "keys": "north, south"}
    first = edited("add", TEXT, tmp_path, form=form)
    assert first["words"] == "Added."
    again = edited("add", first["plan"], tmp_path, form={**form, "keys": ""})
    assert again["words"] == "Added, for the values of 'clinic' that the plan lists."
    assert edited("certified", again["plan"], tmp_path)["keys"] == {"clinic": ["north", "south"]}
    with pytest.raises(ArgumentError, match="the plan has north, south for 'clinic'"):
        edited("add", first["plan"], tmp_path, form={**form, "keys": "east"})


def test_the_page_of_a_first_plan_is_not_ready(tmp_path):
    assert edited("certified", TEXT, tmp_path)["ready"]
    assert not edited("certified", TEXT.replace("person_id", "?"), tmp_path)["ready"]


def test_a_text_that_is_checked_needs_the_one_before(tmp_path):
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
