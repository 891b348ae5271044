"""Proofs: what they prove holds, what is false finds none, and a proof with a hole is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import rangebound as rb
from rangebound.ball import precision
from rangebound.errors import CertificateInvalid
from rangebound.privacy.counterexample import excess
from rangebound.privacy.proof import Proof, Theorem, _theorems, check, prove
from rangebound.privacy.search.cell_bound import Task, bound
from rangebound.privacy.setting import Setting
from rangebound.privacy.worst import worst_delta, worst_loss
from tests.matrix.cells import ALLOWED, Cell

CELLS = [cell for cell in ALLOWED if cell.range == "equal" and cell.noise != "truncated_laplacian"]


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_true_claim_is_proved_and_a_false_one_is_not(cell: Cell) -> None:
    setting = cell.mechanism().setting
    epsilon = 0.5
    true = worst_delta(setting, epsilon)
    true_claim = rb.Claim(epsilon=epsilon, delta=true.upper * (1.0 + 1e-6))
    false_claim = rb.Claim(epsilon=epsilon, delta=true.lower * (1.0 - 1e-6))
    proof = prove(setting, true_claim)
    assert proof is not None
    check(setting, true_claim, proof)
    assert prove(setting, false_claim) is None
    with pytest.raises(CertificateInvalid):
        check(setting, false_claim, proof)


@pytest.mark.parametrize("cell", [c for c in CELLS if c.noise == "laplace"], ids=str)
def test_a_pure_claim(cell: Cell) -> None:
    setting = cell.mechanism().setting
    true = worst_loss(setting)
    proof = prove(setting, rb.Claim(epsilon=true.upper * (1.0 + 1e-9)))
    assert proof is not None
    assert proof.theorem in (Theorem.POST_PROCESSING, Theorem.LOSS_AT_ENDS, Theorem.LOSS_ON_CELLS)
    assert prove(setting, rb.Claim(epsilon=true.lower * (1.0 - 1e-9))) is None


def proved(cell: Cell) -> tuple[Setting, rb.Claim, Proof]:
    """A setting, a claim at epsilon 1/2 that is true of it, and its proof on cells."""
    setting = cell.mechanism().setting
    claim = rb.Claim(epsilon=0.5, delta=worst_delta(setting, 0.5).upper * (1.0 + 1e-4))
    proof = prove(setting, claim)
    assert proof is not None
    assert proof.theorem is Theorem.DELTA_ON_CELLS
    return setting, claim, proof


SEARCHED = [c for c in CELLS if c.bounding == "truncate" and c.support in ("interval", "union", "upper_half_line")]


@pytest.mark.parametrize("cell", SEARCHED, ids=str)
def test_the_cells_of_a_proof_cover_every_line(cell: Cell) -> None:
    setting, claim, proof = proved(cell)
    for number, (_, line) in enumerate(setting.pairs()):
        mine = sorted((start, end) for task, start, end in proof.cells if task == number)
        assert mine[0][0] <= line.start
        assert mine[-1][1] >= line.end
        assert all(b >= c for (_, b), (c, _) in itertools.pairwise(mine))
    check(setting, claim, proof)


@pytest.mark.parametrize("cell", SEARCHED, ids=str)
def test_every_cell_of_a_proof_is_bounded_and_true_at_random_positions(cell: Cell) -> None:
    setting, claim, proof = proved(cell)
    mechanism = cell.mechanism()
    generator = np.random.default_rng(101)
    with precision(proof.bits):
        pairs = setting.pairs()
        tasks = [Task(excess(side.noise, side.shape, claim), line) for side, line in pairs]
        for task, start, end in proof.cells:
            assert bound(tasks[task], start, end, claim.limit) <= claim.limit
    for _ in range(20):
        p = float(np.clip(generator.uniform(-2.0, 3.0), *mechanism.query.range.hull.__dict__.values()))
        q = float(mechanism.query.clip(p + generator.uniform(-1.0, 1.0)))
        if abs(p - q) <= 1.0 and p == float(mechanism.query.clip(p)):
            assert rb.hockey_stick(mechanism.law(p), mechanism.law(q), 0.5) <= claim.delta


def test_a_proof_with_a_hole_is_refused() -> None:
    setting, claim, proof = proved(Cell("laplace", "truncate", "interval", "equal"))
    for i in range(len(proof.cells)):
        holed = replace(proof, cells=proof.cells[:i] + proof.cells[i + 1 :])
        with pytest.raises(CertificateInvalid):
            check(setting, claim, holed)


def test_a_proof_with_strange_cells_is_refused() -> None:
    setting, claim, proof = proved(Cell("laplace", "truncate", "interval", "equal"))
    nan = float("nan")
    for cells in ((), ((0, nan, nan),), ((0, 3.0, -1.0),), ((7, -1.0, 2.0),), (*proof.cells, (9, 0.0, 1.0))):
        with pytest.raises(CertificateInvalid):
            check(setting, claim, replace(proof, cells=cells))


def test_a_proof_for_another_mechanism_or_by_another_theorem_is_refused() -> None:
    setting, claim, proof = proved(Cell("laplace", "truncate", "interval", "equal"))
    other = replace(setting, noise=rb.Laplace(scale=0.4))
    with pytest.raises(CertificateInvalid):
        check(other, claim, proof)
    for theorem in (Theorem.POST_PROCESSING, Theorem.DELTA_AT_PEAK, Theorem.LOSS_AT_ENDS):
        with pytest.raises(CertificateInvalid):
            check(setting, claim, replace(proof, theorem=theorem))


@pytest.mark.parametrize("bits", [0, -1, 8, 10**6])
def test_a_precision_out_of_bounds_is_refused(bits: int) -> None:
    setting, claim, proof = proved(Cell("laplace", "truncate", "interval", "equal"))
    with pytest.raises(CertificateInvalid, match="bits"):
        check(setting, claim, replace(proof, bits=bits))


def test_windows_are_no_theorem_where_they_would_take_more_steps_than_allowed() -> None:
    """Whether it is the support or the range of the answers that has so many spans."""
    few, many = rb.Interval(0, 1000), rb.Union(*((2 * k, 2 * k + 1) for k in range(200)))
    claim = rb.Claim(epsilon=0.5, delta=1e-3)
    for support, answers, expected in ((few, few, True), (many, few, False), (few, many, False)):
        query = rb.Query(range=answers, sensitivity=1.0)
        setting = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=query, support=support).setting
        assert (Theorem.DELTA_ON_WINDOWS in _theorems(setting, claim)) is expected
