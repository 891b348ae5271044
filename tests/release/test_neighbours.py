"""What can be seen of a release from outside is the same for neighbouring tables: all but the numbers themselves.

What one unit can move these numbers by is in `test_plan_pairs.py` and `plan/kinds/test_sensitivity.py`.
"""

import itertools
import random
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import rangebound.release.run as run_module
from rangebound.ledger.book import Ledger
from rangebound.release import make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.prepare import prepare
from tests.release.plans import KINDS, SALT, SUPPORTED, plan_data, table_of

CLINICS = ["a", "b", "c"]
ODD = [None, float("nan"), float("inf"), -50.0, 0.0, 100.0, 1e9]
TYPES = {"person": pa.int64(), "clinic": pa.string(), "wait": pa.float64(), "age": pa.int64()}


def rows_of(chance, people):
    """The rows of some people: few or many, in few or many clinics, at the ends of the range more often than not."""

    def row(person):
        wait = chance.choice([*ODD, chance.uniform(0, 100)])
        return person, chance.choice([*CLINICS, "other"]), wait, chance.choice([None, 5, 30, 70])

    return [row(person) for person in people for _ in range(chance.choice([1, 1, 2, 3, 9]))]


def pair(chance, replaced):
    rows = rows_of(chance, range(chance.choice([1, 2, 5])))
    left = [row for row in rows if row[0] != rows[0][0]]
    return rows, left + (rows_of(chance, [99]) if replaced else [])


ROOM = Path(run_module.__file__).parent
UNITS = [
    {"column": "person", "rows": 2, "groups": 2},
    {"column": "person", "rows": 1, "groups": 3, "neighbours": "replace", "size": 50},
    {},
]
_AFTER_THE_DRAW = ("read", "estimate")  # what these call follows noisy numbers, which are not secret
_ROWS_OF_A_RESULT = ("_key", "<dictcomp>")  # run in the driver for each group with rows; an empty table has none


class Watched(DuckDB):
    def __init__(self, data):
        super().__init__(data, threads=1)
        self.statements = []

    def run(self, statement):
        self.statements.append(statement if isinstance(statement, str) else self.written(statement))
        return super().run(statement)


def follows_a_draw(frame):
    """Whether a frame is within one that reads a draw."""
    while frame is not None:
        if frame.f_code.co_name in _AFTER_THE_DRAW and Path(frame.f_code.co_filename).parent == ROOM / "noise":
            return True
        frame = frame.f_back
    return False


class Calls:
    """The functions of this room that run, in the order in which each is first called."""

    def __init__(self):
        self.found = []
        self._known = set()

    def __call__(self, frame, event, _):
        code = frame.f_code
        if event == "call" and code not in self._known:
            file, name = Path(code.co_filename), code.co_name
            if not file.is_relative_to(ROOM):
                self._known.add(code)
            elif not follows_a_draw(frame.f_back):
                self._known.add(code)
                if name not in _ROWS_OF_A_RESULT:
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
    with Watched(table_of(TYPES, rows)) as engine, Calls() as calls:
        made = release(plan, engine, ledger=ledger, request=request, progress=steps.append)
    charges = [
        (each.kind, each.account, str(each.cost), each.what) for each in ledger.history() if each.request == request
    ]
    shape = [
        (cell.question, cell.key, cell.part, cell.epsilon, cell.delta, type(cell.rank_error)) for cell in made.cells
    ]
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
    chance = random.Random(seed)
    plans = list(cases(plans))
    for plan in plans:  # once before, since the first release of a plan calibrates and later ones remember
        release(plan, table_of(TYPES, []), ledger=None)
    for first in range(0, pairs, 200):  # a ledger's history is read whole, so it is kept short
        with Ledger.create(folder / f"{first}.ledger") as ledger:
            for at in range(len(UNITS)):
                ledger.open_account(f"unit {at}", epsilon=1000)
            for number in range(first, min(first + 200, pairs)):
                plan = plans[number % len(plans)]
                rows, other = pair(chance, plan.unit.replaced)
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


@pytest.mark.claim("neighbours")
@pytest.mark.parametrize("seed", [7, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(10, 20))])
def test_neighbours_look_the_same_from_outside(seed, tmp_path, capsys, caplog):
    pairs, plans = (len(KINDS), len(KINDS)) if seed == 7 else (1000, 6 * len(SUPPORTED))
    check(pairs, plans, tmp_path, capsys, caplog, seed)


def told(exact, again):
    print(exact)


def asked_again(exact, again):
    for _ in range(int(exact)):
        again()


@pytest.mark.parametrize("leak", [told, asked_again])
def test_control_a_leak_is_seen(leak, monkeypatch, tmp_path, capsys, caplog):
    plain = run_module.aggregated

    def leaky(*arguments):
        found = plain(*arguments)
        exact = sum(sum(each) for block in found for one in block.answers.values() for each in one.values())
        leak(exact, lambda: plain(*arguments))
        return found

    monkeypatch.setattr(run_module, "aggregated", leaky)
    with pytest.raises(AssertionError):
        check(20, 3, tmp_path, capsys, caplog)


def test_only_pure_noise_is_used_where_a_unit_may_move_a_group_by_two_steps():
    unit = {"column": "person", "rows": 2, "groups": 2, "neighbours": "replace", "size": 10}
    across = {"kind": "sum", "column": "wait", "range": [-100, 100]}
    named = {**across, "mechanism": "truncate Gaussian", "support": [-1000, 1000]}
    plan = make_plan(plan_data(["clinic"], [across, named, KINDS[0]], unit=unit, keys={"clinic": ["a", "b", "c", "d"]}))
    allocation = prepare(plan).allocation
    assert [each.twice for each in allocation.sensitivities.values()] == [True, False, False]
    assert [each.delta > 0 for each in allocation.questions.values()] == [False, True, True]
    assert [each.cell for each in allocation.sensitivities.values()] == [200, 400, 2]
