"""Accounts of every rule in which a spend of epsilon 0.1 fits exactly as often as asked, for tests of faults."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from rangebound.errors import RangeboundError
from rangebound.ledger.amount import SCALE
from rangebound.ledger.book import Ledger
from rangebound.ledger.record import Account, Reservation
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, PlainSum, RenyiFilter, Rule
from rangebound.privacy.gdp import epsilon_of_mu

TENTH = Cost(epsilon=0.1)
RULES: dict[str, Rule] = {"sum": PlainSum(), "gaussian": GaussianFilter(), "renyi": RenyiFilter(order=16)}
EVERY_RULE = ["sum", pytest.param("gaussian", marks=pytest.mark.slow), pytest.param("renyi", marks=pytest.mark.long)]


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


def reserve(ledger: Ledger, name: str) -> Reservation:
    return ledger.reserve(account="people", request=name, cost=TENTH)


def release(ledger: Ledger, name: str, compute: Callable[[Cost], bytes] = lambda _: b"x") -> bytes:
    return ledger.release(account="people", request=name, cost=TENTH, compute=compute)


def never(_: Cost) -> bytes:
    pytest.fail("computed")


def edit(path: Path, *statements: str) -> None:
    """Change the file of a ledger with SQL, past the ledger."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def opens(place: Path | str) -> bool:
    """Whether a ledger opens, with nothing spent: its head stays where it is."""
    try:
        Ledger.open(place).close()
    except RangeboundError:
        return False
    return True
