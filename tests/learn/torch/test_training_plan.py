"""Plans, noise for a target, charges to a ledger, and progress."""

import io
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import rangebound as rb
from rangebound.errors import ArgumentError, RangeboundError
from rangebound.learn.torch import Elementwise, Euclidean, InsecureTorchNoise, PrivacyEngine, Relation, training_plan
from rangebound.learn.torch.accounts import worst_case
from rangebound.learn.torch.noise_source import step_mechanism
from rangebound.learn.torch.training_plan import smallest_multiplier, step_within
from rangebound.ledger import GaussianFilter, Ledger, RenyiFilter
from rangebound.values.arguments import upwards
from tests.learn.torch.models import NoNoise, data, linear, private, simple, train

RUN: dict[str, Any] = {"examples": 20, "delta": 1e-5, "noise_multipliers": 4.0, "batches": 20, "epochs": 1}


@pytest.mark.slow
def test_a_planned_epsilon_is_that_of_the_run() -> None:
    plan = PrivacyEngine.plan(examples=40, delta=1e-5, noise_multipliers=(2.0, 4.0), batches=10, epochs=(1, 2))
    assert [(each.noise_multiplier, each.epochs, each.steps) for each in plan.runs] == [
        (2.0, 1, 4), (4.0, 1, 4), (2.0, 2, 8), (4.0, 2, 8),
    ]  # fmt: skip
    engine, optimizer, loader = simple(40, clipping=Euclidean(clip=0.3), noise_multiplier=4.0, batch_size=10)
    train(optimizer, loader, 8)
    assert engine.epsilon(1e-5) == plan.runs[3].epsilon
    assert plan.runs[3].epsilon < plan.runs[2].epsilon  # control: the noise counts
    assert plan.within(plan.runs[3].epsilon) == tuple(
        each for each in plan.runs if each.epsilon <= plan.runs[3].epsilon
    )
    assert plan.within(0.0) == ()


@pytest.mark.slow
def test_a_plan_agrees_with_dp_accounting() -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    (run,) = PrivacyEngine.plan(examples=1000, delta=1e-6, noise_multipliers=0.9, batches=20, epochs=3).runs
    theirs = pld.from_gaussian_mechanism(0.9, sampling_prob=0.02, value_discretization_interval=1e-4)
    assert run.epsilon == pytest.approx(theirs.self_compose(150).get_epsilon_for_delta(1e-6), rel=2e-3)


def test_elementwise_plans_count_coordinates() -> None:
    quiet = {**RUN, "noise_multipliers": 8.0}
    found = [
        PrivacyEngine.plan(**quiet, clipping=clipping, coordinates=n).runs[0].epsilon
        for clipping, n in ((Elementwise(clip=0.5), 4), (Elementwise(clip=0.5), 1), (None, 4))
    ]
    assert found[0] > 1.9 * found[1]
    assert found[1] == pytest.approx(found[2], rel=1e-9)
    with pytest.raises(RangeboundError, match="coordinates: missing"):  # one would be far too small an epsilon
        PrivacyEngine.plan(**quiet, clipping=Elementwise(clip=0.5))


def test_a_plan_is_printed_as_a_table_rounded_up() -> None:
    plan = PrivacyEngine.plan(**{**RUN, "noise_multipliers": (4.0, 16.0), "epochs": (1, 4)})
    lines = repr(plan).splitlines()
    assert lines[0] == "epsilon at delta 1e-05"
    assert lines[1].split() == ["batch", "epochs", "steps", "noise", "4", "noise", "16"]
    shown = [float(word) for line in lines[2:] for word in line.split()[3:]]
    for number, run in zip(shown, plan.runs, strict=True):
        assert run.epsilon <= number <= 1.001 * run.epsilon
    assert [line.split()[:3] for line in lines[2:]] == [["20", "1", "1"], ["20", "4", "4"]]


@pytest.mark.parametrize(
    "wrong",
    [{"examples": 0}, {"batches": -1.0}, {"epochs": 0}, {"noise_multipliers": 0.0}, {"delta": 2.0}],
    ids=str,
)
def test_wrong_numbers_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(RangeboundError, match=next(iter(wrong)).removesuffix("s")):
        PrivacyEngine.plan(**{**RUN, **wrong})


def step(noise: float, *, rate: float, clipping: Euclidean | Elementwise) -> worst_case.Step:
    return worst_case.Step(
        mechanism=step_mechanism(clipping=clipping, noise_multiplier=noise), coordinates=21, rate=rate,
        together=isinstance(clipping, Euclidean),
    )  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("clipping", [Euclidean(clip=0.7), Elementwise(clip=0.7)], ids=str)
@pytest.mark.parametrize(
    ("target", "rate", "times"), [(0.5, 1.0, 3), pytest.param(2.0, 0.25, 8, marks=pytest.mark.slow)]
)
def test_the_noise_is_enough_and_a_little_less_is_not(
    clipping: Euclidean | Elementwise, target: float, rate: float, times: int
) -> None:
    found = step_within(target, 1e-5, times, lambda noise: step(noise, rate=rate, clipping=clipping), {})
    assert 0.999 * target < worst_case.together({found: times}).epsilon(1e-5).upper <= target  # by all accountants
    less = step(0.999 * found.mechanism.noise.scale / clipping.clip, rate=rate, clipping=clipping)
    assert worst_case.together({less: times}).epsilon(1e-5).lower > target  # the control


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("target", "rate", "times", "most"), [(3.0, 0.01, 400, 4), (50.0, 0.004, 15_000, 4), (0.5, 1e-4, 10_000, 6)]
)
def test_a_target_of_many_samples_is_met_after_few_accounts(
    monkeypatch: pytest.MonkeyPatch, target: float, rate: float, times: int, most: int
) -> None:
    asked: list[float] = []
    account, clipping = worst_case.epsilon, Euclidean(clip=0.7)
    monkeypatch.setattr(worst_case, "epsilon", lambda *given: asked.append(account(*given)) or asked[-1])
    found = step_within(target, 1e-5, times, lambda noise: step(noise, rate=rate, clipping=clipping), {})
    both = worst_case.together({found: times}).epsilon(1e-5)
    assert 0.99 * target < both.lower <= both.upper <= target
    assert both.upper == asked[-1] > 0.999 * target
    assert len(asked) <= most


@pytest.mark.parametrize(
    ("account", "target", "most"),
    [
        (lambda noise: 3.0 / noise, 2.0, 4), (lambda noise: 3.0 / noise + 2.0 / noise**2, 1e-3, 10),
        (lambda noise: 3.0 / noise + math.exp(min(1.0 / noise, 700.0)), 2e4, 12),
        (lambda noise: 1.9 + 1.0 / noise, 2.0, 10),
        (lambda noise: math.inf if noise < 1.0 else 3.0 / noise, 2.5, 6), (lambda noise: 3.0 / noise, 1e-9, 30),
        (lambda noise: 0.0 if noise > 5.0 else 3.0 / noise, 0.1, 30),
    ],
)  # fmt: skip
def test_a_search_asks_seldom_and_its_answer_is_enough_and_hardly_more(account: Any, target: float, most: int) -> None:
    """An account of many steps takes a second each time; where it leaps, a search still comes to an end."""
    asked: list[float] = []
    found = smallest_multiplier(lambda noise: asked.append(noise) or account(noise), target)
    assert account(found) <= target < account(found * (1.0 - 2.1e-4))
    assert len(asked) <= most


def test_targets_that_are_easy_or_out_of_reach() -> None:
    assert smallest_multiplier(lambda noise: 0.0, 1.0) == 2.0**-10
    with pytest.raises(ArgumentError, match="no noise is enough"):
        smallest_multiplier(lambda noise: math.inf, 1.0)
    for missing in ((None, 1e-5, 3), (1.0, None, 3), (1.0, 1e-5, None)):
        with pytest.raises(ArgumentError, match="noise_multiplier: missing"):
            step_within(*missing, lambda noise: step(noise, rate=1.0, clipping=Euclidean(clip=1.0)), {})


@pytest.mark.slow
def test_make_private_finds_the_noise_and_keeps_to_the_epochs() -> None:
    engine, optimizer, loader = simple(
        40, clipping=Euclidean(clip=1.0), noise_multiplier=None, target_epsilon=8, target_delta=1e-5,
        epochs=2, neighbours="add-remove", rate=0.25, expected_batch=10,
    )  # fmt: skip
    assert engine.relation is Relation.ADD_REMOVE
    train(optimizer, loader, 8)
    assert 7.9 < engine.epsilon(1e-5) <= 8.0
    assert optimizer.mechanism.noise.scale == engine.noise_multiplier
    weight = optimizer.param_groups[0]["params"][0].clone()
    with pytest.raises(ArgumentError, match="all steps that were planned"):
        train(optimizer, loader, 1)
    assert engine.steps == 8
    assert bool((optimizer.param_groups[0]["params"][0] == weight).all())  # nothing was released
    longer, optimizer, loader = simple(40, epochs=1)  # the way out
    longer.load_state_dict(engine.state_dict())
    train(optimizer, loader, 1)
    assert longer.steps == 9


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
    charge = training_plan.Charge(ledger=ledger, account="patients", request="run 1")
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
    other = training_plan.Charge(ledger=ledger, account="patients", request="run 2")
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
        ({"account": "patients"}, "ledger, request: missing"),
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


OPTIONS: dict[str, Any] = {"clipping": Euclidean(clip=1.0), "noise_multiplier": 20.0, "epochs": 3, "batch_size": 12}


@pytest.fixture(autouse=True)
def _a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_plan, "_PAUSE", 1e9)  # on a busy machine a step may take longer than the usual one


def lines(*, loss: bool = False, seed: int = 0, passes: int = 3, **options: Any) -> tuple[list[str], Any]:
    x, y = data((6,), seed=seed)
    engine, optimizer, loader = private(linear(), x, y, **{**OPTIONS, **options})
    out = io.StringIO()
    for _ in range(passes):
        progress = engine.progress(loader, delta=1e-5, stream=out)
        for a, b in progress:
            losses = optimizer.backward(a, b)
            optimizer.step()
            if loss:
                progress.show_loss(losses.mean())
    return out.getvalue().splitlines(), engine


def test_the_line_has_the_epsilon_so_far_and_at_the_end() -> None:
    found, engine = lines()
    spent = [upwards(each, 4) for each in engine.epsilons(1e-5, [1, 2, 3])]
    assert found == [
        f"step {step} of 3: epsilon {spent[step - 1]}, {spent[2]} at the end, delta 1e-05" for step in (1, 2, 3)
    ]


def test_nothing_in_it_depends_on_the_data_unless_a_loss_is_given() -> None:
    assert lines(seed=0)[0] == lines(seed=1)[0]
    first, second = (lines(seed=seed, loss=True)[0] for seed in (0, 1))
    assert all(re.search(r", training loss [0-9.]+ \(private\)$", line) for line in first)
    assert first != second  # the control: a loss does; four digits of one alone may agree by chance


def test_a_loaded_account_is_counted() -> None:
    _, before = lines()
    engine = PrivacyEngine()
    engine.load_state_dict(before.state_dict())
    found, _ = lines(passes=1, engine=engine, epochs=2)
    spent = [upwards(each, 4) for each in engine.epsilons(1e-5, [4, 5])]
    assert found == [f"step 4 of 5: epsilon {spent[0]}, {spent[1]} at the end, delta 1e-05"]


@pytest.mark.slow
def test_lines_come_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(lines(batch_size=3, passes=1)[0]) == 1
    monkeypatch.setattr(training_plan, "_PAUSE", -1e9)
    monkeypatch.setattr(training_plan.time, "monotonic", lambda: 0.0)
    assert len(lines(batch_size=3, passes=1)[0]) == 5


def test_noise_without_a_guarantee_has_no_epsilon_to_show() -> None:
    engine, _, loader = simple(**OPTIONS, noise=InsecureTorchNoise(generator=torch.Generator()))
    with pytest.raises(rb.errors.ArgumentError, match="SecureNoise"):
        engine.progress(loader, delta=1e-5)
    with pytest.raises(rb.errors.ArgumentError, match="make_private"):
        PrivacyEngine().progress([], delta=1e-5)
