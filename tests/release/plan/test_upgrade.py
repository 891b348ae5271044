import json
import warnings
from pathlib import Path

import pytest

from rangebound.errors import PlanError
from rangebound.release import make_plan, parse_plan
from rangebound.release.output.plan_facts import plan_json
from rangebound.release.plan.toml import changes, upgraded
from rangebound.release.plan.toml_text import toml_text

FROZEN = json.loads((Path(__file__).parents[2] / "frozen" / "expressions.json").read_text(encoding="utf-8"))
OLD = """# a plan of ours
budget = {epsilon = 1.0}   # a year

[columns]
hours = "minutes // 60"    # whole ones
"odd name" = {value = 'case(age < 18, "child", "old")', range = [0, 1]}

[[query]]
name = "a == b"            # where = "a == b"
kind = "count"
where = '''late or
  region != "north"'''
"""


def test_expressions_alone_change_and_comments_stay():
    found = upgraded(OLD)
    kept = [line for line in OLD.splitlines() if "value" not in line and "hours" not in line]
    assert kept[:4] == found.splitlines()[:4]
    assert 'hours = "FLOOR_DIV(minutes, 60)"    # whole ones' in found
    assert "where = \"late OR region <> 'north'\"" in found
    assert 'name = "a == b"            # where = "a == b"' in found
    assert upgraded(found) == found


@pytest.mark.parametrize("number", range(len(FROZEN["plans"])))
def test_the_plan_has_the_same_fingerprint_and_warns_no_more(number):
    data, _ = FROZEN["plans"][number]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        before = plan_json(make_plan(data))
    assert plan_json(parse_plan(upgraded(toml_text(data)))) == before


def test_what_is_unclear_is_refused_where_another_expression_is_in_sql():
    text = 'budget = {epsilon = 1.0}\nquery = [{name = "n", kind = "count", where = \'x != "y"\'}]\n'
    assert "x <> 'y'" in upgraded(text)  # whoever upgrades a plan says that it is of version 0.2
    mixed = text + '[columns]\nz = "CASE WHEN a THEN 1 END"\n'
    assert upgraded(mixed) == mixed
    with pytest.raises(PlanError, match="write one of these"):
        parse_plan(mixed)


def test_a_text_that_is_an_expression_and_something_else_is_refused_and_not_changed():
    text = 'budget = {epsilon = 1.0}\nquery = [{name = "a == b", kind = "count", where = "a == b"}]\n'
    with pytest.raises(PlanError, match="stands twice"):
        upgraded(text)
    with pytest.raises(PlanError, match="not valid TOML"):
        upgraded("budget = ")


def test_a_quoted_name_is_a_text_only_where_others_are_of_version_02():
    text = 'budget = {epsilon = 1.0}\nquery = [{name = "n", kind = "count"}]\n[columns]\nx = \'"all"\'\n'
    assert upgraded(text) == text
    for former in ("y = 'a % 2'\n", "y = 'coalesce(a, \"b\")'\n"):
        assert "x = \"'all'\"\n" in upgraded(text + former)
    mixed = text + "y = 'a % 2'\nz = 'IF(c, 1, 2)'\n"
    assert text + "y = \"FLOOR_MOD(a, 2)\"\nz = 'IF(c, 1, 2)'\n" == upgraded(mixed)


def test_the_lines_that_change_are_shown():
    shown = changes(OLD, upgraded(OLD), "plan.toml")
    assert '-hours = "minutes // 60"    # whole ones\n' in shown
    assert '+hours = "FLOOR_DIV(minutes, 60)"    # whole ones\n' in shown
