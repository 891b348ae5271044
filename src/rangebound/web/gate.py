"""What the two web applications share: the way in, bodies of JSON, answers, and the process that listens."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rangebound.errors import ArgumentError, plain
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
