"""Work that does not depend on what it finds gives what the short cuts give."""

import pytest
import torch

from rangebound.learn.torch.clipping_norm import Elementwise, Euclidean
from rangebound.learn.torch.gradients.bad_examples import fixed_work, known_all
from rangebound.learn.torch.gradients.gradient_forms import gathered
from rangebound.learn.torch.gradients.per_example import clipped_sum
from tests.learn.torch.models import CRITERION, SHAPES, data


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
