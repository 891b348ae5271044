"""The real table: charged once, to the account of the plan, and only at the cost that was confirmed."""

import shlex

import pytest

from rangebound.cli.app import run
from rangebound.errors import ArgumentError, BudgetExceeded
from rangebound.ledger.book import Ledger
from rangebound.release import check_certificate, parse_plan
from rangebound.web.explorer.plan_tables import account_words, charged_release, paying_account

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
