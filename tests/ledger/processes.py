"""Processes of their own, which may fork, be killed and be limited as they like, and threads."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rangebound.errors import LedgerUnavailable
from rangebound.ledger.book import Ledger
from tests.ledger.rules import release

PREAMBLE = """
import os, sys, threading, time
from pathlib import Path
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost
from rangebound.errors import RangeboundError
from tests.ledger.processes import forked
from tests.ledger.rules import TENTH, open_for, release, reserve
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


def play(act: Callable[..., object], *arguments: object) -> Any:
    """What a play of many processes comes to, in a small process of its own: forks of a large one take long."""
    code = f"import json, sys; from {act.__module__} import {act.__name__} as act; "
    code += "print(json.dumps(act(*json.loads(sys.argv[1]))))"
    return json.loads(output([sys.executable, "-c", code, json.dumps(arguments, default=str)], 1800.0))


def forked(work: Callable[[], object]) -> int:
    """The id of a child that does something; it fails unless it comes to its end."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Call a function with each number at the same moment, in threads of their own; what each returned."""
    start, found = threading.Barrier(count), [None] * count

    def one(at: int) -> None:
        start.wait()
        found[at] = work(at)

    threads = [threading.Thread(target=one, args=[at]) for at in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """A disk of its own, in memory."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("needs a disk of its own")
    place = tempfile.mkdtemp(dir="/var/tmp")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "none", place]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    try:
        yield Path(place)
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        os.rmdir(place)


def spent_until_full(ledger: Ledger, size: int) -> tuple[set[str], dict[str, bytes]]:
    """The requests that were computed until there is no room for more, and what was revealed."""
    computed, revealed = set(), {}
    for name in map(str, range(10_000)):
        try:
            revealed[name] = release(ledger, name, lambda _, name=name: computed.add(name) or os.urandom(size))
        except LedgerUnavailable:
            return computed, revealed
    raise AssertionError("there is room for all")


def check_full(ledger: Ledger, computed: set[str], revealed: dict[str, bytes]) -> None:
    """What was computed on a full disk is charged, what was revealed is stored, and the ledger goes on."""
    assert computed
    assert computed <= {record.request for record in ledger.history() if record.kind == "spend"}
    assert all(ledger.published(name) == drawn for name, drawn in revealed.items())
    release(ledger, "after")
    ledger.verify()
