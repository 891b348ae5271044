"""Made-up examples, on which it is tried what a module and a criterion take, so that no true example decides it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from rangebound.errors import ArgumentError

R = TypeVar("R")

_SURD = (math.sqrt(5.0) - 1.0) / 2.0


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
