"""The table of all fields is made from the code: none is missing, and the site has it at the end of the page."""

from pathlib import Path

from rangebound.cli.app import run
from rangebound.release import field_table
from rangebound.release.plan.field_table import EFFECTS
from rangebound.release.plan.kinds import written_kinds
from website.__main__ import with_fields

PAGE = Path(__file__).parents[3] / "docs" / "plan.md"


def test_the_page_of_the_site_ends_with_what_the_command_prints(capsys):
    assert run(["plan", "fields"]) == 0
    page = PAGE.read_text(encoding="utf-8")
    assert with_fields(page) == page.partition("## Every field\n")[0] + capsys.readouterr().out


def test_every_kind_has_a_row_on_the_page_of_plans():
    page = PAGE.read_text(encoding="utf-8").partition("## Every field\n")[0]
    assert [name for name in written_kinds() if f"\n| `{name}` | " not in page] == [], "add it to the table of kinds"


def test_every_field_has_an_effect_and_every_effect_a_field():
    wanted = "write it as Field(description=...) of the field, or in plan/field_effects.toml"
    text = field_table()
    assert [name for name, effect in EFFECTS.items() if f" | {effect}" not in text] == []
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert [row for row in rows if len(row) != 4 or not all(row)] == [], wanted
    assert len(rows) > 100
