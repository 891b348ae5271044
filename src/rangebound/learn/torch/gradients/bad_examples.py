"""Examples that do not count: without a finite gradient, or with an error; a single one never aborts a step.

**An example whose gradient is not finite silently counts with gradient zero.** Its numbers are set to zero before
anything is summed, so that no NaN reaches the others. The same holds for an example for which the module or the
criterion raises an error, unless they raise one for made-up examples, too (`stand_ins`): then the call itself is wrong,
and the error is that of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch

from rangebound.errors import ArgumentError
from rangebound.learn.torch.gradients.fixed_work import known_all
from rangebound.learn.torch.gradients.stand_ins import stand_ins, tried

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
    *,
    known: bool = False,
) -> list[R]:
    """The results of a function for blocks of examples, in order; `lost` where it raises an error.

    `together` takes several examples at once, `alone` one at a time. Which of them is used, and whether an error is due
    to the call and not to an example, is determined with made-up examples, so it does not depend on the data. With
    `known`, the call was tried before and is right: parameters that make it fail for made-up examples by now do not let
    a true one end the step.
    """
    try:
        return [together(x, y)] if len(x) else []
    except (ArgumentError, torch.OutOfMemoryError):
        raise
    except ERRORS:
        pass
    if not any(_runs(together, *given) for given in stand_ins(1, x, y)):  # not a function for several at once
        if not known:
            tried(alone, x, y)
        return [_one(alone, lost, x[i : i + 1], y[i : i + 1]) for i in range(len(x))]
    if len(x) == 1:
        return [lost(x, y)]
    half = len(x) // 2
    parts = [(x[:half], y[:half]), (x[half:], y[half:])]
    return [result for a, b in parts for result in spared(together, alone, lost, a, b, known=known)]


def _runs(function: Callable[..., object], *given: torch.Tensor) -> bool:
    try:
        function(*given)
    except (ArgumentError, torch.OutOfMemoryError):
        raise
    except ERRORS:
        return False
    return True


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
