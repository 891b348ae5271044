"""The process that proves: it answers, survives errors and its own end, and forgets what nobody waits for."""

import threading

import pytest

from rangebound.release import parse_plan
from rangebound.web.explorer.plan_view import plan_view
from rangebound.web.explorer.prover import SUPERSEDED, Prover

PLAN = 'budget = {epsilon = 1.0}\nquery = [{name = "visits", kind = "count"}]'


@pytest.fixture(scope="module")
def prover(tmp_path_factory):
    found = Prover(tmp_path_factory.mktemp("prover"))
    yield found
    found.close()


@pytest.mark.slow
def test_it_answers_as_the_function_does(prover):
    found, known = prover.ask("certified", {"plan": PLAN})
    wanted, widths = plan_view(parse_plan(PLAN))
    assert found == {**wanted, "text": PLAN}
    assert known == widths


def test_errors_are_answers_and_bugs_show_no_message(prover):
    found, _ = prover.ask("certified", {"plan": "budget = 1"})
    assert "budget" in found["error"]
    found, _ = prover.ask("no such task", {"plan": PLAN})
    assert found == {"error": "unexpected KeyError; this is a bug, please report it"}


@pytest.mark.claim("page")
@pytest.mark.claim("kill")
def test_after_its_end_it_is_started_again(prover):
    prover.ask("number", {"number": {}})
    prover._process.kill()
    prover._process.join()
    found, _ = prover.ask("number", {"number": {}})
    assert "One number" in found["plan"]


def test_of_many_that_wait_the_last_is_answered(prover):
    answers = {}
    prover._lock.acquire()
    threads = [
        threading.Thread(target=lambda at=at: answers.update({at: prover.ask("certified", {"plan": PLAN})[0]}))
        for at in range(4)
    ]
    for each in threads:
        each.start()
    while prover._latest["certified"] < 4:
        pass
    prover._lock.release()
    for each in threads:
        each.join()
    proved = [each for each in answers.values() if each != SUPERSEDED]
    assert len(proved) == 1
    assert proved[0]["certified"]
