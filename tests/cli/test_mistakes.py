"""Mistakes on the command line: one line that can be acted on, exit code 2, nothing spent and nothing replaced."""

import signal
import subprocess
import sys

import pytest

import rangebound
from rangebound.cli.app import run
from rangebound.ledger.book import Ledger
from tests.cli.visits import INSIDE, PLAN, complaints, files

PLAN = PLAN.replace('"visits"\nkind = "count"', '"wait"\nkind = "mean"\ncolumn = "wait"\nrange = [0, 100]')
RELEASES = """
delta = 1e-6
[[release]]
noise = "laplace"
scale = 20.0
range = [0, 100]
sensitivity = 1.0
"""
MODULE = """
number = 3
def one(answer): return answer
def two(answer, count): return [answer] * count
def text(answer): return "many"
def broken(answer, count): return 1 / 0
def leaves(answer, count): raise SystemExit(0)
"""
DRAWN = "--range 0:20 --sensitivity 1"
PAIR = "--pair 0 1 --draws 1000"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A plan with its table and ledger, and the same with a mistake in each."""
    place = tmp_path_factory.mktemp("first hour")
    texts = {
        "plan": PLAN,
        "dear": PLAN.replace("0.5", "5"),
        "stranger": PLAN.replace('"people"', '"persons"'),
        "no_ledger": PLAN.replace('ledger = "people.ledger"', ""),
        "other_ledger": PLAN.replace("people.ledger", "census.ledger"),
        "no_account": PLAN.replace('account = "people"', ""),
        "no_source": PLAN.replace('[source]\npath = "visits.csv"', ""),
        "column": PLAN.replace('column = "wait"', 'column = "weight"'),
        "text": PLAN.replace("[0, 100]", '"0-100"'),
        "typo": PLAN.replace("[budget]", "[budgets]"),
        "word": PLAN.replace("0.5", '"half"'),
        "delta": PLAN.replace("0.5", "0.5\ndelta = 1e-6") + 'by = ["who"]\n[unit]\ncolumn = "who"',
        "sql": PLAN + 'where = "age > 18"',
        "sqls": PLAN + 'where = ["age > 18"]',
        "operator": PLAN + 'where = [{column = "wait", op = ">", value = 18}]',
        "three": PLAN.replace("[0, 100]", "[0, 50, 100]"),
        "bare": PLAN.replace('name = "wait"', "name = wait"),
        "by": PLAN + 'by = ["whu"]\n[keys]\nwho = ["a"]',
        "unit": PLAN + '[unit]\ncolumn = "whu"',
        "gap": PLAN + '[unit]\ncolumn = "?"',
        "capital_letter": PLAN.replace('column = "wait"', 'column = "Wait"'),
        "no_table": PLAN.replace("visits.csv", "visit.csv"),
        "excel": PLAN.replace("visits.csv", "bytes"),
        "releases": RELEASES,
        "capital": RELEASES.replace("laplace", "Laplace"),
        "list": RELEASES.replace('"laplace"', '["laplace"]'),
        "clamp": RELEASES + 'bounding = "clamp"',
        "no_limit": RELEASES.replace("laplace", "truncated_laplacian"),
        "limit": RELEASES + "limit = 3.0",
        "grid": RELEASES + "support = { grid = { stepp = 1, within = [0, 100] } }",
    }
    for name, text in texts.items():
        (place / f"{name}.toml").write_text(text)
    (place / "visits.csv").write_text("wait,who\n1,a\n50.5,b\n")
    (place / "first_hour.py").write_text(MODULE)
    (place / "first_hour_broken.py").write_text("raise RuntimeError('boom')")
    (place / "bytes").write_bytes(b"\xff\xfe")
    with Ledger.create(place / "people.ledger") as ledger:
        ledger.open_account("people", epsilon=1)
    return place


MISTAKES = {
    "relese": "Did you mean 'release'? See rangebound --help.",
    "--verison": "--version",
    "plan": "rangebound plan: needs a command, one of new, check, explain, solve, suggest, upgrade, schema",
    "release": "Missing argument 'PLAN'. See rangebound release --help.",
    "release none.toml --request 1": "none.toml",
    "release visits.csv --request 1": "not valid TOML",
    "release plan.toml": "request: missing; --request gives the release an id",
    "release no_ledger.toml --request 1": "ledger: missing; name it in the plan's [budget] or by --ledger",
    "release other_ledger.toml --request 1": "this makes it, for one such release: rangebound ledger open ",
    "release no_account.toml --request 1": "no_account.toml:4: budget.account: is missing; name the account",
    "release no_source.toml --request 1": "source: missing",
    "release stranger.toml --request 1": "account='persons': is not in this ledger; it has ['people']",
    "release dear.toml --request 1": "has left (epsilon 1); nothing was spent; lower the cost, of a plan",
    "release delta.toml --request 1": "account 'people' was opened without a delta",
    "release column.toml --request 1": "query[0].column='weight'",
    "plan new": "Missing argument 'TABLE'. See rangebound plan new --help.",
    "plan new none.csv": "source.path='none.csv': there is no such file",
    "plan new visits.csv --unit Who": "unit='Who': the table has no such column; did you mean 'who'?",
    "plan new visits.csv -o plan.toml": "output='plan.toml': exists already; name a new file",
    "plan new sc://host": "source: spark goes with the name of a table",
    "plan suggest": "Missing argument 'PLAN'. See rangebound plan suggest --help.",
    "plan suggest none.toml": "path='none.toml': cannot be read",
    "plan suggest visits.csv": "visits.csv:1: not valid TOML",
    "plan suggest plan.toml": "plan: leaves nothing out; suggest estimates a question's range",
    "plan check text.toml": "text.toml:12: query[0].range='0-100': must be a list, in square brackets",
    "plan check typo.toml": "typo.toml:4: budgets: unknown field; did you mean 'budget'?",
    "plan check word.toml": "word.toml:5: budget.epsilon='half': must be a number, without quotation marks",
    "plan check sql.toml": "sql.toml:13: query[0].where='age': the table has no such column",
    "plan check sqls.toml": "query[0].where[0]='age > 18': must be a condition, such as {column = \"age\"",
    "plan check operator.toml": "query[0].where[0].op='>': unknown field; the fields here are column, is, value",
    "plan check three.toml": "query[0].range=(0, 50, 100): must have at most 2 parts, and has 3 (in query 'wait')",
    "plan check bare.toml": 'column 8); a text stands in quotation marks: name = "wait"',
    "plan check gap.toml": "unit.column='?': is still to be filled in: name the column that says whose a row",
    "plan check capital_letter.toml": "query[0].column='Wait': the table has no such column; did you mean 'wait'?",
    "plan check by.toml": "query[0].by: 'whu' has no keys; did you mean 'who'?",
    "plan check unit.toml": "unit.column='whu': the table has no such column; did you mean 'who'?",
    "plan check no_table.toml": "no_table.toml:3: source.path='visit.csv': there is no such file",
    "plan check excel.toml": "excel.toml:3: source.path='bytes': must end in .csv, .tsv, .xlsx or .parquet",
    "release plan.toml --request 1 --threads 0": "equal to 1. See rangebound release --help.",
    "release plan.toml --request 1 -o table.xls": "must end in .csv, .parquet, .xlsx, .json or .html",
    "release plan.toml --request 1 -o none/table.csv": "in an existing folder",
    "release plan.toml --request 1 --certificate none/c.json": "in an existing folder",
    "release plan.toml --request 1 -o visits.csv": "path='visits.csv': must be a separate file",
    "release plan.toml --request 1 --certificate people.ledger": "must be a separate file",
    "release plan.toml --request 1 --dryrun": "--dry-run",
    "release plan.toml --request 1 --memory lots": "memory='lots': must be a size, such as 4GB",
    "verify plan.toml": "must be JSON, whole and nothing else",
    "verify bytes plan.toml": "certificate: cannot be read; give the JSON file",
    "verify none.json none.json": "file='none.json': No such file or directory",
    "ledger open visits.csv people --epsilon 1": "ledger='visits.csv': is another kind of file",
    "ledger open people.ledger people --epsilon 1": "is open already",
    "ledger open people.ledger others --epsilon one": "must be a plain decimal, such as '0.1'",
    "ledger show none.ledger": "`rangebound ledger open none.ledger ACCOUNT --epsilon TOTAL` makes one",
    "ledger show postgresql://ann:secret@db.example/office": "must hold no password",
    "ledger show people.ledger --account nobody": "it has ['people']",
    "ledger export people.ledger -o plan.toml": "output='plan.toml': exists already",
    "account none.toml": "file='none.toml': No such file or directory",
    "account plan.toml": "a file has [[release]], delta and epsilon",
    "account capital.toml": "release 1: noise='Laplace': must be one of laplace, gaussian",
    "account list.toml": "release 1: noise=['laplace']: must be one of",
    "account clamp.toml": 'release 1: bounding=\'clamp\': must be "truncate", "rectify"',
    "account no_limit.toml": "limit=None: truncated_laplacian noise needs one",
    "account limit.toml": "limit=3.0: truncated_laplacian noise needs one, other noise has none",
    "account grid.toml": "such as {'grid': {'step': 1",
    "account releases.toml --delta 1": "delta=1.0: must lie in [0, 1)",
    f"plot law {DRAWN} --epsilon 1 --at 3 -o a.jpg": "must end in .png, .svg, .pdf",
    f"plot law {DRAWN} --epsilon 1 --at 3 -o people.ledger": "output=",
    f"plot law {DRAWN} --epsilon 1 --at 3 -o none/a.png": "its folder does not exist",
    f"plot law {DRAWN} --epsilon 1 --at 3 --limit 2 -o a.png": "goes with --scale and --noise truncated_laplacian",
    f"plot law {DRAWN} --scale 1 --at 3 --limit 2 -o a.png": "goes with --scale and --noise truncated_laplacian",
    f"plot law {DRAWN} --scale 1 --at 3 --bounding quantize -o a.png": "needs --grid",
    f"plot law {DRAWN} --scale 1 --at 3 --bounding fold -o a.png": 'must be "truncate", "rectify", "quantize" or',
    f"plot law {DRAWN} --scale 1 --at 3 --noise cauchy -o a.png": "must be one of laplace, gaussian, truncated",
    f"plot law {DRAWN} --scale 1 --at 3 --noise truncated_laplacian -o a.png": "noise needs one",
    f"plot law {DRAWN} --at 3 -o a.png": "exactly one of --scale and --epsilon",
    f"plot law {DRAWN} --scale 1 --epsilon 1 --at 3 -o a.png": "exactly one of --scale and --epsilon",
    f"plot law {DRAWN} --scale 1 -o a.png": "--at",
    f"plot law {DRAWN} --scale 1 --at nan -o a.png": "must be finite",
    "plot profile --range 0-10 --sensitivity 1 --scale 1 -o a.png": "LOWER:UPPER",
    "plot profile --range 10:0 --sensitivity 1 --scale 1 -o a.png": "lower must be below upper",
    f"plot profile {DRAWN} --scale -1 -o a.png": "must be positive",
    f"plot worst-pair {DRAWN} --scale 1 --bounding truncate --bounding rectify -o a.png": "one mechanism",
    f"plot errors {DRAWN} --at somewhere -o a.png": "must be worst, average or a number",
    "audit call first_hour --pair 0 1": "MODULE:FUNCTION",
    "audit call first_hour:nothing --pair 0 1": "cannot be imported",
    "audit call first_hour:number --pair 0 1": "must be a function, not int",
    "audit call nothing_here:one --pair 0 1": "cannot be imported (ModuleNotFoundError",
    "audit call first_hour_broken:one --pair 0 1": "cannot be imported (RuntimeError: boom)",
    f"audit call first_hour:one {PAIR}": "or of an answer alone with --one-by-one",
    f"audit call first_hour:two {PAIR} --one-by-one": "or of an answer alone with --one-by-one",
    f"audit call first_hour:text {PAIR} --one-by-one": "output='many': must be a number",
    f"audit call first_hour:broken {PAIR}": "function='first_hour:broken': failed (ZeroDivisionError: division",
    f"audit call first_hour:leaves {PAIR}": "function='first_hour:leaves': failed (SystemExit",
}


@pytest.mark.parametrize(("line", "words"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_is_one_line_and_costs_nothing(line, words, folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    before = files()
    code, out, error = command(*line.split())
    assert (code, out) == (2, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert words in error
    assert "secret" not in error
    assert line.startswith("audit") or not INSIDE.search(error)  # an audit shows how somebody else's function failed
    assert files() == before


def test_alone_it_helps(capsys):
    assert run([]) == 0
    alone = capsys.readouterr().out
    assert "Commands:" in alone
    assert "..." not in alone.partition("Commands:")[2]
    for word in ("-h", "--help"):
        assert run([word]) == 0
        assert capsys.readouterr().out == alone


@pytest.mark.parametrize("group", ["ledger", "plan", "plot", "audit"])
def test_the_commands_of_a_group_are_told_in_full(group, capsys):
    assert run([group, "-h"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_python_runs_it_as_a_module():
    command = [sys.executable, "-m", "rangebound", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[0] == f"rangebound {rangebound.__version__}"


@pytest.mark.parametrize("word", ["17.25", "a,line\nof data"])
def test_what_nobody_foresaw_is_one_line_without_its_words(word, folder, monkeypatch, capsys):
    def fail(*_: object, **__: object) -> None:
        raise LookupError(word)

    monkeypatch.setattr("rangebound.ledger.verify", fail)
    assert run(["ledger", "verify", str(folder / "people.ledger")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: unexpected LookupError; this is a bug")
    assert error.count("\n") == 1
    assert word not in error


WAITING = """
import time
from rangebound.cli import account_command, app
account_command._read = lambda path: (print("ready", flush=True), time.sleep(600))
app.main()
"""


def test_an_interrupt_is_one_line():
    command = [sys.executable, "-c", WAITING, "account", "a.toml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as held:
        assert held.stdout.readline() == "ready\n"
        held.send_signal(signal.SIGINT)
        _, error = held.communicate(timeout=300)
    assert (held.returncode, complaints(error)) == (130, ["error: interrupted"])
