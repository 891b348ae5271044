"""Certificates over the cube: what `calibrate` found is proved at its own target, and what is false is refuted."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import rangebound as rb
from rangebound.privacy import proof
from rangebound.privacy.branch_and_bound import HIGH, LOW, bound
from rangebound.privacy.proof import Theorem, prove
from rangebound.values.ball import precision
from tests.crosscheck.oracle import oracle
from tests.matrix.cells import ALLOWED, NOISES, SUPPORTS, Cell

INF = math.inf


def parts(m: rb.Mechanism) -> dict[str, Any]:
    return {"noise": type(m.noise), "query": m.query, "support": m.support, "bounding": m.bounding}


# Gaussian noise seen from the line, on a union and on intervals: seven of these ended undecided.
@pytest.mark.few(12)
@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("cell", ALLOWED, ids=str)
def test_what_was_calibrated_is_certified_at_its_own_target(cell: Cell, delta: float) -> None:
    try:
        m = rb.calibrate(**parts(cell.mechanism()), epsilon=1.0, delta=delta)
    except rb.Unsatisfiable:  # pure privacy by noise that has an edge or a tail, or a target that every scale meets
        assert cell.noise == "truncated_laplacian" or (cell.noise, delta) == ("gaussian", 0.0) or cell.range != "equal"
        return
    certificate = rb.certify(m, 1.0, delta)
    assert rb.verify(certificate.to_json()) == certificate


@pytest.mark.slow
def test_neither_order_of_a_series_is_enough_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: with the high order alone, as it was, the proof of a wide cell does not hold when it is checked."""
    m = Cell("gaussian", "truncate", "union", "line").mechanism()
    m = rb.calibrate(**parts(m), epsilon=1.0, delta=1e-3)
    assert m.claim is not None
    found = prove(m.setting, m.claim)
    assert found is not None
    assert found.theorem is Theorem.DELTA_ON_CELLS
    with precision(found.bits):
        tasks = proof._tasks(m.setting, m.claim)
        held = {
            order: [bound(tasks[task], a, b, 1e-3, order=order) <= 1e-3 for task, a, b in found.cells]
            for order in (LOW, HIGH)
        }
    assert not all(held[HIGH])
    assert all(low or high for low, high in zip(held[LOW], held[HIGH], strict=True))
    monkeypatch.setattr(proof, "LOW", HIGH)
    monkeypatch.setattr(proof, "_HALVINGS", 0)  # halves of a wide cell hold at either order
    assert not proof._holds(m.setting, m.claim, found)


def random_mechanism(seed: int) -> rb.Mechanism:
    """A cell of the cube with its scale, its sensitivity and its place changed, or a union of many spans."""
    generator = np.random.default_rng(seed)
    if generator.uniform() < 0.25:
        ends = np.cumsum(generator.uniform(0.1, 1.0, 2 * int(generator.integers(2, 80)))).tolist()
        spans = list(zip(ends[::2], ends[1::2], strict=True))
        answers: Any = rb.Union(*spans) if generator.uniform() < 0.5 else rb.Interval(ends[0] - 1.0, ends[-1])
        query = rb.Query(range=answers, sensitivity=float(generator.uniform(0.2, 2.0)))
        return rb.Mechanism(
            noise=rb.Laplace(scale=float(generator.uniform(0.3, 3))), query=query, support=rb.Union(*spans)
        )
    cell = ALLOWED[int(generator.integers(len(ALLOWED)))]
    support, ranges = SUPPORTS[cell.support]
    noise = dataclasses.replace(NOISES[cell.noise], scale=float(generator.uniform(0.5, 1.5)))
    query = rb.Query(range=ranges[cell.range], sensitivity=float(generator.uniform(0.2, 1.5)))
    return rb.Mechanism(noise=noise, query=query, support=support, bounding=cell.mechanism().bounding)


@pytest.mark.few(8)
@pytest.mark.parametrize("seed", [*range(24), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(24, 50))])
def test_every_counterexample_is_one(seed: int) -> None:
    """Claims below the truth, by as little as one part in a million: the pair breaks the claim, in 80 digits."""
    m, generator = random_mechanism(seed), np.random.default_rng(seed + 10_000)
    epsilon = float(generator.choice([0.05, 0.3, 1.0]))
    less = 1.0 - 10.0 ** -float(generator.uniform(0.5, 6.0))
    delta = m.delta(epsilon) * less if seed % 2 else 0.0
    if delta == 0.0:
        epsilon = m.epsilon() * less if math.isfinite(m.epsilon()) else 5.0
    if epsilon == 0.0:  # truncated Laplace noise beside its support: the answer changes nothing, and no claim is false
        assert rb.verify(rb.certify(m, 1e-12, 0.0).to_json()).epsilon == 1e-12
    else:
        refuted(m, epsilon, delta)


def refuted(m: rb.Mechanism, epsilon: float, delta: float) -> None:
    with pytest.raises(rb.ClaimFalse) as caught:
        rb.certify(m, epsilon, delta)
    found, true = caught.value, oracle(m)
    a, b = found.pair
    assert all(any(low <= x <= high for low, high in m.query.range.spans) for x in (a, b))
    assert abs(Fraction(a) - Fraction(b)) <= Fraction(m.query.sensitivity)
    limit = rb.Claim(epsilon=epsilon, delta=delta).limit
    assert (true.renyi(a, b, INF) if delta == 0.0 else true.stick(a, b, epsilon)) > limit
    assert found.delta <= true.stick(a, b, epsilon)
    if delta > 0.0 and math.isfinite(found.epsilon):
        assert true.stick(a, b, found.epsilon) >= delta
