"""Adaptive clipping: the sum, the tally, the account and the norm that follows."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import nn

import rangebound as rb
from rangebound.learn.torch import Adaptive, Euclidean, SecureNoise
from rangebound.learn.torch.clipping_norm import ClipController, split_multiplier, tally
from rangebound.learn.torch.gradients.one_pass import example_gradients
from tests.learn.torch.models import CRITERION, SHAPES, clipped_sum, data, linear, problem, simple, train

Refused = rb.errors.ArgumentError
MEMORY = 2**20


def norms(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    gradients, _ = example_gradients(problem(module, CRITERION, x, y), (x, y))
    return torch.stack([each.double().flatten(1).square().sum(1) for each in gradients.values()]).sum(0).sqrt()


def tallied_sum(*given: Any) -> tuple[Any, Any, float]:
    """The sum, the losses, and the tally of the norms."""
    sums, losses, squares = clipped_sum(*given)
    return sums, losses, tally(squares, given[4])


@pytest.mark.few(2)
@pytest.mark.parametrize("memory", [1, MEMORY])
@pytest.mark.parametrize("build", list(SHAPES), ids=lambda each: each.__name__)
def test_the_sum_is_that_of_euclidean_clipping_and_the_tally_is_counted(build: Any, memory: int) -> None:
    module = build()
    x, y = data(SHAPES[build])
    lengths = norms(module, x, y)
    clip = Euclidean(clip=float(lengths.median()) * 1.01)
    sums, losses, found = tallied_sum(module, CRITERION, x, y, clip, memory)
    others, plain, _ = clipped_sum(module, CRITERION, x, y, clip, MEMORY)
    for name, each in others.items():
        torch.testing.assert_close(sums[name], each.reshape(sums[name].shape), rtol=0.0, atol=1e-6)
    torch.testing.assert_close(losses.double(), plain.double(), rtol=1e-5, atol=1e-6)
    below = int((lengths <= clip.clip).sum())
    assert 0 < below < len(x)
    assert found == 0.5 * below - 0.5 * (len(x) - below)


@pytest.mark.parametrize("clip", [1e-3, 0.5, 1e3])
def test_an_example_moves_the_tally_by_a_half_and_the_sum_by_the_norm(clip: float) -> None:
    module = linear()
    x, y = data((6,))
    more = tallied_sum(module, CRITERION, x, y, Euclidean(clip=clip), MEMORY)
    less = tallied_sum(module, CRITERION, x[1:], y[1:], Euclidean(clip=clip), MEMORY)
    assert abs(more[2] - less[2]) == 0.5
    moved = sum(float((more[0][name] - less[0][name]).square().sum()) for name in more[0])
    assert math.sqrt(moved) <= clip
    assert math.sqrt(moved) > 0.99 * min(clip, float(norms(module, x, y)[0]))


def test_an_example_without_a_gradient_moves_nothing() -> None:
    """So that for zero-out, too, the tally moves by a half: the control is a tally that counts it as short."""
    module = linear()
    x, y = data((6,))

    def criterion(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return CRITERION(output, target) * (target != 2).float()

    y[0], y[1:] = 2, y[1:].clamp(max=1)
    with_it = tallied_sum(module, criterion, x, y, Euclidean(clip=0.1), MEMORY)
    without = tallied_sum(module, criterion, x[1:], y[1:], Euclidean(clip=0.1), MEMORY)
    assert with_it[2] == without[2]
    x[1, 0] = math.nan
    broken = tallied_sum(module, CRITERION, x, y, Euclidean(clip=0.1), MEMORY)
    assert torch.isnan(broken[1]).tolist() == [False, True] + [False] * 10
    kept = [0, *range(2, 12)]
    good = tallied_sum(module, CRITERION, x[kept], y[kept], Euclidean(clip=0.1), MEMORY)
    assert broken[2] == good[2]
    for name, each in good[0].items():
        torch.testing.assert_close(broken[0][name], each, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 7.5])
@pytest.mark.parametrize("tally_noise", [4.0, 50.0, 1e6])
def test_the_split_is_the_formula_of_the_paper_rounded_up(multiplier: float, tally_noise: float) -> None:
    found = split_multiplier(multiplier, tally_noise)
    assert found == pytest.approx((multiplier**-2 - (2.0 * tally_noise) ** -2) ** -0.5, rel=1e-12)
    spent = 1 / Fraction(found) ** 2 + 1 / (4 * Fraction(tally_noise) ** 2)
    assert spent <= 1 / Fraction(multiplier) ** 2  # exactly


def test_the_two_releases_cost_what_somebody_else_computes() -> None:
    """dp_accounting composes the two Gaussian releases of each step; the account of the engine is their sum."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    engine, optimizer, loader = simple(40, clipping=Adaptive(clip=1.0, tally_noise=6.0), noise_multiplier=8.0)
    train(optimizer, loader, 5)
    control = optimizer._control
    parts = [
        pld.from_gaussian_mechanism(standard_deviation=deviation, value_discretization_interval=1e-4)
        for deviation in (control.sum_multiplier, 2.0 * control.tally_noise)
    ]
    theirs = parts[0].compose(parts[1]).self_compose(5).get_epsilon_for_delta(1e-5)
    assert engine.epsilon(delta=1e-5) == pytest.approx(theirs, rel=2e-3)
    alone = parts[0].self_compose(5).get_epsilon_for_delta(1e-5)
    assert alone < 0.9 * engine.epsilon(delta=1e-5)  # the control: without the tally it would say too little


@pytest.mark.slow
def test_a_target_and_a_ledger_include_the_tally(tmp_path: Any) -> None:
    costs = {}
    with rb.Ledger.create(tmp_path / "training.ledger") as ledger:
        for name, clipping in {"adaptive": Adaptive(clip=1.0), "fixed": Euclidean(clip=1.0)}.items():
            ledger.open_account(name, epsilon=3, delta="1e-5")
            engine, optimizer, _ = simple(
                40, clipping=clipping, noise_multiplier=None, target_epsilon=2.0, target_delta=1e-5, epochs=2,
                ledger=ledger, account=name, request=name,
            )  # fmt: skip
            costs[name] = ledger.account(name).spent.units, engine.noise_multiplier, optimizer.mechanism.noise.scale
    assert costs["adaptive"][:2] == costs["fixed"][:2]
    expected = (costs["fixed"][1] ** -2 - (2.0 * max(0.5, costs["fixed"][1])) ** -2) ** -0.5
    assert costs["adaptive"][2] == pytest.approx(expected, rel=1e-9)
    assert costs["adaptive"][2] > 1.1 * costs["fixed"][2]


@dataclass(frozen=True, kw_only=True)
class Recording(SecureNoise):
    """The secure draw, with the mechanisms that were asked."""

    seen: list[tuple[float, float]] = field(default_factory=list)

    def release(self, mechanism: rb.Mechanism, location: torch.Tensor) -> torch.Tensor:
        self.seen.append((mechanism.noise.scale, mechanism.query.sensitivity))
        return super().release(mechanism, location)


def test_every_step_draws_noise_in_proportion_to_its_norm_and_for_the_tally() -> None:
    noise, clips = Recording(), []
    _, optimizer, loader = simple(40, clipping=Adaptive(clip=2.0, tally_noise=9.0), noise_multiplier=3.0, noise=noise)
    for _ in range(4):
        clips.append(optimizer.clipping.clip)
        train(optimizer, loader, 1)
    assert noise.seen[::2] == [(9.0, 0.5)] * 4
    z = split_multiplier(3.0, 9.0)
    assert noise.seen[1::2] == [(pytest.approx(z * clip, rel=1e-12), clip) for clip in clips]
    assert all(Fraction(scale) >= Fraction(z) * Fraction(bound) for scale, bound in noise.seen[1::2])
    assert len(set(clips)) == 4


def test_the_norm_is_saved_and_restored() -> None:
    (_, first, loader), (_, second, _) = (simple(40, clipping=Adaptive(clip=5.0)) for _ in range(2))
    train(first, loader, 3)
    assert second.clipping.clip == 5.0
    second.load_state_dict(first.state_dict())
    assert second.clipping.clip == first.clipping.clip != 5.0


@pytest.mark.parametrize("speed", [100.0, 1e3, 1e300])
def test_a_large_speed_ends_at_the_bounds(speed: float) -> None:
    """An exponential of more than 709 overflows."""
    control = ClipController(Adaptive(clip=1.0, speed=speed), 1.0, 10.0)
    for released, expected in ((-1e9, 1e20), (1e9, 1e-20), (1e9, 1e-20)):
        for _ in range(3):
            control.follow(released)
        assert control.clipping.clip == expected


@pytest.mark.parametrize("released", [-3.0, 0.4, 7.0])
def test_the_norm_moves_as_the_formula_says(released: float) -> None:
    control = ClipController(Adaptive(clip=2.0, speed=0.3, quantile=0.4), 1.0, 10.0)
    control.follow(released)
    fraction = min(max(0.5 + released / 10.0, 0.0), 1.0)
    assert control.clipping.clip == pytest.approx(2.0 * math.exp(-0.3 * (fraction - 0.4)), rel=1e-14)
