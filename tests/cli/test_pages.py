"""The commands on the pages, one after the other, as a newcomer would type them."""

import json
import re
import tomllib
from pathlib import Path

import psycopg
import pytest

from rangebound.cli.app import run
from rangebound.ledger.book import Ledger
from rangebound.release import demo
from tests.cli.visits import DOCS, PLAN, blocks, typed
from tests.ledger.postgres import fresh_address, schema_of


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def section(name, title):
    """A section of a page, up to the next one of its kind."""
    return page(name).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def shown(text):
    return re.findall(r"^\$ rangebound .*$", text, re.MULTILINE)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with the table that the pages speak of, of a user who has seen no ledger."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "visits.csv").write_text(demo.table())
    return tmp_path


def walk(steps, database=None):
    """Take the steps of a page: its SQL on a server, its plan in a file, its commands; how many commands there were."""
    codes = []
    for kind, block in steps:
        if kind == "sql":
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute(block)
        elif kind == "toml":
            Path("plan.toml").write_text(block)
        else:
            codes += typed(block.splitlines())
    assert set(codes) == {0}
    return len(codes)


@pytest.mark.claim("page")
def test_the_first_table(place, capsys):
    assert walk(blocks(page("first-table"), "sh")[:1]) == 8
    out = capsys.readouterr().out
    assert "spent epsilon 1; account 'visits' has epsilon 3 left" in out
    assert "epsilon 1, delta 0, charged in the ledger" in out
    assert {"table.csv", "table.json", "report.html", "certificate.json"} <= {path.name for path in place.iterdir()}


@pytest.mark.slow
def test_a_summary(place, capsys):
    assert walk(blocks(page("from-your-file").partition("## Or one page")[2], "sh")) == 1
    assert "spent epsilon 1, delta 0.000001; account 'visits' has epsilon 0 left" in capsys.readouterr().out
    assert {"report.html", "table.csv", "plan.toml"} <= {path.name for path in (place / "visits-summary").iterdir()}


@pytest.mark.slow
def test_approval_periods_and_audits(place, capsys):
    (place / "board.toml").write_text(PLAN.replace('"people"', '"patients"').replace("people.ledger", "board.ledger"))
    text = page("budget")
    text = text[text.index("### Let a person approve") : text.index("### Spend by Renyi")]
    assert typed(shown(text)) == [0, 3, 0, 0, 0, 0, 0, 0, 0]  # the second waits for approval
    out, err = capsys.readouterr()
    assert err.startswith("waiting: request='2026-q1'")
    assert "spent epsilon 0.5; account 'patients' has epsilon 1.5 left" in out
    assert "for each quarter (UTC)" in out
    assert "ok: 7 entries, all as written" in out


@pytest.mark.slow
def test_the_papers_for_an_ethics_board_are_written_from_its_plan(place):
    (plan,) = re.findall(r"parse_plan\('''\n(.*?)'''\)", page("explain"), re.DOTALL)
    (place / "plan.toml").write_text(f'source = {{path = "visits.csv"}}\n{plan}')
    (_, block), *_ = blocks(page("explain").partition("### The fact sheet")[2], "console")
    assert typed(block.splitlines()) == [0]
    assert {"sheet.md", "record.yaml"} <= {path.name for path in place.iterdir()}


@pytest.mark.slow
def test_a_crosstab(place):
    assert walk(blocks(section("totals", "A crosstab"), "toml|sh")) == 3
    assert (place / "table.csv").read_text().count("crosstab") == (4 + 1) * (3 + 1)


def test_made_up_rows(place, capsys):
    (place / "plan.toml").write_text(PLAN.replace('"people"', '"visits"'))
    assert walk(blocks(page("data-sources").partition("## Made-up rows")[2], "sh")[:1]) == 3
    assert "spent epsilon 0.5" in capsys.readouterr().out


def test_a_select(place, capsys):
    ((_, base), *_), ((_, line), *_) = (blocks(page("sql"), kind) for kind in ("toml", "sh"))
    (place / "base.toml").write_text(base)
    (place / "visits.csv").write_text("person,clinic,waiting,age\n1,north,20,40\n2,south,30,50\n")
    assert typed(["rangebound ledger open visits.ledger people --epsilon 3", line]) == [0, 0]
    assert re.search(r"clinic +COUNT\(\*\) +95 % interval +AVG\(waiting\)", capsys.readouterr().out)


def test_what_somebody_has_sent_is_verified(place, capsys):
    (place / "plan.toml").write_text(PLAN.replace("people", "visits"))
    with Ledger.create("visits.ledger") as ledger:
        ledger.open_account("visits", epsilon=1)
    text, names = page("certificates"), {}
    for _, block in blocks(text, "python"):
        exec(block, names)
    release = "rangebound release plan.toml --request 1 -o table.json --certificate table-certificate.json"
    assert typed([release]) == [0]
    capsys.readouterr()
    assert typed([*shown(text), "$ rangebound verify limit.json"]) == [0] * 3
    out, err = capsys.readouterr()
    assert (len(re.findall("^ok: ", out, re.MULTILINE)), err) == (3, "")


@pytest.mark.slow
def test_a_table_from_postgres(place, postgres, capsys):
    """The table and the login have names of their own on the server of the tests."""
    own = schema_of(fresh_address(postgres))
    login = postgres.replace("postgres@", f"publisher_{own}@", 1)
    text = section("data-sources", "PostgreSQL").replace("postgresql://publisher@db.example/office", login)
    text = re.sub(r"\bpublisher\b(?= LOGIN|;)", f"publisher_{own}", text)
    text = re.sub(r'(CREATE TABLE |INSERT INTO |ON |table = ")visits\b', rf"\1visits_{own}", text)
    steps = blocks(text, "sh|sql|toml")
    assert [kind for kind, _ in steps] == ["sql", "sql", "toml", "sh"]
    walk(steps, postgres)
    assert "spent epsilon 1; account 'visits' has epsilon 3 left" in capsys.readouterr().out
    assert (place / "table.csv").read_text().count("waiting") == 3


@pytest.mark.slow
def test_a_team(place, postgres, capsys):
    """Names of logins, schemas and roles are made unique on the server of the tests."""
    (place / "plan.toml").write_text(PLAN.replace('"people"\nledger = "people.ledger"', '"residents"'))
    census, moved = fresh_address(postgres), fresh_address(postgres)
    text = section("ledger", "Share one budget in a team")
    for name, address in (("census", census), ("moved", moved)):
        text = text.replace(f"@db.example/office?schema={name}", address.partition("//postgres")[2])
    text = text.replace("census_", f"{schema_of(census)}_")
    for login in ("olga", "paul", "anna", "iris"):
        text = re.sub(rf"\b{login}\b(?=@| LOGIN|;)", f"{login}_{schema_of(census)}", text)
    assert walk(blocks(text, "sh|sql"), postgres) == 9
    out = capsys.readouterr().out
    assert "spent epsilon 0.5; account 'residents' has epsilon 1.5 left" in out
    assert "all as written" in out
    assert run(["ledger", "show", "old.ledger", "--key", "team.key"]) == 2
    assert "has moved" in capsys.readouterr().err
    assert run(["ledger", "verify", "old.ledger", "--key", "team.key"]) == 0


def test_the_commands_to_install_name_extras_that_exist():
    extras = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = set(re.findall(r"^\| `([a-z-]+)` \|", page("install"), re.MULTILINE))
    assert named == set(extras["optional-dependencies"]) - {"dev", "docs", "examples"}
    for each in re.findall(r"pip install '[\w.]+\[([\w,-]+)\]'", page("install")):
        assert set(each.split(",")) <= named


def first_names(section):
    """The names in code in the first cell of each row of the first table of a section."""
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table
    rows = [row.strip("|\n ").split(" | ") for row in table[0].splitlines()[2:]]
    return [set(re.findall(r"`\[*([^`\]]+)\]*`", cells[0])) for cells in rows]


def missing_or_unknown(text, schema):
    """The kinds that the reference of plans leaves out, or names though there is no such thing."""
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    parts = (each.get("properties", {}) for each in schema["$defs"].values())
    kinds = {part["kind"]["const"] for part in parts if "kind" in part}
    return sorted(set().union(*first_names(sections["Kinds"])) ^ kinds)


def test_the_reference_of_plans_names_every_kind(capsys):
    """Its tables of fields are made from the code; see tests/release/plan/test_field_table.py."""
    assert run(["plan", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    text = page("plan")
    assert missing_or_unknown(text, schema) == []
    assert missing_or_unknown(text.replace("| `histogram` |", "| `histograms` |", 1), schema) == [
        "histogram",
        "histograms",
    ]
