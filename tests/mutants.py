"""Break lines that carry a guarantee, one at a time, and see whether the tests notice: `make mutants`.

A mutant is one small change of one expression: a sign, `min` for `max`, a dropped factor 2, `<` for `<=`, rounding to
the other side, one direction of a pair left out, `any` for `all`. Places are found in the syntax tree, so that they
follow the code; the sample is drawn by a hash of each place's own text, so that it hardly changes with other code.

One run of the tests notes which of them call which function (`tests/reach.py`). Then a process collects all tests once,
and for every mutant forks a child, which changes the function in memory and runs the tests that call it: those of the
default tier first, the others if none fails. A test that fails, or takes far longer than it did, has caught it.
Processes that tests start import the changed module. Results are kept in `out/mutants.jsonl`: a run that was
interrupted goes on. Mutants that nothing caught and that were shown to change no guarantee are listed with the reason
in `mutants.toml`, and so are functions that carry none, whose mutants are left out.

PYTEST_DONT_REWRITE: it is imported before pytest is.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import hashlib
import importlib.machinery
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tests import reach

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/rangebound")
HARMLESS = Path(__file__).with_name("mutants.toml")
OUT = ROOT / "out"
ROOMS = (
    "sampling",
    "mechanisms/discrete_laplace.py",
    "mechanisms/stair_noise.py",
    "values/ball.py",
    "privacy",
    "mechanisms/calibration.py",
    "mechanisms/certificates.py",
    "mechanisms/lattice_mechanism.py",
    "mechanisms/private_mechanism.py",
    "accounting",
    "ledger",
    "release",
    "learn/torch",
    "learn/sklearn",
)
"""Where the guarantees live; a room that has gone is an error."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one expression of one file."""

    path: str
    function: str
    kind: str
    before: str
    after: str
    nth: int = 0
    """How many of the same expression came before it in its function."""
    start: tuple[int, int] = field(compare=False)
    end: tuple[int, int] = field(compare=False)

    @property
    def room(self) -> str:
        inside = Path(self.path).relative_to(PACKAGE).as_posix()
        return next(room for room in ROOMS if inside == room or inside.startswith(f"{room}/"))

    @property
    def key(self) -> str:
        """The same for as long as the expression and its function are, in whatever file."""
        text = f"{self.function} {self.kind} {self.before} {self.after} {self.nth}"
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def __str__(self) -> str:
        return f"{self.key} {self.path}:{self.start[0]} {self.function}: {self.kind}: {self.before}  ->  {self.after}"


# One operator a kind of mistake: what it makes of a node, each result a mutant.

_SWAPPED_CALLS = {
    "max": "min",
    "maximum": "minimum",
    "up": "down",
    "floor": "ceil",
    "lower": "upper",
    "any": "all",
    "ROUND_FLOOR": "ROUND_CEILING",
    "fsum_up": "fsum_down",
}
_SWAPPED = {**_SWAPPED_CALLS, **{new: old for old, new in _SWAPPED_CALLS.items()}}
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.LtE: ast.Lt, ast.Lt: ast.LtE, ast.GtE: ast.Gt, ast.Gt: ast.GtE}


def _sign(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        if not any(_textual(each) for each in (node.left, node.right)):
            yield ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield node.operand
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "abs":
        yield node.args[0]


def _textual(node: ast.expr) -> bool:
    """Whether a sum is one of texts or of lists."""
    kinds = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    return isinstance(node, kinds) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))


def _factor(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv)):
        if isinstance(node.right, ast.Constant) and node.right.value == 2:
            yield node.left
        elif isinstance(node.left, ast.Constant) and node.left.value == 2:
            yield node.right


def _comparison(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            if type(op) in _COMPARED:
                ops = [*node.ops[:at], _COMPARED[type(op)](), *node.ops[at + 1 :]]
                yield ast.Compare(node.left, ops, node.comparators)


def _side(node: ast.AST) -> Iterator[ast.expr]:
    """`max` for `min`, rounding up for down, the lower end for the upper: what is called, by name or as a method."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _SWAPPED:
            yield ast.Call(ast.Name(_SWAPPED[node.func.id]), node.args, node.keywords)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _SWAPPED:
            swapped = ast.Attribute(node.func.value, _SWAPPED[node.func.attr])
            yield ast.Call(swapped, node.args, node.keywords)
        if _called(node) == "nextafter" and len(node.args) == 2:
            yield ast.Call(node.func, [node.args[0], ast.UnaryOp(ast.USub(), node.args[1])], node.keywords)


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _direction(node: ast.AST) -> Iterator[ast.expr]:
    """One of two arguments of `max` or `min` left out, and one of two things that are gone through."""
    if isinstance(node, ast.Call) and _called(node) in ("max", "min", "maximum", "minimum") and len(node.args) == 2:
        yield from (each for each in node.args if not isinstance(each, ast.Starred))
    elif isinstance(node, (ast.For, ast.comprehension)) and len(getattr(node.iter, "elts", ())) == 2:
        yield from (ast.Tuple([kept], ast.Load()) for kept in node.iter.elts)


def _joined(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


OPERATORS: dict[str, Callable[[ast.AST], Iterator[ast.expr]]] = {
    "sign": _sign,
    "factor 2": _factor,
    "comparison": _comparison,
    "side": _side,
    "direction": _direction,
    "and/or": _joined,
}

_SHOWN = ("__repr__", "__str__", "__format__", "_repr_html_")


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mutant of a file, in order."""
    found: list[Mutant] = []
    repeats: Counter[tuple[str, ...]] = Counter()

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.arguments)):
            return  # words, and what only the interpreter reads
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if node.name in _SHOWN:
                return
            function = f"{function}.{node.name}" if function else node.name
            for inner in node.body:
                visit(inner, function)
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                visit(node.value, function)
            return
        for kind, operator in OPERATORS.items():
            for changed in operator(node):
                place = node.iter if isinstance(node, (ast.For, ast.comprehension)) else node
                ends = (place.lineno, place.col_offset), (place.end_lineno or 0, place.end_col_offset or 0)
                before, after = ast.unparse(place), ast.unparse(ast.fix_missing_locations(changed))
                if before != after:
                    nth = repeats[function, kind, before, after]
                    repeats[function, kind, before, after] += 1
                    found.append(
                        Mutant(
                            path=path,
                            function=function,
                            kind=kind,
                            before=before,
                            after=after,
                            nth=nth,
                            start=ends[0],
                            end=ends[1],
                        )
                    )
        for inner in ast.iter_child_nodes(node):
            visit(inner, function)

    visit(ast.parse(source), "")
    return found


def mutated(source: str, mutant: Mutant) -> str:
    """The text with the one expression replaced; everything else stays byte for byte."""
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: mutant.start[0] - 1])) + mutant.start[1]
    end = sum(map(len, lines[: mutant.end[0] - 1])) + mutant.end[1]
    text = source.encode()
    after = mutant.after if mutant.kind == "known" else f"({mutant.after})"
    return (text[:start] + after.encode() + text[end:]).decode()


@cache
def every_mutant() -> list[Mutant]:
    found: list[Mutant] = []
    for room in ROOMS:
        place = ROOT / PACKAGE / room
        files = [place] if place.is_file() else sorted(place.rglob("*.py"))
        if not files:
            raise SystemExit(f"{room}: there is no such room; the list of rooms in {__file__} has to follow")
        for each in files:
            found += mutants_of(each.relative_to(ROOT).as_posix(), each.read_text(encoding="utf-8"))
    return found


def sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """This many mutants: the rooms in turn, the kinds of mistake in turn, by a hash of the seed and each one's key."""
    rooms: dict[str, dict[str, list[Mutant]]] = {}
    for each in sorted(mutants, key=lambda each: hashlib.sha256(f"{seed} {each.key}".encode()).digest()):
        rooms.setdefault(each.room, {}).setdefault(each.kind, []).append(each)
    chosen: list[Mutant] = []
    turn = 0
    while len(chosen) < min(count, len(mutants)):
        for kinds in rooms.values():
            waiting = [kind for kind in OPERATORS if kinds.get(kind)]
            if waiting and len(chosen) < count:
                chosen.append(kinds[waiting[turn % len(waiting)]].pop(0))
        turn += 1
    return chosen


def named() -> list[Mutant]:
    """The mutants that once survived the tests of their room, by the text of the line; each has a test now."""
    found = []
    for room, before, after in KNOWN:
        texts = [(path, path.read_text(encoding="utf-8")) for path in sorted((ROOT / PACKAGE / room).rglob("*.py"))]
        hits = [(path, text) for path, text in texts if before in text]
        if not hits:
            raise SystemExit(f"{room}: {before!r} is not there any more; the list of known mutants has to follow")
        for path, text in hits:
            at = text.index(before)
            line, column = text.count("\n", 0, at) + 1, len(text[text.rfind("\n", 0, at) + 1 : at].encode())
            found.append(
                Mutant(
                    path=path.relative_to(ROOT).as_posix(),
                    function="",
                    kind="known",
                    before=before,
                    after=after,
                    start=(line, column),
                    end=(line, column + len(before.encode())),
                )
            )
    return found


KNOWN: tuple[tuple[str, str, str], ...] = (
    ("accounting", "moment if mirrored else 2 * moment - 1", "moment"),
    (
        "learn/torch",
        "ball(contraction(self.mechanism)) * ball(self.coordinates).sqrt()",
        "ball(contraction(self.mechanism))",
    ),
    ("learn/torch", "(1 if step.together else step.coordinates)", "1"),
    ("release", "far, across = max(abs(lower), abs(upper))", "far, across = abs(upper)"),
)


def harmless() -> dict[str, str]:
    """Keys of mutants that change no guarantee, with the reason."""
    return {each["key"]: each["reason"] for each in _listed().get("mutant", ())}


def without_guarantee() -> dict[tuple[str, str], str]:
    """Functions, by path and name, no mutant of which changes a guarantee, with the reason."""
    return {(each["path"], each["name"]): each["reason"] for each in _listed().get("function", ())}


@cache
def _listed() -> dict[str, list[dict[str, str]]]:
    return tomllib.loads(HARMLESS.read_text(encoding="utf-8"))


def guarded(mutants: list[Mutant]) -> list[Mutant]:
    """The mutants outside the functions that carry no guarantee."""
    spared = without_guarantee()
    return [
        each
        for each in mutants
        if not any(
            each.path == path and (each.function == name or each.function.startswith(f"{name}."))
            for path, name in spared
        )
    ]


# A mutant in a process: the code of its function is replaced, or, in a process that a test starts, its module.

_PLACE, _TEXT = "RANGEBOUND_MUTANT", "RANGEBOUND_MUTANT_TEXT"


def read_changed() -> None:
    """Have this process import the changed module, if its environment names one."""
    if _PLACE not in os.environ:
        return
    place, text = os.environ[_PLACE], Path(os.environ[_TEXT]).read_text(encoding="utf-8")
    loaded = importlib.machinery.SourceFileLoader.get_code

    def changed(self: Any, name: str) -> Any:
        return compile(text, place, "exec", dont_inherit=True) if self.path == place else loaded(self, name)

    importlib.machinery.SourceFileLoader.get_code = changed  # type: ignore[method-assign]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def replaced(place: str, text: str) -> bool:
    """Change the functions of a module that was imported to those of a text; whether there was any to change."""
    new = {(each.co_qualname, each.co_firstlineno): each for each in _codes(compile(text, place, "exec"))}
    found = False
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == place:
            code = new.get((each.__code__.co_qualname, each.__code__.co_firstlineno))
            if code is not None and code != each.__code__:
                each.__code__ = code
                found = True
    for each in gc.get_objects():
        if type(each) is functools._lru_cache_wrapper and "rangebound" in str(each.__module__):
            each.cache_clear()
    return found


class Judge:
    """A plugin of pytest that, in place of running the tests, judges mutants by them."""

    def __init__(self, mutants: list[Mutant], folder: Path, results: Path, patience: float) -> None:
        self.mutants, self.results, self.patience = mutants, results, patience
        self.seconds, self.tests = reach.read(folder)
        self.width = Counter(test for tests in self.tests.values() for test in tests)
        self.failed = ""
        self.sound: dict[str, bool] = {}
        """Whether a test passes here on the code as it is: what fails anyway catches nothing."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: Any) -> bool:
        items = {each.nodeid: each for each in session.items}
        for mutant in self.mutants:
            begun, verdict, caught = time.monotonic(), "survived", ""
            near, far = self.chosen(mutant, items)
            if self.patience and sum(self.seconds[test] for test in [*near, *far]) > self.patience:
                verdict = "undecided"
                near, far = self.affordable(near), []
            for tier, tests in (("default", near), ("all", far)):
                caught = self.first_failure(mutant, [items[each] for each in tests])
                if caught:
                    verdict = tier
                    break
            row = {"key": mutant.key, "verdict": verdict, "by": caught, "tests": [len(near), len(far)]}
            with open(self.results, "a", encoding="utf-8") as file:
                file.write(json.dumps(row | {"seconds": round(time.monotonic() - begun, 1)}) + "\n")
        return True

    def affordable(self, tests: list[str]) -> list[str]:
        """As many of the tests as patience lasts for."""
        totals = itertools.accumulate(self.seconds[test] for test in tests)
        return [test for test, total in zip(tests, totals, strict=True) if total <= self.patience]

    def chosen(self, mutant: Mutant, items: dict[str, Any]) -> tuple[list[str], list[str]]:
        """The tests of the default tier that call the function, and the others, each in the order to run them: one case
        of each test first, and those first that call little else."""
        path = Path(mutant.path).relative_to(PACKAGE).as_posix()
        keys = [f"{path}:{mutant.function}"]
        if keys[0] not in self.tests:  # an expression of a module or a class
            keys = [key for key in self.tests if key.startswith(f"{path}:")]
        cases: Counter[str] = Counter()

        def order(test: str) -> tuple[bool, int, int, float]:
            cases[test.partition("[")[0]] += 1
            return self.seconds[test] > 1.0, cases[test.partition("[")[0]], self.width[test], self.seconds[test]

        calling = sorted({test for key in keys for test in self.tests[key]} & items.keys())
        ordered = sorted(calling, key=order)
        slow = {test for test in ordered if items[test].get_closest_marker("slow")}
        return [test for test in ordered if test not in slow], [test for test in ordered if test in slow]

    def first_failure(self, mutant: Mutant, items: list[Any]) -> str:
        """The first of the tests that fails on the mutant and not on the code as it is; or an empty text."""
        place, source = str(ROOT / mutant.path), (ROOT / mutant.path).read_text(encoding="utf-8")
        waiting = [each for each in items if self.sound.get(each.nodeid, True)]
        while waiting and (failed := self.forked(place, mutated(source, mutant), waiting)):
            names = [each.nodeid for each in waiting]
            test = failed.partition(": ")[0]
            if test not in names:
                return failed
            at = names.index(test)
            if self.sound.setdefault(test, not self.forked(place, "", [waiting[at]])):
                return failed
            waiting = waiting[at + 1 :]
        return ""

    def forked(self, place: str, text: str, items: list[Any]) -> str:
        """The first of the tests that fails in a process of its own, with a module changed to a text, if any."""
        with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                try:
                    os.setsid()
                    os.close(reading)
                    if text:
                        os.environ |= {_PLACE: place, _TEXT: file.name}
                    self.run(items, place, text, writing)
                except BaseException as error:
                    os.write(writing, f"error {error!r}\n".encode())
                os._exit(0)
            os.close(writing)
            try:
                return self.watched(reading, items)
            finally:
                os.close(reading)
                with suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)  # with whatever it has started itself
                os.waitpid(child, 0)

    def run(self, items: list[Any], place: str, text: str, writing: int) -> None:
        """Say which test begins, and then which has failed."""
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        changed = not text
        try:
            changed = changed or replaced(place, text)
        except ValueError as error:  # of names that the changed function has no more
            os.write(writing, f"failed {error}\n".encode())
        if not changed:  # an expression that runs when the module is imported: by processes of their own
            with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as names:
                names.write("\n".join(each.nodeid for each in items))
                names.flush()
                os.write(writing, b"begun all\n")
                ran = subprocess.run([*PYTEST, "-x", "-m", "not long", f"@{names.name}"], cwd=ROOT, check=False)
            os.write(writing, f"failed {'all together' if ran.returncode == 1 else ''}\n".encode())
            return
        for item, following in zip(items, [*items[1:], None], strict=True):
            os.write(writing, f"begun {item.nodeid}\n".encode())
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                os.write(writing, f"failed {self.failed}\n".encode())
                item.session._setupstate.teardown_exact(None)  # servers that tests have started
                return
        os.write(writing, b"failed \n")

    def watched(self, reading: int, items: list[Any]) -> str:
        """What the child says has failed; a test that takes far longer than it did has."""
        said, now, limit = b"", "", 300.0
        while True:
            if not select.select([reading], [], [], limit)[0]:
                return f"{now}: out of time"
            more = os.read(reading, 2**16)
            if not more:
                return f"{now}: it ended the process"
            said += more
            *lines, said = said.split(b"\n")
            for line in lines:
                word, _, now = line.decode().partition(" ")
                if word == "failed":
                    return now
                if word == "error":
                    raise RuntimeError(now)
                taken = self.seconds.get(now, sum(self.seconds.get(each.nodeid, 0.0) for each in items))
                limit = 45.0 + 20.0 * taken


def pytest_configure(config: Any) -> None:
    asked = os.environ.get("RANGEBOUND_JUDGE")
    if asked:
        part = json.loads(asked)
        known = {each.key: each for each in [*every_mutant(), *named()]}
        chosen = [known[key] for key in part["keys"]]
        config.pluginmanager.register(Judge(chosen, Path(part["reach"]), Path(part["results"]), part["patience"]))


PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", "--no-cov"]


def _environment(folder: Path, **more: str) -> dict[str, str]:
    """An environment in which every Python begins with `reach` or a changed module, where that is asked for."""
    lines = ["import os, sys", f"sys.path.insert(0, {str(ROOT)!r})", "from tests import mutants, reach"]
    lines += ["mutants.read_changed()", "del sys.path[0]"]
    (folder / "sitecustomize.py").write_text("\n".join(lines), encoding="utf-8")
    paths = os.pathsep.join([str(folder), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    cached = {"PYTHONPYCACHEPREFIX": str(OUT / "reach-compiled")} if reach.FOLDER in more else {}
    return {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0", **cached, **more}


def noted(jobs: int) -> Path:
    """The folder with the functions that each test calls, noted for the files as they are."""
    listed = subprocess.run(["git", "ls-files", "src", "tests"], cwd=ROOT, capture_output=True, check=True, text=True)
    files = [ROOT / name for name in listed.stdout.split()]
    state = hashlib.sha256(b"".join(each.read_bytes() for each in files if each.is_file())).hexdigest()[:12]
    folder = OUT / f"reach-{state}"
    if not (folder / "done").exists():
        print("which tests call which function: a run of make test-all", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        for each in folder.iterdir():
            each.unlink()
        with tempfile.TemporaryDirectory() as begins:
            command = [*PYTEST, "-m", "not long", "-p", "tests.reach", "-n", str(jobs), "--dist", "worksteal"]
            environment = _environment(Path(begins), **{reach.FOLDER: str(folder)})
            ran = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if ran.returncode not in (0, 1):
            raise SystemExit(ran.returncode)
        (folder / "done").touch()
    return folder


def judged(mutants: list[Mutant], jobs: int, patience: float) -> dict[str, dict[str, Any]]:
    """The verdict on every mutant by its key, from this run or an earlier one on the same files."""
    folder = noted(jobs)
    results = folder / "results.jsonl"

    def read() -> dict[str, dict[str, Any]]:
        rows = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
        judged = {row["key"]: row for row in map(json.loads, rows)}
        return {key: row for key, row in judged.items() if patience or row["verdict"] != "undecided"}

    waiting = [each.key for each in mutants if each.key not in read()]
    with tempfile.TemporaryDirectory() as begins:
        started = []
        for at in range(min(jobs, len(waiting))):
            part = {"keys": waiting[at::jobs], "reach": str(folder), "results": str(results), "patience": patience}
            environment = _environment(Path(begins), RANGEBOUND_JUDGE=json.dumps(part))
            command = [*PYTEST, "-m", "not long", "-p", "tests.mutants"]
            started.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL))
        for each in started:
            each.wait()
    return read()


def report(mutants: list[Mutant], rows: dict[str, dict[str, Any]]) -> str:
    """The table by room, and every mutant that the default tier did not catch."""
    columns = ("default", "all", "harmless", "survived", "undecided", "not judged")
    lines = [f"| room | mutants | {' | '.join(columns)} |", "| --- " + "| ---: " * 7 + "|"]
    counts = {room: Counter[str]() for room in (*ROOMS, "all")}
    for mutant in mutants:
        for room in (mutant.room, "all"):
            counts[room][_verdict(mutant, rows)] += 1
    lines += [
        f"| {room} | {c.total()} | {' | '.join(str(c[each]) for each in columns)} |" for room, c in counts.items() if c
    ]
    missed = [each for each in mutants if _verdict(each, rows) != "default"]
    lines += ["", *(f"- {_verdict(each, rows)}: {each}: {harmless().get(each.key, '')}" for each in missed)]
    return "\n".join(lines) + "\n"


def _verdict(mutant: Mutant, rows: dict[str, dict[str, Any]]) -> str:
    verdict = rows[mutant.key]["verdict"] if mutant.key in rows else "not judged"
    return "harmless" if verdict == "survived" and mutant.key in harmless() else verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants beside the known ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--room", choices=ROOMS, action="append", help="only these rooms")
    parser.add_argument("--key", action="append", help="only these mutants")
    parser.add_argument("--floor", type=float, default=0.95, help="the share that must be caught or known as harmless")
    parser.add_argument(
        "--patience", type=float, default=0.0, help="seconds of tests for a mutant; 0: all of its tests"
    )
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    given = parser.parse_args()
    if given.key:
        chosen = [each for each in every_mutant() + named() if each.key in given.key]
    else:
        rooms = given.room or ROOMS
        chosen = [each for each in named() if each.room in rooms]
        chosen += sample([each for each in guarded(every_mutant()) if each.room in rooms], given.sample, given.seed)
    if given.list:
        print(*chosen, f"{len(chosen)} of {len(every_mutant())} mutants", sep="\n")
        return 0
    OUT.mkdir(exist_ok=True)
    rows = judged(chosen, given.jobs, given.patience)
    text = report(chosen, rows)
    (OUT / "mutants.md").write_text(text, encoding="utf-8")
    good = sum(_verdict(each, rows) in ("default", "all", "harmless") for each in chosen)
    print(text, f"{good} of {len(chosen)} mutants caught or harmless; see out/mutants.md", sep="\n")
    return 0 if good >= given.floor * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
