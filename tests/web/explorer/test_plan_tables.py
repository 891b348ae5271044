"""Files, columns, made-up rows, and the real table: charged once, and only at the cost that was confirmed."""

import contextlib
import io
import json
import os
import shlex
import stat
from pathlib import Path

import pytest

from rangebound.cli.app import run
from rangebound.errors import ArgumentError, BudgetExceeded, PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import check_certificate, make_plan, parse_plan
from rangebound.web.explorer.plan_tables import (
    account_words,
    charged_release,
    check_columns,
    column_names,
    made_up_trial,
    notebook,
    paying_account,
    read_text,
    save_plan,
)
from rangebound.web.explorer.plan_view import plan_view

PLAN = """
source = {path = "visits.csv"}
budget = {epsilon = 1.5, account = "people", ledger = "people.ledger"}
query = [{name = "visits", kind = "count"}]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits.csv").write_text("age\n" + "30\n" * 50)
    with Ledger.create(tmp_path / "people.ledger") as ledger:
        ledger.open_account("people", epsilon="2")
    return tmp_path


def test_a_release_is_charged_once(folder):
    plan = parse_plan(PLAN)
    assert account_words(plan, folder) == {
        "account": "people",
        "left": "epsilon 2",
        "cost": "epsilon 1.5",
        "source": "visits.csv",
    }
    made, left = charged_release(plan, folder, request="one", confirmed="epsilon 1.5")
    assert left == "epsilon 0.5"
    assert check_certificate(made.certificate, made.to_bytes()).epsilon == 1.5
    again, left = charged_release(plan, folder, request="one", confirmed="epsilon 1.5")
    assert (again.to_bytes(), left) == (made.to_bytes(), "epsilon 0.5")
    with pytest.raises(BudgetExceeded):
        charged_release(plan, folder, request="two", confirmed="epsilon 1.5")


def test_nothing_is_charged_for_another_cost_than_was_confirmed(folder):
    with pytest.raises(ArgumentError, match="confirmed"):
        charged_release(parse_plan(PLAN), folder, request="one", confirmed="epsilon 1")
    account = paying_account(parse_plan(PLAN), folder)
    assert account is not None
    assert account.left == "epsilon 2"


@pytest.mark.parametrize(
    "old", ['source = {path = "visits.csv"}', ', account = "people"', ', ledger = "people.ledger"']
)
def test_a_plan_without_a_source_or_an_account_says_so(folder, old):
    plan = parse_plan(PLAN.replace(old, ""))
    assert "nothing to charge" in account_words(plan, folder)["reason"]
    with pytest.raises(ArgumentError):
        charged_release(plan, folder, request="one", confirmed="epsilon 1.5")


@pytest.mark.parametrize("delta", ["", ", delta = 1e-6"])
def test_a_ledger_that_is_not_there_is_named_with_the_command_that_makes_it(tmp_path, delta):
    plan = parse_plan(PLAN.replace("epsilon = 1.5", f"epsilon = 1.5{delta}"))
    (tmp_path / "visits.csv").write_text("age\n30\n")
    assert paying_account(plan, tmp_path) is None
    said = account_words(plan, tmp_path)["reason"]
    assert f"{tmp_path / 'people.ledger'} does not exist" in said
    command = shlex.split(said.partition("This makes it: ")[2])
    assert command[:3] == ["rangebound", "ledger", "open"]
    assert run(command[1:]) == 0
    assert account_words(plan, tmp_path)["cost"] == str(plan.budget)
    charged_release(plan, tmp_path, request="one", confirmed=str(plan.budget))


def test_an_account_that_is_not_there_is_named_with_the_command_that_opens_it(folder):
    plan = parse_plan(PLAN.replace('account = "people"', 'account = "staff"'))
    said = account_words(plan, folder)["reason"]
    assert "has no account 'staff'" in said
    assert run(shlex.split(said.partition("This opens it: ")[2])[1:]) == 0
    assert account_words(plan, folder)["left"] == "epsilon 1.5"


def test_a_ledger_that_cannot_be_opened_is_said_to_be_so(folder):
    (folder / "people.ledger").write_text("no ledger")
    assert "cannot be opened" in account_words(parse_plan(PLAN), folder)["reason"]


ON_TRIAL = """
source = {path = "missing.csv"}
budget = {epsilon = 100.0, account = "people", ledger = "missing.ledger"}
keys = {clinic = ["north", "south"]}
[[query]]
name = "visits"
kind = "count"
by = ["clinic"]
"""


def test_a_trial_reads_neither_the_table_nor_the_ledger_of_the_plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = made_up_trial(parse_plan(ON_TRIAL), rows=1000).rows()
    assert [row["clinic"] for row in found] == ["north", "south"]
    assert 900 <= sum(row["value"] for row in found) <= 1000  # some rows have no key
    assert list(tmp_path.iterdir()) == []


MEAN = """source = {path = "visits.csv"}
unit = {column = "who"}
budget = {epsilon = 1.0}
query = [{name = "age", kind = "mean", column = "age", range = [0, 110]}]
"""


@pytest.fixture
def visits(tmp_path):
    (tmp_path / "visits.csv").write_text("who,age,city\nnobody,1,there\n")
    return tmp_path


def test_names_are_those_of_the_file(visits, tmp_path_factory):
    assert column_names(parse_plan(MEAN), visits) == ("who", "age", "city")
    assert column_names(parse_plan(MEAN), tmp_path_factory.mktemp("elsewhere")) == ()
    server = MEAN.replace('{path = "visits.csv"}', '{postgres = "postgresql://nowhere/x", table = "visits"}')
    assert column_names(parse_plan(server), visits) == ()
    assert check_columns(parse_plan(server), visits) == ""


def test_a_name_that_the_file_does_not_have_is_refused(visits):
    assert check_columns(parse_plan(MEAN), visits) == ""
    with pytest.raises(PlanError, match="did you mean 'who'"):
        check_columns(parse_plan(MEAN.replace('"who"', '"whom"')), visits)
    assert "sounds like text" in check_columns(parse_plan(MEAN.replace('"age"', '"city"')), visits)


def test_a_file_that_is_not_there_is_said(tmp_path):
    assert "were not checked" in check_columns(parse_plan(MEAN), tmp_path)


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "plan.toml"
    found.write_bytes(b"# ours\nepsilon = 1\n")
    return found


def test_the_file_has_the_new_text_and_nothing_else_is_left(file):
    file.chmod(0o640)
    save_plan(file, "# ours\r\nepsilon = 2\n", opened="# ours\nepsilon = 1\n")
    assert file.read_bytes() == b"# ours\nepsilon = 2\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [each.name for each in file.parent.iterdir()] == ["plan.toml"]


def test_a_file_that_has_changed_is_left_alone(file):
    file.write_text("# theirs\n")
    with pytest.raises(ArgumentError, match=r"plan\.toml: has changed since this page read it"):
        save_plan(file, "# new\n", opened="# ours\nepsilon = 1\n")
    assert file.read_text() == "# theirs\n"
    save_plan(file, "# new\n", opened="# theirs\n")  # the control
    assert file.read_text() == "# new\n"


def test_line_ends_and_links_stay(file, tmp_path):
    file.write_bytes(b"# ours\r\nepsilon = 1\r\n")
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    opened = read_text(link)
    assert opened == "# ours\nepsilon = 1\n"
    save_plan(link, "# ours\r\nepsilon = 2\n", opened=opened)  # a carriage return more would be no TOML
    assert link.is_symlink()
    assert file.read_bytes() == b"# ours\r\nepsilon = 2\r\n"


def test_a_write_that_fails_leaves_the_old_file(file, monkeypatch):
    def fails(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(ArgumentError, match=r"cannot be saved \(no space left\)"):
        save_plan(file, "# new\n", opened=read_text(file))
    assert file.read_text() == "# ours\nepsilon = 1\n"
    assert [each.name for each in file.parent.iterdir()] == ["plan.toml"]


def test_a_file_that_is_gone_or_no_text_is_refused(file, tmp_path):
    with pytest.raises(ArgumentError, match="cannot be saved"):
        save_plan(tmp_path / "gone.toml", "new", opened="old")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ArgumentError, match="cannot be saved"):
        save_plan(file, "new", opened="old")
    assert file.read_bytes() == b"\xff\xfe"


def test_a_file_is_opened_for_writing_before_it_is_replaced(file, monkeypatch):
    """Its folder would let another file take its place. Also where root runs the tests, to whom no file is closed."""
    own = Path.open

    def opened(path, mode="r", *rest, **named):
        if "+" in mode or "w" in mode:
            raise PermissionError(13, "Permission denied")
        return own(path, mode, *rest, **named)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(ArgumentError, match=r"cannot be saved \(.*Permission denied"):
        save_plan(file, "# new\n", opened="# ours\nepsilon = 1\n")
    assert file.read_text() == "# ours\nepsilon = 1\n"


TITLED = 'title = "TITLE"\nbudget = {epsilon = 1.0}\nquery = [{name = "visits", kind = "count", margin = 9}]'


@pytest.mark.few(2)
@pytest.mark.parametrize("title", ["Visits", "It''''s", "back\\\\slash", "quote '"])
def test_a_notebook_runs_and_says_what_the_page_says(title):
    plan = parse_plan(TITLED.replace("TITLE", title))
    found = json.loads(notebook(plan))
    cells = found["cells"]
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert len({each["id"] for each in cells}) == len(cells)
    assert all({"cell_type", "metadata", "source"} <= each.keys() for each in cells)
    assert all((each["cell_type"] == "code") == ("outputs" in each) for each in cells)
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        for cell in cells:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
    assert names["plan"] == plan
    view, _ = plan_view(plan)
    assert view["risk"]["odds"] in said.getvalue()
    assert str(view["risk"]["advantage"]) in said.getvalue()
    assert view["explained"] in said.getvalue()


def test_a_title_is_one_heading_and_no_markup():
    title = "# x\r\n<img src='//a'>\u2028[b](c)"
    plan = make_plan({"title": title, "budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]})
    first = "".join(json.loads(notebook(plan))["cells"][0]["source"])
    assert first.splitlines()[0] == r"# \# x\\r\\n\<img src='//a'\>\\u2028\[b\](c)"
