"""The record and the fact sheet that commands write; that they replace nothing is in `test_output_files.py`."""

import jsonschema
import pytest
import yaml

from rangebound.release.output.deployment_record import open_fields
from tests.cli.visits import PLAN, remaining
from tests.release.output.registry_fields import SCHEMA, filled

ROW = "warning: the unit is a single row"


def valid(path):
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    jsonschema.validate(filled(found), SCHEMA, jsonschema.Draft7Validator)
    return found


def test_a_release_writes_its_record_and_its_fact_sheet(folder, command):
    (folder / "plan.toml").write_text(f'title = "Visits: yes # no"\n{PLAN}')
    written = ["--record", "record.yaml", "--fact-sheet", "sheet.md"]
    code, out, err = command("release", "plan.toml", "--request", "r1", *written)
    assert (code, err) == (0, "")
    assert ROW in out
    found = valid(folder / "record.yaml")
    assert found["deployment"]["basic"]["name"] == "Visits: yes # no"
    assert not any("publication_date" in each for each in open_fields(found))
    assert "request 'r1'" in found["deployment"]["implementation"]["additional_information"]
    assert "request 'r1'" in (folder / "sheet.md").read_text()


def test_a_dry_run_writes_what_the_plan_knows_and_charges_nothing(folder, done):
    assert ROW in done("release", "plan.toml", "--dry-run", "--record", "record.yaml")
    assert "deployment.basic.publication_date" in open_fields(valid(folder / "record.yaml"))
    assert remaining() == "epsilon 1"
    assert '"warnings": [' in done("release", "plan.toml", "--dry-run", "--json")


@pytest.mark.slow
def test_the_record_of_the_demo_is_valid(tmp_path, done):
    done("demo", "--folder", tmp_path)
    (made,) = tmp_path.iterdir()
    found = valid(made / "record.yaml")
    assert found["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 4.0}
    assert "account 'clinics'" in found["deployment"]["implementation"]["additional_information"]
    assert (made / "fact-sheet.md").read_text().startswith("# Fact sheet: Visits to four clinics\n")
