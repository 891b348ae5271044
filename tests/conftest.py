"""What every test shares: hypothesis without chance or clocks, and a guard against calls that never return."""

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

os.environ["MPLBACKEND"] = "Agg"  # pictures are drawn, never shown

settings.register_profile(
    "rangebound",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("rangebound")


TRACED = 1
"""How many cases of a test are traced where coverage is measured."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Measure coverage in the first cases of every test alone: tracing makes Python code two to three times as slow.

    What is measured is then a lower bound of what the tests reach.
    """
    if config.pluginmanager.hasplugin("_cov"):
        cases: Counter[str] = Counter()
        for item in items:
            test = item.nodeid.partition("[")[0]
            cases[test] += 1
            if cases[test] > TRACED or UNTRACED & {item.path.parent.name, item.path.stem}:
                item.add_marker(pytest.mark.no_cover)


UNTRACED = {
    *("benchmarks", "crosscheck", "errata", "matrix", "papers", "statistical"),
    *("test_examples", "test_neighbours", "test_one_row", "test_outside", "test_properties", "test_random_calls"),
    *("test_range", "test_readme"),
}
"""Folders and files that take long and reach little that the tests of the modules do not."""


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
