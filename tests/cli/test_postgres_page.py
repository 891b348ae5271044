"""The steps on the page about a table from PostgreSQL, one after the other, on a real server."""

import re
import shlex
from pathlib import Path

import psycopg
import pytest

from rangebound.cli.app import run
from tests.ledger.postgres import fresh_address, schema_of

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"


@pytest.fixture
def steps(postgres):
    """The blocks of the page, for the server of the tests: the table and the login have names of their own there."""
    own = schema_of(fresh_address(postgres))
    text = PAGE.read_text(encoding="utf-8")
    text = text.replace(
        "postgresql://publisher@db.example/office", postgres.replace("postgres@", f"publisher_{own}@", 1)
    )
    text = re.sub(r"\bpublisher\b(?= LOGIN|;)", f"publisher_{own}", text)
    text = re.sub(r'(CREATE TABLE |INSERT INTO |ON |table = ")visits\b', rf"\1visits_{own}", text)
    return re.findall(r"```(sh|sql|toml)\n(.*?)```", text, re.DOTALL)


def test_the_steps_of_the_page_work_in_their_order(steps, postgres, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    assert [kind for kind, _ in steps] == ["sql", "sql", "toml", "sh"]
    for kind, block in steps:
        if kind == "sql":
            with psycopg.connect(postgres, autocommit=True) as connection:
                for statement in block.split(";\n"):
                    connection.execute(statement)
        elif kind == "toml":
            (tmp_path / "plan.toml").write_text(block)
        else:
            for line in block.splitlines():
                program, *arguments = shlex.split(line, comments=True)
                assert program == "rangebound"
                assert run(arguments) == 0, (arguments, capsys.readouterr().err)
    out = capsys.readouterr().out
    assert "spent epsilon 1; account 'visits' has epsilon 3 left" in out
    assert (tmp_path / "table.csv").read_text().count("waiting") == 3
