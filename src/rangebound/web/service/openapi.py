"""The OpenAPI document of the server and a page for people, both made of the table of operations."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

import rangebound
from rangebound.web.service.routes import OPERATIONS, HttpOperation

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
