"""`rangebound dummy`: rows for a plan, and a plan beside them that is released as it stands."""

import pytest

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
def plan(folder):
    (folder / "plan.toml").write_text(PLAN)
    return folder / "plan.toml"


def test_a_plan_for_a_database_is_tried_on_a_file(plan, done, refused):
    assert done("dummy", "plan.toml", "--rows", "3").splitlines()[0] == "clinic"
    assert done("dummy", "plan.toml", "--rows", "50", "-o", "rows.csv") == "made up: rows.csv; rows.toml reads it\n"
    done("ledger", "open", "trial.ledger", "people", "--epsilon", "2")
    assert "spent epsilon 1" in done("release", "rows.toml", "--request", "one", "--ledger", "trial.ledger")
    assert "ledger: missing" in refused("release", "rows.toml", "--request", "one")  # the copy names no ledger


def test_a_plan_with_joins_needs_files(plan, done, refused):
    joined = '[[join]]\ntable = "regions"\npublic = true\non = ["clinic"]\ncolumns = ["region"]\n'
    plan.write_text(PLAN + joined)
    assert "output: missing" in refused("dummy", "plan.toml")
    assert done("dummy", "plan.toml", "-o", "rows.csv") == "made up: rows.csv, rows-1.csv; rows.toml reads them\n"
    done("plan", "check", "rows.toml")


def test_nothing_is_overwritten(plan, refused):
    said = refused("dummy", "plan.toml", "-o", "plan.csv")  # plan.toml would be the plan beside it
    assert "'plan.toml': exists already" in said
