"""Sums of clamped outer products in whole numbers, without storing the products: compiled, blocked, or on a GPU.

All routes give the same whole numbers: sum over b of round(clamp(g[b, o] * a[b, i] / quantum, -levels, levels)). For a
linear layer `a` holds the inputs and `g` the gradients of its outputs; per-example gradients that exist already are
rows `a` with a single `g` of 1.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

from rangebound.learn.torch.clipping_norm import Elementwise
from rangebound.learn.torch.gradients.bad_examples import finite, kept
from rangebound.learn.torch.gradients.fixed_work import known_all
from rangebound.values.kernels import warn_of_slow_path

try:
    from rangebound.learn import _kernel
except ImportError:  # installed without a compiler
    _kernel = None  # type: ignore[assignment]

_BLOCK = 1 << 22  # products per block: some megabytes
_SHARE = 256  # fewest columns that justify another thread


def clamped_products(a: torch.Tensor, g: torch.Tensor, clip: Elementwise) -> torch.Tensor:
    """The sum over examples of the clamped products, as whole numbers in float64, one row for each column of `g`.

    Guarantee: exact, given the rounded products g * a in float32 (float64 for float64 inputs).
    Assumes: the factors are finite. A product that is too large for a float is clamped like any other.

    >>> import torch
    >>> clamped_products(torch.tensor([[3.0], [1.0]]), torch.ones(2, 1), Elementwise(clip=2.0)) * 2.0**-16
    tensor([[3.]], dtype=torch.float64)
    """
    wide = torch.float64 if torch.float64 in (a.dtype, g.dtype) else torch.float32
    a, g = a.detach().to(wide).contiguous(), g.detach().to(wide)
    largest = torch.finfo(wide).max  # an infinite factor times zero would be NaN
    g = (g / clip.quantum).clamp_(-largest, largest).contiguous()  # a power of two: exact
    if a.device.type == "cpu" and wide == torch.float32:
        if _kernel is not None:
            return _compiled(a, g, clip)
        warn_of_slow_path("learn")
    largest_index = max(a.numel(), g.numel(), a.shape[1] * g.shape[1])
    if a.device.type == "cuda" and wide == torch.float32 and a.numel() and largest_index < 2**31:
        from rangebound.learn.torch.gradients.triton_clamped import clamped_on_gpu

        return clamped_on_gpu(a, g, clip.levels)
    return blocked(a, g, clip)


def clamped_rows(rows: torch.Tensor, clip: Elementwise) -> torch.Tensor:
    """The sum of per-example gradients (one row each), clamped, as whole numbers in float64."""
    if _on_gpu(rows):
        return finite_rows(rows, clip)[0]
    ones = torch.ones((len(rows), 1), dtype=rows.dtype, device=rows.device)
    return clamped_products(rows, ones, clip)[0]


def finite_rows(rows: torch.Tensor, clip: Elementwise) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, of the finite rows, and which of the rows they are.

    Edge cases: on a GPU, where one pass over the rows makes both, an infinite number is clamped like any other, and
    what is not a number counts as zero.
    """
    if _on_gpu(rows):
        from rangebound.learn.torch.gradients.triton_clamped import clamped_rows_on_gpu

        return clamped_rows_on_gpu(rows.detach().float().contiguous(), clip.quantum, clip.levels)
    good = finite(rows)
    return clamped_rows(rows if known_all(good) else kept(rows, good), clip), good


def _on_gpu(rows: torch.Tensor) -> bool:
    return rows.device.type == "cuda" and rows.dtype != torch.float64 and 0 < rows.numel() < 2**31


def blocked(a: torch.Tensor, g: torch.Tensor, clip: Elementwise) -> torch.Tensor:
    """The route of plain tensor operations, a block of examples at a time; `g` is in quanta."""
    total = torch.zeros((g.shape[1], a.shape[1]), dtype=torch.float64, device=a.device)
    size = max(1, _BLOCK // max(total.numel(), 1))
    for start in range(0, len(a), size):
        products = g[start : start + size, :, None] * a[start : start + size, None, :]
        total += products.clamp_(-clip.levels, clip.levels).round_().sum(0, dtype=torch.float64)
    return total


def _compiled(a: torch.Tensor, g: torch.Tensor, clip: Elementwise) -> torch.Tensor:
    (rows, columns), outputs = a.shape, g.shape[1]
    total = torch.zeros((outputs, columns), dtype=torch.float64)
    arrays = a.numpy(), g.numpy(), total.numpy()
    workers = min(torch.get_num_threads(), max(columns // _SHARE, 1))
    cuts = [columns * i // workers // 48 * 48 for i in range(workers)] + [columns]

    def part(i: int) -> None:
        _kernel.clamped(*arrays, rows, columns, outputs, float(clip.levels), cuts[i], cuts[i + 1])

    if workers == 1:
        part(0)
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(part, range(workers)))
    return total
