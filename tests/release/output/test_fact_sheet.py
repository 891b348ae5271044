"""The fact sheet: each answer follows from the plan, the certificate or the ledger, and turns with them."""

import re

import pytest

from rangebound.ledger.book import Ledger
from rangebound.release import demo, make_plan, parse_plan
from rangebound.release.output.fact_sheet import Verdict, fact_sheet, fact_sheet_text

COUNT = [{"name": "visits", "kind": "count", "by": ["clinic"]}]


def sheet(budget=None, **others):
    fields = {"unit": {"column": "person"}, "keys": {"clinic": ["n", "s"]}, "query": COUNT, **others}
    return {each.asked: each for each in fact_sheet(make_plan({"budget": budget or {"epsilon": 1.0}, **fields}))}


def test_a_sheet_has_some_thirty_requirements_each_asked_once_with_evidence():
    found = fact_sheet(parse_plan(demo.plan()))
    assert 30 <= len(found) <= 45
    assert len({each.asked for each in found}) == len(found)
    assert all(each.evidence and each.evidence == each.evidence.strip() for each in found)
    assert {each.verdict for each in found} == set(Verdict)
    about = " ".join(f"{each.asked} {each.evidence}" for each in found).lower()
    for word in (
        "unit",
        "neighbour",
        "contribution bound",
        "variant",
        "original parameters",
        "compos",
        "size of the table",
        "public keys",
        "post-processing",
        "bias",
        "floating point",
        "time",
        "access",
        "tuned",
    ):
        assert word in about, word


@pytest.mark.parametrize(
    ("asked", "good", "bad"),
    [
        ("Epsilon is at most 10", {}, {"budget": {"epsilon": 11.0}}),
        (
            "Delta is below 1 over the number of units",
            {},
            {
                "budget": {"epsilon": 1.0, "delta": 0.01},
                "unit": {"column": "person", "neighbours": "replace", "size": 500},
            },
        ),
        ("What contribution bounds and clipping cut is measured", {"report_clipping": True}, {}),
        (
            "Ranges do not look taken from the data",
            {},
            {"query": [{"name": "x", "kind": "mean", "column": "x", "range": [0, 71.93]}], "keys": {}},
        ),
        ("The budget is kept by a ledger", None, {}),
        ("The unit is a person, or another owner of rows", None, {"unit": {}}),
    ],
)
def test_an_answer_turns_with_the_plan(asked, good, bad):
    if good is not None:
        assert sheet(**good)[asked].verdict is Verdict.YES
    assert sheet(**bad)[asked].verdict is Verdict.NO


def test_what_the_plan_cannot_know_is_open():
    found = sheet(budget={"epsilon": 1.0, "delta": 1e-6, "account": "people"})
    for asked in (
        "Delta is below 1 over the number of units",
        "The unit is a person, or another owner of rows",
        "The budget is kept by a ledger",
        "Releases over time have one total",
        "What was tuned on the data was paid for",
        "Access to the table is controlled",
    ):
        assert found[asked].verdict is Verdict.OPEN, asked


def test_the_account_says_whether_its_budget_is_for_good(tmp_path):
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "visits", "kind": "count"}]})
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account("a", epsilon=1, approval=True)
        ledger.open_account("b", epsilon=1, period="month")
        ways = [fact_sheet(plan, account=ledger.account(name)) for name in ("a", "b")]
    verdicts = [{each.asked: each.verdict for each in found} for found in ways]
    assert [each["Releases over time have one total"] for each in verdicts] == ["yes", "no"]
    assert [each["A release needs the approval of a person"] for each in verdicts] == ["yes", "no"]


def test_a_hostile_name_is_neither_markup_nor_a_cell():
    name = "x|y\n# z <img src=x onerror=y> [a](b) `c` $d$ &amp; *e*"
    query = [{"name": name, "kind": "count", "by": [name]}]
    plan = make_plan({"title": name, "budget": {"epsilon": 1.0}, "keys": {name: [name]}, "query": query})
    lines = fact_sheet_text(fact_sheet(plan), plan.title).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert not any(re.search(r"(?<!\\)[<\[`*&$]", line) for line in lines)
    assert sum(line.startswith("# ") for line in lines) == 1
