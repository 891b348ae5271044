"""Squared norms and weighted sums of rows in float64, so that the bound of a Euclidean clip holds with its margin."""

from __future__ import annotations

from collections.abc import Iterator

import torch

_CACHED = 1 << 17  # doubles
_AT_ONCE = 1 << 22  # doubles on a GPU
_LONG = 1 << 16  # rows so long have enough columns for a GPU


def wide(*tensors: torch.Tensor) -> torch.dtype:
    """The precision in which gradients are made: float32, or float64 where one of the factors has it."""
    return torch.float64 if any(each.dtype == torch.float64 for each in tensors) else torch.float32


def squares(rows: torch.Tensor) -> torch.Tensor:
    """The squared norm of each row."""
    if rows.device.type == "cuda" and rows.dtype == torch.float32 and rows.numel():
        from rangebound.learn.torch.gradients.triton_clamped import squares_on_gpu

        return squares_on_gpu(rows.contiguous())
    if rows.device.type != "cpu":
        norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
        return norms.square()
    return torch.cat([torch.linalg.vector_norm(each, dim=1).square() for each in _in_doubles(rows)])


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
        from rangebound.learn.torch.gradients.triton_clamped import weighted_on_gpu

        return weighted_on_gpu(weights.contiguous(), rows.contiguous())
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
