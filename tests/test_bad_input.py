"""Bad input: every argument of every public name gives one clear error of ours, at once, with its name and its value.

Never a hang, never a NaN, never a silent repair, and never an error of NumPy, flint or the interpreter.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rangebound as rb
from rangebound.errors import ArgumentError, ArgumentTypeError, CertificateInvalid, RangeboundError
from tests.numbers_given import BAD_ARRAYS, KINDS

INF, NAN = math.inf, math.nan
LINE = rb.Interval(-INF, INF)
QUERY = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
MECHANISM = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=QUERY)
OTHER = rb.Mechanism(noise=rb.Laplace(scale=3.0), query=QUERY)
LAW = MECHANISM.law(3.0)
BATCH = MECHANISM.law([1.0, 2.0, 3.0])
CERTIFICATE = rb.certify(MECHANISM, epsilon=2.0)
HALF = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
PUBLISHED = rb.VariableScaleLaplace(query=HALF, epsilon=1.0)


def refusal(call: Callable[..., Any], *values: Any) -> RangeboundError:
    """The error that a call with bad input ends in: ours, also a builtin, and only one."""
    with pytest.raises(RangeboundError) as caught:
        call(*values)
    error = caught.value
    assert isinstance(error, (ValueError, TypeError))
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    assert len(str(error)) < 1000
    return error


def says(error: RangeboundError, names: tuple[str, ...], value: Any) -> bool:
    """Whether a message names one of the arguments and shows the value, as given or as a double."""
    looks = {repr(value)[:40]}
    if isinstance(value, (int, float, np.integer, np.floating)):
        looks |= {repr(float(value)), str(float(value))}
    message = str(error)
    if set(names) <= PRIVATE:
        return named(error, names) and not any(len(look) > 6 and look in message for look in looks)
    return named(error, names) and any(look in message for look in looks)


TRUE_ANSWER = ("answer",)
PRIVATE = {"answer", "location"}  # private, so that a message names them and never shows them


def named(error: Exception, names: tuple[str, ...]) -> bool:
    """Whether the message has the name of the argument, and not its value if that is a true answer."""
    if set(names) <= PRIVATE:
        return any(str(error).startswith((f"{name}: ", f"{name} of type ")) for name in {"answer", *names})
    return any(f"{name}=" in str(error) for name in names)


class Argument(NamedTuple):
    """One argument: its names in messages, a call that is right but for it, and numbers that it refuses."""

    names: tuple[str, ...]
    call: Callable[[Any], Any]
    refused: tuple[float, ...] = ()


INFINITIES = (INF, -INF)
NOT_POSITIVE = (*INFINITIES, 0, 0.0, -0.0, -5e-324, -1, -1e300, np.float32(-1), np.int8(0))
NEGATIVE = (*INFINITIES, -5e-324, -1, -1e300, np.float32(-1))
NO_PROBABILITY = (*NEGATIVE, 1, 1.0, 1.5, 1e300, math.nextafter(1.0, 2.0))
NO_ORDER = (-INF, 1, 1.0, 0.5, 0, -1, np.float32(1))

# Every argument that takes one number.
NUMBERS = {
    "Interval.lower": Argument(("lower",), lambda x: rb.Interval(x, 1e308), (INF,)),
    "Interval.upper": Argument(("upper",), lambda x: rb.Interval(-1e308, x), (-INF,)),
    "Grid.step": Argument(("step",), lambda x: rb.Grid(step=x, within=rb.Interval(0, 10)), NOT_POSITIVE),
    "Union.span": Argument(("spans", "span", "lower"), lambda x: rb.Union((0, 1), (x, 1e308)), (INF, -INF, 1, 0.5)),
    "Union.excluding": Argument(("gap", "lower", "upper"), lambda x: rb.Union.excluding((-1e308, x)), (-INF,)),
    "Laplace.scale": Argument(("scale",), lambda x: rb.Laplace(scale=x), NOT_POSITIVE),
    "Gaussian.scale": Argument(("scale",), lambda x: rb.Gaussian(scale=x), NOT_POSITIVE),
    "TruncatedLaplacian.scale": Argument(("scale",), lambda x: rb.TruncatedLaplacian(scale=x, limit=1.0), NOT_POSITIVE),
    "TruncatedLaplacian.limit": Argument(
        ("limit",), lambda x: rb.TruncatedLaplacian(scale=1.0, limit=x), (*NOT_POSITIVE, 1e-300)
    ),
    "Query.sensitivity": Argument(("sensitivity",), lambda x: rb.Query(range=LINE, sensitivity=x), NOT_POSITIVE),
    "Mechanism.epsilon": Argument(("delta",), MECHANISM.epsilon, NO_PROBABILITY),
    "Mechanism.delta": Argument(("epsilon",), MECHANISM.delta, NEGATIVE),
    "Mechanism.rdp": Argument(("alpha",), MECHANISM.rdp, NO_ORDER),
    "hockey_stick.epsilon": Argument(("epsilon",), lambda x: rb.hockey_stick(LAW, LAW, x), INFINITIES),
    "renyi.alpha": Argument(("alpha",), lambda x: rb.renyi(LAW, LAW, x), NO_ORDER),
    "calibrate.epsilon": Argument(
        ("epsilon",), lambda x: rb.calibrate(noise=rb.Laplace, query=QUERY, epsilon=x), NOT_POSITIVE
    ),
    "calibrate.delta": Argument(
        ("delta",), lambda x: rb.calibrate(noise=rb.Laplace, query=QUERY, epsilon=1.0, delta=x), NO_PROBABILITY
    ),
    "choose.epsilon": Argument(("epsilon",), lambda x: rb.choose(query=QUERY, epsilon=x), NOT_POSITIVE),
    "choose.delta": Argument(("delta",), lambda x: rb.choose(query=QUERY, epsilon=1.0, delta=x), NO_PROBABILITY),
    "choose.at": Argument(("at",), lambda x: rb.choose(query=QUERY, epsilon=1.0, at=x), INFINITIES),
    "VariableScaleLaplace.built_for": Argument(
        ("epsilon",), lambda x: rb.VariableScaleLaplace(query=HALF, epsilon=x), NOT_POSITIVE
    ),
    "VariableScaleLaplace.epsilon": Argument(("delta",), PUBLISHED.epsilon, NO_PROBABILITY),
    "VariableScaleLaplace.delta": Argument(("epsilon",), PUBLISHED.delta, NEGATIVE),
    "certify.epsilon": Argument(("epsilon",), lambda x: rb.certify(MECHANISM, x), NEGATIVE),
    "certify.delta": Argument(("delta",), lambda x: rb.certify(MECHANISM, 1.0, x), NO_PROBABILITY),
}

# Every argument that takes a number or an array of them.
ANSWERS = {
    "Query.clip": Argument(TRUE_ANSWER, QUERY.clip, INFINITIES),
    "Mechanism.law": Argument(TRUE_ANSWER, MECHANISM.law, INFINITIES),
    "Mechanism.error": Argument(TRUE_ANSWER, MECHANISM.error, INFINITIES),
    "Mechanism.fisher": Argument(TRUE_ANSWER, MECHANISM.fisher, INFINITIES),
    "VariableScaleLaplace.scale": Argument(("location", "answer"), PUBLISHED.scale, INFINITIES),
    "VariableScaleLaplace.pdf.x": Argument(("x",), lambda x: PUBLISHED.pdf(x, 1.0)),
    "VariableScaleLaplace.pdf.location": Argument(("location", "answer"), lambda x: PUBLISHED.pdf(1.0, x), INFINITIES),
    "Law.pdf": Argument(("x",), LAW.pdf),
    "Law.log_pdf": Argument(("x",), LAW.log_pdf),
    "Law.cdf": Argument(("x", "upper"), LAW.cdf),
    "Law.sf": Argument(("x", "lower"), LAW.sf),
    "Law.mass.lower": Argument(("lower",), lambda x: LAW.mass(x, 1e308), (INF,)),
    "Law.mass.upper": Argument(("upper",), lambda x: LAW.mass(-1e308, x), (-INF,)),
    "Law.quantile": Argument(("probability",), LAW.quantile, (*INFINITIES, -5e-324, -1, 1.0000000000000002, 2)),
}

# Every argument that takes one of our own objects, a class, a word or a flag.
OBJECTS = {
    "Union.span": Argument(("span",), lambda x: rb.Union(x)),
    "Union.excluding.gap": Argument(("gap",), lambda x: rb.Union.excluding(x)),
    "Union.excluding.within": Argument(("within",), lambda x: rb.Union.excluding((1, 2), within=x)),
    "Grid.within": Argument(("within",), lambda x: rb.Grid(step=1, within=x)),
    "Query.range": Argument(("range",), lambda x: rb.Query(range=x, sensitivity=1.0)),
    "Mechanism.noise": Argument(("noise",), lambda x: rb.Mechanism(noise=x, query=QUERY)),
    "Mechanism.query": Argument(("query",), lambda x: rb.Mechanism(noise=rb.Laplace(scale=1.0), query=x)),
    "Mechanism.support": Argument(
        ("support",), lambda x: rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY, support=x)
    ),
    "Mechanism.bounding": Argument(
        ("bounding",), lambda x: rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY, bounding=x)
    ),
    "Mechanism.from_dict": Argument(("data",), rb.Mechanism.from_dict),
    "Law.noise": Argument(("noise",), lambda x: rb.Law(x, MECHANISM.shape, np.asarray(1.0))),
    "Law.shape": Argument(("shape",), lambda x: rb.Law(rb.Laplace(scale=1.0), x, np.asarray(1.0))),
    "VariableScaleLaplace.query": Argument(("query",), lambda x: rb.VariableScaleLaplace(query=x, epsilon=1.0)),
    "hockey_stick.p": Argument(("p",), lambda x: rb.hockey_stick(x, LAW, 1.0)),
    "hockey_stick.q": Argument(("q",), lambda x: rb.hockey_stick(LAW, x, 1.0)),
    "renyi.p": Argument(("p",), lambda x: rb.renyi(x, LAW, 2.0)),
    "renyi.q": Argument(("q",), lambda x: rb.renyi(LAW, x, 2.0)),
    "calibrate.noise": Argument(("noise",), lambda x: rb.calibrate(noise=x, query=QUERY, epsilon=1.0)),
    "calibrate.query": Argument(("query",), lambda x: rb.calibrate(noise=rb.Laplace, query=x, epsilon=1.0)),
    "calibrate.support": Argument(
        ("support",), lambda x: rb.calibrate(noise=rb.Laplace, query=QUERY, support=x, epsilon=1.0)
    ),
    "calibrate.bounding": Argument(
        ("bounding",), lambda x: rb.calibrate(noise=rb.Laplace, query=QUERY, bounding=x, epsilon=1.0)
    ),
    "calibrate.notion": Argument(
        ("notion",), lambda x: rb.calibrate(noise=rb.Laplace, query=QUERY, epsilon=1.0, notion=x)
    ),
    "choose.query": Argument(("query",), lambda x: rb.choose(query=x, epsilon=1.0)),
    "choose.objective": Argument(("objective",), lambda x: rb.choose(query=QUERY, epsilon=1.0, objective=x)),
    "choose.support": Argument(("support",), lambda x: rb.choose(query=QUERY, epsilon=1.0, support=x)),
    "choose.spikes": Argument(("spikes",), lambda x: rb.choose(query=QUERY, epsilon=1.0, spikes=x)),
    "certify.mechanism": Argument(("mechanism",), lambda x: rb.certify(x, 1.0)),
    "Certificate.mechanism": Argument(
        ("mechanism",), lambda x: rb.Certificate(mechanism=x, claim=rb.Claim(epsilon=2.0), proof=CERTIFICATE.proof)
    ),
    "Certificate.claim": Argument(
        ("claim",), lambda x: rb.Certificate(mechanism=MECHANISM, claim=x, proof=CERTIFICATE.proof)
    ),
    "Certificate.proof": Argument(
        ("proof",), lambda x: rb.Certificate(mechanism=MECHANISM, claim=rb.Claim(epsilon=2.0), proof=x)
    ),
    "Claim.notion": Argument(("notion",), lambda x: rb.Claim(epsilon=1.0, notion=x)),
    "certify.notion": Argument(("notion",), lambda x: rb.certify(MECHANISM, 2.0, notion=x)),
    "verify.text": Argument(("text",), rb.verify),
}


def arguments_of(table: dict[str, Argument]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("argument", table.values(), ids=table.keys())


def nothing_like_a_number(sequences: bool = True) -> st.SearchStrategy[Any]:
    """Values of the wrong type where a number is meant."""
    kinds = [
        st.none(),
        st.booleans(),
        st.booleans().map(np.bool_),
        st.text(max_size=90),
        st.sampled_from(["1", "0.5", "nan", "inf"]),
        st.binary(max_size=9),
        st.complex_numbers(),
        st.decimals(allow_nan=False) | st.just(Decimal("nan")),
        st.fractions(),
        st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
        st.frozensets(st.floats(), max_size=2),
        st.sampled_from([float, object(), rb, np.datetime64("2020-01-01")]),
        st.sampled_from([rb.Laplace(scale=1.0), QUERY, LAW, MECHANISM, rb.TRUNCATE]),
    ]
    if sequences:
        kinds += [
            st.lists(st.floats(), max_size=3),
            st.tuples(st.floats()),
            hnp.arrays(np.float64, hnp.array_shapes(max_dims=2, max_side=3)),
            hnp.arrays(object, 1, elements=st.floats(allow_nan=False)),
        ]
    return st.one_of(kinds)


def refuses_the_type(argument, value):
    """Whether a value is refused as one of the wrong type, by name."""
    error = refusal(argument.call, value)
    return isinstance(error, ArgumentTypeError) and says(error, argument.names, value)


# A value is drawn once and given to every argument: drawing takes longer than asking.
@settings(max_examples=150)
@given(value=nothing_like_a_number())
def test_a_number_of_the_wrong_type_is_refused(value):
    taken = {"Mechanism.rdp"} if isinstance(value, (list, tuple, np.ndarray)) else set()  # orders may be many
    taken |= {"choose.at"} if isinstance(value, str) else {"certify.delta"} if value is None else set()  # left out
    asked = {name: argument for name, argument in NUMBERS.items() if name not in taken}
    assert [name for name, argument in asked.items() if not refuses_the_type(argument, value)] == []


@arguments_of(NUMBERS | ANSWERS)
def test_nan_is_refused(argument):
    for kind in (float, np.float16, np.float32, np.float64, np.longdouble):
        error = refusal(argument.call, kind("nan"))
        assert isinstance(error, ArgumentError)
        assert says(error, argument.names, NAN)


@arguments_of(NUMBERS | ANSWERS)
def test_numbers_that_break_the_rule_are_refused(argument):
    for value in argument.refused:
        error = refusal(argument.call, value)
        assert isinstance(error, ArgumentError)
        assert says(error, argument.names, value)


@pytest.mark.parametrize("digits", [400, 5000], ids="10**{}".format)
def test_an_integer_beyond_every_double_is_refused(digits):
    for argument in (NUMBERS | ANSWERS).values():
        for value in (10**digits, -(10**digits)):
            error = refusal(argument.call, value)
            assert named(error, argument.names)


@pytest.mark.parametrize("unit", ["s", "generic"])
def test_a_duration_is_no_number(unit):
    for argument in (NUMBERS | ANSWERS).values():
        assert isinstance(refusal(argument.call, np.timedelta64(1, unit)), ArgumentTypeError)


@pytest.mark.parametrize("name", ["pdf", "log_pdf", "cdf", "sf"])
def test_a_message_uses_the_name_that_the_caller_knows(name):
    for value in (None, NAN, "1"):
        assert "x=" in str(refusal(getattr(LAW, name), value))


def test_a_message_about_a_location_says_location():
    for value in (None, NAN, "1"):
        assert named(refusal(PUBLISHED.scale, value), ("location",))
        assert named(refusal(PUBLISHED.pdf, 1.0, value), ("location",))


@pytest.mark.parametrize("answers", [rb.Interval(0, 10), LINE, rb.Union((0, 1), (2, INF))], ids=repr)
def test_the_published_mechanism_wants_a_half_line(answers):
    query = rb.Query(range=answers, sensitivity=1.0)
    error = refusal(lambda: rb.VariableScaleLaplace(query=query, epsilon=1.0))
    assert isinstance(error, ArgumentError)
    assert "range=" in str(error)


@settings(max_examples=150)
@given(value=nothing_like_a_number(sequences=False))
def test_an_answer_of_the_wrong_type_is_refused(value):
    assert [name for name, argument in ANSWERS.items() if not refuses_the_type(argument, value)] == []


def test_control_a_number_that_breaks_a_rule_is_not_of_the_wrong_type():
    assert not refuses_the_type(NUMBERS["Laplace.scale"], -1.0)
    assert refuses_the_type(NUMBERS["Laplace.scale"], "1")


@pytest.mark.parametrize("value", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_a_bad_array_of_answers_is_refused(value):
    for argument in ANSWERS.values():
        error = refusal(argument.call, value)
        assert named(error, argument.names)


@pytest.mark.parametrize(
    "value", [v for k, v in BAD_ARRAYS.items() if k != "objects"], ids=[k for k in BAD_ARRAYS if k != "objects"]
)
def test_a_bad_array_of_orders_is_refused(value):
    error = refusal(MECHANISM.rdp, value)
    assert "alpha=" in str(error)


def wrong_objects() -> st.SearchStrategy[Any]:
    """Anything that a caller might pass by mistake where one of our objects is meant."""
    return st.one_of(
        st.integers(-3, 3),
        st.floats(),
        st.text(max_size=90).filter(lambda text: text not in ("dp", "metric", "mae", "mse", "bias")),
        st.binary(max_size=9),
        st.lists(st.integers(), max_size=1),
        st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
        hnp.arrays(np.float64, hnp.array_shapes(max_dims=2, max_side=3)),
        st.sampled_from([np.array("dp"), np.array(["dp"]), np.array(["mae"]), np.array([True]), np.True_]),
        st.sampled_from([object(), float, rb, len, (1.0,), (1.0, 2.0, 3.0), set(), Decimal(1), Fraction(1, 2), 1j]),
        st.sampled_from([rb.Interval, rb.Query, rb.Mechanism, rb.Law]),
    )


@settings(max_examples=150)
@given(value=wrong_objects())
def test_an_object_of_the_wrong_type_is_refused(value):
    asked = {name: each for name, each in OBJECTS.items() if not (name == "verify.text" and isinstance(value, str))}
    assert [name for name, each in asked.items() if not says(refusal(each.call, value), each.names, value)] == []


MAY_BE_NONE = {"Mechanism.support", "calibrate.support", "choose.support", "Union.excluding.within", "certify.notion"}


@pytest.mark.parametrize("name", [name for name in OBJECTS if name not in MAY_BE_NONE])
def test_none_is_refused_where_nothing_is_left_out_by_it(name):
    error = refusal(OBJECTS[name].call, None)
    assert says(error, OBJECTS[name].names, None)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: rb.Mechanism(noise=rb.Laplace, query=QUERY), ("noise",)),
        (lambda: rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Interval(0, 1)), ("query",)),
        (lambda: rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY, support=QUERY), ("support",)),
        (lambda: rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY, bounding="truncate"), ("bounding",)),
        (lambda: rb.Grid(step=1, within=rb.Union((0, 1), (2, 3))), ("within",)),
        (lambda: rb.calibrate(noise=rb.Laplace(scale=1.0), query=QUERY, epsilon=1.0), ("noise",)),
        (lambda: rb.calibrate(noise="laplace", query=QUERY, epsilon=1.0), ("noise",)),
        (lambda: rb.calibrate(noise=rb.Laplace, query=QUERY, epsilon=1.0, notion="DP"), ("notion",)),
        (lambda: rb.calibrate(noise=rb.Laplace, query=QUERY, epsilon=1.0, delta=0.1, notion="metric"), ("delta",)),
        (lambda: rb.choose(query=QUERY, epsilon=1.0, objective="MAE"), ("objective",)),
        (lambda: rb.choose(query=QUERY, epsilon=1.0, at="best"), ("at",)),
        (lambda: rb.hockey_stick(LAW, MECHANISM, 1.0), ("q",)),
        (lambda: rb.hockey_stick(3.0, LAW, 1.0), ("p",)),
        (lambda: rb.certify(rb.certify(MECHANISM, 2.0), 2.0), ("mechanism",)),
        (lambda: rb.verify(CERTIFICATE), ("text",)),
    ],
)
def test_likely_slips_are_refused(call, names):
    error = refusal(call)
    assert any(f"{name}=" in str(error) for name in names)


def test_laws_of_two_mechanisms_are_not_compared():
    for compare, level in ((rb.hockey_stick, 1.0), (rb.renyi, 2.0)):
        error = refusal(compare, LAW, OTHER.law(3.0), level)
        assert isinstance(error, ArgumentError)
        assert "p, q" in str(error)


BAD_SPANS = {
    "empty": (1, 1),
    "reversed": (2, 1),
    "infinite and empty": (INF, INF),
    "infinite and reversed": (INF, -INF),
    "nan": (0, NAN),
    "one end": (1,),
    "three ends": (1, 2, 3),
    "no ends": (),
    "number": 1.0,
    "text": "ab",
    "array": np.array([1.0, 2.0]),
    "ends that are text": ("1", "2"),
    "ends that are flags": (False, True),
    "ends that are pairs": ((0, 1), (2, 3)),
    "None": None,
    "dict": {0: 1, 2: 3},
    "set": {1.0, 2.0},
}


@pytest.mark.parametrize("span", BAD_SPANS.values(), ids=BAD_SPANS)
def test_a_bad_span_is_refused(span):
    for call in (lambda: rb.Union(span), lambda: rb.Union((-9, -8), span), lambda: rb.Union.excluding(span)):
        error = refusal(call)
        assert any(f"{name}=" in str(error) for name in ("span", "gap", "lower", "upper"))


@pytest.mark.parametrize(
    "spans",
    [
        ((0, 1), (1, 2)),
        ((0, 1), (0.5, 2)),
        ((0, 1), (0, 1)),
        ((2, 3), (0, 1)),
        ((0, 5), (1, 2)),
        ((0, INF), (1, 2)),
        ((-1, 0), (-INF, 1)),
        ((-INF, INF), (1, 2)),
        ((0, 1), (math.nextafter(1.0, 0.0), 2)),
        ((0, 1), (2, 3), (3, 4)),
    ],
)
def test_spans_that_touch_overlap_or_are_out_of_order_are_refused(spans):
    for call, name in ((rb.Union, "spans"), (rb.Union.excluding, "gaps")):
        error = refusal(call, *spans)
        assert isinstance(error, ArgumentError)
        assert f"{name}=" in str(error)


def test_a_union_of_nothing_is_refused():
    assert "spans=()" in str(refusal(rb.Union))
    assert "gaps=()" in str(refusal(rb.Union.excluding))
    assert "gaps=" in str(refusal(lambda: rb.Union.excluding((-1, 11), within=rb.Interval(0, 10))))
    assert "gaps=" in str(refusal(lambda: rb.Union.excluding((20, 30), within=rb.Interval(0, 10))))
    assert "gaps=" in str(refusal(lambda: rb.Union.excluding((-INF, INF))))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_an_interval_is_in_order_or_an_error(lower, upper):
    if lower < upper:
        interval = rb.Interval(lower, upper)
        assert (interval.lower, interval.upper) == (lower, upper)
    else:
        error = refusal(rb.Interval, lower, upper)
        assert says(error, ("lower",), lower + 0.0)
        assert says(error, ("upper",), upper + 0.0)


@pytest.mark.parametrize(
    ("step", "within"),
    [
        (11, rb.Interval(0, 10)),
        (1e-6, rb.Interval(0, 10)),
        (5e-324, rb.Interval(0, 10)),
        (1, rb.Interval(0, INF)),
        (1, rb.Interval(-INF, 0)),
        (1, LINE),
        (1, rb.Interval(1e17, 1e17 + 1000)),
        (1e-300, rb.Interval(1, 1.5)),
        (1e300, rb.Interval(-1.7e308, 1.7e308)),
    ],
)
def test_a_grid_without_points_or_with_too_many_is_refused(step, within):
    error = refusal(lambda: rb.Grid(step=step, within=within))
    assert isinstance(error, ArgumentError)
    assert "step=" in str(error) or "within=" in str(error)


GRID = rb.Grid(step=1, within=rb.Interval(0, 10))
UNION = rb.Union((0, 1), (2, 3))


@pytest.mark.parametrize(
    ("bounding", "support", "noise"),
    [
        (rb.RECTIFY, UNION, rb.Laplace(scale=1.0)),
        (rb.RECTIFY, GRID, rb.Laplace(scale=1.0)),
        (rb.QUANTIZE, rb.Interval(0, 10), rb.Laplace(scale=1.0)),
        (rb.QUANTIZE, UNION, rb.Laplace(scale=1.0)),
        (rb.QUANTIZE, LINE, rb.Laplace(scale=1.0)),
        (rb.UNBOUNDED, rb.Interval(0, 10), rb.Laplace(scale=1.0)),
        (rb.UNBOUNDED, rb.Interval(0, INF), rb.Gaussian(scale=1.0)),
        (rb.UNBOUNDED, UNION, rb.Gaussian(scale=1.0)),
        (rb.UNBOUNDED, GRID, rb.Gaussian(scale=1.0)),
        (rb.TRUNCATE, GRID, rb.TruncatedLaplacian(scale=1.0, limit=3.0)),
        (rb.TRUNCATE, rb.Interval(40, 50), rb.TruncatedLaplacian(scale=1.0, limit=3.0)),
        (rb.TRUNCATE, rb.Interval(10, 20), rb.TruncatedLaplacian(scale=1.0, limit=10.0)),
        (rb.TRUNCATE, rb.Union((-9, 1), (9, 19)), rb.TruncatedLaplacian(scale=1.0, limit=3.0)),
    ],
)
def test_a_combination_that_makes_no_sense_is_refused_with_the_reason(bounding, support, noise):
    error = refusal(lambda: rb.Mechanism(noise=noise, query=QUERY, support=support, bounding=bounding))
    assert isinstance(error, ArgumentError)
    assert "bounding=" in str(error) or "noise=" in str(error)


def test_a_message_about_a_huge_object_stays_short():
    wide = rb.Union(*((float(i), i + 0.5) for i in range(10_000)))
    refusal(lambda: rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY, support=wide, bounding=rb.RECTIFY))
    refusal(lambda: rb.Mechanism(noise=rb.Laplace(scale=1.0), query=wide))
    refusal(rb.Union, *([(0, 1)] * 10_000))
    refusal(MECHANISM.law, [NAN] * 10_000)
    refusal(rb.verify, b"x" * 10**6)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind_are_taken_where_they_are_exact(kind):
    assert rb.Interval(kind(0), kind(2)) == rb.Interval(0.0, 2.0)
    assert rb.Union((kind(0), kind(1)), (kind(2), kind(3))) == rb.Union((0, 1), (2, 3))
    assert rb.Grid(step=kind(2), within=rb.Interval(0, 10)).step == 2.0
    assert rb.Laplace(scale=kind(2)) == rb.Laplace(scale=2.0)
    assert rb.TruncatedLaplacian(scale=kind(2), limit=kind(3)) == rb.TruncatedLaplacian(scale=2.0, limit=3.0)
    assert rb.Query(range=rb.Interval(0, 10), sensitivity=kind(2)).sensitivity == 2.0
    assert MECHANISM.delta(kind(1)) == MECHANISM.delta(1.0)
    assert MECHANISM.rdp(kind(2)) == MECHANISM.rdp(2.0)
    assert MECHANISM.epsilon(kind(0)) == MECHANISM.epsilon()
    assert MECHANISM.error(kind(3)) == MECHANISM.error(3.0)
    assert MECHANISM.law(kind(3)).cdf(kind(2)) == LAW.cdf(2.0)
    assert rb.hockey_stick(LAW, MECHANISM.law(4.0), kind(0)) == rb.hockey_stick(LAW, MECHANISM.law(4.0), 0.0)
    assert rb.calibrate(noise=rb.Laplace, query=QUERY, epsilon=kind(1)).noise.scale == pytest.approx(
        1.6115601044, rel=1e-9
    )


def test_what_is_kept_is_always_a_python_float():
    kept = [
        rb.Laplace(scale=np.float32(2)).scale,
        rb.TruncatedLaplacian(scale=1, limit=np.int8(3)).limit,
        rb.Interval(np.int64(0), np.float32(2)).upper,
        rb.Union((0, np.int8(1)), (2, 3)).spans[0][1],
        rb.Grid(step=np.int32(1), within=rb.Interval(0, 2)).step,
        rb.Query(range=rb.Interval(0, 2), sensitivity=np.float16(1)).sensitivity,
    ]
    assert [type(x) for x in kept] == [float] * len(kept)


@pytest.mark.parametrize("name", [name for name in NUMBERS if not name.startswith("certify")])
def test_an_array_without_dimensions_is_a_number_or_an_error(name):
    good = {"Union.span": 2.0, "Mechanism.rdp": 2.0, "renyi.alpha": 2.0}
    number = good.get(name, 0.25)
    call, names = NUMBERS[name].call, NUMBERS[name].names
    try:
        boxed = str(call(np.array(number)))
    except RangeboundError as error:
        boxed = str(error)
    assert boxed == str(call(number)) or any(f"{each}=array(" in boxed for each in names)


@given(st.floats(0.001, 1e308), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_a_sensitivity_above_the_width_is_cut_to_it(sensitivity, lower, width):
    answers = rb.Interval(lower, lower + width)
    kept = rb.Query(range=answers, sensitivity=sensitivity).sensitivity
    exact = Fraction(answers.upper) - Fraction(answers.lower)
    if sensitivity <= exact:
        assert kept == sensitivity
    else:
        assert kept == pytest.approx(answers.width, rel=1e-15)
        whole = rb.Query(range=answers, sensitivity=kept)
        assert whole.sensitivity == kept


def test_a_sensitivity_above_the_width_of_a_union_is_cut_to_its_hull():
    assert rb.Query(range=rb.Union((0, 1), (2, 3)), sensitivity=99).sensitivity == 3.0


def test_empty_arrays_give_empty_answers():
    empty = MECHANISM.law([])
    for value in (
        QUERY.clip([]),
        empty.mean,
        empty.variance,
        empty.cdf(1.0),
        empty.pdf(1.0),
        empty.quantile(0.5),
        LAW.cdf([]),
        LAW.quantile([]),
        MECHANISM.fisher([]),
        MECHANISM.rdp([]),
        rb.hockey_stick(empty, empty, 1.0),
        rb.renyi(empty, empty, 2.0),
        MECHANISM.error([]).mae,
    ):
        assert np.shape(value) == (0,)


@pytest.mark.parametrize(
    "call",
    [
        lambda: BATCH.pdf([1.0, 2.0]),
        lambda: BATCH.cdf([1.0, 2.0]),
        lambda: BATCH.sf([1.0, 2.0]),
        lambda: BATCH.quantile([0.1, 0.2]),
        lambda: BATCH.mass([1.0, 2.0], 3.0),
        lambda: LAW.mass([1.0, 2.0], [3.0, 4.0, 5.0]),
        lambda: rb.hockey_stick(BATCH, MECHANISM.law([1.0, 2.0]), 1.0),
        lambda: rb.renyi(BATCH, MECHANISM.law([1.0, 2.0]), 2.0),
        lambda: PUBLISHED.pdf([1.0, 2.0], [1.0, 2.0, 3.0]),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call):
    assert isinstance(refusal(call), ArgumentError)


def test_an_interval_of_places_must_be_in_order():
    error = refusal(LAW.mass, 3.0, 2.0)
    assert "lower=3.0" in str(error)
    assert "upper=2.0" in str(error)


class Cell(NamedTuple):
    """A mechanism to put under stress."""

    noise: Any
    bounding: Any = rb.TRUNCATE
    support: Any = None

    def mechanism(self) -> rb.Mechanism:
        return rb.Mechanism(noise=self.noise, query=QUERY, support=self.support, bounding=self.bounding)


STRESSED = {
    "Laplace on an interval": Cell(rb.Laplace(scale=1.0)),
    "Laplace, narrow, on an interval": Cell(rb.Laplace(scale=0.01)),
    "Gaussian, narrow, on an interval": Cell(rb.Gaussian(scale=0.01)),
    "Laplace, wide, on an interval": Cell(rb.Laplace(scale=1e9)),
    "Gaussian, wide, on an interval": Cell(rb.Gaussian(scale=1e9)),
    "Gaussian on a half-line": Cell(rb.Gaussian(scale=1.0), support=rb.Interval(-5, INF)),
    "Laplace on a half-line": Cell(rb.Laplace(scale=1.0), support=rb.Interval(-INF, 5)),
    "Laplace on the line": Cell(rb.Laplace(scale=1.0), rb.UNBOUNDED),
    "Gaussian on the line": Cell(rb.Gaussian(scale=1.0), rb.UNBOUNDED),
    "truncated Laplacian on the line": Cell(rb.TruncatedLaplacian(scale=1.0, limit=3.0), rb.UNBOUNDED),
    "Gaussian, clamped": Cell(rb.Gaussian(scale=1.0), rb.RECTIFY),
    "Laplace, rounded": Cell(rb.Laplace(scale=1.0), rb.QUANTIZE, GRID),
    "Laplace on a grid": Cell(rb.Laplace(scale=1.0), rb.TRUNCATE, GRID),
    "Gaussian on a union": Cell(rb.Gaussian(scale=1.0), rb.TRUNCATE, rb.Union((-INF, 1), (2, 3))),
    "Gaussian fifty scales away": Cell(rb.Gaussian(scale=1.0), support=rb.Interval(50, 51)),
    "Laplace fifty scales away": Cell(rb.Laplace(scale=1.0), support=rb.Interval(50, 51)),
}


TRUE_ANSWERS = (0.0, 3.0, 10.0, [0.0, 3.0, 10.0])


def check_places(cell: Cell, places: tuple[float, ...]) -> None:
    for answer in TRUE_ANSWERS:
        law = cell.mechanism().law(answer)
        for place in places:
            for value in (law.pdf(place), law.log_pdf(place), law.cdf(place), law.sf(place), law.mass(place, place)):
                assert not np.isnan(value).any()
            assert np.all((law.cdf(place) >= 0.0) & (law.cdf(place) <= 1.0))


@pytest.mark.parametrize("cell", STRESSED.values(), ids=STRESSED)
def test_a_law_is_never_nan_and_never_warns(cell):
    check_places(cell, (-1000.0, -1.0, 0.0, 5e-324, 3.0, 10.0, 60.0, 1e9))


@pytest.mark.parametrize("cell", STRESSED.values(), ids=STRESSED)
def test_a_law_reaches_to_the_ends_of_the_line(cell):
    check_places(cell, (-INF, INF))
    for answer in TRUE_ANSWERS:
        law = cell.mechanism().law(answer)
        assert np.allclose(law.cdf(INF), 1.0, rtol=0, atol=1e-14)
        assert np.allclose(law.sf(-INF), 1.0, rtol=0, atol=1e-14)
        assert np.all(law.cdf(-INF) == 0.0)
        assert np.all(law.sf(INF) == 0.0)


@pytest.mark.parametrize("cell", STRESSED.values(), ids=STRESSED)
def test_a_law_knows_places_beyond_every_square(cell):
    check_places(cell, (-1e300, 1e300, 1.7e308))


@pytest.mark.parametrize("cell", STRESSED.values(), ids=STRESSED)
def test_quantiles_and_moments_are_never_nan_and_never_warn(cell):
    chances = (0.0, 1e-300, 1e-9, 0.5, 1 - 1e-9, math.nextafter(1.0, 0.0), 1.0)
    for answer in TRUE_ANSWERS:
        law = cell.mechanism().law(answer)
        quantiles = np.array([law.quantile(chance) for chance in chances])
        assert not np.isnan(quantiles).any()
        assert np.all(quantiles[1:] >= quantiles[:-1])
        assert np.all(np.isfinite(law.mean) & np.isfinite(law.variance) & (np.asarray(law.variance) > 0.0))


@pytest.mark.parametrize("cell", STRESSED.values(), ids=STRESSED)
def test_a_guarantee_is_never_nan_and_never_hangs(cell, within):
    mechanism = cell.mechanism()
    with within(60.0):
        deltas = [mechanism.delta(epsilon) for epsilon in (0.0, 1e-300, 700.0, 1e300)]
        others = [mechanism.epsilon(), mechanism.rdp(2.0), mechanism.fisher(3.0)]
    assert not any(math.isnan(number) for number in deltas + others)
    assert all(number >= 0.0 for number in others)
    assert 1.0 >= deltas[0] >= deltas[1] >= deltas[2] >= deltas[3] >= 0.0


@pytest.mark.parametrize("noise", [rb.Laplace(scale=2.0), rb.Gaussian(scale=2.0)], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("alpha", [math.nextafter(1.0, 2.0), 1 + 1e-9, 1e6, 1e300])
def test_an_extreme_order_is_answered(noise, alpha, within):
    mechanism = rb.Mechanism(noise=noise, query=QUERY)
    with within(10.0):
        value = mechanism.rdp(alpha)
    assert 0.0 < value <= mechanism.epsilon() * (1 + 1e-6)


@pytest.mark.parametrize("alpha", [64.0, 1e4, 1e6, 1e8])
def test_a_large_order_is_still_exact_to_six_digits(alpha):
    """Gaussian noise on an interval: the worst pair of a large order is at an end of the range."""
    mechanism = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=QUERY)
    attained = max(rb.renyi(mechanism.law(p), mechanism.law(q), alpha) for p, q in ((0.0, 1.0), (1.0, 0.0)))
    assert attained * (1 - 1e-12) <= mechanism.rdp(alpha) <= attained * (1 + 1e-6)


def calibrated(noise: type, epsilon: float, delta: float) -> rb.Mechanism | str:
    """A mechanism, or the message of the error."""
    try:
        return rb.calibrate(noise=noise, query=QUERY, epsilon=epsilon, delta=delta)
    except RangeboundError as error:
        return str(error)


@pytest.mark.parametrize(
    ("noise", "epsilon", "delta"),
    [
        (rb.Laplace, 1e-9, 0.0),
        (rb.Laplace, 1e-9, 1e-15),
        (rb.Laplace, 50.0, 1e-15),
        (rb.Laplace, 1e300, 0.4),
        (rb.Gaussian, 1e-9, 1e-15),
        (rb.Gaussian, 1e-3, 1e-15),
        (rb.Gaussian, 50.0, 1e-15),
        (rb.TruncatedLaplacian, 1e-9, 1e-15),
        (rb.TruncatedLaplacian, 50.0, 1e-15),
    ],
)
def test_an_extreme_target_is_met_or_refused_in_time(noise, epsilon, delta, within):
    with within(10.0):
        found = calibrated(noise, epsilon, delta)
    if isinstance(found, str):
        assert "epsilon=" in found or "delta=" in found
    elif noise is not rb.Gaussian:
        # Laplace noise with 2 D / epsilon is purely private on every interval, so no more than that is needed.
        assert found.noise.scale <= 2.0 * (1 + 1e-9) / epsilon


@pytest.mark.parametrize(
    ("noise", "epsilon"),
    [(rb.Laplace, 1e-310), (rb.Gaussian, 1e-310), (rb.TruncatedLaplacian, 1e-310), (rb.Gaussian, 1e307)],
)
def test_a_target_beyond_the_doubles_is_refused_by_its_own_name(noise, epsilon, within):
    with within(10.0):
        found = calibrated(noise, epsilon, 0.1)
    assert not isinstance(found, str) or "epsilon=" in found


@pytest.mark.parametrize("low", [0.0, 1e300, -1.7e308])
def test_an_extreme_range_is_answered(low, within):
    answers = rb.Interval(low, {0.0: 1e-300, 1e300: 1.1e300, -1.7e308: 1.7e308}[low])
    query = rb.Query(range=answers, sensitivity=1e-300)
    with within(10.0):
        mechanism = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0)
        assert mechanism.epsilon() <= 1.0


BAD_DATA = {
    "empty": {},
    "list": [],
    "None": None,
    "text": "{}",
    "no query": {k: v for k, v in MECHANISM.to_dict().items() if k != "query"},
    "no support": {k: v for k, v in MECHANISM.to_dict().items() if k != "support"},
    "unknown noise": {**MECHANISM.to_dict(), "noise": {"family": "cauchy", "scale": 1.0}},
    "noise without family": {**MECHANISM.to_dict(), "noise": {"scale": 1.0}},
    "noise with a stranger": {**MECHANISM.to_dict(), "noise": {"family": "laplace", "scale": 1.0, "seed": 3}},
    "noise without scale": {**MECHANISM.to_dict(), "noise": {"family": "laplace"}},
    "noise that is a number": {**MECHANISM.to_dict(), "noise": 3},
    "scale that is text": {**MECHANISM.to_dict(), "noise": {"family": "laplace", "scale": "1.0"}},
    "scale that is nan": {**MECHANISM.to_dict(), "noise": {"family": "laplace", "scale": NAN}},
    "scale that is zero": {**MECHANISM.to_dict(), "noise": {"family": "laplace", "scale": 0}},
    "unknown bounding": {**MECHANISM.to_dict(), "bounding": "clamp"},
    "bounding that is a list": {**MECHANISM.to_dict(), "bounding": ["truncate"]},
    "unknown support": {**MECHANISM.to_dict(), "support": {"disc": [0, 1]}},
    "two supports": {**MECHANISM.to_dict(), "support": {"interval": [0, 1], "union": [[0, 1]]}},
    "empty support": {**MECHANISM.to_dict(), "support": {}},
    "support that is None": {**MECHANISM.to_dict(), "support": None},
    "support with three ends": {**MECHANISM.to_dict(), "support": {"interval": [0, 1, 2]}},
    "support with text": {**MECHANISM.to_dict(), "support": {"interval": ["0", "1"]}},
    "support that is a number": {**MECHANISM.to_dict(), "support": {"interval": 3}},
    "grid without step": {**MECHANISM.to_dict(), "support": {"grid": {"within": [0, 1]}}},
    "sensitivity that is nan": {**MECHANISM.to_dict(), "query": {"range": {"interval": [0, 1]}, "sensitivity": NAN}},
}


@pytest.mark.parametrize("data", BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_for_a_mechanism_is_refused(data):
    refusal(rb.Mechanism.from_dict, data)


def test_a_certificate_cannot_be_made_from_nonsense():
    def made(**changes: Any) -> rb.Certificate:
        parts = {"mechanism": MECHANISM, "claim": rb.Claim(epsilon=2.0), "proof": CERTIFICATE.proof}
        return rb.Certificate(**{**parts, **changes})

    assert made() == CERTIFICATE
    for name, values in (
        ("mechanism", (None, "m", QUERY)),
        ("claim", (None, 1.0, (1.0, 0.0), {"epsilon": 2.0})),
        ("proof", (None, "p", {})),
    ):
        for value in values:
            assert f"{name}=" in str(refusal(lambda name=name, value=value: made(**{name: value})))


def test_a_claim_cannot_be_made_from_nonsense():
    for name, values in (
        ("epsilon", (None, "1", NAN, INF, -1.0, True)),
        ("delta", (None, "1", NAN, INF, -1.0, 1.0, True)),
        ("notion", (None, "renyi", 1)),
    ):
        for value in values:
            assert f"{name}=" in str(refusal(lambda name=name, value=value: rb.Claim(**{"epsilon": 1.0, name: value})))
    for data in (None, 3, [], {}, {"epsilon": 1.0}, {**rb.Claim(epsilon=1.0).to_dict(), "more": 1.0}):
        assert "claim=" in str(refusal(rb.Claim.from_dict, data))
        assert "claim=" in str(refusal(rb.Mechanism.from_dict, {**MECHANISM.to_dict(), "claim": data}))


def test_a_law_cannot_be_made_from_nonsense():
    noise, shape = MECHANISM.noise, MECHANISM.shape
    for name, value, call in (
        ("noise", None, lambda: rb.Law(None, shape, np.asarray(1.0))),
        ("noise", rb.Laplace, lambda: rb.Law(rb.Laplace, shape, np.asarray(1.0))),
        ("shape", None, lambda: rb.Law(noise, None, np.asarray(1.0))),
        ("shape", QUERY.range, lambda: rb.Law(noise, QUERY.range, np.asarray(1.0))),
        ("location", None, lambda: rb.Law(noise, shape, None)),
        ("location", "1", lambda: rb.Law(noise, shape, "1")),
        ("location", NAN, lambda: rb.Law(noise, shape, np.asarray(NAN))),
        ("location", INF, lambda: rb.Law(noise, shape, np.asarray(INF))),
    ):
        assert named(refusal(call), (name,)), value
    assert rb.Law(noise, shape, 3.0).cdf(2.0) == LAW.cdf(2.0)


def test_reading_a_certificate_from_anything_but_text_is_refused():
    for value in (None, 3, 1.5, [], {}, object(), np.array([1.0]), MECHANISM):
        with pytest.raises(CertificateInvalid):
            rb.Certificate.from_json(value)
        assert "text=" in str(refusal(rb.verify, value))
