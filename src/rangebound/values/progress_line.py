"""Progress on a terminal: whether it is shown, and a line for a search whose length is not known beforehand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer

from rangebound.errors import ArgumentTypeError
from rangebound.values import arguments
from rangebound.values.extras import missing, need

Tell = Callable[[str], None]

_PATIENCE = 2.0  # seconds before a line appears


def is_shown(progress: object) -> bool:
    """Whether progress is shown: as `progress` says, and if it is None, where the error stream is a terminal.

    Edge cases: progress=True needs rich, and None without it shows nothing; any other value is refused.

    >>> is_shown(False)
    False
    """
    if progress is not None and not isinstance(progress, bool) and arguments.numpy_kind(progress) != "b":
        raise ArgumentTypeError(f"progress={arguments.shown(progress)}: must be True, False or None")
    if progress:
        need("rich", what="progress=True")
    return bool(progress) if progress is not None else sys.stderr.isatty() and not missing("rich")


@contextmanager
def progress_line(what: str, progress: bool | None) -> Iterator[Tell]:
    """A line on the error stream from two seconds on, gone at the end, and the function that adds to what it says.

    >>> with progress_line("searching", False) as tell:
    ...     tell("almost there")
    """
    if not is_shown(progress):
        yield lambda text: None
        return
    from rich.console import Console

    line, turn, ended = Console(stderr=True).status(what), Lock(), False

    def appear() -> None:
        with turn:
            if not ended:
                line.start()

    timer = Timer(_PATIENCE, appear)
    timer.daemon = True
    timer.start()
    try:
        yield lambda text: line.update(f"{what}: {text}")
    finally:
        timer.cancel()
        with turn:
            ended = True
            line.stop()
