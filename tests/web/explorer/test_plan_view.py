"""What the page shows equals `--dry-run`, `plan solve` and the calls of Python, to the last bit."""

import json

import pytest

from rangebound.cli.app import run
from rangebound.errors import ArgumentError
from rangebound.release import read_plan
from rangebound.release.output.plan_risk import plan_risk
from rangebound.release.prepare import prepare
from rangebound.web.explorer.plan_view import plan_view


@pytest.fixture(scope="module")
def shown(demo_folder):
    plan = read_plan(demo_folder / "plan.toml")
    return plan, plan_view(plan)[0]


@pytest.mark.claim("page")
def test_the_view_has_the_dry_run(shown, demo_folder, capsys):
    _, view = shown
    assert run(["release", str(demo_folder / "plan.toml"), "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    view = json.loads(json.dumps(view))
    assert said.pop("dry_run")
    assert {name: view[name] for name in said} == said
    assert run(["release", str(demo_folder / "plan.toml"), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    for texts in view["cells"]:
        assert texts["half-width"] in printed
        assert texts["share"] in printed


def test_the_risk_is_that_of_the_call(shown):
    plan, view = shown
    risk, found = plan_risk(plan, prepare(plan).allocation), view["risk"]
    assert found["advantage"] == risk.advantage()
    assert found["mu"] == risk.gdp()
    assert found["posterior"] == risk.posterior(0.5)
    assert found["success"] == risk.success(0.5)
    assert found["reconstruction"] == [[0.01, risk.reconstruction(0.01)], [0.1, risk.reconstruction(0.1)]]
    assert all(miss == risk.tradeoff(rate) for rate, miss in found["tradeoff"])
    assert found["odds"] in view["explained"]
    other = plan.model_copy(update={"budget": plan.budget.model_copy(update={"epsilon": 2.0})})
    assert found["advantage"] != plan_risk(other, prepare(other).allocation).advantage()  # the control


@pytest.mark.slow
def test_the_law_is_of_the_question_that_was_asked(shown):
    plan, view = shown
    assert view["law"]["query"] == "visits by clinic"
    named, _ = plan_view(plan, question="patients", answers=[1.0, 2.0, 3.0])
    assert named["law"]["query"] == "patients"
    assert [each["answer"] for each in named["law"]["cells"]] == [1.0, 2.0, 3.0]
    with pytest.raises(ArgumentError, match="question"):
        plan_view(plan, question="odd")
