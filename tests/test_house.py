"""The lines of each room: what a room has may fall, and may not rise above its line here."""

import ast
import re
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "rangebound"
ROOMS = {
    "": 218,
    "accounting": 3_827,
    "audit": 640,
    "cli": 2_387,
    "laws": 1_726,
    "learn": 7_306,
    "ledger": 4_566,
    "mechanisms": 5_923,
    "optimum": 2_947,
    "plot": 783,
    "privacy": 7_950,
    "release": 2_190,
    "release/engine": 2_239,
    "release/noise": 6_886,
    "release/output": 4_095,
    "release/plan": 9_908,
    "release/sql": 2_667,
    "sampling": 1_422,
    "values": 1_641,
    "web": 3_647,
}
"""Lines that a room may have; the modules at the top of the package, and of `release`, are rooms of their own."""
NEW = {
    "": 18,
    "accounting": 76,
    "audit": 1_297,
    "cli": 311,
    "laws": 1,
    "learn": 1_493,
    "ledger": 7,
    "mechanisms": 505,
    "optimum": 56,
    "privacy": 2,
    "release": 421,
    "release/engine": 4,
    "release/noise": 847,
    "release/output": 297,
    "release/plan": 988,
    "release/sql": 18,
    "values": 145,
    "web": 60,
}
"""Lines beside these for what 0.2 could not: proofs for Coq, tried graphs, any batch, plans of 0.2, counts, summaries.

The last are those around quantiles, with what reads the quantiles of earlier versions; and intervals for populations.
"""
FILES = 318
WORDS = 59_996
"""Words of all pages of the documentation that are for users; less is better."""
PLANS = 23
"""Modules that are handed a plan, beside the one that defines it: others are given what they need of it."""


def sources():
    return [each for each in PACKAGE.rglob("*.py") if "__pycache__" not in each.parts]


def room_of(path):
    """The innermost listed room that a file is in.

    >>> room_of(PACKAGE / "release" / "sql" / "view.py"), room_of(PACKAGE / "__init__.py")
    ('release/sql', '')
    """
    folders = [str(each) for each in path.relative_to(PACKAGE).parents]
    return next(each for each in (*folders[:-1], "") if each in ROOMS)


def test_no_room_grows():
    lines = Counter()
    for path in sources():
        lines[room_of(path)] += len(path.read_text(encoding="utf-8").splitlines())
    over = {room: found for room, found in lines.items() if found > ROOMS[room] + NEW.get(room, 0)}
    assert over == {}, (
        "make it shorter; if it can do something new, raise the line of the room in NEW by what that takes"
    )
    assert lines.keys() == ROOMS.keys(), "a room that is gone is taken from the list"


def test_there_are_not_more_files_and_none_is_long():
    assert len(sources()) <= FILES
    assert {each.name for each in sources() if each.read_text("utf-8").count("\n") > 450} == set()


def test_the_documentation_does_not_grow():
    """What is about the library itself (papers, proofs, errata, decisions, results) lies elsewhere."""
    pages = [each.read_text(encoding="utf-8") for each in PACKAGE.parents[1].glob("docs/*.md")]
    assert len(pages) <= 33, "put it on a page that there is"
    assert sum(len(each.split()) for each in pages) <= WORDS, "make it shorter: every word is read by somebody"


def test_no_two_files_share_a_name():
    names = Counter(each.name for each in sources() if each.name != "__init__.py")
    assert [name for name, number in names.items() if number > 1] == []


def handed_a_plan(text):
    """Whether a module has a function with a parameter of type Plan."""
    if not re.search(r":.*\bPlan\b", text):
        return False  # without parsing it
    functions = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    every = (each for one in functions for each in (*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs))
    return any(re.search(r"\bPlan\b", ast.unparse(each.annotation)) for each in every if each.annotation is not None)


def test_few_modules_are_handed_a_plan():
    assert handed_a_plan("def f(*, plan: Plan | None): ...")
    assert not handed_a_plan("def f(self, plan: DrawPlan) -> Plan: ...")  # control: another type, and a result
    elsewhere = ("learn/torch/noise_source.py", "sampling/inversion.py")  # plans of draws
    found = [each.relative_to(PACKAGE).as_posix() for each in sources() if handed_a_plan(each.read_text("utf-8"))]
    assert len({*found} - {"release/plan/model.py", *elsewhere}) <= PLANS
