"""A trial is a release of the plan, on rows that nobody has."""

from rangebound.release import parse_plan
from rangebound.web.explorer.plan_tables import made_up_trial

PLAN = """
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
    found = made_up_trial(parse_plan(PLAN), rows=1000).rows()
    assert [row["clinic"] for row in found] == ["north", "south"]
    assert 900 <= sum(row["value"] for row in found) <= 1000  # some rows have no key
    assert list(tmp_path.iterdir()) == []
