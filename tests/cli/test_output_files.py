"""Files that commands write: never over what they read, by whatever name, and found out before anything is charged."""

import os
import signal
import subprocess
import sys

import pytest

from rangebound.cli import output_files
from rangebound.cli.app import run
from rangebound.ledger import Ledger, ledger_files
from tests.thinning import crossed

PLAN = """
[source]
path = "visits.csv"
[unit]
column = "person"
[budget]
epsilon = 1.0
account = "people"
ledger = "people.ledger"
[[query]]
name = "visits"
kind = "count"
mechanism = "rectify Laplace"
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a plan, its table and its ledger, and another ledger."""
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "visits.csv").write_text("person,wait\n" + "".join(f"{at},{at % 7}\n" for at in range(60)))
    for name in ("people", "others"):
        with Ledger.create(tmp_path / f"{name}.ledger") as ledger:
            ledger.open_account("people", epsilon=4)
    (tmp_path / "folder.csv").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, *words):
    """Run a command that must end in one line, spend nothing and change no file, and give that line."""
    files = {path: path.read_bytes() for path in output_files.Path().iterdir() if path.is_file()}
    code = run([*map(str, words)])
    out, error = capsys.readouterr()
    assert (code, out) == (2, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert {path: path.read_bytes() for path in output_files.Path().iterdir() if path.is_file()} == files
    for name in ("people.ledger", "others.ledger"):
        with Ledger.open(name) as ledger:
            assert str(ledger.account("people").remaining) == "epsilon 4"
    return error


OWN = ["plan.toml", "visits.csv", "PLAN.toml", "people.ledger", "folder.csv", "people.ledger.key", "people.ledger.head"]
LOGS = ["people.ledger-wal", "people.ledger-shm", "people.ledger-journal"]
OTHERS = ["others.ledger", "others.ledger-wal", "others.ledger-journal", "others.ledger.key", "others.ledger.head"]


@crossed({"way": ["name", "path", "symbolic link", "link of a link"], "name": [*OWN, *LOGS, *OTHERS]})
def test_nothing_that_a_release_reads_is_written_over(name, way, place, capsys):
    target = {"name": name, "path": f"./folder.csv/../{name}"}.get(way)
    if target is None:
        target = "link.json"
        os.symlink(name, "between" if way == "link of a link" else target)
        if way == "link of a link":
            os.symlink("between", target)
    assert "overwritten" in refused(capsys, "release", "plan.toml", "--request", "1", "--certificate", target)


@crossed(
    {
        "form": ["csv", "json", "html", "parquet"],
        "name": ["plan.toml", "visits.csv", "people.ledger.key", "people.ledger.head"],
    }
)
def test_a_second_name_of_a_file_is_found_out(name, form, place, capsys):
    os.link(name, f"hard.{form}")
    line = ["release", "plan.toml", "--request", "1", "-o", f"hard.{form}"]
    assert "must be a separate file" in refused(capsys, *line)


def test_every_file_of_the_ledger_is_spared_wherever_it_lies(place, tmp_path_factory, monkeypatch, capsys):
    heads = tmp_path_factory.mktemp("heads")
    monkeypatch.setenv("RANGEBOUND_HEAD", str(heads))
    with Ledger.create(place / "far.ledger", key=heads / "the.key") as ledger:
        ledger.open_account("people", epsilon=4)
    files = ledger_files("far.ledger", key=heads / "the.key")
    assert {each.parent for each in files} == {place, heads}
    for each in files:
        before = each.read_bytes() if each.exists() else None
        line = ["release", "plan.toml", "--request", "1", "--ledger", "far.ledger", "--key", str(heads / "the.key")]
        assert run([*line, "--certificate", str(each)]) == 2
        assert "must be a separate file" in capsys.readouterr().err
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
}


@pytest.mark.parametrize("line", UNWRITABLE)
def test_what_cannot_be_written_is_found_before_the_charge(line, place, capsys):
    (place / "locked").mkdir(mode=0o500)
    for name in ("sealed.csv", "old.json", "old.parquet"):
        (place / name).write_text("something else")
    (place / "sealed.csv").chmod(0o400)
    if "Permission" in UNWRITABLE[line] and os.access(place / "locked", os.W_OK):
        pytest.skip("this user may write everywhere")
    assert UNWRITABLE[line] in refused(capsys, "release", "plan.toml", "--request", "1", *line.split())


def test_the_same_request_writes_its_own_files_again(place, capsys):
    names = ["-o", "t.csv", "-o", "t.json", "-o", "t.html", "-o", "t.parquet", "--certificate", "c.json"]
    line = ["release", "plan.toml", "--request", "1", *names]
    assert run(line) == 0
    before = {each: (place / each).read_bytes() for each in names[1::2]}
    assert run(line) == 0
    assert {each: (place / each).read_bytes() for each in names[1::2]} == before
    assert not list(place.glob("x.*"))
    assert "1 of" not in capsys.readouterr().err


def test_what_fails_after_the_charge_says_that_it_stands(place, capsys):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    assert run(["release", "plan.toml", "--request", "1", "--certificate", "/dev/full"]) == 2
    error = capsys.readouterr().err
    assert "cannot be written (No space left on device); the charge stands; the same request again is free" in error
    assert run(["release", "plan.toml", "--request", "1", "--certificate", "c.json"]) == 0
    with Ledger.open("people.ledger") as ledger:
        assert str(ledger.account("people").remaining) == "epsilon 3"


def test_a_link_that_appears_while_the_table_is_made_is_found_out(place, monkeypatch, capsys):
    from rangebound.cli import release_command as module

    plain = module._made

    def slow(*arguments, **words):
        os.symlink("visits.csv", "late.csv")
        return plain(*arguments, **words)

    monkeypatch.setattr(module, "_made", slow)
    before = (place / "visits.csv").read_bytes()
    assert run(["release", "plan.toml", "--request", "1", "-o", "late.csv"]) == 2
    assert "the charge stands; the same request again is free" in capsys.readouterr().err
    assert (place / "visits.csv").read_bytes() == before


def test_other_commands_write_over_nothing_either(place, capsys):
    drawn = ["--range", "0:20", "--sensitivity", "1", "--epsilon", "1", "--at", "3"]
    for name in ("people.ledger", "people.ledger.key", "plan.toml", "visits.csv"):
        os.symlink(name, f"{name}.png")
        assert "another kind of file" in refused(capsys, "plot", "law", *drawn, "-o", f"{name}.png")
    os.link("visits.csv", "hard.svg")
    assert "another kind of file" in refused(capsys, "plot", "law", *drawn, "-o", "hard.svg")
    assert "cannot be written" in refused(capsys, "plot", "law", *drawn, "-o", "/proc/x.png")
    for name in LOGS:
        assert "belongs to the database beside it" in refused(capsys, "ledger", "export", "others.ledger", "-o", name)
        assert "belongs to the database beside it" in refused(capsys, "plan", "new", "visits.csv", "-o", name)
    os.symlink("people.ledger-wal", "dangling.toml")
    assert "database" in refused(capsys, "plan", "new", "visits.csv", "-o", "dangling.toml")


def test_control_without_the_check_a_log_is_written_over(place, monkeypatch):
    monkeypatch.setattr("rangebound.cli.release_command.check_files", lambda outputs, kept: None)
    assert run(["release", "plan.toml", "--request", "1", "--certificate", "people.ledger-shm"]) == 0
    assert (place / "people.ledger-shm").read_bytes().startswith(b"{")


HELD = """
import sys
from rangebound.cli import app
from rangebound.release import run as module
from sqlglot import parse_one

def held(plan, engine, salt, also):
    print("aggregating", flush=True)
    engine.run(parse_one("SELECT sum(i % 7) FROM range(9000000000000) a(i)", dialect="duckdb"))

if "held" in sys.argv[-1]:
    module.aggregate = held
app.main()
"""


def ended_by(process, number):
    """What a process says that a signal ends."""
    process.send_signal(number)
    try:
        return process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@pytest.mark.parametrize(("sent", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_a_signal_while_aggregating_says_that_the_charge_stands(sent, code, word, place):
    command = [sys.executable, "-c", HELD, "release", "plan.toml", "--json", "--request", "held"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as held:
        assert held.stdout.readline() == "aggregating\n"
        out, error = ended_by(held, getattr(signal, sent))
    assert (held.returncode, out) == (code, "")
    assert error == f"error: {word}; the charge stands; the same request again is free\n"
    with Ledger.open("people.ledger") as ledger:
        assert str(ledger.account("people").remaining) == "epsilon 3"
    assert run(["release", "plan.toml", "--request", "held"]) == 0
    with Ledger.open("people.ledger") as ledger:
        assert str(ledger.account("people").remaining) == "epsilon 3"


def test_a_signal_before_the_charge_says_that_nothing_was_charged(place, monkeypatch, capsys):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rangebound.release.run.prepare", stopped)
    assert run(["release", "plan.toml", "--request", "1"]) == 130
    assert capsys.readouterr().err.endswith("error: interrupted; nothing was charged\n")
