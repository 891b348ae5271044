"""A limit on how long a call may take, so that a hang is a failure and not a hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 10.0  # a hundred times what the call should take


@contextmanager
def deadline(what: Any, seconds: float = PATIENCE_S) -> Iterator[None]:
    """Fail if the block takes longer than `seconds`."""

    def ring(*_: Any) -> None:
        raise TimeoutError(f"{what}: no answer after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
