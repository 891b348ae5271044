"""What the two web applications share: the way in, bodies of JSON, answers, and the processes.

One process listens. Others compute: each does one task at a time, within a limit, and can be killed. A task is a line
of JSON, and so is its answer. A process first says whether it is ready.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rangebound.errors import ArgumentError, LedgerUnavailable, plain
from rangebound.values.arguments import counted
from rangebound.values.serial import json_data

_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_DEEPEST = 40  # a plan has eight levels


class BodyTooLarge(ArgumentError):
    """A body of more bytes than one may have."""


class Gate:
    """An application with what stands around it: what is refused at once, headers on every answer, and a log.

    `policy` is the content security policy of every answer. `refusal` answers a request that goes no further. A client
    that does not read its answer for `sending` seconds is left. `log` has a line per answer, without what follows a
    question mark, where a client may have put a token.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        opened: AbstractAsyncContextManager[None],
        policy: bytes,
        refusal: Callable[[Scope], Response | None],
        handlers: Mapping[Any, Any] | None = None,
        sending: float | None = None,
        log: logging.Logger | None = None,
    ) -> None:
        @asynccontextmanager
        async def open_for(_: Starlette) -> AsyncIterator[None]:
            async with opened:
                yield

        inner = Starlette(routes=routes, lifespan=open_for, exception_handlers=handlers)
        inner.router.redirect_slashes = False  # a redirect would go to whatever host and scheme the request names
        self._inner: ASGIApp = inner
        self._headers = (*_HEADERS, (b"content-security-policy", policy))
        self._refusal, self._sending, self._log = refusal, sending, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on a request."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                if self._log is not None:
                    peer = scope["client"][0] if scope.get("client") else ""
                    path = plain((scope.get("raw_path") or b"")[:200].decode("ascii", "backslashreplace"))
                    self._log.info("%s %s %s %d", peer, scope["method"], path, message["status"])
                message = {**message, "headers": [*message.get("headers", []), *self._headers]}
            await asyncio.wait_for(send(message), self._sending)

        try:
            await (self._refusal(scope) or self._inner)(scope, receive, guarded)
        except (TimeoutError, ClientDisconnect):
            if self._log is not None:
                self._log.warning("a client went away, or does not read its answer")


async def json_body(request: Request, *, most: int, reading: float | None = None) -> dict[str, Any]:
    """The fields of a body of JSON; `BodyTooLarge` above `most` bytes, `TimeoutError` after `reading` seconds."""

    async def read() -> bytes:
        found = bytearray()
        async for piece in request.stream():
            found += piece
            if len(found) > most:
                raise BodyTooLarge(f"body: must have at most {counted(most, 'byte')}")
        return bytes(found)

    return plain_data(await asyncio.wait_for(read(), reading))


def plain_data(body: bytes) -> dict[str, Any]:
    """The object in a body of JSON.

    Guarantee: data of a few levels, without NaN, infinities, numbers of thousands of digits, repeated names or texts
    that are not Unicode; all else is an `ArgumentError`, whatever the bytes are.
    Edge cases: unlike in a certificate, a number may be written in any way, since clients in other languages write
    doubles in other ways.

    >>> plain_data(b'{"id": "table-1"}')
    {'id': 'table-1'}
    """
    try:
        found = json_data(body.decode("utf-8"), deepest=_DEEPEST)
        json.dumps(found, ensure_ascii=False).encode("utf-8")  # which half of a surrogate pair is not
    except UnicodeDecodeError:
        raise ArgumentError("body: must be UTF-8 text") from None
    except ValueError:
        raise ArgumentError("body: not valid JSON, or deeper or larger than any plan is") from None
    if not isinstance(found, dict):
        raise ArgumentError('body: must be an object, such as {"id": "table-1", "plan": "..."}')
    return found


def json_answer(data: object, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(json.dumps(data, ensure_ascii=False).encode(), status, media_type="application/json")


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens, and that no other process inherits."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as reason:
        raise ArgumentError(f"host={host!r}, port={port}: cannot be used ({reason})") from None
    found.set_inheritable(False)
    return found


def serve_until_stopped(application: ASGIApp, bound: socket.socket, **options: Any) -> None:
    """Serve an application until a signal ends it; `options` are more of those of uvicorn."""
    config = uvicorn.Config(
        application,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        **options,
    )
    uvicorn.Server(config).run(sockets=[bound])


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
