"""A first plan: made of the schema alone, TOML whatever the columns are called, and no plan before it is filled in."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import PlanError
from rangebound.release import draft, parse_plan
from rangebound.release.plan.model import Source
from rangebound.release.plan.table_schema import Family, check_schema

SCHEMA = {
    "who": Family.INTEGER,
    "clinic": Family.TEXT,
    "wait": Family.NUMBER,
    "day": Family.DATE,
    "odd": Family.OTHER,
    "away": Family.BOOLEAN,
}


def filled(text):
    """The draft with all its questions asked and its gaps filled."""
    begin = text.index("\n[keys]") if "\n[keys]" in text else text.index("\n# [")
    asked = re.sub(r"(?m)^# ", "", text[begin:])
    dated = re.sub(r'(kind = "median".*\n.*\nrange = )\[LOWER, UPPER\]', r"\1[2025-01-01, 2025-12-31]", asked)
    filled_in = dated.replace("LOWER", "0").replace("UPPER", "1").replace('"...", "..."', '"north", "south"')
    return text[:begin] + filled_in


def test_a_draft_has_a_count_and_asks_about_every_column_that_has_an_answer():
    text = draft(SCHEMA, Source(path="visits.parquet"), unit="who")
    plan = parse_plan(text)
    assert [each.kind for each in plan.query] == ["count"]
    check_schema(plan, SCHEMA)
    plan = parse_plan(filled(text))
    assert [(each.name, each.kind) for each in plan.query] == [
        ("rows", "count"),
        ("rows by clinic", "count"),
        ("wait", "mean"),
        ("day", "median"),
    ]
    assert plan.columns(("clinic",)) == (("north", "south"),)
    check_schema(plan, SCHEMA)


def test_columns_of_a_csv_file_may_all_be_numbers():
    texts = dict.fromkeys(("who", "clinic", "age"), Family.TEXT)
    plan = parse_plan(filled(draft(texts, Source(path="visits.csv"), unit="who")))
    assert [each.name for each in plan.query] == ["rows", "rows by clinic", "clinic", "age"]


def test_a_column_of_a_csv_file_is_not_averaged_if_its_name_says_text():
    names = ("person_id", "city", "firstName", "age", "visitDate", "zip")
    schema = dict.fromkeys(names, Family.UNTYPED)
    text = draft(schema, Source(path="visits.csv"), unit="person_id")
    assert 'by = ["city"]' in text
    plan = parse_plan(filled(text))
    assert [(each.name, each.kind) for each in plan.query] == [
        ("rows", "count"),
        ("rows by city", "count"),
        ("age", "mean"),
        ("visitDate", "median"),
    ]
    assert "# if it holds numbers; or sum" in text


def test_a_draft_says_what_its_contribution_bounds_cut():
    lines = draft(SCHEMA, Source(path="visits.parquet"), unit="who").splitlines()
    rows, groups = (next(each for each in lines if each.startswith(name)) for name in ("rows = 1", "groups = 1"))
    assert "every further one is cut" in rows
    assert "all rows in the others are cut" in groups
    assert "numbers come out too low, and no interval shows it" in lines[lines.index(groups) + 1]


def test_a_gap_that_is_not_filled_is_found():
    with pytest.raises(PlanError, match=r"unit.column='\?': is still to be filled in: .* 'who', 'clinic'"):
        check_schema(parse_plan(draft(SCHEMA, Source(path="visits.parquet"))), SCHEMA)
    with pytest.raises(PlanError, match=r"not valid TOML.* in place of LOWER and UPPER"):
        parse_plan(filled(draft(SCHEMA, Source(path="visits.parquet"))).replace("[0, 1]", "[LOWER, UPPER]"))


@pytest.mark.parametrize(("unit", "words"), [("whom", "did you mean 'who'"), ("wait", "does not serve for a privacy")])
def test_a_unit_that_is_none_is_refused(unit, words):
    with pytest.raises(PlanError, match=words):
        draft(SCHEMA, Source(path="visits.parquet"), unit=unit)


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=20)


@given(st.dictionaries(names, st.sampled_from(Family), max_size=5), names)
def test_whatever_columns_and_files_are_called_a_draft_is_toml_with_one_question(schema, path):
    text = draft(schema, Source(path=path))
    plan = parse_plan(text)
    assert plan.source == Source(path=path)
    assert [each.name for each in plan.query] == ["rows"]


@pytest.mark.parametrize(
    "column", ["bike_type", "rideType", "kind", "vehicle class", "start_station", "payment_method", "branch"]
)
def test_no_mean_is_proposed_for_a_column_that_sounds_like_text(column):
    schema = {"rider": Family.UNTYPED, column: Family.UNTYPED, "minutes": Family.UNTYPED}
    text = draft(schema, Source(path="rides.csv"), unit="rider")
    assert f'# column = "{column}"' not in text
    assert '# column = "minutes"' in text  # control
    assert '= ["...", "..."]' in text  # its keys can be listed


@pytest.mark.parametrize("column", ["room", "age_band", "incomeBracket", "ward", "price_tier", "zone"])
def test_a_column_of_kinds_or_bands_is_counted_by_group_and_not_averaged(column):
    schema = dict.fromkeys(("guest", "stay_no", column, "last_name", "nights"), Family.UNTYPED)
    text = draft(schema, Source(path="stays.csv"), unit="guest")
    found = parse_plan(filled(text))
    assert [(each.name, each.kind, each.by) for each in found.query] == [
        ("rows", "count", ()),
        (f"rows by {column}", "count", (column,)),
        ("nights", "mean", ()),
    ]
    assert text.count("[keys]") == 1
    assert parse_plan(text).keys == {}


@pytest.mark.parametrize("column", ["member", "club", "home_store", "guest"])
def test_no_mean_is_proposed_of_who_or_where(column):
    schema = dict.fromkeys((column, f"{column}_age", f"{column}s"), Family.UNTYPED)
    text = draft(schema, Source(path="visits.csv"))
    assert f'# column = "{column}"' not in text
    for quantity in (f"{column}_age", f"{column}s"):
        assert f'# column = "{quantity}"' in text  # the control


def test_numbers_of_rows_and_of_cards_are_no_quantities_and_days_are_days():
    schema = dict.fromkeys(("card", "loan_no", "taken_on", "returnedAt", "no_of_renewals", "days_kept"), Family.UNTYPED)
    text = draft(schema, Source(path="loans.csv"), unit="card")
    asked = re.findall(r'# kind = "(\w+)" .*\n# column = "(\w+)"', text)
    means, medians = ["no_of_renewals", "days_kept"], ["taken_on", "returnedAt"]
    assert [each for each in asked if each[0] == "mean"] == [("mean", name) for name in means]
    assert [each for each in asked if each[0] == "median"] == [("median", name) for name in medians]
