"""The weaker promise of an account with periods: in certificate, report, explanation and dry run, and checked."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

import rangebound as rb
from rangebound.errors import CertificateInvalid
from rangebound.ledger.book import Ledger
from rangebound.release import check_certificate, check_entry, explain, parse_plan
from rangebound.release.output.explain import dry_run
from tests.release.output.asked import asked, released

PLAN = 'budget = {epsilon = 0.5, account = "people"}\nquery = [{name = "visits", kind = "count"}]'
TABLE = pa.table({"age": [41, 27]})
REMOVED = object()
WORDS = (
    "The budget of account 'people' is for each quarter (UTC): all releases charged in one quarter together are "
    "(1, 0)-private. Over k quarters they are k times that, (k * 1, k * 0)-private, and no number bounds what the "
    "account leaks in the end."
)


@pytest.fixture
def book(tmp_path):
    with Ledger.create(tmp_path / "l.ledger") as made:
        made.open_account("people", epsilon=1, period="quarter")
        made.open_account("once", epsilon=1)
        yield made


def test_certificate_and_report_state_it(book, tmp_path):
    made = rb.release_table(parse_plan(PLAN), TABLE, ledger=book, request="1")
    assert json.loads(made.certificate)["ledger"]["promise"] == made.table_facts.promise == WORDS
    made.write(tmp_path / "report.html")
    assert WORDS.replace("'", "&#x27;") in (tmp_path / "report.html").read_text()
    checked = check_certificate(made.certificate, made.to_bytes())
    assert checked.entry.promise == WORDS
    check_entry(checked, made.to_bytes(), book)


def test_control_a_budget_for_good_says_nothing_of_it(book, tmp_path):
    made = rb.release_table(parse_plan(PLAN.replace("people", "once")), TABLE, ledger=book, request="1")
    assert set(json.loads(made.certificate)["ledger"]) == {"account", "request", "head"}
    assert made.table_facts.promise is None
    made.write(tmp_path / "report.html")
    assert "times that" not in (tmp_path / "report.html").read_text()
    check_entry(check_certificate(made.certificate, made.to_bytes()), made.to_bytes(), book)


@pytest.mark.parametrize(
    ("account", "said"),
    [
        *(("people", each) for each in (REMOVED, "The budget is for good.", WORDS.replace("quarter", "year"), "", 3)),
        ("once", None),
    ],
)
def test_a_certificate_that_states_another_promise_is_refused(book, account, said):
    made = rb.release_table(parse_plan(PLAN.replace("people", account)), TABLE, ledger=book, request="1")
    data = json.loads(made.certificate)
    data["ledger"]["promise"] = said
    if said is REMOVED:
        del data["ledger"]["promise"]
    forged = json.dumps(data, indent=1, sort_keys=True)
    with pytest.raises(CertificateInvalid):
        check_entry(check_certificate(forged, made.to_bytes()), made.to_bytes(), book)


def test_explanation_and_dry_run_state_it_where_the_account_is_at_hand(book):
    plan = parse_plan(PLAN)
    people = book.account("people")
    assert WORDS in explain(plan, account=people).splitlines()
    assert WORDS in dry_run(plan, account=people)["explained"]
    for other in (None, book.account("once")):
        assert "times that" not in explain(plan, account=other)
    approving = book.open_account("asked", epsilon=1, approval=True)
    assert "A person must approve the request before anything is read." in explain(plan, account=approving)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ledger": 3}', '{"ledger": {"promise": 3}}', "null", "[" * 9999])
def test_what_is_no_certificate_states_nothing(text):
    facts = replace(released(asked({"kind": "count"}), TABLE), certificate=text).table_facts
    assert (facts.promise, facts.entry) == (None, None)
