"""The keystream and the draw of `tensor_draw` as two kernels, which Triton compiles in a second or two.

Constants are powers of two, or doubles that are read from a tensor: a number that is written in a kernel is a float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from rangebound.sampling import kernel_tables as functions

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

    `plan` are the numbers of `tensor_draw.packed`, `table` the tables of the compiled kernel, a cell in a row; `cells`
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
