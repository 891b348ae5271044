"""How a name is taken out of service: a warning that says when it goes and what to use instead."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(*, removal: str, instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a function or method that the version `removal` no longer has; `instead` is what to write.

    Guarantee: every call warns with a `DeprecationWarning` at the line of the caller, and then does what it did before.

    >>> @deprecated(removal="0.4", instead="rb.certify(m)")
    ... def prove(number):
    ...     return number + 1
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     prove(1)
    2
    >>> print(seen[0].message)
    prove is deprecated and will be removed in version 0.4; write rb.certify(m)
    """

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*given: P.args, **named: P.kwargs) -> R:
            _warn(function.__qualname__, removal=removal, instead=instead, stacklevel=3)
            return function(*given, **named)

        call.__doc__ = f"{function.__doc__ or ''}\n\nDeprecated, and removed in version {removal}: write {instead}."
        return call

    return mark


def moved(module: str, names: Mapping[str, str], *, removal: str) -> Callable[[str], object]:
    """The `__getattr__` of a module whose names have moved, as `{"Ledger": "rangebound.ledger.Ledger"}`.

    Guarantee: the old name is the new one itself, and each look at it warns with a `DeprecationWarning` at the line
    that looks. Other names are not there, as before.

    >>> __getattr__ = moved("rangebound.old", {"Cost": "rangebound.ledger.Cost"}, removal="0.4")
    """

    def look(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        home, _, own = names[name].rpartition(".")
        _warn(f"{module}.{name}", removal=removal, instead=names[name], stacklevel=3)
        return getattr(import_module(home), own)

    return look


def warn_user(words: str) -> None:
    """Warn with a `DeprecationWarning` at the line that called this package, over what checks its fields."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INNER:
        level, frame = level + 1, frame.f_back
    warnings.warn(words, DeprecationWarning, stacklevel=level)


_INNER = (__name__.partition(".")[0], "pydantic")


def _warn(what: str, *, removal: str, instead: str, stacklevel: int) -> None:
    words = f"{what} is deprecated and will be removed in version {removal}; write {instead}"
    warnings.warn(words, DeprecationWarning, stacklevel=stacklevel)
