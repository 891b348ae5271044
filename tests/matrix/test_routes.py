"""Three routes to every pair number of every cell, in both directions, lead to one number."""

from __future__ import annotations

import pytest

import rangebound as rb
from tests.matrix.cells import Cell, every_cell, places
from tests.matrix.routes import renyi_floor, renyi_routes, same_route, spread, stick_routes

PAIRS = 4


@every_cell
def test_hockey_stick_by_three_routes(cell: Cell) -> None:
    mechanism = cell.mechanism()
    for i, (a, b) in enumerate(places(mechanism, 2 * PAIRS, seed=11).reshape(-1, 2)):
        epsilon = (0.02, 0.2, 0.9, 2.5)[i % 4]
        for p, q in ((a, b), (b, a)):
            same_route(stick_routes(mechanism.law(p), mechanism.law(q), epsilon), (p, q, epsilon))


@every_cell
def test_renyi_by_three_routes(cell: Cell) -> None:
    mechanism = cell.mechanism()
    for i, (a, b) in enumerate(places(mechanism, 2 * PAIRS, seed=12).reshape(-1, 2)):
        order = (1.1, 2.0, 6.5, 30.0)[i % 4]
        for p, q in ((a, b), (b, a)):
            laws = mechanism.law(p), mechanism.law(q)
            same_route(renyi_routes(*laws, order), (p, q, order), renyi_floor(*laws, order))


@every_cell
def test_a_law_compared_with_itself_gives_nothing_away(cell: Cell) -> None:
    mechanism = cell.mechanism()
    law = mechanism.law(places(mechanism, 1, seed=13)[0])
    assert stick_routes(law, law, 0.0)[:2] == (0.0, 0.0)
    assert renyi_routes(law, law, 2.0)[:2] == (0.0, 0.0)


def test_the_comparison_catches_a_misprint() -> None:
    """A control: hu2024's eq. 6 leaves out a normaliser; the other routes do not agree with that."""
    mechanism = Cell("gaussian", "truncate", "interval", "equal").mechanism()
    p, q = mechanism.law(-0.5), mechanism.law(0.5)
    right = renyi_routes(p, q, 2.0)
    untruncated = 2.0 * 1.0 / (2.0 * mechanism.noise.scale**2)
    assert spread((untruncated, *right[1:])) > 1e-3
    with pytest.raises(AssertionError):
        same_route((untruncated, *right[1:]), "misprint")


def test_the_comparison_catches_one_wrong_direction() -> None:
    """A control: on a half-line the two directions differ, and exchanging them is caught."""
    mechanism = rb.Mechanism(
        noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 5), sensitivity=1.0), support=rb.Interval(0, 5)
    )
    p, q = mechanism.law(0.0), mechanism.law(1.0)
    forward, backward = stick_routes(p, q, 0.5), stick_routes(q, p, 0.5)
    with pytest.raises(AssertionError):
        same_route((forward[0], *backward[1:]), "exchanged")
