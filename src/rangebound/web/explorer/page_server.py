"""The local server of the explorer: one page behind a token, its files, and answers in JSON."""

from __future__ import annotations

import asyncio
import hmac
import math
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from rangebound import __version__
from rangebound.errors import ArgumentError, RangeboundError
from rangebound.release.plan.toml import read_plan
from rangebound.web.explorer.edited_plan import dragged
from rangebound.web.explorer.plan_tables import read_text, save_plan
from rangebound.web.explorer.plan_view import KnownWidths, quick_view, quick_way
from rangebound.web.explorer.question_forms import Asked, OneNumber, kinds_asked
from rangebound.web.explorer.tasks import EXPORTS, TASKS, plan_of
from rangebound.web.gate import Gate, json_answer, json_body, listening, serve_until_stopped
from rangebound.web.processes import Pool, WorkerDied

_MEDIA = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_LARGEST_BODY = 2_000_000
_LONGEST_TABLE = 2**30  # bytes of a table that is published on the page
_IDLE = 3600  # seconds that a connection may be idle: one that ends just when the browser uses it again fails
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SUPERSEDED: dict[str, object] = {"superseded": True}
"""The answer to a proof that was asked for while a newer one has come in the meantime."""
_STEPS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0)
EPSILONS = (*(round(step * 10.0**power, 6) for power in (-2, -1, 0, 1) for step in _STEPS), 100.0)
"""The epsilons of the slider."""
DELTAS = (0.0, *(float(f"{digit}e-{power}") for power in range(12, 2, -1) for digit in (1, 3)))
"""The deltas of the slider."""


def deployments() -> list[dict[str, object]]:
    """Published deployments of differential privacy, the smallest epsilon first."""
    text = files("rangebound.web.explorer").joinpath("deployments.toml").read_text(encoding="utf-8")
    found = ({"delta": 0.0, "note": "", **each} for each in tomllib.loads(text)["deployment"])
    return sorted(found, key=lambda each: each["epsilon"])


@dataclass(kw_only=True)
class Desk:
    """What the page works on: a plan's file or its text, its folder, the process that proves, and what is known so far.

    `file` is the one file that the page may write; None for one number, whose plan is in `text`.
    """

    text: str
    file: Path | None
    folder: Path
    pool: Pool
    token: str
    known: dict[bool, KnownWidths] = field(default_factory=dict)  # by whether the account is Gaussian
    chosen: bool | None = None  # the account that was best for the last plan with a delta
    asked: Counter[str] = field(default_factory=Counter)  # how often each task was asked for
    proving: asyncio.Lock = field(default_factory=asyncio.Lock)
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __aenter__(self) -> None:
        """Start the process that proves, which imports what it needs before it is asked."""
        await self.pool.start()

    async def __aexit__(self, *_: object) -> None:
        """End it, whatever it does."""
        await self.pool.close()

    def start(self) -> dict[str, object]:
        """What the page begins with."""
        return {
            "version": __version__,
            "plan": self.text if self.file is None else read_text(self.file),
            "file": None if self.file is None else self.file.name,
            "epsilons": EPSILONS,
            "deltas": DELTAS,
            "exports": EXPORTS,
            "kinds": kinds_asked(),
            "deployments": deployments(),
        }

    def quick(self, given: dict[str, Any]) -> dict[str, object]:
        """The first answer to a change; a share that was dragged becomes weights, which the page keeps."""
        asked = Asked.read(given)
        plan, drag = plan_of(asked, self.folder), asked.drag
        way, changed = quick_way(plan, self.chosen), {}
        if drag is not None:
            found = dragged(plan.query, plan.budget.epsilon, way, drag.query, drag.share)
            changed = {"weights": found.weights, "selection": found.selection}
            changes = asked.changes.model_copy(update=changed)
            plan = plan_of(asked.model_copy(update={"changes": changes}), self.folder)
            way = quick_way(plan, self.chosen)
        return {**quick_view(plan, way, self.known.get(bool(way.mu))), "changed": changed}

    async def save(self, asked: dict[str, Any]) -> dict[str, object]:
        """Check a plan and write it to its file, if that still says what the page has `opened`."""
        opened = Asked.read(asked).opened
        if self.file is None or opened is None:
            raise ArgumentError("opened: missing; a page that was opened with a plan file can save it")
        found = await self.prove("checked", asked)
        if "error" not in found:
            async with self.saving:
                await asyncio.to_thread(save_plan, self.file, str(found["text"]), opened=opened)
        return found

    async def prove(self, task: str, asked: dict[str, Any]) -> dict[str, object]:
        """The answer of the process that proves; of several proofs that wait, only the last one is made."""
        self.asked[task] += 1
        number = self.asked[task]
        async with self.proving:
            if task == "certified" and self.asked[task] != number:
                return SUPERSEDED
            try:
                found = await self.pool.do({"task": task, "asked": asked}, limit=None)
            except WorkerDied:
                return {"error": "the process that computes has ended; try again"}
        if found["known"] is not None:
            known = KnownWidths(**found["known"])
            self.known[known.gaussian] = known
            self.chosen = known.gaussian if known.choice else self.chosen
        shown: dict[str, object] = found["shown"]
        return shown


def desk_of(plan: Path | None) -> Desk:
    """The desk for a plan file, or for one number; a plan that is not valid is refused here."""
    if plan is None:
        text, folder = OneNumber().plan().to_toml(), Path.cwd()
    else:
        read_plan(plan)
        text, folder = "", plan.absolute().parent
    file = None if plan is None else plan.absolute()
    pool = Pool(("rangebound.web.explorer.tasks", str(folder)), 1, longest=_LONGEST_TABLE)
    return Desk(text=text, file=file, folder=folder, pool=pool, token=os.urandom(24).hex())


def page_application(desk: Desk) -> ASGIApp:
    """The application over a desk: everything is below its token, and nothing else is there."""

    async def static(request: Request) -> Response:
        name = request.path_params.get("name", "explorer.html")
        file, media = files("rangebound.web.explorer").joinpath(name), _MEDIA.get(Path(name).suffix)
        if media is None or not file.is_file():
            return json_answer({"error": "no such file"}, 404)
        return Response(file.read_bytes(), media_type=media)

    async def begin(_: Request) -> Response:
        try:
            return json_answer(desk.start())
        except (OSError, UnicodeError) as reason:
            return json_answer({"error": f"the plan cannot be read ({reason})"}, 400)

    async def answer(request: Request) -> Response:
        task = request.path_params["task"]
        if task not in ("quick", "save", *TASKS):
            return json_answer({"error": "no such task"}, 404)
        try:
            asked = await json_body(request, most=_LARGEST_BODY)
            if task == "quick":
                return json_answer(_with_words(desk.quick(asked)))
            found = await (desk.save(asked) if task == "save" else desk.prove(task, asked))
        except RangeboundError as error:
            return json_answer({"error": " ".join(str(error).split())}, 400)
        return json_answer(_with_words(found), 400 if "error" in found else 200)

    routes = [
        Route("/{token}/", static),
        Route("/{token}/start", begin),
        Route("/{token}/{name}", static),
        Route("/{token}/api/{task}", answer, methods=["POST"]),
    ]
    return Gate(routes, opened=desk, policy=_POLICY, refusal=partial(_refusal, desk.token))


def _refusal(token: str, scope: Scope) -> Response | None:
    """The answer to a request that does not come to a local name with the token.

    A page of another site that points a name of its own at this machine sends that name as the host.
    """
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin", b"").decode("latin-1")
    given = scope["path"].split("/")[1] if scope["path"].count("/") > 1 else ""
    local = host.rpartition(":")[0] in ("127.0.0.1", "localhost") and origin in ("", f"http://{host}")
    if local and hmac.compare_digest(given.encode(), token.encode()):
        return None
    return json_answer({"error": "no such address"}, 404)


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
    bound = listening("127.0.0.1", port)
    ready(f"http://127.0.0.1:{bound.getsockname()[1]}/{desk.token}/")
    serve_until_stopped(
        page_application(desk), bound, log_level="error", timeout_graceful_shutdown=2, timeout_keep_alive=_IDLE
    )
