"""The routes to a number of a pair: ball arithmetic, formulas over arrays, numerical integration."""

from __future__ import annotations

import numpy as np

import rangebound as rb
from rangebound.privacy.pairs.divergences import renyi_formula, stick_formula
from tests.crosscheck.compare import distance
from tests.matrix.quadrature import renyi_quadrature, stick_quadrature

# Doubles hold a normalised density to a few 1e-16, so the routes in doubles carry that much absolute error into a
# number that is a small difference. Below this size they are compared absolutely, 1e-9 times this size apart at most.
# A Renyi divergence is a difference of logarithms times order/(order - 1): its floor grows with them.
FLOOR = 3e-6
REL = 1e-9


def renyi_floor(p: rb.Law, q: rb.Law, order: float) -> float:
    """The size below which a Renyi divergence is compared absolutely."""
    return FLOOR * order / (order - 1.0) * (1.0 + max(abs(float(p.log_norm)), abs(float(q.log_norm))))


def stick_routes(p: rb.Law, q: rb.Law, epsilon: float) -> tuple[float, float, float]:
    """The hockey stick in ball arithmetic, by formula over arrays, and by quadrature."""
    formula = stick_formula(p.noise, p.shape, p.location[None], q.location[None], epsilon)
    return float(rb.hockey_stick(p, q, epsilon)), float(formula[0]), stick_quadrature(p, q, epsilon)


def renyi_routes(p: rb.Law, q: rb.Law, order: float) -> tuple[float, float, float]:
    """The Renyi divergence in ball arithmetic, by formula over arrays, and by quadrature."""
    formula = renyi_formula(p.noise, p.shape, p.location[None], q.location[None], order)
    return float(rb.renyi(p, q, order)), float(formula[0]), renyi_quadrature(p, q, order)


def spread(routes: tuple[float, float, float], floor: float = FLOOR) -> float:
    """How far the other routes are from the first, relative to it or to the floor."""
    return max(distance(other, routes[0], floor=floor) for other in routes[1:])


def same_route(routes: tuple[float, float, float], what: object, floor: float = FLOOR) -> None:
    """Fail unless all routes lead to one number."""
    assert not np.isnan(routes).any(), (what, routes)
    assert spread(routes, floor) <= REL, (what, routes, spread(routes, floor))
