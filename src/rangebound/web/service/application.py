"""The HTTP application: who asks, what they may, how much at once; the office does the work."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.values.arguments import counted
from rangebound.web.gate import BodyTooLarge, Gate, json_answer, json_body
from rangebound.web.service.deadline import seen
from rangebound.web.service.office import LOG, Office, Refusal, shown
from rangebound.web.service.operations import OPERATIONS, HttpOperation, document, page
from rangebound.web.service.rate import RateLimit, peer_of
from rangebound.web.service.settings import ID
from rangebound.web.service.submission import canonical_plan
from rangebound.web.service.token_store import Token

Answer = Callable[[Office, Request, Token], Awaitable[Response]]

LARGEST_HEADERS = 16_384
"""The most bytes of the headers of a request."""
_LONGEST_ADDRESS = 2000
_ODD = re.compile(rb"//|\\\\|%(?:00|2f|5c)", re.IGNORECASE)  # no name on this server has a slash, so none is encoded
_LONGEST_REASON = 1000
_POLICY = b"default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"


def application(office: Office) -> ASGIApp:
    """The application over an office, which it opens and closes."""
    limits = office.settings.limits
    known, strangers = RateLimit(limits.requests), RateLimit(limits.strangers)
    routes = [
        Route(each.path, partial(_guarded, office, each, known, strangers), methods=[each.method])
        for each in OPERATIONS
    ]
    routes += [Route("/", _page, methods=["GET"]), Route("/openapi.json", _document, methods=["GET"])]
    return Gate(
        routes,
        opened=office,
        policy=_POLICY,
        refusal=_refusal,
        handlers={HTTPException: _of_starlette, Exception: _of_nobody},
        sending=limits.sending,
        log=LOG,
    )


def _refusal(scope: Scope) -> Response | None:
    """The answer to a request that no client of ours sends."""
    raw: bytes = scope.get("raw_path") or b""
    if len(raw) + len(scope.get("query_string", b"")) > _LONGEST_ADDRESS or _ODD.search(raw):
        return _error(400, "address: not one of this server")
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
        # A proxy in front might go by the other one of the two, and take what follows for its next request.
        return _error(400, "headers: a length and chunks at once")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEADERS:
        return _error(431, "headers: too large")
    return None


async def _guarded(
    office: Office, operation: HttpOperation, known: RateLimit, strangers: RateLimit, request: Request
) -> Response:
    """Answer a request, if its token is valid, has the role and the account, and has not asked too often."""
    client = peer_of(request.client.host if request.client else "")
    token = _token(office, request)
    if token is None:
        if not strangers.allows(client, time.monotonic()):
            return _error(429, "too many requests without a valid token")
        return _error(401, "a valid token is needed: Authorization: Bearer rb_...")
    if not known.allows(token.name, time.monotonic()):
        return _error(429, "too many requests; try again later")
    account, id = request.path_params.get("account"), request.path_params.get("id")
    if account is not None and (account not in token.accounts or account not in office.settings.accounts):
        return _error(404, "no such account for this token")
    if id is not None and not ID.fullmatch(id):
        return _error(404, "no such release")
    if token.role not in operation.roles:
        return _error(403, f"the role of the token is {token.role.value}, which may not do this")
    try:
        return await ANSWERS[operation.name](office, request, token)
    except Refusal as refusal:
        return _error(refusal.status, str(refusal))
    except (LedgerUnavailable, LedgerTampered) as error:
        LOG.error("the ledger: %s", error)
        return _error(503, "the ledger cannot be used now; try again later")
    except ArgumentError as error:
        return _error(400, str(error))


def _token(office: Office, request: Request) -> Token | None:
    given = request.headers.getlist("authorization")
    scheme, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return office.tokens.find(text) if scheme.lower() == "bearer" else None


async def _body(
    office: Office, request: Request, operation_takes: Mapping[str, Any], needs: tuple[str, ...]
) -> dict[str, Any]:
    """The fields of a body of JSON, read within its limits of bytes and seconds."""
    limits = office.settings.limits
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(415, "body: must be application/json, and not compressed")

    length = request.headers.get("content-length", "")
    try:
        if length.isdecimal() and int(length[:20]) > limits.body:  # before it is sent
            raise BodyTooLarge(f"body: must have at most {counted(limits.body, 'byte')}")
        data = await json_body(request, most=limits.body, reading=limits.reading)
    except BodyTooLarge as error:
        raise Refusal(413, str(error)) from None
    except TimeoutError:
        raise Refusal(408, "body: came too slowly") from None
    unknown = [name for name in data if name not in operation_takes]
    missing = [name for name in needs if name not in data]
    if unknown or missing:
        raise Refusal(400, f"body: {'unknown' if unknown else 'missing'} field {(unknown or missing)[0]!r:.80}")
    return data


def _text(data: Mapping[str, Any], name: str, longest: int) -> str | None:
    value = data.get(name)
    if value is not None and (not isinstance(value, str) or len(value) > longest or not value.isprintable()):
        raise Refusal(400, f"{name}: must be a text on one line, not longer than {longest}")
    return value


async def _accounts(office: Office, request: Request, token: Token) -> Response:
    return json_answer(
        {"accounts": [await office.account(name) for name in token.accounts if name in office.settings.accounts]}
    )


async def _sources(office: Office, request: Request, token: Token) -> Response:
    account = request.path_params["account"]
    names = office.settings.accounts[account].sources
    return json_answer({"sources": [await office.source(account, name) for name in names]})


async def _dry_run(office: Office, request: Request, token: Token) -> Response:
    data = await _body(office, request, {"plan": 0, "source": 0}, ("plan",))
    task = {"account": request.path_params["account"], "plan": canonical_plan(data["plan"])}
    return json_answer(await office.dry_run(token, {**task, "source": _text(data, "source", 64)}))


async def _submit(office: Office, request: Request, token: Token) -> Response:
    data = await _body(office, request, {"id": 0, "plan": 0, "source": 0}, ("id", "plan"))
    id = _text(data, "id", 64) or ""
    if not ID.fullmatch(id):
        raise Refusal(
            400,
            "id: must have 1 to 64 letters, digits, points, dashes or underscores, and begin with a letter or digit",
        )
    plan, account = canonical_plan(data["plan"]), request.path_params["account"]
    job = await office.submit(token, account, id, plan, _text(data, "source", 64))
    return json_answer(shown(job, seen(job, time.time(), office.settings.release.delay)), 202)


async def _releases(office: Office, request: Request, token: Token) -> Response:
    now, delay = time.time(), office.settings.release.delay
    found = office.jobs.of([request.path_params["account"]])
    return json_answer({"releases": [shown(each, seen(each, now, delay)) for each in found]})


async def _release(office: Office, request: Request, token: Token) -> Response:
    return json_answer(shown(*await office.find(request.path_params["account"], request.path_params["id"])))


async def _file(name: str, media: str, office: Office, request: Request, token: Token) -> Response:
    data = await office.answer(request.path_params["account"], request.path_params["id"], name)
    return Response(data, media_type=media)


async def _asked(office: Office, request: Request, token: Token) -> Response:
    return json_answer(await office.asked(request.path_params["account"], request.path_params["id"]))


async def _decide(approve: bool, office: Office, request: Request, token: Token) -> Response:
    data = await _body(office, request, {"reason": 0}, ())
    reason = _text(data, "reason", _LONGEST_REASON) or ""
    account, id = request.path_params["account"], request.path_params["id"]
    await office.decide(token, account, id, approve=approve, reason=reason)
    return json_answer(shown(*await office.find(account, id)))


_HANDLERS: Mapping[str, Answer] = {
    "/v1/accounts": _accounts,
    "/v1/accounts/{account}/sources": _sources,
    "/v1/accounts/{account}/dry-runs": _dry_run,
    "/v1/accounts/{account}/releases/{id}": _release,
    "/v1/accounts/{account}/releases/{id}/request": _asked,
    "/v1/accounts/{account}/releases/{id}/approve": partial(_decide, True),
    "/v1/accounts/{account}/releases/{id}/reject": partial(_decide, False),
}


def _handler(each: HttpOperation) -> Answer:
    """The function that answers an operation; one that has none is found when the server is imported."""
    if each.path.endswith("/releases"):
        return _submit if each.method == "POST" else _releases
    name = each.path.rpartition("/")[2]
    return partial(_file, name, each.media) if "." in name else _HANDLERS[each.path]


ANSWERS: Mapping[str, Answer] = {each.name: _handler(each) for each in OPERATIONS}
"""The function that answers each operation, by its name."""


async def _page(_: Request) -> Response:
    return HTMLResponse(page())


async def _document(_: Request) -> Response:
    return json_answer(document())


async def _of_starlette(_: Request, error: HTTPException) -> Response:
    return _error(error.status_code, "no such address or method")


async def _of_nobody(_: Request, error: Exception) -> Response:
    LOG.error("unexpected error", exc_info=error)
    return _error(500, "unexpected error; the custodian's log has the details")


def _error(status: int, words: str) -> Response:
    headers = {"www-authenticate": "Bearer"} if status == 401 else {"retry-after": "10"} if status == 429 else {}
    found = json_answer({"error": words}, status)
    found.headers.update({**headers, "connection": "close"} if status in (400, 408, 413) else headers)
    return found
