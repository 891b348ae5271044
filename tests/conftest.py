"""What every test shares: hypothesis without chance or clocks, and a guard against calls that never return."""

import contextlib
import os
import signal
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


class Hang(AssertionError):
    """A call did not return in time."""


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hang(f"no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def within() -> Callable[[float], contextlib.AbstractContextManager[None]]:
    """A block that fails when it takes longer than so many seconds: `with within(5): ...`."""
    return _within
