"""Processes of their own, which may fork, be killed and be limited as they like."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

PREAMBLE = """
import os, sys, threading, time
from pathlib import Path
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost
from rangebound.errors import RangeboundError
from tests.ledger.rules import TENTH, open_for
path, rule = Path(sys.argv[1]), (sys.argv[2:] or ["sum"])[0]
"""
ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """That of this process, in which the tests themselves can be imported."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


def output(command: list[str], timeout: float) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env=environment())
    assert result.returncode == 0, result.stderr
    return result.stdout


def script(code: str, *arguments: object, timeout: float = 600.0) -> str:
    """What a piece of code prints; the first argument is its `path`, the second its `rule`."""
    return output([sys.executable, "-c", PREAMBLE + textwrap.dedent(code), *map(str, arguments)], timeout)


def play(name: str, *arguments: object) -> object:
    """What a play of many processes, a file beside this one, prints as JSON."""
    return json.loads(output([sys.executable, str(Path(__file__).parent / name), *map(str, arguments)], 1800.0))
