"""Work that does not depend on what it finds, so that a graph of it can be captured on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_FIXED = ContextVar("fixed", default=False)


@contextmanager
def fixed_work() -> Iterator[None]:
    """Within the block nothing is read from the device: no short cuts, and tensors of sizes known beforehand."""
    token = _FIXED.set(True)
    try:
        yield
    finally:
        _FIXED.reset(token)


def is_fixed() -> bool:
    """Whether the work is to be the same whatever the numbers are."""
    return _FIXED.get()


def known_all(good: torch.Tensor) -> bool:
    """Whether all are true, so that a short cut may be taken; not asked, and no short cut, within `fixed_work`."""
    return not _FIXED.get() and bool(good.all())
