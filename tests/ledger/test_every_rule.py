"""Random charges in every kind of cost against accounts of every rule, beside sums in fractions done another way."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rangebound.errors import ArgumentTypeError, BudgetExceeded, RequestConflict
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import AnyCost, Cost, GaussianCost, GaussianFilter, PlainSum, RenyiCost, RenyiFilter
from tests.ledger.memory_store import memory_ledger

RULES = {"sum": PlainSum(), "gaussian": GaussianFilter(spare="0.5"), "renyi": RenyiFilter(order=16)}
ORDERS = (8, 16)
# As given, and so with more digits than an amount has. Pure epsilons are few: their mu is computed here once for each.
EPSILONS = [Fraction(each) for each in ("0", "1e-13", "0.05", "0.1", "0.3333333333333", "0.7", "1", "1.5")]
DELTAS = [Fraction(each) for each in ("0", "0", "1e-13", "1e-7", "0.0000003000001", "4e-7")]
numbers = st.integers(1, 10**13).map(lambda n: Fraction(n, 10**13))


@dataclass(frozen=True)
class Said:
    """A cost as it was written, from which the package makes one of its own."""

    kind: str
    first: Fraction
    second: Fraction = Fraction(0)

    def made(self) -> AnyCost:
        match self.kind:
            case "pure":
                return Cost(epsilon=self.first, delta=self.second)
            case "gaussian":
                return GaussianCost(mu=self.first, delta=self.second)
            case _:
                return RenyiCost(order=int(self.second), divergence=self.first)


said = st.one_of(
    st.builds(Said, st.just("pure"), st.sampled_from(EPSILONS[1:]), st.sampled_from(DELTAS)),
    st.builds(Said, st.just("gaussian"), numbers, st.sampled_from(DELTAS)),
    st.builds(Said, st.just("renyi"), numbers, st.sampled_from(ORDERS).map(Fraction)),
)


def ceiling(value: mpmath.mpf) -> Fraction:
    with mpmath.workdps(60):
        return Fraction(int(mpmath.ceil(value * 10**12)), 10**12)


def pure_square(epsilon: Fraction) -> Fraction:
    with mpmath.workdps(60):
        odds = mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        return ceiling((2 * mpmath.sqrt(2) * mpmath.erfinv(2 / (1 + odds) - 1)) ** 2)


def pure_divergence(epsilon: Fraction, order: int) -> Fraction:
    with mpmath.workdps(60):
        x = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        return ceiling(
            mpmath.log((mpmath.exp(order * x) + mpmath.exp((1 - order) * x)) / (1 + mpmath.exp(x))) / (order - 1)
        )


def upwards(value: Fraction) -> Fraction:
    return Fraction(math.ceil(value * 10**12), 10**12)


SQUARES = {each: pure_square(upwards(each)) for each in EPSILONS[1:]}
DIVERGENCES = {each: pure_divergence(upwards(each), 16) for each in EPSILONS[1:]}


def columns(rule: str, cost: Said) -> tuple[Fraction, Fraction] | None:
    """What a cost takes from the two columns of a rule; None where the rule cannot hold it."""
    match rule, cost.kind:
        case "sum", "pure":
            return upwards(cost.first), upwards(cost.second)
        case "gaussian", "gaussian":
            return upwards(cost.first**2), upwards(cost.second)
        case "gaussian", "pure":
            return SQUARES[cost.first], upwards(cost.second)
        case "renyi", "renyi" if cost.second == 16:
            return upwards(cost.first), Fraction(0)
        case "renyi", "pure" if not cost.second:
            return DIVERGENCES[cost.first], Fraction(0)
        case "renyi", "gaussian" if not cost.second:
            return upwards(upwards(cost.first**2) * 8), Fraction(0)
    return None


@dataclass
class Model:
    """What a ledger should do, in fractions."""

    left: dict[str, tuple[Fraction, Fraction]]
    known: dict[str, tuple[str, tuple[Fraction, Fraction]]] = field(default_factory=dict)

    def spend(self, rule: str, request: str, costs: list[Said]) -> str:
        charge = next((found for each in costs if (found := columns(rule, each)) is not None), None)
        if charge is None:
            return "refused"
        if request in self.known:
            return "again" if self.known[request] == (rule, charge) else "conflict"
        after = (self.left[rule][0] - charge[0], self.left[rule][1] - charge[1])
        if min(after) < 0:
            return "exceeded"
        self.left[rule] = after
        self.known[request] = (rule, charge)
        return "spent"


ERRORS = {ArgumentTypeError: "refused", RequestConflict: "conflict", BudgetExceeded: "exceeded"}


def attempt(ledger: Ledger, rule: str, request: str, costs: list[Said]) -> str:
    made = tuple(each.made() for each in costs)
    try:
        reservation = ledger.reserve(account=rule, request=request, cost=made if len(made) > 1 else made[0])
    except tuple(ERRORS) as error:
        return ERRORS[type(error)]
    assert reservation.cost in made
    return "spent" if reservation.seq == ledger.history()[-1].seq else "again"


def fresh() -> Ledger:
    ledger = memory_ledger()
    for name, rule in RULES.items():
        ledger.open_account(name, epsilon=5, delta="1e-6", rule=rule)
    return ledger


def left(ledger: Ledger, rule: str) -> tuple[Fraction, Fraction]:
    units = ledger.account(rule).remaining.units
    return Fraction(units[0], 10**12), Fraction(units[1], 10**12)


steps = st.lists(
    st.tuples(st.sampled_from(list(RULES)), st.sampled_from("abcdefgh"), st.lists(said, min_size=1, max_size=3)),
    max_size=25,
)


@pytest.mark.claim("charge")
@settings(max_examples=60, deadline=None)
@given(steps)
def test_any_sequence_of_charges_is_what_fractions_say(sequence):
    ledger = fresh()
    model = Model({rule: left(ledger, rule) for rule in RULES})
    for rule, request, costs in sequence:
        repeated, before = request in model.known, len(ledger.history())
        expected = model.spend(rule, request, costs)
        found = attempt(ledger, rule, request, costs)
        assert (found == "spent" and not repeated) == (expected == "spent"), (rule, costs)
        assert {found, expected} <= {"spent", "again"} or found == expected, (rule, costs)
        assert len(ledger.history()) - before == (expected == "spent")  # nothing is written but a charge
        assert {each: left(ledger, each) for each in RULES} == model.left
    ledger.verify()


def test_every_outcome_happens_with_every_rule():
    """The control for the one above: by hand, so that chance cannot leave one out."""
    fits = {"sum": Said("pure", EPSILONS[3]), "gaussian": Said("gaussian", EPSILONS[3])}
    fits["renyi"] = Said("renyi", EPSILONS[3], Fraction(16))
    other = {"sum": Said("gaussian", EPSILONS[3]), "gaussian": Said("renyi", EPSILONS[3], Fraction(16))}
    other["renyi"] = Said("pure", EPSILONS[3], Fraction(1, 10**7))
    for rule, cost in fits.items():
        ledger = fresh()
        model = Model({each: left(ledger, each) for each in RULES})
        large = Said(cost.kind, Fraction(9), cost.second)
        tries = [("a", [cost]), ("a", [large]), ("b", [large]), ("b", [other[rule]]), ("b", [other[rule], cost])]
        outcomes = [model.spend(rule, request, costs) for request, costs in tries]
        assert outcomes == ["spent", "conflict", "exceeded", "refused", "spent"]
        assert [attempt(ledger, rule, request, costs) for request, costs in tries] == outcomes
