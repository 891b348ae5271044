"""Worker processes that can be killed: each does one task at a time, within a limit of seconds."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LONGEST_LINE = 64 * 2**20


class WorkerDied(Exception):
    """A worker ended before it answered."""


class LedgerAway(Exception):
    """A worker could not begin, since the ledger cannot be used now."""


class TimeUp(Exception):
    """A task took longer than it may, and its worker was killed."""


class Pool:
    """So many workers at most; each is started when it is needed, and again after its end."""

    def __init__(self, config: Path, log: Path, size: int) -> None:
        self._config, self._log = config, log
        self._idle: asyncio.Queue[asyncio.subprocess.Process | None] = asyncio.Queue()
        self._running: set[asyncio.subprocess.Process] = set()
        self._size = size
        self._starting: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start all workers, without waiting for them: a first task waits for less then."""
        self._starting = [asyncio.create_task(self._start_one()) for _ in range(self._size)]

    async def _start_one(self) -> None:
        try:
            self._idle.put_nowait(await self._started())
        except (WorkerDied, LedgerAway):
            self._idle.put_nowait(None)

    async def do(self, task: Mapping[str, Any], limit: float) -> dict[str, Any]:
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
        with self._log.open("ab") as log:
            found = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "rangebound.web.service.worker",
                str(self._config),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=_LONGEST_LINE,
            )
        self._running.add(found)
        assert found.stdout is not None
        line = await found.stdout.readline()  # nothing where it has ended
        if line and json.loads(line)["ready"]:
            return found
        await self._end(found)
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
