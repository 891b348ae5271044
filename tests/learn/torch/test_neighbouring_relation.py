"""Which neighbours a training protects; for add-remove nothing it publishes depends on the number of examples."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import rangebound as rb
from rangebound.audit import attack
from rangebound.learn.torch import Elementwise, Euclidean, PrivacyEngine, Relation
from rangebound.learn.torch.accounts import worst_case
from rangebound.learn.torch.noise_source import step_mechanism
from rangebound.values.arguments import upwards
from tests.learn.torch.models import NoNoise, linear, many_runs, private, simple, train

Refused = rb.errors.ArgumentError
STATED: dict[str, Any] = {"rate": 1.0, "expected_batch": 64}


def published(examples: int, **options: Any) -> tuple[np.ndarray, PrivacyEngine]:
    """The gradient that a step on this many examples publishes, each of them without a gradient of its own."""
    model = nn.Linear(200, 2, bias=False)
    engine, optimizer, loader = private(
        model, torch.zeros(examples, 200), torch.zeros(examples, dtype=torch.long), batch_size=64,
        clipping=Elementwise(clip=0.5), noise_multiplier=200.0, **options,
    )  # fmt: skip
    train(optimizer, loader, 1)
    return model.weight.grad.flatten().double().numpy(), engine


def guess(gradient: np.ndarray) -> int:
    """The number of examples: times the right one, a gradient is on the public lattice of the noise again."""
    off = {n: np.abs(gradient * n * 2**14 - np.round(gradient * n * 2**14)).mean() for n in (64, 63)}
    return min(off, key=lambda n: off[n])


@pytest.mark.slow
def test_the_number_of_examples_is_in_the_gradient_unless_numbers_are_stated() -> None:
    """64 and 63 examples were told apart 20 of 20 times at a claimed epsilon of 0.397 for adding or removing one."""
    truths = [64, 63] * 10
    stated = [published(each, **STATED) for each in truths]
    assert {guess(gradient) for gradient, _ in stated} == {64}  # whoever is there: the stated number
    assert all(engine.relation is Relation.ADD_REMOVE for _, engine in stated)
    counted = [published(each) for each in truths]
    assert [guess(gradient) for gradient, _ in counted] == truths  # the control, and what zero-out does not protect
    assert all(engine.relation is Relation.ZERO_OUT for _, engine in counted)
    assert stated[0][1].epsilon(1e-6) == counted[0][1].epsilon(1e-6)


LATTICE = 2.0**-18  # of noise of scale 6 and more


def trained(old_divisor: bool) -> Any:
    """Whole trainings with and without an example, as a function for the audit.

    The missing example asks for nothing, so that the number of examples is all that differs, or (`asks`) for far more
    than the clip in every step.
    """

    def run(present: float, runs: int, asks: float = 0.0) -> np.ndarray:
        x = torch.cat([torch.full((3, 8), 0.01), torch.full((1, 8), asks)])[: 3 + int(present)]
        options: dict[str, Any] = {} if old_divisor else {"rate": 1.0, "expected_batch": 4}
        options["inner"] = lambda parameters: torch.optim.SGD(parameters, lr=1.0)
        return many_runs(x, runs, clipping=Elementwise(clip=1.0), noise_multiplier=6.0, **options)

    return run


def off_lattice(weights: np.ndarray) -> np.ndarray:
    """How far the weights, times four, are from the lattice of the noise at most, in steps of the lattice."""
    steps = weights * (4.0 / LATTICE)
    return np.abs(steps - np.round(steps)).max(axis=1)


@pytest.mark.claim("privacy")
def test_whole_trainings_with_a_missing_example_stay_within_the_claim() -> None:
    """An audit of the divisor and of the sum; dividing by the number of examples, as before, is caught."""
    mechanism = step_mechanism(clipping=Elementwise(clip=1.0), noise_multiplier=6.0)
    step = worst_case.Step(mechanism=mechanism, coordinates=8, rate=1.0, together=False, relation=Relation.ADD_REMOVE)
    claimed = worst_case.epsilon({step: 3}, 1e-2)
    options: dict[str, Any] = {"pair": (0.0, 1.0), "delta": 1e-2, "draws": 20_000, "confidence": 1.0 - 1e-6}
    honest, old = trained(old_divisor=False), trained(old_divisor=True)
    quiet = attack(lambda a, n: off_lattice(honest(a, n)), epsilon=claimed, **options)
    assert quiet.epsilon == 0.0
    loud = attack(lambda a, n: honest(a, n, asks=100.0).sum(1), epsilon=claimed, **options)
    assert 0.1 * claimed < loud.epsilon <= claimed
    caught = attack(lambda a, n: off_lattice(old(a, n)), epsilon=claimed, **options)
    assert caught.refutes
    assert caught.epsilon > 3.0 * claimed


def published_state(examples: int, inner: Any, **stated: Any) -> tuple[Any, ...]:
    """All that a training publishes, without noise and on examples without gradients."""
    torch.manual_seed(3)
    model = linear()
    x, y = torch.zeros(examples, 6), torch.zeros(examples, 3)
    engine, optimizer, loader = private(
        model, x, y, inner=inner, noise=NoNoise(seen=[]), batch_size=5, criterion=lambda output, target: (target).sum()
        + 0.0 * output.sum(), **stated,
    )  # fmt: skip
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer.inner, max_lr=0.1, total_steps=4 * len(loader))
    for _ in range(2):
        for a, b in loader:
            optimizer.backward(a, b)
            optimizer.step()
            schedule.step()
    gradients = [each.grad.tolist() for each in model.parameters()]
    return (
        {name: each.tolist() for name, each in model.state_dict().items()}, gradients, repr(optimizer.state_dict()),
        schedule.get_last_lr(), engine.state_dict(), engine.steps, len(loader), loader.rate, loader.expected,
        engine.relation,
    )  # fmt: skip


@pytest.mark.few
@pytest.mark.parametrize(
    "inner",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda parameters: torch.optim.Adam(parameters, lr=0.1),
    ],
    ids=["momentum", "Adam"],
)
@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_nothing_that_is_published_depends_on_the_number_of_examples(inner: Any, rate: float) -> None:
    """Examples without a gradient, so that their number is all there is; also none at all."""
    stated = {"rate": rate, "expected_batch": 5}
    first, *others = (published_state(n, inner, **stated) for n in (21, 20, 1, 0))
    assert all(each == first for each in others)
    assert published_state(21, inner) != published_state(20, inner)  # the control


def test_the_relation_is_said_everywhere_and_an_account_protects_what_all_its_steps_protect() -> None:
    states = []
    for stated, relation in ((STATED, Relation.ADD_REMOVE), ({}, Relation.ZERO_OUT)):
        engine, optimizer, loader = simple(**stated)
        train(optimizer, loader, 2)
        said = engine.statement(delta=1e-5)
        assert f"{relation.value}: {relation.meaning}; 2 steps" in said
        assert said.startswith(f"({upwards(engine.epsilon(1e-5))}, 1e-05)-differential privacy")
        states.append(engine.state_dict())
        assert [each["relation"] for each in states[-1]["history"]] == [relation.value]
        assert "12" not in said  # examples
    with pytest.raises(Refused, match="make_private"):
        PrivacyEngine().relation  # noqa: B018
    for first, stated, relation in (
        (states[0], STATED, Relation.ADD_REMOVE), (states[0], {}, Relation.ZERO_OUT),
        (states[1], STATED, Relation.ZERO_OUT),
    ):  # fmt: skip
        engine, optimizer, loader = simple(**stated)
        engine.load_state_dict(first)
        train(optimizer, loader, 1)
        assert engine.relation is relation
    (entry,) = states[0]["history"]
    resumed = PrivacyEngine()
    old = {**states[0], "history": [{name: each for name, each in entry.items() if name != "relation"}]}
    resumed.load_state_dict(old)  # saved before relations had a name: the weaker one
    assert resumed.relation is Relation.ZERO_OUT
    with pytest.raises(rb.errors.RangeboundError, match="relation"):
        PrivacyEngine().load_state_dict({**states[0], "history": [{**entry, "relation": "replace"}]})


def test_messages_do_not_count_examples() -> None:
    """How many there are is private for add-remove, in the dataset and in a batch."""
    _, optimizer, loader = simple(97, rate=1.0, expected_batch=64)
    for a, b in loader:
        for wrong in ((a, b[:-1]), (a.repeat(2, 1), b.repeat(2))):
            with pytest.raises(Refused) as caught:
                optimizer.backward(*wrong)
            assert not any(number in str(caught.value) for number in ("97", "96", "194"))


def test_euclidean_sums_are_not_too_long_for_what_was_stated() -> None:
    x, y = torch.zeros(1, 6).expand(200_001, 6), torch.zeros(1, dtype=torch.long).expand(200_001)
    for stated in ({"rate": 1.0, "expected_batch": 100_001}, {"rate": 1.0, "expected_batch": 64}):
        with pytest.raises(Refused, match="expected_batch=") as caught:
            private(linear(), x, y, clipping=Euclidean(clip=1.0), **stated)
        assert "200" not in str(caught.value)
    for fine in ({"rate": 0.5, "expected_batch": 100_000}, {"batch_size": 1000}):
        private(linear(), x, y, clipping=Euclidean(clip=1.0), **fine)
    with pytest.raises(Refused, match="100000"):
        private(linear(), x, y, clipping=Euclidean(clip=1.0))


class Empty(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 0

    def __getitem__(self, i: int) -> Any:
        raise IndexError


def test_no_examples_need_tensors_and_stated_numbers() -> None:
    none = DataLoader(TensorDataset(torch.zeros(0, 6), torch.zeros(0, dtype=torch.long)), batch_size=2)
    for loader, stated in ((none, {}), (DataLoader(Empty(), batch_size=2), STATED)):
        with pytest.raises(Refused, match="at least one example"):
            private(linear(), loader, **stated)
    engine, optimizer, loader = private(linear(), none, **STATED)
    train(optimizer, loader, 2)
    assert engine.steps == 2
    assert engine.epsilon(1e-6) > 0.0


def test_a_relation_that_is_named_must_be_supported() -> None:
    with pytest.raises(Refused, match=r"needs rate=.* and expected_batch=") as caught:
        simple(neighbours="add-remove")
    assert 'neighbours="zero-out"' in str(caught.value)  # the way out
    for stated, neighbours in (
        (STATED, "add-remove"), ({}, "zero-out"), (STATED, "zero-out"), (STATED, Relation.ADD_REMOVE),
    ):  # fmt: skip
        engine, optimizer, loader = simple(neighbours=neighbours, **stated)
        train(optimizer, loader, 1)
        assert engine.relation is Relation(neighbours)
        assert Relation(neighbours).value in engine.statement(1e-5)
