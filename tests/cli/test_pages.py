"""The commands on the page about tables, one after the other, as a newcomer would type them."""

import json
import re
import shlex
import tomllib
from pathlib import Path

from rangebound.cli.app import run
from rangebound.release import demo

PAGE = Path(__file__).parents[2] / "docs" / "first-table.md"


def test_the_commands_of_the_page_run_in_their_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(demo.table())
    block = re.search(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block
    lines = [shlex.split(line, comments=True) for line in block[1].splitlines()]
    assert len(lines) == 8
    for program, *arguments in lines:
        assert program == "rangebound"
        assert run(arguments) == 0, arguments
    out = capsys.readouterr().out
    assert "spent epsilon 1; account 'visits' has epsilon 3 left" in out
    assert "epsilon 1, delta 0, charged in the ledger" in out
    assert {"table.csv", "table.json", "report.html", "certificate.json"} <= {path.name for path in tmp_path.iterdir()}


BUDGET = PAGE.with_name("budget.md")
BOARD = """
[source]
path = "visits.csv"
[budget]
epsilon = 0.5
account = "patients"
ledger = "board.ledger"
[[query]]
name = "visits"
kind = "count"
"""


def test_the_commands_about_approval_periods_and_audits_run_in_their_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(demo.table())
    (tmp_path / "board.toml").write_text(BOARD)
    page = BUDGET.read_text(encoding="utf-8")
    page = page[page.index("## Let a person approve") : page.index("## Spend by Renyi")]
    codes = []
    for line in re.findall(r"^\$ rangebound (.*)$", page, re.MULTILINE):
        codes.append(run(shlex.split(line, comments=True)))
    assert codes == [0, 3, 0, 0, 0, 0, 0, 0, 0]  # the second waits for approval
    out, err = capsys.readouterr()
    assert err.startswith("waiting: request='2026-q1'")
    assert "spent epsilon 0.5; account 'patients' has epsilon 1.5 left" in out
    assert "for each quarter (UTC)" in out
    assert "ok: 7 entries, all as written" in out


BOARD_PAGE = PAGE.with_name("ethics-board.md")


def test_the_papers_for_an_ethics_board_are_written_from_its_plan(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = BOARD_PAGE.read_text(encoding="utf-8")
    plan = re.search(r"parse_plan\('''\n(.*?)'''\)", page, re.DOTALL)
    assert plan
    (tmp_path / "visits.csv").write_text(demo.table())
    (tmp_path / "plan.toml").write_text(f'source = {{path = "visits.csv"}}\n{plan[1]}')
    (line,) = re.findall(r"^\$ rangebound (.*)$", page, re.MULTILINE)
    assert run(shlex.split(line)) == 0, capsys.readouterr().err
    assert {"sheet.md", "record.yaml"} <= {path.name for path in tmp_path.iterdir()}


def test_the_crosstab_is_published_by_its_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(demo.table())
    page = PAGE.with_name("crosstab.md").read_text(encoding="utf-8")
    (plan,), (commands,) = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("toml", "sh"))
    (tmp_path / "plan.toml").write_text(plan)
    for line in commands.splitlines():
        assert run(shlex.split(line)[1:]) == 0, capsys.readouterr().err
    assert (tmp_path / "table.csv").read_text().count("crosstab") == (4 + 1) * (3 + 1)


def test_the_commands_to_install_name_extras_that_exist_and_the_program_answers(capsys):
    page = PAGE.with_name("install.md").read_text(encoding="utf-8")
    extras = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))
    assert named == set(extras["optional-dependencies"]) - {"dev", "docs", "examples"}
    for each in re.findall(r"pip install '[\w.]+\[([\w,-]+)\]'", page):
        assert set(each.split(",")) <= named
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rangebound ")


REFERENCE = PAGE.with_name("plan.md")


def first_names(section: str) -> list[set[str]]:
    """The names in code in the first cell of each row of the first table of a section."""
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table
    rows = [row.strip("|\n ").split(" | ") for row in table[0].splitlines()[2:]]
    return [set(re.findall(r"`\[*([^`\]]+)\]*`", cells[0])) for cells in rows]


def missing_or_unknown(page: str, schema: dict) -> list[str]:
    """What the reference of plans leaves out, or names though there is no such thing."""
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    kinds = {
        each["properties"]["kind"]["const"]: each
        for each in schema["$defs"].values()
        if "kind" in each.get("properties", {})
    }
    shared = set.intersection(*(set(each["properties"]) for each in kinds.values()))
    found = []
    for title, fields in {
        "Top level": set(schema["properties"]),
        "`[[join]]`": set(schema["$defs"]["Join"]["properties"]),
        "`[[query]]`: fields of every kind": shared,
        "Kinds": set(kinds),
    }.items():
        said = set().union(*first_names(sections[title]))
        found += [f"{title}: {each}" for each in sorted(said ^ fields)]
    for line in sections["Kinds"].splitlines():
        kind = re.match(r"\| `([^`]+)` \|", line)
        if kind and kind[1] in kinds:
            said = set(re.findall(r"`(\w+)`", line.rsplit(" | ", 1)[1]))
            found += [f"{kind[1]}: {each}" for each in sorted(said ^ (set(kinds[kind[1]]["properties"]) - shared))]
    return found


def test_the_reference_of_plans_names_every_field_and_kind(capsys):
    assert run(["plan", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    page = REFERENCE.read_text(encoding="utf-8")
    assert missing_or_unknown(page, schema) == []
    assert missing_or_unknown(page.replace("| `rows` |", "| `row` |", 1), schema) == [
        "`[[join]]`: row",
        "`[[join]]`: rows",
    ]
    assert missing_or_unknown(page.replace("`missing`, `bins`, `bin_names` |", "`bins`, `bin_names` |"), schema) == [
        "histogram: missing"
    ]
