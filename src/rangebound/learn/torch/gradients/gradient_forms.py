"""The gradients of one parameter for each example, in the form in which norms and sums cost least.

For example b, the gradient of a weight matrix is the sum over positions t of g[b, t, :] a[b, t, :]^T, with the inputs
`a` of the layer and the gradients `g` of its outputs. With one position (`OuterProducts`), norms and sums follow from
the factors: the norm is |a| |g|, the weighted sum one product of matrices, and the clamped sum comes from a kernel that
makes each product once. With several positions the rows are made (`ExampleRows`), at the arithmetic of the layer's own
backward pass, or, for few positions, not at all (`SummedProducts`). Embeddings have one row for each token of an
example (`TokenRows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from rangebound.learn.torch.clipping_norm import Elementwise
from rangebound.learn.torch.gradients import sums
from rangebound.learn.torch.gradients.bad_examples import finite, kept, known_all

Factors = tuple[torch.Tensor, ...]

_HELD_AT_ONCE = {"cpu": 1 << 20}  # numbers of rows that exist at once while they are clamped
_ON_GPU = 1 << 26
_WIDE = {"cuda": 1 << 16}  # rows so wide are made twice and not held, where memory is scarcer than arithmetic
_AT_ONCE = 1 << 24  # doubles of factors
_POSITIONS = 1 << 12  # terms that one product of matrices adds
_ROUNDING = 2.0**-34  # over 2^17 roundings of a term, and as much again
_REACH = 32.0
_CHEAPER = {"cuda": 2}  # this many times less arithmetic than a gradient
_ON_PROCESSOR = 8  # where doubles cost twice as much as floats, and memory less


@dataclass(kw_only=True)
class ExampleRows:
    """One row of `width` numbers for each of `count` examples; `make(first, last)` returns some of the rows.

    For a Euclidean clip each row is made once and held until the norms of all parameters are known; wide rows on a GPU
    are made again for the sum. An elementwise clip takes each row as it is made, so that only a few exist at once.
    """

    count: int
    width: int
    make: Callable[[int, int], torch.Tensor]
    device: torch.device
    held: torch.Tensor | None = None
    counted: int | None = None  # examples from here on fill a chunk; all are made, so that kernels see one shape
    found: torch.Tensor | None = None  # squared norms of rows that are made again

    @property
    def stored(self) -> int:
        return 0 if self.remade else self.width

    @property
    def remade(self) -> bool:
        """Whether the rows are made again for a weighted sum."""
        return self.held is None and self.width >= _WIDE.get(self.device.type, self.width + 1)

    def rows(self, first: int, last: int) -> torch.Tensor:
        return self.make(first, last) if self.held is None else self.held[first:last]

    def keep(self, good: torch.Tensor) -> None:
        if self.held is not None:
            self.held = kept(self.held, good)
        else:
            make = self.make
            self.make = lambda first, last: kept(make(first, last), good[first:last])

    def trim(self, count: int) -> None:
        self.counted = count

    def squares(self) -> torch.Tensor:
        if self.remade:
            self.found = torch.cat([sums.squares(rows) for _, _, rows in self.pieces()])
            return self.found
        self.held = self.rows(0, self.count)
        return sums.squares(self.held)

    def weighted(self, weights: torch.Tensor) -> torch.Tensor:
        """The sum of the rows times their weights.

        Guarantee: a row that is made again and comes out longer, which kernels do not promise to avoid, is scaled down
        to the length that its weight is for.
        """
        if not self.remade or self.found is None:
            return sums.weighted(weights, self.rows(0, self.count))
        total = torch.zeros(self.width, dtype=torch.float64, device=self.device)
        for first, last, rows in self.pieces():
            before = self.found[first:last]
            now = sums.squares(rows)
            shorter = torch.where(now > before, (before / now).sqrt(), 1.0)
            total += sums.weighted(weights[first:last] * shorter, rows)
        return total

    def pieces(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Some rows at a time, with the first example and the end; all are made in one shape, the last ones again."""
        most = max(1, _HELD_AT_ONCE.get(self.device.type, _ON_GPU) // max(self.width, 1))
        size = -(-self.count // max(-(-self.count // most), 1))  # as even as can be, or half the rows are made twice
        for first in range(0, self.count, max(size, 1)):
            last = min(first + size, self.count)
            yield first, last, self.rows(last - size, last)[first - last + size :]

    def clamped(self, clip: Elementwise) -> tuple[torch.Tensor, torch.Tensor]:
        total = torch.zeros(self.width, dtype=torch.float64, device=self.device)
        found = []
        for first, _, rows in self.pieces():
            rows = rows if self.counted is None else rows[: max(self.counted - first, 0)]
            part, good = sums.finite_rows(rows, clip)
            total += part
            found.append(good)
        return total, torch.cat(found)


def held(rows: torch.Tensor) -> ExampleRows:
    """Rows that exist already."""
    flat = rows.unsqueeze(-1).flatten(1)  # a parameter may have no axis
    return ExampleRows(count=len(flat), width=flat.shape[1], make=lambda a, b: flat[a:b], device=flat.device, held=flat)


@dataclass(kw_only=True)
class SummedProducts(ExampleRows):
    """Norms and sums of outer products over few positions, without making the gradients for a Euclidean clip.

    `factors(first, last)` are the inputs and slopes of some examples, (examples, positions, ...). The squared norm of a
    gradient is the sum over two positions s and t of (a_s . a_t) (g_s . g_t) [goodfellow2015; li2022], and a weighted
    sum of gradients is one product of matrices. Both are in doubles. Where the terms of a norm cancel, rounding is
    large beside it: with the reach S = sum_t |a_t| |g_t|, the square that is computed is off by at most a multiple of
    S^2, which is added to it. And a norm counts as S / 32 at least, so that what is clipped has a reach of 32 clipping
    norms at most. With u = 2^-53, a product of matrices over m terms is off by m u of the reaches in it, and adding it
    to those before by u of their sum. So the sum of n examples is off by n u (32 m + n) clipping norms at most; twice
    that, for two neighbours, is within the margin of the clip.
    """

    factors: Callable[[int, int], Factors]
    positions: int

    @property
    def stored(self) -> int:
        return 0

    def keep(self, good: torch.Tensor) -> None:
        super().keep(good)
        factors = self.factors
        self.factors = lambda first, last: tuple(kept(each, good[first:last]) for each in factors(first, last))

    def squares(self) -> torch.Tensor:
        """The squared norm of each gradient, or slightly more."""
        found = []
        for _, a, g in self.parts():
            ours, theirs = torch.bmm(a, a.mT), torch.bmm(g, g.mT)
            reach = (ours * theirs).diagonal(dim1=1, dim2=2).sqrt().sum(1)
            square = (ours * theirs).sum((1, 2)).clamp(min=0.0) + _ROUNDING * reach.square()
            found.append(torch.maximum(square, (reach / _REACH).square()))
        return torch.cat(found)

    def weighted(self, weights: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor | None = None
        for here, a, g in self.parts():
            if total is None:
                total = a.new_zeros(g.shape[2], a.shape[2])
            total.addmm_((g * weights[here, None, None]).flatten(0, 1).T, a.flatten(0, 1))
        assert total is not None
        return total.flatten()

    def parts(self) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
        """Some examples at a time, and their factors in doubles."""
        numbers = sum(each.numel() for each in self.factors(0, 1))
        size = max(1, min(_AT_ONCE // max(numbers, 1), _POSITIONS // self.positions))
        for first in range(0, self.count, size):
            last = min(first + size, self.count)
            a, g = (each.to(torch.float64, memory_format=torch.contiguous_format) for each in self.factors(first, last))
            yield slice(first, last), a, g


def products(
    count: int, like: torch.Tensor, sizes: tuple[int, int, int], factors: Callable[[int, int], Factors],
    groups: int = 1,
) -> ExampleRows:  # fmt: skip
    """Rows of outer products on the device and in the precision of `like`, made of factors, or these themselves.

    `sizes` are the numbers of positions, inputs and outputs; inputs and outputs may be of several `groups`.
    """
    positions, inputs, outputs = sizes

    def make(first: int, last: int) -> torch.Tensor:
        a, g = (each.mT.to(like.dtype) for each in factors(first, last))
        if groups > 1:
            a, g = (each.reshape(-1, each.shape[1] // groups, each.shape[2]) for each in (a, g))
        return torch.bmm(g, a.mT).reshape(last - first, -1)

    rows = ExampleRows(count=count, width=inputs * outputs, make=make, device=like.device)
    if groups > 1 or not are_cheaper(like.device, like.dtype, *sizes):
        return rows
    return SummedProducts(**vars(rows), positions=positions, factors=factors)


def are_cheaper(device: torch.device, dtype: torch.dtype, positions: int, inputs: int, outputs: int) -> bool:
    """Whether norms by pairs of positions need far less arithmetic than the gradients themselves."""
    times = _CHEAPER.get(device.type, _ON_PROCESSOR)
    few = times * positions * (inputs + outputs) <= inputs * outputs and positions <= _POSITIONS
    return few and positions**2 + inputs + outputs <= 1 << 17 and dtype == torch.float32


@dataclass(kw_only=True)
class OuterProducts:
    """Inputs (examples, inputs) and gradients of outputs (examples, outputs), for layers with one position."""

    a: torch.Tensor
    g: torch.Tensor
    stored: int = 0

    @property
    def count(self) -> int:
        return len(self.a)

    def rows(self, first: int, last: int) -> torch.Tensor:
        return (self.g[first:last, :, None] * self.a[first:last, None, :]).flatten(1)

    def keep(self, good: torch.Tensor) -> None:
        self.a, self.g = kept(self.a, good), kept(self.g, good)

    def trim(self, count: int) -> None:
        self.a, self.g = self.a[:count], self.g[:count]  # each product is made by itself

    def squares(self) -> torch.Tensor:
        return (sums.lengths(self.a) * sums.lengths(self.g)).square()

    def weighted(self, weights: torch.Tensor) -> torch.Tensor:
        """The sum of the gradients times their weights; of doubles in units of the largest, as their lengths are."""
        if self.a.dtype != torch.float64:
            return sums.combined(weights, self.g, self.a).flatten()
        (a, largest), (g, steepest) = sums.in_units(self.a), sums.in_units(self.g)
        return sums.combined(weights * (largest * steepest), g, a).flatten()

    def clamped(self, clip: Elementwise) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of the clamped gradients in quanta; a product that is too large is clamped like any other."""
        good = torch.ones(len(self.a), dtype=torch.bool, device=self.a.device)
        return sums.clamped_products(self.a, self.g, clip).flatten(), good


def outer(a: torch.Tensor, g: torch.Tensor) -> OuterProducts | ExampleRows:
    """The gradients from factors of shape (examples, positions, numbers)."""
    dtype = sums.wide(a, g)
    if a.shape[1] == 1:
        return OuterProducts(a=a[:, 0].to(dtype), g=g[:, 0].to(dtype))
    sizes = a.shape[1], a.shape[2], g.shape[2]
    return products(len(a), a[:0].to(dtype), sizes, lambda first, last: (a[first:last], g[first:last]))


@dataclass(kw_only=True)
class TokenRows:
    """Rows with the example and the token that each belongs to; two that have both in common are zero but for one."""

    count: int
    tokens: int
    values: torch.Tensor
    example: torch.Tensor
    token: torch.Tensor
    counted: int | None = None

    @property
    def stored(self) -> int:
        return self.values.numel() // max(self.count, 1)

    def rows(self, first: int, last: int) -> torch.Tensor:
        """The rows of some examples, with those of all tokens."""
        some = (self.example >= first) & (self.example < last)
        full = self.values.new_zeros((last - first) * self.tokens, self.values.shape[1])
        full.index_add_(0, (self.example[some] - first) * self.tokens + self.token[some], self.values[some])
        return full.view(last - first, -1)

    def keep(self, good: torch.Tensor) -> None:
        self.values = kept(self.values, good[self.example])

    def trim(self, count: int) -> None:
        self.values, self.counted = kept(self.values, self.example < count), count

    def squares(self) -> torch.Tensor:
        return _added(sums.squares(self.values), self.example, self.count)

    def weighted(self, weights: torch.Tensor) -> torch.Tensor:
        return self._sum(self.values.double() * weights[self.example, None])

    def clamped(self, clip: Elementwise) -> tuple[torch.Tensor, torch.Tensor]:
        bad = torch.zeros(self.count, device=self.values.device)
        bad.index_add_(0, self.example, (~finite(self.values)).to(bad.dtype))
        good = bad == 0
        values = self.values if known_all(good) else kept(self.values, good[self.example])
        largest = torch.finfo(values.dtype).max
        quanta = (values / clip.quantum).clamp_(-largest, largest).clamp_(-clip.levels, clip.levels).round_()
        return self._sum(quanta.double()), good[: self.counted]

    def _sum(self, values: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((self.tokens, values.shape[1]), dtype=torch.float64, device=values.device)
        return total.index_add_(0, self.token, values).flatten()


Gradients = ExampleRows | OuterProducts | TokenRows
"""The gradients of one parameter for each of `count` examples, in whichever form.

`rows(first, last)` has those of some examples, a row each; `squares()` the squared norms and `weighted(weights)` the
weighted sum, both in float64. `clamped(clip)` is the sum of the clamped gradients in quanta, and for each example
whether it was finite and counts. `keep(good)` sets those of the other examples to zero, and after `trim(count)` only
the first ones count in the clamped sum. `stored` numbers of an example are held for a Euclidean clip, beside factors.
"""


def _added(rows: torch.Tensor, place: torch.Tensor, count: int) -> torch.Tensor:
    """The sums of rows with the same place, which does not fall; in their order, so with the same bits each time.

    On a GPU `index_add_` adds in an order of chance.
    """
    lengths = torch.zeros(count, dtype=torch.int64, device=rows.device).index_add_(0, place, torch.ones_like(place))
    return torch.segment_reduce(rows, "sum", lengths=lengths, unsafe=True, initial=0.0)


def gathered(ids: torch.Tensor, g: torch.Tensor, tokens: int) -> TokenRows:
    """The rows of tokens `ids` (examples, positions) with the gradients `g` of their vectors, added by token."""
    count = len(ids)
    own = torch.arange(count, device=ids.device)[:, None]
    g = g.to(sums.wide(g)).flatten(0, 1)
    ordered, order = (own * tokens + ids).flatten().sort(stable=True)
    place = (ordered != ordered.roll(1)).cumsum(0) - 1
    place = place - place[:1]
    keys = ordered[-1:].expand_as(ordered).clone().index_copy_(0, place, ordered)  # the last ones are empty
    values = _added(g[order], place, len(keys))
    example = torch.div(keys, tokens, rounding_mode="floor")
    return TokenRows(count=count, tokens=tokens, values=values, example=example, token=keys - example * tokens)
