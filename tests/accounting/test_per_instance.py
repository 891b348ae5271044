"""Per-instance numbers: hidden, inert, and refused wherever a guarantee is meant."""

from __future__ import annotations

import copy
import json
import math
import operator
import pickle

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import MechanismEvent
from rangebound.accounting.per_instance import PerInstance
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError, ArgumentTypeError

LEAK = PerInstance(0.123456, notion="epsilon of one record")


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r:>50}".format, lambda x: f"{[x]}", ascii])
def test_no_text_shows_the_number(show):
    assert "123" not in show(LEAK)
    assert "hidden" in show(LEAK)


def test_taking_it_out_is_an_explicit_act():
    assert LEAK.reveal() == 0.123456
    assert not hasattr(LEAK, "__dict__")


@pytest.mark.parametrize(
    "use",
    [
        float,
        int,
        bool,
        complex,
        abs,
        round,
        math.floor,
        math.exp,
        operator.index,
        operator.neg,
        lambda x: x + 1.0,
        lambda x: 1.0 + x,
        lambda x: x * 2,
        lambda x: x - x,
        lambda x: 1 / x,
        lambda x: x**2,
        lambda x: x < 1.0,
        lambda x: x <= 1.0,
        lambda x: sum([x, x]),
        lambda x: max(x, x),
        lambda x: sorted([x, x]),
        lambda x: np.float64(1.0) + x,
        lambda x: np.ones(3) * x,
        lambda x: np.asarray(x),
        json.dumps,
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
    ],
)
def test_it_is_no_number(use):
    with pytest.raises(TypeError):
        use(LEAK)


def test_no_accountant_takes_it():
    m = rb.Mechanism(
        noise=rb.Gaussian(scale=1.0), query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0), bounding=rb.UNBOUNDED
    )
    for call in (m.epsilon, m.delta, lambda x: accountant.epsilon(MechanismEvent(mechanism=m, times=2), x)):
        with pytest.raises(ArgumentTypeError):
            call(LEAK)
    with pytest.raises(ArgumentTypeError):
        rb.Query(range=rb.Interval(0, 1), sensitivity=LEAK)


def test_two_of_them_do_not_compare_their_numbers():
    assert PerInstance(1.0, notion="a") != PerInstance(1.0, notion="a")
    assert LEAK in [LEAK]
    with pytest.raises(ArgumentError):
        LEAK.notion = "other"


@pytest.mark.parametrize("bad", [-1.0, math.nan, "1", None, True])
def test_bad_numbers_are_refused_without_being_shown(bad):
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        PerInstance(bad, notion="x")
    with pytest.raises(ArgumentTypeError):
        PerInstance(1.0, notion=3)
    with pytest.raises(ArgumentError) as error:
        PerInstance(-1.2345, notion="x")
    assert "1.2345" not in str(error.value)
