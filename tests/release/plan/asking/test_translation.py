"""What each SELECT becomes, and which are refused: with the place, the reason and the nearest thing that works."""

import datetime

import pytest

from rangebound.errors import ArgumentTypeError, PlanError
from rangebound.release import make_plan, parse_plan
from rangebound.release.plan.asking.published_values import Fixed, KeyOf, Number, Operation
from rangebound.release.plan.asking.translation import translate
from rangebound.release.plan.expressions.former import read_former
from rangebound.release.plan.source import Join

BASE = {
    "budget": {"epsilon": 1.0, "delta": 1e-6},
    "unit": {"column": "person", "rows": 2, "groups": 3},
    "columns": {
        "waiting": {"range": [0, 240]},
        "cost": {"range": [-50, 1000]},
        "age": {"range": [0, 120]},
        "day": {"range": [datetime.date(2024, 1, 1), datetime.date(2025, 12, 31)]},
    },
    "keys": {"clinic": ["north", "south"], "band": ["child", "adult"], "Region": ["x", "y"]},
}


def asked(text, base=BASE, **options):
    return translate(text, base, **options)


def plan_of(*queries, **parts):
    """The plan that is written by hand, on the same base, with expressions as version 0.2 wrote them."""
    queries = [
        each | {name: read_former(each[name]) if each[name] else () for name in ("where", "of") if name in each}
        for each in queries
    ]
    if "columns" in parts:
        found = parts["columns"].items()
        parts["columns"] = {name: read_former(each) if isinstance(each, str) else each for name, each in found}
    by = {column for each in queries for column in each.get("by", ())}
    keys = {name: value for name, value in BASE["keys"].items() if name in by}
    return make_plan(
        {**BASE, "keys": keys, "query": [{"name": f"q{at}", **each} for at, each in enumerate(queries)]} | parts
    )


CLIPPED = "LEAST(GREATEST(x, 0), 10)"
RANK = {"kind": "quantiles", "column": "waiting"}
QUESTIONS = [
    ("COUNT(*)", {"kind": "count"}),
    ("COUNT(waiting)", {"kind": "count", "where": "not missing(waiting)"}),
    ("COUNT(DISTINCT person)", {"kind": "count of units"}),
    ("COUNT(*) FILTER (WHERE age >= 18)", {"kind": "count", "where": "age >= 18"}),
    ("COUNT(waiting) FILTER (WHERE age < 18)", {"kind": "count", "where": "age < 18 and not missing(waiting)"}),
    ("COUNT(CASE WHEN age >= 18 THEN 1 END)", {"kind": "count", "where": "age >= 18"}),
    ("SUM(CASE WHEN age >= 18 THEN 1 ELSE 0 END)", {"kind": "count", "where": "age >= 18"}),
    ("COUNT_IF(age >= 18)", {"kind": "count", "where": "age >= 18"}),
    ("SUM(cost)", {"kind": "sum", "column": "cost"}),
    (f"SUM({CLIPPED})", {"kind": "sum", "column": "x", "range": [0, 10]}),
    ("SUM(GREATEST(LEAST(x, 10), -3))", {"kind": "sum", "column": "x", "range": [-3, 10]}),
    ("AVG(waiting)", {"kind": "mean", "column": "waiting"}),
    ("AVG(CASE WHEN age >= 18 THEN 1 ELSE 0 END)", {"kind": "share", "of": "age >= 18"}),
    ("1.0 * COUNT(*) FILTER (WHERE age >= 18) / COUNT(*)", {"kind": "share", "of": "age >= 18"}),
    ("CAST(COUNT(*) FILTER (WHERE age >= 18) AS DOUBLE) / COUNT(*)", {"kind": "share", "of": "age >= 18"}),
    ("COUNT(waiting) / COUNT(*)", {"kind": "share", "of": "not missing(waiting)"}),
    ("VAR_POP(waiting)", {"kind": "variance", "column": "waiting"}),
    ("STDDEV_POP(waiting)", {"kind": "standard deviation", "column": "waiting"}),
    ("MEDIAN(waiting)", {"kind": "median", "column": "waiting"}),
    ("MEDIAN(day)", {"kind": "median", "column": "day"}),
    ("QUANTILE_CONT(waiting, 0.9)", {**RANK, "levels": [0.9]}),
    ("QUANTILE(waiting, 0.5)", {"kind": "median", "column": "waiting"}),
    ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY waiting)", {**RANK, "levels": [0.9]}),
    ("PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY waiting DESC)", {**RANK, "levels": [0.1]}),
    ("MIN(waiting)", {"kind": "minimum", "column": "waiting"}),
    ("MAX(waiting)", {"kind": "maximum", "column": "waiting"}),
]
MADE = [
    ("SUM(CASE WHEN age < 18 THEN cost ELSE 0 END)", "sum", "case(age < 18, cost, 0)"),
    (
        "SUM(CASE clinic WHEN 'north' THEN cost WHEN 'south' THEN 2 END)",
        "sum",
        "case(clinic == 'north', cost, clinic == 'south', 2)",
    ),
    ("AVG(CAST(age >= 18 AS INT))", "mean", "number(age >= 18)"),
    ("AVG(age >= 18)", "mean", "number(age >= 18)"),
    ("MEDIAN(EXTRACT(YEAR FROM day))", "median", "year(day)"),
    ("MEDIAN(MONTH(day))", "median", "month(day)"),
    ("AVG(ROUND(waiting))", "mean", "round(waiting)"),
    ("MAX(LEAST(waiting, cost))", "maximum", "min(waiting, cost)"),
    ("AVG(IF(age > 3, waiting, cost))", "mean", "case(age > 3, waiting, cost)"),
]
CONDITIONS = [
    ("18 <= age", "18 <= age"),
    ("age = 18", "age == 18"),
    ("clinic LIKE '%th'", "ends(clinic, 'th')"),
    ("clinic LIKE '%or%'", "contains(clinic, 'or')"),
    ("clinic LIKE 'north'", "clinic == 'north'"),
    ("NOT (age < 3 OR cost > 5)", "not (age < 3 or cost > 5)"),
    ("day >= DATE '2025-02-01'", "day >= date('2025-02-01')"),
    ("day >= '2025-02-01'", "day >= date('2025-02-01')"),
    ("day < CAST('2025-02-01' AS DATE)", "day < date('2025-02-01')"),
    ("ill = TRUE AND age * 2 > cost", "ill == true and age * 2 > cost"),
    ('"odd name" = 3', "column('odd name') == 3"),
    ("clinic = 'it''s \"x\" -- y'", "clinic == 'it\\'s \"x\" -- y'"),
    ("clinic = 'caf\u00e9 \U0001f600'", "clinic == 'caf\u00e9 \U0001f600'"),
    ("age > -3.5e2 /* a comment */", "age > -350"),
]


@pytest.mark.parametrize(("sql", "fields"), QUESTIONS, ids=[each[0] for each in QUESTIONS])
def test_an_aggregate_becomes_a_question(sql, fields):
    found = asked(f"SELECT {sql} AS q0 FROM visits")
    assert found.plan == plan_of(fields)
    assert found.columns == (("q0", Number(0)),)
    again = asked(f"SELECT clinic, {sql} AS q0 FROM visits WHERE age > 3 GROUP BY clinic")
    where = " and ".join(each for each in ("age > 3", fields.get("where")) if each)
    assert again.plan == plan_of({**fields, "by": ["clinic"], "where": where})
    assert again.columns == (("clinic", KeyOf(0)), ("q0", Number(0)))


@pytest.mark.parametrize(("sql", "kind", "value"), MADE, ids=[each[0] for each in MADE])
def test_an_expression_becomes_a_made_column(sql, kind, value):
    found = asked(f"SELECT {sql} AS q0 FROM visits").plan
    (name,) = [each.column for each in found.query]
    declared = {**BASE["columns"], name: value}
    assert found == plan_of({"kind": kind, "column": name}, columns=declared)


@pytest.mark.parametrize(("sql", "where"), CONDITIONS, ids=[each[0] for each in CONDITIONS])
def test_a_condition_becomes_one_of_the_plan(sql, where):
    found = asked(f"SELECT COUNT(*) AS q0 FROM visits WHERE {sql}")
    assert found.plan == plan_of({"kind": "count", "where": where})


@pytest.mark.parametrize(
    ("select", "by"),
    [
        ("clinic, COUNT(*) AS q0 FROM visits GROUP BY clinic", ["clinic"]),
        ("clinic, COUNT(*) AS q0 FROM visits GROUP BY 1", ["clinic"]),
        ("v.clinic, COUNT(*) AS q0 FROM visits v GROUP BY v.clinic", ["clinic"]),
        ("clinic AS c, COUNT(*) AS q0 FROM visits GROUP BY c", ["clinic"]),
        ("CLINIC, COUNT(*) AS q0 FROM visits GROUP BY Clinic", ["clinic"]),
        ("region, COUNT(*) AS q0 FROM visits GROUP BY ALL", ["Region"]),
        ("clinic, region, COUNT(*) AS q0 FROM visits GROUP BY 2, 1", ["Region", "clinic"]),
        ("COUNT(*) AS q0 FROM visits GROUP BY clinic", ["clinic"]),
    ],
)
def test_groups_are_columns_places_and_names(select, by):
    assert asked(f"SELECT {select}").plan == plan_of({"kind": "count", "by": by})


def test_a_group_may_be_an_expression():
    case = "CASE WHEN age < 18 THEN 'child' ELSE 'adult' END"
    declared = {**BASE["columns"], "band": "case(age < 18, 'child', 'adult')"}
    wanted = plan_of({"kind": "count", "by": ["band"]}, columns=declared, keys={"band": ["child", "adult"]})
    base = {**BASE, "keys": {"band": ["child", "adult"]}}
    for text in (
        f"SELECT {case} AS band, COUNT(*) AS q0 FROM t GROUP BY band",
        f"SELECT {case} AS band, COUNT(*) AS q0 FROM t GROUP BY 1",
        f"SELECT {case} AS band, COUNT(*) AS q0 FROM t GROUP BY {case}",
    ):
        for columns in ((), ("age", "clinic")):
            found = asked(text, base, columns=columns)
            assert found.plan == wanted
            assert found.columns[0] == ("band", KeyOf(0))
    real = asked(f"SELECT {case} AS band, COUNT(*) AS q0 FROM t GROUP BY 1", base, columns=["age", "band"])
    assert real.plan.query[0].by == ('case(age < 18, "child", "adult")',)  # the table has a column of that name
    assert asked("SELECT age > 3, COUNT(*) FROM t GROUP BY age > 3").columns[0][1] == KeyOf(0)


def test_published_numbers_are_reckoned_with_and_rows_are_chosen_by_them():
    found = asked(
        "SELECT clinic, COUNT(*) AS n, AVG(waiting) AS w, ROUND(AVG(waiting) / 60, 1) AS hours FROM visits "
        "GROUP BY clinic HAVING n > 10 AND AVG(waiting) BETWEEN 1 AND 9 ORDER BY hours DESC, 1, COUNT(*) LIMIT 5"
    )
    assert [each.name for each in found.plan.query] == ["n", "w"]
    hours = Operation("round", (Operation("/", (Number(1), Fixed(60.0))), Fixed(1.0)))
    assert found.columns == (("clinic", KeyOf(0)), ("n", Number(0)), ("w", Number(1)), ("hours", hours))
    between = Operation("and", (Operation(">=", (Number(1), Fixed(1.0))), Operation("<=", (Number(1), Fixed(9.0)))))
    assert found.having == Operation("and", (Operation(">", (Number(0), Fixed(10.0))), between))
    assert [(each.by, each.falling) for each in found.order] == [(hours, True), (KeyOf(0), False), (Number(0), False)]
    assert found.limit == 5


def test_texts_are_equal_to_keys_and_days_have_an_order():
    having = "clinic IN ('north', 'x') AND m <> 'adult'"
    found = asked(f"SELECT clinic, MODE(band) AS m FROM visits GROUP BY clinic HAVING {having}")
    assert Operation("!=", (Number(0), Fixed("adult"))) in found.having.parts
    for day in ("'2025-03-01'", "DATE '2025-03-01'"):
        found = asked(f"SELECT day, COUNT(*) FROM visits GROUP BY day HAVING day >= {day}")
        assert found.having == Operation(">=", (KeyOf(0), Fixed("2025-03-01")))


def test_what_is_not_quite_what_sql_says_is_noted():
    base = {**BASE, "query": [{"name": "n", "kind": "count"}]}
    notes = asked(f"SELECT clinic, MIN(waiting), MAX(cost), SUM({CLIPPED}) FROM visits GROUP BY 1", base).notes
    assert "MIN(waiting) is published as the 0.01 quantile: a single row must not decide it" in notes
    assert "the questions of the base plan are not asked" in notes
    assert all(any(words in each for each in notes) for words in ("0.99 quantile", "rows without a key", "SQL:2023"))


def test_the_base_is_a_dict_or_a_plan_and_what_it_has_stays():
    base = {**BASE, "title": "t", "level": 0.9, "report_clipping": True, "source": {"path": "data/visits.csv"}}
    found = asked("SELECT clinic, AVG(waiting) AS w FROM visits GROUP BY clinic", base)
    assert found.plan.title == "t"
    assert found.plan.report_clipping
    assert [each.name for each in found.plan.query if not each.made] == ["w"]
    again = asked("SELECT clinic, AVG(waiting) AS w FROM visits GROUP BY clinic", found.plan)
    assert again.plan == found.plan
    assert parse_plan(found.plan.to_toml()) == found.plan
    assert str(found).startswith("# ")
    assert parse_plan(str(found)) == found.plan
    with pytest.raises(ArgumentTypeError, match="plan of type list"):
        asked("SELECT COUNT(*) FROM t", [1])
    with pytest.raises(ArgumentTypeError, match="text"):
        asked(b"SELECT 1")


def test_names_are_those_of_the_table_whatever_their_case():
    found = asked('SELECT "Wing", COUNT(*) AS q0 FROM t WHERE KIND = 1 GROUP BY "Wing"', columns=["Wing", "kind"])
    assert found.plan.query[0].by == ("Wing",)
    assert found.plan.query[0].where[0].column == "kind"


REFUSED = [
    ("", "1:1", "must be one SELECT"),
    ("DROP TABLE visits", "1:1", "must be one SELECT"),
    ("SELECT COUNT(*) FROM visits; DROP TABLE visits", "1:1", "statement of its own"),
    ("SELECT COUNT(*) FROM visits UNION SELECT COUNT(*) FROM t", "1:1", "statement of its own"),
    ("SELECT COUNT(* FROM visits", "1:", "not valid SQL"),
    ("SELECT COUNT(*) FROM visits WHERE clinic = 'x", "1:1", "does not end"),
    ("SELECT * FROM visits", "1:8", "rows are never published"),
    ("SELECT visits.* FROM visits", "1:", "rows are never published"),
    ("SELECT waiting FROM visits", "1:8", "waiting: is not an aggregate"),
    ("SELECT waiting, COUNT(*) FROM visits GROUP BY clinic", "1:8", "neither an aggregate nor in GROUP BY"),
    ("SELECT DISTINCT clinic FROM visits", "1:", "DISTINCT is not in the subset"),
    ("SELECT COUNT(*) OVER () FROM visits", "1:8", "a window would see single rows"),
    ("SELECT ROW_NUMBER() OVER (ORDER BY age) FROM visits", "1:", "not"),
    ("SELECT STDDEV(waiting) FROM visits", "1:8", "VAR_POP and STDDEV_POP are published"),
    ("SELECT SUM(DISTINCT waiting) FROM visits", "1:8", "DISTINCT stands in COUNT"),
    ("SELECT ARRAY_AGG(waiting) FROM visits", "1:8", "values of single rows"),
    ("SELECT APPROX_COUNT_DISTINCT(clinic) FROM visits", "1:8", "COUNT(DISTINCT x) is published"),
    ("SELECT BIT_XOR(age) FROM visits", "1:8", "not in the subset"),
    ("SELECT my_sum(age) FROM visits", "1:8", ""),
    ("SELECT SUM(my_function(age)) FROM visits", "1:12", "is not in the language"),
    ("SELECT SUM(x) FROM visits", "1:8", "needs the public range of 'x'"),
    ("SELECT SUM(3) FROM visits", "1:12", "a constant needs no answer"),
    ("SELECT COUNT(*) FROM visits, other", "1:", ""),
    ("SELECT COUNT(*) FROM visits JOIN other ON visits.a = other.b", "1:34", "the base plan joins no table 'other'"),
    ("SELECT COUNT(*) FROM read_csv('secret.csv')", "1:22", "files and functions are not read"),
    ("SELECT COUNT(*) FROM '/etc/passwd'", "1:22", "files and functions are not read"),
    ("SELECT COUNT(*) FROM 'visits'", "1:22", "files and functions are not read"),
    ("SELECT COUNT(*) FROM main.'visits'", "1:", "files and functions are not read"),
    *(
        (f"SELECT COUNT(*) FROM {each}", "1:22", "the name of a file, which is not read")
        for each in ('"/etc/passwd"', '"y.csv"', "y.parquet", '"a\\b"')
    ),
    ("SELECT COUNT(*) FROM visits JOIN 'y.csv' y ON visits.a = y.b", "1:34", "files and functions are not read"),
    ("WITH p AS (SELECT person FROM 'visits' GROUP BY person) SELECT COUNT(*) FROM p", "1:31", "files and functions"),
    ("WITH p AS (SELECT person FROM visits GROUP BY person) SELECT COUNT(*) FROM 'p'", "1:76", "files and functions"),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits)", "1:", ""),
    ("SELECT COUNT(*) FROM visits WHERE age IN (SELECT age FROM t)", "1:", ""),
    ("SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1)", "1:", "a query inside another one"),
    ("SELECT (SELECT 1)", "1:", ""),
    ("SELECT COUNT(*) FROM visits WHERE age = NULL", "1:35", "IS NULL"),
    ("SELECT COUNT(*) FROM visits WHERE UPPER(clinic) = 'X'", "1:35", "compare with each spelling"),
    ("SELECT COUNT(*) FROM visits WHERE clinic LIKE 'a_b'", "1:35", "LIKE takes"),
    ("SELECT COUNT(*) FROM visits WHERE clinic ILIKE 'a%'", "1:35", "LIKE compares"),
    ("SELECT COUNT(*) FROM visits WHERE RANDOM() < 0.5", "1:", "must follow from its row"),
    ("SELECT COUNT(*) FROM visits WHERE age % 2 = 1", "1:35", "sign of a remainder"),
    ("SELECT COUNT(*) FROM visits WHERE age = ?", "1:", "a parameter must be written out"),
    ("SELECT COUNT(*) FROM visits WHERE COUNT(*) > 3", "1:35", "an aggregate stands alone"),
    ("SELECT COUNT(*) FROM visits WHERE visit.age = 3", "1:35", "no table 'visit'"),
    ("SELECT COUNT(*) FROM visits HAVING SUM(cost) > 3", "1:36", "is not in SELECT"),
    ("SELECT COUNT(*) AS n FROM visits HAVING n > '10'", "1:41", "texts have no order here; write a number without"),
    ("SELECT COUNT(*) AS n FROM visits HAVING n = '10'", "1:41", "compares a number with a text"),
    ("SELECT COUNT(*) AS n FROM visits HAVING n / 2 IN (1, '10')", "1:", "compares a number with a text"),
    ("SELECT MONTH(day) AS m, COUNT(*) FROM visits GROUP BY m HAVING m > '10'", "1:64", "texts have no order here"),
    ("SELECT clinic, band, COUNT(*) FROM visits GROUP BY 1, 2 HAVING clinic < band", "1:64", "texts have no order"),
    ("SELECT COUNT(*) FROM visits ORDER BY SUM(cost)", "1:38", "is not in SELECT"),
    ("SELECT COUNT(*) FROM visits ORDER BY 3", "1:38", "1 to 1"),
    ("SELECT COUNT(*) FROM visits LIMIT age", "1:", "whole number"),
    ("SELECT COUNT(*) FROM visits LIMIT 5 OFFSET 2", "1:", "OFFSET is not in the subset"),
    ("SELECT clinic, COUNT(*) FROM visits GROUP BY ROLLUP (clinic)", "1:", "crosstab"),
    ("SELECT COUNT(*) FROM visits GROUP BY GROUPING SETS ((clinic))", "1:", "grouping"),
    ("SELECT COUNT(*) FROM visits GROUP BY 3", "1:38", "1 to 1"),
    ("SELECT COUNT(*) FROM visits GROUP BY COUNT(*)", "1:38", "does not make groups"),
    ("SELECT COUNT(*) FROM visits QUALIFY 1 = 1", "1:", "QUALIFY is not in the subset"),
    ("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", "1:", ""),
    ("SELECT clinic, COUNT(*) FROM visits PIVOT (SUM(x) FOR y IN (1))", "1:", ""),
    ("SELECT 1", "1:", "names no table"),
    ("SELECT 1 FROM visits", "1:", "asks for no aggregate"),
    ("SELECT COUNT(*) INTO t FROM visits", "1:", ""),
    ("SELECT PERCENTILE_CONT(1.5) WITHIN GROUP (ORDER BY age) FROM visits", "1:", "between 0 and 1"),
    ("WITH p AS (SELECT * FROM visits) SELECT COUNT(*) FROM p", "1:", "one row per unit"),
    ("WITH p AS (SELECT person FROM visits GROUP BY person), q AS (SELECT 1) SELECT COUNT(*) FROM p", "1:", "one CTE"),
    ("WITH p AS (SELECT clinic FROM visits GROUP BY clinic) SELECT COUNT(*) FROM p", "1:", "one row per unit"),
    ("WITH RECURSIVE p AS (SELECT 1) SELECT COUNT(*) FROM p", "1:", ""),
    ("SELECT COUNT(*)\nFROM visits\nWHERE UPPER(clinic) = 'A'", "3:7", "compare with each spelling"),
]


def test_one_row_a_unit_takes_no_bounds_of_the_base_plan_and_says_so():
    found = asked("WITH p AS (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) SELECT COUNT(*) FROM p")
    assert (found.plan.unit.rows, found.plan.unit.groups) == (1, 1)
    words = "one row per unit needs no contribution bounds: those of the base plan are left out (rows, groups)"
    assert words in found.notes
    whole = asked('SELECT COUNT(*) FROM "visits"')
    assert (whole.plan.unit.rows, whole.plan.unit.groups) == (2, 3)


def test_the_range_of_what_the_text_makes_of_a_unit_is_asked_for_in_the_text():
    with pytest.raises(PlanError, match=r"public range of 's': state it here, as LEAST\(GREATEST\(s, 0\), 100\)"):
        asked("WITH p AS (SELECT person, SUM(cost) AS s FROM visits GROUP BY person) SELECT AVG(s) FROM p")
    found = asked(
        "WITH p AS (SELECT person, SUM(cost) AS s FROM visits GROUP BY person) "
        "SELECT AVG(LEAST(GREATEST(s, 0), 100)) FROM p"
    )
    assert found.plan.query[0].range == (0.0, 100.0)


@pytest.mark.parametrize(("text", "place", "words"), REFUSED, ids=[each[0] or "empty" for each in REFUSED])
def test_everything_else_is_refused_at_its_place(text, place, words):
    with pytest.raises(PlanError) as error:
        asked(text)
    message = str(error.value)
    assert message.startswith(f"sql:{place}"), message
    assert words in message
    assert error.value.field == "sql"


def test_the_table_is_the_one_of_the_base():
    for source, good in (({"path": "data/visits.csv"}, "visits"), ({"path": "x.duckdb", "table": "stays"}, "stays")):
        assert asked(f"SELECT COUNT(*) FROM {good}", {**BASE, "source": source}).plan.source.path
        with pytest.raises(PlanError, match=f"is not the table of the base plan; write FROM {good}"):
            asked("SELECT COUNT(*) FROM patients", {**BASE, "source": source})
    base = {**BASE, "source": {"postgres": "postgresql://host/clinic", "table": "public.stays"}}
    assert [asked(f"SELECT COUNT(*) FROM {each}", base).plan.source.table for each in ("stays", "PUBLIC.stays")]
    with pytest.raises(PlanError, match=r"is not the table of the base plan; write FROM public\.stays"):
        asked("SELECT COUNT(*) FROM hr.stays", base)


def test_a_fault_of_the_base_is_one_of_the_base():
    with pytest.raises(PlanError) as error:
        asked("SELECT COUNT(*) FROM t", {**BASE, "budget": {"epsilon": -1}})
    assert error.value.field == "budget.epsilon"
    with pytest.raises(PlanError, match="to select the keys of 'age' privately"):
        asked("SELECT COUNT(*) FROM t GROUP BY age", {**BASE, "budget": {"epsilon": 1.0}})


JOINED = {**BASE, "join": [{"table": "regions", "public": True, "on": {"area": "code"}, "columns": {"label": "name"}}]}


VARIANTS = ["area = code", "code = area", "v.area = code", "code = v.area", "r.code = area", "v.area = r.code"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT r.name, COUNT(*) AS n FROM visits v LEFT JOIN regions r ON v.area = r.code GROUP BY r.name",
        "SELECT label, COUNT(*) AS n FROM visits GROUP BY label",
        *(f"SELECT label, COUNT(*) FROM visits v LEFT OUTER JOIN regions r ON {on} GROUP BY label" for on in VARIANTS),
    ],
)
@pytest.mark.parametrize("columns", [(), ("area", "person", "cost", "waiting", "age", "day")])
def test_a_join_is_the_one_that_the_base_declares(text, columns):
    found = asked(text, JOINED, columns=columns).plan
    assert (found.join[0].table, found.join[0].on, found.query[0].by) == ("regions", {"area": "code"}, ("label",))


def test_a_join_that_is_neither_named_nor_used_is_left_out():
    assert not asked("SELECT COUNT(*) AS n FROM visits", JOINED).plan.join
    named = asked("SELECT COUNT(*) AS n FROM visits v LEFT JOIN regions r ON v.area = r.code", JOINED).plan
    assert named.join[0].table == "regions"


@pytest.mark.parametrize("name", ["label", "odd label", "name"])
def test_a_joined_column_that_an_expression_alone_uses_is_joined(name):
    join = {**JOINED["join"][0], "columns": {name: "theirs"}}
    used = asked(f"SELECT COUNT(*) FROM visits WHERE \"{name}\" = 'a'", {**BASE, "join": [join]}).plan
    assert used.join == (Join(**join),)
    assert not asked("SELECT COUNT(*) FROM visits WHERE area + age > 1", {**BASE, "join": [join]}).plan.join


@pytest.mark.parametrize(
    ("join", "words"),
    [
        ("JOIN regions r ON v.area = r.code", 'how = "left"; write LEFT JOIN, or how = "inner" in the base plan'),
        ("LEFT JOIN regions r ON v.area = r.name", "on area = code"),
        ("LEFT JOIN regions r ON v.area < r.code", "columns that are equal"),
        ("LEFT JOIN regions r USING (code)", "USING is not in the subset"),
        ("CROSS JOIN regions r", 'how = "left"'),
        ("FULL JOIN regions r ON v.area = r.code", 'how = "left"'),
        ("LEFT JOIN prices r ON v.area = r.code", "the base plan joins no table 'prices'"),
        *(
            (f"LEFT JOIN regions r ON {on}", "joins this table on area = code")  # both have them: not guessed
            for on in ("area = code", "code = area", "code = r.code", "area = area", "code = code")
        ),
    ],
)
def test_other_joins_are_refused(join, words):
    with pytest.raises(PlanError) as error:
        asked(f"SELECT COUNT(*) FROM visits v {join}", JOINED, columns=["area", "code", "person"])
    assert words in str(error.value)
    with pytest.raises(PlanError, match="join has no column 'price'"):
        asked("SELECT r.price, COUNT(*) FROM visits v LEFT JOIN regions r ON v.area = r.code GROUP BY 1", JOINED)
