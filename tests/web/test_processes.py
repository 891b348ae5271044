"""Processes that compute: they answer, are killed when their time is up, and are started again after their end."""

import asyncio
import json

import pytest

from rangebound.web.processes import LedgerAway, Pool, TimeUp, WorkerDied

ECHO = """
import os, time
from contextlib import contextmanager
from pathlib import Path
from rangebound.errors import LedgerUnavailable
from rangebound.web.processes import work

def answer(task):
    print("a library prints")
    if "sleep" in task:
        time.sleep(task["sleep"])
    if "end" in task:
        os._exit(1)
    return {"pid": os.getpid(), "asked": task}

@contextmanager
def opening():
    if Path("away").exists():
        raise LedgerUnavailable("away")
    yield answer

work(opening())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "modules"
    place.mkdir()
    (place / "echo_tasks.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(place))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_pool(folder, act, **limits):
    async def run():
        pool = Pool(("echo_tasks",), 1, log=folder / "log", **limits)
        await pool.start()
        try:
            return await act(pool)
        finally:
            await pool.close()
            assert pool.processes == []

    return asyncio.run(run())


def test_answers_are_lines_of_json_whatever_a_library_prints(folder):
    async def act(pool):
        return [await pool.do({"x": [0.1, None, "é\n"]}, 60.0) for _ in range(2)]

    first, second = with_pool(folder, act)
    assert first == second == {"pid": first["pid"], "asked": {"x": [0.1, None, "é\n"]}}
    assert "a library prints" in (folder / "log").read_text()


def test_an_answer_that_is_too_long_ends_its_process(folder):
    async def act(pool):
        found = await pool.do({"x": "a" * 100}, 60.0)
        with pytest.raises(WorkerDied):
            await pool.do({"x": "a" * 1000}, 60.0)
        return found

    assert with_pool(folder, act, longest=500)["asked"] == {"x": "a" * 100}


@pytest.mark.claim("kill")
def test_after_its_end_or_its_time_a_process_is_started_again(folder):
    async def act(pool):
        found = [await pool.do({}, None)]
        with pytest.raises(WorkerDied):
            await pool.do({"end": True}, 60.0)
        found.append(await pool.do({}, 60.0))
        with pytest.raises(TimeUp):
            await pool.do({"sleep": 600}, 0.1)
        return [*found, await pool.do({}, 60.0)]

    assert len({each["pid"] for each in with_pool(folder, act)}) == 3


def test_a_process_that_cannot_be_started_at_first_is_started_for_a_task(folder):
    place = folder / "logs"

    async def run():
        pool = Pool(("echo_tasks",), 1, log=place / "log")
        await pool.start()
        await asyncio.sleep(0.1)
        try:
            with pytest.raises(FileNotFoundError):
                await asyncio.wait_for(pool.do({}, 60.0), 60.0)
            place.mkdir()
            return await asyncio.wait_for(pool.do({}, 60.0), 60.0)
        finally:
            await pool.close()

    assert asyncio.run(run())["asked"] == {}


def test_a_process_for_which_nobody_waits_any_more_is_not_left_over(folder):
    async def act(pool):
        with pytest.raises(WorkerDied):
            await pool.do({"end": True}, 60.0)
        asked = asyncio.create_task(pool.do({}, 60.0))
        while not pool.processes:
            await asyncio.sleep(0.001)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        left = pool.processes
        return left, await pool.do({}, 60.0), pool.processes

    left, found, after = with_pool(folder, act)
    assert (left, after) == ([], [found["pid"]])


def test_a_ledger_that_is_away_is_told_and_looked_for_again(folder):
    away = folder / "away"
    away.touch()

    async def act(pool):
        with pytest.raises(LedgerAway):
            await pool.do({}, 60.0)
        away.unlink()
        return await pool.do({}, 60.0)

    assert with_pool(folder, act)["asked"] == {}


def test_nothing_is_imported_from_the_folder_in_which_somebody_is(folder):
    (folder / "random.py").write_text("raise RuntimeError('not the one of the standard library')")

    async def act(pool):
        return await pool.do({"x": 1}, 60.0)

    assert json.dumps(with_pool(folder, act)["asked"]) == '{"x": 1}'
