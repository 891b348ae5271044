import datetime
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot.dialects import DuckDB

from rangebound.release.plan.expressions.functions import FUNCTIONS, REFUSED
from rangebound.release.plan.expressions.nodes import (
    DEEPEST,
    LONGEST,
    Call,
    Constant,
    Named,
    UnitCall,
    call,
    columns_of,
    constant,
)
from rangebound.release.plan.expressions.reading import read, read_call
from rangebound.release.plan.expressions.typed import typed

FORMER = "ignore:.* is an expression of version 0.2:DeprecationWarning"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a AND (b and c)", "a AND b AND c"),
        ("(a or b) AND c", "(a OR b) AND c"),
        ("a - (b - c)", "a - (b - c)"),
        ("-(5)", "-5"),
        ("- -x", "-(-x)"),
        ("-(a + b) * 2", "-(a + b) * 2"),
        ("(a = b) = c", "(a = b) = c"),
        ("NOT a = b", "NOT a = b"),
        ("NOT (-x > 3)", "NOT -x > 3"),
        ("(NOT a) = b", "(NOT a) = b"),
        ("x IN (1, 2)", "x IN (1, 2)"),
        ("NOT x IN ('a')", "x NOT IN ('a')"),
        ("NOT (x IN ('a'))", "NOT (x IN ('a'))"),
        ("NOT x IS NULL", "x IS NOT NULL"),
        ("(a = b) IS NULL", "(a = b) IS NULL"),
        ("x BETWEEN 1 AND 3 AND b", "x >= 1 AND x <= 3 AND b"),
        ("CASE WHEN c THEN x ELSE y END", "CASE WHEN c THEN x ELSE y END"),
        ("CASE x WHEN 1 THEN 2 END", "CASE WHEN x = 1 THEN 2 END"),
        ("IF(c, x, y)", "CASE WHEN c THEN x ELSE y END"),
        ("NULLIF(x, 0)", "CASE WHEN x <> 0 THEN x END"),
        ("x LIKE 'a%' OR x LIKE '%b%'", "STARTS_WITH(x, 'a') OR CONTAINS(x, 'b')"),
        ("x NOT LIKE '%a' AND NOT x LIKE 'a'", "NOT ENDS_WITH(x, 'a') AND NOT x = 'a'"),
        ("EXTRACT(ISODOW FROM d) + quarter(d)", "ISODOW(d) + QUARTER(d)"),
        ("x::DOUBLE + number(y)", "CAST(x AS DOUBLE) + CAST(y AS DOUBLE)"),
        ("CAST('2025-01-31' AS DATE)", "DATE '2025-01-31'"),
        ("day >= '2025-01-31'", "day >= DATE '2025-01-31'"),
        ("x = 'it''s'", "x = 'it''s'"),
        ('"odd name" + "class" + "select" + "plain"', '"odd name" + class + "select" + plain'),
        ("größe > 1", "größe > 1"),
        ("1e22 + 0.1", "1e+22 + 0.1"),
        ("a +\n  b", "a + b"),
        ("+a", "a"),
    ],
)
def test_an_expression_is_written_in_one_form_that_reads_as_itself(text, written):
    assert str(read(text)) == written
    assert read(written) == read(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("count(*)", "COUNT(*)"),
        ("COUNT(x)", "COUNT(*) FILTER (WHERE x IS NOT NULL)"),
        ("SUM(x) FILTER (WHERE a)", "SUM(CASE WHEN a THEN x END)"),
        ("MAX(a = b)", "BOOL_OR(a = b)"),
        ("COUNT(DISTINCT x)", "COUNT(DISTINCT x)"),
        ("ARG_MAX(x, d)", "ARG_MAX(x, d)"),
    ],
)
def test_a_function_of_a_units_rows_is_written_in_one_form(text, written):
    assert str(read_call(text)) == written
    assert read_call(written) == read_call(text)


WORDS = sorted({each for each in DuckDB.tokenizer_class.KEYWORDS if each.replace("_", "").isalpha()})


@pytest.mark.few(1)
@pytest.mark.parametrize("written", ["{} + 1", "NOT {}", "CASE WHEN {} THEN {} END", "COALESCE({}, 1)", "{} IN ('a')"])
def test_a_column_may_have_any_word_of_sql_for_its_name(written):
    for word in WORDS:
        for name in (word, word.lower()):
            tree = read(written.replace("{}", f'"{name}"'))
            assert columns_of(tree) == (name,)
            assert read(str(tree)) == tree, name


@st.composite
def trees(draw, depth=4):
    """Any tree that our constructors can make of as many arguments as a function takes, well typed or not."""
    leaf = st.one_of(
        st.builds(Named, st.text(min_size=1, max_size=5).filter(lambda name: "\0" not in name and name.isprintable())),
        st.builds(constant, st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)),
        st.builds(constant, st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
        st.builds(constant, st.booleans()),
        st.builds(constant, st.dates(min_value=datetime.date(1, 1, 1))),
    )
    if depth == 0 or draw(st.booleans()):
        return draw(leaf)
    name = draw(st.sampled_from(sorted(FUNCTIONS)))
    if name in ("in", "not in"):
        listed = draw(st.lists(st.booleans().map(constant), min_size=1, max_size=2))
        return call(name, draw(trees(depth=depth - 1)), *listed)
    counts = [each for each in range(1, 4) if any(one.types(each) for one in FUNCTIONS[name].signatures)]
    found = call(name, *(draw(trees(depth=depth - 1)) for _ in range(draw(st.sampled_from(counts)))))
    lone = isinstance(found, Call) and name == "date" and isinstance(found.arguments[0], Constant)
    return Named("a") if lone else found


def orders_a_text(tree):
    """Whether a text is compared by order, which has no type that fits: a day is taken for a date there."""
    return isinstance(tree, Call) and (
        (tree.function[0] in "<>" and any(isinstance(each, Constant) for each in tree.arguments))
        or any(map(orders_a_text, tree.arguments))
    )


@given(trees().filter(lambda tree: not orders_a_text(tree)))
@settings(max_examples=30, deadline=None)
def test_every_tree_reads_as_it_is_written(tree):
    assert read(str(tree)) == tree
    step = UnitCall("count", (tree,))
    assert read_call(str(step)) == step


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must not be empty"),
        ("a.b", '"a.b"'),
        ("a ** 2", "x * x"),
        ("a & b", "not in the subset"),
        ("x = NULL", "IS NULL"),
        ("a[0]", 'is written "a[1]"'),
        ("lambda: 1", "not valid SQL"),
        ("a in b", "x IN ('a', 'b')"),
        ("a IN (b)", "a list of constants"),
        ("x.lower()", "not in the subset"),
        ("__import__('os').system('x')", "not in the subset"),
        ("eval('1')", "not in the language"),
        ("flor(x)", "did you mean 'FLOOR'"),
        ("clip(x)", "takes CLIP(x, lower, upper)"),
        ("DATE '2025-02-30'", "a date is written"),
        ("DATE '20250131'", "a date is written"),
        ("1e999", "1.8e308"),
        ("9007199254740993", "exactly"),
        ("a) or (b", "not valid SQL"),
        ("a b", "not valid SQL"),
        ("a = 1; b", "one expression"),
        ("a = 1 /* of b */", "a comment"),
        ("a < b = c", "do not chain"),
        ("SUM(x) > 3", "an aggregate stands alone"),
        ("x = (SELECT 1)", "a query inside another one"),
        ("a || b", "not put together"),
        ("ROUND(x, 2)", "DECIMALS is not in the subset"),
        ("CAST(x AS DECIMAL(10, 2))", "round a number"),
        ("x::NUMERIC", "round a number"),
        ("CAST(x AS REAL)", "round a number"),
        ("CAST(x AS VARCHAR(2))", "must have no length"),
        ("x::CHAR (2)", "must have no length"),
        ("CAST(x AS DOUBLE[])", "is written in parentheses"),
        ("a\0b", "code 0"),
        ("1,2", "not valid SQL"),
        ("x" * (LONGEST + 1), "at most"),
        ("- " * 5000 + "1", "too many parts"),
        ("(" * 4000 + "1" + ")" * 4000, "within each other"),
        ("a+" * 3000 + "a", "levels"),
        ("abs(" * 100 + "a" + ")" * 100, "within each other"),
    ],
)
def test_what_is_not_in_the_language_is_refused_with_the_reason(text, words):
    with pytest.raises(ValueError, match=r".") as caught:
        read(text)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_functions_that_people_look_for_are_refused_by_name(name):
    said = []
    for parts in ("x", "x, y", "x, y, z"):
        with suppress(ValueError):
            read(f"{name.upper()}({parts})")
            pytest.fail(f"{name.upper()}({parts}) is in the language")
        with pytest.raises(ValueError, match=r".") as caught:
            read(f"{name.upper()}({parts})")
        said.append(str(caught.value))
    assert any(each.startswith("`") and "not in the language" not in each for each in said), said


@pytest.mark.filterwarnings(FORMER)
@given(
    st.text(max_size=60) | st.text(alphabet="ab01 ()[]+-*/%<>=!,.'\"\\\nCASE WHEN and OR NOT in IS NULL", max_size=60)
)
@settings(max_examples=150, deadline=None)
def test_any_text_is_an_expression_or_an_error_of_ours(text):
    found = None
    with suppress(ValueError):  # any other error fails
        found = read(text)
    if found is not None and not orders_a_text(found):
        assert read(str(found)) == found
        with suppress(ValueError):
            assert str(typed(found, {})) == str(found)


@pytest.mark.few(2)
@pytest.mark.parametrize("wrap", ["-({})", "ABS({})", "a + ({})", "({} IS NULL)", "CASE WHEN a THEN {} END", "NOT {}"])
def test_the_deepest_expression_can_be_read_typed_and_written(wrap):
    text, deepest = "a", None
    for _ in range(DEEPEST + 3):
        with suppress(ValueError):
            deepest = read(text)
        text = wrap.replace("{}", text)
    assert deepest is not None
    assert read(str(deepest)) == deepest
    with pytest.raises(ValueError, match=r"levels|within each other"):
        read(text)
    sums = read(" + ".join(["a"] * (DEEPEST - 1)))
    assert typed(sums, {}).range == (float("-inf"), float("inf"))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a BETWEEN 18 65", "has its AND"),
        ("a between 0x10 and b", "has its AND"),
        ("a AND b NOT BETWEEN 1 c AND d", "has its AND"),
        ("FLOOR()", "takes"),
        ("1 + ceil()", "takes"),
        ("a ^ - e'x'", "x \\* x"),
    ],
)
def test_what_the_parser_takes_and_sql_does_not_is_refused(text, rule):
    with pytest.raises(ValueError, match=rule):
        read(text)


def test_each_between_has_its_own_and():
    assert str(read("a BETWEEN 1 AND 2 AND b BETWEEN 2 AND c OR (d AND e)")) == (
        "a >= 1 AND a <= 2 AND b >= 2 AND b <= c OR d AND e"
    )


@pytest.mark.parametrize("text", ["a IN (1, -0)", "a = -0", "a > -(0)", "a BETWEEN -0.0 AND 1"])
def test_no_zero_has_a_sign(text):
    assert "-" not in str(read(text))
    assert "-1" in str(read(text.replace("0", "1")))
