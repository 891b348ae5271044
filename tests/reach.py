"""Which functions of the package each test calls, in its own process and in those that it starts.

`python -m pytest -p tests.reach` with `RANGEBOUND_REACH=FOLDER` in the environment writes it there, a line a test, with
the processor time of each. A function notes its call before anything else; that is added when a module is compiled, so
that the source stays as it is. `tests/mutants.py` asks for it.

The first test alone reaches what is cached after it.

PYTEST_DONT_REWRITE: it is imported before pytest is.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1] / "src" / "rangebound"
FOLDER = "RANGEBOUND_REACH"
_NOTE = "__note_call__"


class _Noting(ast.NodeTransformer):
    """Has every function note its call, under its path and name."""

    def __init__(self, path: str) -> None:
        self.path, self.names = path, list[str]()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.names.append(node.name)
        self.generic_visit(node)
        self.names.pop()
        return node

    def visit_FunctionDef(self, node: Any) -> ast.AST:
        self.visit_ClassDef(node)
        first = node.body[0]
        at = int(isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant))  # after the docstring
        key = ast.Constant(f"{self.path}:{'.'.join([*self.names, node.name])}")
        call = ast.copy_location(ast.Expr(ast.Call(ast.Name(_NOTE, ast.Load()), [key], [])), first)
        node.body.insert(at, ast.fix_missing_locations(call))
        return node

    visit_AsyncFunctionDef = visit_FunctionDef


def begin() -> None:
    """Note calls in this process from now on, in modules that are imported from now on.

    In a process that a test has started each is written at once, since it may be killed.
    """
    compiled = importlib.machinery.SourceFileLoader.source_to_code

    def noting(self: Any, data: Any, path: Any, *, _optimize: int = -1) -> Any:
        if not Path(os.fsdecode(path)).is_relative_to(PACKAGE):
            return compiled(self, data, path, _optimize=_optimize)
        inside = Path(os.fsdecode(path)).relative_to(PACKAGE).as_posix()
        tree = _Noting(inside).visit(ast.parse(data, path))
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)

    importlib.machinery.SourceFileLoader.source_to_code = noting  # type: ignore[method-assign]
    os.register_at_fork(after_in_child=_write_at_once)
    setattr(builtins, _NOTE, lambda key: None)
    if "PYTEST_CURRENT_TEST" in os.environ:
        _write_at_once()


def _write_at_once() -> None:
    seen, test = set[str](), os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]

    def note(key: str) -> None:
        if key not in seen:
            seen.add(key)
            with open(Path(os.environ[FOLDER]) / f"{os.getpid()}.child", "a", encoding="utf-8") as file:
                file.write(json.dumps([test, key]) + "\n")

    setattr(builtins, _NOTE, note)


class Noted:
    """Writes what each test calls, in the process that runs it."""

    def __init__(self) -> None:
        self.calls, self.seconds = set[str](), 0.0
        setattr(builtins, _NOTE, self.calls.add)

    def pytest_runtest_logstart(self) -> None:
        self.calls.clear()
        self.seconds = 0.0

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds += getattr(report, "processor", 0.0)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        with open(Path(os.environ[FOLDER]) / f"{os.getpid()}.tests", "a", encoding="utf-8") as file:
            file.write(json.dumps([nodeid, round(self.seconds, 3), sorted(self.calls)]) + "\n")


def pytest_configure(config: Any) -> None:
    if not config.pluginmanager.hasplugin("dsession"):  # which does not run tests itself
        config.pluginmanager.register(Noted())


def read(folder: Path) -> tuple[dict[str, float], dict[str, set[str]]]:
    """The seconds of each test, and the tests of each function."""
    seconds: dict[str, float] = {}
    tests: dict[str, set[str]] = defaultdict(set)
    for file in folder.glob("*.tests"):
        for nodeid, taken, calls in map(json.loads, _whole_lines(file)):
            seconds[nodeid] = taken
            for key in calls:
                tests[key].add(nodeid)
    for file in folder.glob("*.child"):
        for nodeid, key in map(json.loads, _whole_lines(file)):
            if nodeid in seconds:
                tests[key].add(nodeid)
    return seconds, tests


def _whole_lines(file: Path) -> Iterator[str]:
    return (line for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n"))


if FOLDER in os.environ and "tests.reach" in sys.modules:
    begin()
