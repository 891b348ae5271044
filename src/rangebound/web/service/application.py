"""The HTTP application: what there is to ask, who may ask it, and how much at once; the office does the work.

Every operation is a function below with its method, path, roles and answers; the OpenAPI document and the page for
people are made of these.
"""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from string import Template
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

import rangebound
from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.values.arguments import counted
from rangebound.web.gate import BodyTooLarge, Gate, json_answer, json_body
from rangebound.web.service.job_store import RateLimit, Token, TokenRole, peer_of, seen
from rangebound.web.service.office import LOG, Office, Refusal, shown
from rangebound.web.service.settings import ID, ID_RULE
from rangebound.web.service.worker import canonical_plan

LARGEST_HEADERS = 16_384
"""The most bytes of the headers of a request."""
_LONGEST_ADDRESS = 2000
_ODD = re.compile(rb"//|\\\\|%(?:00|2f|5c)", re.IGNORECASE)  # no name on this server has a slash, so none is encoded
_LONGEST_REASON = 1000
_POLICY = (
    b"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'"
)

_PARTS = json.loads(files("rangebound.web.service").joinpath("openapi.json").read_text(encoding="utf-8"))
TEXT: dict[str, Any] = {"type": "string"}
OBJECT: dict[str, Any] = {"type": "object"}
PLAN, RELEASE = _PARTS["plan"], _PARTS["release"]
_ANALYST, _BOTH, _APPROVER = (TokenRole.ANALYST,), (TokenRole.ANALYST, TokenRole.APPROVER), (TokenRole.APPROVER,)
_A = "/v1/accounts/{account}"
_R = f"{_A}/releases/{{id}}"

Given = Mapping[str, Any]
"""What an operation is given: the names in its path, and the fields of its body."""
Answer = Callable[[Office, Token, Given], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class HttpOperation:
    """One operation: its method and path, who may use it, what it takes and gives."""

    method: str
    path: str
    summary: str
    answer: Answer
    gives: Mapping[int, str]
    roles: tuple[TokenRole, ...] = _BOTH
    schema: Mapping[str, Any] = field(default_factory=lambda: OBJECT)
    media: str = "application/json"
    takes: Mapping[str, Any] | None = None
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name for programs that are made of the OpenAPI document."""
        words = self.path.removeprefix("/v1").replace("{", "").replace("}", "").replace(".", "_").replace("-", "_")
        return f"{self.method.lower()}{words.replace('/', '_')}"

    @property
    def words(self) -> str:
        """Whom it is for."""
        return f"For {' and '.join(role.value for role in self.roles)}s."


OPERATIONS: list[HttpOperation] = []
"""All operations that need a token."""


def _offered(method: str, path: str, gives: Mapping[int, str], **facts: Any) -> Callable[[Answer], Answer]:
    """Offer a function as an operation; its docstring is the summary."""

    def offered(answer: Answer) -> Answer:
        summary = facts.pop("summary", None) or " ".join((answer.__doc__ or "").split()).rstrip(".")
        OPERATIONS.append(HttpOperation(method=method, path=path, summary=summary, answer=answer, gives=gives, **facts))
        return answer

    return offered


@_offered("GET", "/v1/accounts", {200: "the accounts"})
async def _accounts(office: Office, token: Token, given: Given) -> object:
    """The accounts of the token, and what is left of them, as of the last multiple of the delay."""
    own = [name for name in token.accounts if name in office.settings.accounts]
    return {"accounts": [await office.account(name) for name in own]}


@_offered("GET", f"{_A}/sources", {200: "the sources"})
async def _sources(office: Office, token: Token, given: Given) -> object:
    """The sources of an account: columns and types, and whom releases protect."""
    names = office.settings.accounts[given["account"]].sources
    return {"sources": [await office.source(given["account"], name) for name in names]}


@_offered(
    "POST",
    f"{_A}/dry-runs",
    {200: "the plan in words, its cost and errors"},
    takes={"plan": PLAN, "source": TEXT},
    needs=("plan",),
)
async def _dry_run(office: Office, token: Token, given: Given) -> object:
    """Check a plan and see what it would give; nothing is charged, and no row is read."""
    task = {"account": given["account"], "plan": canonical_plan(given["plan"]), "source": _text(given, "source", 64)}
    return await office.dry_run(token, task)


@_offered("GET", f"{_A}/releases", {200: "the releases"})
async def _releases(office: Office, token: Token, given: Given) -> object:
    """The releases of an account, the last one first."""
    now, delay = time.time(), office.settings.release.delay
    return {"releases": [shown(each, seen(each, now, delay)) for each in office.jobs.of(given["account"])]}


@_offered(
    "POST",
    f"{_A}/releases",
    {202: "the release, as it stands", 409: "the id was used for another plan"},
    roles=_ANALYST,
    schema=RELEASE,
    takes={"id": {**TEXT, "description": "1 to 64 letters, digits, . - _"}, "plan": PLAN, "source": TEXT},
    needs=("id", "plan"),
)
async def _submit(office: Office, token: Token, given: Given) -> object:
    """Ask for a release; the same id with the same plan is the same release, and charged once."""
    id = _text(given, "id", 64) or ""
    if not ID.fullmatch(id):
        raise Refusal(400, f"id: {ID_RULE}")
    plan = canonical_plan(given["plan"])
    job = await office.submit(token, given["account"], id, plan, _text(given, "source", 64))
    return shown(job, seen(job, time.time(), office.settings.release.delay))


@_offered("GET", _R, {200: "the release"}, schema=RELEASE)
async def _release(office: Office, token: Token, given: Given) -> object:
    """A release as it stands; its end is seen at multiples of the delay after it began."""
    return shown(*await office.find(given["account"], given["id"]))


async def _file(name: str, office: Office, token: Token, given: Given) -> object:
    return await office.answer(given["account"], given["id"], name)


for _name, _media, _summary in (
    ("table.json", "application/json", "The published table: the bytes that the certificate is about"),
    ("table.csv", "text/csv", "The published table as CSV"),
    ("certificate.json", "application/json", "The certificate of the table"),
    ("report.html", "text/html", "The report of the release, one page"),
    (
        "record.yaml",
        "application/yaml",
        "The record for the registry of deployments, with what is left open marked",
    ),
):
    _offered("GET", f"{_R}/{_name}", {200: "the file"}, media=_media, summary=_summary)(partial(_file, _name))


@_offered("GET", f"{_R}/request", {200: "the plan and what it would give"})
async def _asked(office: Office, token: Token, given: Given) -> object:
    """What a request for approval asks for: its plan and dry run."""
    return await office.asked(given["account"], given["id"])


_DECISION: dict[str, Any] = {"roles": _APPROVER, "schema": RELEASE, "takes": {"reason": TEXT}}
_DECIDED = {200: "the release", 409: "it cannot be decided so"}


@_offered("POST", f"{_R}/approve", _DECIDED, **_DECISION)
async def _approve(office: Office, token: Token, given: Given) -> object:
    """Approve a request of somebody else: it is charged and run."""
    return await _decide(office, token, given, approve=True)


@_offered("POST", f"{_R}/reject", _DECIDED, **_DECISION)
async def _reject(office: Office, token: Token, given: Given) -> object:
    """Reject a request, for good; nothing is charged."""
    return await _decide(office, token, given, approve=False)


async def _decide(office: Office, token: Token, given: Given, *, approve: bool) -> object:
    reason = _text(given, "reason", _LONGEST_REASON) or ""
    await office.decide(token, given["account"], given["id"], approve=approve, reason=reason)
    return await _release(office, token, given)


def _text(given: Given, name: str, longest: int) -> str | None:
    value = given.get(name)
    if value is not None and (not isinstance(value, str) or len(value) > longest or not value.isprintable()):
        raise Refusal(400, f"{name}: must be a text on one line, not longer than {longest}")
    return value


def application(office: Office) -> ASGIApp:
    """The application over an office, which it opens and closes."""
    limits = office.settings.limits
    known, strangers = RateLimit(limits.requests), RateLimit(limits.strangers)

    async def front(_: Request) -> Response:
        return HTMLResponse(page())

    async def openapi(_: Request) -> Response:
        return json_answer(document())

    async def of_starlette(_: Request, error: HTTPException) -> Response:
        return _error(error.status_code, "no such address or method")

    async def of_nobody(_: Request, error: Exception) -> Response:
        LOG.error("unexpected error", exc_info=error)
        return _error(500, "unexpected error; the custodian's log has the details")

    routes = [
        Route(each.path, partial(_guarded, office, each, known, strangers), methods=[each.method])
        for each in OPERATIONS
    ]
    return Gate(
        [*routes, Route("/", front, methods=["GET"]), Route("/openapi.json", openapi, methods=["GET"])],
        opened=office,
        policy=_POLICY,
        refusal=_refusal,
        handlers={HTTPException: of_starlette, Exception: of_nobody},
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
    sent = request.headers.getlist("authorization")
    scheme, _, text = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    token = office.tokens.find(text) if scheme.lower() == "bearer" else None
    if token is None:
        if not strangers.allows(peer_of(request.client.host if request.client else ""), time.monotonic()):
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
        data = {} if operation.takes is None else await _body(office, request, operation.takes, operation.needs)
        found = await operation.answer(office, token, {**data, **request.path_params})
    except Refusal as refusal:
        return _error(refusal.status, str(refusal))
    except (LedgerUnavailable, LedgerTampered) as error:
        LOG.error("the ledger: %s", error)
        return _error(503, "the ledger cannot be used now; try again later")
    except ArgumentError as error:
        return _error(400, str(error))
    if isinstance(found, bytes):
        return Response(found, media_type=operation.media)
    return json_answer(found, min(operation.gives))


async def _body(office: Office, request: Request, takes: Mapping[str, Any], needs: tuple[str, ...]) -> Given:
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
    unknown, missing = [name for name in data if name not in takes], [name for name in needs if name not in data]
    if unknown or missing:
        raise Refusal(400, f"body: {'unknown' if unknown else 'missing'} field {(unknown or missing)[0]!r:.80}")
    return data


def _error(status: int, words: str) -> Response:
    headers = {"www-authenticate": "Bearer"} if status == 401 else {"retry-after": "10"} if status == 429 else {}
    found = json_answer({"error": words}, status)
    found.headers.update({**headers, "connection": "close"} if status in (400, 408, 413) else headers)
    return found


def document(operations: Iterable[HttpOperation] = OPERATIONS) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each)
    document = _PARTS["document"]
    return {**document, "info": {**document["info"], "version": rangebound.__version__}, "paths": paths}


def _described(each: HttpOperation) -> dict[str, Any]:
    fault = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    answers: dict[str, Any] = {code: {"description": words, **fault} for code, words in _PARTS["faults"].items()}
    for code, words in each.gives.items():
        content = {each.media: {"schema": dict(each.schema)}} if code < 300 else fault["content"]
        answers[str(code)] = {"description": words, "content": content}
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "description": each.words,
        "responses": dict(sorted(answers.items())),
    }
    names = re.findall(r"\{(\w+)\}", each.path)
    if names:
        found["parameters"] = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in names]
    if each.takes is not None:
        schema = {"type": "object", "properties": dict(each.takes), "additionalProperties": False}
        schema |= {"required": list(each.needs)} if each.needs else {}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found


def page(operations: Iterable[HttpOperation] = OPERATIONS) -> str:
    """A page for people: what the server is, and every operation in a row."""
    rows = "".join(
        f"<tr><td><code>{each.method}</code></td><td><code>{html.escape(each.path)}</code></td>"
        f"<td>{html.escape(each.summary)}. {each.words}</td></tr>"
        for each in operations
    )
    text = files("rangebound.web.service").joinpath("page.html").read_text(encoding="utf-8")
    return Template(text).substitute(rows=rows)
