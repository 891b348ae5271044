"""What tests of commands share: a folder with a plan, its table and its ledger, and ways to run a command in it."""

import pytest

from rangebound.cli.app import run
from rangebound.ledger.book import Ledger
from tests.cli.visits import PLAN, files, one_line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text("wait,who\n1,a\n50.5,b\nnonsense,c\n")
    (tmp_path / "plan.toml").write_text(PLAN)
    with Ledger.create("people.ledger") as ledger:
        ledger.open_account("people", epsilon=1)
    return tmp_path


@pytest.fixture
def command(capsys):
    """A function that runs a command: its exit code, and what it wrote to both streams."""

    def called(*arguments):
        capsys.readouterr()
        return run([str(each) for each in arguments]), *capsys.readouterr()

    return called


@pytest.fixture
def done(command):
    """A function that runs a command which must succeed: what it wrote to standard output."""

    def called(*arguments):
        code, out, error = command(*arguments)
        assert code == 0, error
        return out

    return called


@pytest.fixture
def refused(command):
    """A function that runs a command which must end in one line in our own words and change no file: that line."""

    def called(*arguments):
        before = files()
        found = command(*arguments)
        one_line(*found)
        assert before.items() <= files().items()
        return found[2]

    return called
