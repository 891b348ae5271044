"""What is said of a claim that was not proved: a pair that refutes it, or the numbers between which the truth lies."""

from __future__ import annotations

import math

from rangebound.errors import ClaimFalse, Undecided
from rangebound.privacy.claim import Claim, Notion
from rangebound.privacy.counterexample import breaks, finite_pair, pair_delta, pair_numbers
from rangebound.privacy.metric import steepest_pair, worst_score
from rangebound.privacy.proof import WORK
from rangebound.privacy.setting import Setting
from rangebound.privacy.worst import worst_epsilon, worst_under
from rangebound.values.ball import ball, down, up

_IN_TIME = f" (a proof counts only if its check takes at most {WORK} steps, about ten seconds)"


def refutation(setting: Setting, claim: Claim) -> ClaimFalse | Undecided:
    """What to raise about a claim that was not proved: a pair that refutes it, or the bounds of the truth."""
    if claim.notion is Notion.METRIC:
        return _not_metric(setting, claim)
    pair = finite_pair(setting, worst_under(setting, claim).pair, claim)
    if breaks(setting, pair, claim):  # a counterexample is checked before it is raised
        needs = pair_numbers(setting, pair, claim)
        return ClaimFalse(
            f"{claim.terms}: not true of this mechanism. The true answers {pair[0]} and {pair[1]} "
            f"need epsilon >= {needs[0]} with that delta, or delta >= {needs[1]} with that epsilon",
            pair=pair,
            epsilon=needs[0],
            delta=needs[1],
        )
    true_epsilon = worst_epsilon(setting, claim.delta)
    return Undecided(
        f"{claim.terms}: neither proved nor refuted; the truth at this delta lies between epsilon "
        f"{true_epsilon.lower} and {true_epsilon.upper}. Claim a little more, such as {safe_digits(true_epsilon.upper)}"
        f"{_IN_TIME}",
        lower=true_epsilon.lower,
        upper=true_epsilon.upper,
    )


def _not_metric(setting: Setting, claim: Claim) -> ClaimFalse | Undecided:
    """What to say of a metric claim that was not proved: a pair that refutes it, or between what the truth lies."""
    (a, b), needs = steepest_pair(setting)
    if breaks(setting, (a, b), claim):
        allowed = claim.epsilon * abs(a - b) / setting.sensitivity * (1.0 + 1e-12)
        return ClaimFalse(
            f"{claim.terms}: not true of this mechanism. The true answers {a} and {b} need "
            f"epsilon >= {needs} for each sensitivity of their distance",
            pair=(a, b),
            epsilon=needs,
            delta=max(down(pair_delta(setting, (a, b), allowed)), 0.0),
        )
    upper = up(ball(worst_score(setting)) * ball(setting.sensitivity))
    return Undecided(
        f"{claim.terms}: neither proved nor refuted; the truth lies between {needs} and {upper}. "
        f"Claim a little more, such as {safe_digits(upper)}{_IN_TIME}",
        lower=needs,
        upper=upper,
    )


def safe_digits(x: float) -> float:
    """Nine digits, rounded up."""
    if x <= 0.0 or math.isinf(x):
        return x
    unit = 10.0 ** (math.floor(math.log10(x)) - 8)
    return math.nextafter(math.ceil(x / unit) * unit, math.inf)
