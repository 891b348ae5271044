"""The columns of a plan's file are looked up before anything is asked of it."""

import pytest

from rangebound.errors import PlanError
from rangebound.release import parse_plan
from rangebound.web.explorer.plan_tables import check_columns, column_names

PLAN = """source = {path = "visits.csv"}
unit = {column = "who"}
budget = {epsilon = 1.0}
query = [{name = "age", kind = "mean", column = "age", range = [0, 110]}]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits.csv").write_text("who,age,city\nnobody,1,there\n")
    return tmp_path


def test_names_are_those_of_the_file(folder, tmp_path_factory):
    assert column_names(parse_plan(PLAN), folder) == ("who", "age", "city")
    assert column_names(parse_plan(PLAN), tmp_path_factory.mktemp("elsewhere")) == ()
    server = PLAN.replace('{path = "visits.csv"}', '{postgres = "postgresql://nowhere/x", table = "visits"}')
    assert column_names(parse_plan(server), folder) == ()
    assert check_columns(parse_plan(server), folder) == ""


def test_a_name_that_the_file_does_not_have_is_refused(folder):
    assert check_columns(parse_plan(PLAN), folder) == ""
    with pytest.raises(PlanError, match="did you mean 'who'"):
        check_columns(parse_plan(PLAN.replace('"who"', '"whom"')), folder)
    assert "sounds like text" in check_columns(parse_plan(PLAN.replace('"age"', '"city"')), folder)


def test_a_file_that_is_not_there_is_said(tmp_path):
    assert "were not checked" in check_columns(parse_plan(PLAN), tmp_path)
