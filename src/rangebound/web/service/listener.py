"""The server process: a socket, a limit for those who never finish their headers, and the log of the custodian."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from rangebound.web.gate import listening, serve_until_stopped
from rangebound.web.service.application import LARGEST_HEADERS, application
from rangebound.web.service.job_store import sole_server
from rangebound.web.service.office import Office
from rangebound.web.service.rate import peer_of
from rangebound.web.service.settings import Server, read_settings


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
        self._late: asyncio.TimerHandle | None = None
        self.peer = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the connection, and begin to wait for a request."""
        super().connection_made(transport)
        self.peer = peer_of(self.client[0] if self.client else "")
        self._make_room()
        self._wait()

    def _make_room(self) -> None:
        others = [
            each
            for each in self.connections
            if isinstance(each, PatientProtocol) and each is not self and not each.transport.is_closing()
        ]
        held = Counter(each.peer for each in others)
        full = self.most_of_one is not None and held[self.peer] >= self.most_of_one
        if not full and len(others) < self.most:
            return
        waiting = [each for each in others if each.late is not None and (not full or each.peer == self.peer)]
        if waiting:
            min(waiting, key=lambda each: (-held[each.peer], each.late)).transport.abort()
        elif full:
            self.transport.abort()

    @property
    def late(self) -> float | None:
        """When it has waited long enough for a request; None while one is answered."""
        return None if self._late is None else self._late.when()

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
        self._late = self.loop.call_later(self.patience, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def serve(config: Path, *, ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it; `ready` is told the address once the socket is there."""
    server = read_settings(config)
    with sole_server(server.folder):
        _log(server)
        _serve(server, Office(server, config.absolute()), ready)


def _serve(server: Server, office: Office, ready: Callable[[str], None]) -> None:
    listen, limits = server.settings.listen, server.settings.limits
    of_one = None if listen.behind_proxy else limits.connections_of_one  # a proxy speaks for everybody
    own = {"patience": limits.reading, "most": limits.connections, "most_of_one": of_one}
    protocol = type("Protocol", (PatientProtocol,), own)
    certificate = None if listen.certificate is None else str(server.home / listen.certificate)
    key = None if listen.key is None else str(server.home / listen.key)
    bound = listening(listen.host, listen.port)
    scheme = "http" if certificate is None else "https"
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    ready(f"{scheme}://{host}:{bound.getsockname()[1]}")
    serve_until_stopped(
        application(office),
        bound,
        http=protocol,
        proxy_headers=False,
        limit_concurrency=limits.connections + 1,  # one more than there may be is answered by 503
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=LARGEST_HEADERS,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def _log(server: Server) -> None:
    """Write what happens to the custodian's log, in the server's folder."""
    handler = logging.FileHandler(server.folder / "server.log", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    for name in ("rangebound.serve", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(handler)
