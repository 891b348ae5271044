"""The operations of the server in one table, and what is made of it: the OpenAPI document and a page for people."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import rangebound
from rangebound.web.service.token_store import TokenRole

TEXT: dict[str, Any] = {"type": "string"}
PLAN: dict[str, Any] = {
    "description": 'The text of a TOML plan, or the plan as an object (dates as {"date": "2025-01-31"}).',
    "oneOf": [{"type": "string"}, {"type": "object"}],
}
RELEASE = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("account", "id", "who", "source", "message"), TEXT),
        "state": {
            "type": "string",
            "enum": ["waiting for approval", "running", "published", "refused", "failed", "rejected"],
        },
        "again_in": {"type": "number", "description": "seconds until the state may be another"},
        "answers": {"type": "array", "items": TEXT},
    },
    "required": ["account", "id", "who", "source", "state"],
}
OBJECT: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True, kw_only=True)
class HttpOperation:
    """One operation: its method and path, who may use it, what it takes and gives."""

    method: str
    path: str
    summary: str
    roles: tuple[TokenRole, ...]
    gives: Mapping[int, str]
    schema: Mapping[str, Any] = field(default_factory=lambda: OBJECT)
    media: str = "application/json"
    takes: Mapping[str, Any] | None = None
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name for programs that are made of the OpenAPI document."""
        words = self.path.removeprefix("/v1").replace("{", "").replace("}", "").replace(".", "_").replace("-", "_")
        return f"{self.method.lower()}{words.replace('/', '_')}"


_ANALYST, _BOTH, _APPROVER = (TokenRole.ANALYST,), (TokenRole.ANALYST, TokenRole.APPROVER), (TokenRole.APPROVER,)
_A = "/v1/accounts/{account}"
_R = f"{_A}/releases/{{id}}"
_FILES = {
    "table.json": ("The published table: the bytes that the certificate is about", "application/json"),
    "table.csv": ("The published table as CSV", "text/csv"),
    "certificate.json": ("The certificate of the table", "application/json"),
    "report.html": ("The report of the release, one page", "text/html"),
    "record.yaml": ("The record for the registry of deployments, with what is left open marked", "application/yaml"),
}
_DECISIONS = {
    "approve": "Approve a request of somebody else: it is charged and run",
    "reject": "Reject a request, for good; nothing is charged",
}

OPERATIONS: tuple[HttpOperation, ...] = (
    HttpOperation(
        method="GET",
        path="/v1/accounts",
        summary="The accounts of the token, and what is left of them, as of the last multiple of the delay",
        roles=_BOTH,
        gives={200: "the accounts"},
    ),
    HttpOperation(
        method="GET",
        path=f"{_A}/sources",
        summary="The sources of an account: columns and types, and whom releases protect",
        roles=_BOTH,
        gives={200: "the sources"},
    ),
    HttpOperation(
        method="POST",
        path=f"{_A}/dry-runs",
        summary="Check a plan and see what it would give; nothing is charged, and no row is read",
        roles=_BOTH,
        gives={200: "the plan in words, its cost and errors"},
        takes={"plan": PLAN, "source": TEXT},
        needs=("plan",),
    ),
    HttpOperation(
        method="GET",
        path=f"{_A}/releases",
        summary="The releases of an account, the last one first",
        roles=_BOTH,
        gives={200: "the releases"},
    ),
    HttpOperation(
        method="POST",
        path=f"{_A}/releases",
        summary="Ask for a release; the same id with the same plan is the same release, and charged once",
        roles=_ANALYST,
        gives={202: "the release, as it stands", 409: "the id was used for another plan"},
        schema=RELEASE,
        takes={"id": {**TEXT, "description": "1 to 64 letters, digits, . - _"}, "plan": PLAN, "source": TEXT},
        needs=("id", "plan"),
    ),
    HttpOperation(
        method="GET",
        path=_R,
        summary="A release as it stands; its end is seen at multiples of the delay after it began",
        roles=_BOTH,
        gives={200: "the release"},
        schema=RELEASE,
    ),
    *(
        HttpOperation(
            method="GET", path=f"{_R}/{name}", summary=words, roles=_BOTH, gives={200: "the file"}, media=media
        )
        for name, (words, media) in _FILES.items()
    ),
    HttpOperation(
        method="GET",
        path=f"{_R}/request",
        summary="What a request for approval asks for: its plan and dry run",
        roles=_BOTH,
        gives={200: "the plan and what it would give"},
    ),
    *(
        HttpOperation(
            method="POST",
            path=f"{_R}/{verb}",
            summary=words,
            roles=_APPROVER,
            gives={200: "the release", 409: "it cannot be decided so"},
            schema=RELEASE,
            takes={"reason": TEXT},
        )
        for verb, words in _DECISIONS.items()
    ),
)
"""All operations that need a token."""

_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
_FAULTS = {
    "400": "the body is not what it must be",
    "401": "no token, or one that is wrong, has ended or was revoked",
    "403": "the role of the token does not allow it",
    "404": "no such thing, or none for this token",
    "408": "the request came too slowly",
    "413": "the body is too large",
    "415": "the body must be JSON, and not compressed",
    "422": "the plan is refused; the error says why",
    "429": "too many requests, or releases in flight",
    "503": "not possible now",
}


def document(operations: Iterable[HttpOperation] = OPERATIONS) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "rangebound serve", "version": rangebound.__version__},
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
        "paths": paths,
    }


def _described(each: HttpOperation) -> dict[str, Any]:
    fault = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    answers: dict[str, Any] = {code: {"description": words, **fault} for code, words in _FAULTS.items()}
    for code, words in each.gives.items():
        content = {each.media: {"schema": dict(each.schema)}} if code < 300 else fault["content"]
        answers[str(code)] = {"description": words, "content": content}
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "description": f"For {' and '.join(role.value for role in each.roles)}s.",
        "responses": dict(sorted(answers.items())),
    }
    names = re.findall(r"\{(\w+)\}", each.path)
    if names:
        found["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if each.takes is not None:
        schema = {"type": "object", "properties": dict(each.takes), "additionalProperties": False}
        schema |= {"required": list(each.needs)} if each.needs else {}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found


def page(operations: Iterable[HttpOperation] = OPERATIONS) -> str:
    """A page for people: what the server is, and every operation in a row."""
    rows = "".join(
        f"<tr><td><code>{each.method}</code></td><td><code>{html.escape(each.path)}</code></td>"
        f"<td>{html.escape(each.summary)}. For {' and '.join(role.value for role in each.roles)}s.</td></tr>"
        for each in operations
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>rangebound serve</title>'
        "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "td{padding:.2rem .6rem;vertical-align:top}</style>"
        "<h1>rangebound serve</h1><p>Private tables for those who may not see the data. Send a plan, look at its dry "
        "run, ask for the release, and fetch the table with its certificate and report. Every request needs a token: "
        "<code>Authorization: Bearer rb_...</code>. Answers about a release come at fixed delays.</p>"
        f'<p>For programs: <a href="/openapi.json">openapi.json</a>.</p><table>{rows}</table></html>\n'
    )
