"""Help comes at once: what only the commands need is loaded by the commands."""

import subprocess
import sys

import pytest

HEAVY = ["cryptography", "duckdb", "matplotlib", "pandas", "pyarrow", "pyspark", "rich", "scipy", "sqlglot"]
CODE = """
import sys
from rangebound.cli.app import run
code = run(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def loaded(*arguments):
    result = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True)
    code, *modules = result.stdout.splitlines()[-1].split()
    return code, set(modules)


def test_help_loads_nothing_heavy():
    code, modules = loaded("--help")
    assert code == "0"
    assert not modules & {*HEAVY, "pydantic"}


@pytest.mark.parametrize("command", ["release", "plan", "ledger", "account", "plot"])
def test_help_of_a_command_loads_nothing_heavy_but_what_typer_does(command):
    code, modules = loaded(command, "--help")
    assert code == "0"
    assert not modules & set(HEAVY)


def test_control_a_command_does():
    _, modules = loaded("plan", "schema")
    assert {"pydantic", "sqlglot"} <= modules
