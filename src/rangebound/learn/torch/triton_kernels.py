"""Kernels on a GPU, in Triton, which compiles them in a second or two: sums over examples, and the draw of the noise.

Sums are those of clamped products and rows, of weighted rows, and of squares within rows. The keystream and the draw
are those of `rangebound.learn.torch.noise_source`. There constants are powers of two, or doubles that are read from a
tensor: a number that is written in a kernel is a float32.

Triton runs on the present device, which need not be that of the tensors: each function makes it so.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from rangebound.sampling import kernel_tables as functions

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


_BLOCKS = 128  # of the cipher in a program
_NUMBERS = 256  # in a program
_CELLS = (tl.constexpr(functions.POWER_CELLS + functions.LOG_CELLS), tl.constexpr(functions.TAIL_CELLS))
_TAIL_ROW, _TAIL_CELLS = _CELLS
_TAIL_LAST = tl.constexpr(functions.TAIL_END * functions.TAIL_CELLS - 1)
_INVERSE_ROW = tl.constexpr(_TAIL_ROW.value + functions.TAIL_END * functions.TAIL_CELLS)
_INVERSE_CELLS, _BINADES = tl.constexpr(functions.INVERSE_CELLS), tl.constexpr(functions.BINADES)
_HIGH, _LOW = tl.constexpr(2.0**-32), tl.constexpr(2.0**-64)
_FRACTION, _ONE = tl.constexpr(0x0000FFFFFFFFFFFF), tl.constexpr(0x3FF0000000000000)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _mixed(a, b, c, d):  # type: ignore[no-untyped-def]
    """A quarter round [rfc8439]."""
    a += b
    d ^= a
    d = (d << 16) | (d >> 16)
    c += d
    b ^= c
    b = (b << 12) | (b >> 20)
    a += b
    d ^= a
    d = (d << 8) | (d >> 24)
    c += d
    b ^= c
    b = (b << 7) | (b >> 25)
    return a, b, c, d


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _word(key, zero, i: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.load(key + i).to(tl.uint32, bitcast=True) + zero


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _put(words, place, low, high, i: tl.constexpr, count):  # type: ignore[no-untyped-def]
    """One word of 64 bits of each block."""
    both = low.to(tl.uint64) | (high.to(tl.uint64) << 32)
    tl.store(words + place + i, both.to(tl.int64, bitcast=True), mask=place + i < count)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _cipher(key, words, count, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The blocks of a keystream, nonce 0."""
    block = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    counter = block.to(tl.uint32)
    zero = counter ^ counter
    a0, a1, a2, a3 = zero + 0x61707865, zero + 0x3320646E, zero + 0x79622D32, zero + 0x6B206574
    k0, k1, k2, k3 = _word(key, zero, 0), _word(key, zero, 1), _word(key, zero, 2), _word(key, zero, 3)
    k4, k5, k6, k7 = _word(key, zero, 4), _word(key, zero, 5), _word(key, zero, 6), _word(key, zero, 7)
    x0, x1, x2, x3, x4, x5, x6, x7 = a0, a1, a2, a3, k0, k1, k2, k3
    x8, x9, x10, x11, x12, x13, x14, x15 = k4, k5, k6, k7, counter, zero, zero, zero
    for _ in tl.range(0, 10, loop_unroll_factor=1):
        x0, x4, x8, x12 = _mixed(x0, x4, x8, x12)
        x1, x5, x9, x13 = _mixed(x1, x5, x9, x13)
        x2, x6, x10, x14 = _mixed(x2, x6, x10, x14)
        x3, x7, x11, x15 = _mixed(x3, x7, x11, x15)
        x0, x5, x10, x15 = _mixed(x0, x5, x10, x15)
        x1, x6, x11, x12 = _mixed(x1, x6, x11, x12)
        x2, x7, x8, x13 = _mixed(x2, x7, x8, x13)
        x3, x4, x9, x14 = _mixed(x3, x4, x9, x14)
    place = block.to(tl.int64) * 8
    _put(words, place, x0 + a0, x1 + a1, 0, count)
    _put(words, place, x2 + a2, x3 + a3, 1, count)
    _put(words, place, x4 + k0, x5 + k1, 2, count)
    _put(words, place, x6 + k2, x7 + k3, 3, count)
    _put(words, place, x8 + k4, x9 + k5, 4, count)
    _put(words, place, x10 + k6, x11 + k7, 5, count)
    _put(words, place, x12 + counter, x13, 6, count)
    _put(words, place, x14, x15, 7, count)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _between(x, lower, upper):  # type: ignore[no-untyped-def]
    """Clamped; what is not a number stays so."""
    return tl.where(x < lower, lower, tl.where(x > upper, upper, x))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _uniform(word):  # type: ignore[no-untyped-def]
    high, low = (word >> 32) & 0xFFFFFFFF, word & 0xFFFFFFFF
    return high.to(tl.float64) * _HIGH + (low.to(tl.float64) + 0.5) * _LOW


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _row(table, row, place):  # type: ignore[no-untyped-def]
    t = 2.0 * place - 1.0
    t2 = t * t
    at = table + row * 8
    first = (tl.load(at) + tl.load(at + 1) * t) + (tl.load(at + 2) + tl.load(at + 3) * t) * t2
    upper = (tl.load(at + 4) + tl.load(at + 5) * t) + (tl.load(at + 6) + tl.load(at + 7) * t) * t2
    return first + upper * (t2 * t2)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _tail(table, z, end):  # type: ignore[no-untyped-def]
    x = tl.where(z > end, end, z) * _TAIL_CELLS
    cell = tl.minimum(tl.maximum(x.to(tl.int64), 0), _TAIL_LAST)
    return _row(table, _TAIL_ROW + cell, x - cell.to(tl.float64))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _inverse(table, w):  # type: ignore[no-untyped-def]
    bits = w.to(tl.int64, bitcast=True)
    binade = tl.minimum(tl.maximum(1023 - (bits >> 52), 1), _BINADES)
    place = ((bits & _FRACTION) | _ONE).to(tl.float64, bitcast=True) - 1.0
    row = _INVERSE_ROW + (binade - 1) * _INVERSE_CELLS + ((bits >> 48) & (_INVERSE_CELLS - 1))
    return _row(table, row, place * _INVERSE_CELLS)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _draw(plan, table, cells, words, location, undecided, count, POINTS: tl.constexpr, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The numbers that the words draw, written over the words, and which of them are undecided.

    `margin` is how near the middle between two numbers, or an end, is undecided; rarer tails are so, too.
    """
    lowest, highest, start, stop = tl.load(plan), tl.load(plan + 1), tl.load(plan + 2), tl.load(plan + 3)
    lower, upper, low_end, high_end = tl.load(plan + 4), tl.load(plan + 5), tl.load(plan + 6), tl.load(plan + 7)
    largest, scale, scale_steps, per_step = tl.load(plan + 8), tl.load(plan + 9), tl.load(plan + 10), tl.load(plan + 11)
    margin, growth, tail, rarer = tl.load(plan + 12), tl.load(plan + 13), tl.load(plan + 14), tl.load(plan + 15)
    per_scale, wide_margin, rounding, step = (
        tl.load(plan + 16), tl.load(plan + 17), tl.load(plan + 18), tl.load(plan + 19),
    )  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * WIDE + tl.arange(0, WIDE)
    inside = i < count
    word = tl.load(words + i, mask=inside, other=1)
    centre = _between(tl.load(location + i, mask=inside, other=0.0), lowest, highest)
    up, down = _uniform(word), _uniform(~word)
    below, above = (centre - start) * per_scale, (stop - centre) * per_scale
    flip = below < above
    nearer, further = tl.where(flip, below, above), tl.where(flip, above, below)
    far, near = _tail(table, further, tail), _tail(table, tl.abs(nearer), tail)
    astride = nearer > 0.0
    mass = tl.where(astride, 1.0 - near, near) - far
    first = far + tl.where(flip, down, up) * mass
    second = tl.where(astride, near, 1.0 - near) + tl.where(flip, up, down) * mass
    w = tl.where(second < first, second, first)
    z = _inverse(table, w)
    noise = tl.where(flip ^ (first < second), -z, z)
    if POINTS > 0:  # the point of the grid that is nearest
        x = centre + scale * noise
        near_end = wide_margin + rounding * (tl.maximum(tl.abs(centre), largest) + tl.abs(x))
        origin, last = tl.load(cells), tl.load(cells + POINTS - 1)
        index = libdevice.rint((x - origin) * ((POINTS - 1.0) / (last - origin)))
        index = tl.minimum(tl.maximum(index.to(tl.int64), 0), POINTS - 1)
        for _ in tl.static_range(2):
            higher = (x > tl.load(cells + 2 * POINTS + index)).to(tl.int64)
            index = index + higher - (x < tl.load(cells + POINTS + index)).to(tl.int64)
            index = tl.minimum(tl.maximum(index, 0), POINTS - 1)
        value = tl.load(cells + index)
        sure = (x > tl.load(cells + POINTS + index) + near_end) & (x < tl.load(cells + 2 * POINTS + index) - near_end)
    else:  # the nearest multiple of the step
        noise, place = noise * scale_steps, centre * per_step
        whole = libdevice.rint(place)
        offset = (place - whole) + noise
        steps = libdevice.rint(offset)
        value = _between((whole + steps) * step + 0.0, lower, upper)  # a power of two: exact
        under, over = offset - (low_end - whole), (high_end - whole) - offset
        value = tl.where(under < 0.0, lower, tl.where(over < 0.0, upper, value))
        near_end = margin + growth * (tl.abs(place) + tl.abs(noise))
        sure = (tl.abs(offset - steps) < 0.5 - near_end) & (tl.abs(under) > near_end) & (tl.abs(over) > near_end)
    sure = sure & (w >= mass * rarer)
    tl.store(words + i, value.to(tl.int64, bitcast=True), mask=inside)
    tl.store(undecided + i, (sure == 0).to(tl.int8), mask=inside)


def keystream(key: torch.Tensor, count: int) -> torch.Tensor:
    """`count` words of 64 bits: ChaCha20 under a key of eight words of 32 bits, nonce 0, counters from 0."""
    words = torch.empty(count, dtype=torch.int64, device=key.device)
    with torch.cuda.device(key.device):
        _cipher[(triton.cdiv(count, 8 * _BLOCKS),)](key, words, count, WIDE=_BLOCKS)
    return words


def drawn(
    plan: torch.Tensor, table: torch.Tensor, cells: torch.Tensor, words: torch.Tensor, location: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers that the words draw, which are written over, and which of them are undecided.

    `plan` are the numbers of `noise_source.packed`, `table` the tables of the compiled kernel, a cell in a row; `cells`
    the points of a grid, and the ends of the cells that are rounded to them, or nothing.
    """
    count = location.numel()
    undecided = torch.empty(count, dtype=torch.bool, device=location.device)
    with torch.cuda.device(location.device):
        _draw[(triton.cdiv(count, _NUMBERS),)](
            plan, table, cells, words, location.contiguous(), undecided.view(torch.int8), count,
            POINTS=cells.shape[1], WIDE=_NUMBERS,
        )  # fmt: skip
    return words.view(torch.float64), undecided
