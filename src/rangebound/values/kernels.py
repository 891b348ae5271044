"""The compiled kernels: which of them this installation has, and one warning where one is missing."""

from __future__ import annotations

import os
import warnings
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

KERNELS = {"sampling": ("draws", "NumPy"), "learn": ("training", "PyTorch")}
"""For each room with a kernel: what the kernel does, and what does it where the kernel is missing."""

_REMEDY = (
    "install the wheel for this platform, or with a C compiler "
    "pip install --force-reinstall --no-deps --no-binary rangebound rangebound"
)
_said: set[str] = set()


def has_kernel(room: str) -> bool:
    """Whether the kernel of a room is there and can be loaded; nothing else of the room is.

    >>> has_kernel("noise")
    False
    """
    spec = PathFinder.find_spec("_kernel", [os.path.join(os.path.dirname(os.path.dirname(__file__)), room)])
    if spec is None or spec.loader is None:
        return False
    try:
        spec.loader.exec_module(module_from_spec(spec))
    except ImportError:  # made for another platform
        return False
    return True


def kernel_lines() -> list[str]:
    """A line for each kernel: compiled, or what runs in its place."""
    return [
        f"{work}: compiled kernel" if has_kernel(room) else f"{work}: {instead}, slower; to have the kernel, {_REMEDY}"
        for room, (work, instead) in KERNELS.items()
    ]


def warn_of_slow_path(room: str) -> None:
    """Warn, once in a process, that the kernel of a room is missing.

    Guarantee: nothing else changes. What runs instead makes the same numbers of the same random words, more slowly.

    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     _said.discard("sampling")
    ...     for _ in range(2):
    ...         warn_of_slow_path("sampling")
    >>> print(*(str(each.message).partition(";")[0] for each in seen))
    draws: no compiled kernel, so NumPy does the work and takes longer
    """
    if room not in _said:
        _said.add(room)
        work, instead = KERNELS[room]
        warnings.warn(
            f"{work}: no compiled kernel, so {instead} does the work and takes longer; {_REMEDY}",
            RuntimeWarning,
            stacklevel=2,
        )
