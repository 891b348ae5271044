"""An example's clipped gradient is the same to the last bit, whichever others there are and wherever it stands."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import train_models
from rangebound.learn.torch import Adaptive, Elementwise, Euclidean
from rangebound.learn.torch.clipping_norm import tally
from rangebound.learn.torch.gradients import per_example, survey
from rangebound.learn.torch.gradients.one_pass import one_pass
from rangebound.learn.torch.gradients.survey import SteadyChunk
from tests.learn.torch.models import clipped_sum, data, deciding, linear, simple, train

MEMORY = 2**30
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
CNN_LAST = sorted(train_models.MODELS, key="CNN on 28x28".__eq__)
"""The models, of which the first and the last are tried by default."""


def small(name: str, device: str) -> nn.Module:
    """The models of the benchmark; the deep ones on the processor with one layer of each kind, or thinner."""
    torch.manual_seed(0)
    if device == "cpu" and "ResNet" in name:
        branches = [train_models.Branch(16, 16, 1), train_models.Branch(16, 32, 2)]
        ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
        return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(16, 16), nn.ReLU(), *branches, *ends)
    made = train_models.MODELS[name][0]().to(device)
    if device == "cpu" and hasattr(made, "blocks"):
        made.blocks = made.blocks[:1]
    return made


def company(name: str, device: str, count: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """One example at several places among others, and what a sum takes before the clip.

    The others have the class that the criterion ignores, so that the sum is the gradient of the one.
    """
    module, (x, y) = small(name, device), train_models.batch(name, device, count)
    for place, others in ((0, 1), (0, count), (count - 1, count), (1, 3), (2, count - 1)):
        rows, classes = x.roll(place + 1, 0)[:others].clone(), torch.full_like(y[:others], -100)
        rows[place], classes[place] = x[3], y[3]
        yield place, (module, F.cross_entropy, rows, classes)


def moved(name: str, clip: Any, device: str, *, full: int | None, count: int = 6) -> float:
    """How far the gradient of one example moves with its place and with the number and the values of the others."""
    sums = []
    for place, given in company(name, device, count):
        found, losses, _ = clipped_sum(*given, clip, MEMORY, full)
        assert losses.isnan().tolist() == [i != place for i in range(len(losses))]
        sums.append(torch.cat([each.flatten() for each in found.values()]))
    assert float(sums[0].abs().max()) > 0.0
    return max(float((each - sums[0]).abs().max()) for each in sums[1:])


@pytest.mark.few(2)
@pytest.mark.claim("gradient")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("clip", [Elementwise(clip=1e-3), Euclidean(clip=0.1)], ids=["elementwise", "Euclidean"])
@pytest.mark.parametrize("name", CNN_LAST)
def test_an_example_has_the_same_bits_whichever_others_there_are(name: str, clip: Any, device: str) -> None:
    assert moved(name, clip, device, full=6) == 0.0


def tally_alone(name: str, device: str, *, full: int | None) -> tuple[float, int]:
    """The largest difference of an example's squared norm with its place and its company, and how often a tally with
    the clipping norm at the smallest of these norms is another than that of the example alone.
    """
    runs = [
        (given, float(clipped_sum(*given, Euclidean(clip=0.1), MEMORY, full)[2][place]))
        for place, given in company(name, device, 6)
    ]
    least = min(square for _, square in runs)
    clip = Euclidean(clip=math.sqrt(least) / (1.0 - 2.0**-16))
    while float(clip.shrink(torch.tensor(least, dtype=torch.float64))) < 1.0:
        clip = Euclidean(clip=math.nextafter(clip.clip, math.inf))
    tallies = [tally(clipped_sum(*given, clip, MEMORY, full)[2], clip) for given, _ in runs]
    return max(square for _, square in runs) - least, sum(each != tallies[0] for each in tallies)


@pytest.mark.few(1)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", train_models.MODELS)
def test_whether_a_gradient_is_below_the_norm_does_not_depend_on_others(name: str, device: str) -> None:
    """The norm is to the last bit that of the example in any company, and with it the tally of adaptive clipping."""
    assert tally_alone(name, device, full=6) == (0.0, 0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("clip", [Elementwise(clip=1e-3), Euclidean(clip=0.1)], ids=["elementwise", "Euclidean"])
@pytest.mark.parametrize(("name", "count"), [("ResNet-18", 128), ("five convolutions", 64), ("transformer", 64)])
def test_places_in_chunks_of_real_sizes_do_not_matter(
    name: str, count: int, clip: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: convolutions with TF32 in chunks of these sizes."""
    (model,) = [each for each in train_models.MODELS if each.startswith(name)]
    assert moved(model, clip, "cuda", full=count, count=count) == 0.0
    if "transformer" not in name:
        as_it_is = SteadyChunk(size=count, threads=torch.get_num_threads())
        monkeypatch.setattr(per_example, "steady_chunk", lambda *_: as_it_is)
        assert moved(model, clip, "cuda", full=count, count=count) > 0.0


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["MLP 784-1024-1024-10", "CNN on 28x28"])
def test_without_chunks_of_one_size_it_moves(name: str) -> None:
    """The control: whole quanta, and the last bits of a Euclidean clip."""
    assert moved(name, Elementwise(clip=1e-3), "cpu", full=None) >= 1.0
    assert moved(name, Euclidean(clip=0.1), "cpu", full=None) > 0.0
    far, flipped = tally_alone(name, "cpu", full=None)
    assert far > 0.0
    assert flipped > 0


def sloped() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 4), nn.PReLU(), nn.Linear(4, 3))


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [linear, deciding, sloped])
@pytest.mark.parametrize("clip", [Elementwise(clip=0.01), Euclidean(clip=0.05)], ids=["elementwise", "Euclidean"])
def test_what_fills_a_chunk_does_not_count(make: Any, clip: Any) -> None:
    """Elementwise sums in chunks are those of each example by itself, exactly; five examples, chunks of two to nine."""
    module, (x, y) = make(), data((6,), count=5)
    x[1, 0] = float("nan")
    for full in (2, 3, 9):
        sums, losses, _ = clipped_sum(module, F.cross_entropy, x, y, clip, MEMORY, full)
        alone = [clipped_sum(module, F.cross_entropy, x[i : i + 1], y[i : i + 1], clip, MEMORY, full) for i in range(5)]
        assert losses.isnan().tolist() == [False, True, False, False, False]
        for name, each in sums.items():
            expected = sum(found[name] for found, _, _ in alone)
            assert torch.allclose(each, expected, rtol=0.0, atol=0.0 if isinstance(clip, Elementwise) else 1e-15)


def test_steps_use_chunks_of_the_expected_batch() -> None:
    assert simple(40, rate=0.25, expected_batch=10)[2].chunk == 14  # 10 and one and a half deviations of 2.7
    assert simple(40)[2].chunk == 40  # every example is in every batch


@pytest.mark.parametrize("clipping", [Elementwise(clip=1.0), Euclidean(clip=1.0), Adaptive(clip=1.0)], ids=str)
def test_a_pass_has_as_many_examples_as_a_chunk(clipping: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, optimizer, loader = simple(40, clipping=clipping, chunk_size=7)
    seen: list[int] = []

    def pass_of(problem: Any, some: Any, *more: Any, **options: Any) -> Any:
        seen.append(len(some[0]))
        return one_pass(problem, some, *more, **options)

    for each in (survey, per_example):
        monkeypatch.setattr(each, "one_pass", pass_of)
    train(optimizer, loader, 1)
    assert seen[:3] == [2, 7, 7]  # of made-up examples, as are those of smaller sizes
    assert seen[-6:-1] == [7] * 5
    assert seen[-1] in (5, 6, 7)  # the last five, in the smallest chunk that gives them the same bits
