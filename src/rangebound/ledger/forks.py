"""Stores around a fork: neither a lock on a file nor a connection to a server can be shared by two processes."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Protocol


class Forkable(Protocol):
    """A store that lets go of what a fork would share."""

    def before_fork(self) -> None:
        """Finish what is under way and close."""
        ...

    def after_fork_in_parent(self) -> None:
        """Go on."""
        ...

    def after_fork_in_child(self) -> None:
        """Begin anew."""
        ...


_STORES: weakref.WeakValueDictionary[int, Forkable] = weakref.WeakValueDictionary()


def watch(store: Forkable) -> None:
    """Tell a store of every fork for as long as it lives."""
    _STORES[id(store)] = store


def _each(step: Callable[[Forkable], None]) -> None:
    stores = [store for each in _STORES.valuerefs() if (store := each()) is not None]
    for store in sorted(stores, key=id):  # in one order, so that two threads that fork cannot wait for each other
        step(store)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _each(lambda store: store.before_fork()),
        after_in_parent=lambda: _each(lambda store: store.after_fork_in_parent()),
        after_in_child=lambda: _each(lambda store: store.after_fork_in_child()),
    )
