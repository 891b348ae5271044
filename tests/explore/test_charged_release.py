"""The real table: charged once, to the account of the plan, and only at the cost that was confirmed."""

import pytest

from rangebound.errors import ArgumentError, BudgetExceeded
from rangebound.explore.charged_release import account_words, charged_release, paying_account
from rangebound.ledger.book import Ledger
from rangebound.release import check_certificate, parse_plan

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


def test_a_ledger_that_is_not_there_is_no_account(tmp_path):
    assert paying_account(parse_plan(PLAN), tmp_path) is None
