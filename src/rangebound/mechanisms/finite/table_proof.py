"""Proofs of a claim about a table: every weight is compared with those of all neighbouring inputs, in whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction

from rangebound.errors import ArgumentError, CertificateInvalid, ClaimFalse, Undecided
from rangebound.mechanisms.finite.pair_numbers import delta_at, neighbours, stick_at, worst_pair
from rangebound.mechanisms.finite.weights import BINARY_PLACES, TOTAL, epsilon_private, exponential
from rangebound.privacy.proof import Proof, Theorem
from rangebound.privacy.setting import Claim
from rangebound.values.array_types import Integers
from rangebound.values.numeric import rounded_down

WORK = 400_000_000
"""Comparisons of two weights that the check of a claim with a delta may take: about ten seconds."""


def check(weights: Integers, reach: Integers, claim: Claim, proof: Proof) -> None:
    """Compare all weights again; raises CertificateInvalid where that does not prove the claim."""
    if proof.theorem is not Theorem.ALL_WEIGHTS:
        raise CertificateInvalid(f"theorem={proof.theorem.name}: does not apply to a table")
    if proof.bits != BINARY_PLACES or proof.cells:
        raise CertificateInvalid(f"bits={proof.bits}: must be {BINARY_PLACES}, without cells")
    if not holds(weights, reach, claim):
        raise CertificateInvalid(f"{claim.terms}: not true of this table")


def refutation(
    weights: Integers, reach: Integers, inputs: tuple[float, ...], claim: Claim, needs: float
) -> ClaimFalse | Undecided:
    """What to raise about a claim that was not proved, where the table `needs` that epsilon: a pair that refutes it.

    The pair is one of inputs, not of true answers: some neighbouring true answers go to them.
    """
    bound = exponential(Fraction(claim.epsilon))
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
    pair, delta = (inputs[i], inputs[j]), rounded_down(least)
    # Of the smallest epsilon this is the next double above, so it is not below the one before.
    lower = max(math.nextafter(needs, 0.0) if math.isfinite(needs) else needs, claim.epsilon)
    return ClaimFalse(
        f"{claim.terms}: not true of this table. Neighbouring true answers that go to the inputs {pair[0]} and "
        f"{pair[1]} need epsilon >= {lower} with that delta, or delta >= {delta} with that epsilon",
        pair=pair,
        epsilon=lower,
        delta=delta,
    )


def holds(weights: Integers, reach: Integers, claim: Claim) -> bool:
    """Whether a claim is true; False where it is closer to the truth than 160 binary places."""
    claim = claim.ordinary()
    epsilon = Fraction(claim.epsilon)
    if epsilon_private(weights, reach, epsilon):
        return True
    if claim.pure:
        return False
    pairs = 2 * int((reach - range(len(reach))).sum())
    if pairs * weights.shape[1] > WORK:
        raise ArgumentError(
            f"{claim.terms}: with a delta, {pairs} pairs of inputs are compared at {weights.shape[1]} outputs each, "
            f"and a check may take at most {WORK} comparisons"
        )
    return delta_at(weights, reach, epsilon) <= claim.delta
