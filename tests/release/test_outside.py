"""What can be seen of a release from outside is the same for neighbouring tables: all but the numbers themselves."""

import itertools
import random
import sys
from pathlib import Path

import pytest

import rangebound.release.run as run_module
from rangebound.ledger.book import Ledger
from rangebound.release import make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from tests.release.plans import SALT, SUPPORTED, plan_data
from tests.release.test_neighbours import CLINICS, pair, table

ROOM = Path(run_module.__file__).parent
UNITS = [
    {"column": "person", "rows": 2, "groups": 2},
    {"column": "person", "rows": 1, "groups": 3, "neighbours": "replace", "size": 50},
    {},
]
_AFTER_THE_DRAW = ("estimate.py",)  # it follows noisy numbers, which are not secret
_ROWS_OF_A_RESULT = ("_key", "<dictcomp>")  # run in the driver for each group with rows; an empty table has none


class Watched(DuckDB):
    """An engine that keeps the statements that it is sent."""

    def __init__(self, data):
        super().__init__(data, threads=1)
        self.statements = []

    def run(self, statement):
        self.statements.append(self.dialect.written(statement))
        return super().run(statement)


class Calls:
    """The functions of this room that run, in the order in which each is first called."""

    def __init__(self):
        self.found = []
        self._known = set()

    def __call__(self, frame, event, _):
        code = frame.f_code
        if event == "call" and code not in self._known:
            self._known.add(code)
            file, name = Path(code.co_filename), code.co_name
            if file.is_relative_to(ROOM) and file.name not in _AFTER_THE_DRAW and name not in _ROWS_OF_A_RESULT:
                self.found.append((file.name, name))

    def __enter__(self):
        self._before = sys.gettrace()  # that of a coverage measurement, perhaps
        sys.settrace(self)  # unlike a profile it is not called for functions in C
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)


def seen(plan, rows, ledger, request, capsys, caplog):
    """All that a release shows, but for its numbers."""
    steps = []
    with Watched(table(rows)) as engine, Calls() as calls:
        made = release(plan, engine, ledger=ledger, request=request, progress=steps.append)
    charges = [
        (each.kind, each.account, str(each.cost), each.what) for each in ledger.history() if each.request == request
    ]
    shape = [(cell.question, cell.key, cell.part, cell.epsilon, cell.delta, cell.rank_error) for cell in made.cells]
    return {
        "control flow": (engine.statements, calls.found),
        "schema": (
            shape,
            made.mechanisms,
            list(made.rows()[0]),
            [type(x) for row in made.rows() for x in row.values()],
        ),
        "messages": (steps, made.notes, tuple(capsys.readouterr()), caplog.text),
        "charge": charges,
    }


def cases(count):
    """Plans of one question each: every kind of question in turn, each time with another unit and grouping."""
    ways = list(itertools.product(UNITS, ([], ["clinic"])))
    for at in range(count):
        question = SUPPORTED[at % len(SUPPORTED)]
        unit, by = ways[(at + at // len(SUPPORTED)) % len(ways)]
        keys = {"keys": {"clinic": CLINICS}} if by else {}
        unit = UNITS[0] if question["kind"] == "count of units" else unit
        data = plan_data(by, [question], unit=unit, **keys)
        yield make_plan({**data, "budget": {"epsilon": 0.5, "account": f"unit {UNITS.index(unit)}"}})


def check(pairs, plans, folder, capsys, caplog, seed=7):
    """Random pairs of neighbours, looked at from outside."""
    chance = random.Random(seed)
    plans = list(cases(plans))
    for plan in plans:  # once before, since the first release of a plan calibrates and later ones remember
        release(plan, table([]), ledger=None)
    for first in range(0, pairs, 200):  # a ledger's history is read whole, so it is kept short
        with Ledger.create(folder / f"{first}.ledger") as ledger:
            for at in range(len(UNITS)):
                ledger.open_account(f"unit {at}", epsilon=1000)
            for number in range(first, min(first + 200, pairs)):
                plan = plans[number % len(plans)]
                rows, other = pair(chance, 0, plan.unit.replaced)
                if plan.unit.column is None:
                    other = rows[1:]
                views = [
                    seen(plan, each, ledger, f"{side}{number}", capsys, caplog)
                    for side, each in enumerate((rows, other))
                ]
                assert views[0] == views[1], plan.query[0]
                assert len(views[0]["charge"]) == 2  # the spend, and the note that it was published
                assert views[0]["control flow"][0]


@pytest.fixture(autouse=True)
def same_salt(monkeypatch):
    """Statements hold the salt, which is drawn afresh for every release."""
    monkeypatch.setattr(run_module.Salt, "draw", lambda bits: SALT)


def test_neighbours_look_the_same_from_outside(tmp_path, capsys, caplog):
    check(len(SUPPORTED), len(SUPPORTED), tmp_path, capsys, caplog)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_pairs_of_neighbours_look_the_same(seed, tmp_path, capsys, caplog):
    check(1000, 6 * len(SUPPORTED), tmp_path, capsys, caplog, seed)


def leak_by_message(monkeypatch):
    plain = run_module.aggregate

    def leaky(*arguments):
        found = plain(*arguments)
        print(sum(sum(each) for block in found for one in block.answers.values() for each in one.values()))
        return found

    monkeypatch.setattr(run_module, "aggregate", leaky)


def leak_by_statement(monkeypatch):
    plain = run_module.aggregate

    def leaky(plan, engine, salt, also):
        found = plain(plan, engine, salt, also)
        for _ in range(int(sum(sum(each) for one in found[0].answers.values() for each in one.values()))):
            plain(plan, engine, salt, also)
        return found

    monkeypatch.setattr(run_module, "aggregate", leaky)


@pytest.mark.parametrize("leak", [leak_by_message, leak_by_statement])
def test_control_a_leak_is_seen(leak, monkeypatch, tmp_path, capsys, caplog):
    leak(monkeypatch)
    with pytest.raises(AssertionError):
        check(20, 3, tmp_path, capsys, caplog)
