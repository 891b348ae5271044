"""Norms by pairs of positions and sums by one product, beside the gradients themselves."""

import pytest
import torch

from rangebound.learn.torch.clipping_norm import Elementwise, Euclidean
from rangebound.learn.torch.gradients import gradient_forms, layer_rules
from rangebound.learn.torch.gradients.gradient_forms import ExampleRows, SummedProducts, are_cheaper, outer


def factors(count=6, positions=3, inputs=90, outputs=80, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(count, positions, width, generator=generator) for width in (inputs, outputs)]


def gradients(a, g):
    return torch.einsum("bti,bto->boi", a.double(), g.double()).flatten(1)


def convolution(transposed):
    generator = torch.Generator().manual_seed(1)
    sides = [(4, 48, 4, 4), (4, 64, 2, 2)]
    a, g = (torch.randn(*each, generator=generator) for each in (sides[::-1] if transposed else sides))
    return layer_rules.convolved(a, g, transposed, 1, layer_rules.Window((3, 3), (2, 2), (1, 1), (1, 1)))


def test_few_positions_are_not_made_into_rows_and_many_are():
    assert isinstance(outer(*factors()), SummedProducts)
    assert type(outer(*factors(positions=20))) is ExampleRows
    assert type(outer(*(each.double() for each in factors()))) is ExampleRows
    assert not are_cheaper(torch.device("cpu"), torch.float32, 1 << 15, 1 << 20, 1 << 20)


def test_norms_and_sums_are_those_of_the_gradients():
    a, g = factors()
    made, rows = outer(a, g), gradients(a, g)
    torch.testing.assert_close(made.squares(), rows.square().sum(1), rtol=1e-8, atol=0.0)
    assert (made.squares() >= rows.square().sum(1)).all()
    weights = torch.tensor([0.5, 1.0, 0.0, 0.1, 1.0, 0.3], dtype=torch.float64)
    torch.testing.assert_close(made.weighted(weights), weights @ rows, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(made.weighted(weights), rows.sum(0))  # the control


@pytest.mark.parametrize("transposed", [False, True])
def test_those_of_convolutions_too(transposed):
    made = convolution(transposed)
    assert isinstance(made, SummedProducts)
    rows = made.rows(0, 4).double()
    torch.testing.assert_close(made.squares(), rows.square().sum(1), rtol=1e-5, atol=0.0)
    weights = torch.tensor([0.5, 1.0, 0.2, 0.1], dtype=torch.float64)
    torch.testing.assert_close(made.weighted(weights), weights @ rows, rtol=1e-4, atol=1e-4)


def test_a_norm_never_comes_out_too_small_where_positions_cancel():
    a, g = factors(count=64, seed=3)
    a[:, 1], g[:, 1] = a[:, 0], -g[:, 0] * (1.0 + 2.0**-20)  # all but nothing is left of the first two
    a[:, 2] = 0.0
    exact = gradients(a, g).norm(dim=1)
    found = outer(a, g).squares().sqrt()
    reach = (a.double().norm(dim=2) * g.double().norm(dim=2)).sum(1)
    assert (found >= exact).all()
    torch.testing.assert_close(found, reach / 32.0)  # and a reach of over 32 norms is scaled down with its norm
    plain = torch.bmm(a, a.mT) * torch.bmm(g, g.mT)  # the control: in float32 some norms are too small
    assert (plain.sum((1, 2)).clamp(min=0.0).sqrt().double() < 0.9 * exact).any()


def test_examples_that_do_not_count_are_zeros():
    a, g = factors()
    a[2, 1, 5] = float("inf")
    made = outer(a, g)
    good = torch.isfinite(made.squares())
    assert good.tolist() == [True, True, False, True, True, True]
    made.keep(good)
    weights = torch.ones(6, dtype=torch.float64) * good
    torch.testing.assert_close(made.weighted(weights), gradients(a, g)[good].sum(0), rtol=1e-12, atol=1e-12)


def test_an_elementwise_clip_takes_the_rows():
    a, g = factors()
    clip = Elementwise(clip=0.5)
    sums, good = outer(a, g).clamped(clip)
    wanted = (outer(a, g).rows(0, 6) / clip.quantum).clamp(-clip.levels, clip.levels).round().double().sum(0)
    assert torch.equal(sums, wanted)
    assert bool(good.all())


def test_rounding_in_the_largest_step_stays_within_the_margin_of_the_clip():
    """Two neighbours with twice as many examples as are allowed, as far as a dataset may be larger than stated."""
    clip = Euclidean(clip=1.0)

    def rounding(terms):
        count = 2 * clip.most
        return 2.0 * 2.0**-53 * count * (gradient_forms._REACH * terms + count)

    assert rounding(gradient_forms._POSITIONS) < clip.clip - clip.target
    assert rounding(4 * gradient_forms._POSITIONS) > clip.clip - clip.target  # the control


def test_one_product_of_matrices_adds_no_more_terms_than_that():
    made = outer(*factors(count=3000, positions=2))
    longest = max(len(a) for _, a, _ in made.parts())
    assert 2 * longest <= gradient_forms._POSITIONS < 2 * made.count
