"""The table of all fields is made from the code: none is missing there, and the page is what the code writes."""

import re
from pathlib import Path

from rangebound.cli.app import run
from rangebound.release import field_table, plan_schema
from rangebound.release.plan.field_table import missing_effects
from rangebound.release.plan.questions import written_kinds

PAGE = Path(__file__).parents[3] / "docs" / "plan-fields.md"


def test_the_page_is_what_the_code_writes(capsys):
    assert run(["plan", "fields"]) == 0
    assert PAGE.read_text(encoding="utf-8") == capsys.readouterr().out, "write it by: rangebound plan fields"


def test_every_field_has_an_effect_and_every_effect_a_field():
    assert missing_effects() == []
    rows = [line.strip("| ").split(" | ") for line in field_table().splitlines() if line.startswith("| `")]
    assert all(len(row) == 4 and all(row) for row in rows), [row for row in rows if len(row) != 4 or not all(row)]
    assert len(rows) > 100


def test_the_fields_are_those_of_the_schema():
    """The second route: the JSON schema, which editors use."""
    schema, page = plan_schema(), field_table()
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))

    def fields(title):
        return set(re.findall(r"^\| `(\w+)` \|", sections[title], re.MULTILINE))

    assert fields("Top level") == set(schema["properties"])
    for title in ("[source]", "[unit]", "[budget]", "[[join]]"):
        assert fields(f"`{title}`") == set(schema["$defs"][title.strip("[]").capitalize()]["properties"])
    shared = fields("`[[query]]`: fields of every kind")
    kinds = {
        each["properties"]["kind"]["const"]: each
        for each in schema["$defs"].values()
        if "kind" in each.get("properties", {})
    }
    assert set(kinds) == set(written_kinds())
    for kind, facts in kinds.items():
        assert shared | fields(f"Kind `{kind}`") == set(facts["properties"]), kind
    assert fields("`[unit]`") != shared  # the comparison can fail
