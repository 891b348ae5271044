"""Requests on the disk: the first of two has an id, and a state is left once."""

import os
from dataclasses import replace

import pytest

from rangebound.errors import ArgumentError
from rangebound.web.service.job_store import Job, JobState, JobStore, database

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
    assert jobs.of(["staff"]) == []
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
