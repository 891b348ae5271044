"""The process that computes certified answers, so that quick ones never wait for them."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rangebound.errors import PlanError, RangeboundError
from rangebound.web.explorer.quick_shares import KnownWidths

SUPERSEDED: dict[str, object] = {"superseded": True}
"""The answer to a question for which a newer one of its kind has come in the meantime."""


class Prover:
    """One process that does one task after the other; it is started when it is needed, and again after its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._context = multiprocessing.get_context("spawn")
        self._process: BaseProcess | None = None
        self._end: Connection | None = None
        self._lock = threading.Lock()
        self._latest: dict[str, int] = {}

    def ask(self, task: str, asked: dict[str, Any]) -> tuple[dict[str, object], KnownWidths | None]:
        """The answer to a task, and what quick answers may be scaled from.

        Edge cases: of several questions that wait, the last one of a kind is answered, the others are superseded. An
        error of the library is an answer, with the key `error` and, for a plan, the `field` at fault.
        """
        number = self._latest[task] = self._latest.get(task, 0) + 1
        with self._lock:
            if task == "certified" and self._latest[task] != number:
                return SUPERSEDED, None
            return self._done(task, asked)

    def _done(self, task: str, asked: dict[str, Any]) -> tuple[dict[str, object], KnownWidths | None]:
        if self._process is None or not self._process.is_alive():
            self.start()
        assert self._end is not None
        try:
            self._end.send((task, asked))
            found: tuple[dict[str, object], KnownWidths | None] = self._end.recv()
        except (EOFError, OSError):
            return {"error": "the process that computes has ended; try again"}, None
        return found

    def start(self) -> None:
        """Start the process, which imports what it needs before it is asked."""
        self._end, other = self._context.Pipe()
        self._process = self._context.Process(target=_work, args=(other, self._folder), daemon=True)
        self._process.start()
        other.close()

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()


def _work(end: Connection, folder: Path) -> None:
    """Answer one task after the other until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    from rangebound.web.explorer.tasks import TASKS

    while True:
        try:
            task, asked = end.recv()
        except (EOFError, OSError):
            return
        try:
            end.send(TASKS[task](asked, folder))
        except RangeboundError as error:
            field = {"field": error.field} if isinstance(error, PlanError) else {}
            end.send(({"error": " ".join(str(error).split()), **field}, None))
        except Exception as error:  # its message may contain data, so it is not shown
            end.send(({"error": f"unexpected {type(error).__name__}; this is a bug, please report it"}, None))
