"""The local server of the explorer: one page behind a token, its files, and answers in JSON."""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rangebound import __version__
from rangebound.errors import ArgumentError, RangeboundError
from rangebound.release.plan.toml import read_plan
from rangebound.web.explorer.adjusted_plan import PlanChanges, dragged
from rangebound.web.explorer.deployments import deployments
from rangebound.web.explorer.one_number import OneNumber
from rangebound.web.explorer.prover import Prover
from rangebound.web.explorer.quick_shares import KnownWidths, quick_view, quick_way
from rangebound.web.explorer.saved_plan import read_text, save_plan
from rangebound.web.explorer.tasks import TASKS, exports, plan_of

_MODULES = (
    "explorer",
    "proof",
    "solution",
    "view",
    "law_view",
    "plan_edits",
    "plan_file",
    "trial",
    "page_state",
    "elements",
    "charts",
)
_FILES = {"": "text/html", "explorer.css": "text/css"} | {f"{name}.js": "text/javascript" for name in _MODULES}
_LARGEST_BODY = 2_000_000
_IDLE = 3600  # seconds that a connection may be idle: one that ends just when the browser uses it again fails
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)
_STEPS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0)
EPSILONS = (*(round(step * 10.0**power, 6) for power in (-2, -1, 0, 1) for step in _STEPS), 100.0)
"""The epsilons of the slider."""
DELTAS = (0.0, *(float(f"{digit}e-{power}") for power in range(12, 2, -1) for digit in (1, 3)))
"""The deltas of the slider."""


@dataclass(kw_only=True)
class Desk:
    """What the page works on: a plan's file or its text, its folder, the process that proves, and what is known so far.

    `file` is the one file that the page may write; None for one number, whose plan is in `text`.
    """

    text: str
    file: Path | None
    folder: Path
    prover: Prover
    token: str
    saving: threading.Lock = field(default_factory=threading.Lock)
    known: dict[bool, KnownWidths] = field(default_factory=dict)  # by whether the account is Gaussian
    chosen: bool | None = None  # the account that was best for the last plan with a delta

    def start(self) -> dict[str, object]:
        """What the page begins with."""
        return {
            "version": __version__,
            "plan": self.text if self.file is None else read_text(self.file),
            "file": None if self.file is None else self.file.name,
            "epsilons": EPSILONS,
            "deltas": DELTAS,
            "exports": exports(),
            "deployments": [each.to_dict() for each in deployments()],
        }

    def quick(self, asked: Mapping[str, Any]) -> dict[str, object]:
        """The first answer to a change; a share that was dragged becomes weights, which the page keeps."""
        plan, drag = plan_of(asked, self.folder), asked.get("drag")
        way, changed = quick_way(plan, self.chosen), {}
        if drag is not None:
            if not isinstance(drag, dict) or type(drag.get("share")) not in (int, float):
                raise ArgumentError("drag: must have the name of a question and a share")
            given = PlanChanges.from_dict(asked.get("changes") or {})
            found = dragged(plan, way, str(drag.get("query")), float(drag["share"]))
            changed = {"weights": dict(found.weights), "selection": found.selection}
            plan = plan_of({**asked, "changes": {**given.to_dict(), **changed}}, self.folder)
            way = quick_way(plan, self.chosen)
        return {**quick_view(plan, way, self.known.get(bool(way.mu))), "changed": changed}

    def save(self, asked: dict[str, Any]) -> dict[str, object]:
        """Check a plan and write it to its file, if that still says what the page has `opened`."""
        opened = asked.get("opened")
        if self.file is None or not isinstance(opened, str):
            raise ArgumentError("opened: missing; a page that was opened with a plan file can save it")
        found = self.prove("checked", asked)
        if "error" not in found:
            with self.saving:
                save_plan(self.file, str(found["text"]), opened=opened)
        return found

    def prove(self, task: str, asked: dict[str, Any]) -> dict[str, object]:
        """The answer of the process that proves."""
        found, known = self.prover.ask(task, asked)
        if known is not None:
            self.known[known.gaussian] = known
            self.chosen = known.gaussian if known.choice else self.chosen
        return found


def desk_of(plan: Path | None) -> Desk:
    """The desk for a plan file, or for one number; a plan that is not valid is refused here."""
    if plan is None:
        text, folder = OneNumber().plan().to_toml(), Path.cwd()
    else:
        read_plan(plan)
        text, folder = "", plan.absolute().parent
    file = None if plan is None else plan.absolute()
    return Desk(text=text, file=file, folder=folder, prover=Prover(folder), token=os.urandom(24).hex())


def page_application(desk: Desk) -> ASGIApp:
    """The application over a desk: everything is below its token, and nothing else is there."""

    @asynccontextmanager
    async def proving(_: Starlette) -> AsyncIterator[None]:
        desk.prover.start()
        try:
            yield
        finally:
            desk.prover.close()

    async def static(request: Request) -> Response:
        name = request.path_params.get("name", "")
        if name not in _FILES:
            return _json({"error": "no such file"}, 404)
        data = files("rangebound.web.explorer").joinpath(name or "explorer.html").read_bytes()
        return Response(data, media_type=_FILES[name])

    async def begin(_: Request) -> Response:
        try:
            return _json(desk.start())
        except (OSError, UnicodeError) as reason:
            return _json({"error": f"the plan cannot be read ({reason})"}, 400)

    async def answer(request: Request) -> Response:
        task = request.path_params["task"]
        if task not in ("quick", "save", *TASKS):
            return _json({"error": "no such task"}, 404)
        try:
            asked = await _body(request)
            if task == "quick":
                return _json(desk.quick(asked))
            found = await asyncio.to_thread(desk.save if task == "save" else partial(desk.prove, task), asked)
        except RangeboundError as error:
            return _json({"error": " ".join(str(error).split())}, 400)
        return _json(found, 400 if "error" in found else 200)

    routes = [
        Route("/{token}/", static),
        Route("/{token}/start", begin),
        Route("/{token}/{name}", static),
        Route("/{token}/api/{task}", answer, methods=["POST"]),
    ]
    return LocalGate(Starlette(routes=routes, lifespan=proving), desk.token)


class LocalGate:
    """Around the application: local names and the token only, and headers on every answer."""

    def __init__(self, inner: ASGIApp, token: str) -> None:
        self._inner, self._token = inner, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on a request, if it comes to a local name with the token.

        A page of another site that points a name of its own at this machine sends that name as the host.
        """
        if scope["type"] == "lifespan":
            return await self._inner(scope, receive, send)
        if scope["type"] != "http":
            return None

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            await send(message)

        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        given = scope["path"].split("/")[1] if scope["path"].count("/") > 1 else ""
        local = host.rpartition(":")[0] in ("127.0.0.1", "localhost") and origin in ("", f"http://{host}")
        if not local or not hmac.compare_digest(given.encode(), self._token.encode()):
            return await _json({"error": "no such address"}, 404)(scope, receive, guarded)
        return await self._inner(scope, receive, guarded)


async def _body(request: Request) -> dict[str, Any]:
    """The fields of a body of JSON."""
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > _LARGEST_BODY:
            raise ArgumentError(f"body: must have at most {_LARGEST_BODY} bytes")
    try:
        data = json.loads(bytes(found), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ArgumentError("body: not valid JSON") from None
    if not isinstance(data, dict):
        raise ArgumentError("body: must be an object")
    return data


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _json(data: object, status: int = 200) -> Response:
    return Response(json.dumps(_with_words(data), ensure_ascii=False).encode(), status, media_type="application/json")


def _with_words(data: object) -> object:
    """The same data with "inf" and "-inf" for what JSON has no number for."""
    if isinstance(data, float) and not math.isfinite(data):
        return repr(data)
    if isinstance(data, Mapping):
        return {name: _with_words(value) for name, value in data.items()}
    return [_with_words(each) for each in data] if isinstance(data, (list, tuple)) else data


def explore(plan: Path | None, *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Serve the page until a signal ends it; `ready` is told its address, with the token, once the socket is there."""
    desk = desk_of(plan)
    try:
        bound = socket.create_server(("127.0.0.1", port), backlog=64)
    except (OSError, OverflowError) as reason:
        raise ArgumentError(f"port={port}: cannot be used ({reason})") from None
    chosen = uvicorn.Config(
        page_application(desk),
        ws="none",
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=_IDLE,
    )
    ready(f"http://127.0.0.1:{bound.getsockname()[1]}/{desk.token}/")
    uvicorn.Server(chosen).run(sockets=[bound])
