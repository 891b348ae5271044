"""Sums on a GPU, in Triton: over examples of clamped products and rows, of weighted rows; of squares within rows.

Triton runs on the present device, which need not be that of the tensors: each function makes it so.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_OUTPUTS, _ROWS = 16, 2048  # 2048 rows of at most 2^18 each: sums stay below 2^31
_SQUARES = 1 << 16  # numbers of a row whose squares one program adds


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _tile(a, g, out, rows, columns, outputs, limit, TALL: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr):  # type: ignore[no-untyped-def]
    """One tile of outputs and columns over one block of rows; whole numbers are added to `out` in doubles."""
    o = tl.program_id(0) * TALL + tl.arange(0, TALL)
    i = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    first = tl.program_id(2) * DEEP
    sums = tl.zeros((TALL, WIDE), dtype=tl.int32)
    for b in range(first, tl.minimum(first + DEEP, rows)):
        row = tl.load(a + b * columns + i, mask=i < columns, other=0.0)
        factor = tl.load(g + b * outputs + o, mask=o < outputs, other=0.0)
        x = factor[:, None] * row[None, :]
        x = tl.minimum(tl.maximum(x, -limit), limit)
        x = x + 12582912.0  # rounds to a whole number, to nearest even
        sums += x.to(tl.int32, bitcast=True)
    sums -= (tl.minimum(first + DEEP, rows) - first) * 0x4B400000  # of each the bits of 12582912; sums modulo 2^32
    place = o[:, None] * columns + i[None, :]
    tl.atomic_add(out + place, sums.to(tl.float64), mask=(o[:, None] < outputs) & (i[None, :] < columns))


def clamped_on_gpu(a: torch.Tensor, g: torch.Tensor, levels: int) -> torch.Tensor:
    """The sums for contiguous float32 tensors on a GPU; `g` is in quanta. Doubles add whole numbers in any order."""
    (rows, columns), outputs = a.shape, g.shape[1]
    out = torch.zeros((outputs, columns), dtype=torch.float64, device=a.device)
    wide, deep = (128, 256) if outputs * columns >= 1 << 18 else (64, 64)
    deep = _ROWS if rows >= 64 * _ROWS else deep
    grid = (triton.cdiv(outputs, _OUTPUTS), triton.cdiv(columns, wide), triton.cdiv(rows, deep))
    with torch.cuda.device(a.device):
        _tile[grid](a, g, out, rows, columns, outputs, float(levels), TALL=_OUTPUTS, WIDE=wide, DEEP=deep)
    return out


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _row_tile(a, out, good, rows, columns, scale, limit, WIDE: tl.constexpr, DEEP: tl.constexpr):  # type: ignore[no-untyped-def]
    """The columns of one tile over one block of rows, as above with a factor that is the same for all."""
    i = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    first = tl.program_id(1) * DEEP
    sums = tl.zeros((WIDE,), dtype=tl.int32)
    for b in range(first, tl.minimum(first + DEEP, rows)):
        x = tl.load(a + b * columns + i, mask=i < columns, other=0.0)
        tl.store(good + b, 0, mask=tl.max((x - x != 0.0).to(tl.int32), 0) > 0)  # infinite, or not a number
        x = tl.where(x == x, x * scale, 0.0)
        x = tl.minimum(tl.maximum(x, -limit), limit)
        x = x + 12582912.0
        sums += x.to(tl.int32, bitcast=True)
    sums -= (tl.minimum(first + DEEP, rows) - first) * 0x4B400000
    tl.atomic_add(out + i, sums.to(tl.float64), mask=i < columns)


def clamped_rows_on_gpu(rows: torch.Tensor, quantum: float, levels: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of contiguous float32 rows, each number divided by the quantum (a power of two) and clamped.

    Also which rows are finite; what is not a number counts as zero.
    """
    count, columns = rows.shape
    good = torch.ones(count, dtype=torch.int8, device=rows.device)
    out = torch.zeros(columns, dtype=torch.float64, device=rows.device)
    deep, wide = (_ROWS, 1024) if columns >= 1 << 18 else (32, 256)
    grid = (triton.cdiv(columns, wide), triton.cdiv(count, deep))
    with torch.cuda.device(rows.device):
        _row_tile[grid](rows, out, good, count, columns, 1.0 / quantum, float(levels), WIDE=wide, DEEP=deep)
    return out, good.bool()


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _weighted_tile(a, weights, out, rows, columns, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The columns of one tile over all rows, in doubles and in the order of the rows."""
    i = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    sums = tl.zeros((WIDE,), dtype=tl.float64)
    for b in range(rows):
        x = tl.load(a + b * columns + i, mask=i < columns, other=0.0)
        sums += tl.load(weights + b) * x.to(tl.float64)
    tl.store(out + i, sums, mask=i < columns)


def weighted_on_gpu(weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The sum of contiguous float32 rows times their weights (float64), without a copy of the rows in doubles."""
    count, columns = rows.shape
    out = torch.empty(columns, dtype=torch.float64, device=rows.device)
    with torch.cuda.device(rows.device):
        _weighted_tile[(triton.cdiv(columns, 512),)](rows, weights, out, count, columns, WIDE=512)
    return out


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _square_tile(a, out, columns, parts, LONG: tl.constexpr, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The squares of one part of one row, which are exact in doubles, added there."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    sums = tl.zeros((WIDE,), dtype=tl.float64)
    for start in range(part * LONG, tl.minimum((part + 1) * LONG, columns), WIDE):
        i = start + tl.arange(0, WIDE)
        x = tl.load(a + row * columns + i, mask=i < columns, other=0.0).to(tl.float64)
        sums += x * x
    tl.store(out + row * parts + part, tl.sum(sums, 0))


def squares_on_gpu(rows: torch.Tensor) -> torch.Tensor:
    """The squared norm of each of the contiguous float32 rows (float64), without a copy of the rows in doubles."""
    count, columns = rows.shape
    wide = 1024 if columns > 256 else 64
    parts = triton.cdiv(columns, _SQUARES)
    out = torch.empty((count, parts), dtype=torch.float64, device=rows.device)
    with torch.cuda.device(rows.device):
        _square_tile[(count, parts)](rows, out, columns, parts, LONG=_SQUARES, WIDE=wide)
    return out[:, 0] if parts == 1 else out.sum(1)
