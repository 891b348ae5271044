"""The most frequent keys and values, and ranges that hold most values: by pandas and numpy, and in certificates."""

import datetime
import json
import random
from dataclasses import replace

import numpy as np
import pandas
import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.release import check_certificate, make_plan, release
from rangebound.release.budget_split import allocations
from rangebound.release.noise.exponential_mechanism import rank_error
from rangebound.release.noise.forms import form_of
from rangebound.release.noise.quantiles import QuantilePublisher
from rangebound.release.output.ledger_entry import fitting
from rangebound.release.output.table import Release
from rangebound.release.prepare import prepare, prepared
from tests.release.plan.kinds.second_routes import certified
from tests.thinning import crossed

KEYS = [f"k{at}" for at in range(12)]
LISTED = {"airport": KEYS}
UNITS = {
    "rows": {},
    "people": {"column": "person", "rows": 3, "groups": 2},
    "replaced": {"column": "person", "groups": 2, "neighbours": "replace", "size": 900},
}
TOP = {"name": "top", "kind": "top k", "column": "airport", "k": 3}
MODE = {"name": "mode", "kind": "mode", "column": "airport"}
GROUPED = {**TOP, "by": ["sex"]}
LATE = {"where": [{"column": "late", "is": "==", "value": True}]}


def frame(seed=2, people=900):
    """People of one sex, each with rows at two airports at most, some of them many."""
    chance, rows = random.Random(seed), []
    for person in range(people):
        sex = chance.choice(["f", "m", None])
        ports = [chance.choice([None, f"k{min(int(chance.expovariate(0.5)), 11)}"]) for _ in range(2)]
        for at in range(chance.choice([1, 2, 2, 9])):
            owner = person if chance.random() < 0.98 else None
            delay = chance.choice([None, chance.gauss(40, 15), 40.0, 50.0])
            rows.append((owner, sex, ports[at % 2], delay, chance.random() < 0.5))
    return pandas.DataFrame(rows, columns=["person", "sex", "airport", "delay", "late"]).astype({"person": "Int64"})


def plan(*asked, unit="people", epsilon=100.0, delta=1e-2, keys=None, **fields):
    """Keys that are not listed are selected."""
    grouped = {"sex": ["f", "m"]} if any(each.get("by") == ["sex"] for each in asked) else {}
    parts = {"budget": {"epsilon": epsilon, "delta": delta}, "unit": UNITS[unit], "query": list(asked)}
    return make_plan({**parts, "keys": {**grouped, **(keys or {})}, **fields})


def published(made, data):
    return release(made, pa.Table.from_pandas(data, preserve_index=False), ledger=None)


def counts_of(data, unit, column="airport"):
    """Units, or rows, by value: what pandas counts."""
    owned = data if unit == "rows" else data[data["person"].notna()].drop_duplicates(["person", column])
    return owned[column].value_counts()


@pytest.mark.few(3)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("by", [[], ["sex"]])
@pytest.mark.parametrize(
    ("asked", "keys"),
    [(TOP, LISTED), ({**TOP, **LATE}, LISTED), (MODE, LISTED), (TOP, {}), ({**TOP, **LATE}, {})],
    ids=["listed", "filtered", "mode", "selected", "selected and filtered"],
)
def test_keys_are_ranked_as_pandas_counts_them(unit, by, asked, keys):
    data, parts = frame(), [""] if asked is MODE else ["1", "2", "3"]
    rows = published(plan({**asked, "by": by}, unit=unit, delta=0.0 if keys else 1e-2, keys=keys), data).rows()
    assert [row["part"] for row in rows] == parts * (len(by) + 1)
    kept = data[data["late"]] if "where" in asked else data
    for group in ["f", "m"] if by else [None]:
        own = [row for row in rows if row.get("sex") == group]
        counted = counts_of(kept if group is None else kept[kept["sex"] == group], unit)
        assert counted.iloc[:3].min() > 20
        assert -counted.iloc[:4].diff().max() >= 3  # noise of 1 changes no rank
        assert [row["airport"] for row in own] == counted.index[: len(parts)].tolist()
        assert [row["value"] for row in own] == [1.0, 2.0, 3.0][: len(parts)]


@pytest.mark.parametrize("unit", UNITS)
def test_ties_and_empty_keys_are_ranked_too(unit):
    data = pandas.DataFrame({"person": range(40), "airport": ["k3"] * 20 + ["k7"] * 20})
    rows = published(plan({**TOP, "k": 12}, unit=unit, keys=LISTED), data).rows()
    assert {row["airport"] for row in rows[:2]} == {"k3", "k7"}
    assert {row["airport"] for row in rows} == set(KEYS)
    assert [row["value"] for row in rows] == list(range(1, 13))
    assert len({row["airport"] for row in published(plan(TOP, unit=unit, keys=LISTED), data[:0]).rows()}) == 3


def test_ties_of_selected_keys_go_by_key_and_fewer_keys_than_k_may_come():
    data = pandas.DataFrame({"airport": ["b"] * 60 + ["c"] * 60 + ["a"] * 60 + ["d"] * 90 + [None] * 200})
    rows = published(plan({**TOP, "k": 10}, unit="rows"), data).rows()
    assert [row["airport"] for row in rows] == ["d", "a", "b", "c"]
    assert {row["upper"] for row in rows} == {float("inf")}
    assert published(plan(TOP, unit="rows"), data[:0]).rows() == []


def test_a_rare_key_is_not_published():
    """A key of one unit is selected with a probability of delta at most."""
    data = pandas.DataFrame({"person": range(101), "airport": ["usual"] * 100 + ["mine"]})
    rows = published(plan({**TOP, "k": 10}, epsilon=1.0, delta=1e-7), data).rows()
    assert {row["airport"] for row in rows} <= {"usual"}


@pytest.mark.parametrize("unit", UNITS)
def test_the_mode_of_numbers_is_the_fullest_bin(unit):
    data = frame(3)
    (row,) = published(plan({**MODE, "column": "delay", "range": [0, 80], "bins": 8}, unit=unit), data).rows()
    counted = counts_of(data.assign(bin=data["delay"].clip(0, 79.9) // 10 * 10).dropna(subset="bin"), unit, "bin")
    assert counted[row["value"] - 5] >= counted.max() - 2
    assert row["delay"] == f"{row['value'] - 5:.0f} to {row['value'] + 5:.0f}"
    assert (row["lower"], row["upper"]) == (0.0, 80.0)


def test_dates_and_whole_numbers_are_keys_and_bins_too():
    days = [datetime.date(2025, 1, 1) + datetime.timedelta(days=at) for at in range(8)]
    data = pandas.DataFrame({"day": [days[5]] * 60 + days, "ward": [3] * 60 + list(range(8))})
    for keys in ({"day": days, "ward": [1, 2, 3]}, {}):
        asked = [{**TOP, "name": name, "column": name, "k": 1} for name in ("day", "ward")]
        day, ward = published(plan(*asked, unit="rows", keys=keys), data).rows()
        assert (day["day"], ward["ward"]) == ("2025-01-06", "3")
    bins = {**MODE, "column": "day", "range": [days[0], days[-1]], "bins": 7}
    (row,) = published(plan(bins, unit="rows"), data).rows()
    assert (row["date"], row["day"]) == ("2025-01-06", "2025-01-06 to 2025-01-07")


def test_keys_by_rule_are_ranked_as_they_are_grouped():
    """Named bins, folded keys, and what is missing or not listed."""
    data = frame(7)
    bins = {"delay": {"bins": [0, 30, 45, 100], "names": ["early", "usual", "late"]}}
    (row,) = published(plan({**MODE, "column": "delay"}, unit="rows", keys=bins), data).rows()
    assert row["delay"] == "usual"
    folded = {"airport": {"fold": {"few": ["k10", "k11"], "first": ["k0", "k1", "k2"]}, "other": "rest"}}
    rows = published(plan(TOP, keys=folded), data).rows()
    names = data["airport"].map({"k10": "few", "k11": "few", "k0": "first", "k1": "first", "k2": "first"})
    names = names.where(names.notna() | data["airport"].isna(), "rest")
    counted = counts_of(data.assign(airport=names), "people")
    assert [row["airport"] for row in rows] == counted.index.tolist()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_certificate_makes_it_again_and_refuses_other_keys(delta):
    asked = [GROUPED, {**MODE, "column": "delay", "range": [0, 80]}]
    found = published(plan(*asked, unit="rows", epsilon=1.0, delta=delta, keys=LISTED), frame())
    assert check_certificate(found.certificate, found.to_bytes()).numbers == 7
    first, *others = found.cells
    assert certified(found, found.cells).numbers == 7  # control
    for draws in ((12.0,), (-1.0,), (0.5,), others[0].draws):
        with pytest.raises(CertificateInvalid):
            certified(found, [replace(first, draws=draws), *others])


COUNT = {"name": "every", "kind": "count of units", "by": ["airport"]}


@pytest.mark.few(2)
@crossed({"asked": [(TOP,), (TOP, COUNT), (COUNT, TOP), (GROUPED, {**TOP, "name": "all"})], "epsilon": [1.0, 60.0]})
def test_the_certificate_of_selected_keys_makes_it_again(asked, epsilon):
    """In a Gaussian account, where a threshold selects, and in plain sums; beside all selected keys, or alone."""
    found = published(plan(*asked, epsilon=epsilon, delta=1e-5), frame(people=3000))
    assert bool(found.cells[0].mu) == (epsilon == 1.0)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    assert Release.from_bytes(found.to_bytes()).rows() == found.rows()
    ranked = [row for row in found.rows() if row["query"] == "top"]
    assert len(ranked) == (6 if GROUPED in asked else 3)
    if COUNT in asked:
        assert len([row for row in found.rows() if row["query"] == "every"]) > 3


def test_the_certificate_of_selected_keys_refuses_other_ranks_more_of_them_and_numbers_below_the_threshold():
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


@pytest.mark.parametrize(
    "asked",
    [(TOP, COUNT), (TOP, {**TOP, "name": "more", "k": 5}), (GROUPED, {**COUNT, "by": ["sex", "airport"]})],
    ids=["beside counts", "beside more ranks", "in groups"],
)
def test_a_table_lacks_no_rank_of_a_key_that_it_names(asked):
    found = published(plan(*asked, epsilon=60.0, delta=1e-5), frame(people=3000))

    def ranked_again(cells):
        every = enumerate(form_of(each, found.plan.unit_of(each)) for each in found.plan.query)
        return [one for at, each in every for one in each.ranking([cell for cell in cells if cell.question == at])]

    own = [each for each in found.cells if each.question == 0]
    for lost in ([own[0]], [own[2]], own[:3]):
        with pytest.raises(CertificateInvalid, match="fewer ranks than selected keys"):
            certified(found, ranked_again([each for each in found.cells if each not in lost]))
    two = {each.key for each in own[:2]}  # the control: as if no others were selected
    fewer = ranked_again([each for each in found.cells if each.key in two])
    assert certified(found, fewer).numbers == 4


def test_without_room_in_the_ledger_the_last_ranks_are_left_out():
    made = plan({**TOP, "by": ["sex"]}, COUNT, epsilon=20.0)
    found = published(made, frame(people=3000))
    ready = prepare(made)
    facts = {name: each for name, each in vars(found.cells[0]).items() if not name.startswith("population")}
    size = len(json.dumps(facts, separators=(",", ":"))) + 1
    assert fitting(ready, found.cells, 10**6) == list(found.cells)
    some = fitting(ready, found.cells, 4 * size + 20)
    kept = [(each.key[0], each.part) for each in some if each.question == 0]
    assert kept == [("f", "1"), ("f", "2"), ("f", "3"), ("m", "1")]
    assert certified(found, some).numbers == len(some)


def test_bins_take_the_range_that_the_plan_states_for_the_column():
    columns, asked = {"delay": {"range": [0, 80]}}, {**MODE, "column": "delay"}
    made = plan({**asked, "bins": 8}, columns=columns)
    assert made.query[0].range == (0.0, 80.0)
    assert make_plan(made.model_dump(by_alias=True, exclude_none=True)) == made
    with pytest.raises(PlanError, match="the keys of 'delay' must be public"):
        plan(asked, columns=columns)


# Ranges in which most values lie: in order, certified, and around most of them, whatever is known of a column.
CENTRAL = {"kind": "central range", "range": [0, 100], "step": 1.0}
LEVELS = {**CENTRAL, "kind": "quantiles", "levels": [0.05, 0.95]}


def table(values, **more):
    return pa.table({"person": [at // 2 for at in range(len(values))], "x": pa.array(values, pa.float64()), **more})


def range_plan(unit=None, epsilon=20.0, delta=0.0, **fields):
    asked = {"name": "range", "kind": "bounds", "column": "x", **fields}
    keys = {"keys": {"g": ["a", "b"]}} if fields.get("by") else {}
    return make_plan({"budget": {"epsilon": epsilon, "delta": delta}, "unit": unit or {}, "query": [asked], **keys})


def ranged(data, unit=None, **fields):
    return release(range_plan(unit, **fields), data, ledger=None)


@pytest.mark.slow
@crossed({"by": [[], ["g"]], "unit": UNITS.values()})
def test_bounds_hold_most_values_and_are_not_absurd(unit, by):
    values = np.random.default_rng(2).normal(60, 10, 1800)
    rows = ranged(table(values, g=["a", "b"] * 900), unit, by=by).rows()
    assert [row["part"] for row in rows] == ["lower", "upper"] * (len(by) + 1)
    for lower, upper in zip(rows[::2], rows[1::2], strict=True):
        inside = (values >= lower["value"]) & (values <= upper["value"])
        assert inside.mean() > 0.9
        assert 20 <= lower["value"] < 60 < upper["value"] <= 120
        assert lower["rank_error"] == upper["rank_error"] > 0


@pytest.mark.claim("range")
@pytest.mark.few(2)
@pytest.mark.parametrize("asked", [{}, CENTRAL])
@pytest.mark.parametrize("values", [[], [7.0], [None, np.nan, np.inf], [5.0] * 30, [1e300, -1e300] * 20])
def test_ranges_are_in_order_and_certified_whatever_the_table(values, asked):
    epsilon, delta = [(0.01, 0.0), (1.0, 0.0), (50.0, 0.0), (1.0, 1e-6)][len(values) % 4]  # all in turn
    made = ranged(table(values), epsilon=epsilon, delta=delta, **asked)
    lower, upper = made.rows()
    least, most = asked.get("range", (-8e11, 8e11))
    assert least <= lower["value"] <= upper["value"] <= most
    assert check_certificate(made.certificate, made.to_bytes()).numbers == 2
    with pytest.raises(CertificateInvalid):
        certified(made, [replace(made.cells[0], draws=(3.3,)), made.cells[1]])


@pytest.mark.slow
def test_dates_have_ends_at_years():
    days = [datetime.date(2012, 3, 1) + datetime.timedelta(days=at) for at in range(1500)]
    lower, upper = ranged(pa.table({"x": days}), dates=True).rows()
    assert (lower["date"], upper["date"]) == ("2012-01-01", "2017-01-01")


def test_points_of_a_central_range_that_were_drawn_the_wrong_way_round_are_put_in_order():
    """So a number may be the one that was drawn for the other level, and both errors must hold."""
    plans = [range_plan(epsilon=90.0, **{**asked, "interval_share": 0}) for asked in (CENTRAL, LEVELS)]
    for plan in plans:
        publisher = prepare(plan).publishers[0]
        assert isinstance(publisher, QuantilePublisher)
        (found,) = publisher.read([[(80.0,), (20.0,)]])
        assert [each.values for each in found] == [(20.0,), (80.0,)]
        alone = rank_error(len(publisher.grid.candidates), publisher.rates[0], publisher.confidence)
        assert found[0].rank_error == found[1].rank_error > alone
    central, levels = (prepared(each, allocations(each, earlier=True)[0]).publishers[0] for each in plans)
    assert [each.values for each in central.read([[(80.0,), (20.0,)]])[0]] == [(20.0,), (80.0,)]
    assert [each.values for each in levels.read([[(80.0,), (20.0,)]])[0]] == [(80.0,), (20.0,)]  # the control
