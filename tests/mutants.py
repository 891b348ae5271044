"""Break lines that carry a guarantee, one at a time, and see whether the tests notice: `make mutants`.

A mutant is one small change of one expression: a sign, `min` for `max`, a dropped factor 2, `<` for `<=`, rounding to
the other side, one direction of a pair left out, `any` for `all`. Places are found in the syntax tree, so that they
follow the code; the sample is drawn by a hash of each place's own text, so that it hardly changes with other code.

Every mutant runs against the test of its own module, then against those of its room, of the rooms that lean on it, and
all. A test that fails, or takes far longer than on the code as it is, has caught it; tests that fail on the code as it
is catch nothing, and are named in the report. Each worker has a copy of the tree of its own. Mutants that nothing
caught and that were shown to change no guarantee are listed with the reason in `mutants.toml`, and so are functions
that carry none, whose mutants are left out.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/rangebound")
HARMLESS = Path(__file__).with_name("mutants.toml")
ROOMS = (
    "sampling",
    "discrete_laplace.py",
    "ball.py",
    "privacy",
    "calibration.py",
    "certificates.py",
    "accounting",
    "ledger",
    "release",
    "learn/torch",
    "learn/sklearn",
)
"""Where the guarantees live; a room that has gone is an error."""

LEANING: dict[str, tuple[str, ...]] = {
    "ball.py": ("tests/noise", "tests/privacy/pairs", "tests/privacy/search", "tests/sampling/test_draw.py"),
    "calibration.py": ("tests/crosscheck/test_calibration.py", "tests/test_golden.py", "tests/test_properties.py"),
    "certificates.py": ("tests/matrix/test_certified.py", "tests/test_bad_input.py"),
    "discrete_laplace.py": ("tests/release/noise", "tests/test_properties.py"),
    "sampling": ("tests/statistical/test_goodness_of_fit.py", "tests/learn/torch/test_tensor_draw.py"),
    "privacy": ("tests/matrix", "tests/crosscheck", "tests/test_calibration.py", "tests/test_golden.py"),
    "accounting": ("tests/learn/torch/accounts", "tests/test_properties.py", "tests/test_golden.py"),
    "ledger": ("tests/release/test_run.py", "tests/release/test_killed.py", "tests/learn/sklearn"),
    "release": ("tests/cli", "tests/statistical/test_release_coverage.py"),
    "learn/torch": ("tests/crosscheck/test_tensors.py", "tests/accounting/test_per_instance.py"),
    "learn/sklearn": ("tests/test_bad_input.py", "tests/test_hidden_answers.py"),
}
"""The tests of the rooms that lean on a room: where a mistake in it shows first outside."""


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
    """So many mutants: the rooms in turn, the kinds of mistake in turn, by a hash of the seed and each one's key."""
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


# The tests of a mutant, from near to far.


Stage = tuple[tuple[str, ...], ...]
"""What is given to pytest in one stage, each in a process of its own.

The examples of a module run apart from its tests: by its path pytest imports it a second time, and a test would meet
two classes of one name.
"""


def stages(mutant: Mutant) -> list[Stage]:
    from tests.mirror import tests_of

    module = Path(mutant.path).relative_to(PACKAGE)
    own = tuple(each.as_posix() for each in tests_of(module))
    first = module.parts[0]
    room = f"tests/{first}" if len(module.parts) > 1 else f"tests/test_{module.stem}.py"
    return [
        (own, (mutant.path,)),
        ((room,), (f"{PACKAGE.as_posix()}/{first}",)),
        tuple((each,) for each in LEANING[mutant.room]),
        (("tests",), ("src",)),
    ]


_NO_TESTS = 5  # pytest's exit status where nothing was collected


class Tree:
    """A copy of the working tree in which one worker changes one file at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout.decode()
        kernels = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.so")]
        for name in {*filter(None, listed.split("\0")), *kernels}:
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        self._clock = int(time.time())

    def write(self, path: str, text: str) -> None:
        """Write a file with a time of its own: compiled modules are told apart by the second and the length alone."""
        self._clock += 2
        (self.folder / path).write_text(text, encoding="utf-8")
        os.utime(self.folder / path, (self._clock, self._clock))

    def passes(self, tests: tuple[str, ...], limit: float) -> str:
        """An empty text if all tests pass; else the first that failed, or that time ran out."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--no-cov"]
        command += tests
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src"), "PYTHONHASHSEED": "0"}
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as started:
            try:
                said, _ = started.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)  # with whatever it has started itself
                return "out of time"
        if started.returncode in (0, _NO_TESTS):
            return ""
        failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return failed[0] if failed else f"exit {started.returncode}: {said[-300:]}"


class Baseline:
    """How long tests take on the code as it is; where they do not pass there, they would prove nothing."""

    def __init__(self) -> None:
        self.failed: dict[tuple[str, ...], str] = {}
        self._seconds: dict[tuple[str, ...], float] = {}
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._lock = threading.Lock()

    def limit(self, tree: Tree, tests: tuple[str, ...]) -> float | None:
        """How long they may take on a mutant; None where they fail on the code as it is."""
        with self._lock:
            mine = self._locks.setdefault(tests, threading.Lock())
        with mine:
            if tests not in self._seconds:
                begun = time.monotonic()
                if said := tree.passes(tests, 3600.0):
                    self.failed[tests] = said
                self._seconds[tests] = time.monotonic() - begun
        return None if tests in self.failed else 60.0 + 6.0 * self._seconds[tests]


def judge(mutant: Mutant, tree: Tree, baseline: Baseline, reach: int) -> str:
    """What caught the mutant, or an empty text."""
    source = (ROOT / mutant.path).read_text(encoding="utf-8")
    broken = mutated(source, mutant)
    ast.parse(broken)
    for stage in stages(mutant)[:reach]:
        for tests in stage:
            existing = tuple(each for each in tests if (tree.folder / each).exists())
            if not existing or (limit := baseline.limit(tree, existing)) is None:
                continue
            tree.write(mutant.path, broken)
            try:
                said = tree.passes(existing, limit)
            finally:
                tree.write(mutant.path, source)
            if said:
                return said
    return ""


def run(
    mutants: list[Mutant], jobs: int, reach: int, baseline: Baseline, show: Callable[[str], None] = print
) -> dict[Mutant, str]:
    """Every mutant with what caught it."""
    waiting: queue.Queue[Mutant] = queue.Queue()
    for each in mutants:
        waiting.put(each)
    results: dict[Mutant, str] = {}
    trouble: list[BaseException] = []
    lock = threading.Lock()

    def work(folder: Path) -> None:
        try:
            tree = Tree(folder)
            while not trouble:
                try:
                    mutant = waiting.get_nowait()
                except queue.Empty:
                    return
                said = judge(mutant, tree, baseline, reach)
                with lock:
                    results[mutant] = said
                    show(f"[{len(results)}/{len(mutants)}] {'caught' if said else 'SURVIVED'} {mutant}  by {said}")
        except BaseException as error:
            trouble.append(error)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        workers = [threading.Thread(target=work, args=(Path(folder) / str(at),)) for at in range(jobs)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
    if trouble:
        raise trouble[0]
    return results


def report(results: dict[Mutant, str], failed: dict[tuple[str, ...], str]) -> str:
    """The table by room, every survivor, and the tests that proved nothing."""
    known = harmless()
    lines = ["| room | mutants | caught | harmless | survived |", "| --- | ---: | ---: | ---: | ---: |"]
    counts: dict[str, Counter[str]] = {}
    for mutant, said in results.items():
        verdict = "caught" if said else "harmless" if mutant.key in known else "survived"
        for room in (mutant.room, "all"):
            counts.setdefault(room, Counter())[verdict] += 1
    for room in (*ROOMS, "all"):
        if room in counts:
            c = counts[room]
            lines.append(f"| {room} | {c.total()} | {c['caught']} | {c['harmless']} | {c['survived']} |")
    survivors = [mutant for mutant, said in results.items() if not said]
    lines += ["", *(f"- {mutant}: {known.get(mutant.key, 'SURVIVED')}" for mutant in survivors)]
    lines += [f"- {' '.join(tests)}: fails on the code as it is: {said}" for tests, said in failed.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="workers, each with a copy of the tree")
    parser.add_argument("--sample", type=int, default=200, help="how many mutants beside the known ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--room", choices=ROOMS, action="append", help="only these rooms")
    parser.add_argument("--key", action="append", help="only these mutants")
    parser.add_argument("--reach", type=int, default=4, choices=(1, 2, 3, 4), help="own test, room's, leaning, all")
    parser.add_argument("--floor", type=float, default=0.95, help="the share that must be caught or known as harmless")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    given = parser.parse_args()
    everything = every_mutant()
    if given.key:
        chosen = [each for each in everything + named() if each.key in given.key]
    else:
        rooms = given.room or ROOMS
        chosen = [each for each in named() if each.room in rooms]
        chosen += sample([each for each in guarded(everything) if each.room in rooms], given.sample, given.seed)
    if given.list:
        print(*chosen, f"{len(chosen)} of {len(everything)} mutants", sep="\n")
        return 0
    baseline = Baseline()
    results = run(chosen, given.jobs, given.reach, baseline, lambda line: print(line, flush=True))
    text = report(results, baseline.failed)
    out = ROOT / "out" / "mutants.md"
    out.parent.mkdir(exist_ok=True)
    out.write_text(text, encoding="utf-8")
    print(text)
    known = harmless()
    good = sum(bool(said) or mutant.key in known for mutant, said in results.items())
    print(f"{good} of {len(results)} mutants caught or harmless; see {out.relative_to(ROOT)}")
    return 0 if good >= given.floor * len(results) and not baseline.failed else 1


if __name__ == "__main__":
    sys.exit(main())
