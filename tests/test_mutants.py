"""The mutants: each kind of mistake is made where it can be, each is one change, and one is caught."""

from __future__ import annotations

import ast
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.mutants import (
    LEANING,
    OPERATORS,
    ROOMS,
    ROOT,
    Baseline,
    Tree,
    every_mutant,
    guarded,
    harmless,
    judge,
    mutants_of,
    mutated,
    named,
    sample,
    stages,
    without_guarantee,
)

SOURCE = """
def bound(lower, upper, losses, xp):
    \"\"\"Not here: 2 * x <= max(y).\"\"\"
    if lower >= upper or upper < 0:
        raise ValueError(f"{2 * lower}: must be above {upper + 1}")
    far = max(abs(lower), abs(upper))
    for a, b in ((lower, upper), (upper, lower)):
        far = max(far, math.nextafter(2 * (b - a) + up(xp.maximum(a, b)), math.inf))
    return -far if all(x <= far for x in losses) else far / 2
"""


def made(kind: str) -> set[tuple[str, str]]:
    return {(each.before, each.after) for each in mutants_of("src/rangebound/ball.py", SOURCE) if each.kind == kind}


def test_every_kind_of_mistake_is_made_in_its_places() -> None:
    assert made("sign") >= {("b - a", "b + a"), ("-far", "far"), ("abs(lower)", "lower"), ("abs(upper)", "upper")}
    assert made("factor 2") == {("2 * (b - a)", "b - a"), ("far / 2", "far")}
    assert made("comparison") == {
        ("lower >= upper", "lower > upper"),
        ("upper < 0", "upper <= 0"),
        ("x <= far", "x < far"),
    }
    side = {before.partition("(")[0]: after.partition("(")[0] for before, after in made("side")}
    assert side["max"] == "min"
    assert side["up"] == "down"
    assert side["xp.maximum"] == "xp.minimum"
    assert side["all"] == "any"
    assert any(after.endswith("-math.inf)") for _, after in made("side"))
    directions = made("direction")
    assert ("max(abs(lower), abs(upper))", "abs(upper)") in directions
    assert ("((lower, upper), (upper, lower))", "((upper, lower),)") in directions
    assert made("and/or") == {("lower >= upper or upper < 0", "lower >= upper and upper < 0")}
    assert not any("must be above" in before or "1" in before for kind in OPERATORS for before, _ in made(kind))


def test_a_mutant_is_one_change_and_can_be_read() -> None:
    for each in mutants_of("src/rangebound/ball.py", SOURCE):
        broken = mutated(SOURCE, each)
        ast.parse(broken)
        assert broken != SOURCE
        assert broken.replace(f"({each.after})", each.before, 1).split() != SOURCE.split() or each.before in SOURCE


def test_the_sample_meets_every_room_and_kind_and_is_drawn_again_the_same() -> None:
    everything = every_mutant()
    chosen = sample(everything, 200, seed=1)
    assert len(set(chosen)) == 200
    assert chosen == sample(everything[::-1], 200, seed=1)
    assert chosen != sample(everything, 200, seed=2)
    assert {each.room for each in chosen} == {each.room for each in everything}
    assert {each.kind for each in chosen} == set(OPERATORS)
    for each in chosen:
        source = (ROOT / each.path).read_text(encoding="utf-8")
        ast.parse(mutated(source, each))
        assert all(isinstance(test, str) for stage in stages(each) for tests in stage for test in tests)


def test_the_known_mutants_are_still_in_their_places() -> None:
    found = named()
    assert len(found) >= 4
    for each in found:
        ast.parse(mutated((ROOT / each.path).read_text(encoding="utf-8"), each))


def test_a_mutant_that_is_called_harmless_exists_and_has_a_reason() -> None:
    keys = Counter(each.key for each in every_mutant())
    for key, reason in harmless().items():
        assert keys[key], f"{key}: the expression has changed; look at its mutant again"
        assert keys[key] == 1, f"{key}: stands for several mutants"
        assert len(reason) > 20


def test_a_function_without_guarantee_exists_and_its_mutants_are_left_out() -> None:
    everything = every_mutant()
    left = guarded(everything)
    for (path, name), reason in without_guarantee().items():
        spared = [each for each in everything if each.path == path and each.function == name]
        assert spared, f"{path} has no function {name} any more"
        assert not set(spared) & set(left)
        assert len(reason) > 20
    assert len(left) > 0.99 * len(everything)


def test_the_tests_that_lean_on_a_room_exist() -> None:
    assert set(LEANING) == set(ROOMS)
    for tests in LEANING.values():
        assert all((ROOT / each).exists() for each in tests)


def test_a_module_and_its_tests_are_never_given_to_one_process() -> None:
    """By its path a module is imported a second time: its tests would fail before anything is broken."""
    for each in sample(every_mutant(), 50, seed=1):
        for stage in stages(each):
            for tests in stage:
                assert len({test.partition("/")[0] for test in tests}) <= 1


class Failing(Tree):
    """A tree in which some tests fail, whatever is in it."""

    def __init__(self, folder: Path, failing: set[str]) -> None:
        self.folder, self.failing, self.written = folder, failing, list[str]()

    def write(self, path: str, text: str) -> None:
        self.written.append(path)

    def passes(self, tests: tuple[str, ...], limit: float) -> str:
        return "FAILED" if set(tests) & self.failing else ""


def test_tests_that_fail_anyway_catch_nothing() -> None:
    mutant = every_mutant()[0]
    tree, baseline = Failing(ROOT, {mutant.path}), Baseline()
    assert judge(mutant, tree, baseline, reach=1) == ""
    assert baseline.failed == {(mutant.path,): "FAILED"}
    assert len(tree.written) == 2 * (len(stages(mutant)[0]) - 1)


def test_one_baseline_does_not_wait_for_another() -> None:
    both = threading.Barrier(2, timeout=30.0)

    class Meeting(Failing):
        def passes(self, tests: tuple[str, ...], limit: float) -> str:
            both.wait()  # passed only if the other set of tests runs at the same time
            return ""

    baseline, tree = Baseline(), Meeting(ROOT, set())
    with ThreadPoolExecutor(2) as pool:
        limits = list(pool.map(lambda name: baseline.limit(tree, (name,)), ("one", "other")))
    assert all(limit is not None for limit in limits)


@pytest.mark.long
def test_a_broken_line_is_caught_and_a_harmless_one_is_not(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tests = [each for each in every_mutant() if each.path.endswith("/ball.py") and each.function == "up"]
    caught = {each.before: judge(each, tree, Baseline(), reach=1) for each in tests if each.kind == "side"}
    assert caught["x.upper()"]
