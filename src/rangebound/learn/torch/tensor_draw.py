"""The exact draw of Gaussian releases on the GPU of the gradients: the kernel of `rangebound.sampling` in Triton.

Random words are the ChaCha20 keystream [rfc8439] of a key from the operating system for this one release. The draw has
the plan and the tables of `rangebound/sampling/_kernel.c`, a wider margin, and rarer tails that it decides. The proof
in docs/sampling.md needs no more of the arithmetic than sums and products rounded at most once. The few numbers that it
leaves undecided fall back to ball arithmetic on the CPU, which recomputes their words from the key.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any

import torch

from rangebound.mechanisms.mechanism import Mechanism
from rangebound.sampling import Sampler, sampler_for
from rangebound.sampling import kernel_tables as functions
from rangebound.sampling.draw_plan import MARGIN, RARER, ROUNDING, TAIL_END, WIDER_MARGIN, DrawPlan, largest
from rangebound.sampling.entropy import SECURE, fresh
from rangebound.values.numeric import as_in

Constants = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""What the kernel reads: its plan, the tables, and the points of a grid with the ends of their cells, or nothing."""

_KEY = 32
_WORDS = 8  # words of 64 bits in a block of the cipher
_LARGEST_COUNT = 2**31 * _WORDS


def release_in_place(mechanism: Mechanism, location: torch.Tensor, step: float | None = None) -> torch.Tensor | None:
    """One number for each location (a vector in float64), drawn on its GPU; None if the draw has no such form.

    Guarantee: distributed exactly as those of `Mechanism.release` with the same `step`, a power of two.
    Edge cases: None elsewhere than on a GPU, without Triton, for noise other than Gaussian, for laws with gaps, for
    points weighed by the density, and for truncated laws whose locations may lie more than 4 scales outside.
    """
    if location.device.type != "cuda" or find_spec("triton") is None or not 0 < location.numel() < _LARGEST_COUNT:
        return None
    constants = constants_for(mechanism, location.device, step)
    if constants is None:
        return None
    from rangebound.learn.torch.triton_draw import drawn, keystream

    secret = fresh(_KEY)
    key = torch.frombuffer(secret, dtype=torch.int32).to(location.device, copy=True)
    try:
        value, undecided = drawn(*constants, keystream(key, location.numel()), location)
        if bool(undecided.any()):
            open_ = undecided.nonzero()[:, 0]
            answers, guesses = mechanism.query.clip(location[open_].cpu().numpy()).tolist(), value[open_].tolist()
            places = zip(open_.tolist(), answers, guesses, strict=True)
            fallback = _sampler(mechanism, step).fallback
            value[open_] = as_in(value, [fallback(word(secret, i), q, x, SECURE) for i, q, x in places])
        return value
    finally:
        key.zero_()
        secret[:] = bytes(_KEY)


def word(key: bytes | bytearray, index: int) -> int:
    """One word of the same keystream, on the CPU and by an independent implementation of the cipher."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    block, place = divmod(index, _WORDS)
    stream = Cipher(ChaCha20(bytes(key), block.to_bytes(4, "little") + bytes(12)), mode=None).encryptor()
    return int.from_bytes(stream.update(bytes(8 * _WORDS))[8 * place : 8 * place + 8], "little")


@lru_cache(maxsize=64)
def constants_for(mechanism: Mechanism, device: torch.device, step: float | None = None) -> Constants | None:
    """What the kernel reads for the law; None where the draw has no such form."""
    plan = _sampler(mechanism, step).plan
    if plan is None or not mechanism.noise.gaussian or len(mechanism.query.range.spans) > 1:
        return None
    shape = mechanism.shape
    cells = [] if shape.spans else [[x, *cell] for x, cell in zip(shape.points, shape.cells, strict=True)]
    ends = torch.tensor(cells, dtype=torch.float64, device=device).reshape(-1, 3).T.contiguous()
    return torch.tensor([*packed(plan).values()], dtype=torch.float64, device=device), _table(device), ends


def packed(plan: DrawPlan) -> dict[str, float]:
    """The plan as plain numbers, in the order in which the kernel reads them; its lattice is one of powers of two."""
    assert plan.lattice.dyadic
    pairs = {name: getattr(plan, name) for name in ("answers", "given", "outputs", "collected")}
    found: dict[str, Any] = {f"{name}{i}": pair[i] for name, pair in pairs.items() for i in (0, 1)}
    return found | {
        "largest": largest(plan.answers), "scale": plan.scale, "scale_steps": plan.scale_steps,
        "per_step": plan.per_step, "margin": plan.margin + plan.scale_steps * (WIDER_MARGIN - MARGIN),
        "margin_growth": plan.margin_growth, "tail": TAIL_END - 1e-9, "rarer": RARER,
        "per_scale": 1.0 / plan.scale, "grid_margin": WIDER_MARGIN * plan.scale, "rounding": ROUNDING,
        "step": 1.0 / plan.per_step,
    }  # fmt: skip


@cache
def _sampler(mechanism: Mechanism, step: float | None) -> Sampler:
    return sampler_for(mechanism.noise, mechanism.shape, mechanism.query, step)


@cache
def _table(device: torch.device) -> torch.Tensor:
    """The tables of the kernel, once for all mechanisms: with a norm that adapts, each step has another one."""
    return torch.from_numpy(functions.tables().copy()).to(device)
