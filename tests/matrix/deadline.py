"""A limit on how long a call may take, so that a hang is a failure and not a hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 10.0  # a hundred times what the call should take


class _Ring(BaseException):
    """The time is up; nothing that the call catches."""


@contextmanager
def deadline(what: Any, seconds: float = PATIENCE_S) -> Iterator[None]:
    """Fail if the block takes longer than `seconds`."""

    def ring(*_: Any) -> None:
        raise _Ring

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    late = False
    try:
        yield
    except _Ring:
        late = True  # raised again below: the place where the bell rang may have no line number to report
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    if late:
        raise TimeoutError(f"{what}: no answer after {seconds:g} s")
