"""The sum of clamped outer products on a GPU: one kernel in Triton, the same whole numbers as on the CPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_OUTPUTS, _COLUMNS, _ROWS = 16, 64, 2048  # 2048 rows of at most 2^18 each: sums stay below 2^31


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
    block = _ROWS if rows >= 64 * _ROWS else 64
    grid = (triton.cdiv(outputs, _OUTPUTS), triton.cdiv(columns, _COLUMNS), triton.cdiv(rows, block))
    _tile[grid](a, g, out, rows, columns, outputs, float(levels), TALL=_OUTPUTS, WIDE=_COLUMNS, DEEP=block)
    return out
