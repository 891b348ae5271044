"""The mutants: each kind of mistake is made where it can be, each is one change, and one is caught."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests import mutants, reach
from tests.mutants import OPERATORS, PYTEST, ROOT, every_mutant, guarded, harmless, mutants_of, without_guarantee

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
    return {
        (each.before, each.after) for each in mutants_of("src/rangebound/values/ball.py", SOURCE) if each.kind == kind
    }


def test_every_kind_of_mistake_is_made_in_its_places() -> None:
    assert made("sign") >= {("b - a", "b + a"), ("-far", "far"), ("abs(lower)", "lower"), ("abs(upper)", "upper")}
    assert made("factor 2") == {("2 * (b - a)", "b - a"), ("far / 2", "far")}
    assert made("comparison") == {
        ("lower >= upper", "lower > upper"),
        ("upper < 0", "upper <= 0"),
        ("x <= far", "x < far"),
    }
    side = {before.partition("(")[0]: after.partition("(")[0] for before, after in made("side")}
    assert (side["max"], side["up"], side["xp.maximum"], side["all"]) == ("min", "down", "xp.minimum", "any")
    assert any(after.endswith("-math.inf)") for _, after in made("side"))
    assert made("direction") >= {
        ("max(abs(lower), abs(upper))", "abs(upper)"),
        ("((lower, upper), (upper, lower))", "((upper, lower),)"),
    }
    assert made("and/or") == {("lower >= upper or upper < 0", "lower >= upper and upper < 0")}
    assert not any("must be above" in before or "1" in before for kind in OPERATORS for before, _ in made(kind))


@pytest.mark.slow
def test_what_is_called_harmless_exists_and_has_a_reason() -> None:
    everything = every_mutant()
    keys = Counter(each.key for each in everything)
    for key, reason in harmless().items():
        assert keys[key] == 1, f"{key}: the expression has changed, or stands for several; look at its mutant again"
        assert len(reason) > 20
    for (path, name), reason in without_guarantee().items():
        spared = [each for each in everything if each.path == path and each.function == name]
        assert spared, f"{path} has no function {name} any more"
        assert not set(spared) & set(guarded(everything))
        assert len(reason) > 20


@pytest.mark.slow
def test_a_broken_line_is_caught_by_the_tests_that_call_it_and_a_harmless_one_is_not(tmp_path: Path) -> None:
    """The whole way on one file of tests: which test calls which function, then two mutants of one function."""
    tests = ["tests/values/test_ball.py"]
    noting = mutants._environment(tmp_path, **{reach.FOLDER: str(tmp_path)})
    subprocess.run([*PYTEST, "-p", "tests.reach", *tests], cwd=ROOT, env=noting, check=True, capture_output=True)
    _, called = reach.read(tmp_path)
    assert all(test.startswith(tests[0]) for test in called["ball.py:up"])
    of_up = [each for each in every_mutant() if each.path.endswith("/ball.py") and each.function == "up"]
    broken = next(each.key for each in of_up if each.before == "x.upper()")
    fine = next(each.key for each in of_up if each.key in harmless())
    asked = {"keys": [broken, fine], "reach": str(tmp_path), "results": str(tmp_path / "results"), "patience": 0}
    judging = mutants._environment(tmp_path, RANGEBOUND_JUDGE=json.dumps(asked))
    subprocess.run([*PYTEST, "-p", "tests.mutants", *tests], cwd=ROOT, env=judging, check=True, capture_output=True)
    rows = [json.loads(line) for line in (tmp_path / "results").read_text(encoding="utf-8").splitlines()]
    assert [row["verdict"] for row in rows] == ["default", "survived"]
    assert rows[0]["by"] in called["ball.py:up"]
