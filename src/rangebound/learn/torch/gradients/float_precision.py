"""With how many bits torch multiplies floats on a GPU, which two sets of settings say: older flags and newer words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Protocol

import torch

_PLACES = attrgetter("cudnn.conv", "cudnn.rnn", "cuda.matmul", "mkldnn.matmul")


class _Words(Protocol):
    fp32_precision: str


def float_precision() -> tuple[object, ...]:
    """The settings; two that are equal give the same arithmetic."""
    newer = _newer()
    return tuple(each.fp32_precision for each in newer) if newer else _flags()


@contextmanager
def full_precision() -> Iterator[None]:
    """Multiply without TF32, and leave all settings as they were.

    Edge cases: torch refuses to tell the flags where the newer words contradict them; then the words alone are used.
    """
    before = [(each, each.fp32_precision) for each in _newer()]
    convolutions, products = _flags()
    cudnn = torch.backends.cudnn
    try:
        if convolutions is not None:
            cudnn.allow_tf32 = False
        if products is not None:
            torch.set_float32_matmul_precision("highest")
        for each, _ in before:
            each.fp32_precision = "ieee"  # a flag that is off leaves it to a word for all of torch, which may say tf32
        yield
    finally:
        if convolutions is not None:
            cudnn.allow_tf32 = convolutions
        if products is not None:
            torch.set_float32_matmul_precision(products)
        for each, word in before:
            each.fp32_precision = word


def _newer() -> tuple[_Words, ...]:
    """Where the newer words are said; nowhere in an older torch."""
    found: tuple[_Words, ...] = _PLACES(torch.backends) if hasattr(torch.backends.cudnn, "conv") else ()
    return found


def _flags() -> tuple[bool | None, str | None]:
    """The older flags, for convolutions and for products; None where the newer words contradict them."""
    convolutions, products = None, None
    with suppress(RuntimeError):
        convolutions = torch.backends.cudnn.allow_tf32
    with suppress(RuntimeError):
        products = torch.get_float32_matmul_precision()
    return convolutions, products
