"""The operations of the server in one table, which the routes, the OpenAPI document and the page are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
