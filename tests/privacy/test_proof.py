"""Proofs: what they prove holds, what is false finds none, and a proof with a hole is refused."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import rangebound as rb
from rangebound.errors import CertificateInvalid
from rangebound.privacy.branch_and_bound import Task, bound
from rangebound.privacy.counterexample import excess
from rangebound.privacy.proof import Proof, Theorem, _theorems, check, prove
from rangebound.privacy.worst import worst_delta, worst_loss
from rangebound.values.ball import precision
from tests.matrix.cells import ALLOWED, Cell

CELLS = [cell for cell in ALLOWED if cell.range == "equal" and cell.noise != "truncated_laplacian"]


@pytest.mark.few(6)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_true_claim_is_proved_and_a_false_one_is_not(cell):
    setting = cell.mechanism().setting
    epsilon = 0.5
    true = worst_delta(setting, epsilon)
    true_claim = rb.Claim(epsilon=epsilon, delta=true.upper * (1.0 + 1e-6))
    false_claim = rb.Claim(epsilon=epsilon, delta=true.lower * (1.0 - 1e-6))
    proof = prove(setting, true_claim)
    check(setting, true_claim, proof)
    assert prove(setting, false_claim) is None
    with pytest.raises(CertificateInvalid):
        check(setting, false_claim, proof)
    if cell.noise == "laplace":  # a pure claim
        true = worst_loss(setting)
        pure = prove(setting, rb.Claim(epsilon=true.upper * (1.0 + 1e-9)))
        assert pure.theorem in (Theorem.POST_PROCESSING, Theorem.LOSS_AT_ENDS, Theorem.LOSS_ON_CELLS)
        assert prove(setting, rb.Claim(epsilon=true.lower * (1.0 - 1e-9))) is None


def proved(cell):
    setting = cell.mechanism().setting
    claim = rb.Claim(epsilon=0.5, delta=worst_delta(setting, 0.5).upper * (1.0 + 1e-4))
    proof = prove(setting, claim)
    assert proof.theorem is Theorem.DELTA_ON_CELLS
    return setting, claim, proof


SEARCHED = [c for c in CELLS if c.bounding == "truncate" and c.support in ("interval", "union", "upper_half_line")]


@pytest.mark.few(3)
@pytest.mark.parametrize("cell", SEARCHED, ids=str)
def test_the_cells_of_a_proof_cover_every_line_and_each_is_bounded_and_true_at_random_positions(cell):
    setting, claim, proof = proved(cell)
    for number, (_, line) in enumerate(setting.pairs()):
        mine = sorted((start, end) for task, start, end in proof.cells if task == number)
        assert mine[0][0] <= line.start
        assert mine[-1][1] >= line.end
        assert all(b >= c for (_, b), (c, _) in itertools.pairwise(mine))
    check(setting, claim, proof)
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


def test_a_proof_with_a_hole_strange_cells_or_bits_or_by_another_theorem_is_refused():
    setting, claim, proof = proved(Cell("laplace", "truncate", "interval", "equal"))
    cells, nan = proof.cells, float("nan")
    wrong = [{"cells": cells[:i] + cells[i + 1 :]} for i in range(len(cells))]
    wrong += [{"cells": ((0, *each),)} for each in ((nan, nan), (3.0, -1.0))]
    wrong += [{"cells": each} for each in ((), ((7, -1.0, 2.0),), (*cells, (9, 0.0, 1.0)))]
    wrong += [{"bits": bits} for bits in (0, -1, 8, 10**6)]
    wrong += [{"theorem": each} for each in (Theorem.POST_PROCESSING, Theorem.DELTA_AT_PEAK, Theorem.LOSS_AT_ENDS)]
    for changes in wrong:
        with pytest.raises(CertificateInvalid, match="bits" if "bits" in changes else None):
            check(setting, claim, replace(proof, **changes))
    with pytest.raises(CertificateInvalid):  # of another mechanism
        check(replace(setting, noise=rb.Laplace(scale=0.4)), claim, proof)


def test_a_false_claim_is_not_proved_by_one_cell_of_many_points_about_the_peak_of_delta():
    support = rb.Grid(step=1 / 256, within=rb.Interval(0, 6))
    query = rb.Query(range=rb.Interval(0.135, 1.185), sensitivity=1.0)
    setting = rb.Mechanism(noise=rb.Laplace(scale=0.5), query=query, support=support).setting
    cells = tuple((number, line.start, line.end) for number, (_, line) in enumerate(setting.pairs()))
    proof, true = Proof(Theorem.DELTA_ON_CELLS, 128, cells), worst_delta(setting, 2.0)
    check(setting, rb.Claim(epsilon=2.0, delta=1.01 * true.upper), proof)
    with pytest.raises(CertificateInvalid, match="not proved"):
        check(setting, rb.Claim(epsilon=2.0, delta=0.998 * true.lower), proof)


def test_windows_are_no_theorem_where_they_would_take_more_steps_than_allowed():
    """Whether it is the support or the range of the answers that has this many spans."""
    few, many = rb.Interval(0, 1000), rb.Union(*((2 * k, 2 * k + 1) for k in range(200)))
    claim = rb.Claim(epsilon=0.5, delta=1e-3)
    for support, answers, expected in ((few, few, True), (many, few, False), (few, many, False)):
        query = rb.Query(range=answers, sensitivity=1.0)
        setting = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=query, support=support).setting
        assert (Theorem.DELTA_ON_WINDOWS in _theorems(setting, claim)) is expected
