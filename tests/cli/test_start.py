"""Help comes at once, and so does the answer to a mistake: what only the commands need is loaded by the commands."""

import os
import subprocess
import sys

import pytest

HEAVY = ["clarabel", "cryptography", "duckdb", "flint", "matplotlib", "numpy", "pandas", "pyarrow", "pydantic"]
HEAVY += ["pyspark", "rich", "scipy", "sqlglot", "sqlite3", "tomllib", "torch"]
CODE = """
import sys
from rangebound.cli.app import run
code = run(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules}))
"""
AT_ONCE = {
    "": "0",
    "--help": "0",
    "--version": "0",
    "ledger -h": "0",
    "plan --help": "0",
    "plot --help": "0",
    "audit --help": "0",
    "account --help": "0",
    "release --help": "0",
    "dummy --help": "0",
    "ledger open --help": "0",
    "plan check --help": "0",
    "plot law --help": "0",
    "audit ours --help": "0",
    "relese": "2",
    "--verison": "2",
    "plot": "2",
    "plot low": "2",
    "release plan.toml --dryrun": "2",
    "ledger open --epsilom 1": "2",
}


def loaded(*arguments):
    result = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True)
    code, *modules = result.stdout.splitlines()[-1].split()
    return code, set(modules)


@pytest.mark.parametrize(("line", "ends"), AT_ONCE.items(), ids=AT_ONCE)
def test_help_and_mistakes_load_nothing_heavy(line, ends):
    code, modules = loaded(*line.split())
    assert code == ends
    assert modules & set(HEAVY) == set()


def test_control_a_command_does():
    _, modules = loaded("plan", "schema")
    assert {"numpy", "pydantic", "sqlglot"} <= modules


@pytest.mark.parametrize("word", ["--help", "--version", "--verison"])
def test_a_start_is_quick(word, tmp_path):
    """In processor time, beside an import of numpy at the same moment, since others use the machine too.

    It takes 1.1 times as long, give or take 0.2; with all that the commands load it was 2.5, and with scipy it is 8.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": str(tmp_path)}  # as an installed program runs: with its bytecode kept

    def work(*arguments):
        before = os.times()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=False, env=environment)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    ratios = [work("-m", "rangebound", word) / work("-c", "import numpy") for _ in range(5)]
    assert min(ratios[1:]) < 2.0  # the first ones compile
