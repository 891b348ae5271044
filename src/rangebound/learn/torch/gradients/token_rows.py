"""The gradients of an embedding: for each example one row for each of its tokens, not for each token there is."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rangebound.learn.torch.clipping_norm import Elementwise
from rangebound.learn.torch.gradients import doubles
from rangebound.learn.torch.gradients.bad_examples import finite, kept
from rangebound.learn.torch.gradients.fixed_work import is_fixed, known_all


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
        """How many numbers of an example are held for a Euclidean clip, on average."""
        return self.values.numel() // max(self.count, 1)

    def rows(self, first: int, last: int) -> torch.Tensor:
        """The rows of some examples, with those of all tokens."""
        some = (self.example >= first) & (self.example < last)
        full = self.values.new_zeros((last - first) * self.tokens, self.values.shape[1])
        full.index_add_(0, (self.example[some] - first) * self.tokens + self.token[some], self.values[some])
        return full.view(last - first, -1)

    def keep(self, good: torch.Tensor) -> None:
        """Set the rows of the other examples to zero."""
        self.values = kept(self.values, good[self.example])

    def trim(self, count: int) -> None:
        """Set the rows of the other examples to zero, and leave out whether they are finite."""
        self.values, self.counted = kept(self.values, self.example < count), count

    def squares(self) -> torch.Tensor:
        """The squared norm of each example's rows."""
        return _added(doubles.squares(self.values), self.example, self.count)

    def weighted(self, weights: torch.Tensor) -> torch.Tensor:
        """The sum of the rows times the weights of their examples."""
        return self._sum(self.values.double() * weights[self.example, None])

    def clamped(self, clip: Elementwise) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of the clamped rows in quanta, and for each example whether its rows were finite and count."""
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
    g = g.to(doubles.wide(g)).flatten(0, 1)
    if is_fixed() or g.is_cuda:  # as many rows as there are tokens, the last of them empty
        ordered, order = (own * tokens + ids).flatten().sort(stable=True)
        place = (ordered != ordered.roll(1)).cumsum(0) - 1
        place = place - place[:1]
        keys = ordered[-1:].expand_as(ordered).clone().index_copy_(0, place, ordered)
        values = _added(g[order], place, len(keys))
    else:
        keys, place = torch.unique(own * tokens + ids, return_inverse=True)
        values = g.new_zeros(len(keys), g.shape[1]).index_add_(0, place.flatten(), g)
    example = torch.div(keys, tokens, rounding_mode="floor")
    return TokenRows(count=count, tokens=tokens, values=values, example=example, token=keys - example * tokens)
