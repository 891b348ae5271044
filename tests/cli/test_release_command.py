"""The commands that plan, publish and check tables."""

import json
import re

import pytest

from rangebound.cli.app import run
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import GaussianFilter

PLAN = """
[source]
path = "{folder}/visits.csv"
[budget]
epsilon = 0.5
account = "people"
ledger = "{folder}/l.ledger"
[[query]]
name = "visits"
kind = "count"
[[query]]
name = "wait"
kind = "mean"
column = "wait"
range = [0, 100]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits.csv").write_text("wait,who\n1,a\n50.5,b\nnonsense,c\n")
    (tmp_path / "plan.toml").write_text(PLAN.format(folder=tmp_path))
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account("people", epsilon=1)
    return tmp_path


def command(capsys, *arguments):
    code = run([str(each) for each in arguments])
    return code, *capsys.readouterr()


def remaining(folder):
    with Ledger.open(folder / "l.ledger") as ledger:
        return str(ledger.account("people").remaining)


def test_a_release_is_published_charged_and_verified(folder, capsys):
    files = [folder / name for name in ("t.json", "t.csv", "t.html")]
    options = [part for file in files for part in ("-o", file)]
    certificate = folder / "c.json"
    code, out, _ = command(
        capsys, "release", folder / "plan.toml", "--request", "r1", *options, "--certificate", certificate
    )
    assert code == 0
    assert "visits" in out
    assert remaining(folder) == "epsilon 0.5"
    code, out, _ = command(capsys, "verify", certificate, folder / "t.json")
    terms = "; in other terms mu 0.4427 (rho 0.09796 of zCDP)\n"
    unchecked = "the charge was not checked, which needs --ledger"
    assert (code, out) == (0, f"ok: 2 numbers, epsilon 0.5, delta 0, {unchecked}{terms}")
    book = ["--ledger", folder / "l.ledger"]
    code, out, _ = command(capsys, "verify", certificate, folder / "t.json", *book)
    assert (code, out) == (0, f"ok: 2 numbers, epsilon 0.5, delta 0, charged in the ledger{terms}")
    with Ledger.create(folder / "other.ledger") as other:
        other.open_account("people", epsilon=1)
    assert command(capsys, "verify", certificate, folder / "t.json", "--ledger", folder / "other.ledger")[0] == 2
    forged = folder / "forged.json"
    for change in ({"account": "nobody"}, {"request": "never"}, {"head": "no head"}):
        data = json.loads(certificate.read_text())
        forged.write_text(json.dumps({**data, "ledger": {**data["ledger"], **change}}, indent=1, sort_keys=True))
        assert command(capsys, "verify", forged, folder / "t.json")[0] == (2 if "account" in change else 0)
        code, _, err = command(capsys, "verify", forged, folder / "t.json", *book)
        assert code == 2
        assert err.startswith("error: ")
        assert err.count("\n") == 1
    forged.write_bytes(b"\xff\xfe")
    assert command(capsys, "verify", forged, folder / "t.json")[2] == (
        "error: certificate: cannot be read; give the JSON file as it was written; this one is damaged, or not UTF-8\n"
    )
    assert "verify the .json form" in command(capsys, "verify", certificate, folder / "t.csv")[2]
    code, out, _ = command(capsys, "release", folder / "plan.toml", "--request", "r1", "--json")
    assert json.loads(out)["rows"] == json.loads(json.dumps(_rows(folder / "t.json")))
    assert remaining(folder) == "epsilon 0.5"
    (folder / "t.json").write_bytes((folder / "t.json").read_bytes().replace(b"visits", b"visitz"))
    code, out, err = command(capsys, "verify", certificate, folder / "t.json")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


def _rows(path):
    from rangebound.release import Release

    return Release.from_bytes(path.read_bytes()).rows()


JOINED = """
[[join]]
path = "who/houses.csv"
public = true
on = ["who"]
columns = ["house"]
[unit]
column = "house"
[columns]
wait = {range = [0, 100]}
[per_unit]
waited = {value = "sum(wait)", range = [0, 200]}
[[query]]
name = "waited"
kind = "mean"
column = "waited"
"""


def test_joined_files_count_from_the_folder_of_the_plan_and_are_never_overwritten(folder, monkeypatch, capsys):
    (folder / "who").mkdir()
    houses = folder / "who" / "houses.csv"
    plan = folder / "joined.toml"
    head = PLAN.format(folder=folder).partition("[[query]]")[0]
    plan.write_text(head + JOINED)
    monkeypatch.chdir(folder / "who")
    code, _, err = command(capsys, "plan", "check", plan)
    assert code == 2
    assert re.search(r"joined.toml:10: join\[0\].path='.*houses.csv': there is no such file", err)
    houses.write_text("who,house\na,1\nb,1\nb,2\n")
    code, _, err = command(capsys, "release", plan, "--dry-run")
    assert code == 2
    assert "joined.toml:12: join[0].on: the key 'b' is in more than one row" in err
    houses.write_text("who,house\na,1\nb,1\nc,2\n")
    assert command(capsys, "plan", "check", plan)[:2] == (0, "ok: 1 query\n")
    code, out, _ = command(capsys, "release", plan, "--dry-run")
    assert code == 0
    assert "Joins house of the public table 'who/houses.csv' by who." in out
    assert "Makes one row of all rows of each 'house': waited = sum(wait), clipped to" in out
    assert command(capsys, "release", plan, "--request", "r1", "-o", houses)[0] == 2
    assert remaining(folder) == "epsilon 1"
    table, certificate = folder / "t.json", folder / "c.json"
    assert command(capsys, "release", plan, "--request", "r1", "-o", table, "--certificate", certificate)[0] == 0
    assert remaining(folder) == "epsilon 0.5"
    houses.unlink()  # what was published can be checked without the tables that it was made of
    plan.unlink()
    assert command(capsys, "verify", certificate, table, "--ledger", folder / "l.ledger")[0] == 0


def test_a_dry_run_costs_nothing_and_says_the_error(folder, capsys):
    code, out, _ = command(capsys, "release", folder / "plan.toml", "--dry-run")
    assert code == 0
    assert "expected error" in out
    assert remaining(folder) == "epsilon 1"


def test_plans_are_checked_explained_and_described(folder, capsys):
    assert command(capsys, "plan", "check", folder / "plan.toml")[:2] == (0, "ok: 2 queries\n")
    text = (folder / "plan.toml").read_text()
    (folder / "cut.toml").write_text(f"report_clipping = true\n{text}")
    said = command(capsys, "plan", "check", folder / "cut.toml")[1]
    assert said.startswith("ok: 2 queries, and ")  # those that were written, and those that were added
    assert said.endswith(" about what is cut\n")
    assert "Spends epsilon 0.5" in command(capsys, "plan", "explain", folder / "plan.toml")[1]
    assert json.loads(command(capsys, "plan", "schema")[1])["title"] == "Plan"
    bad = folder / "bad.toml"
    bad.write_text((folder / "plan.toml").read_text().replace('column = "wait"', 'column = "weight"'))
    code, _, err = command(capsys, "plan", "check", bad)
    column = "query[1].column='weight': the table has no such column"
    assert (code, err) == (2, f"error: {bad}:14: {column}; did you mean 'wait'?\n")
    for command_ in (["release", bad, "--dry-run"], ["release", bad, "--request", "r1"]):
        assert f"{bad}:14: query[1].column='weight'" in command(capsys, *command_)[2]
    bad.write_text((folder / "plan.toml").read_text() + 'mechanism = "truncate Gaussian"\n')
    assert f"{bad}:16: query[1].mechanism=" in command(capsys, "plan", "explain", bad)[2]
    gaussian = 'name = "visits"\nmechanism = "truncate Gaussian"'
    bad.write_text((folder / "plan.toml").read_text().replace('name = "visits"', gaussian))
    for command_ in (["plan", "explain", bad], ["plan", "check", bad]):
        code, _, err = command(capsys, *command_)
        assert code == 2
        assert f"{bad}:10: query[0].mechanism: " in err
    bad.write_text("[budget]\nepsilon = -1\n")
    code, _, err = command(capsys, "plan", "check", bad)
    assert code == 2
    assert f"{bad}:2: budget.epsilon=-1" in err


def test_a_first_plan_is_written_for_a_table_and_runs_as_it_is(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / "plans").mkdir()
    code, out, _ = command(capsys, "plan", "new", "visits.csv", "--unit", "who", "-o", "plans/first.toml")
    note = "note: rows = 1 and groups = 1 count one row of each 'who' and cut the others; raise them"
    first, second = out.splitlines()
    page = "fill it in on a page: rangebound explore plans/first.toml"
    check = "or in the file; then rangebound plan check plans/first.toml"
    assert (code, first) == (0, f"plans/first.toml: {page} ({check})")
    assert second.startswith(note)
    assert command(capsys, "plan", "check", "plans/first.toml")[:2] == (0, "ok: 1 query\n")
    assert command(capsys, "ledger", "open", "plans/visits.ledger", "visits", "--epsilon", "4")[0] == 0
    assert command(capsys, "release", "plans/first.toml", "--request", "r1")[0] == 0
    _, shown, said = command(capsys, "plan", "new", "visits.csv", "--unit", "who")
    assert said.startswith(note)
    assert shown == (folder / "plans" / "first.toml").read_text().replace("../visits.csv", "visits.csv")


@pytest.mark.parametrize(
    "arguments", [["release", "PLAN"], ["release", "/nowhere"], ["verify", "/nowhere", "/nowhere"], ["plan"]]
)
def test_wrong_commands_end_with_one_line_and_code_2(folder, capsys, arguments):
    code, _, err = command(capsys, *(folder / "plan.toml" if each == "PLAN" else each for each in arguments))
    assert code == 2
    assert err.count("\n") == 1
    assert remaining(folder) == "epsilon 1"


def test_names_in_a_plan_cannot_steer_the_terminal(folder, capsys):
    plan = (folder / "plan.toml").read_text()
    odd = folder / "odd.toml"
    odd.write_text(plan.replace('"visits"', r'"\u001b]0;owned\u0007\nSpends epsilon 0 in all."'))
    for command_ in (["plan", "explain", odd], ["release", odd, "--dry-run"], ["release", odd, "--request", "r1"]):
        code, out, _ = command(capsys, *command_)
        assert code == 0
        assert r"\x1b]0;owned\x07" in out
        assert "\x1b" not in out
        assert "\nSpends epsilon 0 in all" not in out
    odd.write_text(plan + r'"\u001b[31m" = 1' + "\n")
    code, _, err = command(capsys, "plan", "check", odd)
    assert (code, err.count("\n"), "\x1b" in err) == (2, 1, False)


@pytest.mark.parametrize(
    "options",
    [
        ["-o", "t.xls"],
        ["-o", "nowhere/t.csv"],
        ["-o", "visits.csv"],
        ["-o", "t.json", "-o", "sub/../t.json"],
        ["-o", "t.json", "--certificate", "t.json"],
        ["--certificate", "l.ledger"],
        ["--certificate", "l.ledger.key"],
        ["--certificate", "plan.toml"],
        ["--certificate", "."],
        ["--certificate", "nowhere/c.json"],
    ],
    ids=" ".join,
)
def test_files_that_cannot_be_written_or_hold_something_else_are_refused_before_the_charge(folder, capsys, options):
    (folder / "sub").mkdir()
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    places = [each if each.startswith("-") else folder / each for each in options]
    code, _, err = command(capsys, "release", folder / "plan.toml", "--request", "r1", *places)
    assert code == 2
    assert err.startswith("error: path=")
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert remaining(folder) == "epsilon 1"


def test_the_demo_prints_a_table_and_writes_a_report(tmp_path, capsys):
    code, out, _ = command(capsys, "demo", "--folder", tmp_path)
    assert code == 0
    (report,) = tmp_path.rglob("report.html")
    assert f"spent epsilon 4; account 'clinics' has epsilon 4 left\nreport in {report}, " in out
    (certificate,) = tmp_path.rglob("certificate.json")
    plan = certificate.parent / "plan.toml"
    assert command(capsys, "plan", "check", plan)[:2] == (0, "ok: 9 queries\n")
    code, again, _ = command(capsys, "release", plan, "--request", "demo")
    assert code == 0
    assert again.endswith("'demo' was published before and costs nothing more; account 'clinics' has epsilon 4 left\n")
    for line in out.splitlines()[-2:]:  # what the demo says to try next
        code, next_, _ = command(capsys, *line.split()[1:])
        assert (code, next_.splitlines()[-1].rpartition(" 27 numbers, ")[2]) in (
            (0, "epsilon 4, delta 0, charged in the ledger; in other terms mu 1.077 (rho 0.5792 of zCDP)"),
            (0, "spent epsilon 4; account 'clinics' has epsilon 0 left"),
        )
    code, _, err = command(capsys, "release", plan, "--request", "another")
    assert (code, "has left (epsilon 0)" in err) == (2, True)


def test_paths_in_a_plan_count_from_its_folder_and_the_charge_is_said(folder, tmp_path_factory, monkeypatch, capsys):
    (folder / "plan.toml").write_text(PLAN.replace("{folder}/", ""))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    code, out, _ = command(capsys, "release", folder / "plan.toml", "--request", "r1", "-o", "t.csv")
    assert code == 0
    assert out.endswith("spent epsilon 0.5; account 'people' has epsilon 0.5 left\n")
    assert not (folder / "t.csv").exists()
    code, out, _ = command(capsys, "release", folder / "plan.toml", "--request", "r1", "--json")
    half = {"epsilon": "0.5", "delta": "0"}
    charge = {"account": "people", "request": "r1", "before": True, "charged": half, "remaining": half}
    assert json.loads(out)["charge"] == charge
    assert (
        "must be a separate file"
        in command(capsys, "release", folder / "plan.toml", "--request", "r2", "-o", folder / "visits.csv")[2]
    )
    (folder / "visits.csv").unlink()
    assert (
        f"plan.toml:3: source.path={str(folder / 'visits.csv')!r}: there is no such file"
        in command(capsys, "plan", "check", folder / "plan.toml")[2]
    )


ASKED = {  # of a table of statsmodels that is not ours: 210 travellers, four ways to travel each
    "people": 'kind = "count of units"',
    "options": 'kind = "count"\nby = ["mode"]',
    "chosen": 'kind = "share"\nof = [{column = "choice", is = "==", value = 1}]\nby = ["mode"]',
    "cost": 'kind = "mean"\ncolumn = "invc"\nrange = [0, 200]\nby = ["mode"]',
    "paid": 'kind = "sum"\ncolumn = "invc"\nrange = [0, 200]\nby = ["mode"]\n'
    'where = [{column = "choice", is = "==", value = 1}]',
    "variance": 'kind = "variance"\ncolumn = "gc"\nrange = [0, 300]\nby = ["mode"]',
    "deviation": 'kind = "standard deviation"\ncolumn = "gc"\nrange = [0, 300]\nby = ["mode"]',
    "income": 'kind = "median"\ncolumn = "hinc"\nrange = [0, 100]\nby = ["mode"]',
    "waiting": 'kind = "quantiles"\ncolumn = "ttme"\nrange = [0, 100]\nlevels = [0.25, 0.75]\nby = ["mode"]',
    "short": 'kind = "minimum"\nlevel = 0.1\ncolumn = "invt"\nrange = [0, 1500]\nby = ["mode"]',
    "long": 'kind = "maximum"\nlevel = 0.9\ncolumn = "invt"\nrange = [0, 1500]\nby = ["mode"]',
    "party": 'kind = "histogram"\ncolumn = "psize"\nrange = [0.5, 6.5]\nbins = 6\nby = ["mode"]',
}
TRUE = {
    "people": lambda table, _: table["individual"].nunique(),
    "options": lambda table, _: len(table),
    "chosen": lambda table, _: table["choice"].mean(),
    "cost": lambda table, _: table["invc"].mean(),
    "paid": lambda table, _: table.loc[table["choice"] == 1, "invc"].sum(),
    "variance": lambda table, _: table["gc"].var(ddof=0),
    "deviation": lambda table, _: table["gc"].std(ddof=0),
    "income": lambda table, _: table["hinc"].median(),
    "waiting": lambda table, part: table["ttme"].quantile(float(part)),
    "short": lambda table, _: table["invt"].quantile(0.1),
    "long": lambda table, _: table["invt"].quantile(0.9),
    "party": lambda table, part: table["psize"].between(*map(float, part.split(" to ")), inclusive="left").sum(),
}


CLOSE = {
    "people": 1,
    "options": 1,
    "party": 1,
    "chosen": 0.01,
    "cost": 2,
    "paid": 200,
    "variance": 1500,
    "deviation": 25,
}
"""How near a number must be: missed with a probability of less than one in a million, by the noise that is drawn."""


RANKED = {
    "income": ("hinc", 0.5, 0.1),
    "waiting": ("ttme", None, 0.1),
    "short": ("invt", 0.1, 1.5),
    "long": ("invt", 0.9, 1.5),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_table_of_somebody_else_is_published_as_pandas_has_it(name, tmp_path, capsys, monkeypatch):
    import pandas
    from statsmodels.datasets import modechoice

    monkeypatch.chdir(tmp_path)
    trips = modechoice.load_pandas().data  # whole numbers as floats: the file has 1.0 where the plan has 1
    trips.to_csv("trips.csv", index=False)
    assert command(capsys, "plan", "new", "trips.csv", "--unit", "individual", "-o", "plan.toml")[0] == 0
    assert command(capsys, "plan", "check", "plan.toml")[:2] == (0, "ok: 1 query\n")
    text = (tmp_path / "plan.toml").read_text().partition("[[query]]")[0]
    text = text.replace("groups = 1", "groups = 4").replace("epsilon = 1.0", "epsilon = 100.0")
    keys = "[keys]\nmode = [1, 2, 3, 4]\n" if "by =" in ASKED[name] else ""
    (tmp_path / "plan.toml").write_text(f'level = 0.999999999\n{text}{keys}[[query]]\nname = "{name}"\n{ASKED[name]}\n')
    assert command(capsys, "release", "plan.toml", "--dry-run")[0] == 0
    assert command(capsys, "ledger", "open", "trips.ledger", "trips", "--epsilon", "100")[0] == 0
    made = command(
        capsys, "release", "plan.toml", "--request", "r", "-o", "t.csv", "-o", "t.json", "--certificate", "c"
    )
    assert made[0] == 0, made[2]
    assert command(capsys, "verify", "c", "t.json", "--ledger", "trips.ledger")[1].startswith("ok: ")
    rows = pandas.read_csv("t.csv", dtype={"part": str})
    assert len(rows) == (4 if keys else 1) * {"waiting": 2, "party": 6}.get(name, 1)
    for row in rows.to_dict("records"):
        group = trips[trips["mode"] == row["mode"]] if keys else trips
        true = TRUE[name](group, row["part"])
        assert row["lower"] <= true <= row["upper"], (row, true)
        if name in RANKED:  # within six of 210 rows, and a step of the grid
            column, level, step = RANKED[name]
            least, most = (group[column].quantile((level or float(row["part"])) + off) for off in (-0.03, 0.03))
            assert least - step <= row["value"] <= most + step, (row, true)
        else:
            assert abs(row["value"] - true) <= CLOSE[name], (row, true)


MARGINS = """
budget = {epsilon = 1.0, delta = 1e-6, account = "people", ledger = "m.ledger"}
source = {path = "visits.csv"}
query = [{name = "visits", kind = "count", margin = 25}, {name = "again", kind = "count", margin = 40}]
"""


def test_a_plan_is_solved_for_its_margins_and_not_changed(folder, capsys):
    plan = folder / "margins.toml"
    plan.write_text(MARGINS)
    code, out, _ = command(capsys, "plan", "solve", plan)
    assert code == 0
    assert out.startswith("epsilon 0.1914, delta 1e-06 meets all margins; the plan file is not changed\n")
    assert re.search(r"^visits +25 +25 +61\.4 %", out, re.MULTILINE)
    assert plan.read_text() == MARGINS
    found = json.loads(command(capsys, "plan", "solve", plan, "--json")[1])
    assert (found["epsilon"], found["changed"], found["queries"][0]["margin"]) == (0.1914, False, 25.0)
    plan.write_text(MARGINS.replace("1.0", "0.01"))
    code, _, err = command(capsys, "plan", "check", plan)
    assert code == 2
    assert err.startswith(
        f"error: {plan}:2: budget.epsilon=0.01: is less than what the margins need ('visits', 'again')"
    )
    assert "epsilon 0.1914 would do, 0.1814 more; rangebound plan solve shows the shares" in err
    assert "rest=2.0: must lie in [0, 1)" in command(capsys, "plan", "solve", plan, "--rest", 2)[2]


@pytest.mark.parametrize("words", [("release", "--dry-run"), ("plan explain",)])
def test_a_dry_run_has_a_table_of_shares_and_intervals(folder, capsys, words):
    plan = folder / "margins.toml"
    plan.write_text(MARGINS.replace(", margin = 40", ""))
    code, out, _ = command(capsys, *words[0].split(), plan, *words[1:])
    assert code == 0
    head = r"^query +kind +share +half-width +margin +at half epsilon +at twice epsilon +above limit +error"
    assert re.search(head, out, re.MULTILINE)
    assert re.search(r"^visits +count +11\.7 % +25 +25 +25 +25 +(\+[\d.]+ % +)?\d", out, re.MULTILINE)
    assert re.search(r"^again +count +88\.3 % +3 +8 +1 +\d", out, re.MULTILINE)
    found = json.loads(command(capsys, *words[0].split(), plan, *words[1:], "--json")[1])
    assert [each["half_width"] for each in found["queries"]] == [25.0, 3.0]
    assert [each["epsilon"] for each in found["privacy"]["deltas"]] == [0.5, 1.0, 2.0]


def test_an_account_that_adds_squares_of_mu_says_which_mu_was_charged(folder, capsys):
    with Ledger.create(folder / "m.ledger") as ledger:
        ledger.open_account("people", epsilon=4, delta="1e-5", rule=GaussianFilter(spare="0.25"))
    plan = folder / "margins.toml"
    plan.write_text(MARGINS)
    code, out, _ = command(capsys, "release", plan, "--request", "r1")
    assert code == 0
    charged = re.search(r"spent epsilon 1, delta 1e-06, charged as mu (0\.\d+) \(mu\^2 0\.\d+\); account 'people'", out)
    assert charged
    found = json.loads(command(capsys, "release", plan, "--request", "r1", "--json")[1])
    assert found["charge"]["charged"]["mu"] == charged[1]
    assert float(charged[1]) == pytest.approx(found["privacy"]["mu"], rel=1e-6)
    assert found["privacy"]["account"] == "gaussian"
