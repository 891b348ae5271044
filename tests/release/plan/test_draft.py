"""A first plan: made of the schema alone, TOML whatever the columns are called, and no plan before it is filled in."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import PlanError
from rangebound.release import draft, parse_plan
from rangebound.release.plan.cautions import unread_columns
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import Family, TypedSchema, check_schema

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


@pytest.mark.parametrize(
    ("path", "encoding", "asked"), [("t.csv", None, 1), ("t.csv", "cp1252", 0), ("t.xlsx", None, 0)]
)
def test_a_draft_says_how_to_state_an_encoding_that_the_first_line_does_not_show(path, encoding, asked):
    text = draft({"who": Family.UNTYPED}, Source(path=path, encoding=encoding), unit="who")
    assert text.count("# encoding = ") == asked
    assert text.count("# decimal = ") == 1
    parse_plan(text.replace("# encoding", "encoding").replace("# date_format", "date_format"))


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


PROPOSED = {
    "mean": ["age", "member_age", "clubs", "guests", "nights", "no_of_renewals", "days_kept"],
    "median": ["visitDate", "taken_on", "returnedAt"],
    "count": [
        *("bike_type", "rideType", "kind", "vehicle class", "start_station", "payment_method", "branch", "zone"),
        *("room", "age_band", "incomeBracket", "ward", "price_tier"),
    ],
    "nothing": ["zip", "firstName", "last_name", "stay_no", "member", "club", "home_store", "guest", "card"],
}


@pytest.mark.parametrize(("kind", "column"), [(kind, each) for kind, own in PROPOSED.items() for each in own])
def test_what_is_proposed_for_a_column_of_a_csv_file_follows_from_its_name(kind, column):
    schema = dict.fromkeys(("rider", "city", column), Family.UNTYPED)
    text = draft(schema, Source(path="rides.csv"), unit="rider")
    assert parse_plan(text).keys == {}
    found = parse_plan(filled(text)).query
    about = {"mean": (column, "mean", ()), "median": (column, "median", ()), "nothing": None}
    own = about.get(kind, (f"rows by {column}", "count", (column,)))
    read = {"mean": "number", "median": "date"}.get(kind)
    assert [(each.name, each.kind, each.by) for each in found] == [
        ("rows", "count", ()),
        ("rows by city", "count", ("city",)),
        *([own] if own else []),
        *([(f"{column} that is not a {read}", "share", ())] if read else []),
    ]
    grouped = {"city", *([column] if kind == "count" else [])}
    assert {*unread_columns(parse_plan(filled(text)), TypedSchema(schema, types={}))} == grouped
