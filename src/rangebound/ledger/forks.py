"""Stores around a fork: neither a lock on a file nor a connection to a server can be shared by two processes."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol


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


class OneConnection:
    """A store with one connection, which its threads take in turn by `_lock`, and which is closed around a fork."""

    _connection: Any = None
    patience: float

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forking = False
        watch(self)

    def _close(self) -> None:
        raise NotImplementedError

    def before_fork(self) -> None:
        """Finish what is under way and close the connection."""
        self._forking = self._lock.acquire(timeout=2 * self.patience)
        if self._forking:
            self._close()

    def after_fork_in_parent(self) -> None:
        """Go on; a new connection is made when it is needed."""
        if self._forking:
            self._forking = False
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Begin anew. A connection that could not be closed in time stays the parent's: here it is never touched."""
        if self._connection is not None:
            _ABANDONED.append(self._connection)
            self._connection = None
        self._forking = False
        self._lock = threading.Lock()


_ABANDONED: list[Any] = []
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
