"""Whatever the text is: a plan of the plan's own language alone, or a refusal with a place. Never another exception."""

import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from rangebound.errors import PlanError
from rangebound.release import parse_plan
from rangebound.release.engine.duckdb import DUCKDB
from rangebound.release.plan.asking.translation import translate
from rangebound.release.plan.expressions.functions import FUNCTIONS
from rangebound.release.plan.expressions.nodes import Call, columns_of
from rangebound.release.plan.expressions.reading import read
from rangebound.release.plan.kinds import written_kinds
from rangebound.release.plan.table_schema import Family
from rangebound.release.sql.aggregate import statements
from tests.release.plan.asking.test_translation import BASE, CONDITIONS, MADE, QUESTIONS, REFUSED
from tests.release.plans import SALT

PIECES = [
    *["SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "WITH p AS", "UNION ALL", "JOIN", "ON"],
    *["COUNT(*)", "AVG(waiting)", "SUM(", "MIN(", "CASE WHEN", "THEN", "ELSE", "END", "DISTINCT", "OVER ()", "FILTER"],
    *["visits", "clinic", "age", "person", '"clinic"', "v.age", "*", "1", "0.5", "'x'", "'it''s'", "NULL", "TRUE"],
    *["(", ")", ",", ";", "=", "<", ">=", "+", "-", "/", "%", "||", "::", "::INT", ".", "AND", "OR", "NOT", "IN", "AS"],
    *["--", "/*", "*/", "\\", "'", '"', "`", "$$", "$1", "?", ":x", "@x", "[", "]", "{", "}", "\n", "\x00", "\u202e"],
    *["read_csv('/etc/passwd')", "ATTACH 'x' AS y", "COPY t TO 'x'", "PRAGMA x", "DROP TABLE visits", "INSTALL httpfs"],
    *[
        "caf\u00e9",
        "\u540d\u524d",
        "\U0001f600",
        "E'\\x41'",
        "X'41'",
        "DATE '2025-01-01'",
        "INTERVAL 1 DAY",
        "LIKE 'a%'",
    ],
    *[
        "PIVOT",
        "UNNEST([1])",
        "LATERAL",
        "TABLESAMPLE 1%",
        "QUALIFY",
        "VALUES (1)",
        "EXISTS (SELECT 1)",
        "COLUMNS('.*')",
    ],
    *["LEAST(GREATEST(x, 0), 9)", "COALESCE(", "EXTRACT(YEAR FROM day)", "CAST(", "AS INT)", "lambda x: x", "x -> x"],
]
VALID = [
    *(f"SELECT clinic, {each[0]} FROM visits GROUP BY clinic" for each in [*QUESTIONS, *MADE]),
    *(f"SELECT COUNT(*) FROM visits WHERE {each[0]}" for each in CONDITIONS),
    *(each[0] for each in REFUSED),
    "WITH p AS (SELECT person, SUM(cost) AS c FROM visits GROUP BY person) SELECT AVG(LEAST(GREATEST(c, 0), 9)) FROM p",
]
_KINDS = set(written_kinds())


def functions_of(node):
    """All functions of an expression."""
    if isinstance(node, Call):
        yield node.function
        for each in node.arguments:
            yield from functions_of(each)


def check(text):
    """A plan that is whole and has known constructs alone, or a refusal; True for a plan."""
    refused = None
    try:
        plan = translate(text, BASE).plan
    except PlanError as error:
        refused = error
    if refused is not None:
        assert refused.field == "sql" or not refused.field.startswith("query"), refused
        return False
    assert parse_plan(plan.to_toml()) == plan
    data = plan.model_dump(by_alias=True, exclude_none=True)
    assert {each["kind"] for each in data["query"]} <= _KINDS
    for value in [each.get("value") for each in data["columns"].values()] + [
        each.column[2:] for query in plan.query for each in query.conditions if each.column.startswith("= ")
    ]:
        if value is not None:
            tree = read(value)
            assert set(functions_of(tree)) <= set(FUNCTIONS)
            assert all(len(name) <= 200 for name in columns_of(tree))
            assert str(tree) == str(read(str(tree)))
    return True


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join))
def test_random_pieces_are_refused_or_become_plans(text):
    check(text)
    check(f"SELECT COUNT(*) FROM visits WHERE {text}")
    check(f"SELECT {text} FROM visits")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
def test_random_texts_are_refused_or_become_plans(text):
    check(text)
    check(f"SELECT COUNT(*) FROM visits WHERE clinic = '{text}'")
    check(f'SELECT COUNT(*) AS "{text}" FROM visits WHERE "{text}" = 1')


@pytest.mark.slow
def test_valid_texts_with_a_few_changes_are_refused_or_become_plans():
    source, plans = random.Random(5), 0
    for _ in range(1500):
        text = source.choice(VALID)
        for _ in range(source.randint(1, 3)):
            at = source.randrange(len(text) + 1)
            change = source.choice(["insert", "cut", "swap"])
            piece = source.choice(PIECES)
            text = text[:at] + (f" {piece} " if change == "insert" else "") + text[at + (change == "cut") :]
            if change == "swap":
                words = re.split(r"(\W+)", text)
                one, other = source.randrange(len(words)), source.randrange(len(words))
                words[one], words[other] = words[other], words[one]
                text = "".join(words)
        plans += check(text)
    assert 30 < plans < 1400  # both happen


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 5000 + "1",
        "SELECT COUNT(*) FROM t WHERE " + "NOT " * 2000 + "a",
        "SELECT COUNT(*) FROM t WHERE " + " AND ".join(["a = 1"] * 1200),
        "SELECT COUNT(*) FROM t WHERE " + "+".join("x" * 3000) + " > 1",
        "SELECT " + "CASE WHEN a THEN " * 400,
        "SELECT COUNT(*) FROM t WHERE " + "NULLIF(" * 38 + "x" + ", 1)" * 38 + " > 1",
        "SELECT COUNT(*) FROM t WHERE " + "(" * 38 + "x" + " BETWEEN 1 AND 2)" * 38,
        "SELECT " + ",".join(f"COUNT(*) FILTER (WHERE a = {at})" for at in range(300)) + " FROM t",
        "SELECT COUNT(*) FROM t WHERE a IN (" + ",".join(map(str, range(2500))) + ")",
        "SELECT " + "-" * 9000 + "1 FROM t",
        "SELECT " + "- " * 3000 + "COUNT(*) FROM t",
        "x" * 10_001,
    ],
    ids=lambda each: each[:30],
)
def test_long_and_deep_texts_end_soon(text):
    start = time.process_time()
    check(text)
    assert time.process_time() - start < 20.0


def test_no_text_of_a_select_is_in_a_statement():
    """What the engine runs follows from the plan: the same in other words gives the same statements."""

    def run(text):
        plan = translate(text, BASE).plan
        schema = dict.fromkeys(("clinic", "person"), Family.TEXT) | {"waiting": Family.NUMBER, "age": Family.INTEGER}
        found = statements(plan, schema, SALT, source=exp.to_table("s"), dialect=DUCKDB, also=())
        return [each.tree.sql("duckdb") for each in found]

    one = run("SELECT clinic, AVG(waiting) AS w FROM visits WHERE age >= 18 /* secret_marker */ GROUP BY clinic")
    other = run('SELECT "clinic", avg("waiting") w FROM other_table o WHERE (o.age) >= 18.0 GROUP BY 1 ORDER BY 2')
    assert one == other
    assert not any("secret_marker" in each or "visits" in each for each in one)
