"""Whole private steps on a GPU, beside the same on the processor; skipped where there is no GPU."""

import copy

import pytest
import torch

import rangebound as rb

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from rangebound.laws.boundings import Bounding
from rangebound.learn.torch import Elementwise, Euclidean, FisherWatcher, RenyiWatcher
from rangebound.learn.torch.gradients.sums import blocked, clamped_products
from rangebound.learn.torch.noise_source import release_in_place
from tests.learn.torch.models import CRITERION, SHAPES, clipped_sum, data, images, private

CLIP = Elementwise(clip=0.01)


@pytest.mark.parametrize("shape", [(5, 3, 2), (700, 70, 3), (4096, 1024, 10), (33, 129, 40)])
def test_sums_are_those_of_the_processor_to_the_last_bit(shape):
    rows, columns, outputs = shape
    generator = torch.Generator().manual_seed(2)
    a, g = torch.randn(rows, columns, generator=generator), torch.randn(rows, outputs, generator=generator)
    clip = Elementwise(clip=1.0)
    there = clamped_products(a.cuda(), g.cuda(), clip).cpu()
    assert torch.equal(there, blocked(a, g / clip.quantum, clip))
    assert not torch.equal(there, blocked(a * 1.01, g / clip.quantum, clip))  # the control


@pytest.mark.parametrize("make", SHAPES)
@pytest.mark.parametrize("clip", [CLIP, Euclidean(clip=0.5)])
def test_gradients_are_those_of_the_processor(make, clip, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    x, y = data(SHAPES[make], 32)
    module = make()
    here, losses, _ = clipped_sum(module, CRITERION, x, y, clip, 2**24)
    there, far_losses, _ = clipped_sum(copy.deepcopy(module).cuda(), CRITERION, x.cuda(), y.cuda(), clip, 2**24)
    unit = CLIP.levels if clip is CLIP else 1.0  # elementwise sums are in quanta
    torch.testing.assert_close(far_losses.cpu(), losses, rtol=1e-4, atol=1e-5)
    for name, sums in here.items():
        torch.testing.assert_close(there[name].cpu() / unit, sums / unit, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("bounding", ["truncate", "rectify", "quantize", "unbounded"])
def test_a_model_trains_there_and_its_account_is_the_same(bounding):
    support = {
        "truncate": rb.Interval(-0.2, 0.2),
        "rectify": rb.Interval(-0.2, 0.2),
        "quantize": rb.Grid(step=0.1, within=rb.Interval(-0.2, 0.2)),
        "unbounded": None,
    }[bounding]
    found = []
    for device in ("cpu", "cuda"):
        x, y = (each.to(device) for each in data(SHAPES[images], 32))
        model, renyi, fisher = images().to(device), RenyiWatcher(), FisherWatcher(iterations=3)
        engine, optimizer, loader = private(
            model, x, y, watchers=(renyi, fisher), inner=lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
            clipping=CLIP, noise_multiplier=10.0, bounding=Bounding(bounding), support=support,
        )  # fmt: skip
        before = [each.detach().clone() for each in model.parameters()]
        for _ in range(3):
            for a, b in loader:
                assert a.device.type == device
                optimizer.backward(a, b)
                optimizer.step()
        moved = [not torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True)]
        assert all(moved)
        assert fisher.largest().reveal() > 0.0
        found.append((engine.epsilon(delta=1e-5), renyi.epsilon(delta=1e-5).reveal()))
    assert found[0][0] == found[1][0]
    assert found[1][1] == pytest.approx(found[0][1], rel=0.2)


def test_mixed_precision_clips_in_float32():
    x, y = (each.cuda() for each in data(SHAPES[images], 16))
    module = images().cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        sums, _, _ = clipped_sum(module, CRITERION, x, y, CLIP, 2**24)
    for each in sums.values():
        assert torch.equal(each, each.round())
        assert each.abs().max() <= 16 * CLIP.levels


def test_draws_are_new_each_time():
    m = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=rb.Query(range=rb.Interval(-50, 50), sensitivity=1.0))
    location = torch.linspace(-4.0, 4.0, 4096, dtype=torch.float64, device="cuda")
    drawn = [release_in_place(m, location) for _ in range(5)]
    for i, each in enumerate(drawn):
        assert all(float((each == other).double().mean()) < 0.01 for other in drawn[:i])
        assert float((each - location).std()) == pytest.approx(2.0, rel=0.1)
    moved = release_in_place(m, -location)
    assert float((moved + location).mean()) == pytest.approx(0.0, abs=0.2)
