"""Per-instance numbers: hidden, inert, refused as guarantees; Fisher information limits reconstruction."""

import copy
import json
import math
import operator
import pickle

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, MechanismEvent, SampledEvent, fisher_information
from rangebound.accounting.fisher_information import PerInstance
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError, ArgumentTypeError
from tests.accounting.mechanisms import free, gaussian, short

LEAK = PerInstance(0.123456, notion="epsilon of one record")


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r:>50}".format, lambda x: f"{[x]}", ascii])
def test_no_text_shows_the_number(show):
    assert "123" not in show(LEAK)
    assert "hidden" in show(LEAK)


NUMBERS = (float, int, bool, complex, abs, round, math.floor, math.exp, operator.index, operator.neg, np.asarray)


@pytest.mark.parametrize("use", [*NUMBERS, json.dumps, pickle.dumps, copy.copy, copy.deepcopy])
def test_it_is_no_number(use):
    with pytest.raises(TypeError):
        use(LEAK)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("other", [1.0, LEAK, np.float64(1.0), np.ones(3)], ids=repr)
def test_it_is_neither_added_nor_compared(name, other):
    for pair in ((LEAK, other), (other, LEAK)):
        with pytest.raises(TypeError):
            getattr(operator, name)(*pair)


def test_taking_it_out_is_an_explicit_act_and_two_of_them_do_not_compare_their_numbers():
    assert LEAK.reveal() == 0.123456
    assert not hasattr(LEAK, "__dict__")
    assert PerInstance(1.0, notion="a") != PerInstance(1.0, notion="a")
    assert LEAK in [LEAK]
    with pytest.raises(ArgumentError):
        LEAK.notion = "other"


def test_no_accountant_takes_it():
    m = gaussian(1.0)
    for call in (m.epsilon, m.delta, lambda x: accountant.epsilon(MechanismEvent(mechanism=m, times=2), x)):
        with pytest.raises(ArgumentTypeError):
            call(LEAK)
    with pytest.raises(ArgumentTypeError):
        rb.Query(range=rb.Interval(0, 1), sensitivity=LEAK)


@pytest.mark.parametrize("bad", [-1.0, math.nan, "1", None, True])
def test_bad_numbers_are_refused_without_being_shown(bad):
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        PerInstance(bad, notion="x")
    with pytest.raises(ArgumentTypeError):
        PerInstance(1.0, notion=3)
    with pytest.raises(ArgumentError) as error:
        PerInstance(-1.2345, notion="x")
    assert "1.2345" not in str(error.value)


FREE, CUT = gaussian(2.0), short(rb.Gaussian(scale=1.0), 4.0)


def test_information_adds():
    event = ComposedEvent(
        events=(MechanismEvent(mechanism=FREE, times=8), MechanismEvent(mechanism=CUT, times=3)), times=2
    )
    total = fisher_information.information(event, 1.5)
    assert isinstance(total, PerInstance)
    assert total.reveal() == pytest.approx(2 * (8 / 4 + 3 * CUT.fisher(1.5)), rel=1e-12)
    assert fisher_information.information(ComposedEvent(events=()), 1.0).reveal() == 0.0


def test_the_limit_is_met_by_the_mean_of_gaussian_releases_and_beaten_by_nothing():
    """Simulation: the average of n unbounded releases is unbiased and just as good as the limit says."""
    total = fisher_information.information(MechanismEvent(mechanism=FREE, times=25), 1.0)
    limit = fisher_information.smallest_deviation(total).reveal()
    means = np.random.default_rng(3).normal(1.0, 2.0, (40_000, 25)).mean(axis=1)
    assert limit == pytest.approx(0.4)
    assert means.std() == pytest.approx(limit, rel=0.02)


def test_a_batch_counts_for_its_members_only():
    random = np.random.default_rng(0)
    members = [np.flatnonzero(random.uniform(size=50) < 0.2).tolist() for _ in range(200)]
    values = random.uniform(0.0, 1.0, 200)
    totals = [each.reveal() for each in fisher_information.per_example(values, members, 50)]
    for example, total in enumerate(totals):
        exact = math.fsum(value for value, batch in zip(values, members, strict=True) if example in batch)
        assert exact <= total <= exact * (1.0 + 1e-12)


def test_the_ends():
    assert fisher_information.smallest_deviation(PerInstance(0.0, notion="x")).reveal() == math.inf
    assert fisher_information.smallest_deviation(PerInstance(math.inf, notion="x")).reveal() == 0.0
    edge = free(rb.TruncatedLaplacian(scale=1.0, limit=3.0))
    assert fisher_information.information(MechanismEvent(mechanism=edge), 1.0).reveal() == math.inf
    assert "nothing" in fisher_information.in_words(PerInstance(0.0, notion="x"))
    assert "no limit" in fisher_information.in_words(PerInstance(math.inf, notion="x"))
    # 1/sqrt(2.2499) is 0.66668...: to four digits the nearest is 0.6667, which would promise too much.
    for total, least in ((4.0, "0.5"), (2.2499, "0.6666")):
        assert fisher_information.in_words(PerInstance(total, notion="x")).endswith(f"at least {least}.")


def test_bad_input():
    with pytest.raises(ArgumentTypeError, match="per_example"):
        fisher_information.information(SampledEvent(mechanism=FREE, rate=0.5), 1.0)
    with pytest.raises(ArgumentError, match="finite"):
        fisher_information.information(MechanismEvent(mechanism=FREE), math.inf)
    for values, members, error in (
        ([1.0], [[0], [1]], ArgumentError),
        ([-1.0], [[0]], ArgumentError),
        ([1.0], [[9]], ArgumentError),
        ([1.0], [[0, 0]], ArgumentError),
        ([1.0], [[0.5]], ArgumentTypeError),
        ([math.nan], [[0]], ArgumentError),
    ):
        with pytest.raises(error):
            fisher_information.per_example(values, members, 3)
    with pytest.raises(ArgumentTypeError):
        fisher_information.smallest_deviation(25.0)
