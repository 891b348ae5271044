"""A plan before training: the epsilons of the account, and of dp_accounting, in a table."""

from typing import Any

import pytest

from rangebound.errors import RangeboundError
from rangebound.learn.torch import Elementwise, Euclidean, PrivacyEngine
from tests.learn.torch.models import simple, train

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
