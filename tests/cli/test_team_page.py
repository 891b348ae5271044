"""The commands on the page about teams, one after the other, on a real server."""

import re
import shlex
from pathlib import Path

import psycopg
import pytest

from rangebound.cli.app import run
from tests.ledger.postgres import fresh_address, schema_of

PAGE = Path(__file__).parents[2] / "docs" / "teams.md"
PLAN = """
[source]
path = "t.csv"
[budget]
epsilon = 1
account = "residents"
[[query]]
name = "n"
kind = "count"
"""


@pytest.fixture
def steps(postgres):
    """The blocks of the page, for the server of the tests: names of logins, schemas and roles are made unique there."""
    census, moved = fresh_address(postgres), fresh_address(postgres)
    text = PAGE.read_text(encoding="utf-8")
    for name, address in (("census", census), ("moved", moved)):
        text = text.replace(f"@db.example/office?schema={name}", address.partition("//postgres")[2])
    text = text.replace("census_", f"{schema_of(census)}_")
    for login in ("olga", "paul", "anna", "iris"):
        text = re.sub(rf"\b{login}\b(?=@| LOGIN|;)", f"{login}_{schema_of(census)}", text)
    return re.findall(r"```(sh|sql)\n(.*?)```", text, re.DOTALL)


def test_the_commands_of_the_page_run_in_their_order(steps, postgres, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "t.csv").write_text("age\n1\n2\n")
    (tmp_path / "plan.toml").write_text(PLAN)
    commands = 0
    for kind, block in steps:
        if kind == "sql":
            with psycopg.connect(postgres, autocommit=True) as connection:
                connection.execute(block)
            continue
        for line in block.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "rangebound"
            code = run(arguments)
            assert code == 0, (arguments, capsys.readouterr().err)
            commands += 1
    assert commands == 9
    out = capsys.readouterr().out
    assert "spent epsilon 1; account 'residents' has epsilon 1 left" in out
    assert "all as written" in out
    assert run(["ledger", "show", "old.ledger", "--key", "team.key"]) == 2
    assert "has moved" in capsys.readouterr().err
    assert run(["ledger", "verify", "old.ledger", "--key", "team.key"]) == 0
