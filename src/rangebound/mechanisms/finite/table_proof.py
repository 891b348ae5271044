"""Proofs of a claim about a table: every weight is compared with those of all neighbouring inputs, in whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol

from rangebound.errors import ArgumentError, CertificateInvalid, ClaimFalse, Undecided
from rangebound.mechanisms.finite.pair_numbers import delta_at, neighbours, stick_at, worst_pair
from rangebound.mechanisms.finite.weights import BINARY_PLACES, TOTAL, epsilon_private, exponential
from rangebound.privacy.claim import Claim
from rangebound.privacy.proof import Proof, Theorem
from rangebound.values.array_types import Integers
from rangebound.values.numeric import rounded_down

WORK = 400_000_000
"""Comparisons of two weights that the check of a claim with a delta may take: about ten seconds."""


class Weighted(Protocol):
    """What a proof needs of a table."""

    @property
    def inputs(self) -> tuple[float, ...]: ...

    @property
    def outputs(self) -> tuple[float, ...]: ...

    @property
    def weights(self) -> Integers: ...

    @property
    def reach(self) -> Integers: ...

    def epsilon(self, delta: float = 0.0) -> float: ...


def prove(table: Weighted, claim: Claim) -> Proof | None:
    """A proof of the claim, or None where it is not true (or closer to the truth than 160 binary places)."""
    return Proof(Theorem.ALL_WEIGHTS, BINARY_PLACES) if _holds(table, claim.ordinary()) else None


def check(table: Weighted, claim: Claim, proof: Proof) -> None:
    """Compare all weights again; raises CertificateInvalid where that does not prove the claim."""
    if proof.theorem is not Theorem.ALL_WEIGHTS:
        raise CertificateInvalid(f"theorem={proof.theorem.name}: does not apply to a table")
    if proof.bits != BINARY_PLACES or proof.cells:
        raise CertificateInvalid(f"bits={proof.bits}: must be {BINARY_PLACES}, without cells")
    if not _holds(table, claim.ordinary()):
        raise CertificateInvalid(f"{claim.terms}: not true of this table")


def refutation(table: Weighted, claim: Claim) -> ClaimFalse | Undecided:
    """What to raise about a claim that was not proved: a pair of inputs that refutes it.

    The pair is one of inputs, not of true answers: some neighbouring true answers go to them.
    """
    weights, reach = table.weights, table.reach
    bound, needs = exponential(Fraction(claim.epsilon)), table.epsilon(claim.delta)
    worst = stick_at(weights, neighbours(reach), bound)
    least = (worst.mass - Fraction(bound.lower + 1, 1 << BINARY_PLACES) * worst.other) / TOTAL
    if least <= Fraction(claim.delta):
        return Undecided(
            f"{claim.terms}: too close to the truth for {BINARY_PLACES} binary places. Claim a little more, such as "
            f"epsilon={needs}",
            lower=claim.epsilon,
            upper=needs,
        )
    i, j = worst_pair(weights, reach) if claim.pure else worst.pair
    pair, delta = (table.inputs[i], table.inputs[j]), rounded_down(least)
    lower = max(_below(needs), claim.epsilon)
    return ClaimFalse(
        f"{claim.terms}: not true of this table. Neighbouring true answers that go to the inputs {pair[0]} and "
        f"{pair[1]} need epsilon >= {lower} with that delta, or delta >= {delta} with that epsilon",
        pair=pair,
        epsilon=lower,
        delta=delta,
    )


def _holds(table: Weighted, claim: Claim) -> bool:
    epsilon = Fraction(claim.epsilon)
    if epsilon_private(table.weights, table.reach, epsilon):
        return True
    if claim.pure:
        return False
    pairs = 2 * int((table.reach - range(len(table.reach))).sum())
    if pairs * len(table.outputs) > WORK:
        raise ArgumentError(
            f"{claim.terms}: with a delta, {pairs} pairs of inputs are compared at {len(table.outputs)} outputs each, "
            f"and a check may take at most {WORK} comparisons"
        )
    return delta_at(table.weights, table.reach, epsilon) <= claim.delta


def _below(epsilon: float) -> float:
    """A number that the smallest epsilon, of which this is the next double above, is not below."""
    return math.nextafter(epsilon, 0.0) if math.isfinite(epsilon) else epsilon
