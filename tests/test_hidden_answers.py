"""No error shows a true answer, whatever is given for one and wherever."""

import datetime
import decimal
import fractions
import inspect
import math
import re

import numpy as np
import pandas
import pytest
from matplotlib import pyplot

import rangebound as rb
from rangebound import plot
from rangebound.accounting.event import MechanismEvent
from rangebound.accounting.fisher_information import information
from rangebound.errors import ArgumentError
from rangebound.release import make_plan, release
from rangebound.values import arguments

SECRET = "7310429"
NUMBER = int(SECRET)


class Odd:
    def __init__(self, fail):
        self.fail = fail

    def __repr__(self):
        return f"Odd({SECRET})"

    def __array__(self, *_, **__):
        raise self.fail(SECRET)


GIVEN = {
    "text": SECRET,
    "bytes": SECRET.encode(),
    "a text in a list": [1.0, SECRET],
    "a missing one": [NUMBER + 0.25, math.nan],
    "an infinite one": [NUMBER + 0.25, math.inf],
    "none": [NUMBER, None],
    "a boolean": [NUMBER, True],
    "ragged": [[NUMBER], [1, 2]],
    "complex": NUMBER + 1j,
    "decimal": decimal.Decimal(SECRET),
    "fraction": fractions.Fraction(NUMBER, 3),
    "not a number": math.nan,
    "infinite": -math.inf,
    "huge": NUMBER * 10**400,
    "large": NUMBER * 2**53 + 1,
    "large in an array": np.array([NUMBER * 2**40 + 1], np.int64),
    "long": np.longdouble(NUMBER) + np.longdouble(2) ** -40,
    "date": datetime.date(2000, 1, 1) + datetime.timedelta(days=NUMBER % 10**6),
    "times": np.array([NUMBER], "m8[s]"),
    "objects": np.array([NUMBER, "x"], dtype=object),
    "masked": np.ma.masked_array([NUMBER, 2], [False, True]),
    "series": pandas.Series([NUMBER, None]),
    "frame": pandas.DataFrame({"a": [NUMBER], "b": ["x"]}),
    "mapping": {SECRET: NUMBER},
    "set": {NUMBER},
    "raises": Odd(ValueError),
    "raises another": Odd(TypeError),
    "generator": (each for each in [NUMBER]),
}
QUERY = rb.Query(range=rb.Interval(0, math.inf), sensitivity=1.0)
MECHANISM = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=QUERY)
VARIED = rb.VariableScaleLaplace(query=QUERY, epsilon=1.0)
DISCRETE = rb.DiscreteLaplace(scale=2.0)
STAIRS = rb.Staircase(scale=2.0, query=QUERY, step=0.25, plateau=2)
TABLE = rb.Table(query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0), inputs=(0,), outputs=(0,), weights=[[2**62]])
REMAPPED = rb.remap(rb.DiscreteLaplace(scale=2.0, support=rb.Interval(0, 9)), at="average")
METHODS = {
    MECHANISM: "law error fisher release",
    DISCRETE: "law error fisher release",
    STAIRS: "law error fisher release",
    REMAPPED: "law error fisher release",
    TABLE: "law error fisher release chapman_robbins",
    QUERY: "clip",
    VARIED: "scale",
}
CALLS = {f"{type(of).__name__}.{name}": getattr(of, name) for of in METHODS for name in METHODS[of].split()} | {
    "DiscreteLaplace.pmf": lambda answer: DISCRETE.pmf(1.0, answer),
    "Staircase.pmf": lambda answer: STAIRS.pmf(1.0, answer),
    "Law": lambda answer: rb.Law(noise=MECHANISM.noise, shape=MECHANISM.shape, location=answer),
    "VariableScaleLaplace.pdf": lambda answer: VARIED.pdf(1.0, answer),
    "information": lambda answer: information(MechanismEvent(mechanism=MECHANISM, times=2), answer),
    "plot": lambda answer: plot.fisher(MECHANISM, answers=answer),
}


def failure(call):
    try:
        call()
    except Exception as error:
        return error
    finally:
        pyplot.close("all")


@pytest.mark.few(8)
@pytest.mark.parametrize("name", CALLS)
def test_no_error_shows_a_true_answer(name):
    for given, answer in GIVEN.items():
        error = failure(lambda answer=answer: CALLS[name](answer))
        if error is not None:
            assert isinstance(error, (ArgumentError, rb.ArgumentTypeError)), f"{given}: an error that nobody foresaw"
            assert SECRET not in f"{error} {error!r}", given
            assert error.__cause__ is None, given


LAW = MECHANISM.law(NUMBER + 0.25)
MISTAKEN = {
    "calibrate": lambda: rb.calibrate(noise=rb.Laplace, query=LAW, epsilon=1.0),
    "certify": lambda: rb.certify(LAW, epsilon=1.0),
    "choose": lambda: rb.choose(query=LAW, epsilon=1.0),
    "hockey_stick": lambda: rb.hockey_stick(LAW, 1.0, 1.0),
    "renyi": lambda: rb.renyi(1.0, LAW, 2.0),
    "Mechanism": lambda: rb.Mechanism(noise=LAW, query=QUERY),
    "Query": lambda: rb.Query(range=LAW, sensitivity=1.0),
    "scale": lambda: rb.Laplace(scale=LAW),
    "law of a law": lambda: MECHANISM.law(LAW),
    "event": lambda: MechanismEvent(mechanism=LAW),
    "two answers": lambda: MECHANISM.release(1.0, NUMBER),
    "a ledger": lambda: release(make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]}),
                                None, ledger=[NUMBER]),
    "data by place": lambda: release(None, None, np.array([NUMBER])),
    "quantile": lambda: LAW.quantile(2.0),
    "mass": lambda: LAW.mass(3.0, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKEN)
def test_a_law_in_the_wrong_place_does_not_tell_its_answer(name):
    error = failure(MISTAKEN[name])
    assert isinstance(error, (rb.RangeboundError, TypeError))
    assert SECRET not in f"{error} {LAW!r}"


def test_every_public_function_of_an_answer_is_tried():
    """A new method that takes a true answer must be in the list above."""
    found = set()
    for name in rb.__all__:
        made = getattr(rb, name)
        methods = [made, *(each for _, each in inspect.getmembers(made, callable))] if inspect.isclass(made) else [made]
        for each in methods:
            try:
                parameters = inspect.signature(each).parameters
            except (TypeError, ValueError):
                continue
            if {"answer", "answers", "location"} & parameters.keys():
                # A public class has some from that of all mechanisms, or of noise on a lattice.
                found.add(re.sub("LatticeMechanism|PrivateMechanism", name, each.__qualname__))
    unchecked = ("log_mass", "reach")  # which check nothing
    found = {each for each in found if not each.split(".")[-1].startswith("_") and not each.endswith(unchecked)}
    assert found <= CALLS.keys()
    assert len(found) > 5


def test_control_a_check_that_shows_its_value_is_found():
    with pytest.raises(ArgumentError, match=SECRET):
        arguments.reals("answer", GIVEN["a missing one"])
