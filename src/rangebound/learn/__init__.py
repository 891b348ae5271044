"""Learning on private data: `rangebound.learn.torch` (extra `torch`), `rangebound.learn.sklearn` (extra `sklearn`).

Each of the two is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rangebound.learn import sklearn as sklearn
    from rangebound.learn import torch as torch
else:

    def __getattr__(name: str) -> object:
        if name in ("sklearn", "torch"):
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
