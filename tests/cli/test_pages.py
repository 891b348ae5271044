"""The commands on the page about tables, one after the other, as a newcomer would type them."""

import re
import shlex
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
