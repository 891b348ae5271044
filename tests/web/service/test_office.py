"""Workers that are killed, servers that are started again, times that are up: one charge, one answer, public words."""

import json
import time

import pytest

from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from rangebound.web.client import ServerRefusal
from tests.web.service.running import running, until

ME = "/v1/accounts/people/releases"


@pytest.mark.slow
@pytest.mark.parametrize("attempts", [1, 2], ids=["once", "always"])
def test_a_worker_that_is_killed_is_replaced_and_the_request_is_charged_once(server, attempts):
    token, id, log = server.token(), f"killed-{attempts}", len(server.log())
    request = server.charged_and_held(token, id)
    killed = server.kill_workers()
    until(lambda: "attempt 1" in server.log()[log:])
    if attempts == 2:  # as many as it has
        until(lambda: (server.kill_workers(), "attempt 2" in server.log()[log:])[1])
    server.hold.unlink()
    found = server.ended(token, id)
    assert found["state"] == ("published" if attempts == 1 else "failed")
    assert "worker" not in found.get("message", "")
    assert len(server.entries(EntryKind.SPEND, request)) == 1
    assert len(server.entries(EntryKind.PUBLISH, request)) == 2 - attempts
    assert not set(killed) & set(server.workers())
    assert server.ask("GET", f"{ME}/{id}/table.csv", token=token)[0] == (200 if attempts == 1 else 404)
    assert server.submit(token, id)[2]["state"] == found["state"]  # one request, one answer


def test_what_goes_wrong_with_the_data_is_for_the_log_alone(server):
    token = server.token()
    server.broken.touch()
    try:
        assert server.released(token, "broken") == "failed"
    finally:
        server.broken.unlink()
    found, listed = server.state(token, "broken"), server.ask("GET", ME, token=token)[2]
    for word in ("Ann", "odd", "Error", "aggregate", str(server.folder)):
        assert word not in json.dumps([found, listed])
    assert "the row of Ann Smith is odd" in server.log()  # the custodian's


@pytest.mark.slow
def test_a_server_that_was_killed_runs_its_requests_again(server):
    token = server.token()
    request = server.charged_and_held(token, "restarted")
    server.kill()
    assert server.entries(EntryKind.PUBLISH, request) == []
    server.hold.unlink()
    server.start()
    assert server.ended(token, "restarted")["state"] == "published"
    assert len(server.entries(EntryKind.SPEND, request)) == 1
    found = server.ask("GET", f"{ME}/restarted/table.json", token=token)[2]
    with Ledger.open(server.folder / "people.ledger") as ledger:
        assert json.loads(ledger.published(request)) == found
        assert ledger.verify()


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A server with one worker and a delay that a test can look into."""
    with running(tmp_path_factory.mktemp("slow"), DELAY=5, TIME=15, ATTEMPTS=1, IN_FLIGHT=2) as found:
        yield found
        code, errors = found.stop()
        assert errors == ""
        assert code in (0, 143, -15)


@pytest.mark.slow
def test_the_end_of_a_release_is_seen_at_a_multiple_of_the_delay_and_not_before(slow):
    token = slow.token()
    began = time.monotonic()
    assert slow.submit(token, "quick")[0] == 202
    until(lambda: "people/visits/quick: published" in slow.log())
    inside = slow.state(token, "quick")
    early = slow.ask("GET", f"{ME}/quick/table.csv", token=token)[0]
    in_time = time.monotonic() - began < 5  # on a machine that is far too slow nothing was early
    assert (inside["state"], early) == ("running", 404) or not in_time
    assert slow.ended(token, "quick")["state"] == "published"
    assert time.monotonic() - began >= 5
    # A time that is up: the worker is gone, the charge stands, and the end says nothing more.
    request = slow.charged_and_held(token, "late")
    assert slow.ended(token, "late")["state"] == "failed"
    slow.hold.unlink()
    assert "time is up" in slow.log()
    assert len(slow.entries(EntryKind.SPEND, request)) == 1


@pytest.mark.slow
def test_more_releases_than_may_be_in_flight_are_refused_until_others_are_seen_to_end(slow):
    token = slow.token(who="dora")
    slow.hold.touch()
    assert [slow.submit(token, f"r-{at}")[0] for at in range(3)] == [202, 202, 429]
    assert slow.submit(slow.token(who="carl"), "r-3")[0] == 202
    slow.hold.unlink()
    slow.ended(token, "r-0")
    slow.ended(token, "r-1")
    assert slow.submit(token, "r-4")[0] == 202


@pytest.mark.slow
def test_when_a_request_began_to_wait_for_approval_does_not_tell_when_another_release_ended(slow):
    token = slow.token(accounts=("people", "reviewed"))
    berta = slow.client(who="berta", role="approver", accounts=("reviewed",))
    slow.charged_and_held(token, "before")
    began = time.monotonic()
    assert slow.submit(token, "behind", account="reviewed")[0] == 202
    slow.hold.unlink()
    until(lambda: slow.entries(EntryKind.REQUEST, "reviewed/visits/behind"))
    place = "/v1/accounts/reviewed/releases"
    looks = [slow.state(token, "behind", "reviewed")["state"]]
    looks += [each["state"] for each in slow.ask("GET", place, token=token)[2]["releases"]]
    codes = [slow.ask("GET", f"{place}/behind/request", token=token)[0]]
    with pytest.raises(ServerRefusal) as caught:
        berta.approve("behind")
    codes.append(caught.value.status)
    in_time = time.monotonic() - began < 5  # on a machine that is far too slow nothing was early
    assert (looks, codes) == (["running"] * 2, [404, 409]) or not in_time
    until(lambda: slow.state(token, "behind", "reviewed")["state"] == "waiting for approval")
    assert berta.asked("behind")["who"] == "anna"
    assert berta.approve("behind")["state"] == "running"
    assert berta.approve("behind")["state"] == "running"  # the same decision again
    assert slow.ended(token, "behind", "reviewed")["state"] == "published"


@pytest.mark.slow
def test_what_is_left_counts_a_release_once_its_end_is_seen(slow):
    token = slow.token()

    def left():
        return slow.ask("GET", "/v1/accounts", token=token)[2]["accounts"][0]["left"]

    before = left()
    slow.charged_and_held(token, "counted")
    assert left() == before
    slow.hold.unlink()
    slow.ended(token, "counted")
    assert left() != before
    with Ledger.open(slow.folder / "people.ledger") as ledger:
        assert left() == ledger.account("people").left
