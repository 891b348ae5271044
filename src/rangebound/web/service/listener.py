"""The server process: a socket, a limit for those who never finish their headers, the custodian's log; and a demo."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from rangebound.ledger.book import Ledger
from rangebound.release import demo
from rangebound.web.gate import listening, serve_until_stopped
from rangebound.web.service.application import LARGEST_HEADERS, application
from rangebound.web.service.job_store import TokenRole, TokenStore, database, peer_of, sole_server
from rangebound.web.service.office import Office
from rangebound.web.service.settings import read_settings


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection whose next request has not begun to be answered after `patience` seconds.

    There are at most `most` connections, and `most_of_one` from one address. Where one more comes, that which has
    waited longest for a request is closed, of the same address, or else of that with the most; whoever sends a request
    at once is answered, however many others only hold connections.
    """

    patience = 10.0
    most = 256
    most_of_one: int | None = 64

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.late: asyncio.TimerHandle | None = None  # when it has waited long enough; None while one is answered
        self.peer = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the connection, and begin to wait for a request."""
        super().connection_made(transport)
        self.peer = peer_of(self.client[0] if self.client else "")
        others = [
            each
            for each in self.connections
            if isinstance(each, PatientProtocol) and each is not self and not each.transport.is_closing()
        ]
        held = Counter(each.peer for each in others)
        full = self.most_of_one is not None and held[self.peer] >= self.most_of_one
        if full or len(others) >= self.most:
            near = [each for each in others if not full or each.peer == self.peer]
            waiting = [(-held[each.peer], each.late.when(), each) for each in near if each.late is not None]
            if waiting:
                min(waiting, key=lambda one: one[:2])[2].transport.abort()
            elif full:
                self.transport.abort()
        self._wait()

    def handle_events(self) -> None:
        """Read what came; a request whose headers are there is waited for no longer."""
        super().handle_events()
        if not getattr(self.cycle, "response_complete", True):  # None before the first one
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self.late = self.loop.call_later(self.patience, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self.late is not None:
            self.late.cancel()
            self.late = None


def serve(config: Path, *, ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it; `ready` is told the address once the socket is there."""
    server = read_settings(config)
    listen, limits = server.settings.listen, server.settings.limits
    with sole_server(server.folder):
        handler = logging.FileHandler(server.folder / "server.log", encoding="utf-8")  # the custodian's
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        for name in ("rangebound.serve", "uvicorn.error"):
            logger = logging.getLogger(name)
            logger.setLevel(logging.INFO)
            logger.propagate = False
            logger.addHandler(handler)
        office = Office(server, config.absolute())
        of_one = None if listen.behind_proxy else limits.connections_of_one  # a proxy speaks for everybody
        own = {"patience": limits.reading, "most": limits.connections, "most_of_one": of_one}
        certificate, key = (
            None if each is None else str(server.home / each) for each in (listen.certificate, listen.key)
        )
        bound = listening(listen.host, listen.port)
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        ready(f"{'http' if certificate is None else 'https'}://{host}:{bound.getsockname()[1]}")
        serve_until_stopped(
            application(office),
            bound,
            http=type("Protocol", (PatientProtocol,), own),
            proxy_headers=False,
            limit_concurrency=limits.connections + 1,  # one more than there may be is answered by 503
            timeout_keep_alive=5,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=LARGEST_HEADERS,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )


def demo_plan() -> str:
    """A plan for the made-up visits as an analyst would send it: the source by its public name, and no ledger."""
    return demo.plan().replace('path = "visits.csv"', 'table = "visits"').replace('ledger = "clinics.ledger"\n', "")


def make_demo(folder: Path, port: int) -> dict[str, str]:
    """Fill a folder with all that a server needs; the tokens of an analyst and of an approver, by their names."""
    (folder / demo.TABLE).write_text(demo.table(), encoding="utf-8")
    (folder / "plan.toml").write_text(demo_plan(), encoding="utf-8")
    (folder / "server.toml").write_text(_text("demo_server.toml").replace("8800", str(port)), encoding="utf-8")
    with Ledger.create(folder / demo.LEDGER) as ledger:
        ledger.open_account("clinics", epsilon=20, who="owner")
        ledger.open_account("reviewed", epsilon=20, approval=True, who="owner")
    connection = database(folder / "work")
    tokens = TokenStore(connection)
    accounts = ("clinics", "reviewed")
    found = {
        "anna": tokens.make(who="anna", role=TokenRole.ANALYST, accounts=accounts, days=1),
        "berta": tokens.make(who="berta", role=TokenRole.APPROVER, accounts=accounts, days=1),
    }
    connection.close()
    return found


def what_to_type(folder: Path, url: str, tokens: dict[str, str]) -> str:
    """The commands to try the server with."""
    return Template(_text("demo.txt")).substitute(tokens, folder=folder, url=url, plan=folder / "plan.toml")


def _text(name: str) -> str:
    return files("rangebound.web.service").joinpath(name).read_text(encoding="utf-8")
