"""Sources of noise: the exact, secure draw, or (explicitly) torch's own insecure generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from rangebound.laws.boundings import QUANTIZE, RECTIFY, TRUNCATE
from rangebound.learn.torch.tensor_draw import release_in_place
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.sampling.lattice import default_lattice
from rangebound.values import arguments

_COARSER = 2.0**8  # than the lattice of a single release


class NoiseSource(Protocol):
    """Draws one number for each location, from the mechanism's law there."""

    def release(self, mechanism: Mechanism, location: torch.Tensor) -> torch.Tensor:
        """Numbers in float64 for a vector of locations in float64, on its device."""


@dataclass(frozen=True, kw_only=True)
class SecureNoise:
    """The draw of `Mechanism.release`: exact, from the operating system's entropy.

    On a GPU the numbers are drawn there, from the keystream of a cipher (`tensor_draw`). Where that does not support
    the law, the numbers are drawn on the CPU and copied back. They are rounded to multiples of a power of two, at most
    2^-12 of the scale: the coarser the lattice, the fewer draws lie so near the middle between two of its points that
    only slower arithmetic can decide them. With `cuda_graphs`, draws on a GPU are captured in a graph and repeated.
    """

    threads: int = 1
    cuda_graphs: bool = False

    def release(self, mechanism: Mechanism, location: torch.Tensor) -> torch.Tensor:
        """Numbers distributed exactly as the laws."""
        step = _coarse_step(mechanism)
        if location.device.type == "cuda":
            there = release_in_place(mechanism, location.detach().to(torch.float64), step, graphs=self.cuda_graphs)
            if there is not None:
                return there
        answers = location.detach().to("cpu", torch.float64).numpy()
        drawn = np.empty(answers.shape)
        mechanism.release(answers, step=step, out=drawn, threads=self.threads, progress=False)
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
