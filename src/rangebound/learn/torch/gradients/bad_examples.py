"""Examples that do not count: without a finite gradient, or with an error; a single one never aborts a step.

**An example whose gradient is not finite silently counts with gradient zero.** Its numbers are set to zero before
anything is summed, so that no NaN reaches the others. The same holds for an example for which the module or the
criterion raises an error, unless they raise one for made-up examples, too (`stand_ins`): then the call itself is wrong,
and the error is that of zeros. So no true example decides what a module and a criterion take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

from rangebound.errors import ArgumentError

R = TypeVar("R")
# What torch, or a module's or criterion's own code, raises for numbers that it does not take.
ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

_FIXED = ContextVar("fixed", default=False)  # whether the work is to be the same whatever the numbers are
_SURD = (math.sqrt(5.0) - 1.0) / 2.0


@contextmanager
def fixed_work() -> Iterator[None]:
    """Within the block nothing is read from the device, so that a graph of the work can be captured on a GPU.

    There are no short cuts, and tensors have sizes known beforehand.
    """
    token = _FIXED.set(True)
    try:
        yield
    finally:
        _FIXED.reset(token)


def known_all(good: torch.Tensor) -> bool:
    """Whether all are true, so that a short cut may be taken; not asked, and no short cut, within `fixed_work`."""
    return not _FIXED.get() and bool(good.all())


def finite(*tensors: torch.Tensor) -> torch.Tensor:
    """For each example whether all its numbers in all tensors are finite; each tensor has a first axis for examples.

    A finite sum has finite terms, so that mostly one sum of each example's numbers decides.
    """
    found = [each for each in tensors if each.is_floating_point()]
    sums = torch.stack([each.flatten(1).sum(1, dtype=torch.float32) for each in found]).sum(0)
    good = torch.isfinite(sums)
    if known_all(good):
        return good
    return torch.stack([torch.isfinite(each).flatten(1).all(1) for each in found]).all(0)


def all_finite(tensors: list[torch.Tensor]) -> bool:
    """Whether all numbers are finite: mostly their norms say so, in few operations."""
    alike = [[each for each in tensors if each.dtype == dtype] for dtype in {each.dtype for each in tensors}]
    norms = [torch.stack(torch._foreach_norm(some)).double() for some in alike]  # those of one precision in one go
    if bool(torch.isfinite(torch.cat(norms)).all()):
        return True
    return all(bool(torch.isfinite(each).all()) for each in tensors)


def kept(rows: torch.Tensor, good: torch.Tensor) -> torch.Tensor:
    """The rows of the valid examples, and zeros for the others."""
    return torch.where(good.reshape(-1, *(1 for _ in rows.shape[1:])), rows, rows.new_zeros(()))


def stand_ins(count: int, *like: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Batches of `count` made-up examples of these shapes: of zeros, and of ones and numbers between 0 and 1.

    What takes one of the two takes examples of this shape: a label of 0 may be refused, or a matrix of zeros.
    """
    zeros = [each.new_zeros(1, *each.shape[1:]) for each in like]
    above = [numbers(each, 0.0) if each.is_floating_point() else torch.ones_like(each) for each in zeros]
    for given in (zeros, above):
        yield tuple(each.repeat_interleave(count, 0) for each in given)


def numbers(like: torch.Tensor, lower: float) -> torch.Tensor:
    """Made-up numbers between `lower` and 1, the same in each call: the fractions of the multiples of a surd."""
    places = torch.arange(1, like.numel() + 1, dtype=torch.float64)
    return (lower + (1.0 - lower) * (places * _SURD).frac()).reshape(like.shape).to(like)


def tried(run: Callable[..., R], *like: torch.Tensor) -> R:
    """What `run` returns for one made-up example of these shapes; if it fails for all of them, its error for zeros."""
    failed: list[Exception] = []
    for given in stand_ins(1, *like):
        try:
            return run(*given)
        except (ArgumentError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # a module or criterion may raise one of its own
            failed.append(error)
    failed[0].add_note("(raised for zeros in place of an example, and a made-up one fails too: the call is wrong)")
    raise failed[0]


def spared(
    together: Callable[..., R] | None, alone: Callable[..., R], lost: Callable[..., R], *leaves: torch.Tensor,
    known: bool = False,
) -> list[R]:  # fmt: skip
    """The results of a function for blocks of examples, in order; `lost` where it raises an error.

    `together` takes several examples at once, if there is such a way, `alone` one at a time. Which of them is used, and
    whether an error is due to the call and not to an example, is determined with made-up examples, so it does not
    depend on the data. With `known`, the call was tried before and is right: parameters that make it fail for made-up
    examples by now do not let a true one end the step.
    """
    count = len(leaves[0])
    if together is not None:
        try:
            return [together(*leaves)] if count else []
        except (ArgumentError, torch.OutOfMemoryError):
            raise
        except ERRORS:
            pass
        try:
            tried(together, *leaves)
        except (ArgumentError, torch.OutOfMemoryError):
            raise
        except ERRORS:
            pass
        else:
            if count == 1:
                return [lost(*leaves)]
            parts = [tuple(each[part] for each in leaves) for part in (slice(count // 2), slice(count // 2, None))]
            return [result for part in parts for result in spared(together, alone, lost, *part, known=known)]
    if not known:  # and not a function for several at once
        tried(alone, *leaves)
    found = []
    for one in (tuple(each[i : i + 1] for each in leaves) for i in range(count)):
        try:
            found.append(alone(*one))
        except torch.OutOfMemoryError:
            raise
        except Exception:  # a criterion may raise one of its own
            found.append(lost(*one))
    return found
