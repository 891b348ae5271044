"""The gradients of one parameter for each example as rows, made some examples at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from rangebound.learn.torch.clipping_norm import Elementwise
from rangebound.learn.torch.gradients import doubles
from rangebound.learn.torch.gradients.bad_examples import kept
from rangebound.learn.torch.gradients.clamped import finite_rows

_AT_ONCE = {"cpu": 1 << 20}  # numbers of rows that exist at once while they are clamped
_ON_GPU = 1 << 26
_WIDE = {"cuda": 1 << 16}  # rows so wide are made twice and not held, where memory is scarcer than arithmetic


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
    counted: int | None = None  # examples from here on fill a chunk
    found: torch.Tensor | None = None  # squared norms of rows that are made again

    @property
    def stored(self) -> int:
        """How many numbers of an example are held for a Euclidean clip."""
        return 0 if self.remade else self.width

    @property
    def remade(self) -> bool:
        """Whether the rows are made again for a weighted sum."""
        return self.held is None and self.width >= _WIDE.get(self.device.type, self.width + 1)

    def rows(self, first: int, last: int) -> torch.Tensor:
        """The rows of some examples."""
        return self.make(first, last) if self.held is None else self.held[first:last]

    def keep(self, good: torch.Tensor) -> None:
        """Set the rows of the other examples to zero."""
        if self.held is not None:
            self.held = kept(self.held, good)
        else:
            make = self.make
            self.make = lambda first, last: kept(make(first, last), good[first:last])

    def trim(self, count: int) -> None:
        """Let the first rows count; all are made, so that the arithmetic sees the same shapes."""
        self.counted = count

    def squares(self) -> torch.Tensor:
        """The squared norm of each row."""
        if self.remade:
            self.found = torch.cat([doubles.squares(rows) for _, _, rows in self.pieces()])
            return self.found
        self.held = self.rows(0, self.count)
        return doubles.squares(self.held)

    def weighted(self, weights: torch.Tensor) -> torch.Tensor:
        """The sum of the rows times their weights.

        Guarantee: a row that is made again and comes out longer, which kernels do not promise to avoid, is scaled down
        to the length that its weight is for.
        """
        if not self.remade or self.found is None:
            return doubles.weighted(weights, self.rows(0, self.count))
        total = torch.zeros(self.width, dtype=torch.float64, device=self.device)
        for first, last, rows in self.pieces():
            before = self.found[first:last]
            now = doubles.squares(rows)
            shorter = torch.where(now > before, (before / now).sqrt(), 1.0)
            total += doubles.weighted(weights[first:last] * shorter, rows)
        return total

    def pieces(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Some rows at a time, with the first example and the end; all are made in one shape, the last ones again."""
        most = max(1, _AT_ONCE.get(self.device.type, _ON_GPU) // max(self.width, 1))
        size = -(-self.count // max(-(-self.count // most), 1))  # as even as can be, or half the rows are made twice
        for first in range(0, self.count, max(size, 1)):
            last = min(first + size, self.count)
            yield first, last, self.rows(last - size, last)[first - last + size :]

    def clamped(self, clip: Elementwise) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of the clamped rows in quanta, and for each example whether its row was finite and counts."""
        total: torch.Tensor | None = None
        found = []
        for first, _, rows in self.pieces():
            rows = rows if self.counted is None else rows[: max(self.counted - first, 0)]
            part, good = finite_rows(rows, clip)
            total = part if total is None else total.add_(part)
            found.append(good)
        assert total is not None
        return total, torch.cat(found)


def of(rows: torch.Tensor) -> ExampleRows:
    """Rows that exist already."""
    flat = rows.flatten(1)
    return ExampleRows(count=len(flat), width=flat.shape[1], make=lambda a, b: flat[a:b], device=flat.device, held=flat)
