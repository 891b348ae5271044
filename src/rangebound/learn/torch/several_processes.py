"""What the processes of a distributed training do together; with one process, nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from rangebound.errors import ArgumentError


def place() -> tuple[int, int]:
    """The rank of this process, and how many there are."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)


def add(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of what all processes have, in place."""
    if place()[1] > 1:
        dist.all_reduce(tensor)
    return tensor


def share(tensor: torch.Tensor) -> torch.Tensor:
    """What the first process has, in place."""
    if place()[1] > 1:
        dist.broadcast(tensor, 0)
    return tensor


def by_first(run: Callable[[], None]) -> None:
    """Let the first process run it; its error is raised by all processes, which would wait for it otherwise."""
    refused: list[Any] = [None]
    rank, processes = place()
    if rank == 0:
        try:
            run()
        except Exception as error:
            refused = [error]
    if processes > 1:
        dist.broadcast_object_list(refused, 0)
    if refused[0] is not None:
        raise refused[0]


def agree(mine: object) -> None:
    """All processes must take the same steps: otherwise the account of one does not cover the examples of another."""
    processes = place()[1]
    all_of_them: list[Any] = [repr(mine)] * processes
    if processes > 1:
        dist.all_gather_object(all_of_them, repr(mine))
    if len(set(all_of_them)) > 1:
        raise ArgumentError(
            "make_private: the processes have different settings, models or datasets; each must be given the whole "
            "dataset, of which it takes its share"
        )
