"""The record of a release, checked by a validator of somebody else against the registry's fields."""

import copy
import json

import jsonschema
import pytest
import yaml

from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from rangebound.release import demo, make_plan, parse_plan, release
from rangebound.release.output.deployment_record import OPEN, open_fields, record, record_text
from rangebound.release.prepare import prepare
from tests.release.output.registry_fields import SCHEMA, filled

VALIDATOR = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
HOSTILE = "a: b # c\n- d\x1b[31m '\"\\ =1+1 | <script>*x*</script> \U0001f600\u2028"


def faults(found):
    return {".".join(map(str, each.absolute_path)) for each in VALIDATOR.iter_errors(found)}


def plans():
    people = {"column": "person", "rows": 2, "groups": 3}
    count = [{"name": "visits", "kind": "count", "by": ["clinic"]}]
    return {
        "demo": parse_plan(demo.plan()),
        "row": make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "visits", "kind": "count"}]}),
        "delta": make_plan({"unit": people, "budget": {"epsilon": 1.0, "delta": 1e-7}, "query": count}),
        "size": make_plan(
            {
                "title": "No",
                "unit": {"neighbours": "replace", "size": 500},
                "budget": {"epsilon": 2, "delta": 1e-9},
                "keys": {"clinic": [f"c{at}" for at in range(30)]},
                "query": count,
            }
        ),
    }


@pytest.mark.parametrize("name", ["demo", "row", "delta", "size"])
def test_a_record_has_the_registrys_fields_and_is_valid_once_it_is_filled_in(name):
    found = record(plans()[name])
    assert faults(found) <= set(open_fields(found))
    assert faults(found)  # a few words are still asked for
    assert faults(filled(found)) == set()
    assert found["deployment"].keys() == SCHEMA["properties"]["deployment"]["properties"].keys()
    for part, fields in found["deployment"].items():
        known = SCHEMA["properties"]["deployment"]["properties"][part]["properties"]
        assert fields.keys() == known.keys(), part


def test_the_validator_finds_what_is_wrong():
    """The control: a field that the registry does not know, one of another type, one that is missing."""
    good = filled(record(plans()["demo"]))
    for path, value in ((("surprise",), 1), (("deployment", "administrative", "tier"), 4)):
        bad = copy.deepcopy(good)
        place = bad
        for each in path[:-1]:
            place = place[each]
        place[path[-1]] = value
        assert faults(bad)
    del good["deployment"]["basic"]["description"]
    assert faults(good)


def test_a_record_is_read_back_from_yaml():
    for plan in plans().values():
        found = record(plan)
        text = record_text(found)
        assert yaml.safe_load(text) == found
        assert text.startswith("# A record for the Differential Privacy Deployments Registry")


def test_what_the_plan_knows_is_what_the_record_says():
    found = record(plans()["delta"])["deployment"]
    assert found["dp_variant"]["variant_name"] == "Approximate DP"
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-7}
    assert "selected privately" in found["implementation"]["mechanisms"]
    assert "'person'" in found["privacy_loss"]["privacy_unit"]
    assert "at most 3 groups of a unit and 2 rows" in found["privacy_loss"]["privacy_unit_details"]
    assert "keys" not in found["dp_variant"]["unprotected_quantities"].replace("nor keys", "")
    found = record(plans()["size"])["deployment"]
    assert found["privacy_loss"]["number_of_privacy_units"] == 500
    assert "the number of units, 500" in found["dp_variant"]["unprotected_quantities"]
    assert "'c19' and 10 more" in found["dp_variant"]["unprotected_quantities"]
    assert "differ in one row of 500" in found["privacy_loss"]["privacy_unit_details"]
    plan = plans()["demo"]
    said = record(plan)["deployment"]["implementation"]["mechanisms"]
    assert all(each in said for each in prepare(plan).mechanisms)


def test_what_only_people_know_is_open():
    """Nothing about the office, the data or its reasons is made up; a record without a title has no name either."""
    found = record(plans()["row"])
    known = (
        "url_slug",
        "deployment.basic.name",
        "deployment.basic.data_curators.0.data_curator_name",
        "deployment.basic.data_curators.0.data_curator_type",
        "deployment.basic.intended_use",
        "deployment.basic.data_product_region",
        "deployment.basic.data_product_sector",
        "deployment.basic.publication_date",
        "deployment.privacy_loss.number_of_privacy_units",
        "deployment.deployment_model.trust_assumptions",
        "deployment.deployment_model.actors",
        "deployment.deployment_model.release_type",
        "deployment.deployment_model.data_source_type",
        "deployment.implementation.justification",
        "deployment.administrative.registry_authors.0",
    )
    assert set(known) <= set(open_fields(found))


def test_certificate_and_ledger_fill_in_what_they_know(tmp_path):
    data = {"person": [1, 2, 3]}
    plan = make_plan(
        {
            "title": "Visits",
            "unit": {"column": "person"},
            "budget": {"epsilon": 0.5, "account": HOSTILE.replace("\n", " ").replace("\x1b", "").strip("\u2028")},
            "query": [{"name": "visits", "kind": "count"}],
        }
    )
    pyarrow = pytest.importorskip("pyarrow")
    account = plan.budget.account
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account(account, epsilon=1, period="year")
        made = release(plan, pyarrow.table(data), ledger=ledger, request="first")
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
    plan = make_plan(
        {
            "title": HOSTILE,
            "unit": {"column": HOSTILE, "rows": 2},
            "budget": {"epsilon": 1.0},
            "keys": {HOSTILE + "k": [HOSTILE, "b"]},
            "query": [
                {"name": HOSTILE, "kind": "mean", "column": HOSTILE + "x", "range": [0, 1], "by": [HOSTILE + "k"]}
            ],
        }
    )
    found = record(plan)
    text = record_text(found)
    assert yaml.safe_load(text) == found
    assert found["deployment"]["basic"]["name"] == HOSTILE
    lines = found["deployment"]["implementation"]["mechanisms"].splitlines()
    assert len(lines) == 6
    assert all(line.startswith("- ") for line in lines)
    assert "\x1b" not in text
    assert faults(filled(found)) == set()


def test_an_open_field_is_named_however_deep_it_is():
    assert open_fields({"a": [{"b": f"x\n{OPEN}y\n"}], "c": 1}) == ["a.0.b"]
