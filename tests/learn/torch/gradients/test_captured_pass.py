"""Passes as CUDA graphs find what passes find, and work that does not depend on what it finds."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch

from rangebound.learn.torch import Elementwise, Euclidean
from rangebound.learn.torch.gradients import captured_pass
from rangebound.learn.torch.gradients.bad_examples import fixed_work, known_all
from rangebound.learn.torch.gradients.captured_pass import CapturedPasses, _key
from rangebound.learn.torch.gradients.gradient_forms import gathered
from tests.learn.torch.models import CRITERION, SHAPES, Built, clipped_sum, data, images

CLIP = Elementwise(clip=0.01)
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def test_a_graph_is_kept_for_one_shape_one_state_of_the_module_and_one_setting() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5))
    x, y = torch.zeros(4, 3), torch.zeros(4)
    first = _key(module, CRITERION, "clip", (x, y))
    assert _key(module, CRITERION, "clip", (x + 1.0, y)) == first
    others = [
        _key(module, CRITERION, "other", (x, y)),
        _key(module, CRITERION, "clip", (x[:3], y)),
        _key(module, CRITERION, "clip", (x.double(), y)),
    ]
    module[1].eval()
    others.append(_key(module, CRITERION, "clip", (x, y)))
    module[1].train()
    module[0].weight.requires_grad_(False)
    others.append(_key(module, CRITERION, "clip", (x, y)))
    module[0].weight.requires_grad_(True)
    assert _key(module, CRITERION, "clip", (x, y)) == first
    with torch.autocast("cpu", dtype=torch.bfloat16):
        others.append(_key(module, CRITERION, "clip", (x, y)))
    module[0].bias = torch.nn.Parameter(torch.zeros(2))
    others.append(_key(module, CRITERION, "clip", (x, y)))
    assert first not in others


def test_a_graph_is_of_one_state_of_python_code() -> None:
    """Of the module and of the criterion: what a graph has recorded, it does whatever they say afterwards."""

    class Scheduled:
        def __init__(self) -> None:
            self.warm, self.calls, self.history = 0.5, 0, []

        def __call__(self, output, target):
            return self.warm * output.sum()

    module, x, y = Built(lambda m, x: m.layer(x), layer=torch.nn.Linear(3, 2)), torch.zeros(4, 3), torch.zeros(4)
    criterion, factor, weights = Scheduled(), 1.0, torch.ones(3)

    def closed(output, target):
        return (factor * criterion(output, target) * weights).sum()

    def bound(output, target, *, by=2.0):
        return by * output.sum()

    for asked in (criterion, closed, criterion.__call__, partial(bound, by=criterion.warm), CRITERION):
        assert _key(module, asked, "clip", (x, y)) == _key(module, asked, "clip", (x, y))
    keys = [_key(module, closed, "clip", (x, y))]
    criterion.warm = 0.25
    keys.append(_key(module, closed, "clip", (x, y)))
    factor = 3.0
    keys.append(_key(module, closed, "clip", (x, y)))
    weights = torch.zeros(3)
    keys.append(_key(module, closed, "clip", (x, y)))
    criterion.history.append(1)
    keys.append(_key(module, closed, "clip", (x, y)))
    module.layer.steps = 7
    keys.append(_key(module, closed, "clip", (x, y)))
    assert all(a != b for i, a in enumerate(keys) for b in keys[:i])
    assert _key(module, partial(bound, by=1.0), "clip", (x, y)) != _key(module, partial(bound, by=2.0), "clip", (x, y))


@on_gpu
@pytest.mark.parametrize("counts", [True, False])
def test_a_criterion_that_counts_its_calls_is_never_captured(counts):
    """A graph would let the count stand still; the control is the same criterion without its count."""

    class Warming:
        calls = 0

        def __call__(self, output, target):
            self.calls = self.calls + counts
            return (1.0 + self.calls) * CRITERION(output, target)

    criterion, module, captured = Warming(), torch.nn.Linear(3, 2).cuda(), CapturedPasses()
    x, y = torch.randn(8, 3).cuda(), torch.zeros(8, dtype=torch.long).cuda()
    for _ in range(4):
        clipped_sum(module, criterion, x, y, Euclidean(clip=0.5), 2**24, 8, captured)
    assert bool(captured._graphs) is not counts


@on_gpu
def test_sums_of_a_graph_that_are_others_are_not_used(monkeypatch):
    """A graph of the examples that it was captured from alone, as one that holds a number of theirs."""
    x, y = (each.cuda() for each in data(SHAPES[images], 8))
    module, captured = images().cuda(), CapturedPasses()
    run = captured_pass._Captured.run
    monkeypatch.setattr(captured_pass._Captured, "run", lambda self, leaves, count: run(self, self.leaves, count))
    clipped_sum(module, CRITERION, x, y, Euclidean(clip=0.5), 2**24, 8, captured)
    with pytest.warns(UserWarning, match="its sums are others"):
        found, _, _ = clipped_sum(module, CRITERION, x, y, Euclidean(clip=0.5), 2**24, 8, captured)
    wanted, _, _ = clipped_sum(module, CRITERION, x, y, Euclidean(clip=0.5), 2**24, 8)
    for name, sums in wanted.items():
        torch.testing.assert_close(found[name], sums)


@on_gpu
def test_dropout_is_new_in_each_replay_and_the_trial_leaves_the_generator():
    x, y = torch.randn(8, 30).cuda(), torch.zeros(8, dtype=torch.long).cuda()
    module = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(30, 2)).cuda()
    captured, sums = CapturedPasses(), []
    for _ in range(5):
        found, _, _ = clipped_sum(module, CRITERION, x, y, Euclidean(clip=0.5), 2**24, 8, captured)
        sums.append(found["1.weight"])
    assert captured._graphs
    assert not any(torch.equal(a, b) for i, a in enumerate(sums) for b in sums[:i])


def test_elsewhere_than_on_a_gpu_nothing_is_captured() -> None:
    module, captured = images(), CapturedPasses()
    for _ in range(3):
        clipped_sum(module, CRITERION, *data(SHAPES[images], 4), CLIP, 2**24, 4, captured)
    assert captured.refused == ""


@on_gpu
@pytest.mark.parametrize("make", SHAPES)
@pytest.mark.parametrize("clip", [CLIP, Euclidean(clip=0.5)])
@pytest.mark.parametrize("count", [32, 20])
def test_a_captured_pass_finds_the_same_sums(make, clip, count):
    x, y = (each.cuda() for each in data(SHAPES[make], 32))
    module, captured = make().cuda(), CapturedPasses()
    for _ in range(2):
        clipped_sum(module, CRITERION, x, y, clip, 2**24, 32, captured)
    assert captured.refused == ""
    wanted, losses, _ = clipped_sum(module, CRITERION, x[:count], y[:count], clip, 2**24, 32)
    found, far_losses, _ = clipped_sum(module, CRITERION, x[:count], y[:count], clip, 2**24, 32, captured)
    torch.testing.assert_close(far_losses, losses, rtol=1e-6, atol=1e-6)
    for name, sums in wanted.items():
        torch.testing.assert_close(found[name], sums, rtol=1e-5, atol=1e-5)
    others, _, _ = clipped_sum(module, CRITERION, x[-count:] * 2.0, y[:count], clip, 2**24, 32, captured)
    assert any(not torch.allclose(others[name], sums) for name, sums in wanted.items())  # the control


@on_gpu
def test_a_captured_pass_follows_the_parameters_and_leaves_out_examples_that_are_not_finite():
    x, y = (each.cuda() for each in data(SHAPES[images], 32))
    module, captured, clip = images().cuda(), CapturedPasses(), Euclidean(clip=0.5)
    for _ in range(3):
        before, _, _ = clipped_sum(module, CRITERION, x, y, clip, 2**24, 32, captured)
    with torch.no_grad():
        for each in module.parameters():
            each.mul_(1.5)
    x[3] = float("nan")
    found, losses, _ = clipped_sum(module, CRITERION, x, y, clip, 2**24, 32, captured)
    wanted, _, _ = clipped_sum(module, CRITERION, x, y, clip, 2**24, 32)
    assert [bool(each) for each in losses.isnan()] == [i == 3 for i in range(32)]
    for name, sums in wanted.items():
        torch.testing.assert_close(found[name], sums)
        assert not torch.equal(before[name], sums)


@on_gpu
def test_a_module_that_cannot_be_captured_is_run_as_it_is():
    def run(m, x):
        torch.cuda.synchronize()
        return m.layer(x)

    x, y = torch.randn(8, 3).cuda(), torch.zeros(8, dtype=torch.long).cuda()
    module, captured = Built(run, layer=torch.nn.Linear(3, 2)).cuda(), CapturedPasses()
    wanted, _, _ = clipped_sum(module, CRITERION, x, y, Euclidean(clip=0.5), 2**24, 8)
    clipped_sum(module, CRITERION, x, y, Euclidean(clip=0.5), 2**24, 8, captured)
    with pytest.warns(UserWarning, match="not captured in CUDA graphs"):
        found, _, _ = clipped_sum(module, CRITERION, x, y, Euclidean(clip=0.5), 2**24, 8, captured)
    for name, sums in wanted.items():
        torch.testing.assert_close(found[name], sums)
    assert captured.refused


@pytest.mark.parametrize("runs", [True, False])
def test_a_graph_that_did_not_run_gives_no_sums_of_earlier_examples(runs) -> None:
    """As one does that was captured on a stream of another device: it is empty."""
    x = torch.full((4, 3), 2.0)
    found = object.__new__(captured_pass._Captured)
    found.leaves, found.counted, found.count = (x.clone(), torch.zeros(4)), torch.ones(4, dtype=torch.bool), 4
    found.losses, found.squares = x.sum(1), x.double().square().sum(1)
    found.joined, found.sizes = x.double().sum(0), {"weight": 3}
    replay = (lambda: found.joined.copy_(found.leaves[0].double().sum(0))) if runs else (lambda: None)
    found.graph = SimpleNamespace(replay=replay)
    sums, _, _ = found.run((x + 1.0, torch.zeros(4)), 4)
    assert torch.equal(sums["weight"], (x + 1.0).double().sum(0)) is runs
    assert bool(torch.isnan(sums["weight"]).any()) is not runs


@pytest.mark.few(4)
@pytest.mark.parametrize("make", SHAPES)
@pytest.mark.parametrize("clip", [Elementwise(clip=0.01), Euclidean(clip=0.5)])
def test_sums_are_the_same(make, clip):
    x, y = data(SHAPES[make], 8)
    if x.is_floating_point():
        x[3] = float("nan")
    module = make()
    wanted, losses, _ = clipped_sum(module, CRITERION, x, y, clip, 2**24)
    with fixed_work():
        assert not known_all(torch.ones(3, dtype=torch.bool))  # nothing is asked within it
        found, same, _ = clipped_sum(module, CRITERION, x, y, clip, 2**24)
    torch.testing.assert_close(same, losses, equal_nan=True)
    for name, sums in wanted.items():
        torch.testing.assert_close(found[name], sums)


@pytest.mark.parametrize(
    "ids", [[[1, 1, 4], [4, 0, 0]], [[2, 2, 2], [2, 2, 2]], [[0, 1, 1], [2, 2, 2]], [[0, 1, 2], [3, 4, 0]], [[3], [3]]]
)
def test_rows_of_tokens_are_the_same_with_empty_ones_after_them(ids):
    ids = torch.tensor(ids)
    g = torch.randn(*ids.shape, 2, generator=torch.Generator().manual_seed(0))
    wanted = gathered(ids, g, 5)
    with fixed_work():
        found = gathered(ids, g, 5)
    assert len(found.values) == ids.numel() >= len(wanted.values)
    torch.testing.assert_close(found.squares(), wanted.squares())
    torch.testing.assert_close(found.rows(0, 2), wanted.rows(0, 2))
    weights = torch.tensor([0.5, 1.0], dtype=torch.float64)
    torch.testing.assert_close(found.weighted(weights), wanted.weighted(weights))
    assert torch.equal(found.clamped(Elementwise(clip=0.1))[0], wanted.clamped(Elementwise(clip=0.1))[0])
