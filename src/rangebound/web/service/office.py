"""The server's work: takes requests, runs them in workers, and knows what may be seen of them."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rangebound.errors import LedgerTampered, LedgerUnavailable, RangeboundError
from rangebound.ledger import Ledger, RequestStatus
from rangebound.web.processes import LedgerAway, Pool, TimeUp, WorkerDied
from rangebound.web.service.job_store import (
    Job,
    JobState,
    JobStore,
    SeenState,
    Token,
    TokenStore,
    available,
    database,
    seen,
)
from rangebound.web.service.settings import Server
from rangebound.web.service.worker import FILES, filed, named, public_words

LOG = logging.getLogger("rangebound.serve")

_FAILED = "the release failed; if it was charged, the charge stands, and the custodian can say more"
_PAUSE, _LONGEST_PAUSE = 3.0, 60.0  # seconds before a release is run again: a database may have to start
_NOT_ASKED = "no such request for approval"
_BUSY = "too many releases are in flight; try again later"


class Refusal(Exception):
    """An answer that is not what was asked for: its status and its words, which are made of public facts."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Office:
    """Requests, their queue and their answers; one for each server process."""

    def __init__(self, server: Server, config: Path) -> None:
        self.server, self.settings = server, server.settings
        connection = database(server.folder)
        self.jobs, self.tokens = JobStore(connection), TokenStore(connection)
        self.ledger = Ledger.open(server.ledger, key=server.key)
        for name in self.settings.accounts:
            self.ledger.account(name)
        command, log = ("rangebound.web.service.worker", str(config)), server.folder / "workers.log"
        self.checkers = Pool(command, self.settings.release.checkers, log=log)
        self.workers = Pool(command, self.settings.release.workers, log=log)
        self._queue: asyncio.Queue[tuple[str, str, int]] = asyncio.Queue()  # the last is the number of the attempt
        self._coming: Counter[str] = Counter()  # requests of each person whose plans are being checked
        self._checking: Counter[str] = Counter()  # their dry runs
        self._tasks: list[asyncio.Task[None]] = []
        self._columns: dict[str, dict[str, str]] = {}

    async def __aenter__(self) -> None:
        """Begin to work, with the requests that an earlier process left unfinished."""
        await self.checkers.start()
        await self.workers.start()
        for job in self.jobs.open():
            if job.state is JobState.QUEUED:
                self._queue.put_nowait((job.account, job.id, 1))
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self.settings.release.workers)]

    async def __aexit__(self, *_: object) -> None:
        """Stop; what is not finished is run again by the next process."""
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.workers.close()
        await self.checkers.close()
        self.ledger.close()

    async def dry_run(self, token: Token, task: dict[str, Any]) -> dict[str, Any]:
        """What a plan would give; a person may ask for as many at once as they may have releases."""
        limits, at_once = self.settings.limits, self._checking
        if at_once[token.who] >= limits.in_flight or at_once.total() >= limits.in_flight_in_all:
            raise Refusal(429, _BUSY)
        with counted_in(at_once, token.who):
            return await self._check({**task, "dry_run": True})

    async def _check(self, task: dict[str, Any]) -> dict[str, Any]:
        found = await self._checked({"do": "check", **task})
        if not found.get("ok"):
            raise Refusal(422 if "refused" in found else 503, found.get("refused", "the plan cannot be checked now"))
        return {name: value for name, value in found.items() if name != "ok"}

    async def _checked(self, task: dict[str, Any]) -> dict[str, Any]:
        """What a checker finds; it comes at a multiple of a tick, since checkers may be slowed down by releases."""
        began, limit = time.monotonic(), self.settings.limits.dry_run
        try:
            found = await asyncio.wait_for(self.checkers.do(task, limit), 2 * limit)
        except TimeUp:
            found = {"refused": "plan: checking it took too long; ask for less at once"}
        except (WorkerDied, LedgerAway, TimeoutError):
            found = {}
        now = time.monotonic()
        await asyncio.sleep(available(began, now, self.settings.limits.tick) - now)
        return found

    async def submit(self, token: Token, account: str, id: str, plan: str, source: str | None) -> Job:
        """Take a request; the same one again is the one that is there, and another under its id is refused."""
        known = self.jobs.find(account, id)
        if known is None:
            # In flight are those that are not seen to be at their end, and those whose plans are being checked.
            limits, found = self.settings.limits, self._coming + Counter(each.who for each in self._in_flight())
            if found[token.who] >= limits.in_flight or found.total() >= limits.in_flight_in_all:
                raise Refusal(429, _BUSY)
            with counted_in(self._coming, token.who):  # others come while its plan is checked
                source = (await self._check({"account": account, "plan": plan, "source": source}))["source"]
                job = Job(account=account, id=id, who=token.who, source=str(source), plan=plan, begun=time.time())
                known = self.jobs.add(job)
            if known == job:
                LOG.info("request %s by %s", known.request, known.who)
                self._queue.put_nowait((account, id, 1))
        if known.plan != plan or (source is not None and known.source != source):
            raise Refusal(409, f"id={id!r}: was used before for another plan; a new release needs a new id")
        return known

    def _in_flight(self) -> list[Job]:
        now, delay = time.time(), self.settings.release.delay
        return [each for each in self.jobs.since(now - delay) if seen(each, now, delay).again is not None]

    async def find(self, account: str, id: str) -> tuple[Job, SeenState]:
        """A request, and what may be seen of it now."""
        job = self._found(account, id)
        view = seen(job, time.time(), self.settings.release.delay)
        if view.state != JobState.WAITING.value:
            return job, view
        await self._look_for_decision(job)
        job = self._found(account, id)
        return job, seen(job, time.time(), self.settings.release.delay)

    def _found(self, account: str, id: str) -> Job:
        job = self.jobs.find(account, id)
        if job is None:
            raise Refusal(404, "no such release")
        return job

    async def _look_for_decision(self, job: Job) -> None:
        """Follow a decision that was made elsewhere, such as by `rangebound ledger approve`."""
        found = await asyncio.to_thread(filed, self.ledger, job.account, job.request)
        if found is None or found.status is RequestStatus.WAITING:
            return
        if found.status is RequestStatus.REJECTED:
            self.jobs.change(job, JobState.REJECTED, message=found.reason or "", done=job.done)  # seen at once
        elif self.jobs.approved(job, time.time()):
            self._queue.put_nowait((job.account, job.id, 1))

    async def decide(self, token: Token, account: str, id: str, *, approve: bool, reason: str) -> None:
        """Approve or reject a request that waits."""
        job = await self._filed(account, id, Refusal(409, f"id={id!r}: is not waiting for approval"))
        verb = self.ledger.approve if approve else self.ledger.reject
        try:
            await asyncio.to_thread(verb, job.request, who=named(self.ledger, token.who), note=reason)
        except (LedgerUnavailable, LedgerTampered):
            raise
        except RangeboundError as error:
            raise Refusal(409, public_words(self.server, str(error))) from None
        if job.state is JobState.WAITING:
            await self._look_for_decision(job)

    async def asked(self, account: str, id: str) -> dict[str, Any]:
        """What somebody who decides should see of a request: the plan and the dry run that it was filed with."""
        job = await self._filed(account, id, Refusal(404, _NOT_ASKED))
        try:
            asked = json.loads(await asyncio.to_thread(self.ledger.dry_run, job.request))
            return {"who": job.who, "source": job.source, **asked}
        except (LedgerUnavailable, LedgerTampered):
            raise
        except (RangeboundError, ValueError):
            raise Refusal(404, _NOT_ASKED) from None

    async def _filed(self, account: str, id: str, otherwise: Refusal) -> Job:
        """A request of which it may be seen that it was filed for approval: it waits, or somebody has decided."""
        job, view = await self.find(account, id)
        found = await asyncio.to_thread(filed, self.ledger, job.account, job.request)
        waits = view.state == JobState.WAITING.value
        if found is None or not (waits or found.status is not RequestStatus.WAITING):
            raise otherwise
        return job

    async def answer(self, account: str, id: str, name: str) -> bytes:
        """A file of a release that was published and may be seen."""
        job, view = await self.find(account, id)
        if view.state != JobState.PUBLISHED.value or name not in FILES:
            raise Refusal(404, f"no such answer; the release is {view.state}")
        try:
            return await asyncio.to_thread((self.server.folder / "answers" / job.folder / name).read_bytes)
        except FileNotFoundError:
            raise Refusal(404, f"{name}: this release was published before there was such an answer") from None

    async def account(self, name: str) -> dict[str, Any]:
        """An account without the charges of releases whose end is not seen: a charge says when an earlier one ended."""
        hidden = [each.request for each in self._in_flight() if each.account == name]
        found = await asyncio.to_thread(self.ledger.account, name, without=hidden)
        facts = {"account": name, "left": found.left, "approval": found.approval is not None}
        return facts | {"sources": list(self.settings.accounts[name].sources)}

    async def source(self, account: str, name: str) -> dict[str, Any]:
        """What is public of a source: its columns and types, and whom it protects.

        Edge cases: for an account that needs approval no table is opened, and columns are not shown.
        """
        own, closed = self.settings.sources[name], (await self.account(account))["approval"]
        if name not in self._columns and not closed:
            found = await self._checked({"do": "columns", "source": name})
            if found.get("ok"):
                self._columns[name] = found["columns"]
        facts = {"source": name, "public": own.public, "columns": None if closed else self._columns.get(name)}
        return facts | ({} if own.public else {"unit": own.unit or "row", "neighbours": own.neighbours})

    async def _work(self) -> None:
        while True:
            account, id, attempt = await self._queue.get()
            job = None
            try:
                job = self.jobs.find(account, id)
                if job is not None and job.state is JobState.QUEUED:
                    await self._run(job, attempt)
            except Exception:
                LOG.exception("request %s of account %s", id, account)
                if attempt < self.settings.release.attempts:
                    self._again(account, id, attempt + 1, _LONGEST_PAUSE)
                elif job is not None:
                    with suppress(sqlite3.Error):  # then it stays queued, for the next process
                        self._end(job, JobState.FAILED, _FAILED)

    async def _run(self, job: Job, attempt: int) -> None:
        """Run a request once; where it came to no end, it is run again: as often as it may be if that was its own
        doing, and as long as it takes if the ledger or the source was away, which costs it no attempt."""
        found = await self._tried(job)
        if found.get("lost"):
            LOG.warning("request %s: its worker or its source was lost, attempt %d", job.request, attempt)
        if found.get("published"):
            self._end(job, JobState.PUBLISHED)
        elif found.get("waiting"):
            self.jobs.change(job, JobState.WAITING, done=time.time())
        elif "refused" in found:
            self._end(job, JobState.REFUSED, found["refused"])
        elif found.get("away"):
            LOG.warning("request %s: the ledger or the data source could not be used; it is run again", job.request)
            waited = 0.1 * (time.time() - job.begun)
            self._again(job.account, job.id, attempt, min(max(_PAUSE, waited), _LONGEST_PAUSE))
        elif found.get("lost") and attempt < self.settings.release.attempts:
            self._again(job.account, job.id, attempt + 1, _PAUSE)
        else:
            self._end(job, JobState.FAILED, _FAILED)

    async def _tried(self, job: Job) -> dict[str, Any]:
        task = {"do": "run", "account": job.account, "request": job.request, "source": job.source, "plan": job.plan}
        try:
            return await self.workers.do({**task, "who": job.who, "folder": job.folder}, self.settings.release.time)
        except TimeUp:
            LOG.warning("request %s: its time is up", job.request)
        except WorkerDied:
            return {"lost": True}
        except LedgerAway:
            return {"away": True}
        try:
            return {"lost": await asyncio.to_thread(self.ledger.published, job.request) is not None}
        except LedgerUnavailable:
            return {"away": True}

    def _again(self, account: str, id: str, attempt: int, pause: float) -> None:
        """Run a request again after a pause, in which others have the worker."""
        asyncio.get_running_loop().call_later(pause, self._queue.put_nowait, (account, id, attempt))

    def _end(self, job: Job, state: JobState, message: str = "") -> None:
        self.jobs.change(job, state, message=message, done=time.time())
        LOG.info("request %s: %s", job.request, state.value)


@contextmanager
def counted_in(counts: Counter[str], name: str) -> Iterator[None]:
    """One more of a name for as long as the block lasts."""
    counts[name] += 1
    try:
        yield
    finally:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]


def shown(job: Job, view: SeenState) -> dict[str, Any]:
    """A request as an analyst sees it: public facts alone."""
    facts: dict[str, Any] = {name: getattr(job, name) for name in ("account", "id", "who", "source")}
    facts["state"] = view.state
    if view.message:
        facts["message"] = view.message
    if view.again is not None:
        facts["again_in"] = round(max(0.0, view.again), 3)
    if view.state == JobState.PUBLISHED.value:
        facts["answers"] = [f"/v1/accounts/{job.account}/releases/{job.id}/{name}" for name in FILES]
    return facts
