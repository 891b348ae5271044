"""Examples that do not count: without a finite gradient, or with an error; a single one never aborts a step.

**An example whose gradient is not finite silently counts with gradient zero.** Its numbers are set to zero before
anything is summed, so that no NaN reaches the others. The same holds for an example for which the module or the
criterion raises an error, unless they also raise one for zeros: then the call itself is wrong, and the error is that of
the zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch

from rangebound.learn.torch.gradients.fixed_work import known_all

R = TypeVar("R")
# What torch, or a module's or criterion's own code, raises for numbers that it does not take.
ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def finite(rows: torch.Tensor) -> torch.Tensor:
    """For each example whether all its numbers are finite."""
    return all_finite([rows])


def all_finite(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """For each example whether all its numbers in all tensors are finite; each tensor has a first axis for examples.

    A finite sum has finite terms, so that mostly one sum of each example's numbers decides.
    """
    found = [each for each in tensors if each.is_floating_point()]
    sums = torch.stack([each.flatten(1).sum(1, dtype=torch.float32) for each in found]).sum(0)
    good = torch.isfinite(sums)
    if known_all(good):
        return good
    return torch.stack([torch.isfinite(each).flatten(1).all(1) for each in found]).all(0)


def kept(rows: torch.Tensor, good: torch.Tensor) -> torch.Tensor:
    """The rows of the valid examples, and zeros for the others."""
    return torch.where(good.reshape(-1, *(1 for _ in rows.shape[1:])), rows, rows.new_zeros(()))


def without(losses: torch.Tensor, good: torch.Tensor) -> torch.Tensor:
    """The losses, NaN for the examples that do not count."""
    return torch.where(good, losses, torch.full_like(losses, math.nan))


def spared(
    together: Callable[[torch.Tensor, torch.Tensor], R],
    alone: Callable[[torch.Tensor, torch.Tensor], R],
    lost: Callable[[torch.Tensor, torch.Tensor], R],
    x: torch.Tensor,
    y: torch.Tensor,
) -> list[R]:
    """The results of a function for blocks of examples, in order; `lost` where it raises an error.

    `together` takes several examples at once, `alone` one at a time. Which of them is used, and whether an error is due
    to the call and not to an example, is determined with zeros in place of the examples, so it does not depend on the
    data.
    """
    try:
        return [together(x, y)] if len(x) else []
    except torch.OutOfMemoryError:
        raise
    except ERRORS:
        zeros = torch.zeros_like(x[:1]), torch.zeros_like(y[:1])
    try:
        together(*zeros)
    except ERRORS:  # not a function for several at once
        alone(*zeros)
        pairs = [(x[i : i + 1], y[i : i + 1]) for i in range(len(x))]
        return [_one(alone, lost, *pair) for pair in pairs]
    if len(x) == 1:
        return [lost(x, y)]
    half = len(x) // 2
    parts = [(x[:half], y[:half]), (x[half:], y[half:])]
    return [result for a, b in parts for result in spared(together, alone, lost, a, b)]


def _one(
    alone: Callable[[torch.Tensor, torch.Tensor], R],
    lost: Callable[[torch.Tensor, torch.Tensor], R],
    x: torch.Tensor,
    y: torch.Tensor,
) -> R:
    try:
        return alone(x, y)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a criterion may raise one of its own
        return lost(x, y)
