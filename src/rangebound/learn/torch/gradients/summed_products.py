"""Norms and sums of gradients that are sums of outer products over few positions, without making the gradients.

For example b, the gradient is the sum over positions t of g[b, t, :] a[b, t, :]^T. Its squared norm is the sum over two
positions s and t of (a_s . a_t) (g_s . g_t) [goodfellow2015; li2022], and a weighted sum of gradients is one product of
matrices. Both are in doubles. Where the terms of a norm cancel, rounding is large beside it: with the reach
S = sum_t |a_t| |g_t|, the square that is computed is off by at most a multiple of S^2, which is added to it. And a norm
counts as S / 32 at least, so that what is clipped has a reach of 32 clipping norms at most. With u = 2^-53, a product
of matrices over m terms is off by m u of the reaches in it, and adding it to those before by u of their sum. So the sum
of n examples is off by n u (32 m + n) clipping norms at most; twice that, for two neighbours, is within the margin of
the clip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from rangebound.learn.torch.gradients.bad_examples import kept
from rangebound.learn.torch.gradients.example_rows import ExampleRows

_AT_ONCE = 1 << 24  # doubles of factors
_POSITIONS = 1 << 12  # terms that one product of matrices adds
_ROUNDING = 2.0**-34  # over 2^17 roundings of a term, and as much again
_REACH = 32.0
_CHEAPER = {"cuda": 2}  # so many times less arithmetic than a gradient
_ON_PROCESSOR = 8  # where doubles cost twice as much as floats, and memory less


@dataclass(kw_only=True)
class SummedProducts(ExampleRows):
    """Rows as those of `ExampleRows`; `factors(first, last)` are the inputs and slopes, (examples, positions, ...).

    The norms and sums of a Euclidean clip need the factors only.
    """

    factors: Callable[[int, int], tuple[torch.Tensor, torch.Tensor]]
    positions: int
    good: torch.Tensor | None = field(default=None)

    @property
    def stored(self) -> int:
        """Nothing more than the factors is held."""
        return 0

    def keep(self, good: torch.Tensor) -> None:
        """Set the rows of the other examples to zero."""
        super().keep(good)
        self.good = good

    def squares(self) -> torch.Tensor:
        """The squared norm of each gradient, or slightly more."""
        found = []
        for first, last in self._parts():
            a, g = self._doubles(first, last)
            ours, theirs = torch.bmm(a, a.mT), torch.bmm(g, g.mT)
            reach = (ours * theirs).diagonal(dim1=1, dim2=2).sqrt().sum(1)
            square = (ours * theirs).sum((1, 2)).clamp(min=0.0) + _ROUNDING * reach.square()
            found.append(torch.maximum(square, (reach / _REACH).square()))
        return torch.cat(found)

    def weighted(self, weights: torch.Tensor) -> torch.Tensor:
        """The sum of the gradients times their weights."""
        total: torch.Tensor | None = None
        for first, last in self._parts():
            a, g = self._doubles(first, last)
            slopes = (g * weights[first:last, None, None]).flatten(0, 1)
            if total is None:
                total = torch.zeros((g.shape[2], a.shape[2]), dtype=torch.float64, device=self.device)
            total.addmm_(slopes.T, a.flatten(0, 1))
        assert total is not None
        return total.flatten()

    def _doubles(self, first: int, last: int) -> tuple[torch.Tensor, torch.Tensor]:
        found = []
        for each in self.factors(first, last):
            some = each if self.good is None else kept(each, self.good[first:last])
            found.append(torch.empty(some.shape, dtype=torch.float64, device=some.device).copy_(some))
        return found[0], found[1]

    def _parts(self) -> list[tuple[int, int]]:
        """From where to where factors are used at once."""
        a, g = self.factors(0, 1)
        size = max(1, min(_AT_ONCE // max(a.numel() + g.numel(), 1), _POSITIONS // self.positions))
        return [(first, min(first + size, self.count)) for first in range(0, self.count, size)]


def are_cheaper(device: torch.device, dtype: torch.dtype, positions: int, inputs: int, outputs: int) -> bool:
    """Whether norms by pairs of positions need far less arithmetic than the gradients themselves."""
    times = _CHEAPER.get(device.type, _ON_PROCESSOR)
    few = times * positions * (inputs + outputs) <= inputs * outputs and positions <= _POSITIONS
    return few and positions**2 + inputs + outputs <= 1 << 17 and dtype == torch.float32
