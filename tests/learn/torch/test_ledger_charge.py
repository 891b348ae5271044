"""A training charged to a ledger: before the first step, for all planned ones, once for each request."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rangebound as rb
from rangebound.learn.torch import Euclidean, training_plan
from rangebound.ledger import GaussianFilter, Ledger, RenyiFilter
from tests.learn.torch.models import NoNoise, simple, train

Refused = rb.errors.ArgumentError
CHARGED: dict[str, Any] = {
    "clipping": Euclidean(clip=1.0), "noise_multiplier": None, "target_epsilon": 2.0, "target_delta": 1e-5, "epochs": 8,
}  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "budget.ledger") as made:
        made.open_account("patients", epsilon=5, delta=1e-4)
        yield made


def test_the_charge_is_there_before_the_first_step_and_covers_all_of_them(ledger: Ledger) -> None:
    engine, optimizer, loader = simple(40, ledger=ledger, account="patients", request="run 1", **CHARGED)
    spent = ledger.account("patients").spent
    assert engine.steps == 0
    train(optimizer, loader, 8)
    assert ledger.account("patients").spent == spent
    assert 1.99 < engine.epsilon(1e-5) <= float(spent.epsilon) <= 2.0 + 1e-9
    assert spent.delta.fraction * 10**5 == 1
    with pytest.raises(Refused, match="planned"):
        train(optimizer, loader, 1)
    noted = json.loads(ledger.published("run 1") or b"")
    assert noted["steps"] == 8
    assert noted["step"]["relation"] == "zero-out"


def test_a_request_is_for_one_run_and_a_crash_keeps_the_charge(ledger: Ledger, tmp_path: Path) -> None:
    _, optimizer, loader = simple(40, request="run 1", ledger=ledger, account="patients", **CHARGED)
    train(optimizer, loader, 1)
    del optimizer, loader  # the crash
    with Ledger.open(tmp_path / "budget.ledger") as again:
        where = {"ledger": again, "account": "patients", **CHARGED}
        assert float(again.account("patients").spent.epsilon) > 1.99
        with pytest.raises(Refused, match="another run"):
            simple(40, request="run 1", **where)
        simple(40, request="run 2", **where)
        assert float(again.account("patients").spent.epsilon) > 3.9
        with pytest.raises(rb.errors.BudgetExceeded):
            simple(40, request="run 3", **where)
        assert again.account("patients").spends == 2


def test_two_runs_that_begin_at_once_are_not_one(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run stores its bytes between our charge and ours; without the random word they would be the same."""
    cost = rb.Cost(epsilon=0.5)
    charge = training_plan.ledger_charge(ledger, "patients", "run 1")
    assert charge is not None
    reservation = ledger.reserve(account="patients", request="run 1", cost=cost, what="training")
    dumps = json.dumps

    def first(facts: Any, **options: Any) -> str:
        mine = dumps(facts, **options)
        ledger.publish(reservation, dumps({**facts, "run": "the other"}, **options).encode())
        return mine

    monkeypatch.setattr(training_plan.json, "dumps", first)
    with pytest.raises(Refused, match="another run"):
        charge.make((cost,), {"steps": 1})
    monkeypatch.setattr(training_plan.json, "dumps", lambda facts, **_: "the same for all")  # the control
    reservation = ledger.reserve(account="patients", request="run 2", cost=cost, what="training")
    ledger.publish(reservation, b"the same for all")
    other = training_plan.ledger_charge(ledger, "patients", "run 2")
    assert other is not None
    other.make((cost,), {"steps": 1})


def test_accounts_of_every_rule(ledger: Ledger) -> None:
    """Full batches have a mu; samples a divergence at the order of the account."""
    ledger.open_account("gaussian", epsilon=5, delta=1e-5, rule=GaussianFilter())
    ledger.open_account("renyi", epsilon=5, delta=1e-5, rule=RenyiFilter(order=8))

    def run(account: str, size: int) -> None:
        options: dict[str, Any] = {"account": account, "request": f"{account} {size}", "batch_size": size}
        simple(40, ledger=ledger, clipping=Euclidean(clip=1.0), noise_multiplier=8.0, epochs=3, **options)

    for account, size in (("gaussian", 40), ("renyi", 10), ("renyi", 40)):
        run(account, size)
    assert ledger.account("gaussian").spent.mu == pytest.approx(3**0.5 / 8.0, rel=1e-9)
    assert ledger.account("renyi").spends == 2
    with pytest.raises(Refused, match="delta"):  # a sample has no mu
        run("gaussian", 10)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ledger": "budget.ledger", "account": "patients", "request": "1"}, "ledger"),
        ({"account": "patients"}, "ledger: missing"),
        ({"ledger": True}, "account, request"),
        ({"ledger": True, "account": "patients", "request": "1", "noise": NoNoise(seen=[])}, "SecureNoise"),
        ({"ledger": True, "account": "nobody", "request": "1"}, "nobody"),
    ],
    ids=str,
)
def test_what_cannot_be_charged_is_refused_with_nothing_spent(
    ledger: Ledger, options: dict[str, Any], words: str
) -> None:
    if options.get("ledger") is True:
        options = {**options, "ledger": ledger}
    with pytest.raises(rb.errors.RangeboundError, match=words):
        simple(40, **options, **CHARGED)
    with pytest.raises(Refused, match="epochs"):
        simple(ledger=ledger, account="patients", request="1")
    assert ledger.account("patients").spends == 0
