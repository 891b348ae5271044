"""The record of a release, checked by a validator of somebody else against the registry's fields."""

import copy
import json

import jsonschema
import pyarrow as pa
import pytest
import yaml

from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from rangebound.release import demo, parse_plan, release
from rangebound.release.output.deployment_record import open_fields, record, record_text
from rangebound.release.prepare import prepare
from tests.release.output.asked import asked
from tests.release.output.registry_fields import SCHEMA, filled

VALIDATOR = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
HOSTILE = "a: b # c\n- d\x1b[31m '\"\\ =1+1 | <script>*x*</script> \U0001f600\u2028"


def faults(found):
    return {".".join(map(str, each.absolute_path)) for each in VALIDATOR.iter_errors(found)}


COUNT = {"name": "visits", "kind": "count", "by": ["clinic"]}
SIZE = {"unit": {"neighbours": "replace", "size": 500}, "keys": {"clinic": [f"c{at}" for at in range(30)]}}
PLANS = {
    "demo": parse_plan(demo.plan()),
    "row": asked({"name": "visits", "kind": "count"}),
    "delta": asked(COUNT, unit={"column": "person", "rows": 2, "groups": 3}, delta=1e-7),
    "size": asked(COUNT, title="No", epsilon=2.0, delta=1e-9, **SIZE),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", PLANS)
def test_a_record_has_the_registrys_fields_and_is_valid_once_it_is_filled_in(name):
    found = record(PLANS[name])
    assert faults(found) <= set(open_fields(found))
    assert faults(found)  # a few words are still asked for
    assert faults(filled(found)) == set()
    assert found["deployment"].keys() == SCHEMA["properties"]["deployment"]["properties"].keys()
    for part, fields in found["deployment"].items():
        known = SCHEMA["properties"]["deployment"]["properties"][part]["properties"]
        assert fields.keys() == known.keys(), part
    text = record_text(found)
    assert yaml.safe_load(text) == found
    assert text.startswith("# A record for the Differential Privacy Deployments Registry")


def test_the_validator_finds_what_is_wrong():
    """The control: a field that the registry does not know, one of another type, one that is missing."""
    good = filled(record(PLANS["demo"]))
    assert faults(good | {"surprise": 1})
    bad = copy.deepcopy(good)
    bad["deployment"]["administrative"]["tier"] = 4
    assert faults(bad)
    del good["deployment"]["basic"]["description"]
    assert faults(good)


def test_what_the_plan_knows_is_what_the_record_says():
    found = record(PLANS["delta"])["deployment"]
    assert found["dp_variant"]["variant_name"] == "Approximate DP"
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-7}
    assert "selected privately" in found["implementation"]["mechanisms"]
    assert "'person'" in found["privacy_loss"]["privacy_unit"]
    assert "at most 3 groups of a unit and 2 rows" in found["privacy_loss"]["privacy_unit_details"]
    assert "keys" not in found["dp_variant"]["unprotected_quantities"].replace("nor keys", "")
    found = record(PLANS["size"])["deployment"]
    assert found["privacy_loss"]["number_of_privacy_units"] == 500
    assert "the number of units, 500" in found["dp_variant"]["unprotected_quantities"]
    assert "'c19' and 10 more" in found["dp_variant"]["unprotected_quantities"]
    assert "differ in one row of 500" in found["privacy_loss"]["privacy_unit_details"]
    plan = PLANS["demo"]
    said = record(plan)["deployment"]["implementation"]["mechanisms"]
    assert all(each in said for each in prepare(plan).mechanisms)


def test_what_only_people_know_is_open():
    """Nothing about the office, the data or its reasons is made up; a record without a title has no name either."""
    found = record(PLANS["row"])
    basic = ("name", "intended_use", "data_product_region", "data_product_sector", "publication_date")
    curator = ("data_curators.0.data_curator_name", "data_curators.0.data_curator_type")
    model = ("trust_assumptions", "actors", "release_type", "data_source_type")
    known = [
        "url_slug",
        *(f"deployment.basic.{each}" for each in (*basic, *curator)),
        *(f"deployment.deployment_model.{each}" for each in model),
        "deployment.privacy_loss.number_of_privacy_units",
        "deployment.implementation.justification",
        "deployment.administrative.registry_authors.0",
    ]
    assert set(known) <= set(open_fields(found))


def test_certificate_and_ledger_fill_in_what_they_know(tmp_path):
    account = HOSTILE.replace("\n", " ").replace("\x1b", "").strip("\u2028")
    budget = {"epsilon": 0.5, "account": account}
    plan = asked({"kind": "count"}, title="Visits", unit={"column": "person"}, budget=budget)
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account(account, epsilon=1, period="year")
        made = release(plan, pa.table({"person": [1, 2, 3]}), ledger=ledger, request="first")
        entry = next(each for each in ledger.history() if each.kind is EntryKind.SPEND)
        found = record(plan, certificate=made.certificate, entry=entry, account=ledger.account(account))
    part = found["deployment"]
    assert part["basic"]["publication_date"] == entry.time.date().isoformat()
    assert json.loads(made.certificate)["published"] in part["implementation"]["additional_information"]
    assert entry.head in part["implementation"]["additional_information"]
    assert part["deployment_model"]["release_type"] == "Many releases"
    assert "is for each year" in part["privacy_loss"]["privacy_parameters_details"]
    assert faults(filled(found)) == set()
    assert yaml.safe_load(record_text(found)) == found


def test_hostile_names_stay_texts_on_one_line_each():
    mean = {"name": HOSTILE, "kind": "mean", "column": HOSTILE + "x", "range": [0, 1], "by": [HOSTILE + "k"]}
    parts = {"unit": {"column": HOSTILE, "rows": 2}, "keys": {HOSTILE + "k": [HOSTILE, "b"]}}
    found = record(asked(mean, title=HOSTILE, **parts))
    text = record_text(found)
    assert yaml.safe_load(text) == found
    assert found["deployment"]["basic"]["name"] == HOSTILE
    lines = found["deployment"]["implementation"]["mechanisms"].splitlines()
    assert len(lines) == 6
    assert all(line.startswith("- ") for line in lines)
    assert "\x1b" not in text
    assert faults(filled(found)) == set()
