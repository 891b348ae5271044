"""A limit on the processor time that a call may take, so that a hang is a failure and not a hang."""

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
    """Fail if the block takes more than `seconds` of processor time, which a busy machine does not change."""

    def ring(*_: Any) -> None:
        raise _Ring

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    late = False
    try:
        yield
    except _Ring:
        late = True  # raised again below: the place where the bell rang may have no line number to report
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
    if late:
        raise TimeoutError(f"{what}: no answer after {seconds:g} s")
