"""The mechanism of a step: Gaussian noise for one coordinate of the summed gradient, unbounded or in a support.

Sources of noise: the exact, secure draw, or (explicitly) torch's own insecure generator.

The exact draw on the GPU of the gradients is the kernel of `rangebound.sampling` in Triton. Random words are the
ChaCha20 keystream [rfc8439] of a key from the operating system for this one release. The draw has the plan and the
tables of `rangebound/sampling/_kernel.c`, a wider margin, and rarer tails that it decides. The proof in
papers/numerics.md needs no more of the arithmetic than sums and products rounded at most once. The few numbers that it
leaves undecided fall back to ball arithmetic on the CPU, which recomputes their words from the key.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import torch

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import QUANTIZE, RECTIFY, TRUNCATE, UNBOUNDED, Bounding
from rangebound.laws.gaussian import Gaussian
from rangebound.learn.torch.clipping_norm import Clipping, Elementwise, Euclidean
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.sampling import Sampler, sampler_for
from rangebound.sampling import kernel_tables as functions
from rangebound.sampling.draw_plan import (
    MARGIN,
    RARER,
    ROUNDING,
    TAIL_END,
    WIDER_MARGIN,
    DrawPlan,
    default_lattice,
    largest,
)
from rangebound.sampling.entropy import SECURE, fresh
from rangebound.values import arguments
from rangebound.values.numeric import as_in
from rangebound.values.support import Grid, Interval, Query, Support

_REACH = 4.0  # scales beyond its support at which the sum of the gradients is clipped for a truncated law


def step_mechanism(
    *, clipping: Clipping, noise_multiplier: float, bounding: Bounding = UNBOUNDED, support: Support | None = None
) -> Mechanism:
    """The mechanism that releases one coordinate of the summed gradient: Gaussian noise of scale clip times multiplier.

    Edge cases: bounded noise with Euclidean clipping is refused. For a truncated law the sum is clipped at 4 scales
    beyond the support, which the account covers.

    >>> import rangebound as rb
    >>> m = step_mechanism(
    ...     clipping=Elementwise(clip=0.5),
    ...     noise_multiplier=4.0,
    ...     bounding=rb.TRUNCATE,
    ...     support=rb.Interval(-8, 8),
    ... )
    >>> m.noise.scale, m.query.sensitivity, m.query.range
    (2.0, 0.5, Interval(lower=-16.0, upper=16.0))
    """
    arguments.instance("clipping", clipping, (Elementwise, Euclidean), "Elementwise(clip=...) or Euclidean(clip=...)")
    arguments.instance("bounding", bounding, Bounding, "one of rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE, rb.UNBOUNDED")
    if isinstance(clipping, Euclidean) and bounding is not UNBOUNDED:
        raise ArgumentError(
            f"bounding={bounding!r} with Euclidean clipping: one example may put its whole norm on any one "
            "coordinate, so no per-coordinate account holds; use Elementwise(clip=...)"
        )
    scale = arguments.positive("noise_multiplier", noise_multiplier, why="without noise nothing is protected")
    scale *= clipping.clip
    kind = {QUANTIZE: Grid}.get(bounding, Interval)
    if bounding is UNBOUNDED:
        if support is not None:
            raise ArgumentError("support: must be left out, because the noise is UNBOUNDED; or choose a bounding")
    elif not isinstance(support, kind) or not support.bounded:
        raise ArgumentError(f"support={arguments.shown(support)}: must be a bounded {kind.__name__} for {bounding!r}")
    answers = Interval(-math.inf, math.inf)
    if bounding is TRUNCATE and support is not None:
        answers = Interval(_beyond(support.hull.lower, -scale), _beyond(support.hull.upper, scale))
    query = Query(range=answers, sensitivity=clipping.bound)
    return Mechanism(noise=Gaussian(scale=scale), query=query, support=support, bounding=bounding)


def _beyond(end: float, scale: float) -> float:
    """The end moved outwards by _REACH scales, and not by a rounding more: up to there the draw has its fast form."""
    place = end + _REACH * scale
    return math.nextafter(place, end) if (place - end) / scale > _REACH else place


_COARSER = 2.0**8  # than the lattice of a single release


class NoiseSource(Protocol):
    """Draws one number for each location, from the mechanism's law there."""

    def release(self, mechanism: Mechanism, location: torch.Tensor) -> torch.Tensor:
        """Numbers in float64 for a vector of locations in float64, on its device."""


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Noise:
    """The noise of a training, for `PrivacyEngine.make_private`: its scale, or a target that determines it.

    The scale is `multiplier` times the clipping norm; or with `target_epsilon`, `target_delta` and the `epochs` of
    `make_private`, it is the smallest for which all steps of these epochs, and of an account that was loaded before,
    are proved to stay within the target. `bounding` and `support` keep each number of the *summed* gradient in a range.
    `source` draws it: `SecureNoise()`, the default, or `InsecureTorchNoise(...)`, which guarantees nothing.

    >>> Noise(target_epsilon=8, target_delta=1e-5).target_epsilon
    8
    """

    multiplier: float | None = None
    target_epsilon: float | None = None
    target_delta: float | None = None
    bounding: Bounding | None = None
    support: Support | None = None
    source: NoiseSource | None = None


@dataclass(frozen=True, kw_only=True)
class SecureNoise:
    """The draw of `Mechanism.release`: exact, from the operating system's entropy.

    On a GPU the numbers are drawn there (`release_in_place`). Where that does not support the law, they are drawn on
    the CPU and copied back. They are rounded to multiples of a power of two, at most 2^-12 of the scale: the coarser
    the lattice, the fewer draws lie so near the middle between two of its points that only slower arithmetic can decide
    them. `threads` of the processor draw, by default as many as torch uses.
    """

    threads: int | None = None

    def release(self, mechanism: Mechanism, location: torch.Tensor) -> torch.Tensor:
        """Numbers distributed exactly as the laws."""
        step = _coarse_step(mechanism)
        if location.device.type == "cuda":
            there = release_in_place(mechanism, location.detach().to(torch.float64), step)
            if there is not None:
                return there
        answers = location.detach().to("cpu", torch.float64).numpy()
        drawn = np.empty(answers.shape)
        threads = torch.get_num_threads() if self.threads is None else self.threads
        mechanism.release(answers, step=step, out=drawn, threads=threads, progress=False)
        return torch.from_numpy(drawn).to(location.device)


def _coarse_step(mechanism: Mechanism) -> float | None:
    """The step of the lattice on which a training step is released; None for a grid, which is one itself."""
    if not mechanism.shape.spans:
        return None
    return float(default_lattice(mechanism.noise, mechanism.shape).step) * _COARSER


@dataclass(frozen=True, kw_only=True, eq=False)
class InsecureTorchNoise:
    """INSECURE: noise in floats from torch's generator, for experiments that must be repeatable.

    Anyone who knows or guesses the state of the generator can remove the noise, and the last bits of floats leak
    answers [mironov2012]. No privacy guarantee holds for a model trained with it.
    """

    generator: torch.Generator

    def __post_init__(self) -> None:
        arguments.instance("generator", self.generator, torch.Generator, "a torch.Generator")

    def release(self, mechanism: Mechanism, location: torch.Tensor) -> torch.Tensor:
        """Numbers from approximately the right laws."""
        shape, scale = mechanism.shape, mechanism.noise.scale
        hull = mechanism.query.range.hull
        at = location.clamp(hull.lower, hull.upper)
        low, high = shape.ends
        if mechanism.bounding is TRUNCATE:
            u = torch.rand(at.shape, dtype=torch.float64, device=at.device, generator=self.generator)
            side = torch.where(at > 0.5 * (low + high), -1.0, 1.0)  # into the tail where probabilities keep digits
            near = torch.where(side > 0, low - at, at - high) / scale
            far = torch.where(side > 0, high - at, at - low) / scale
            lower, upper = torch.special.ndtr(near), torch.special.ndtr(far)
            z = torch.special.ndtri(lower + u * (upper - lower))
            drawn: torch.Tensor = (at + side * scale * z).clamp(low, high)
            return drawn
        normal = torch.randn(at.shape, dtype=torch.float64, device=at.device, generator=self.generator)
        noisy = at + scale * normal
        if mechanism.bounding is QUANTIZE:
            points = torch.tensor(shape.points, dtype=torch.float64, device=at.device)
            return points[torch.bucketize(noisy, 0.5 * (points[1:] + points[:-1]))]
        return noisy.clamp(low, high) if mechanism.bounding is RECTIFY else noisy


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
    from rangebound.learn.torch.triton_kernels import drawn, keystream

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
