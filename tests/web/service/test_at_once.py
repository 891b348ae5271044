"""Requests that come at once, and a ledger or a source that is away: an office without a server and without workers."""

import asyncio
import sqlite3
import time

import pytest

from rangebound.errors import EngineError, LedgerUnavailable, PlanError, RequestConflict
from rangebound.ledger import Cost
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import person
from rangebound.web.processes import LedgerAway, TimeUp, WorkerDied
from rangebound.web.service import office as room
from rangebound.web.service import worker
from rangebound.web.service.job_store import Job, JobState, Token, TokenRole
from rangebound.web.service.listener import demo_plan, make_demo
from rangebound.web.service.office import Office, Refusal
from rangebound.web.service.settings import read_settings
from rangebound.web.service.worker import FailedAfterCharge, canonical_plan

AWAY, LOST, DONE = {"ok": False, "away": True}, {"ok": False, "lost": True}, {"ok": True, "published": True}


class Workers:
    """A pool that answers from a list, and then always the same."""

    def __init__(self, *answers, last=None):
        self.answers, self.last, self.done, self.at_once, self.most = list(answers), last, 0, 0, 0

    async def start(self):
        pass

    async def close(self):
        pass

    async def do(self, task, limit):
        self.done, self.at_once = self.done + 1, self.at_once + 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.02)
        self.at_once -= 1
        found = self.answers.pop(0) if self.answers else self.last
        if isinstance(found, type):
            raise found
        return {"ok": True, "source": "visits"} if found is None else found


@pytest.fixture
def office(tmp_path, monkeypatch):
    make_demo(tmp_path, 0)
    config = tmp_path / "server.toml"
    config.write_text(config.read_text() + "\n[limits]\ntick = 0.001\nin_flight_in_all = 30\n")
    monkeypatch.setattr(room, "_PAUSE", 0.01)
    monkeypatch.setattr(room, "_LONGEST_PAUSE", 0.02)
    made = Office(read_settings(config), config)
    made.checkers, made.workers = Workers(), Workers(last=DONE)
    yield made
    made.ledger.close()


def token(who):
    return Token(name=who, who=who, role=TokenRole.ANALYST, accounts=("clinics",), made=0.0, ends=9e9, revoked=False)


def at_once(*groups):
    """The statuses of calls; those of a group come at once, one group after the other."""

    async def go():
        found = [await asyncio.gather(*each, return_exceptions=True) for each in groups]
        assert all(isinstance(each, (Job, dict, Refusal)) for some in found for each in some), found
        return [[getattr(each, "status", 202) for each in some] for some in found]

    return asyncio.run(go())


def submitted(office, who, ids):
    return [office.submit(token(who), "clinics", f"{who}{at}", "p", None) for at in ids]


def test_as_many_requests_as_may_be_in_flight_are_taken_of_those_that_come_at_once(office):
    groups = (submitted(office, *each) for each in (("anna", range(60)), ("bob", range(20)), ("anna", [0])))
    own, others, again = at_once(*groups)
    assert (own.count(202), own.count(429)) == (20, 40)
    assert (others.count(202), others.count(429)) == (10, 10)  # of 30 in all
    assert again == [202]  # one that is there
    assert office.checkers.most <= 20  # what is refused was not checked
    assert len(office.jobs.open()) == 30


def test_dry_runs_that_come_at_once_leave_room_for_those_of_others(office):
    def tried(who):
        return office.dry_run(token(who), {"account": "clinics", "plan": "p"})

    found, after = at_once([*(tried("anna") for _ in range(60)), tried("bob")], [tried("anna")])
    assert (found[:60].count(202), found[:60].count(429)) == (20, 40)
    assert found[60:] == after == [202]


def test_a_plan_that_is_refused_leaves_its_place_to_others(office):
    office.checkers = Workers(*([{"ok": False, "refused": "no"}] * 20))
    first, second = at_once(submitted(office, "anna", range(20)), submitted(office, "anna", range(20, 41)))
    assert first == [422] * 20
    assert (second.count(202), second.count(429)) == (20, 1)


def ended(office, *answers, last=None, most=40):
    """The state of a request whose runs come to these ends, once there is nothing more to wait for."""
    office.workers = Workers(*answers, last=last)

    async def go():
        await office.__aenter__()
        job = await office.submit(token("anna"), "clinics", "one", "p", None)
        limit = time.monotonic() + 20
        while office.jobs.find("clinics", "one").state is JobState.QUEUED and time.monotonic() < limit:
            if office.workers.done >= most:
                await asyncio.sleep(0.1)
                break
            await asyncio.sleep(0.01)
        assert not [each for each in office._tasks if each.done()]  # others are run
        for each in office._tasks:
            each.cancel()
        return job

    asyncio.run(go())
    return office.jobs.find("clinics", "one").state


@pytest.mark.parametrize("away", [AWAY, LedgerAway], ids=["in the middle", "before a worker begins"])
def test_a_request_waits_for_a_database_that_is_away_however_long(office, away):
    assert office.settings.release.attempts == 2
    assert ended(office, *([away] * 9), LOST, *([away] * 9), last=DONE) is JobState.PUBLISHED
    assert office.workers.done == 20


def test_a_request_that_is_never_away_but_lost_ends_after_its_attempts(office):
    """The control: what a request does itself is not tried for ever; nor is it given up while the database is away."""
    assert ended(office, LOST, WorkerDied, last=DONE) is JobState.FAILED
    assert office.workers.done == 2


def test_a_request_whose_database_stays_away_stays_queued(office):
    assert ended(office, last=AWAY) is JobState.QUEUED
    assert office.jobs.open()[0].id == "one"  # the next process runs it again


@pytest.mark.parametrize(("away", "end"), [(1, JobState.PUBLISHED), (0, JobState.FAILED)], ids=["away", "control"])
def test_a_time_that_is_up_while_the_ledger_is_away_is_no_end(office, monkeypatch, away, end):
    left = [LedgerUnavailable("ledger: away")] * away

    def published(_, request):
        if left:
            raise left.pop()

    monkeypatch.setattr(Ledger, "published", published)
    assert ended(office, TimeUp, last=DONE) is end


def test_an_error_of_the_office_itself_leaves_the_worker_to_others(office, monkeypatch):
    ends = []

    def broken(self, job, state, message=""):
        ends.append(state)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Office, "_end", broken)
    assert ended(office, last=DONE, most=2) is JobState.QUEUED
    assert ends == [JobState.PUBLISHED, JobState.PUBLISHED, JobState.FAILED]


def raised(error, cause=None):
    def task(*_, **__):
        raise error from cause

    return task


@pytest.mark.parametrize(("charged", "end"), [(True, {"away": False, "lost": False}), (False, {"refused": "no: x"})])
def test_a_plan_that_is_refused_though_an_earlier_attempt_was_charged_has_failed(office, monkeypatch, charged, end):
    if charged:
        office.ledger.reserve(account="clinics", request="one", cost=Cost(epsilon=0.1))
    monkeypatch.setattr(worker, "release", raised(PlanError("no: x", field="no")))
    assert ran(office, "clinics", "anna") == {"ok": False, **end}


def ran(office, account, who):
    """What a worker answers to a request of somebody."""
    plan = canonical_plan(demo_plan().replace("clinics", account))
    asked = {"account": account, "source": "visits", "plan": plan, "who": who, "folder": "x"}
    return worker.answer(office.server, office.ledger, {"do": "run", "request": "one", **asked})


@pytest.mark.claim("charge")
def test_an_approved_request_is_for_whoever_asked(office):
    assert ran(office, "reviewed", "anna") == {"ok": True, "waiting": True}
    office.ledger.approve("one", who="paul")
    assert "was asked for by 'anna', for whom alone it is approved" in ran(office, "reviewed", "berta")["refused"]
    assert office.ledger.paid("one") is None
    for who in ("anna", "berta"):  # what is published is public
        assert ran(office, "reviewed", who) == {"ok": True, "published": True}
    assert office.ledger.paid("one").who == "anna"


@pytest.mark.parametrize(
    ("who", "same", "others"),
    [
        ("unit/anna", "Unit/Anna", ("anna", "unit", "unit/berta", "service")),
        (person(None), person(None), ("anna", "service/anna")),  # whom version 0.2 noted as the login
    ],
    ids=["slash", "user"],
)
@pytest.mark.claim("charge")
def test_an_approved_request_is_for_whoever_asked_by_the_login_of_a_server(office, monkeypatch, who, same, others):
    store = type(office.ledger._chain.store)
    monkeypatch.setattr(worker, "demand_plan_approval", lambda *_, **__: None)
    monkeypatch.setattr(store, "login", "service")
    office.ledger.file_request(account="reviewed", request="one", cost=Cost(epsilon=0.1), dry_run=b"", who=who)
    with monkeypatch.context() as patch:
        patch.setattr(store, "login", "paul")
        office.ledger.approve("one")
    asked = {"account": "reviewed", "request": "one"}
    for other in others:
        with pytest.raises(RequestConflict, match="for whom alone it is approved"):
            worker._waits(office.ledger, None, {**asked, "who": other})
    assert not worker._waits(office.ledger, None, {**asked, "who": same})


def test_the_user_under_whom_a_server_runs_asks_and_approves_as_others_do(office, monkeypatch):
    monkeypatch.setattr(type(office.ledger._chain.store), "login", "service")
    for number, (who, decider) in enumerate(((person(None), "paul"), ("anna", person(None)), ("service", "paul"))):
        request = f"reviewed/visits/{number}"
        job = Job(account="reviewed", id=str(number), who=who, source="visits", plan="p", begun=0.0)
        office.ledger.file_request(
            account="reviewed",
            request=request,
            cost=Cost(epsilon=0.1),
            dry_run=b"",
            who=worker.named(office.ledger, who),
        )
        office.jobs.change(office.jobs.add(job), JobState.WAITING, done=0.0)
        with pytest.raises(Refusal, match="must not approve"):
            asyncio.run(office.decide(token(who), "reviewed", job.id, approve=True, reason=""))
        asyncio.run(office.decide(token(decider), "reviewed", job.id, approve=True, reason=""))
        assert office.ledger.history()[-1].who == f"service/{decider}"


@pytest.mark.parametrize(
    ("error", "cause", "away", "lost"),
    [
        (LedgerUnavailable("x"), None, True, False),
        (EngineError("x", away=True), None, True, False),
        (EngineError("x"), None, False, False),
        (FailedAfterCharge(), EngineError("x", away=True), False, True),
        (FailedAfterCharge(), EngineError("x"), False, False),
        (RuntimeError("x"), None, False, False),
    ],
)
def test_a_worker_tells_what_was_away_from_what_went_wrong(monkeypatch, error, cause, away, lost):
    monkeypatch.setitem(worker.TASKS, "run", raised(error, cause))
    found = worker.answer(None, None, {"do": "run"})
    assert (found["away"], found["lost"]) == (away, lost)
