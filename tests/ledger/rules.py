"""Accounts of every rule in which a spend of epsilon 0.1 fits exactly so many times, for tests of faults."""

from fractions import Fraction

import pytest

from rangebound.gdp import epsilon_of_mu
from rangebound.ledger.amount import SCALE
from rangebound.ledger.book import Ledger
from rangebound.ledger.record import Account
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, PlainSum, RenyiFilter, Rule

TENTH = Cost(epsilon=0.1)
RULES: dict[str, Rule] = {"sum": PlainSum(), "gaussian": GaussianFilter(), "renyi": RenyiFilter(order=16)}
EVERY_RULE = [pytest.param(name, marks=[pytest.mark.long] if name == "renyi" else []) for name in RULES]


def open_for(ledger: Ledger, rule: str, spends: int, cost: Cost = TENTH, **words: str) -> Account:
    """Open the account "people", with a delta of 1e-6: `cost` fits exactly `spends` times, and no more."""
    room = RULES[rule].units(cost)[0] * (2 * spends + 1) // 2  # half a spend more than is used
    match RULES[rule]:
        case PlainSum():
            epsilon = cost.epsilon.fraction * spends
        case GaussianFilter() as found:
            delta = float((1 - found.spare.fraction) / 10**6)
            epsilon = Fraction(epsilon_of_mu(GaussianCost.of_units((room, 0)).mu, delta=delta))
        case RenyiFilter() as found:
            large = found.total(Cost(epsilon=100).epsilon, Cost(epsilon="1e-6").epsilon)
            epsilon = 100 - large.divergence.fraction + Fraction(room, SCALE)
    made = ledger.open_account("people", epsilon=epsilon, delta="1e-6", rule=RULES[rule], **words)
    assert made.total.units[0] // RULES[rule].units(cost)[0] == spends
    return made
