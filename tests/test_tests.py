"""The tests themselves: forms that let a test pass whatever the code does are refused, all over this folder."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NAMED = (ast.Name, ast.Attribute)
CHECKS = ("raises", "warns", "fail", "assert_", "exit")
"""Attributes that count as a check: of pytest, of numpy.testing (`assert_allclose`), and of a script's exit status."""


@cache
def parsed() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(TESTS.rglob("*.py"))}


@cache
def every(tree: ast.AST) -> list[ast.AST]:
    """The nodes of a tree: five rules go through the same million."""
    return list(ast.walk(tree))


def written(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in every(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


@cache
def own(node: ast.AST) -> list[ast.AST]:
    """The nodes of a function's own body, without those of functions inside it."""
    found, left = [], [node]
    while left:
        for child in ast.iter_child_nodes(left.pop()):
            if not isinstance(child, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
                found.append(child)
                left.append(child)
    return found


@cache
def names_used(node: ast.AST) -> set[str]:
    """Every name that occurs, called or handed on."""
    return {each.id if isinstance(each, ast.Name) else each.attr for each in ast.walk(node) if isinstance(each, NAMED)}


@cache
def checks_itself(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Assert) or (isinstance(each, ast.Attribute) and each.attr.startswith(CHECKS))
        for each in ast.walk(node)
    )


def checking_functions(trees: list[ast.Module]) -> set[str]:
    """The names of all functions that check something, by themselves or through one that does."""
    functions = [node for tree in trees for node in every(tree) if isinstance(node, FUNCTIONS)]
    uses = {node: names_used(node) for node in functions}
    found = {node.name for node in functions if checks_itself(node)}
    while more := {node.name for node in functions if uses[node] & found} - found:
        found |= more
    return found


@cache
def all_checking() -> set[str]:
    return checking_functions(list(parsed().values()))


def returns(tree: ast.Module, _: set[str]) -> Iterator[tuple[int, str]]:
    """A test that returns early passes without having asked; a case that does not apply is not a case."""
    for test in written(tree):
        yield from ((node.lineno, "return in a test") for node in own(test) if isinstance(node, ast.Return))


def nothing_asked(tree: ast.Module, checking: set[str]) -> Iterator[tuple[int, str]]:
    """A test with no assertion, no expected error or warning, and no call of a function that has one."""
    for test in written(tree):
        if not checks_itself(test) and not names_used(test) & checking:
            yield test.lineno, f"{test.name} checks nothing"


def always_true(tree: ast.Module, _: set[str]) -> Iterator[tuple[int, str]]:
    """An assertion of constants alone, of a non-empty tuple, of `... or True`, or of `x == x`."""
    for node in every(tree):
        if isinstance(node, ast.Assert):
            inside = list(ast.walk(node.test))
            if not any(isinstance(each, (ast.Name, ast.Call)) for each in inside):
                yield node.lineno, f"{ast.unparse(node.test)}: constants alone"
            if isinstance(node.test, ast.Tuple):
                yield node.lineno, f"{ast.unparse(node.test)}: a tuple is true"
            for each in inside:
                if isinstance(each, ast.BoolOp) and isinstance(each.op, ast.Or) and any(map(_certain, each.values)):
                    yield node.lineno, f"{ast.unparse(node.test)}: one side is always true"
                if isinstance(each, ast.Compare) and _compares_with_itself(each):
                    yield node.lineno, f"{ast.unparse(node.test)}: compares an expression with itself"


def _certain(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)


def _compares_with_itself(node: ast.Compare) -> bool:
    sides = itertools.pairwise([node.left, *node.comparators])
    return any(
        isinstance(how, (ast.Eq, ast.LtE, ast.GtE)) and type(left) is type(right) and ast.dump(left) == ast.dump(right)
        for how, (left, right) in zip(node.ops, sides, strict=True)
    )


def constants_of_the_test(tree: ast.Module, _: set[str]) -> Iterator[tuple[int, str]]:
    """An assertion over names that the test itself has set to fixed values, and over nothing else."""
    for test in written(tree):
        stored = [
            each.id for each in ast.walk(test) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)
        ]
        fixed = {
            target.id
            for node in own(test)
            if isinstance(node, ast.Assign) and _fixed(node.value)
            for target in node.targets
            if isinstance(target, ast.Name) and stored.count(target.id) == 1
        }
        for node in own(test):
            if isinstance(node, ast.Assert) and not any(isinstance(each, ast.Attribute) for each in ast.walk(node)):
                names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                if names & fixed and names <= fixed | PURE | set(filter(str.isupper, names)):
                    yield node.lineno, f"{ast.unparse(node.test)}: constants of the test itself"


PURE = {"Fraction", "abs", "float", "int", "len", "max", "min", "round", "set", "sorted", "sum", "tuple"}


def _fixed(node: ast.expr) -> bool:
    """Whether a value is of constants alone, and of a kind that no call can change."""
    parts = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.Load)
    return all(isinstance(each, parts) or (isinstance(each, ast.Name) and each.id.isupper()) for each in ast.walk(node))


def leaks_digits(tree: ast.Module, _: set[str]) -> Iterator[tuple[int, str]]:
    """The precision of mpmath set for good: it stays set for all tests that come later. `mp.workdps` sets it back."""
    for node in every(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if _sets(node) else []
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr in ("dps", "prec"):
                yield node.lineno, f"{ast.unparse(target)} is set for good; use workdps"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr" and len(node.args) == 3:
            name = node.args[1]
            if isinstance(name, ast.Constant) and name.value in ("dps", "prec"):
                yield node.lineno, f"{ast.unparse(node)} is set for good; use workdps"


def _sets(node: ast.AST) -> bool:
    return isinstance(node, (ast.AugAssign, ast.AnnAssign))


RULES = (returns, nothing_asked, always_true, constants_of_the_test, leaks_digits)


def test_no_test_can_only_pass():
    found = [
        f"{path.relative_to(TESTS)}:{line}: {what}"
        for path, tree in parsed().items()
        for rule in RULES
        for line, what in rule(tree, all_checking())
    ]
    assert not found, "\n".join(found)


BROKEN = {
    "leaks_digits": "mpmath.mp.dps = 50\n\ndef test_a():\n    assert f(3)",
    "returns": "def test_a(x):\n    if x == 0:\n        assert f(x)\n        return\n    assert g(x)",
    "nothing_asked": "def run(x):\n    f(x)\n\ndef test_a():\n    run(3)",
    "always_true": "def test_a():\n    assert digest(table()) == digest(table())",
    "constants_of_the_test": "def test_a():\n    chances = (0, WHOLE // 4)\n    assert select(chances) == [3]\n"
    "    assert Fraction(chances[1], WHOLE) == Fraction(1, 4)",
}
FINE = """
def run(x):
    assert f(x)

def test_through_a_function():
    run(3)

def test_a_return_inside():
    def inner():
        return 3
    assert f(inner) == f(3)

def test_an_implication(x):
    assert x == 0.0 or f(x) <= x

def test_not_equal():
    assert Leak(1.0) != Leak(1.0)

def test_a_list_that_was_filled():
    calls = []
    f(calls)
    assert calls == []
"""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_control_each_rule_finds_its_fault_and_nothing_else(rule):
    for name, text in BROKEN.items():
        tree = ast.parse(text)
        assert bool(list(rule(tree, checking_functions([tree])))) == (name == rule.__name__), name
    tree = ast.parse(FINE)
    assert list(rule(tree, checking_functions([tree]))) == []


@pytest.mark.parametrize(
    "asserted", ["True", "1 == 1", "(x == 3, 'three')", "x == 3 or True", "f(x) == f(x)", "x <= x"]
)
def test_control_every_form_that_is_always_true_is_found(asserted):
    tree = ast.parse(f"def test_a(x):\n    assert {asserted}")
    assert len(list(always_true(tree, set()))) >= 1
