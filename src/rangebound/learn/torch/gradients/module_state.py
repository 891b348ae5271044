"""A pass leaves nothing in a module: what it writes into itself there is discarded.

A module may keep what it saw: a running mean, the last activations, a counter. Kept beyond a pass, it would put numbers
of one example into the gradients of others, and the number of passes, which depends on the size of the batch, into a
released model.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rangebound.errors import ArgumentError

_HOOKS = frozenset(vars(torch.nn.Module())) - {"_parameters", "_buffers", "_modules"}  # torch's own, of all modules


@contextmanager
def discarded_state(*parts: object) -> Iterator[None]:
    """Restore the attributes, containers and buffers of the modules among the parts after the block.

    Raises `ArgumentError` if a parameter has been written over. Edge cases: objects of other kinds that are attributes
    are not restored; see `rangebound.learn.torch.gradients.tape.Interception.check_nothing_is_kept`.
    """
    modules = [each for part in parts if isinstance(part, torch.nn.Module) for each in part.modules()]
    versions = [(each, each._version) for part in modules for each in part._parameters.values() if each is not None]
    saved: list[tuple[object, object]] = []
    for part in modules:
        own = vars(part)
        saved.append((own, dict(own)))
        saved += [
            (each, each.copy())
            for name, each in own.items()
            if name not in _HOOKS and isinstance(each, (list, dict, set, deque))
        ]
    copies: dict[int, torch.Tensor] = {}
    for part in modules:
        for name, each in part._buffers.items():
            if each is not None:
                part._buffers[name] = copies.setdefault(id(each), each.clone())
    try:
        yield
    finally:
        for container, before in reversed(saved):
            _restore(container, before)
    if any(each._version != version for each, version in versions):
        raise ArgumentError(
            "module: writes over a parameter in its forward pass, which no noise covers; keep such numbers in a buffer"
        )


def _restore(container: object, before: object) -> None:
    if isinstance(container, dict) and isinstance(before, dict):
        if container.keys() != before.keys() or [*map(id, container.values())] != [*map(id, before.values())]:
            container.clear()
            container.update(before)
    elif isinstance(container, set) and isinstance(before, set):
        container.clear()
        container.update(before)
    elif isinstance(container, (list, deque)) and isinstance(before, (list, deque)):
        container.clear()
        container.extend(before)


def fresh_copy(*parts: object) -> tuple[Any, ...]:
    """Copies of the parts, with which all that they keep is discarded.

    Generators of torch are shared: those of copies would give every example the same numbers, in every step.
    """
    holders = [each for part in parts for each in (part.modules() if isinstance(part, torch.nn.Module) else (part,))]
    values = [each for part in holders for each in getattr(part, "__dict__", {}).values()]
    return copy.deepcopy(parts, {id(each): each for each in values if isinstance(each, torch.Generator)})
