"""Delays: what is seen before a multiple does not depend on when the work was done."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rangebound.web.service.deadline import available, next_tick, seen
from rangebound.web.service.job_store import Job, JobState

ENDS = [JobState.PUBLISHED, JobState.REFUSED, JobState.FAILED]
times = st.floats(0.0, 1e6)
delays = st.floats(0.01, 1e4)


def job(**fields):
    return Job(account="a", id="1", who="w", source="s", plan="", begun=1e9, **fields)


@given(done=times, now=times, delay=delays, state=st.sampled_from(ENDS))
def test_an_end_is_seen_from_the_first_multiple_after_it_on(done, now, delay, state):
    found = seen(job(state=state, done=1e9 + done), 1e9 + now, delay)
    moment = available(1e9, 1e9 + done, delay)
    assert moment >= 1e9 + done - 1e-6 * delay
    assert abs((moment - 1e9) / delay - round((moment - 1e9) / delay)) < 1e-3
    assert found.ended == (1e9 + now >= moment)
    assert found.state == (state.value if found.ended else "running")


@given(first=times, second=times, now=times, delay=delays, ends=st.tuples(st.sampled_from(ENDS), st.sampled_from(ENDS)))
def test_within_one_multiple_two_ends_look_alike(first, second, now, delay, ends):
    moments = [available(1e9, 1e9 + each, delay) for each in (first, second)]
    if 1e9 + now < min(moments):
        one, other = (
            seen(job(state=state, done=1e9 + each, message="m"), 1e9 + now, delay)
            for state, each in zip(ends, (first, second), strict=True)
        )
        assert one == other == seen(job(), 1e9 + now, delay)  # and like one that still runs


def test_control_without_delays_ends_would_look_different():
    one, other = (seen(job(state=JobState.PUBLISHED, done=1e9 + each), 1e9 + 5.0, 1e-3) for each in (4.0, 6.0))
    assert one != other


@given(now=times, delay=delays)
def test_one_that_runs_is_to_be_looked_at_again_at_the_next_multiple(now, delay):
    found = seen(job(), 1e9 + now, delay)
    assert found.again is not None
    assert 0.0 <= found.again <= delay * (1 + 1e-6) + 1e-6


def test_waiting_is_seen_at_a_multiple_and_a_rejection_of_what_was_seen_to_wait_at_once():
    waiting = job(state=JobState.WAITING, done=1e9 + 1.0)
    assert seen(waiting, 1e9 + 59.0, 60.0) == seen(job(), 1e9 + 59.0, 60.0)
    assert seen(waiting, 1e9 + 60.0, 60.0).state == "waiting for approval"
    assert not seen(waiting, 1e9 + 60.0, 60.0).ended
    rejected = job(state=JobState.REJECTED, done=waiting.done, message="no")
    assert seen(rejected, 1e9 + 61.0, 60.0).message == "no"


@given(spent=st.floats(0.0, 1000.0), tick=st.floats(0.01, 10.0))
def test_a_tick_is_waited_for(spent, tick):
    wait = next_tick(0.0, spent, tick)
    assert -1e-9 <= wait <= tick
    assert math.isclose((spent + wait) / tick, max(1, round((spent + wait) / tick)), abs_tol=1e-6)
