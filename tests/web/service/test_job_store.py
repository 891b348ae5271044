"""Requests on the disk: the first of two has an id, a state is left once, an end is seen at a multiple of the delay."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import ArgumentError
from rangebound.web.service.job_store import Job, JobState, JobStore, available, database, seen, sole_server
from tests.web.service.running import PATIENCE

JOB = Job(account="people", id="one", who="anna", source="visits", plan="p", begun=10.0)


def test_requests_outlive_the_process_that_took_them_and_are_approved_once(tmp_path):
    first = database(tmp_path / "work")
    assert JobStore(first).add(JOB) == JOB
    first.close()
    if os.name == "posix":
        assert (tmp_path / "work" / "server.sqlite").stat().st_mode & 0o077 == 0
    second = database(tmp_path / "work")
    jobs = JobStore(second)
    assert jobs.open() == [JOB]
    assert jobs.add(replace(JOB, plan="other", begun=11.0)) == JOB  # the first one has the id
    assert jobs.change(JOB, JobState.PUBLISHED, done=12.0)
    assert not jobs.change(JOB, JobState.FAILED, done=13.0)  # it was not queued any more
    assert jobs.find("people", "one").state is JobState.PUBLISHED
    assert jobs.open() == []
    assert (jobs.since(11.0), jobs.since(12.5)) == ([jobs.find("people", "one")], [])
    assert jobs.of("staff") == []
    assert JOB.request == "people/visits/one"
    assert set(replace(JOB, id="..").folder) <= set("0123456789abcdef")  # no letter of a client
    assert replace(JOB, id="a").folder != replace(JOB, id="b").folder
    waiting = jobs.add(replace(JOB, id="two", state=JobState.WAITING))
    assert jobs.approved(waiting, 99.0)  # it may run once, from that moment on
    assert not jobs.approved(waiting, 100.0)
    assert jobs.find("people", "two") == replace(JOB, id="two", begun=99.0)
    second.close()


@pytest.mark.skipif(os.name != "posix", reason="has no modes of files")
def test_a_folder_that_others_can_enter_is_refused(tmp_path):
    for mode in (0o755, 0o710, 0o701):
        folder = tmp_path / f"{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        with pytest.raises(ArgumentError, match="chmod 700"):
            database(folder)
        assert list(folder.iterdir()) == []
        folder.chmod(0o700)
        database(folder).close()  # the control


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
    assert (found.again is None) == (1e9 + now >= moment)
    assert found.state == (state.value if found.again is None else "running")


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
    assert seen(waiting, 1e9 + 60.0, 60.0).again is not None
    rejected = job(state=JobState.REJECTED, done=waiting.done, message="no")
    assert seen(rejected, 1e9 + 61.0, 60.0).message == "no"


HOLD = "import sys, pathlib\nfrom rangebound.web.service.job_store import sole_server\n"
HOLD += "with sole_server(pathlib.Path(sys.argv[1])):\n"


@pytest.mark.slow
def test_a_second_server_on_a_folder_is_refused_and_the_first_goes_on(server):
    other = server.folder / "other.toml"
    other.write_text((server.folder / "server.toml").read_text())
    command = [sys.executable, "-m", "rangebound", "serve", "--config", str(other)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (found.returncode, found.stdout) == (2, "")
    assert f"process {server.process.pid} serves this folder already" in found.stderr
    assert "Traceback" not in found.stderr
    assert server.ask("GET", "/v1/accounts", token=server.token())[0] == 200


def test_a_lock_ends_with_its_process_and_not_with_those_that_it_started(tmp_path):
    started = "    import subprocess as s; s.Popen(['sleep', '30'], stdout=2); print(1, flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD + started, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert holder.stdout.readline() == b"1\n"
    with pytest.raises(ArgumentError, match=f"process {holder.pid} serves"), sole_server(tmp_path):
        pytest.fail("two hold one folder")
    holder.kill()
    holder.communicate()
    with sole_server(tmp_path):
        assert (tmp_path / "server.lock").read_text().strip().isdecimal()
    with sole_server(tmp_path):  # and once more, after an orderly end
        pass
