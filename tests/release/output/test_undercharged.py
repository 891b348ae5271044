"""Tables that version 0.2 charged too little are named, and what was charged enough stays as it is."""

import datetime
import math
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid, RequestConflict
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, PlainSum, RenyiFilter
from rangebound.release import check_certificate, check_entry, release
from rangebound.release.output.ledger_entry import charge_text, charges, least_due, undercharged
from rangebound.release.output.plan_facts import sha256
from rangebound.release.prepare import prepare
from tests.release.output.asked import asked

RULES = {"sum": PlainSum(), "gaussian": GaussianFilter(), "renyi": RenyiFilter(order=16)}
DAYS = [datetime.date(2025, 1, 1) + datetime.timedelta(days=at) for at in range(30)]
ROWS = pa.table({"person": [1, 2, 2], "day": [DAYS[0], DAYS[0], DAYS[9]], "wait": [1.0, 2.0, 3.0]})
SERIES = {"name": "visits", "kind": "series", "by": ["day"]}
COUNT = {"name": "visits", "kind": "count", "by": ["day"]}


def plan_of(account, question=SERIES, **budget):
    keys, unit = {"day": DAYS} if "by" in question else {}, {"column": "person", "groups": 25}
    return asked(question, unit=unit, budget={"epsilon": 0.5, "account": account, **budget}, keys=keys)


def cost_before(plan):
    """What version 0.2 charged: as many losses as a unit has groups, by the squares of their mu."""
    square = sum((each.square for each in prepare(plan).allocation.questions.values()), Fraction(0))
    return GaussianCost(mu=Fraction(math.sqrt(square))), Cost(epsilon="0.5", delta=repr(plan.budget.delta))


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "l.ledger") as made:
        for name, rule in RULES.items():
            made.open_account(name, epsilon=20, delta="1e-4", rule=rule)
        yield made


def paid_before(ledger, plan, request, cost=None):
    """A table that was published and charged by version 0.2."""
    made = release(plan, ROWS, ledger=None).to_bytes()
    ledger.release(
        account=plan.budget.account,
        request=request,
        cost=cost_before(plan) if cost is None else cost,
        compute=lambda _: made,
        what=charge_text(plan),
    )
    return made


def test_tables_that_were_charged_too_little_are_named_and_no_others(ledger):
    for rule in RULES:
        paid_before(ledger, plan_of(rule), f"before {rule}")
        paid_before(ledger, plan_of(rule, COUNT), f"count {rule}")
        release(plan_of(rule), ROWS, ledger=ledger, request=f"now {rule}")
    small = {"account": "gaussian", "cost": GaussianCost(mu=0.01)}
    ledger.reserve(**small, request="waits", what=charge_text(plan_of("gaussian")))
    ledger.release(**small, request="model", what="fit", compute=lambda _: b"{}")
    found = undercharged(ledger)
    assert [each.request for each in found] == ["before gaussian", "before renyi"]
    for each in found:
        plan = plan_of(each.account)
        assert each.due == least_due(RULES[each.account], charges(prepare(plan)), each.paid)
        assert each.paid.units[0] < 0.6 * each.due.units[0]
        assert "version 0.2 charged" in str(each)
        assert each.to_dict()["due"] == each.due.to_dict()
    ledger.verify()


def test_where_the_published_bytes_say_nothing_that_is_said(ledger):
    """Bytes that are not a table, and a table that another version measured in another way."""
    plan = plan_of("gaussian")
    other = replace(release(plan, ROWS, ledger=None), mechanisms=("noise on weeks",)).to_bytes()
    for request, stored in (("r", b"[]"), ("other", other)):
        cost, what = GaussianCost(mu=0.1), charge_text(plan)
        ledger.release(account="gaussian", request=request, cost=cost, compute=lambda _, it=stored: it, what=what)
    found = undercharged(ledger)
    assert [each.request for each in found] == ["r", "other"]
    assert all(each.due is None and each.to_dict()["due"] is None and "not known" in str(each) for each in found)


@pytest.mark.parametrize("rule", RULES)
def test_a_certificate_whose_table_was_charged_too_little_is_refused_by_name(ledger, rule):
    plan = plan_of(rule)
    made = release(plan, ROWS, ledger=ledger, request="now")
    checked = check_certificate(made.certificate, made.to_bytes())
    check_entry(checked, made.to_bytes(), ledger)
    published = paid_before(ledger, plan, "before")
    stated = made.certificate.replace('"now"', '"before"').replace(sha256(made.to_bytes()), sha256(published))
    stated = stated.replace(checked.entry.head, ledger.head)
    again = check_certificate(stated, published)
    if rule == "sum":
        check_entry(again, published, ledger)
        return
    with pytest.raises(CertificateInvalid, match=r"where .* is due; version 0\.2 charged"):
        check_entry(again, published, ledger)


@pytest.mark.parametrize("rule", RULES)
def test_a_request_that_was_charged_more_before_is_still_the_same_release(ledger, rule):
    """A mean has no use for a delta, and version 0.2 charged it."""
    question = {"name": "wait", "kind": "mean", "column": "wait", "range": [0, 9]}
    plan = plan_of(rule, question, delta=0.0 if rule == "renyi" else 1e-9)
    assert not charges(prepare(plan))[1].delta.units
    more = {"gaussian": GaussianCost(mu=1, delta="1e-9"), "renyi": Cost(epsilon=1), "sum": cost_before(plan)[1]}[rule]
    before = paid_before(ledger, plan, "r", more)
    left = ledger.account(rule).remaining
    made = release(plan, ROWS, ledger=ledger, request="r")
    assert made.to_bytes() == before
    assert ledger.account(rule).remaining == left
    check_entry(check_certificate(made.certificate, before), before, ledger)


def test_one_that_was_charged_less_is_not_released_again(ledger):
    plan = plan_of("gaussian")
    paid_before(ledger, plan, "r")
    with pytest.raises(RequestConflict, match=r"version 0\.2 charged .* a new id"):
        release(plan, ROWS, ledger=ledger, request="r")
    paid_before(ledger, plan, "more", GaussianCost(mu=2))  # control
    release(plan, ROWS, ledger=ledger, request="more")


def test_of_two_costs_of_which_none_is_the_smaller_each_is_enough(ledger):
    """Gaussian noise for a small epsilon and a large delta has the larger mu, and no delta."""
    plan = plan_of("gaussian", COUNT, epsilon=1e-5, delta=2e-5)
    gaussian, plain = (RULES["gaussian"].units(each) for each in charges(prepare(plan)))
    assert gaussian[0] > plain[0]
    assert gaussian[1] < plain[1]
    made = release(plan, ROWS, ledger=ledger, request="r")
    check_entry(check_certificate(made.certificate, made.to_bytes()), made.to_bytes(), ledger)
    assert release(plan, ROWS, ledger=ledger, request="r").to_bytes() == made.to_bytes()
