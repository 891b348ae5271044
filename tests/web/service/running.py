"""A real server process on a loopback port, and raw requests to it."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from rangebound.web.client import Client
from rangebound.web.service.job_store import TokenRole, TokenStore, database

PLAN = """
source = {table = "visits"}
unit = {column = "person", rows = 2}
budget = {epsilon = 0.5}
keys = {clinic = ["north", "south"]}

[[query]]
name = "visits"
kind = "count"
by = ["clinic"]
"""

SETTINGS = """
folder = "work"
ledger = "LEDGER"
[listen]
port = 0
[release]
delay = DELAY
time = TIME
attempts = ATTEMPTS
workers = 1
threads = 1
[limits]
tick = 0.01
reading = 2.0
requests = 100000
strangers = 100000
in_flight = IN_FLIGHT
body = 200000
[sources.visits]
path = "visits.csv"
unit = "person"
[sources.regions]
path = "regions.csv"
public = true
[sources.drugs]
path = "drugs.csv"
unit = "patient"
[sources.wages]
path = "wages.csv"
rows_are_units = true
[accounts.people]
sources = ["visits", "regions", "drugs"]
[accounts.staff]
sources = ["wages"]
[accounts.reviewed]
sources = ["visits"]
"""

# Put before the package in a worker: it waits after the charge as long as a file is there, or fails in words of a row.
HOOK = """
import os, sys, time
if "rangebound.web.service.worker" in sys.orig_argv:
    import rangebound.release.run as run
    inner = run.aggregated
    def held(*arguments):
        while os.path.exists({hold!r}):
            time.sleep(0.02)
        if os.path.exists({broken!r}):
            raise RuntimeError("the row of Ann Smith is odd")
        return inner(*arguments)
    run.aggregated = held
"""

PATIENCE = 120.0  # seconds that a test waits for what has to come, on a machine that others use too


class RunningServer:
    """A server process with its folder, tokens and ledger."""

    def __init__(self, folder: Path, *, ledger: Ledger | None = None, address: str = "", **changes: object) -> None:
        """With a ledger in a database, it is given open, and the address by which the server opens it."""
        self.folder, self.place = folder, address or str(folder / "people.ledger")
        values = {
            "LEDGER": address or "people.ledger",
            "DELAY": 0.2,
            "TIME": 60,
            "ATTEMPTS": 2,
            "IN_FLIGHT": 200,
        } | changes
        text = re.sub("|".join(values), lambda found: str(values[found[0]]), SETTINGS)
        (folder / "server.toml").write_text(text)
        rows = [f"{at % 150},{'north' if at % 3 else 'south'},{at % 90}" for at in range(300)]
        (folder / "visits.csv").write_text("\n".join(["person,clinic,age", *rows]))
        (folder / "regions.csv").write_text("clinic,region\nnorth,coast\nsouth,hills\n")
        (folder / "drugs.csv").write_text("\n".join(["patient,drug", *(f"{at},a" for at in range(100))]))
        (folder / "wages.csv").write_text("\n".join(["wage", *map(str, range(100))]))
        with ledger or Ledger.create(folder / "people.ledger") as ledger:
            ledger.open_account("people", epsilon=1000)
            ledger.open_account("staff", epsilon=1)
            ledger.open_account("reviewed", epsilon=10, approval=True)
        self.tokens = TokenStore(database(folder / "work"))
        self.hold, self.broken = folder / "hold", folder / "broken"
        (folder / "hook").mkdir()
        (folder / "hook" / "sitecustomize.py").write_text(HOOK.format(hold=str(self.hold), broken=str(self.broken)))
        self.start()

    def start(self) -> None:
        paths = [str(self.folder / "hook"), str(Path(__file__).resolve().parents[3] / "src")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rangebound", "serve", "--config", str(self.folder / "server.toml")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        )
        line = self.process.stdout.readline()
        found = re.fullmatch(r"serving at (http://127\.0\.0\.1:(\d+))\n", line)
        assert found, line + self.process.stderr.read()
        self.url, self.port = found[1], int(found[2])

    def token(self, who="anna", role="analyst", accounts=("people",), days=1.0) -> str:
        return self.tokens.make(who=who, role=TokenRole(role), accounts=tuple(accounts), days=days)

    def client(self, **given) -> Client:
        return Client(self.url, self.token(**given), account=given.get("accounts", ("people",))[0], timeout=PATIENCE)

    def ask(self, method, path, *, token=None, body=None, headers=None):
        """One request as it is, and its answer: status, headers and data."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        own = {} if token is None else {"Authorization": f"Bearer {token}"}
        if body is not None:
            own["Content-Type"] = "application/json"
        try:
            data = json.dumps(body).encode() if isinstance(body, dict) else body
            connection.request(method, path, data, {**own, **(headers or {})})
            answer = connection.getresponse()
            data = answer.read()
            json_like = answer.headers.get_content_type() == "application/json"
            return answer.status, dict(answer.headers), json.loads(data) if json_like else data
        finally:
            connection.close()

    def submit(self, token, id, plan=PLAN, account="people", **fields):
        path = f"/v1/accounts/{account}/releases"
        return self.ask("POST", path, token=token, body={"id": id, "plan": plan, **fields})

    def state(self, token, id, account="people"):
        return self.ask("GET", f"/v1/accounts/{account}/releases/{id}", token=token)[2]

    def ended(self, token, id, account="people"):
        """The end of a release, which has to come."""
        until(lambda: "again_in" not in self.state(token, id, account))
        return self.state(token, id, account)

    def asked(self, token, id):
        """Submit a request to the account that needs approval, and wait until it is seen to wait for that."""
        assert self.submit(token, id, account="reviewed")[0] == 202
        until(lambda: self.state(token, id, "reviewed")["state"] == "waiting for approval")

    def released(self, token, id, plan=PLAN, account="people"):
        """Submit a plan, and wait for its end; the state."""
        assert self.submit(token, id, plan, account)[0] == 202
        return self.ended(token, id, account)["state"]

    def raw(self, data: bytes) -> bytes:
        """What the server answers to some bytes until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(data)
            return drained(connection)

    def entries(self, kind: EntryKind, request: str):
        with Ledger.open(self.place) as ledger:
            return [each for each in ledger.history() if each.kind is kind and each.request == request]

    def charged_and_held(self, token, id) -> str:
        """Submit a request that is charged, and reads its data as long as the file `hold` is there."""
        self.hold.touch()
        assert self.submit(token, id)[0] == 202
        until(lambda: self.entries(EntryKind.SPEND, f"people/visits/{id}"))
        return f"people/visits/{id}"

    def workers(self) -> list[int]:
        """The ids of the worker processes, as Linux lists them."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(each) for each in text.split()]

    def kill_workers(self) -> list[int]:
        before = self.workers()
        for each in before:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        return before

    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted((self.folder / "work").glob("*.log")))

    def kill(self) -> None:
        """End the server at once, with its workers."""
        self.process.send_signal(signal.SIGSTOP)
        self.kill_workers()
        self.process.kill()
        self.process.communicate()

    def stop(self) -> tuple[int, str]:
        """End the server as a custodian would; its exit code and error stream."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


def until(condition) -> None:
    """Wait for what has to come."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def drained(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    found = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            found += piece
    return found


@contextmanager
def running(folder: Path, **changes: Any):
    server = RunningServer(folder, **changes)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()
