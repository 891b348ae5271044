"""Keys by rule as a plan writes them: what they stand for, how they are written down again, what is refused and how."""

import json

import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.release import check_certificate, make_plan, parse_plan, read_plan, release
from rangebound.release.output.plan_facts import plan_from_json, plan_json

HEAD = "budget = {epsilon = 1.0, delta = 1e-6}\n"
ASKED = '[[query]]\nname = "n"\nkind = "count"\nby = ["x"]\n'


def with_keys(rule):
    return parse_plan(f"{HEAD}[keys]\nx = {rule}\n{ASKED}")


@pytest.mark.parametrize(
    ("rule", "labels"),
    [
        ("{weeks = [2025-01-05, 2025-01-20]}", ["2025-01-05", "2025-01-06", "2025-01-13", "2025-01-20"]),
        ("{weeks = [2025-01-06, 2025-01-12]}", ["2025-01-06"]),
        ("{weeks = [2025-01-07, 2025-01-07]}", ["2025-01-07"]),
        ("{months = [2024-11-30, 2025-02-01]}", ["2024-11-30", "2024-12-01", "2025-01-01", "2025-02-01"]),
        ("{months = [2025-01-01, 2025-01-31]}", ["2025-01-01"]),
        ("{values = [1, 2], missing = 'none', other = 'more'}", ["1", "2", "more", "none"]),
        ("{values = {numbers = [8, 10]}, other = '9'}", ["8", "9", "10"]),
        ("{numbers = [8, 10], missing = '?'}", ["8", "9", "10", "?"]),
        ("{values = {weeks = [2025-01-06, 2025-01-07]}, other = 'later'}", ["2025-01-06", "later"]),
        ("{fold = {south = ['b'], north = ['a', 'c']}, other = 'else'}", ["south", "north", "else"]),
        ("{bins = [0, 18.5, 65]}", ["[0, 18.5)", "[18.5, 65]"]),
        ("{bins = [0, 18, 65], names = ['young', 'old'], missing = 'old'}", ["young", "old"]),
        ("{bins = [2025-01-01, 2025-07-01, 2025-12-31]}", ["[2025-01-01, 2025-07-01)", "[2025-07-01, 2025-12-31]"]),
        ("{missing = 'unknown'}", []),
        ("{days = [2024-02-28, 2024-03-01]}", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("{numbers = [-1, 2]}", ["-1", "0", "1", "2"]),
    ],
)
def test_a_rule_stands_for_its_keys_and_survives_being_written(rule, labels):
    plan = with_keys(rule)
    assert list(plan.columns(("x",))[0]) == labels
    assert plan.private(("x",)) == (not labels)
    again = plan_from_json(json.loads(plan_json(plan)))
    assert again == plan
    assert again.columns(("x",)) == plan.columns(("x",))
    assert parse_plan(plan.to_toml()) == plan


def test_weeks_and_months_are_named_as_a_series_names_them():
    days = "[2024-12-27, 2025-02-09]"
    text = f'{HEAD}[keys]\nx = {{days = {days}}}\n[[query]]\nname = "n"\nkind = "series"\nby = ["x"]\n'
    plan = parse_plan(text)
    ((labels),) = plan.query[0].labels([(key,) for key in plan.columns(("x",))[0]])
    for rule, part in (("weeks", "week"), ("months", "month")):
        named = with_keys(f"{{{rule} = {days}}}").keys["x"].labels
        assert [key for (key,), own in labels if own == part] == list(named)


def test_keys_that_a_truth_column_never_has_are_refused():
    def plan(keys):
        return parse_plan(f"""budget = {{epsilon = 1.0}}
columns = {{"odd name" = "age > 3"}}
keys = {{"odd name" = {keys}}}
query = [{{name = "n", kind = "count", by = ["odd name"]}}]""")

    for keys in ("[true, false]", "['true']", "{fold = {yes = [true]}, other = 'no'}"):
        assert plan(keys).groups(("odd name",)) > 0
    for keys in ("['yes', 'no']", "[1, 0]", "{fold = {old = ['True']}}"):
        with pytest.raises(PlanError, match="the column is true or false, and never") as caught:
            plan(keys)
        assert caught.value.field == "keys.odd name"


PAIRS = ("[['a']]", "[['a', ['x']], ['a', ['y']]]", "['ab']", "[[1, ['x']]]")
WRONG_RULES = [
    ("{weeks = [2025-01-02, 2025-01-01]}", ".weeks", "the first day must not be after the last"),
    ("{weeks = [1, 2]}", ".weeks", "must be the first and the last day, two dates"),
    ("{months = [2025-01-01T00:00:00, 2025-01-02]}", ".months", "two dates"),
    ("{weeks = [0001-01-01, 9999-12-31]}", "", "must be at most 100000 keys"),
    ("{bins = [0]}", ".bins", "must be a list of 2 to 1001 edges"),
    ("{bins = 3}", ".bins", "must be a list, in square brackets"),
    ("{bins = [0, 2, 1]}", ".bins", "the edges must rise"),
    ("{bins = [0, 2025-01-01]}", ".bins", "all numbers, or all dates"),
    ("{bins = [0, 'x']}", ".bins[1]", "must be a number"),
    ("{bins = [0, inf]}", ".bins[1]", "finite"),
    ("{bins = [0, 1, 2], names = ['a']}", ".names", "must be 2, one for each bin"),
    ("{bins = [0, 1, 2], names = ['a', 'a']}", ".names", "two bins have the same name"),
    ("{values = ['a'], names = ['a']}", ".names", "goes with bins"),
    ("{values = ['a', 'a'], other = 'b'}", "", "a key is listed twice: 'a'"),
    ("{fold = {n = ['a'], s = ['b', 'a']}}", "", "a key is listed twice"),
    ("{fold = {n = [1.5]}}", ".fold.n[0]", "must be a text, a whole number, a date"),
    ("{fold = {n = []}}", ".fold.n", "must not be empty"),
    *((f"{{fold = {each}}}", ".fold", "must be a table of names") for each in PAIRS),
    ("{values = ['a'], bins = [0, 1]}", "", "must have one of values, days"),
    ("{missing = 'a', other = 'b'}", ".other", "goes with listed keys"),
    ("{values = ['a'], missing = ''}", ".missing", "must not be empty"),
    ("{values = ['a'], missing = 1}", ".missing", "must be a text"),
    ("{values = ['a'], misssing = 'x'}", ".misssing", "did you mean 'missing'?"),
    ("{values = {fold = {n = ['a']}}}", ".values", "must be a list, or one of days, numbers"),
    ("{values = ['a'], column = 'b'}", ".column", "goes with file"),
    ("{file = 'keys.csv'}", ".file", "goes with the name of a column"),
    ("{file = 'no such.csv', column = 'b'}", ".file", "cannot be read (No such file or directory)"),
    ("{file = 3, column = 'b'}", ".file", "must be the path of a file"),
    ("{days = [2025-01-01]}", "", "days must be the first and the last of them, two dates"),
    ("{numbers = [1.0, 2.0]}", "", "must be the first and the last of them, two whole numbers"),
    ("{numbers = [true, false]}", "", "must be the first and the last of them, two whole numbers"),
    ("{numbers = [5, 4]}", "", "numbers must be in order, and at most 100000 of them"),
    ("{numbers = [0, 100000]}", "", "numbers must be in order, and at most 100000 of them"),
    ("{weekdays = [1, 2]}", ".weekdays", "unknown field; did you mean 'weeks'?"),
    ("{}", "", "must have one of values, days, numbers, weeks, months, file, fold, bins; or `missing` alone"),
    ("'a'", "", "must be a list of keys, or a table with one of values, days"),
    ("{days = [2025-01-01T00:00:00, 2025-01-02]}", "", "the first and the last of them, two dates"),
]
WRONG_COMBINATIONS = [
    ('{columns = ["x"], keys = [["a"]]}', ".columns", "must not be empty"),
    ('{columns = ["x", "x"], keys = [["a", "b"]]}', ".columns", "one of them is named twice"),
    ('{columns = ["x", "y"], keys = [["a"]]}', ".keys[0]", "one key for each of 2 columns"),
    ('{columns = ["x", "y"], keys = [["a", 1], ["a", 1]]}', ".keys", "listed twice"),
    ('{columns = ["x", "y"], keys = []}', ".keys", "must not be empty"),
    ('{columns = ["x", "y"], keys = [["a", 1.5]]}', ".keys[0][1]", "a whole number"),
    ('{columns = ["x", "y"], keys = {path = "a.csv"}}', ".keys", "or {file"),
    ('{columns = ["x", "z"], keys = [["a", 1]]}', "", "no query is grouped by 'x', 'z'"),
    ('{columns = ["x", "w"], keys = [["b", 1]]}', "", "'b' is not among the keys of 'x'"),
]


@pytest.mark.few(24)
@pytest.mark.parametrize(
    ("parts", "field", "words"),
    [
        *((f"[keys]\nx = {rule}", f"keys.x{field}", words) for rule, field, words in WRONG_RULES),
        *(
            (f'keys.x = ["a"]\ncombinations = [{each}]', f"combinations[0]{field}", words)
            for each, field, words in WRONG_COMBINATIONS
        ),
    ],
)
def test_a_wrong_rule_or_list_of_combinations_is_refused_with_its_field_and_line(parts, field, words):
    with pytest.raises(PlanError) as caught:
        parse_plan(f"{HEAD}{parts}\n{ASKED}")
    assert words in str(caught.value)
    assert (caught.value.field, caught.value.line) == (field, 3)


def test_combinations_share_no_column_and_keys_that_are_listed_are_written_as_a_list():
    pairs = [{"columns": ["x", "y"], "keys": [["a", "b"]]}, {"columns": ["y", "z"], "keys": [["b", "c"]]}]
    query = [{"name": "n", "kind": "count", "by": ["x", "y", "z"]}]
    with pytest.raises(PlanError, match="'y' is in another combination too"):
        make_plan({"budget": {"epsilon": 1.0}, "combinations": pairs, "query": query})
    plan = with_keys("{values = ['a', 'b']}")
    assert json.loads(plan_json(plan))["keys"] == {"x": ["a", "b"]}
    assert plan == with_keys("['a', 'b']")


def test_too_many_groups_are_counted_by_their_combinations():
    """A thousand pairs of a thousand keys each are a thousand groups; the product would be a million."""
    pairs = {"columns": ["x", "y"], "keys": [[at, at] for at in range(1000)]}
    data = {"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count", "by": ["y", "x"]}]}
    plan = make_plan({**data, "combinations": [pairs]})
    assert plan.groups(("y", "x")) == 1000
    numbers = {"numbers": [0, 999]}
    with pytest.raises(PlanError, match="over 100000 groups"):
        make_plan({**data, "keys": {"x": numbers, "y": numbers}})


def test_a_file_is_read_beside_the_plan_and_its_keys_are_in_the_certificate(tmp_path, monkeypatch):
    folder = tmp_path / "plans"
    folder.mkdir()
    (folder / "airports.csv").write_text("code,name\nEWR,Newark\nJFK,Kennedy\n,nowhere\nEWR,again\n")
    (folder / "cities.csv").write_text("city,country\nparis,fr\nrome,it\n")
    (folder / "plan.toml").write_text(
        'budget = {epsilon = 2.0}\nkeys = {origin = {file = "airports.csv", column = "code", other = "else"}}\n'
        'combinations = [{columns = ["country", "city"], keys = {file = "cities.csv"}}]\n'
        '[[query]]\nname = "a"\nkind = "count"\nby = ["origin"]\n'
        '[[query]]\nname = "b"\nkind = "count"\nby = ["country", "city"]\n'
    )
    plan = read_plan(folder / "plan.toml")
    assert plan.columns(("origin", "city")) == (("EWR", "JFK", "else"), ("paris", "rome"))
    data = pa.table({"origin": ["EWR", "LGA"], "country": ["fr", "it"], "city": ["paris", "paris"]})
    table = release(plan, data, ledger=None)
    for file in folder.iterdir():
        file.unlink()
    assert b'["EWR","JFK"]' in table.to_bytes().replace(b" ", b"").replace(b"\n", b"")
    check_certificate(table.certificate, table.to_bytes())
    text = (folder / "plan.toml").write_text
    text('budget = {epsilon = 2.0}\nkeys = {x = {file = "airports.csv", column = "code"}}\n' + ASKED)
    with pytest.raises(PlanError, match=r"plan.toml:2: keys.x.file: 'airports.csv' cannot be read"):
        read_plan(folder / "plan.toml")


def test_a_certificate_reads_no_file(tmp_path, monkeypatch):
    """A certificate comes from elsewhere: whoever made it must not decide which files are read where it is checked."""
    (tmp_path / "keys.csv").write_text("x\na\n")
    monkeypatch.chdir(tmp_path)
    data = {"budget": {"epsilon": 1.0}, "keys": {"x": {"file": "keys.csv", "column": "x"}}}
    data["query"] = [{"name": "n", "kind": "count", "by": ["x"]}]
    assert make_plan(data).columns(("x",)) == (("a",),)
    with pytest.raises(PlanError, match="no file is read here; a plan that was published lists its keys"):
        plan_from_json(data)
