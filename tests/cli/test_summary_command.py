"""`rangebound summary`: two plans, one account, files that verify; nothing about rows before a charge."""

import json
import random

import pytest

from rangebound.release import read_plan
from tests.cli.visits import remaining

DECLARED = ["--numeric", "wait", "--category", "clinic"]
KNOWN = ["--range", "wait=0:60", "--keys", "clinic=north,south"]


def asked(*more, epsilon=90):
    return ["summary", "visits.csv", "--unit", "person", "--epsilon", epsilon, "--delta", 1e-6, *more]


def rows(seed):
    chance = random.Random(seed)
    clinics = ("sud-\xe9", "north", "north")
    found = [f"{at};{clinics[at % 3]};{chance.randint(0, 600) / 10}" for at in range(900)]
    return "\n".join(["person;clinic;wait", *found]).replace(".", ",").encode("latin-1")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_bytes(rows(1))
    return tmp_path


@pytest.mark.claim("charge")
def test_two_plans_are_charged_to_one_account_and_verify(place, done, command):
    more = [*DECLARED, *KNOWN[:2], "--share", 0.5, "--format", "decimal=,", "--format", "encoding=latin-1"]
    out = done(*asked(*more))
    assert remaining("visits.ledger", "visits").startswith("epsilon 0")
    folder = place / "visits-summary"
    for stem in ("", "first-"):
        files = [str(folder / f"{stem}{each}.json") for each in ("certificate", "table")]
        done("verify", *files, "--ledger", "visits.ledger")
    found = read_plan(folder / "plan.toml")
    assert found.rule("clinic").labels == ("north", "sud-\xe9", "other", "missing")
    assert "found privately before, for epsilon 45" in (folder / "report.html").read_text(encoding="utf-8")
    assert "clinic" in out
    assert "costs nothing more" in done(*asked(*more))
    assert command(*asked(*more, "--request", "other"))[0] == 2  # there is another plan, and nothing left


@pytest.mark.slow
def test_a_dry_run_says_the_same_whatever_the_rows_are(place, done):
    dry = asked(*DECLARED, *KNOWN, "--dry-run", "--json")
    before = json.loads(done(*dry))
    (place / "visits.csv").write_bytes(rows(2)[:500] + b"\n\xff;;\n")
    assert json.loads(done(*dry)) == before
    assert json.loads(done(*dry, "--range", "wait=0:70")) != before  # control
    assert not (place / "visits.ledger").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "'clinic', 'wait' have no types"),
        ([*DECLARED, "--each-row"], "unit: say who is protected"),
        ([*DECLARED, *KNOWN, "--range", "wait=low"], "must be a column and two numbers or days"),
        ([*DECLARED, *KNOWN, "--keys", "town=a"], "must be a column and its keys"),
        (["--numeric", "weight"], "the table has no such column"),
        ([*DECLARED, "--format", "decimals=,"], "decimals"),
    ],
)
def test_what_is_refused_charges_nothing(place, refused, more, said):
    assert said in refused(*asked(*more))
    assert not (place / "visits.ledger").exists()
