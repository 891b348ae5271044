"""A client of the service for analysts: three lines, and no package but httpx."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from rangebound.errors import RangeboundError
from rangebound.values import arguments, data_frames
from rangebound.values.extras import need

need("httpx", what="rangebound.web.client")
import httpx

_FILES = {"table.json": "table", "table.csv": "csv", "certificate.json": "certificate", "report.html": "report"}


class ServerRefusal(RangeboundError):
    """A server refused a request, or a release came to another end than a table; `status` is the code of HTTP."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """What a release has published: the table, its certificate, its report, and the record to file.

    A release from before the server wrote records has an empty one.
    """

    id: str
    table: bytes
    csv: str
    certificate: str
    report: str
    record: str = ""

    def rows(self) -> list[dict[str, str | None]]:
        """The table as texts, one mapping per row, with keys as they are in the data and None for what is empty."""
        from rangebound.values.serial import plain_text  # which needs more than the standard library

        found = csv.DictReader(io.StringIO(self.csv))
        return [{plain_text(name): plain_text(each) if each else None for name, each in row.items()} for row in found]

    def to_arrow(self) -> Any:
        """The table for Arrow: numbers and dates as such, keys as texts."""
        return data_frames.to_arrow(self._columns, self.rows())

    def to_pandas(self) -> Any:
        """The table for pandas: numbers and dates as such, keys as texts."""
        return data_frames.to_pandas(self._columns, self.rows())

    def to_polars(self) -> Any:
        """The table for Polars: numbers and dates as such, keys as texts."""
        return data_frames.to_polars(self._columns, self.rows())

    @property
    def _columns(self) -> list[str]:
        from rangebound.values.serial import plain_text

        return [plain_text(name) for name in next(csv.reader(io.StringIO(self.csv)))]


class Client:
    """A server, and a token for it.

    The account is that of the token if it has one alone, else it is given. Plans are paths of TOML files, texts of
    TOML, or dicts.
    """

    def __init__(self, url: str, token: str, *, account: str | None = None, timeout: float = 120.0) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ServerRefusal(f"url={url!r}: must begin with https:// (or http:// on this machine)", status=0)
        self._url, self._account = url.rstrip("/"), account
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(),  # whom this machine trusts, such as its own authority
            timeout=timeout,
            follow_redirects=False,  # a token goes to the server that it is for, and nowhere else
            limits=httpx.Limits(max_keepalive_connections=0),  # the server closes those that wait
        )

    def release(
        self,
        plan: str | Path | Mapping[str, Any],
        *,
        id: str | None = None,
        source: str | None = None,
        waiting: Callable[[str], None] | None = None,
    ) -> PublishedTable:
        """Ask for a release, wait for its end, and fetch what it has published.

        Without an `id` it is made of the plan, so that the same plan again is the same release, and charged once.
        `waiting` is told the state now and then. Any other end than a table is a `ServerRefusal`.
        """
        sent = _plan(plan)
        id = id or "plan-" + hashlib.sha256(json.dumps([sent, source], sort_keys=True).encode()).hexdigest()[:16]
        place = f"{self._place()}/releases"
        fields = {"id": id, "plan": sent} | ({} if source is None else {"source": source})
        state = self._json("POST", place, fields)
        while "again_in" in state:
            if waiting is not None:
                waiting(state["state"])
            time.sleep(min(max(float(state["again_in"]), 0.05), 30.0))
            state = self._json("GET", f"{place}/{quote(id)}")
        if state["state"] != "published":
            raise ServerRefusal(f"{id}: {state['state']}; {state.get('message', '')}", status=200)
        found = {field: self._ask("GET", f"{place}/{quote(id)}/{name}") for name, field in _FILES.items()}
        try:
            found["record"] = self._ask("GET", f"{place}/{quote(id)}/record.yaml")
        except ServerRefusal as error:
            if error.status != 404:
                raise
        table = found.pop("table")
        return PublishedTable(id=id, table=table, **{field: data.decode() for field, data in found.items()})

    def dry_run(self, plan: str | Path | Mapping[str, Any], *, source: str | None = None) -> dict[str, Any]:
        """What a plan would give; nothing is charged."""
        fields = {"plan": _plan(plan)} | ({} if source is None else {"source": source})
        return self._json("POST", f"{self._place()}/dry-runs", fields)

    def sources(self) -> list[dict[str, Any]]:
        """The sources of the account, with columns and types."""
        found: list[dict[str, Any]] = self._json("GET", f"{self._place()}/sources")["sources"]
        return found

    def accounts(self) -> list[dict[str, Any]]:
        """The accounts of the token, and what is left of them."""
        found: list[dict[str, Any]] = self._json("GET", "/v1/accounts")["accounts"]
        return found

    def requests(self) -> list[dict[str, Any]]:
        """The releases of the account, the last one first."""
        found: list[dict[str, Any]] = self._json("GET", f"{self._place()}/releases")["releases"]
        return found

    def asked(self, id: str) -> dict[str, Any]:
        """What a request for approval asks for: its plan and dry run."""
        return self._json("GET", f"{self._place()}/releases/{quote(id, safe='')}/request")

    def approve(self, id: str, reason: str = "") -> dict[str, Any]:
        """Approve a request; the token must be an approver's."""
        return self._json("POST", f"{self._place()}/releases/{quote(id, safe='')}/approve", {"reason": reason})

    def reject(self, id: str, reason: str = "") -> dict[str, Any]:
        """Reject a request; the token must be an approver's."""
        return self._json("POST", f"{self._place()}/releases/{quote(id, safe='')}/reject", {"reason": reason})

    def _place(self) -> str:
        if self._account is None:
            names = [each["account"] for each in self.accounts()]
            if len(names) != 1:
                raise ServerRefusal(f"account: missing; the token has {names}", status=0)
            self._account = names[0]
        return f"/v1/accounts/{quote(self._account, safe='')}"

    def _json(self, method: str, place: str, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ask(method, place, fields))
        return found

    def _ask(self, method: str, place: str, fields: Mapping[str, Any] | None = None) -> bytes:
        try:
            answer = self._http.request(method, self._url + place, json=fields)
        except (httpx.InvalidURL, httpx.RequestError) as error:
            raise ServerRefusal(f"url={self._url!r}: cannot be reached ({error})", status=0) from None
        if answer.is_success:
            return answer.content
        try:
            words = str(answer.json()["error"])
        except (ValueError, KeyError, TypeError):
            words = f"the server answered {answer.status_code}"
        raise ServerRefusal(words, status=answer.status_code)


def _plan(plan: str | Path | Mapping[str, Any]) -> str | dict[str, Any]:
    """A plan as it is sent: a dict, the text of a file, or a text."""
    if isinstance(plan, Mapping):
        return dict(plan)
    if isinstance(plan, Path) or (plan.endswith(".toml") and "\n" not in plan):
        return Path(plan).read_text(encoding="utf-8")
    return plan
