"""Adaptive clipping: sums and tallies of one example at a time, the split of the noise, and one account for both."""

from __future__ import annotations

import copy
import math
from fractions import Fraction
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

from torch import nn  # noqa: E402

import rangebound as rb  # noqa: E402
from rangebound.learn.torch import Adaptive, Euclidean, RenyiWatcher, SecureNoise  # noqa: E402
from rangebound.learn.torch.adaptive_clipping import ClipController, split_multiplier, tallied_sum  # noqa: E402
from rangebound.learn.torch.gradients.per_example import clipped_sum, example_gradients, learned  # noqa: E402
from tests.learn.torch.models import CRITERION, SHAPES, NoNoise, data, linear, private, train  # noqa: E402

Refused = rb.errors.ArgumentError
MEMORY = 2**20


def norms(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    gradients, _ = example_gradients(module, learned(module), CRITERION, x, y)
    return torch.stack([each.double().flatten(1).square().sum(1) for each in gradients.values()]).sum(0).sqrt()


@pytest.mark.parametrize("memory", [1, MEMORY])
@pytest.mark.parametrize("build", list(SHAPES), ids=lambda each: each.__name__)
def test_the_sum_is_that_of_euclidean_clipping_and_the_tally_is_counted(build: Any, memory: int) -> None:
    module = build()
    x, y = data(SHAPES[build])
    lengths = norms(module, x, y)
    clip = Euclidean(clip=float(lengths.median()) * 1.01)
    sums, losses, tally = tallied_sum(module, CRITERION, x, y, clip, memory)
    others, plain = clipped_sum(module, CRITERION, x, y, clip, MEMORY)
    for name, each in others.items():
        torch.testing.assert_close(sums[name], each.reshape(sums[name].shape), rtol=0.0, atol=1e-6)
    torch.testing.assert_close(losses.double(), plain.double(), rtol=1e-5, atol=1e-6)
    below = int((lengths <= clip.clip).sum())
    assert 0 < below < len(x)
    assert tally == 0.5 * below - 0.5 * (len(x) - below)


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
    assert 1 / Fraction(multiplier) ** 2 + 1 / (4 * Fraction(tally_noise) ** 2) > 1 / Fraction(multiplier) ** 2


def test_the_two_releases_cost_what_somebody_else_computes() -> None:
    """dp_accounting composes the two Gaussian releases of each step; the account of the engine is their sum."""
    x, y = data((6,), count=40)
    engine, optimizer, loader = private(
        linear(), x, y, clipping=Adaptive(clip=1.0, tally_noise=6.0), noise_multiplier=8.0, batch_size=40
    )
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


def test_a_target_and_a_ledger_include_the_tally(tmp_path: Any) -> None:
    x, y = data((6,), count=40)
    costs = {}
    with rb.Ledger.create(tmp_path / "training.ledger") as ledger:
        for name, clipping in {"adaptive": Adaptive(clip=1.0), "fixed": Euclidean(clip=1.0)}.items():
            ledger.open_account(name, epsilon=3, delta="1e-5")
            engine, optimizer, _ = private(
                linear(), x, y, clipping=clipping, batch_size=10, noise_multiplier=None, target_epsilon=2.0,
                target_delta=1e-5, epochs=2, ledger=ledger, account=name, request=name,
            )  # fmt: skip
            costs[name] = ledger.account(name).spent.units, engine.noise_multiplier, optimizer.mechanism.noise.scale
    assert costs["adaptive"][:2] == costs["fixed"][:2]
    expected = (costs["fixed"][1] ** -2 - (2.0 * max(0.5, costs["fixed"][1])) ** -2) ** -0.5
    assert costs["adaptive"][2] == pytest.approx(expected, rel=1e-9)
    assert costs["adaptive"][2] > 1.1 * costs["fixed"][2]


class Recording(SecureNoise):
    """The secure draw, with the mechanisms that were asked."""

    seen: list[tuple[float, float, int]] = []  # noqa: RUF012

    def release(self, mechanism: rb.Mechanism, location: torch.Tensor) -> torch.Tensor:
        self.seen.append((mechanism.noise.scale, mechanism.query.sensitivity, len(location)))
        return super().release(mechanism, location)


def test_every_step_draws_noise_in_proportion_to_its_norm_and_for_the_tally() -> None:
    x, y = data((6,), count=40)
    Recording.seen.clear()
    _, optimizer, loader = private(
        linear(), x, y, clipping=Adaptive(clip=2.0, tally_noise=9.0), noise_multiplier=3.0, noise=Recording(),
        batch_size=40,
    )  # fmt: skip
    clips = []
    for _ in range(4):
        for a, b in loader:
            clips.append(optimizer.clipping.clip)
            optimizer.backward(a, b)
            optimizer.step()
    tallies, sums = Recording.seen[::2], Recording.seen[1::2]
    assert tallies == [(9.0, 0.5, 1)] * 4
    z = split_multiplier(3.0, 9.0)
    assert [(scale, bound) for scale, bound, _ in sums] == [
        (pytest.approx(z * clip, rel=1e-12), clip) for clip in clips
    ]
    assert all(Fraction(scale) >= Fraction(z) * Fraction(bound) for scale, bound, _ in sums)
    assert len(set(clips)) == 4


@pytest.mark.parametrize("start", [1e-3, 1e3])
def test_the_norm_follows_the_quantile(start: float) -> None:
    """Without noise, and with a model that stands still."""
    module = linear()
    x, y = data((6,), count=200)
    seen: list[torch.Tensor] = []
    settings: dict[str, Any] = {"noise": NoNoise(seen=seen), "batch_size": 200, "noise_multiplier": 1.0}
    settings["inner"] = lambda parameters: torch.optim.SGD(parameters, lr=0.0)
    _, optimizer, loader = private(
        copy.deepcopy(module), x, y, clipping=Adaptive(clip=start, quantile=0.3, speed=0.5), **settings
    )
    train(optimizer, loader, 150)
    below = float((norms(module, x, y) <= optimizer.clipping.clip).double().mean())
    assert 0.2 < below < 0.4


def test_the_norm_is_saved_and_restored() -> None:
    x, y = data((6,), count=40)
    settings: dict[str, Any] = {"clipping": Adaptive(clip=5.0), "batch_size": 40}
    _, first, loader = private(linear(), x, y, **settings)
    train(first, loader, 3)
    _, second, _ = private(linear(), x, y, **settings)
    assert second.clipping.clip == 5.0
    second.load_state_dict(first.state_dict())
    assert second.clipping.clip == first.clipping.clip != 5.0


def test_the_norm_stays_an_ordinary_float() -> None:
    control = ClipController(Adaptive(clip=1e-19, speed=100.0), 1.0, 10.0)
    for _ in range(3):
        control.follow(1e9)
    assert control.clipping.clip == 1e-20
    for _ in range(9):
        control.follow(-1e9)
    assert control.clipping.clip == 1e20


@pytest.mark.parametrize("speed", [1e3, 1e300])
def test_a_large_speed_ends_at_the_bounds(speed: float) -> None:
    """An exponential of more than 709 is no float; the control is the formula itself."""
    control = ClipController(Adaptive(clip=1.0, speed=speed), 1.0, 10.0)
    for released, expected in ((-1e9, 1e20), (1e9, 1e-20), (0.0, 1e-20)):
        control.follow(released)
        assert control.clipping.clip == expected
    with pytest.raises(OverflowError):
        math.exp(speed * 0.9)


@pytest.mark.parametrize("released", [-3.0, 0.4, 7.0])
def test_the_norm_moves_as_the_formula_says(released: float) -> None:
    control = ClipController(Adaptive(clip=2.0, speed=0.3, quantile=0.4), 1.0, 10.0)
    control.follow(released)
    fraction = min(max(0.5 + released / 10.0, 0.0), 1.0)
    assert control.clipping.clip == pytest.approx(2.0 * math.exp(-0.3 * (fraction - 0.4)), rel=1e-14)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"clip": 0.0}, "clip=0"), ({"quantile": 0.0}, "quantile=0"), ({"quantile": 1.0}, "quantile=1"),
        ({"speed": 0.0}, "speed=0"), ({"tally_noise": 0.0}, "tally_noise=0"),
        ({"tally_noise": 0.5}, "above half the noise multiplier"),
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_protect_nothing_are_refused(wrong: dict[str, Any], reason: str) -> None:
    x, y = data((6,))
    with pytest.raises(Refused, match=reason):
        private(linear(), x, y, clipping=Adaptive(**{"clip": 1.0, **wrong}), noise_multiplier=2.0)


def test_bounded_noise_and_per_instance_accounts_are_refused() -> None:
    x, y = data((6,))
    with pytest.raises(Refused, match="Euclidean clipping"):
        private(linear(), x, y, clipping=Adaptive(clip=1.0), bounding=rb.RECTIFY, support=rb.Interval(-1, 1))
    with pytest.raises(Refused):
        private(linear(), x, y, clipping=Adaptive(clip=1.0), watchers=(RenyiWatcher(),))
