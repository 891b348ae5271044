"""Workers that are killed, servers that are started again, times that are up: one charge, one answer, public words."""

import json
import os
import signal
import time
from contextlib import suppress

import pytest

from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from rangebound.serve.client import ServerRefusal
from tests.serve.running import PATIENCE, running

ME = "/v1/accounts/people/releases"


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A server whose releases can be held after their charge."""
    with running(tmp_path_factory.mktemp("held"), DELAY=0.5, IN_FLIGHT=2) as found:
        yield found


def charged_and_held(server, id, token):
    """A release that was charged, and reads its data as long as the file `hold` is there."""
    server.hold.touch()
    assert server.submit(token, id)[0] == 202
    server.until_charged(f"people/visits/{id}")
    return f"people/visits/{id}"


def kill_workers(server):
    before = server.workers()
    for each in before:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    return before


def until(condition):
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_worker_that_is_killed_is_replaced_and_the_request_is_charged_once(held):
    token = held.token()
    request = charged_and_held(held, "killed-once", token)
    killed = kill_workers(held)
    until(lambda: "attempt 1" in held.log())
    held.hold.unlink()
    assert held.ended(token, "killed-once")["state"] == "published"
    assert len(held.entries(EntryKind.SPEND, request)) == 1
    assert len(held.entries(EntryKind.PUBLISH, request)) == 1
    assert not set(killed) & set(held.workers())


def test_a_request_whose_workers_are_all_killed_fails_in_public_words_and_stays_charged(held):
    token = held.token()
    request = charged_and_held(held, "killed-always", token)
    log = held.log()
    kill_workers(held)
    until(lambda: "attempt 1" in held.log()[len(log) :])
    until(lambda: (kill_workers(held), "attempt 2" in held.log()[len(log) :])[1])
    held.hold.unlink()
    found = held.ended(token, "killed-always")
    assert found["state"] == "failed"
    assert "worker" not in found["message"]
    assert len(held.entries(EntryKind.SPEND, request)) == 1
    assert held.entries(EntryKind.PUBLISH, request) == []
    assert held.ask("GET", f"{ME}/killed-always/table.csv", token=token)[0] == 404
    assert held.submit(token, "killed-always")[2]["state"] == "failed"  # one request, one answer


def test_what_goes_wrong_with_the_data_is_for_the_log_alone(held):
    token = held.token()
    held.broken.touch()
    try:
        assert held.submit(token, "broken")[0] == 202
        found = held.ended(token, "broken")
    finally:
        held.broken.unlink()
    listed = held.ask("GET", ME, token=token)[2]
    assert found["state"] == "failed"
    for word in ("Ann", "odd", "Error", "aggregate", str(held.folder)):
        assert word not in json.dumps([found, listed])
    assert "the row of Ann Smith is odd" in held.log()  # the custodian's


def test_a_server_that_was_killed_runs_its_requests_again(held):
    token = held.token()
    request = charged_and_held(held, "restarted", token)
    held.kill()
    assert held.entries(EntryKind.PUBLISH, request) == []
    held.hold.unlink()
    held.start()
    assert held.ended(token, "restarted")["state"] == "published"
    assert len(held.entries(EntryKind.SPEND, request)) == 1
    found = held.ask("GET", f"{ME}/restarted/table.json", token=token)[2]
    with Ledger.open(held.folder / "people.ledger") as ledger:
        assert json.loads(ledger.published(request)) == found
        assert ledger.verify()


def test_the_end_of_a_release_is_seen_at_a_multiple_of_the_delay_and_not_before(tmp_path):
    with running(tmp_path, DELAY=4, TIME=12, ATTEMPTS=1) as server:
        token = server.token()
        began = time.monotonic()
        assert server.submit(token, "quick")[0] == 202
        until(lambda: "people/visits/quick: published" in server.log())
        inside = server.ask("GET", f"{ME}/quick", token=token)[2]
        early = server.ask("GET", f"{ME}/quick/table.csv", token=token)[0]
        in_time = time.monotonic() - began < 4  # on a machine that is far too slow nothing was early
        assert (inside["state"], early) == ("running", 404) or not in_time
        assert server.ended(token, "quick")["state"] == "published"
        assert time.monotonic() - began >= 4
        # A time that is up: the worker is gone, the charge stands, and the end says nothing more.
        request = charged_and_held(server, "slow", token)
        found = server.ended(token, "slow")
        assert found["state"] == "failed"
        assert "time is up" in server.log()
        assert len(server.entries(EntryKind.SPEND, request)) == 1
        code, errors = server.stop()
        assert errors == ""
        assert code in (0, 143, -15)


def test_more_releases_than_may_be_in_flight_are_refused_until_others_are_seen_to_end(held):
    token = held.token(who="dora")
    held.hold.touch()
    assert [held.submit(token, f"r-{at}")[0] for at in range(3)] == [202, 202, 429]
    assert held.submit(held.token(who="carl"), "r-3")[0] == 202
    held.hold.unlink()
    held.ended(token, "r-0")
    held.ended(token, "r-1")
    assert held.submit(token, "r-4")[0] == 202


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A server with one worker and a delay that a test can look into."""
    with running(tmp_path_factory.mktemp("slow"), DELAY=5) as found:
        yield found


def test_when_a_request_began_to_wait_for_approval_does_not_tell_when_another_release_ended(slow):
    token = slow.token(accounts=("people", "reviewed"))
    berta = slow.client(who="berta", role="approver", accounts=("reviewed",))
    charged_and_held(slow, "before", token)
    began = time.monotonic()
    assert slow.submit(token, "behind", account="reviewed")[0] == 202
    slow.hold.unlink()
    until(lambda: slow.entries(EntryKind.REQUEST, "reviewed/visits/behind"))
    place = "/v1/accounts/reviewed/releases"
    looks = [slow.ask("GET", f"{place}/behind", token=token)[2]["state"]]
    looks += [each["state"] for each in slow.ask("GET", place, token=token)[2]["releases"]]
    codes = [slow.ask("GET", f"{place}/behind/request", token=token)[0]]
    with pytest.raises(ServerRefusal) as caught:
        berta.approve("behind")
    codes.append(caught.value.status)
    in_time = time.monotonic() - began < 5  # on a machine that is far too slow nothing was early
    assert (looks, codes) == (["running"] * 2, [404, 409]) or not in_time
    until(lambda: slow.ask("GET", f"{place}/behind", token=token)[2]["state"] == "waiting for approval")
    assert berta.asked("behind")["who"] == "anna"
    assert berta.approve("behind")["state"] == "running"
    assert berta.approve("behind")["state"] == "running"  # the same decision again
    assert slow.ended(token, "behind", "reviewed")["state"] == "published"


def test_what_is_left_counts_a_release_once_its_end_is_seen(slow):
    token = slow.token()

    def left():
        return slow.ask("GET", "/v1/accounts", token=token)[2]["accounts"][0]["left"]

    before = left()
    charged_and_held(slow, "counted", token)
    assert left() == before
    slow.hold.unlink()
    slow.ended(token, "counted")
    assert left() != before
    with Ledger.open(slow.folder / "people.ledger") as ledger:
        assert left() == ledger.account("people").left
