"""Files that commands write: never over what they read, by whatever name, and found out before anything is charged."""

import os
import signal
import subprocess
import sys

import pytest

from rangebound.cli import release_command
from rangebound.ledger import Ledger, ledger_files
from tests.cli.visits import complaints, remaining
from tests.thinning import crossed

FREE = "the charge stands; the same request again is free"
RELEASE = ["release", "plan.toml", "--request", "1"]


@pytest.fixture
def place(folder):
    """A folder with a plan, its table and its ledger, and another ledger."""
    with (folder / "plan.toml").open("a") as plan:
        plan.write('mechanism = "rectify Laplace"\n')
    with Ledger.create("others.ledger") as ledger:
        ledger.open_account("people", epsilon=1)
    (folder / "folder.csv").mkdir()
    return folder


OWN = ["plan.toml", "visits.csv", "PLAN.toml", "people.ledger", "folder.csv", "people.ledger.key", "people.ledger.head"]
LOGS = ["people.ledger-wal", "people.ledger-shm", "people.ledger-journal"]
OTHERS = ["others.ledger", "others.ledger-wal", "others.ledger-journal", "others.ledger.key", "others.ledger.head"]


@pytest.mark.few(8)
@crossed({"way": ["name", "path", "symbolic link", "link of a link"], "name": [*OWN, *LOGS, *OTHERS]})
def test_nothing_that_a_release_reads_is_written_over(name, way, place, refused):
    target = {"name": name, "path": f"./folder.csv/../{name}"}.get(way)
    if target is None:
        target = "link.json"
        os.symlink(name, "between" if way == "link of a link" else target)
        if way == "link of a link":
            os.symlink("between", target)
    assert "overwritten" in refused(*RELEASE, "--certificate", target)
    assert remaining() == remaining("others.ledger") == "epsilon 1"


@crossed(
    {
        "form": ["csv", "json", "html", "parquet"],
        "name": ["plan.toml", "visits.csv", "people.ledger.key", "people.ledger.head"],
    }
)
def test_a_second_name_of_a_file_is_found_out(name, form, place, refused):
    os.link(name, f"hard.{form}")
    assert "must be a separate file" in refused(*RELEASE, "-o", f"hard.{form}")


def test_every_file_of_the_ledger_is_spared_wherever_it_lies(place, tmp_path_factory, monkeypatch, refused):
    heads = tmp_path_factory.mktemp("heads")
    monkeypatch.setenv("RANGEBOUND_HEAD", str(heads))
    with Ledger.create(place / "far.ledger", key=heads / "the.key") as ledger:
        ledger.open_account("people", epsilon=4)
    files = ledger_files("far.ledger", key=heads / "the.key")
    assert {each.parent for each in files} == {place, heads}
    for each in files:
        before = each.read_bytes() if each.exists() else None
        line = [*RELEASE, "--ledger", "far.ledger", "--key", heads / "the.key"]
        assert "must be a separate file" in refused(*line, "--certificate", each)
        assert (each.read_bytes() if each.exists() else None) == before


UNWRITABLE = {
    "-o /proc/x.csv": "path='/proc/x.csv': cannot be written (",
    "--certificate /proc/x.json": "path='/proc/x.json': cannot be written (",
    "-o folder.csv": "must be a separate file in an existing folder",
    "-o none/x.csv": "in an existing folder",
    "--certificate none/x.json": "in an existing folder",
    "-o visits.csv/x.csv": "in an existing folder",
    f"-o {'x' * 300}.csv": "cannot be written (File name too long)",
    "-o a.csv -o a.csv": "must be a separate file",
    "-o a.json --certificate ./a.json": "must be a separate file",
    "--certificate locked/x.json": "cannot be written (Permission denied)",
    "-o sealed.csv": "cannot be written (Permission denied)",
    "-o old.json": "path='old.json': is another kind of file",
    "-o old.parquet": "path='old.parquet': is another kind of file",
    "--record old.yaml": "exists already, and may be filled in",
    "--fact-sheet old.md": "exists already, and may be filled in",
    "--record none/x.yaml": "in an existing folder",
    "--fact-sheet none/x.md": "in an existing folder",
    "--record x.txt": "must end in .yaml or .yml",
    "--fact-sheet visits.csv": "must end in .md",
}


@pytest.mark.few(9)
@pytest.mark.parametrize("line", UNWRITABLE)
def test_what_cannot_be_written_is_found_before_the_charge(line, place, refused):
    (place / "locked").mkdir(mode=0o500)
    for name in ("sealed.csv", "old.json", "old.parquet", "old.yaml", "old.md"):
        (place / name).write_text("something else")
    (place / "sealed.csv").chmod(0o400)
    if "Permission" in UNWRITABLE[line] and os.access(place / "locked", os.W_OK):
        pytest.skip("this user may write everywhere")
    assert UNWRITABLE[line] in refused(*RELEASE, *line.split())
    assert remaining() == "epsilon 1"


def test_the_same_request_writes_its_own_files_again(place, done):
    names = ["t.csv", "t.json", "t.html", "t.parquet"]
    line = [*RELEASE, *(part for name in names for part in ("-o", name)), "--certificate", "c.json"]
    done(*line)
    before = {each: (place / each).read_bytes() for each in (*names, "c.json")}
    done(*line)
    assert {each: (place / each).read_bytes() for each in before} == before


def test_what_fails_after_the_charge_says_that_it_stands(place, done, command):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    code, _, error = command(*RELEASE, "--certificate", "/dev/full")
    assert code == 2
    assert f"cannot be written (No space left on device); {FREE}" in error
    done(*RELEASE, "--certificate", "c.json")
    assert remaining() == "epsilon 0.5"


def test_a_link_that_appears_while_the_table_is_made_is_found_out(place, monkeypatch, command):
    plain = release_command._made

    def slow(*arguments, **words):
        os.symlink("visits.csv", "late.csv")
        return plain(*arguments, **words)

    monkeypatch.setattr(release_command, "_made", slow)
    before = (place / "visits.csv").read_bytes()
    code, _, error = command(*RELEASE, "-o", "late.csv")
    assert (code, FREE in error) == (2, True)
    assert (place / "visits.csv").read_bytes() == before


def test_other_commands_write_over_nothing_either(place, refused):
    drawn = ["plot", "law", "--range", "0:20", "--sensitivity", "1", "--epsilon", "1", "--at", "3", "-o"]
    for name in ("people.ledger", "people.ledger.key", "plan.toml", "visits.csv"):
        os.symlink(name, f"{name}.png")
        assert "another kind of file" in refused(*drawn, f"{name}.png")
    os.link("visits.csv", "hard.svg")
    assert "another kind of file" in refused(*drawn, "hard.svg")
    assert "cannot be written" in refused(*drawn, "/proc/x.png")
    for name in LOGS:
        assert "belongs to the database beside it" in refused("ledger", "export", "others.ledger", "-o", name)
        assert "belongs to the database beside it" in refused("plan", "new", "visits.csv", "-o", name)
    os.symlink("people.ledger-wal", "dangling.toml")
    assert "database" in refused("plan", "new", "visits.csv", "-o", "dangling.toml")


def test_control_without_the_check_a_log_is_written_over(place, monkeypatch, done):
    monkeypatch.setattr(release_command, "check_files", lambda outputs, kept: None)
    done(*RELEASE, "--certificate", "people.ledger-shm")
    assert (place / "people.ledger-shm").read_bytes().startswith(b"{")


HELD = """
import sys
from rangebound.cli import app
from rangebound.release import run as module
from sqlglot import parse_one

def held(plan, engine, found):
    print("aggregating", flush=True)
    engine.run(parse_one("SELECT sum(i % 7) FROM range(9000000000000) a(i)", dialect="duckdb"))

module.aggregated = held
app.main()
"""


@pytest.mark.claim("kill")
@pytest.mark.few(1)
@pytest.mark.parametrize(("sent", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_a_signal_while_aggregating_says_that_the_charge_stands(sent, code, word, place, done):
    line = [sys.executable, "-c", HELD, *RELEASE, "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as held:
        try:
            assert held.stdout.readline() == "aggregating\n"
            held.send_signal(getattr(signal, sent))
            out, error = held.communicate(timeout=60)
        finally:
            held.kill()
    assert (held.returncode, out, complaints(error)) == (code, "", [f"error: {word}; {FREE}"])
    assert remaining() == "epsilon 0.5"
    done(*RELEASE)
    assert remaining() == "epsilon 0.5"


def test_a_signal_before_the_charge_says_that_nothing_was_charged(place, monkeypatch, command):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rangebound.release.run.prepare", stopped)
    code, _, error = command(*RELEASE)
    assert (code, error.splitlines()[-1]) == (130, "error: interrupted; nothing was charged")
