"""The rules that add costs up: what their totals are, and what they refuse."""

import mpmath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rangebound.accounting.per_instance import PerInstance
from rangebound.errors import ArgumentError, ArgumentTypeError, Unsatisfiable
from rangebound.ledger.amount import LARGEST, SCALE, Amount, rounded_down, rounded_up
from rangebound.ledger.rule import Cost, PlainSum, RenyiCost, RenyiFilter, rule_from_dict


def total(order, epsilon, delta):
    return RenyiFilter(order=order).total(rounded_down("epsilon", epsilon), rounded_down("delta", delta)).divergence


def exact_total(order, epsilon, delta):
    with mpmath.workdps(60):
        a, limit, slack = mpmath.mpf(order), mpmath.mpf(epsilon), mpmath.mpf(delta)
        return limit - mpmath.log((a - 1) / a) + (mpmath.log(slack) + mpmath.log(a)) / (a - 1)


@given(st.integers(2, 10**6), st.integers(1, 10**4), st.integers(1, 12))
def test_the_renyi_total_is_the_conversion_rounded_down(order, epsilon, digits):
    truth = exact_total(order, epsilon, f"1e-{digits}")
    assume(truth > mpmath.mpf("1e-11"))
    found = total(order, epsilon, f"1e-{digits}")
    with mpmath.workdps(60):
        assert 0 <= truth * SCALE - found.units < 1


@given(st.integers(1, 10**9), st.integers(1, 10**4))
def test_the_total_of_an_order_close_to_one_is_rounded_down(above, epsilon):
    """Close to 1 the parts of a total are large and cancel; a delta near 1 leaves a positive one."""
    order = f"1.{above:012d}"
    truth = exact_total(order, epsilon, "0.999999999999")
    assume(mpmath.mpf("1e-11") < truth < 10**6)
    found = total(order, epsilon, "0.999999999999")
    with mpmath.workdps(60):
        assert 0 <= truth * SCALE - found.units < 1


@given(st.integers(2, 200), st.integers(1, 12))
def test_a_total_spent_in_full_keeps_the_promise(order, digits):
    """The conversion the other way round: the total, turned into epsilon, is not above the promise."""
    units = total(order, 50, f"1e-{digits}").units
    with mpmath.workdps(60):
        a, slack = mpmath.mpf(order), mpmath.mpf(f"1e-{digits}")
        back = mpmath.mpf(units) / SCALE + mpmath.log((a - 1) / a) - (mpmath.log(slack) + mpmath.log(a)) / (a - 1)
        assert back <= 50
        over = back + mpmath.mpf(1) / SCALE
        assert over > 50  # the control: one unit more breaks it


def test_an_order_that_leaves_nothing_is_refused():
    with pytest.raises(Unsatisfiable, match="larger order"):
        total(2, 1, "1e-6")


def test_a_total_beyond_the_largest_amount_is_the_largest_amount():
    assert exact_total(2, LARGEST, "0.999999") > LARGEST
    assert total(2, LARGEST, "0.999999").units == LARGEST * SCALE


def test_a_filter_needs_a_delta():
    with pytest.raises(ArgumentError, match="delta=0"):
        total(8, 1, 0)


@pytest.mark.parametrize("order", [1, 0.5, "1.0000000000001", "0", -2, float("inf"), float("nan"), 10**7])
def test_a_bad_order_is_refused(order):
    for make in (lambda: RenyiFilter(order=order), lambda: RenyiCost(order=order, divergence=1)):
        with pytest.raises(ArgumentError, match=r"^order="):
            make()


class Pretender:
    """Stands for a number that holds for one database only."""

    epsilon = Amount(units=1)
    delta = Amount(units=0)
    units = (1, 0)

    def __float__(self) -> float:
        return 0.1


class FloatPerInstance(float):
    pass


class CostPerInstance(Cost):
    pass


@pytest.mark.parametrize(
    "value", [Pretender(), PerInstance(0.1, notion="epsilon"), FloatPerInstance(0.1), True, None, [1]]
)
def test_no_cost_takes_what_is_not_an_exact_amount(value):
    for make in (
        lambda: Cost(epsilon=value),
        lambda: Cost(epsilon=1, delta=value),
        lambda: RenyiCost(order=2, divergence=value),
        lambda: RenyiCost(order=value, divergence=1),
    ):
        with pytest.raises(ArgumentTypeError):
            make()


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        (PlainSum(), RenyiCost(order=2, divergence=1)),
        (PlainSum(), Pretender()),
        (PlainSum(), PerInstance(0.1, notion="epsilon")),
        (PlainSum(), CostPerInstance(epsilon=1)),
        (PlainSum(), 0.1),
        (RenyiFilter(order=2), Cost(epsilon=1)),
        (RenyiFilter(order=2), RenyiCost(order=3, divergence=1)),
        (RenyiFilter(order=2), RenyiCost(order="2.000000000001", divergence=1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_rule_takes_only_its_own_costs(rule, cost):
    with pytest.raises(ArgumentTypeError, match=r"^cost="):
        rule.units(cost)


@pytest.mark.parametrize("rule", [PlainSum(), RenyiFilter(order="1.5"), RenyiFilter(order=64)])
def test_a_rule_is_read_back(rule):
    assert rule_from_dict(rule.to_dict()) == rule


@pytest.mark.parametrize("data", [{}, {"rule": "odometer"}, {"rule": "sum", "order": "2"}, {"rule": "renyi"}])
def test_an_unknown_rule_is_refused(data):
    with pytest.raises(ArgumentError, match=r"^rule="):
        rule_from_dict(data)


def test_costs_print_exactly():
    assert str(Cost(epsilon=0.1, delta=1e-9)) == "epsilon 0.1, delta 0.000000001"
    assert Cost(epsilon="0.5").to_dict() == {"epsilon": "0.5", "delta": "0"}
    assert RenyiCost(order=2.5, divergence=rounded_up("x", "0.5")).to_dict() == {"order": "2.5", "divergence": "0.5"}
