"""A plan about visits and its ledger, and what a refusal may not show: for tests of commands."""

import re
import shlex
from pathlib import Path

from rangebound.cli.app import run
from rangebound.ledger.book import Ledger

PLAN = """
[source]
path = "visits.csv"
[budget]
epsilon = 0.5
account = "people"
ledger = "people.ledger"
[[query]]
name = "visits"
kind = "count"
"""
DOCS = Path(__file__).parents[2] / "docs"
INSIDE = re.compile(
    r"Traceback|pydantic|duckdb|sqlite3|sqlglot|\bSELECT\b|CREATE|NoneType|object at 0x|Error:|Exception|foresees|"
    r"unexpected|validation error|type=|input_value|rangebound_(source|raw|otherwise)|\.py\b|literal_error|tuple\["
)


def remaining(ledger="people.ledger", account="people"):
    with Ledger.open(ledger) as opened:
        return str(opened.account(account).remaining)


def one_line(code, out, error):
    """Assert that a command was refused in one line in our own words."""
    assert (code, out) == (2, ""), error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert error[:-1].isprintable()
    assert len(error) < 1000
    assert not INSIDE.search(error), error


def complaints(errors):
    """The lines that a process wrote to its error stream, but for the warning where it has no compiled kernel."""
    return [line for line in errors.splitlines() if "no compiled kernel" not in line]


def files():
    """The files of this folder, without what a database writes beside itself while it is open."""
    found = [path for path in Path().iterdir() if path.is_file() and not path.name.endswith(("-wal", "-shm"))]
    return {path.name: path.read_bytes() for path in found}


def blocks(page, kinds):
    """The blocks of some languages on a page, each with its language."""
    return re.findall(rf"```({kinds})\n(.*?)```", page, re.DOTALL)


def typed(lines):
    """Run commands as a page tells a reader to type them; gives their exit codes."""
    codes = []
    for line in lines:
        program, *arguments = shlex.split(line.removeprefix("$ "), comments=True)
        assert program == "rangebound"
        codes.append(run(arguments))
    return codes
