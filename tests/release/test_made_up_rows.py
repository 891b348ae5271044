"""Made-up rows: the plan they were made for runs on them, whatever it asks; they have what plans are tried for."""

import csv
import io
import re
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import make_plan, parse_plan, read_plan, release
from rangebound.release.engine import opened
from rangebound.release.made_up_rows import made_up
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.sql.view import view
from tests.release.engine.test_engines import found

ROOT = Path(__file__).resolve().parents[2]
JOBS = sorted(path.parent.name for path in ROOT.glob("examples/*/plan.toml"))
LONG = [pytest.param(each, marks=pytest.mark.long) for each in JOBS if each not in ("penguins", "films")]
PAGES = sorted(
    path for path in (*ROOT.glob("docs/**/*.md"), ROOT / "README.md") if "[[query]]" in path.read_text(encoding="utf-8")
)
ENDINGS = [".csv", pytest.param(".parquet", marks=pytest.mark.skipif(not find_spec("pyarrow"), reason="needs pyarrow"))]


def plans_of(page):
    """The whole plans on a page, in TOML alone or in Python."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in [
        *re.findall(r"```toml\n(.*?)```", text, re.DOTALL),
        *re.findall(r"parse_plan\('''(.*?)'''", text, re.DOTALL),
    ]:
        try:
            found.append(parse_plan(block.replace("\\\\", "\\"), folder=page.parent))
        except PlanError:  # a part of a plan, or one that shows a mistake
            continue
    return found


def check_columns(plan, folder, ending):
    """Make up tables for a plan, and look whether it could be released: after this no row decides."""
    *_, written = made_up(plan, 40).write(folder / f"rows{ending}")
    copy = read_plan(written)
    assert copy.query == plan.query
    assert copy.budget.ledger is None
    with opened(copy.source, folder=folder) as engine:
        check_schema(copy, view(copy, engine).schema)
    return copy


@pytest.mark.few(9)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_plan_of_the_pages_can_be_asked_of_its_made_up_rows(tmp_path, page, ending):
    for number, plan in enumerate(plans_of(page)):
        (tmp_path / str(number)).mkdir()
        assert check_columns(plan, tmp_path / str(number), ending)


def test_the_pages_have_plans_with_joins_steps_and_all_kinds_of_keys():
    plans = [plan for page in PAGES for plan in plans_of(page)]
    assert len(plans) >= 12
    assert any(plan.join for plan in plans)
    assert any(plan.per_unit for plan in plans)


@pytest.fixture(scope="session")
def jobs(tmp_path_factory):
    """The plans of the examples; the public files of keys, which a package brings, stand here in twenty lines."""
    folder = tmp_path_factory.mktemp("jobs")
    tables = folder / "out" / "tables"
    tables.mkdir(parents=True)
    for file in ("airports.csv", "airlines.csv"):
        (tables / file).write_text("".join(["faa,name\n", *(f"F{at},Name {at}\n" for at in range(20))]))
    for job in JOBS:
        (folder / "examples" / job).mkdir(parents=True)
        (folder / "examples" / job / "plan.toml").write_bytes((ROOT / "examples" / job / "plan.toml").read_bytes())
    return folder / "examples"


@pytest.mark.few(5)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("job", JOBS)
def test_the_plans_of_the_examples_can_be_asked_of_their_made_up_rows(tmp_path, jobs, job, ending):
    assert check_columns(read_plan(jobs / job / "plan.toml"), tmp_path, ending)


@pytest.mark.few(1)
@pytest.mark.parametrize("job", ["penguins", "films", *LONG])
def test_the_made_up_rows_of_an_example_are_released(tmp_path, jobs, job):
    *_, written = made_up(read_plan(jobs / job / "plan.toml"), 200).write(tmp_path / "rows.csv")
    plan = read_plan(written)
    with Ledger.create(tmp_path / "trial.ledger") as ledger, opened(plan.source, folder=tmp_path) as engine:
        ledger.open_account(plan.budget.account, epsilon=100, delta="0.1")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # columns that sound like texts
            made = release(plan, engine, ledger=ledger, request="trial")
    assert len(made.rows()) >= len([each for each in plan.query if not plan.private(each.by)])


def test_control_a_table_without_a_column_of_the_plan_is_refused(tmp_path, jobs):
    *_, written = made_up(read_plan(jobs / "penguins" / "plan.toml"), 40).write(tmp_path / "rows.csv")
    rows = (tmp_path / "rows.csv").read_text().splitlines()
    first, comma, rest = rows[0].partition(",")
    (tmp_path / "rows.csv").write_text("\n".join([f"no {first}{comma}{rest}", *rows[1:]]))
    plan = read_plan(written)
    with opened(plan.source, folder=tmp_path) as engine, pytest.raises(PlanError, match="no such column"):
        check_schema(plan, view(plan, engine).schema)


PLAN = """
unit = {column = "person", rows = 3}
budget = {epsilon = 1, account = "people", ledger = "real.ledger"}
keys = {clinic = ["north", "south"]}

[[join]]
path = "real.csv"
public = true
on = ["clinic"]
columns = ["region"]

[[query]]
name = "age"
kind = "mean"
column = "age"
range = [18, 70]
by = ["clinic"]
where = "visit >= DATE '2025-03-01' AND region = 'coast'"
"""


def test_rows_have_the_keys_and_ranges_of_the_plan_and_some_values_beyond():
    found = made_up(parse_plan(PLAN), 2000)
    rows = list(csv.DictReader(io.StringIO(found.table.to_csv())))
    assert set(rows[0]) == {"person", "clinic", "age", "visit"}
    assert {row["clinic"] for row in rows} == {"north", "south", "not listed", ""}
    ages = [int(row["age"]) for row in rows if row["age"]]
    assert 0.9 < sum(18 <= age <= 70 for age in ages) / len(ages) < 1
    assert any(row["visit"] >= "2025-03-01" for row in rows)
    assert any("" < row["visit"] < "2025-03-01" for row in rows)
    owners = [row["person"] for row in rows if row["person"]]
    assert 600 < len(set(owners)) < len(owners) - 900
    assert sum(row["person"] == "" for row in rows) > 2
    (other,) = found.joined
    names = [row["clinic"] for row in other.rows]
    assert len(set(names)) == len(names) >= 1  # a public table has each key once


def test_a_key_with_a_line_break_is_read_back_from_the_file(tmp_path):
    keys = ["a\rb", "c\nd", 'e,"f"']
    query = [{"name": "n", "kind": "count", "by": ["g"]}]
    whole = made_up(make_plan({"budget": {"epsilon": 1.0}, "keys": {"g": keys}, "query": query}), 200)
    made = whole.table
    rows = list(csv.DictReader(io.StringIO(made.to_csv(), newline="")))
    assert [row["g"] for row in rows] == [row["g"] or "" for row in made.rows]
    assert set(keys) < {row["g"] for row in rows}
    plan = read_plan(whole.write(tmp_path / "t.csv")[-1])
    with opened(plan.source, folder=tmp_path) as engine:
        counts = found(plan, engine)[0][0]
    assert counts == {(each,): (sum(row["g"] == each for row in made.rows),) for each in keys}


def test_rows_are_the_same_whenever_they_are_made_and_follow_from_the_plan_alone(tmp_path, monkeypatch):
    plan = parse_plan(PLAN)
    first = made_up(plan, 50).table.to_csv()
    monkeypatch.chdir(tmp_path)  # where there is no real.csv, nor a ledger
    assert made_up(plan, 50).table.to_csv() == first
    assert made_up(parse_plan(PLAN.replace("[18, 70]", "[180, 700]")), 50).table.to_csv() != first


def test_no_file_is_overwritten_and_none_is_written_where_one_is_there(tmp_path):
    (tmp_path / "rows-1.csv").write_text("mine")
    with pytest.raises(ArgumentError, match="exists already"):
        made_up(parse_plan(PLAN), 5).write(tmp_path / "rows.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["rows-1.csv"]
    with pytest.raises(ArgumentError, match="existing folder"):
        made_up(parse_plan(PLAN), 5).write(tmp_path / "no" / "rows.csv")
    with pytest.raises(ArgumentError, match=r"\.csv or \.parquet"):
        made_up(parse_plan(PLAN), 5).write(tmp_path / "rows.xlsx")


@pytest.mark.parametrize("rows", [0, -1, 10**9, 1.5, True])
def test_a_number_of_rows_that_is_none_is_refused(rows):
    with pytest.raises(ArgumentError, match="rows="):
        made_up(parse_plan(PLAN), rows)
