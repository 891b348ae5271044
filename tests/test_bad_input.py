"""Bad input: every argument of every public name gives one clear error of ours, at once, with its name and its value.

Never a hang, never a NaN, never a silent repair, and never an error of NumPy, flint or the interpreter.
"""

import functools
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
from rangebound.errors import ArgumentError, ArgumentTypeError, RangeboundError
from tests.numbers_given import BAD_ARRAYS, KINDS

INF, NAN = math.inf, math.nan
LINE = rb.Interval(-INF, INF)
QUERY = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
MECHANISM = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=QUERY)
LAW = MECHANISM.law(3.0)
BATCH = MECHANISM.law([1.0, 2.0, 3.0])
CERTIFICATE = rb.certify(MECHANISM, epsilon=2.0)
HALF = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
PUBLISHED = rb.VariableScaleLaplace(query=HALF, epsilon=1.0)
MADE = functools.partial(rb.Mechanism, noise=rb.Laplace(scale=1.0), query=QUERY)
CALIBRATED = functools.partial(rb.calibrate, noise=rb.Laplace, query=QUERY, epsilon=1.0)
CHOSEN = functools.partial(rb.choose, query=QUERY, epsilon=1.0)
PROVED = functools.partial(rb.Certificate, mechanism=MECHANISM, claim=CERTIFICATE.claim, proof=CERTIFICATE.proof)


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
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, np.timedelta64):
        looks |= {repr(float(value)), str(float(value))}
    message = str(error)
    if set(names) <= PRIVATE:
        return named(error, names) and not any(len(look) > 6 and look in message for look in looks)
    return named(error, names) and any(look in message for look in looks)


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
    "calibrate.epsilon": Argument(("epsilon",), lambda x: CALIBRATED(epsilon=x), NOT_POSITIVE),
    "calibrate.delta": Argument(("delta",), lambda x: CALIBRATED(delta=x), NO_PROBABILITY),
    "choose.epsilon": Argument(("epsilon",), lambda x: CHOSEN(epsilon=x), NOT_POSITIVE),
    "choose.delta": Argument(("delta",), lambda x: CHOSEN(delta=x), NO_PROBABILITY),
    "choose.at": Argument(("at",), lambda x: CHOSEN(at=x), INFINITIES),
    "VariableScaleLaplace.built_for": Argument(
        ("epsilon",), lambda x: rb.VariableScaleLaplace(query=HALF, epsilon=x), NOT_POSITIVE
    ),
    "VariableScaleLaplace.epsilon": Argument(("delta",), PUBLISHED.epsilon, NO_PROBABILITY),
    "VariableScaleLaplace.delta": Argument(("epsilon",), PUBLISHED.delta, NEGATIVE),
    "Claim.epsilon": Argument(("epsilon",), lambda x: rb.Claim(epsilon=x), NEGATIVE),
    "Claim.delta": Argument(("delta",), lambda x: rb.Claim(epsilon=1.0, delta=x), NO_PROBABILITY),
    "certify.epsilon": Argument(("epsilon",), lambda x: rb.certify(MECHANISM, x), NEGATIVE),
    "certify.delta": Argument(("delta",), lambda x: rb.certify(MECHANISM, 1.0, x), NO_PROBABILITY),
}

# Every argument that takes a number or an array of them.
ANSWERS = {
    "Query.clip": Argument(("answer",), QUERY.clip, INFINITIES),
    "Mechanism.law": Argument(("answer",), MECHANISM.law, INFINITIES),
    "Mechanism.error": Argument(("answer",), MECHANISM.error, INFINITIES),
    "Mechanism.fisher": Argument(("answer",), MECHANISM.fisher, INFINITIES),
    "VariableScaleLaplace.scale": Argument(("location", "answer"), PUBLISHED.scale, INFINITIES),
    "VariableScaleLaplace.pdf.x": Argument(("x",), lambda x: PUBLISHED.pdf(x, 1.0)),
    "VariableScaleLaplace.pdf.location": Argument(("location", "answer"), lambda x: PUBLISHED.pdf(1.0, x), INFINITIES),
    "Law.location": Argument(("location", "answer"), lambda x: rb.Law(MECHANISM.noise, MECHANISM.shape, x), INFINITIES),
    "Law.pdf": Argument(("x",), LAW.pdf),
    "Law.log_pdf": Argument(("x",), LAW.log_pdf),
    "Law.cdf": Argument(("x",), LAW.cdf),
    "Law.sf": Argument(("x",), LAW.sf),
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
    "Mechanism.noise": Argument(("noise",), lambda x: MADE(noise=x)),
    "Mechanism.query": Argument(("query",), lambda x: MADE(query=x)),
    "Mechanism.support": Argument(("support",), lambda x: MADE(support=x)),
    "Mechanism.bounding": Argument(("bounding",), lambda x: MADE(bounding=x)),
    "Mechanism.from_dict": Argument(("data",), rb.Mechanism.from_dict),
    "Law.noise": Argument(("noise",), lambda x: rb.Law(x, MECHANISM.shape, np.asarray(1.0))),
    "Law.shape": Argument(("shape",), lambda x: rb.Law(rb.Laplace(scale=1.0), x, np.asarray(1.0))),
    "VariableScaleLaplace.query": Argument(("query",), lambda x: rb.VariableScaleLaplace(query=x, epsilon=1.0)),
    "hockey_stick.p": Argument(("p",), lambda x: rb.hockey_stick(x, LAW, 1.0)),
    "hockey_stick.q": Argument(("q",), lambda x: rb.hockey_stick(LAW, x, 1.0)),
    "renyi.p": Argument(("p",), lambda x: rb.renyi(x, LAW, 2.0)),
    "renyi.q": Argument(("q",), lambda x: rb.renyi(LAW, x, 2.0)),
    "calibrate.noise": Argument(("noise",), lambda x: CALIBRATED(noise=x)),
    "calibrate.query": Argument(("query",), lambda x: CALIBRATED(query=x)),
    "calibrate.support": Argument(("support",), lambda x: CALIBRATED(support=x)),
    "calibrate.bounding": Argument(("bounding",), lambda x: CALIBRATED(bounding=x)),
    "calibrate.notion": Argument(("notion",), lambda x: CALIBRATED(notion=x)),
    "choose.query": Argument(("query",), lambda x: CHOSEN(query=x)),
    "choose.objective": Argument(("objective",), lambda x: CHOSEN(objective=x)),
    "choose.support": Argument(("support",), lambda x: CHOSEN(support=x)),
    "choose.spikes": Argument(("spikes",), lambda x: CHOSEN(spikes=x)),
    "certify.mechanism": Argument(("mechanism",), lambda x: rb.certify(x, 1.0)),
    "Certificate.mechanism": Argument(("mechanism",), lambda x: PROVED(mechanism=x)),
    "Certificate.claim": Argument(("claim",), lambda x: PROVED(claim=x)),
    "Certificate.proof": Argument(("proof",), lambda x: PROVED(proof=x)),
    "Claim.notion": Argument(("notion",), lambda x: rb.Claim(epsilon=1.0, notion=x)),
    "Claim.from_dict": Argument(("claim",), rb.Claim.from_dict),
    "certify.notion": Argument(("notion",), lambda x: rb.certify(MECHANISM, 2.0, notion=x)),
    "verify.text": Argument(("text",), rb.verify),
}


def arguments_of(table: dict[str, Argument]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("argument", table.values(), ids=table.keys())


def nothing_like_a_number(sequences: bool = True) -> st.SearchStrategy[Any]:
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
        st.sampled_from(["s", "generic"]).map(lambda unit: np.timedelta64(1, unit)),
        st.sampled_from([float, object(), rb, np.datetime64("2020-01-01"), bytearray(b"1"), np.complex128(1)]),
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


@settings(max_examples=150)
@given(value=nothing_like_a_number(sequences=False))
def test_an_answer_of_the_wrong_type_is_refused(value):
    assert [name for name, argument in ANSWERS.items() if not refuses_the_type(argument, value)] == []


def test_control_a_number_that_breaks_a_rule_is_not_of_the_wrong_type():
    assert not refuses_the_type(NUMBERS["Laplace.scale"], -1.0)
    assert refuses_the_type(NUMBERS["Laplace.scale"], "1")


@pytest.mark.parametrize("value", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_a_bad_array_of_answers_or_orders_is_refused(value):
    for argument in ANSWERS.values():
        error = refusal(argument.call, value)
        assert named(error, argument.names)
    if not (isinstance(value, np.ndarray) and value.dtype == object):  # of one number: it is taken for that
        assert "alpha=" in str(refusal(MECHANISM.rdp, value))


def wrong_objects() -> st.SearchStrategy[Any]:
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
        st.sampled_from([rb.Interval, rb.Query, rb.Mechanism, rb.Law, CERTIFICATE, None]),
    )


MAY_BE_NONE = {"Mechanism.support", "calibrate.support", "choose.support", "Union.excluding.within", "certify.notion"}


@settings(max_examples=150)
@given(value=wrong_objects())
def test_an_object_of_the_wrong_type_is_refused(value):
    left_out = {"verify.text"} if isinstance(value, str) else MAY_BE_NONE if value is None else set()
    asked = {name: each for name, each in OBJECTS.items() if name not in left_out}
    assert [name for name, each in asked.items() if not says(refusal(each.call, value), each.names, value)] == []


@pytest.mark.parametrize(
    "span", [(1, 1), (2, 1), (INF, -INF), (0, NAN), (1,), (), ("1", "2"), (False, True), ((0, 1), (2, 3))], ids=repr
)
def test_a_bad_span_is_refused(span):
    for call in (lambda: rb.Union(span), lambda: rb.Union((-9, -8), span), lambda: rb.Union.excluding(span)):
        error = refusal(call)
        assert any(f"{name}=" in str(error) for name in ("span", "gap", "lower", "upper"))


@pytest.mark.parametrize("first", [(2, 3), (0, 5), (0, INF), (-INF, INF), (0, 1), (0, math.nextafter(1.0, 2.0))])
def test_spans_that_touch_overlap_or_are_out_of_order_are_refused(first):
    for call, name in ((rb.Union, "spans"), (rb.Union.excluding, "gaps")):
        error = refusal(call, (-9, -8), first, (1, 2))
        assert isinstance(error, ArgumentError)
        assert f"{name}=" in str(error)


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
        (1, rb.Interval(0, INF)),
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


def test_a_message_about_a_huge_object_stays_short():
    wide = rb.Union(*((float(i), i + 0.5) for i in range(10_000)))
    refusal(lambda: rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY, support=wide, bounding=rb.RECTIFY))
    refusal(lambda: rb.Mechanism(noise=rb.Laplace(scale=1.0), query=wide))
    refusal(rb.Union, *([(0, 1)] * 10_000))
    refusal(MECHANISM.law, [NAN] * 10_000)
    refusal(rb.verify, b"x" * 10**6)


@pytest.mark.few(7)
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind_are_taken_where_they_are_exact(kind):
    assert rb.Interval(kind(0), kind(2)) == rb.Interval(0.0, 2.0)
    assert rb.Union((kind(0), kind(1)), (kind(2), kind(3))) == rb.Union((0, 1), (2, 3))
    assert rb.Grid(step=kind(2), within=rb.Interval(0, 10)).step == 2.0
    assert rb.Laplace(scale=kind(2)) == rb.Laplace(scale=2.0)
    kept = rb.Laplace(scale=kind(2)).scale, rb.Interval(0, kind(2)).upper, rb.Union((0, kind(1)), (2, 3)).spans[0][1]
    assert {type(each) for each in kept} == {float}
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


def test_empty_arrays_give_empty_answers():
    empty = MECHANISM.law([])
    for value in (
        QUERY.clip([]),
        empty.mean,
        empty.cdf(1.0),
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


class Cell(NamedTuple):
    noise: Any
    bounding: Any = rb.TRUNCATE
    support: Any = None

    def mechanism(self) -> rb.Mechanism:
        return rb.Mechanism(noise=self.noise, query=QUERY, support=self.support, bounding=self.bounding)


STRESSED = {
    "Laplace on an interval": Cell(rb.Laplace(scale=1.0)),
    "Laplace, narrow, on an interval": Cell(rb.Laplace(scale=0.01)),
    "Gaussian, narrow, on an interval": Cell(rb.Gaussian(scale=0.01)),
    "Gaussian, wide, on an interval": Cell(rb.Gaussian(scale=1e9)),
    "Laplace, wide, on an interval": Cell(rb.Laplace(scale=1e9)),
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


@pytest.mark.few(4)
@pytest.mark.parametrize("cell", STRESSED.values(), ids=STRESSED)
def test_a_law_is_never_nan_and_never_warns_up_to_the_ends_of_the_line(cell):
    for answer in TRUE_ANSWERS:
        law = cell.mechanism().law(answer)
        for place in (-INF, -1e300, -1000.0, -1.0, 0.0, 5e-324, 3.0, 10.0, 60.0, 1e9, 1e300, 1.7e308, INF):
            for value in (law.pdf(place), law.log_pdf(place), law.cdf(place), law.sf(place), law.mass(place, place)):
                assert not np.isnan(value).any()
            assert np.all((law.cdf(place) >= 0.0) & (law.cdf(place) <= 1.0))
        assert np.allclose(law.cdf(INF), 1.0, rtol=0, atol=1e-14)
        assert np.allclose(law.sf(-INF), 1.0, rtol=0, atol=1e-14)
        assert np.all(law.cdf(-INF) == 0.0)
        assert np.all(law.sf(INF) == 0.0)


@pytest.mark.few(8)
@pytest.mark.parametrize("cell", STRESSED.values(), ids=STRESSED)
def test_quantiles_and_moments_are_never_nan_and_never_warn(cell):
    chances = (0.0, 1e-300, 1e-9, 0.5, 1 - 1e-9, math.nextafter(1.0, 0.0), 1.0)
    for answer in TRUE_ANSWERS:
        law = cell.mechanism().law(answer)
        quantiles = np.array([law.quantile(chance) for chance in chances])
        assert not np.isnan(quantiles).any()
        assert np.all(quantiles[1:] >= quantiles[:-1])
        assert np.all(np.isfinite(law.mean) & np.isfinite(law.variance) & (np.asarray(law.variance) > 0.0))


@pytest.mark.few(4)
@pytest.mark.parametrize("cell", STRESSED.values(), ids=STRESSED)
def test_a_guarantee_is_never_nan_and_never_hangs(cell, within):
    mechanism = cell.mechanism()
    with within(60.0):
        deltas = [mechanism.delta(epsilon) for epsilon in (0.0, 1e-300, 700.0, 1e300)]
        others = [mechanism.epsilon(), mechanism.rdp(2.0), mechanism.fisher(3.0)]
    assert not any(math.isnan(number) for number in deltas + others)
    assert all(number >= 0.0 for number in others)
    assert 1.0 >= deltas[0] >= deltas[1] >= deltas[2] >= deltas[3] >= 0.0


@pytest.mark.few
@pytest.mark.parametrize("noise", [rb.Laplace(scale=2.0), rb.Gaussian(scale=2.0)], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("alpha", [math.nextafter(1.0, 2.0), 1 + 1e-9, 1e6, 1e300])
def test_an_extreme_order_is_answered(noise, alpha, within):
    mechanism = rb.Mechanism(noise=noise, query=QUERY)
    with within(10.0):
        value = mechanism.rdp(alpha)
    assert 0.0 < value <= mechanism.epsilon() * (1 + 1e-6)


def calibrated(noise: type, epsilon: float, delta: float) -> rb.Mechanism | str:
    try:
        return rb.calibrate(noise=noise, query=QUERY, epsilon=epsilon, delta=delta)
    except RangeboundError as error:
        return str(error)


@pytest.mark.few(4)
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
        (rb.Laplace, 1e-310, 0.1),
        (rb.Gaussian, 1e-310, 0.1),
        (rb.TruncatedLaplacian, 1e-310, 0.1),
        (rb.Gaussian, 1e307, 0.1),
    ],
)
def test_an_extreme_target_is_met_or_refused_by_its_own_name_in_time(noise, epsilon, delta, within):
    with within(10.0):
        found = calibrated(noise, epsilon, delta)
    if isinstance(found, str):
        assert "epsilon=" in found or (delta < 0.1 and "delta=" in found)
    elif noise is not rb.Gaussian:
        # Laplace noise with 2 D / epsilon is purely private on every interval, so no more than that is needed.
        assert found.noise.scale <= 2.0 * (1 + 1e-9) / epsilon


@pytest.mark.parametrize("low", [0.0, 1e300, -1.7e308])
def test_an_extreme_range_is_answered(low, within):
    answers = rb.Interval(low, {0.0: 1e-300, 1e300: 1.1e300, -1.7e308: 1.7e308}[low])
    query = rb.Query(range=answers, sensitivity=1e-300)
    with within(10.0):
        mechanism = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0)
        assert mechanism.epsilon() <= 1.0


PLAIN = MECHANISM.to_dict()
BAD_DATA = {
    "empty": {},
    "list": [],
    "no query": {k: v for k, v in PLAIN.items() if k != "query"},
    "unknown noise": {**PLAIN, "noise": {"family": "cauchy", "scale": 1.0}},
    "noise without family": {**PLAIN, "noise": {"scale": 1.0}},
    "noise that is a number": {**PLAIN, "noise": 3},
    "scale that is nan": {**PLAIN, "noise": {"family": "laplace", "scale": NAN}},
    "unknown bounding": {**PLAIN, "bounding": "clamp"},
    "bounding that is a list": {**PLAIN, "bounding": ["truncate"]},
    "sensitivity that is nan": {**PLAIN, "query": {"range": {"interval": [0, 1]}, "sensitivity": NAN}},
}


@pytest.mark.parametrize("data", BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_for_a_mechanism_is_refused(data):
    refusal(rb.Mechanism.from_dict, data)
