"""Help comes at once, and so does the answer to a mistake: what only the commands need is loaded by the commands."""

import subprocess
import sys

import pytest

HEAVY = ["clarabel", "cryptography", "duckdb", "flint", "matplotlib", "numpy", "pandas", "pyarrow", "pydantic"]
HEAVY += ["pyspark", "rich", "scipy", "sqlglot", "sqlite3", "tomllib", "torch"]
CODE = """
import sys
from rangebound.cli.app import run
for line in sys.argv[1:]:
    code = run(line.split())
    print(code, *sorted({name.partition(".")[0] for name in sys.modules}))
"""
HELP = ["", "--help", "--version", "ledger -h", "plan --help", "plot --help", "audit --help", "account --help"]
HELP += ["release --help", "dummy --help", "ledger open --help", "plan check --help", "plot law --help"]
HELP += ["audit ours --help"]
MISTAKES = ["relese", "--verison", "plot", "plot low", "release plan.toml --dryrun", "ledger open --epsilom 1"]


def loaded(*lines):
    """Run commands one after the other in one process; the last line of each: its exit code, what was loaded so far."""
    result = subprocess.run([sys.executable, "-c", CODE, *lines], capture_output=True, text=True, check=True)
    said = [line.split() for line in result.stdout.splitlines() if " sys" in line and "rangebound" in line]
    return [(code, set(modules) & set(HEAVY)) for code, *modules in said if code.isdigit()]


@pytest.mark.parametrize(("lines", "code"), [(HELP, "0"), (MISTAKES, "2")])
def test_help_and_mistakes_load_nothing_heavy(lines, code):
    assert dict(zip(lines, loaded(*lines), strict=True)) == dict.fromkeys(lines, (code, set()))


def test_control_a_command_does():
    ((_, modules),) = loaded("ledger show none.ledger")
    assert {"numpy", "sqlite3"} <= modules
