"""The exact draw of Gaussian releases on the device of the gradients: the kernel of `rangebound.sampling` in tensors.

Random words are the ChaCha20 keystream [rfc8439] of a key from the operating system for this one release. The draw has
the plan and the tables of `rangebound/sampling/_kernel.c`, a wider margin, and rarer tails that it decides. The proof
in docs/sampling.md needs no more of the arithmetic than sums and products rounded at most once. The few numbers that it
leaves undecided fall back to ball arithmetic on the CPU, which recomputes their words from the key. On a GPU the two
functions are compiled, each to one pass over the coordinates.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch

from rangebound.mechanisms.mechanism import Mechanism
from rangebound.sampling import Sampler, sampler_for
from rangebound.sampling import kernel_tables as functions
from rangebound.sampling.draw_plan import MARGIN, RARER, ROUNDING, TAIL_END, WIDER_MARGIN, DrawPlan, largest
from rangebound.sampling.entropy import SECURE, fresh
from rangebound.values.numeric import as_in

Tensors = tuple[torch.Tensor, torch.Tensor]
Constants = tuple["Numbers", torch.Tensor, torch.Tensor]

_KEY = 32
_SMALL = 1 << 22  # numbers up to which a draw is captured in a graph
_GRAPHS = 4  # that are kept
_WORDS = 8  # words of 64 bits in a block of the cipher
_LARGEST_COUNT = 2**31 * _WORDS
_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
_QUARTERS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
_TAIL_ROW = functions.POWER_CELLS + functions.LOG_CELLS
_INVERSE_ROW = _TAIL_ROW + functions.TAIL_END * functions.TAIL_CELLS


def release_in_place(
    mechanism: Mechanism, location: torch.Tensor, step: float | None = None, *, graphs: bool = False
) -> torch.Tensor | None:
    """One number for each location (a vector in float64), drawn on its device; None if the draw has no such form.

    Guarantee: distributed exactly as those of `Mechanism.release` with the same `step`, a power of two.
    Edge cases: None for noise other than Gaussian, for laws with gaps, for points weighed by the density, and for
    truncated laws whose locations may lie more than 4 scales outside.
    """
    sampler = _sampler(mechanism, step)
    constants = _constants(mechanism, location.device, step)
    if constants is None or not 0 < location.numel() < _LARGEST_COUNT:
        return None
    secret = fresh(_KEY)
    key = torch.frombuffer(secret, dtype=torch.int32).to(location.device, copy=True)
    try:
        repeated = _repeated((mechanism, step), constants, key, location) if graphs else None
        value, undecided, some = repeated or _once(constants, key, location)
        if bool(some):
            if bool(value[:1].isnan().any()):
                raise AssertionError("unexpected graph that did not run; nothing was released; this is a bug")
            open_ = undecided.nonzero()[:, 0]
            answers, guesses = mechanism.query.clip(location[open_].cpu().numpy()).tolist(), value[open_].tolist()
            places = zip(open_.tolist(), answers, guesses, strict=True)
            value[open_] = as_in(value, [sampler.fallback(word(secret, i), q, x, SECURE) for i, q, x in places])
        return value
    finally:
        key.zero_()
        secret[:] = bytes(_KEY)


def _once(constants: Constants, key: torch.Tensor, location: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The numbers, which of them are undecided, and whether any is."""
    words_of, draw_of = _compiled() if location.device.type == "cuda" else (keystream, drawn)
    words = words_of(key, location.numel())
    value, undecided = draw_of(*constants, words, location)
    words.zero_()
    return value, undecided, undecided.any()


class _CapturedDraw(NamedTuple):
    """A draw as a CUDA graph: from the tensors that it was captured with, to those that it wrote to."""

    graph: torch.cuda.CUDAGraph
    key: torch.Tensor
    location: torch.Tensor
    found: tuple[torch.Tensor, ...]


_DRAWS: dict[object, _CapturedDraw | None] = {}  # None: seen once


def _repeated(
    law: tuple[Mechanism, float | None], constants: Constants, key: torch.Tensor, location: torch.Tensor
) -> tuple[torch.Tensor, ...] | None:
    """The same by a graph, whose work is launched at once; captured at the second draw of a law and a number.

    None where there is no graph: elsewhere than on a GPU, and for so many numbers that launching does not matter.
    """
    if location.device.type != "cuda" or location.numel() > _SMALL:
        return None
    place = law, location.device, location.numel(), threading.get_ident()
    if place not in _DRAWS:
        while len(_DRAWS) >= _GRAPHS:
            del _DRAWS[next(iter(_DRAWS))]
        _DRAWS[place] = None
        return None
    captured = _DRAWS[place]
    if captured is None:
        own_key, own = torch.zeros_like(key), location.clone()
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(location.device)
        # Without a stream, it is one of the device that was in use when the first graph was captured.
        beside = torch.cuda.Stream(location.device)  # type: ignore[no-untyped-call, unused-ignore]
        with torch.cuda.graph(graph, stream=beside):
            found = _once(constants, own_key, own)
            own_key.zero_()
        captured = _DRAWS[place] = _CapturedDraw(graph, own_key, own, found)
    return _replayed(captured, key, location)


def _replayed(captured: _CapturedDraw, key: torch.Tensor, location: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What the graph draws; if it did not run, the first number is NaN and some are said to be undecided."""
    value, undecided, some = captured.found
    value[:1].fill_(math.nan)
    some.fill_(True)
    captured.key.copy_(key)
    captured.location.copy_(location)
    captured.graph.replay()
    return value.clone(), undecided, some


def keystream(key: torch.Tensor, count: int) -> torch.Tensor:
    """`count` words of 64 bits: ChaCha20 under a key of eight words of 32 bits, nonce 0, counters from 0."""
    counter = torch.arange(-(-count // _WORDS), dtype=torch.int32, device=key.device)
    nothing = torch.zeros_like(counter)
    given = [*(nothing + each for each in _CONSTANTS), *(nothing + each for each in key.unbind())]
    start = [*given, counter, nothing, nothing, nothing]
    x = list(start)
    for _ in range(10):
        for a, b, c, d in _QUARTERS:
            for left, right in ((16, 12), (8, 7)):
                x[a] = x[a] + x[b]
                x[d] = _turned(x[d] ^ x[a], left)
                x[c] = x[c] + x[d]
                x[b] = _turned(x[b] ^ x[c], right)
    wide = [(first + last).to(torch.int64) for first, last in zip(start, x, strict=True)]
    words = [low & 0xFFFFFFFF | high << 32 for low, high in zip(wide[::2], wide[1::2], strict=True)]
    return torch.stack(words, 1).reshape(-1)[:count]


def word(key: bytes | bytearray, index: int) -> int:
    """One word of the same keystream, on the CPU and by an independent implementation of the cipher."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    block, place = divmod(index, _WORDS)
    stream = Cipher(ChaCha20(bytes(key), block.to_bytes(4, "little") + bytes(12)), mode=None).encryptor()
    return int.from_bytes(stream.update(bytes(8 * _WORDS))[8 * place : 8 * place + 8], "little")


class Numbers(NamedTuple):
    """The plan of a draw as plain numbers."""

    answers: tuple[float, float]
    given: tuple[float, float]
    outputs: tuple[float, float]
    collected: tuple[float, float]
    largest: float  # answer, 0 if there is none
    scale: float
    scale_steps: float
    per_step: float
    margin: float
    margin_growth: float


def drawn(
    plan: Numbers, table: torch.Tensor, cells: torch.Tensor, words: torch.Tensor, location: torch.Tensor
) -> Tensors:
    """The numbers that the words draw, and which of them are undecided.

    `table` has the tables of the kernel, coefficients along its first axis; `cells` the points of a grid, and the ends
    of the cells that are rounded to them, or nothing.
    """
    up, down = _uniform(words), _uniform(~words)
    centre = location.clamp(*plan.answers)
    below, above = (centre - plan.given[0]) * (1.0 / plan.scale), (plan.given[1] - centre) * (1.0 / plan.scale)
    flip, nearer = below < above, torch.minimum(below, above)
    far, near = _tail(table, torch.maximum(below, above)), _tail(table, nearer.abs())
    astride = nearer > 0.0
    mass = torch.where(astride, 1.0 - near, near) - far
    first = far + torch.where(flip, down, up) * mass
    second = torch.where(astride, near, 1.0 - near) + torch.where(flip, up, down) * mass
    w = torch.minimum(first, second)
    z = _inverse(table, w)
    noise = torch.where(flip ^ (first < second), -z, z)
    value, sure = _quantized(plan, cells, centre, noise) if cells.numel() else _rounded(plan, centre, noise)
    return value, ~(sure & (w >= mass * RARER))


def _rounded(plan: Numbers, centre: torch.Tensor, noise: torch.Tensor) -> Tensors:
    lower, upper = plan.outputs
    noise, place = noise * plan.scale_steps, centre * plan.per_step
    whole = place.round()
    offset = (place - whole) + noise
    steps = offset.round()
    value = ((whole + steps) * (1.0 / plan.per_step) + 0.0).clamp(lower, upper)  # a power of two: exact
    under, over = offset - (plan.collected[0] - whole), (plan.collected[1] - whole) - offset
    value = torch.where(under < 0.0, lower, torch.where(over < 0.0, upper, value))
    margin = plan.margin + plan.margin_growth * (place.abs() + noise.abs())
    sure = ((offset - steps).abs() < 0.5 - margin) & (under.abs() > margin) & (over.abs() > margin)
    return value, sure


def _quantized(plan: Numbers, cells: torch.Tensor, centre: torch.Tensor, noise: torch.Tensor) -> Tensors:
    points, lowers, uppers = cells.unbind()
    x = centre + plan.scale * noise
    margin = WIDER_MARGIN * plan.scale + ROUNDING * (centre.abs().clamp(min=plan.largest) + x.abs())
    last = len(points) - 1
    index = ((x - points[0]) * (last / (points[last] - points[0]))).round().clamp(0, last).to(torch.int64)
    for _ in range(2):
        index = (index + (x > uppers[index]).to(torch.int64) - (x < lowers[index]).to(torch.int64)).clamp(0, last)
    return points[index], (x > lowers[index] + margin) & (x < uppers[index] - margin)


def _turned(x: torch.Tensor, bits: int) -> torch.Tensor:
    return (x << bits) | ((x >> (32 - bits)) & ((1 << bits) - 1))


def _uniform(words: torch.Tensor) -> torch.Tensor:
    high, low = (words >> 32) & 0xFFFFFFFF, words & 0xFFFFFFFF
    return high.to(torch.float64) * 2.0**-32 + (low.to(torch.float64) + 0.5) * 2.0**-64


def _row(table: torch.Tensor, cell: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """The polynomial of each cell at a position from 0 to 1 inside it."""
    c = [column[cell] for column in table.unbind()]
    t = 2.0 * place - 1.0
    t2 = t * t
    upper = (c[4] + c[5] * t) + (c[6] + c[7] * t) * t2
    return ((c[0] + c[1] * t) + (c[2] + c[3] * t) * t2) + upper * (t2 * t2)


def _tail(table: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    x = z.clamp(max=TAIL_END - 1e-9) * functions.TAIL_CELLS
    cell = x.to(torch.int64)
    return _row(table, _TAIL_ROW + cell, x - cell.to(torch.float64))


def _inverse(table: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    bits = w.view(torch.int64)
    binade = (1023 - (bits >> 52)).clamp(1, functions.BINADES)
    cell = (bits >> 48) & (functions.INVERSE_CELLS - 1)
    place = ((bits & 0x0000FFFFFFFFFFFF) | 0x3FF0000000000000).view(torch.float64) - 1.0
    row = _INVERSE_ROW + (binade - 1) * functions.INVERSE_CELLS + cell
    return _row(table, row, place * functions.INVERSE_CELLS)


@cache
def _compiled() -> tuple[Callable[..., torch.Tensor], Callable[..., Tensors]]:
    """Both functions, compiled where the compiler is installed."""
    if find_spec("triton") is None:
        return keystream, drawn
    compile_: Any = torch.compile
    return compile_(keystream, dynamic=True), compile_(drawn, dynamic=True)


@cache
def _sampler(mechanism: Mechanism, step: float | None) -> Sampler:
    return sampler_for(mechanism.noise, mechanism.shape, mechanism.query, step)


@cache
def _constants(mechanism: Mechanism, device: torch.device, step: float | None = None) -> Constants | None:
    plan = _sampler(mechanism, step).plan
    if plan is None or not mechanism.noise.gaussian or len(mechanism.query.range.spans) > 1:
        return None
    shape = mechanism.shape
    cells = [] if shape.spans else [[x, *cell] for x, cell in zip(shape.points, shape.cells, strict=True)]
    ends = torch.tensor(cells, dtype=torch.float64, device=device).reshape(-1, 3).T.contiguous()
    return numbers(plan), _table(device), ends


@cache
def _table(device: torch.device) -> torch.Tensor:
    """The tables of the kernel, once for all mechanisms: with a norm that adapts, each step has another one."""
    return torch.from_numpy(np.ascontiguousarray(functions.tables().T)).to(device)


def numbers(plan: DrawPlan) -> Numbers:
    """The plan as plain numbers; its lattice must be one of powers of two."""
    assert plan.lattice.dyadic
    found: dict[str, Any] = {name: getattr(plan, name) for name in Numbers._fields if name != "largest"}
    found["margin"] += plan.scale_steps * (WIDER_MARGIN - MARGIN)
    return Numbers(**found, largest=largest(plan.answers))
