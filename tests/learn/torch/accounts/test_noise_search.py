"""The noise for a target: proved to be enough, and a little less is not."""

import math

import pytest

from rangebound.errors import ArgumentError
from rangebound.learn.torch import Elementwise, Euclidean, Relation
from rangebound.learn.torch.accounts import worst_case
from rangebound.learn.torch.noise_source import step_mechanism
from rangebound.learn.torch.training_plan import smallest_multiplier, step_within
from tests.learn.torch.models import simple, train


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
    found = step_within(target, 1e-5, times, lambda noise: step(noise, rate=rate, clipping=clipping))
    assert 0.999 * target < worst_case.epsilon({found: times}, 1e-5) <= target
    less = 0.999 * found.mechanism.noise.scale / clipping.clip
    assert worst_case.epsilon({step(less, rate=rate, clipping=clipping): times}, 1e-5) > target  # the control


def test_targets_that_are_easy_or_out_of_reach() -> None:
    assert smallest_multiplier(lambda noise: 0.0, 1.0) == 2.0**-10
    with pytest.raises(ArgumentError, match="no noise is enough"):
        smallest_multiplier(lambda noise: math.inf, 1.0)
    for missing in ((None, 1e-5, 3), (1.0, None, 3), (1.0, 1e-5, None)):
        with pytest.raises(ArgumentError, match="noise_multiplier: missing"):
            step_within(*missing, lambda noise: step(noise, rate=1.0, clipping=Euclidean(clip=1.0)))


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
