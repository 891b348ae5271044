import datetime
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rangebound.release.plan.expressions.functions import FUNCTIONS, REFUSED
from rangebound.release.plan.expressions.nodes import LONGEST, Call, Constant, Named, call, columns_of, constant
from rangebound.release.plan.expressions.reading import DEEPEST, read
from rangebound.release.plan.expressions.typed import typed


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1 < a < 2", "1 < a and a < 2"),
        ("x if c else y", "case(c, x, y)"),
        ("a and (b and c)", "a and b and c"),
        ("(a or b) and c", "(a or b) and c"),
        ("a - (b - c)", "a - (b - c)"),
        ("-(5)", "-5"),
        ("- -x", "--x"),
        ("-(a + b) * 2", "-(a + b) * 2"),
        ("(a == b) == c", "(a == b) == c"),
        ("not a == b", "not a == b"),
        ("(not a) == b", "(not a) == b"),
        ("x in (1, 2)", "x in [1, 2]"),
        ("x not in ['a']", 'x not in ["a"]'),
        ("date('2025-01-31')", 'date("2025-01-31")'),
        ('column("odd name") + column("class")', 'column("odd name") + column("class")'),
        ('column("plain")', "plain"),
        ("größe > 1", "größe > 1"),
        ("1e22 + 0.1", "1e+22 + 0.1"),
        ("a +\n  b  # of both", "a + b"),
        ("+a", "a"),
    ],
)
def test_an_expression_is_written_in_one_form_that_reads_as_itself(text, written):
    assert str(read(text)) == written
    assert read(written) == read(text)


@st.composite
def trees(draw, depth=4):
    """Any tree that our constructors can make, well typed or not."""
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
    two = not name.isidentifier() or name in ("and", "or")
    count = 1 if name in ("-x", "not") else 2 if two else draw(st.integers(1, 3))
    found = call(name, *(draw(trees(depth=depth - 1)) for _ in range(count)))
    lone = isinstance(found, Call) and name == "date" and len(found.arguments) == 1
    return Named("a") if lone and isinstance(found.arguments[0], Constant) else found


@pytest.mark.slow
@given(trees())
@settings(max_examples=80, deadline=None)
def test_every_tree_reads_as_it_is_written(tree):
    assert read(str(tree)) == tree


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must not be empty"),
        ("a.b", 'column("a.b")'),
        ("a ** 2", "x * x"),
        ("a & b", "write `and`"),
        ("a | b", "write `or`"),
        ("~a", "write `not`"),
        ("a = 3", "written =="),
        ("a <> 3", "written !="),
        ("a && b", "write `and`"),
        ("x is None", "missing(x)"),
        ("x == None", "missing(x)"),
        ("class > 3", 'column("class")'),
        ("a[0]", "square brackets"),
        ("lambda: 1", "lambda"),
        ("f'{a}'", "f-string"),
        ("[a for a in b]", "not in the language"),
        ("a in b", "a list of constants"),
        ("a in [b]", "must hold constants"),
        ("a in []", "at least one"),
        ("x.lower()", "by its name"),
        ("__import__('os').system('x')", "by its name"),
        ("eval('1')", "not in the language"),
        ("flor(x)", "did you mean"),
        ("min(x, key=y)", "by their order"),
        ("date('2025-02-30')", "a date is written"),
        ("date('20250131')", "a date is written"),
        ("1e999", "finite"),
        ("9007199254740993", "exactly"),
        ("1j", "must be a number"),
        ("column(a)", "as a text"),
        ("a) or (b", "parentheses"),
        ("a b", "a column 'a b' is written column(\"a b\")"),
        ("Ship Mode == 'x'", 'column("Ship Mode")'),
        ("a == 'b c' and", "not a valid expression (invalid syntax)"),
        ("a > 3 AND b < 3", "lower case"),
        ("if(a > 3, 1, 2)", "case("),
        ("CASE WHEN a > 3 THEN 1 END", "case("),
        ("a IS NOT NULL", "missing(x)"),
        ("a BETWEEN 1 AND 3", "18 <= age <= 65"),
        ("1if a else 2", "not a valid expression"),
        (r'"\d" == a', "escape"),
        (r'"\ud800" == a', "Unicode"),
        ("ﬁ > 3", 'column("ﬁ")'),
        ("a\0b", "code 0"),
        ("1,2", "comma"),
        ("x" * (LONGEST + 1), "at most"),
        ("-" * 5000 + "1", "levels"),
        ("(" * 4000 + "1" + ")" * 4000, "expression"),
        ("a+" * 3000 + "a", "levels"),
        ("abs(" * 100 + "a" + ")" * 100, "levels"),
    ],
)
def test_what_is_not_in_the_language_is_refused_with_the_reason(text, words):
    with pytest.raises(ValueError, match=r".") as caught:
        read(text)
    said = str(caught.value)
    assert words in said or "too many parts" in said or "levels" in said
    assert len(said) < 600


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_functions_that_people_look_for_are_refused_by_name(name):
    with pytest.raises(ValueError, match=r".") as caught:
        read(f"{name}(x)")
    assert str(caught.value).startswith(f"{name}(...) is not in the language: ")
    assert name not in FUNCTIONS


@given(st.text(max_size=60) | st.text(alphabet="ab01 ()[]+-*/%<>=!,.'\"\\\nif else and or not in date(", max_size=60))
@settings(max_examples=400, deadline=None)
def test_any_text_is_an_expression_or_an_error_of_ours(text):
    found = None
    with suppress(ValueError):  # any other error fails
        found = read(text)
    if found is not None:
        assert read(str(found)) == found
        with suppress(ValueError):
            assert str(typed(found, {})) == str(found)


def test_the_deepest_expression_can_be_read_typed_and_written():
    found = read(" + ".join(["a"] * (DEEPEST - 1)))
    assert columns_of(found) == ("a",)
    assert read(str(found)) == found
    assert typed(found, {}).range == (float("-inf"), float("inf"))


@pytest.mark.parametrize("leaf", [Named("a"), Named("odd name"), constant(-1), constant(datetime.date(2025, 1, 31))])
@pytest.mark.parametrize("wrap", ["-x", "not", "abs", "+", "in", "case"])
def test_a_tree_is_taken_where_its_text_is(leaf, wrap):
    def taken(value):
        try:
            return read(value)
        except ValueError:
            return None

    tree, more = leaf, [constant(2)] if wrap in ("+", "in", "case") else []
    found = []
    for _ in range(DEEPEST + 3):
        assert taken(tree) == taken(str(tree))
        found.append(taken(tree) is None)
        tree = call(wrap, tree, *more)
    folded = wrap == "-x" and leaf == constant(-1)
    assert (found[0], found[-1]) == (False, not folded)  # both sides of the limit are met
