"""Tables to publish: a plan, contribution bounds, exact aggregates in the engine, noise in the driver.

The names are loaded when they are first asked for, so that a plan is read without what draws and aggregates.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from rangebound import _stated
from rangebound.errors import ArgumentTypeError
from rangebound.values.extras import need

need("clarabel", "duckdb", "pydantic", "sqlglot")

_HOMES = _stated(__spec__)
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return globals().setdefault(name, getattr(import_module(_HOMES[name]), name))
    left = [import_module(f"{__name__}.plan.model").Part]
    while left:  # a kind that is not listed is found by its file
        each = left.pop()
        if each.__name__ == name:
            return each
        left += each.__subclasses__()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


class _Called(ModuleType):
    """This module, which says what to call in its place."""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise ArgumentTypeError(
            "rb.release(...): is a module; rb.release_table(plan, ledger=...) publishes a table, and the method "
            "`release` of a mechanism a number"
        )


sys.modules[__name__].__class__ = _Called


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
