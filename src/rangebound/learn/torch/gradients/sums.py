"""Sums over examples: weighted in float64, and clamped in whole numbers without storing the products.

Squared norms and weighted sums of rows are in float64, so that the bound of a Euclidean clip holds with its margin.

Clamped sums are compiled, blocked, or on a GPU; all routes give the same whole numbers: sum over b of
round(clamp(g[b, o] * a[b, i] / quantum, -levels, levels)). For a linear layer `a` holds the inputs and `g` the
gradients of its outputs; per-example gradients that exist already are rows `a` with a single `g` of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from rangebound.learn.torch.clipping_norm import Elementwise
from rangebound.learn.torch.gradients.bad_examples import finite, kept, known_all
from rangebound.values.extras import warn_of_slow_path

try:
    from rangebound.learn import _kernel
except ImportError:  # installed without a compiler
    _kernel = None  # type: ignore[assignment]

_CACHED = 1 << 17  # doubles
_AT_ONCE = 1 << 22  # doubles on a GPU
_LONG = 1 << 16  # rows so long have enough columns for a GPU
_BLOCK = 1 << 22  # products per block: some megabytes
_MANY = 1 << 18  # numbers of rows that justify another thread
_SHARE = 256  # fewest columns that justify another thread


def wide(*tensors: torch.Tensor) -> torch.dtype:
    """The precision in which gradients are made: float32, or float64 where one of the factors has it."""
    return torch.float64 if any(each.dtype == torch.float64 for each in tensors) else torch.float32


def squares(rows: torch.Tensor) -> torch.Tensor:
    """The squared norm of each row."""
    if rows.device.type == "cuda" and rows.dtype == torch.float32 and rows.numel():
        from rangebound.learn.torch.triton_kernels import squares_on_gpu

        return squares_on_gpu(rows.contiguous())
    if rows.device.type != "cpu":
        norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
        return norms.square()
    if rows.dtype == torch.float32 and _kernel is not None:
        given, found = rows.detach().contiguous().numpy(), torch.empty(len(rows), dtype=torch.float64)
        _in_threads(partial(_kernel.squares, given, found.numpy()), len(rows), max(_MANY // max(rows.shape[1], 1), 1))
        return found
    return torch.cat([each.square().sum(1) for each in _in_doubles(rows)])


def lengths(rows: torch.Tensor) -> torch.Tensor:
    """The norm of each row; of doubles in units of the largest, whose square may be 0 where its product with another
    length is not."""
    if rows.dtype != torch.float64:
        return squares(rows).sqrt()
    units, largest = in_units(rows)
    return squares(units).sqrt() * largest


def in_units(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of doubles divided by the largest number of each, and that number."""
    largest = rows.abs().amax(1).clamp_(min=torch.finfo(torch.float64).tiny)
    return rows / largest[:, None], largest


def weighted(weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The sum of the rows times their weights."""
    if rows.device.type == "cuda" and rows.dtype == torch.float32 and rows.shape[1] >= _LONG and rows.numel() < 2**31:
        from rangebound.learn.torch.triton_kernels import weighted_on_gpu

        return weighted_on_gpu(weights.contiguous(), rows.contiguous())
    if rows.device.type == "cpu" and rows.dtype == torch.float32 and _kernel is not None:
        total, given = torch.zeros(rows.shape[1], dtype=torch.float64), rows.detach().contiguous().numpy()
        call = partial(_kernel.weighted, given, weights.detach().double().contiguous().numpy(), total.numpy())
        _in_threads(call, rows.shape[1], max(_MANY // max(len(rows), 1), 1))
        return total
    return combined(weights, torch.ones_like(rows[:, :1]), rows)[0]


def combined(weights: torch.Tensor, factors: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The weighted sums of the rows, one sum for each column of factors."""
    total = torch.zeros((factors.shape[1], rows.shape[1]), dtype=torch.float64, device=rows.device)
    start = 0
    for each in _in_doubles(rows):
        here = slice(start, start + len(each))
        total.addmm_((factors[here].double() * weights[here, None]).T, each)
        start += len(each)
    return total


def _in_doubles(rows: torch.Tensor) -> Iterator[torch.Tensor]:
    """Convert rows to float64 in blocks that reuse one buffer, so that on the CPU they stay in cache.

    Use each block before asking for the next.
    """
    if rows.dtype == torch.float64:
        yield rows
        return
    size = max((_CACHED if rows.device.type == "cpu" else _AT_ONCE) // max(rows.shape[1], 1), 1)
    room = torch.empty((min(size, len(rows)), rows.shape[1]), dtype=torch.float64, device=rows.device)
    for part in torch.split(rows, size):  # type: ignore[no-untyped-call, unused-ignore]
        yield room[: len(part)].copy_(part)


def clamped_products(a: torch.Tensor, g: torch.Tensor, clip: Elementwise) -> torch.Tensor:
    """The sum over examples of the clamped products, as whole numbers in float64, one row for each column of `g`.

    Guarantee: exact, given the rounded products g * a in float32 (float64 for float64 inputs).
    Assumes: the factors are finite. A product that is too large for a float is clamped like any other.

    >>> import torch
    >>> clamped_products(torch.tensor([[3.0], [1.0]]), torch.ones(2, 1), Elementwise(clip=2.0)) * 2.0**-16
    tensor([[3.]], dtype=torch.float64)
    """
    dtype = wide(a, g)
    a, g = a.detach().to(dtype).contiguous(), g.detach().to(dtype)
    largest = torch.finfo(dtype).max  # an infinite factor times zero would be NaN
    g = (g / clip.quantum).clamp_(-largest, largest).contiguous()  # a power of two: exact
    if a.device.type == "cpu" and dtype == torch.float32:
        if _kernel is not None:
            return _compiled(a, g, clip)
        warn_of_slow_path("learn")
    largest_index = max(a.numel(), g.numel(), a.shape[1] * g.shape[1])
    if a.device.type == "cuda" and dtype == torch.float32 and a.numel() and largest_index < 2**31:
        from rangebound.learn.torch.triton_kernels import clamped_on_gpu

        return clamped_on_gpu(a, g, clip.levels)
    return blocked(a, g, clip)


def finite_rows(rows: torch.Tensor, clip: Elementwise) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of the finite rows, one gradient each, clamped as whole numbers in float64; and which rows they are.

    Edge cases: on a GPU, where one pass over the rows makes both, an infinite number is clamped like any other, and
    what is not a number counts as zero.
    """
    if rows.device.type == "cuda" and rows.dtype != torch.float64 and 0 < rows.numel() < 2**31:
        from rangebound.learn.torch.triton_kernels import clamped_rows_on_gpu

        return clamped_rows_on_gpu(rows.detach().float().contiguous(), clip.quantum, clip.levels)
    good = finite(rows)
    return clamped_products(rows if known_all(good) else kept(rows, good), torch.ones_like(rows[:, :1]), clip)[0], good


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
    call = partial(_kernel.clamped, *arrays, rows, columns, outputs, float(clip.levels))
    _in_threads(call, columns, _SHARE, 48)
    return total


def _in_threads(call: Callable[[int, int], None], size: int, least: int, multiple: int = 1) -> None:
    """Call with the first and the end of parts of a range, each of `least` or more, in as many threads as torch has."""
    workers = min(torch.get_num_threads(), max(size // least, 1))
    if workers == 1:
        call(0, size)
        return
    cuts = [size * i // workers // multiple * multiple for i in range(workers)] + [size]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(call, cuts[:-1], cuts[1:]))
