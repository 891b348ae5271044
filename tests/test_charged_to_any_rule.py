"""Tables, suggestions, training and estimators on accounts of every rule: each is charged, or refused before it is."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
torch = pytest.importorskip("torch")

import rangebound as rb  # noqa: E402
from rangebound.errors import ArgumentTypeError, CertificateInvalid, PlanError, RangeboundError  # noqa: E402
from rangebound.learn.sklearn import LedgerBudget, StandardScaler  # noqa: E402
from rangebound.learn.torch import Elementwise  # noqa: E402
from rangebound.ledger import Ledger  # noqa: E402
from rangebound.ledger.chain import EntryKind  # noqa: E402
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, PlainSum, RenyiFilter  # noqa: E402
from rangebound.privacy.gdp import mu_of_pure  # noqa: E402
from rangebound.release import check_certificate, check_entry, make_plan, release  # noqa: E402
from rangebound.release.gaps import suggest  # noqa: E402
from rangebound.release.output.ledger_entry import charge_text, charges, least_due  # noqa: E402
from rangebound.release.prepare import prepare  # noqa: E402
from tests.learn.torch.models import data, linear, private, train  # noqa: E402
from tests.release.plans import KINDS, plan_data  # noqa: E402
from tests.release.test_range import PEOPLE, table  # noqa: E402

RULES = {"sum": PlainSum(), "gaussian": GaussianFilter(spare="0.5"), "renyi": RenyiFilter(order=16)}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "l.ledger") as made:
        for name, rule in RULES.items():
            made.open_account(name, epsilon=20, delta="1e-4", rule=rule)
        yield made


def plan_of(account: str, delta: float) -> Any:
    found = plan_data(["clinic"], KINDS[:2], unit=PEOPLE, **({} if delta else {"keys": {"clinic": ["a", "b"]}}))
    budget = {"epsilon": 0.5, "account": account, **({"delta": delta} if delta else {})}
    return make_plan({**found, "budget": budget})


def a_table(ledger: Ledger, account: str, delta: float) -> None:
    made = release(plan_of(account, delta), table(50), ledger=ledger, request="r")
    checked = check_certificate(made.certificate, made.to_bytes())
    check_entry(checked, made.to_bytes(), ledger)
    assert release(plan_of(account, delta), table(9), ledger=ledger, request="r").to_bytes() == made.to_bytes()


def a_suggestion(ledger: Ledger, account: str) -> None:
    draft = {"budget": {"epsilon": 1.0, "account": account}, "query": [{"name": "w", "kind": "mean", "column": "wait"}]}
    found = suggest(draft, table(50), ledger=ledger, request="r", share=0.5)
    assert found.cost == Cost(epsilon="0.5")


def an_estimator(ledger: Ledger, account: str, delta: float) -> None:
    budget = LedgerBudget(ledger=ledger, account=account, request="r")
    noise = rb.Gaussian if delta else rb.Laplace
    StandardScaler(epsilon=0.5, delta=delta, bounds=(0, 1), noise=noise, budget=budget).fit(np.zeros((9, 2)))


def a_training(ledger: Ledger, account: str, rate: float, **options: Any) -> None:
    x, y = data((6,))
    engine, optimizer, loader = private(
        linear(), x, y, clipping=Elementwise(clip=0.125), noise_multiplier=40.0, rate=rate, expected_batch=12 * rate
    )
    costs = engine.costs(steps=2, **options)

    def compute(_: object) -> bytes:
        train(optimizer, loader, 2)
        return json.dumps(engine.statement(1e-6)).encode()

    ledger.release(account=account, request="r", cost=costs, compute=compute, what="training")
    assert engine.steps == 2


Call = Callable[[Ledger, str], None]
CALLS: dict[str, Call] = {
    "pure table": lambda ledger, account: a_table(ledger, account, 0.0),
    "table with delta": lambda ledger, account: a_table(ledger, account, 1e-6),
    "suggestion": a_suggestion,
    "pure estimator": lambda ledger, account: an_estimator(ledger, account, 0.0),
    "estimator with delta": lambda ledger, account: an_estimator(ledger, account, 1e-6),
    "training on all": lambda ledger, account: a_training(ledger, account, 1.0, delta=1e-6),
    "training on all by mu": lambda ledger, account: a_training(ledger, account, 1.0),
    "training on samples": lambda ledger, account: a_training(ledger, account, 0.25, delta=1e-6),
    "training on samples with an order": lambda ledger, account: a_training(
        ledger, account, 0.25, delta=1e-6, order=16
    ),
    "training on samples at another order": lambda ledger, account: a_training(ledger, account, 0.25, order=8),
}
REFUSED: dict[tuple[str, str], type[RangeboundError]] = {
    ("table with delta", "renyi"): PlanError,
    ("training on all by mu", "sum"): ArgumentTypeError,
    ("training on samples", "renyi"): ArgumentTypeError,
    **{("training on samples at another order", rule): ArgumentTypeError for rule in RULES},
}


# Left out by default: a suggestion takes long, and what is charged to a Gaussian account is looked at below.
DEAR = {("suggestion", "renyi"), *((call, "gaussian") for call in CALLS)} - REFUSED.keys()
PAIRS = itertools.product(CALLS, RULES)
CASES = [pytest.param(*each, marks=[pytest.mark.slow] * (each in DEAR)) for each in PAIRS]


@pytest.mark.claim("charge")
@pytest.mark.parametrize(("call", "rule"), CASES)
def test_it_works_or_is_refused_before_anything_is_charged(ledger: Ledger, call: str, rule: str) -> None:
    error = REFUSED.get((call, rule))
    if error is None:
        CALLS[call](ledger, rule)
        kinds = [each.kind for each in ledger.history(rule)]
        assert kinds == [EntryKind.ACCOUNT, EntryKind.SPEND, EntryKind.PUBLISH]
    else:
        with pytest.raises(error):
            CALLS[call](ledger, rule)
        assert len(ledger.history(rule)) == 1
        assert not any(ledger.account(rule).spent.units)
    ledger.verify()


def test_a_table_is_charged_the_mu_of_its_own_account(ledger: Ledger) -> None:
    """Never more than the mu of its epsilon and its delta, and far less where it has several parts."""
    a_table(ledger, "gaussian", 1e-6)
    spent, ready = ledger.account("gaussian").spent, prepare(plan_of("gaussian", 1e-6))
    assert isinstance(spent, GaussianCost)
    assert float(spent.mu_squared) == pytest.approx(ready.loss.mu**2, rel=1e-9)
    squares = math.fsum(float(each.square) for each in ready.allocation.once.values())
    assert float(spent.mu_squared) <= squares * (1 + 1e-9)
    assert spent.mu <= mu_of_pure(0.5)
    assert float(spent.delta) <= 1e-6


def test_training_on_all_examples_has_the_mu_of_its_noise(ledger: Ledger) -> None:
    """Two steps of 21 coordinates, each of which moves by 1/40 of its noise."""
    a_training(ledger, "gaussian", 1.0)
    spent = ledger.account("gaussian").spent
    assert isinstance(spent, GaussianCost)
    assert float(spent.mu_squared) == pytest.approx(2 * 21 / 40**2, rel=1e-9)


@pytest.mark.few(3)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("part", [1.0, 0.5])
def test_control_a_certificate_whose_account_was_charged_less_is_refused(
    ledger: Ledger, rule: str, part: float, tmp_path: Path
) -> None:
    """The same bytes under the same request in another ledger, paid for with less: with one unit less, or with half."""
    plan = plan_of(rule, 0.0)
    made = release(plan, table(50), ledger=ledger, request="r")
    paid = ledger.paid("r")
    assert paid is not None
    assert paid.cost is not None
    first, second = least_due(RULES[rule], charges(prepare(plan)), paid.cost).units
    less = RULES[rule].cost((int(first * part) - 1, second))
    with Ledger.create(tmp_path / "other.ledger") as other:
        other.open_account(rule, epsilon=20, delta="1e-4", rule=RULES[rule])
        call = {"account": rule, "request": "r", "compute": lambda _: made.to_bytes(), "what": charge_text(plan)}
        other.release(**call, cost=less)
        checked = check_certificate(made.certificate, made.to_bytes())
        assert checked.entry is not None
        checked = replace(checked, entry=replace(checked.entry, head=other.head))
        with pytest.raises(CertificateInvalid, match="did not charge the account with the budget"):
            check_entry(checked, made.to_bytes(), other)
