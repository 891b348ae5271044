"""Every module has its test: the file of its name at its place, or one that is named for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mirror import PACKAGE, TESTS, TOGETHER, modules, own_test


def without_a_test(found: list[Path]) -> list[str]:
    return [each.as_posix() for each in found if not own_test(each).exists() and each.as_posix() not in TOGETHER]


def test_every_module_has_its_test() -> None:
    assert without_a_test(modules()) == []


def test_modules_that_are_tested_with_others_exist_and_have_no_test_of_their_own() -> None:
    for module, tests in TOGETHER.items():
        assert (PACKAGE / module).exists(), module
        assert not own_test(Path(module)).exists(), module
        assert tests
        for each in tests:
            assert (TESTS / each).exists(), (module, each)


@pytest.mark.parametrize("name", ["no_such_module.py", "privacy/no_such_module.py"])
def test_control_a_module_without_a_test_is_found(name: str) -> None:
    assert without_a_test([Path(name), Path("support.py")]) == [name]
