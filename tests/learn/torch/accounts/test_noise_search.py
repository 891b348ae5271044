"""The noise for a target: proved to be enough, and a little less is not; also by dp_accounting's numbers."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

from rangebound.errors import ArgumentError
from rangebound.learn.torch import Elementwise, Euclidean, PrivacyEngine, Relation
from rangebound.learn.torch.accounts import worst_case
from rangebound.learn.torch.accounts.noise_search import smallest_multiplier, step_within
from rangebound.learn.torch.step_mechanism import step_mechanism
from tests.learn.torch.models import data, linear, private, train


def step(noise: float, *, rate: float, clipping: Euclidean | Elementwise) -> worst_case.Step:
    return worst_case.Step(
        mechanism=step_mechanism(clipping=clipping, noise_multiplier=noise), coordinates=21, rate=rate,
        together=isinstance(clipping, Euclidean),
    )  # fmt: skip


@pytest.mark.parametrize("clipping", [Euclidean(clip=0.7), Elementwise(clip=0.7)], ids=str)
@pytest.mark.parametrize(("target", "rate", "times"), [(2.0, 0.05, 60), (0.5, 1.0, 3)])
def test_the_noise_is_enough_and_a_little_less_is_not(
    clipping: Euclidean | Elementwise, target: float, rate: float, times: int
) -> None:
    found = step_within(target, 1e-5, times, lambda noise: step(noise, rate=rate, clipping=clipping))
    assert 0.999 * target < worst_case.epsilon({found: times}, 1e-5) <= target
    less = 0.999 * found.mechanism.noise.scale / clipping.clip
    assert worst_case.epsilon({step(less, rate=rate, clipping=clipping): times}, 1e-5) > target  # the control


def test_the_found_noise_agrees_with_dp_accounting() -> None:
    """The second route: another accountant's epsilon at the noise that was found."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    found = step_within(3.0, 1e-5, 400, lambda noise: step(noise, rate=0.02, clipping=Euclidean(clip=1.0)))
    theirs = pld.from_gaussian_mechanism(
        found.mechanism.noise.scale, sampling_prob=0.02, value_discretization_interval=1e-4
    ).self_compose(400).get_epsilon_for_delta(1e-5)  # fmt: skip
    assert theirs == pytest.approx(3.0, rel=2e-3)


def test_targets_that_are_easy_or_out_of_reach() -> None:
    assert smallest_multiplier(lambda noise: 0.0, 1.0) == 2.0**-10
    with pytest.raises(ArgumentError, match="no noise is enough"):
        smallest_multiplier(lambda noise: math.inf, 1.0)
    for missing in ((None, 1e-5, 3), (1.0, None, 3), (1.0, 1e-5, None)):
        with pytest.raises(ArgumentError, match="noise_multiplier: missing"):
            step_within(*missing, lambda noise: step(noise, rate=1.0, clipping=Euclidean(clip=1.0)))


def test_make_private_finds_the_noise_and_keeps_to_the_epochs() -> None:
    x, y = data((6,), count=40)
    engine, optimizer, loader = private(
        linear(), x, y, clipping=Euclidean(clip=1.0), noise_multiplier=None, target_epsilon=8, target_delta=1e-5,
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
    longer, optimizer, loader = private(linear(), x, y, epochs=1)  # the way out
    longer.load_state_dict(engine.state_dict())
    train(optimizer, loader, 1)
    assert longer.steps == 9


def test_noise_and_target_are_alternatives() -> None:
    x, y = data((6,))
    for wrong in ({"target_epsilon": 1.0}, {"noise_multiplier": None}, {"noise_multiplier": None, "epochs": 3}):
        with pytest.raises(ArgumentError, match="noise_multiplier"):
            private(linear(), x, y, **wrong)
    with pytest.raises(ArgumentError, match="make_private"):
        PrivacyEngine().noise_multiplier  # noqa: B018
