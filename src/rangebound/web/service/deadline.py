"""When an answer becomes visible: at a multiple of a fixed delay after its request, and its timing reveals no more."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rangebound.web.service.job_store import Job, JobState


@dataclass(frozen=True, kw_only=True)
class SeenState:
    """What an analyst sees of a request at some moment: its state, and when to look again if it is not at its end."""

    state: str
    again: float | None
    message: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.again is None


RUNNING = "running"


def seen(job: Job, now: float, delay: float) -> SeenState:
    """What may be seen of a request now.

    The answer to a request of time b that was ready at time d becomes visible at b + k delay, where k is the smallest
    whole number, at least 1, with d <= b + k delay. Until then the request is "running", whatever has happened.

    Guarantee: the view is a function of the request, of `now`, and of k for those multiples that have passed.
    Edge cases: that a request waits for approval is seen at a multiple too, since it is filed once an earlier release
    has made room. A clock that was put back delays an answer and shows none early.

    >>> job = Job(account="a", id="1", who="w", source="s", plan="", begun=100.0, done=101.5, state=JobState.PUBLISHED)
    >>> seen(job, 109.9, 10.0).state, seen(job, 110.0, 10.0).state
    ('running', 'published')
    """
    if job.done is not None and now >= available(job.begun, job.done, delay):
        again = delay if job.state is JobState.WAITING else None
        return SeenState(state=job.state.value, again=again, message=job.message)
    passed = max(0, math.floor((now - job.begun) / delay))
    return SeenState(state=RUNNING, again=job.begun + (passed + 1) * delay - now)


def available(begun: float, done: float, delay: float) -> float:
    """The first multiple of the delay at which an answer that was there at `done` is available."""
    return begun + max(1, math.ceil((done - begun) / delay)) * delay


def next_tick(began: float, now: float, tick: float) -> float:
    """How long to wait so that an answer goes out at a multiple of `tick` after its request came.

    >>> next_tick(10.0, 10.75, 0.5)
    0.25
    """
    return began + max(1, math.ceil((now - began) / tick)) * tick - now
