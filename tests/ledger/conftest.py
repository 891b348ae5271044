"""Ledgers to test with."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rangebound.ledger import head
from rangebound.ledger.book import Ledger
from tests.ledger.postgres import fresh_address
from tests.ledger.rules import open_for


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests run on both stores; those of many cases only on a file, since the cases are not about the store."""
    if "either" in metafunc.fixturenames:
        many = any(metafunc.definition.iter_markers("parametrize"))
        metafunc.parametrize("either", ["file"] if many else ["file", "postgres"], indirect=True)


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in (head.HEAD_VARIABLE, head.KEY_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory where the system has one: for tests of logic, which need not wait for a disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture
def path(memory: Path) -> Path:
    return memory / "test.ledger"


@pytest.fixture
def address(postgres: str) -> str:
    """A place for a ledger in the server of the tests."""
    return fresh_address(postgres)


@pytest.fixture
def either(request: pytest.FixtureRequest) -> Path | str:
    """A place for a ledger of either kind."""
    found: Path | str = request.getfixturevalue("path" if request.param == "file" else "address")
    return found


@pytest.fixture
def rule() -> str:
    """The rule of the account; modules that test faults ask for every one."""
    return "sum"


@pytest.fixture
def ledger(path: Path, rule: str) -> Iterator[Ledger]:
    """A ledger with one account, "people", for ten spends of epsilon 0.1, and delta 1e-6; for plain sums epsilon 1."""
    with Ledger.create(path) as made:
        open_for(made, rule, 10, who="anna", note="survey of 2026")
        yield made
