"""Processes that compute for a web application: each does one task at a time, within a limit, and can be killed.

A task is a line of JSON, and so is its answer. A process first says whether it is ready.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any

from rangebound.errors import LedgerUnavailable

_LONGEST_ANSWER = 2**26  # bytes of a line


class WorkerDied(Exception):
    """A worker ended before it answered."""


class LedgerAway(Exception):
    """A worker could not begin, since the ledger cannot be used now."""


class TimeUp(Exception):
    """A task took longer than it may, and its worker was killed."""


class Pool:
    """At most `size` processes of one command; each is started when it is needed, and again after its end.

    What they write to their error stream is added to the file `log`, or goes where ours goes. A worker whose answer has
    more than `longest` bytes is ended.
    """

    def __init__(
        self, command: Sequence[str], size: int, *, log: Path | None = None, longest: int = _LONGEST_ANSWER
    ) -> None:
        self._command, self._size, self._log, self._longest = command, size, log, longest
        self._idle: asyncio.Queue[asyncio.subprocess.Process | None] = asyncio.Queue()
        self._running: set[asyncio.subprocess.Process] = set()
        self._starting: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start all workers, without waiting for them: a first task waits for less then."""

        async def one() -> None:
            worker = None
            with suppress(Exception):  # the first task starts it again, and is told what is wrong
                worker = await self._started()
            self._idle.put_nowait(worker)

        self._starting = [asyncio.create_task(one()) for _ in range(self._size)]

    async def do(self, task: Mapping[str, Any], limit: float | None) -> dict[str, Any]:
        """The answer to a task; raises `TimeUp`, `WorkerDied` or `LedgerAway`, with the worker gone.

        The limit counts from the moment at which a worker takes the task, once it has imported what it needs.
        """
        worker = await self._idle.get()
        try:
            if worker is None or worker.returncode is not None:
                worker = await self._started()
            return await asyncio.wait_for(self._asked(worker, task), limit)
        except TimeoutError:
            raise TimeUp from None
        finally:
            if worker is not None and sys.exc_info()[0] is not None:
                await self._end(worker)
                worker = None
            self._idle.put_nowait(worker)

    @property
    def processes(self) -> list[int]:
        """The ids of the workers that run."""
        return [each.pid for each in self._running if each.returncode is None]

    async def close(self) -> None:
        """Kill all workers."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for each in list(self._running):
            await self._end(each)

    async def _started(self) -> asyncio.subprocess.Process:
        with ExitStack() as stack:
            found = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # nothing is imported from the folder in which somebody happens to be
                "-m",
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if self._log is None else stack.enter_context(self._log.open("ab")),
                limit=self._longest,
                start_new_session=True,  # Ctrl-C is for us, and we end them
            )
        self._running.add(found)
        assert found.stdout is not None
        ready = False
        try:
            line = await found.stdout.readline()  # nothing where it has ended
            ready = bool(line) and json.loads(line)["ready"]
        finally:
            if not ready:  # also where nobody waits for it any more
                await self._end(found)
        if ready:
            return found
        raise LedgerAway if line else WorkerDied

    async def _asked(self, worker: asyncio.subprocess.Process, task: Mapping[str, Any]) -> dict[str, Any]:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(json.dumps(task).encode() + b"\n")
            await worker.stdin.drain()
            line = await worker.stdout.readline()
            found: dict[str, Any] = json.loads(line)
        except (OSError, ValueError):  # an end without an answer, or in the middle of one
            raise WorkerDied from None
        return found

    async def _end(self, worker: asyncio.subprocess.Process) -> None:
        if worker.returncode is None:
            worker.kill()
        await worker.wait()
        self._running.discard(worker)


def work(opening: AbstractContextManager[Callable[[dict[str, Any]], Mapping[str, Any]]]) -> None:
    """Be a process of a `Pool`: answer one task after the other until the other side closes the line.

    `opening` gives the function that answers. It may raise `LedgerUnavailable`, which the pool tells as `LedgerAway`.
    """
    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    sys.stdout = sys.stderr  # which is written line by line: a process that is killed has written what it printed

    def tell(facts: Mapping[str, Any]) -> None:
        line.write(json.dumps(facts) + "\n")
        line.flush()

    with ExitStack() as stack:
        try:
            answer = stack.enter_context(opening)
        except LedgerUnavailable:
            tell({"ready": False})
            raise
        tell({"ready": True})
        for text in sys.stdin:
            tell(answer(json.loads(text)))
