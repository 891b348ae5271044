"""The most frequent keys and values: against pandas with the noise gone, in tables, reports and certificates."""

import datetime
import json
import random

import pandas
import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.output.report import report
from rangebound.release.plan.kinds.mode import Mode
from rangebound.release.plan.toml import parse_plan

KEYS = [f"k{at}" for at in range(12)]
UNITS = {
    "rows": {},
    "people": {"column": "person", "rows": 3, "groups": 2},
    "replaced": {"column": "person", "groups": 2, "neighbours": "replace", "size": 90},
}


def frame(seed=1, count=900):
    chance = random.Random(seed)
    return pandas.DataFrame(
        {
            "person": [chance.choice([None, *range(90)]) for _ in range(count)],
            "sex": [chance.choice(["f", "m", None]) for _ in range(count)],
            "airport": [
                chance.choice([None, "elsewhere", f"k{min(int(chance.expovariate(0.3)), 11)}"]) for _ in range(count)
            ],
            "delay": [chance.choice([None, chance.gauss(40, 15), 40.0, 50.0]) for _ in range(count)],
            "late": [chance.random() < 0.5 for _ in range(count)],
        }
    ).astype({"person": "Int64"})


def plan(asked, unit="rows", epsilon=100.0, **fields):
    found = {"budget": {"epsilon": epsilon}, "unit": UNITS[unit], "query": [{"name": "q", **asked}], **fields}
    return make_plan(found)


def published(asked, data, unit="rows", keys=None):
    keys = {"airport": KEYS, "sex": ["f", "m"]} if keys is None else keys
    used = {*asked.get("by", ()), asked["column"]}
    made = plan(asked, unit, keys={name: each for name, each in keys.items() if name in used})
    return release(made, pa.Table.from_pandas(data, preserve_index=False), ledger=None)


def counts_of(data, unit, column, group=None, keep=None):
    """Units, or rows, by value: what pandas counts."""
    rows = data if group is None else data[data["sex"] == group]
    rows = rows if keep is None else rows[keep.loc[rows.index]]
    if unit == "rows":
        return rows[column].value_counts()
    owned = rows[rows["person"].notna() & rows[column].notna()]
    return owned.groupby(column, observed=False)["person"].nunique()


def expect_top(keys, counts, size):
    """That keys are the most frequent in order, ties in any order."""
    counts = counts.reindex(KEYS).fillna(0)
    assert len(set(keys)) == size
    assert counts[keys].tolist() == sorted(counts.tolist(), reverse=True)[:size]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("by", [[], ["sex"]])
@pytest.mark.parametrize("filtered", [False, True])
def test_top_k_is_what_pandas_counts(unit, by, filtered):
    data = frame()
    where = {"where": [{"column": "late", "is": "==", "value": True}]} if filtered else {}
    rows = published({"kind": "top k", "column": "airport", "k": 3, "by": by, **where}, data, unit).rows()
    assert [row["part"] for row in rows] == ["1", "2", "3"] * (len(by) + 1)
    keep = data["late"] if filtered else None
    for group in ["f", "m"] if by else [None]:
        own = [row["airport"] for row in rows if not by or row["sex"] == group]
        counted = counts_of(data, unit, "airport", group, keep)
        ordered = counted.reindex(KEYS).fillna(0).sort_values(ascending=False).tolist()
        assert ordered[0] > 5
        close = counted.reindex(KEYS).fillna(0)[own].tolist()
        assert all(abs(a - b) <= 3 for a, b in zip(close, ordered, strict=False))  # e^-(rate 3) at epsilon 50 or 12.5


@pytest.mark.parametrize("unit", UNITS)
def test_ties_and_empty_keys_are_ranked_too(unit):
    data = pandas.DataFrame({"person": range(40), "airport": ["k3"] * 20 + ["k7"] * 20})
    rows = published({"kind": "top k", "column": "airport", "k": 12}, data, unit, {"airport": KEYS}).rows()
    expect_top([row["airport"] for row in rows], data["airport"].value_counts(), 12)
    assert [row["value"] for row in rows] == list(range(1, 13))
    empty = published({"kind": "top k", "column": "airport", "k": 2}, data[:0], unit, {"airport": KEYS}).rows()
    assert len({row["airport"] for row in empty}) == 2


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("by", [[], ["sex"]])
def test_the_mode_is_the_most_frequent_key(unit, by):
    data = frame(2)
    for row in published({"kind": "mode", "column": "airport", "by": by}, data, unit).rows():
        counted = counts_of(data, unit, "airport", row.get("sex")).reindex(KEYS).fillna(0)
        assert counted[row["airport"]] >= counted.max() - 2
        assert (row["part"], row["value"]) == ("", 1.0)


@pytest.mark.parametrize("unit", UNITS)
def test_the_mode_of_numbers_is_the_fullest_bin(unit):
    data = frame(3)
    (row,) = published({"kind": "mode", "column": "delay", "range": [0, 80], "bins": 8}, data, unit, {}).rows()
    bins = pandas.cut(data["delay"].clip(0, 80), range(0, 81, 10), right=False, labels=list(range(0, 80, 10)))
    bins = bins.astype(object).where(data["delay"] < 80, data["delay"].map(lambda x: 70 if x >= 80 else None))
    counted = counts_of(data.assign(bin=bins), unit, "bin")
    assert counted[row["value"] - 5] >= counted.max() - 2
    assert row["delay"] == f"{row['value'] - 5:.0f} to {row['value'] + 5:.0f}"
    assert (row["lower"], row["upper"]) == (0.0, 80.0)


def test_a_unit_counts_once_for_each_key_and_in_all_of_them():
    """One person with thousands of rows at one key is one; one that is in all keys counts in all."""
    often = pandas.DataFrame({"person": [1] * 5000 + list(range(2, 40)), "airport": ["k1"] * 5000 + ["k2"] * 38})
    assert published({"kind": "mode", "column": "airport"}, often, "people").rows()[0]["airport"] == "k2"
    every = pandas.DataFrame(
        {"person": [at for at in range(60) for _ in range(4)], "airport": ["k1", "k2", "k3", "k4"] * 60}
    )
    every = pandas.concat(
        [every, pandas.DataFrame({"person": range(60, 65), "airport": ["k4", "k4", "k4", "k4", "k4"]})]
    )
    rows = published({"kind": "top k", "column": "airport", "k": 4}, every, "people").rows()
    assert rows[0]["airport"] == "k4"
    assert {row["airport"] for row in rows} == {"k1", "k2", "k3", "k4"}


def test_dates_and_whole_numbers_are_keys_and_bins_too():
    days = [datetime.date(2025, 1, 1) + datetime.timedelta(days=at) for at in range(8)]
    data = pandas.DataFrame({"day": [days[5]] * 60 + days, "ward": [3] * 60 + list(range(8))})
    keyed = published({"kind": "mode", "column": "day"}, data, keys={"day": days}).rows()[0]
    assert keyed["day"] == "2025-01-06"
    assert published({"kind": "mode", "column": "ward"}, data, keys={"ward": [1, 2, 3]}).rows()[0]["ward"] == "3"
    (row,) = published({"kind": "mode", "column": "day", "range": [days[0], days[-1]], "bins": 7}, data, keys={}).rows()
    assert (row["date"], row["day"]) == ("2025-01-06", "2025-01-06 to 2025-01-07")


def test_keys_by_rule_are_ranked_as_they_are_grouped():
    """Named bins, folded keys, and what is missing or not listed."""
    data = frame(7)
    bins = {"delay": {"bins": [0, 30, 45, 100], "names": ["early", "usual", "late"]}}
    (row,) = published({"kind": "mode", "column": "delay"}, data, keys=bins).rows()
    assert row["delay"] == "usual"
    folded = {"airport": {"fold": {"few": ["k10", "k11"], "first": ["k0", "k1", "k2"]}, "other": "rest"}}
    rows = published({"kind": "top k", "column": "airport", "k": 3}, data, "people", keys=folded).rows()
    names = data["airport"].map({"k10": "few", "k11": "few", "k0": "first", "k1": "first", "k2": "first"})
    names = names.fillna(data["airport"].map(lambda each: None if each is None else "rest"))
    counted = counts_of(data.assign(airport=names), "people", "airport").sort_values(ascending=False)
    assert [row["airport"] for row in rows] == counted.index.tolist()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_certificate_makes_it_again_and_refuses_other_keys(delta):
    asked = [
        {"name": "top", "kind": "top k", "column": "airport", "k": 3, "by": ["sex"]},
        {"name": "mode", "kind": "mode", "column": "delay", "range": [0, 80]},
    ]
    made = make_plan(
        {"budget": {"epsilon": 1.0, "delta": delta}, "keys": {"airport": KEYS, "sex": ["f", "m"]}, "query": asked}
    )
    found = release(made, pa.Table.from_pandas(frame(), preserve_index=False), ledger=None)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == 7
    for draw in (12.0, -1.0, 0.5):
        damaged = json.loads(found.to_bytes())
        damaged["cells"][0]["draws"] = [draw]
        with pytest.raises(CertificateInvalid):
            check_certificate(found.certificate, json.dumps(damaged).encode())
    twice = json.loads(found.to_bytes())
    twice["cells"][0]["draws"] = twice["cells"][1]["draws"]
    with pytest.raises(CertificateInvalid):
        check_certificate(found.certificate, json.dumps(twice).encode())


FAULTS = [
    ({"kind": "top k", "column": "airport", "k": 13}, r"k: must be at most 12, the number of keys of 'airport'"),
    ({"kind": "top k", "column": "town"}, r"budget.delta: must be positive to select the keys of 'town' privately"),
    ({"kind": "top k", "column": "airport", "by": ["airport"]}, "'airport' is one of the grouping columns"),
    ({"kind": "top k", "column": "airport", "support": [1, 2]}, "support: is not for this kind"),
    ({"kind": "mode", "column": "airport", "step": 1.0}, "step: is not for this kind"),
    ({"kind": "mode", "column": "airport", "margin": 1.0}, "margin: must not be asked of 'mode'"),
    ({"kind": "mode", "column": "airport", "bins": 4}, "range: is missing"),
    ({"kind": "top k", "column": "airport", "k": 0}, "k"),
]


@pytest.mark.parametrize(("asked", "words"), FAULTS)
def test_what_cannot_be_asked_is_refused(asked, words):
    with pytest.raises(PlanError, match=words):
        plan(asked, keys={"airport": KEYS} if asked["column"] == "airport" else {})


def test_bins_take_the_range_that_the_plan_states_for_the_column():
    columns = {"delay": {"range": [0, 80]}}
    asked = {"kind": "mode", "column": "delay"}
    made = plan({**asked, "bins": 8}, columns=columns)
    assert made.query[0].range == (0.0, 80.0)
    assert make_plan(made.model_dump(by_alias=True, exclude_none=True)) == made
    with pytest.raises(PlanError, match="the keys of 'delay' must be public"):
        plan(asked, columns=columns)


def test_bins_of_dates_have_a_day_each():
    with pytest.raises(PlanError, match="bins: must be at most 3, so that each has a day"):
        Mode(name="q", column="d", range=(datetime.date(2025, 1, 1), datetime.date(2025, 1, 4)), bins=4)


def test_it_is_explained_reported_and_written_as_toml():
    data = frame()
    asked = {"kind": "top k", "column": "airport", "k": 3, "by": ["sex"]}
    found = published(asked, data)
    said = explain(found.plan)
    assert "q: top k of 'airport', k = 3, of 12 keys, by sex." in said
    assert "for all ranks of a group together, by joint exponential mechanism" in said
    page = report(found)
    first = found.rows()[0]["airport"]
    assert f"<p class=panel>f</p><ol><li>{first}</li>" in page
    assert "<svg" not in page
    assert found.rows()[0]["unreliable"] is None
    assert parse_plan(found.plan.to_toml()) == found.plan
    assert first in found.to_csv().splitlines()[1]
    assert first in str(found)


def test_markup_in_a_key_is_escaped_in_the_report():
    data = pandas.DataFrame({"airport": ["<b>"] * 50})
    found = published({"kind": "mode", "column": "airport"}, data, keys={"airport": ["<b>", "c"]})
    assert "<b>" not in report(found)
