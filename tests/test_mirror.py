"""Every module has its test: the file of its name at its place, or one that is named for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mirror import PACKAGE, TESTS, TOGETHER, modules, named_tests, own_test


def without_a_test(found: list[Path]) -> list[str]:
    return [each.as_posix() for each in found if not own_test(each).exists() and not named_tests(each)]


def test_every_module_has_its_test() -> None:
    assert without_a_test(modules()) == []


def test_what_is_tested_with_others_exists_and_so_do_its_tests() -> None:
    for place, tests in TOGETHER.items():
        assert (PACKAGE / place).exists(), place
        assert tests
        for each in tests:
            assert (TESTS / each).exists(), (place, each)


@pytest.mark.parametrize("name", ["no_such_module.py", "privacy/no_such_module.py"])
def test_control_a_module_without_a_test_is_found(name: str) -> None:
    assert without_a_test([Path(name), Path("support.py"), Path("bounding/no_such_bounding.py")]) == [name]
