"""The record and the fact sheet that commands write."""

import jsonschema
import pytest
import yaml

from rangebound.cli.app import run
from rangebound.ledger.book import Ledger
from rangebound.release.output.deployment_record import open_fields
from tests.release.output.registry_fields import SCHEMA, filled

PLAN = """
title = "Visits: yes # no"
source = {{path = "{folder}/visits.csv"}}
budget = {{epsilon = 0.5, account = "people", ledger = "{folder}/l.ledger"}}
query = [{{name = "visits", kind = "count"}}]
"""
ROW = "warning: the unit is a single row"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits.csv").write_text("wait,who\n1,a\n50.5,b\n")
    (tmp_path / "plan.toml").write_text(PLAN.format(folder=tmp_path))
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account("people", epsilon=1)
    return tmp_path


def command(capsys, *arguments):
    code = run([str(each) for each in arguments])
    return code, *capsys.readouterr()


def remaining(folder):
    with Ledger.open(folder / "l.ledger") as ledger:
        return str(ledger.account("people").remaining)


def valid(path):
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    jsonschema.validate(filled(found), SCHEMA, jsonschema.Draft7Validator)
    return found


def test_a_release_writes_its_record_and_its_fact_sheet(folder, capsys):
    record, sheet = folder / "record.yaml", folder / "sheet.md"
    options = ["--record", record, "--fact-sheet", sheet]
    code, out, err = command(capsys, "release", folder / "plan.toml", "--request", "r1", *options)
    assert (code, err) == (0, "")
    assert ROW in out
    found = valid(record)
    assert found["deployment"]["basic"]["name"] == "Visits: yes # no"
    assert not any("publication_date" in each for each in open_fields(found))
    assert "request 'r1'" in found["deployment"]["implementation"]["additional_information"]
    assert "request 'r1'" in sheet.read_text()


def test_a_dry_run_writes_what_the_plan_knows_and_charges_nothing(folder, capsys):
    record = folder / "record.yaml"
    code, out, _ = command(capsys, "release", folder / "plan.toml", "--dry-run", "--record", record)
    assert code == 0
    assert ROW in out
    assert "deployment.basic.publication_date" in open_fields(valid(record))
    assert remaining(folder) == "epsilon 1"
    code, out, _ = command(capsys, "release", folder / "plan.toml", "--dry-run", "--json")
    assert '"warnings": [' in out


@pytest.mark.parametrize("option", ["--record", "--fact-sheet"])
@pytest.mark.parametrize("name", ["there", "nowhere/new", "wrong.txt", "l.ledger", "visits.csv"])
def test_what_somebody_may_have_filled_in_is_never_replaced_and_nothing_is_charged(folder, capsys, option, name):
    ending = {"--record": ".yaml", "--fact-sheet": ".md"}[option]
    path = folder / (name if "." in name else name + ending)
    if name == "there":
        path.write_text("filled in")
    before = path.read_bytes() if path.exists() else None
    code, _, err = command(capsys, "release", folder / "plan.toml", "--request", "r1", option, path)
    assert code != 0
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert (path.read_bytes() if path.exists() else None) == before
    assert remaining(folder) == "epsilon 1"


def test_the_record_of_the_demo_is_valid(tmp_path, capsys):
    assert command(capsys, "demo", "--folder", tmp_path)[0] == 0
    (made,) = tmp_path.iterdir()
    found = valid(made / "record.yaml")
    assert found["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 4.0}
    assert "account 'clinics'" in found["deployment"]["implementation"]["additional_information"]
    assert (made / "fact-sheet.md").read_text().startswith("# Fact sheet: Visits to four clinics\n")
