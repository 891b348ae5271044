"""The fact sheet: each answer follows from the plan, the certificate or the ledger, and turns with them."""

import re

import pytest

from rangebound.ledger.book import Ledger
from rangebound.release import demo, parse_plan
from rangebound.release.output.deployment_record import Verdict, fact_sheet, fact_sheet_text
from tests.release.output.asked import asked

COUNT = {"kind": "count", "by": ["clinic"]}
SIZE = {"delta": 0.01, "unit": {"column": "person", "neighbours": "replace", "size": 500}}
KEPT = {"budget": {"epsilon": 1.0, "delta": 1e-6, "account": "people"}}


def sheet(question=COUNT, **others):
    plan = asked(question, **{"unit": {"column": "person"}, "keys": {"clinic": ["n", "s"]}, **others})
    return {each.asked: each for each in fact_sheet(plan)}


def test_a_sheet_asks_eight_things_once_each_with_evidence():
    found = fact_sheet(parse_plan(demo.plan()))
    assert len(found) == 8
    assert len({each.asked for each in found}) == len(found)
    assert all(each.evidence and each.evidence == each.evidence.strip() for each in found)
    assert {each.verdict for each in found} == set(Verdict)


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("requirement", "parts", "verdict"),
    [
        ("Epsilon is at most 10", {}, "yes"),
        ("Epsilon is at most 10", {"epsilon": 11.0}, "no"),
        ("Delta is below 1 over the number of units", {}, "yes"),
        ("Delta is below 1 over the number of units", SIZE, "no"),
        ("Delta is below 1 over the number of units", KEPT, "open"),
        ("What contribution bounds and clipping cut is measured", {"report_clipping": True}, "yes"),
        ("What contribution bounds and clipping cut is measured", {}, "no"),
        ("The budget is kept by a ledger", {}, "no"),
        ("The budget is kept by a ledger", KEPT, "open"),
        ("All rows of an owner are protected together", {}, "open"),
        ("All rows of an owner are protected together", {"unit": {}}, "no"),
        ("Releases over time have one total", KEPT, "open"),
        ("The claim of each number is proved, and can be checked", {}, "no"),
    ],
)
def test_an_answer_turns_with_the_plan_and_what_it_cannot_know_is_open(requirement, parts, verdict):
    assert sheet(**parts)[requirement].verdict == verdict


def test_a_certificate_is_the_evidence_of_its_proof():
    sheet = fact_sheet(asked({"kind": "count"}), certificate='{"published": "abc"}')
    (proved,) = (each for each in sheet if each.asked.startswith("The claim of each number"))
    assert (proved.verdict, "SHA-256 abc" in proved.evidence) == ("yes", True)


def test_the_account_says_whether_its_budget_is_for_good(tmp_path):
    plan = asked({"kind": "count"})
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account("a", epsilon=1, approval=True)
        ledger.open_account("b", epsilon=1, period="month")
        ways = [fact_sheet(plan, account=ledger.account(name)) for name in ("a", "b")]
    verdicts = [{each.asked: each.verdict for each in found} for found in ways]
    assert [each["Releases over time have one total"] for each in verdicts] == ["yes", "no"]
    assert [each["A release needs the approval of a person"] for each in verdicts] == ["yes", "no"]


def test_a_hostile_name_is_neither_markup_nor_a_cell():
    name = "x|y\n# z <img src=x onerror=y> [a](b) `c` $d$ &amp; *e*"
    plan = asked({"name": name, "kind": "count", "by": [name]}, title=name, keys={name: [name]})
    lines = fact_sheet_text(fact_sheet(plan), plan.title).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert not any(re.search(r"(?<!\\)[<\[`*&$]", line) for line in lines)
    assert sum(line.startswith("# ") for line in lines) == 1
