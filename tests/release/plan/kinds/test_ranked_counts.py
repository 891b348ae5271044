"""The most frequent keys of a column without public ones: against pandas with the noise gone, and in certificates."""

import datetime
import json
import random
from dataclasses import replace

import pandas
import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.output.report import report
from rangebound.release.output.size import fitting
from rangebound.release.output.table import Release
from rangebound.release.output.table_certificate import write_certificate
from rangebound.release.plan.kinds.ranked_counts import RankedCounts
from rangebound.release.plan.toml import parse_plan
from rangebound.release.prepare import prepare
from tests.thinning import crossed

UNITS = {
    "rows": {},
    "people": {"column": "person", "groups": 2},
    "replaced": {"column": "person", "groups": 2, "neighbours": "replace", "size": 900},
}
TOP = {"name": "top", "kind": "top k", "column": "airport", "k": 3}


def frame(seed=1, people=900):
    """People of one sex, each with rows at two airports at most, some of them many."""
    chance, rows = random.Random(seed), []
    for person in range(people):
        sex = chance.choice(["f", "m", None])
        ports = [chance.choice([None, f"k{min(int(chance.expovariate(0.5)), 11)}"]) for _ in range(2)]
        for at in range(chance.choice([1, 2, 2, 9])):
            owner = person if chance.random() < 0.98 else None
            rows.append((owner, sex, ports[at % 2], chance.random() < 0.5))
    return pandas.DataFrame(rows, columns=["person", "sex", "airport", "late"]).astype({"person": "Int64"})


def plan(*asked, unit="people", epsilon=100.0, delta=1e-2, **fields):
    used = {column for each in asked for column in each.get("by", ())}
    keys = {"keys": {"sex": ["f", "m"]}} if "sex" in used else {}
    budget = {"epsilon": epsilon, "delta": delta}
    return make_plan({"budget": budget, "unit": UNITS[unit], **keys, "query": list(asked), **fields})


def published(made, data):
    return release(made, pa.Table.from_pandas(data, preserve_index=False), ledger=None)


def most_frequent(data, unit, size):
    """The most frequent keys that pandas counts, of equal ones by key; each of them is in many units."""
    owned = data if unit == "rows" else data[data["person"].notna()].drop_duplicates(["person", "airport"])
    counts = owned["airport"].value_counts()
    assert counts.iloc[:size].min() > 20
    assert -counts.iloc[: size + 1].diff().max() >= 3  # noise of 1 changes no rank
    return sorted(counts.index, key=lambda key: (-counts[key], key))[:size]


@crossed({"filtered": [False, True], "by": [[], ["sex"]], "unit": UNITS})
def test_the_ranks_are_those_that_pandas_counts(unit, by, filtered):
    data = frame()
    where = {"where": [{"column": "late", "is": "==", "value": True}]} if filtered else {}
    rows = published(plan({**TOP, "by": by, **where}, unit=unit), data).rows()
    kept = data[data["late"]] if filtered else data
    for group in ["f", "m"] if by else [None]:
        own = [row for row in rows if row.get("sex") == group]
        expected = most_frequent(kept if group is None else kept[kept["sex"] == group], unit, 3)
        assert [row["airport"] for row in own] == expected
        assert [(row["part"], row["value"], row["upper"]) for row in own] == [
            (str(rank), float(rank), float("inf")) for rank in (1, 2, 3)
        ]


def test_ties_go_by_key_and_fewer_keys_than_k_may_come():
    data = pandas.DataFrame({"airport": ["b"] * 60 + ["c"] * 60 + ["a"] * 60 + ["d"] * 90 + [None] * 200})
    rows = published(plan({**TOP, "k": 10}, unit="rows"), data).rows()
    assert [row["airport"] for row in rows] == ["d", "a", "b", "c"]
    assert published(plan(TOP, unit="rows"), data[:0]).rows() == []


def test_a_rare_key_is_not_published():
    """A key of one unit is selected with a probability of delta at most."""
    data = pandas.DataFrame({"person": range(101), "airport": ["usual"] * 100 + ["mine"]})
    rows = published(plan({**TOP, "k": 10}, epsilon=1.0, delta=1e-7), data).rows()
    assert {row["airport"] for row in rows} <= {"usual"}


def test_days_and_numbers_are_keys_too():
    days = [datetime.date(2025, 1, 1 + at % 3) for at in range(300)]
    data = pandas.DataFrame({"day": [*days, days[1]], "ward": [7] * 200 + [12] * 101})
    asked = [{**TOP, "name": name, "column": name} for name in ("day", "ward")]
    rows = published(plan(*asked, unit="rows"), data).rows()
    assert [row["day"] for row in rows if row["day"]] == ["2025-01-02", "2025-01-01", "2025-01-03"]
    assert [row["ward"] for row in rows if row["ward"]] == ["7", "12"]


COUNT = {"name": "every", "kind": "count of units", "by": ["airport"]}


GROUPED = {**TOP, "by": ["sex"]}


@crossed({"asked": [(TOP,), (TOP, COUNT), (COUNT, TOP), (GROUPED, {**TOP, "name": "all"})], "epsilon": [1.0, 60.0]})
def test_the_certificate_makes_it_again(asked, epsilon):
    """In a Gaussian account, where a threshold selects, and in plain sums; beside all selected keys, or alone."""
    found = published(plan(*asked, epsilon=epsilon, delta=1e-5), frame(people=3000))
    assert bool(found.cells[0].mu) == (epsilon == 1.0)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    assert Release.from_bytes(found.to_bytes()).rows() == found.rows()
    ranked = [row for row in found.rows() if row["query"] == "top"]
    assert len(ranked) == (6 if GROUPED in asked else 3)
    if COUNT in asked:
        assert len([row for row in found.rows() if row["query"] == "every"]) > 3


def certified(found, cells):
    """The check of a table with other cells and the certificate that would be written for it."""
    other = replace(found, cells=tuple(cells))
    return check_certificate(write_certificate(other, prepare(found.plan), None), other.to_bytes())


def test_the_certificate_refuses_other_ranks_more_of_them_and_numbers_below_the_threshold():
    found = published(plan(TOP, epsilon=1.0, delta=1e-5), frame(people=3000))
    first, second, third = found.cells
    assert certified(found, found.cells).numbers == 3
    assert certified(found, found.cells[:2]).numbers == 2  # as if fewer were selected
    swapped = [replace(second, part="1", value=1.0), replace(first, part="2", value=2.0), third]
    more = replace(third, key=("zz",), part="4", value=4.0)
    low = replace(third, draws=(1.0,))
    tied = replace(third, draws=second.draws, key=("",))
    for cells in (
        swapped,
        [second, first, third],
        [first, second, third, more],
        [first, second, low],
        [first, second, tied],
        [first, replace(second, value=1.0), third],
        [first, second, replace(third, part="2")],
        [first, third],
    ):
        with pytest.raises(CertificateInvalid):
            certified(found, cells)


def test_without_room_in_the_ledger_the_last_ranks_are_left_out():
    made = plan({**TOP, "by": ["sex"]}, COUNT, epsilon=20.0)
    found = published(made, frame(people=3000))
    ready = prepare(made)
    size = len(json.dumps(vars(found.cells[0]), separators=(",", ":"))) + 1
    assert fitting(ready, found.cells, 10**6) == list(found.cells)
    some = fitting(ready, found.cells, 4 * size + 20)
    kept = [(each.key[0], each.part) for each in some if each.question == 0]
    assert kept == [("f", "1"), ("f", "2"), ("f", "3"), ("m", "1")]
    assert certified(found, some).numbers == len(some)


def test_it_is_written_and_read_as_the_question_that_was_asked():
    made = plan({**TOP, "by": ["sex"], "weight": 2.0}, TOP | {"name": "all"})
    assert isinstance(made.query[0], RankedCounts)
    assert parse_plan(made.to_toml()) == made
    assert 'by = ["sex"]\n' in made.to_toml()
    assert make_plan(made.model_dump(by_alias=True, exclude_none=True)) == made
    assert "RankedCounts" not in repr(made)
    public = make_plan({"budget": {"epsilon": 1.0}, "keys": {"airport": ["k1", "k2", "k3"]}, "query": [made.query[1]]})
    assert public.query[0].kind == "top k"
    assert not public.query[0].ranked


def test_it_is_explained_and_reported():
    made = plan({**TOP, "by": ["sex"]}, epsilon=1.0, delta=1e-5)
    said = explain(made)
    assert "top: top k of 'airport', k = 3, of keys that are selected privately, by sex." in said
    assert "keys of 'airport' selected privately, so that there may be fewer than 3" in said
    assert "The keys of sex, airport are those whose noisy number of 'top' is at least" in said
    found = published(made, frame(people=3000))
    first = found.rows()[0]
    assert (first["unreliable"], first["bias"], first["unbiased"], first["rank_error"]) == (None, None, None, None)
    page = report(found)
    assert f"<p class=panel>f</p><ol><li>{first['airport']}</li>" in page
    assert "below the true one" not in page
    assert first["airport"] in found.to_csv().splitlines()[1]


def test_what_the_contribution_bounds_drop_is_reported():
    found = published(plan(TOP, epsilon=10.0, report_clipping=True, unit="people"), frame())
    assert [row["query"] for row in found.rows()] == ["top"] * 3 + ["top: groups dropped"]
    assert check_certificate(found.certificate, found.to_bytes()).numbers == 4


FAULTS = [
    (TOP, {"delta": 0.0}, "budget.delta: must be positive to select the keys of 'airport' privately"),
    ({**TOP, "margin": 2.0}, {}, "margin: must not be asked of 'top k', whose answers are keys"),
    ({**TOP, "rows": 2}, {}, "rows: a unit counts once at each key"),
    ({**TOP, "support": [1, 2]}, {}, "support: is not for this kind"),
    ({**TOP, "mechanism": "rectify Laplace"}, {}, "mechanism"),
    ({**TOP, "by": ["airport"]}, {}, "'airport' is one of the grouping columns"),
    (TOP, {"joint": True}, "joint: how many intervals there are must be public"),
    (TOP, {"keys": {"airports": ["k1"]}}, "query.0..column: 'airport' has no keys"),
    ({"name": "top", "kind": "mode", "column": "airport"}, {}, "or ask for 'top k' with k = 1"),
]


@pytest.mark.parametrize(("asked", "fields", "words"), FAULTS)
def test_what_cannot_be_asked_is_refused(asked, fields, words):
    with pytest.raises(PlanError, match=words):
        plan(asked, **fields)


def test_a_column_that_is_not_in_the_table_is_named_as_the_column():
    with pytest.raises(PlanError, match=r"query\[0\].column='town': the table has no such column"):
        published(plan({**TOP, "column": "town"}), frame())
