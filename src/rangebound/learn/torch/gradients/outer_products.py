"""The gradients of a weight matrix as sums of outer products, which need not be stored.

For example b, the gradient is the sum over positions t of g[b, t, :] a[b, t, :]^T, with the inputs `a` of the layer and
the gradients `g` of its outputs. With one position, norms and sums follow from the factors: the norm is |a| |g|, the
weighted sum one product of matrices, and the clamped sum comes from a kernel that makes each product once. With several
positions the rows are made, at the arithmetic of the layer's own backward pass, or, for few positions, not at all
(`rangebound.learn.torch.gradients.summed_products`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rangebound.learn.torch.clipping_norm import Elementwise
from rangebound.learn.torch.gradients import doubles
from rangebound.learn.torch.gradients.bad_examples import kept
from rangebound.learn.torch.gradients.clamped import clamped_products
from rangebound.learn.torch.gradients.example_rows import ExampleRows
from rangebound.learn.torch.gradients.summed_products import SummedProducts, are_cheaper


@dataclass(kw_only=True)
class OuterProducts:
    """Inputs (examples, inputs) and gradients of outputs (examples, outputs), for layers with one position."""

    a: torch.Tensor
    g: torch.Tensor

    @property
    def count(self) -> int:
        """The number of examples."""
        return len(self.a)

    @property
    def stored(self) -> int:
        """Nothing more than the factors is held."""
        return 0

    def rows(self, first: int, last: int) -> torch.Tensor:
        """The rows of some examples."""
        return (self.g[first:last, :, None] * self.a[first:last, None, :]).flatten(1)

    def keep(self, good: torch.Tensor) -> None:
        """Set the factors of the other examples to zero."""
        self.a, self.g = kept(self.a, good), kept(self.g, good)

    def trim(self, count: int) -> None:
        """Leave out the factors of the other examples: each product is made by itself."""
        self.a, self.g = self.a[:count], self.g[:count]

    def squares(self) -> torch.Tensor:
        """The squared norm of each gradient."""
        return (doubles.lengths(self.a) * doubles.lengths(self.g)).square()

    def weighted(self, weights: torch.Tensor) -> torch.Tensor:
        """The sum of the gradients times their weights; of doubles in units of the largest, as their lengths are."""
        if self.a.dtype != torch.float64:
            return doubles.combined(weights, self.g, self.a).flatten()
        (a, largest), (g, steepest) = doubles.in_units(self.a), doubles.in_units(self.g)
        return doubles.combined(weights * (largest * steepest), g, a).flatten()

    def clamped(self, clip: Elementwise) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of the clamped gradients in quanta; a product that is too large is clamped like any other."""
        good = torch.ones(len(self.a), dtype=torch.bool, device=self.a.device)
        return clamped_products(self.a, self.g, clip).flatten(), good


def outer(a: torch.Tensor, g: torch.Tensor) -> OuterProducts | ExampleRows:
    """The gradients from factors of shape (examples, positions, numbers)."""
    dtype = doubles.wide(a, g)
    if a.shape[1] == 1:
        return OuterProducts(a=a[:, 0].to(dtype), g=g[:, 0].to(dtype))

    def make(first: int, last: int) -> torch.Tensor:
        return torch.bmm(g[first:last].to(dtype).transpose(1, 2), a[first:last].to(dtype)).flatten(1)

    width, (positions, inputs), outputs = a.shape[2] * g.shape[2], a.shape[1:], g.shape[2]
    if are_cheaper(a.device, dtype, positions, inputs, outputs):
        return SummedProducts(
            count=len(a), width=width, make=make, device=a.device, positions=positions,
            factors=lambda first, last: (a[first:last], g[first:last]),
        )  # fmt: skip
    return ExampleRows(count=len(a), width=width, make=make, device=a.device)
