"""Certificates: a claim about a mechanism with its proof, to be checked again by anyone."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rangebound import arguments
from rangebound.ball import ball, down, up
from rangebound.errors import (
    ArgumentError,
    ArgumentTypeError,
    CertificateInvalid,
    ClaimFalse,
    RangeboundError,
    Undecided,
)
from rangebound.mechanism import Mechanism
from rangebound.privacy.claim import Claim, Notion
from rangebound.privacy.counterexample import breaks, finite_pair, pair_delta, pair_numbers
from rangebound.privacy.metric import steepest_pair, worst_score
from rangebound.privacy.proof import WORK, Proof, Theorem, check, prove, steps_of_spans
from rangebound.privacy.worst import worst_epsilon, worst_under
from rangebound.serial import number, parse_number, read_json, same_data

FORMAT, METRIC_FORMAT = "rangebound certificate 1", "rangebound certificate 2"
"""Of an ordinary claim, which has no field for its notion, and of a metric one, which says so."""
LONGEST = 1_000_000
"""Characters of the longest certificate that is read."""
_IN_TIME = f" (a proof counts only if its check takes at most {WORK} steps, about ten seconds)"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A proved claim: `claim` is true of `mechanism`, for all neighbouring datasets (any two answers if it is metric).

    `epsilon`, `delta` and `notion` are those of the claim, and `mechanism.claim` is the claim itself. `str` says it in
    words, `to_json` writes it, and `rangebound.verify` proves it again from that text alone.

    Guarantee: one that `certify` or `verify` returned is proved; one read by `from_json` is only read.

    >>> import rangebound as rb
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
    >>> print(rb.certify(m, epsilon=1.0))
    Certificate of (1, 0)-differential privacy of
      Mechanism(noise=Laplace(scale=2.0), query=Query(range=Interval(lower=0.0, upper=100.0), sensitivity=1.0),
      support=Interval(lower=0.0, upper=100.0), bounding=TRUNCATE)
    for every pair of true answers at most 1 apart, in both directions.
    It holds because the loss is monotone in the position, so its supremum is at an end of the range; in ball
    arithmetic of 128 bits.
    """

    mechanism: Mechanism
    claim: Claim
    proof: Proof

    def __post_init__(self) -> None:
        arguments.instance("mechanism", self.mechanism, Mechanism, "a Mechanism")
        arguments.instance("claim", self.claim, Claim, "a Claim, such as rb.Claim(epsilon=1.0)")
        arguments.instance("proof", self.proof, Proof, "a Proof, as `certify` finds it")
        object.__setattr__(self, "mechanism", self.mechanism.with_claim(self.claim))

    @property
    def epsilon(self) -> float:
        """The epsilon of the claim."""
        return self.claim.epsilon

    @property
    def delta(self) -> float:
        """The delta of the claim."""
        return self.claim.delta

    @property
    def notion(self) -> Notion:
        """The notion of the claim."""
        return self.claim.notion

    def __str__(self) -> str:
        reach = arguments.downwards(self.mechanism.query.sensitivity)
        if self.notion is Notion.METRIC:
            scope = f"any two true answers, in proportion to their distance: epsilon for each {reach} of it"
        else:
            scope = f"every pair of true answers at most {reach} apart, in both directions"
        cells = f", on {arguments.counted(len(self.proof.cells), 'cell')}" if self.proof.cells else ""
        return (
            f"Certificate of {self.claim} of\n  {self.mechanism}\nfor {scope}.\n"
            f"It holds because {self.proof.theorem.value}{cells}; in {self._arithmetic}."
        )

    @property
    def _arithmetic(self) -> str:
        floats = self.proof.theorem is Theorem.DELTA_ON_WINDOWS
        return "doubles with bounds on their errors" if floats else f"ball arithmetic of {self.proof.bits} bits"

    def _repr_html_(self) -> str:  # a notebook would show the whole proof
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_json(self) -> str:
        """The certificate as JSON; doubles are written so that they come back exactly."""
        return json.dumps(self._to_dict(), indent=1)

    def _to_dict(self) -> dict[str, object]:
        metric = self.notion is Notion.METRIC
        return {
            "format": METRIC_FORMAT if metric else FORMAT,
            **({"notion": self.notion.value} if metric else {}),
            "mechanism": self.mechanism.with_claim(None).to_dict(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "theorem": self.proof.theorem.name,
            "bits": self.proof.bits,
            "cells": [[task, number(start), number(end)] for task, start, end in self.proof.cells],
        }

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate without proving it again; see `rangebound.verify`.

        Guarantee: what is read says exactly what the text says. A text that could be read in two ways is refused: a
        name given twice, a field that is not known, a number that is not written as the double that it is.
        Edge cases: white space and the order of the fields are free.
        """
        try:
            data: object = read_json(text, longest=LONGEST)
            if not isinstance(data, dict) or data.get("format") not in (FORMAT, METRIC_FORMAT):
                raise CertificateInvalid(f"text={arguments.shown(text)}: must be of the format {FORMAT!r}")
            _check_spans(data["mechanism"])
            notion = data["notion"] if data["format"] == METRIC_FORMAT else Notion.DP
            found = cls(
                mechanism=Mechanism.from_dict(data["mechanism"]),
                claim=Claim(epsilon=data["epsilon"], delta=data["delta"], notion=notion),
                proof=Proof(Theorem[data["theorem"]], _whole(data["bits"]), tuple(map(_cell, data["cells"]))),
            )
        except CertificateInvalid:
            raise
        except KeyError as error:
            raise CertificateInvalid(f"certificate: field {error} is missing or has an unknown value") from error
        except (TypeError, ValueError, AttributeError, RangeboundError) as error:
            way_out = "; give the JSON text that Certificate.to_json wrote, not the name of its file"
            hint = "" if "{" in str(text) else way_out
            raise CertificateInvalid(f"certificate: cannot be read; {error}{hint}") from error
        if not same_data(data, found._to_dict()):
            raise CertificateInvalid(
                "certificate: must have the fields that Certificate.to_json writes and no other, and its numbers in "
                "their form, such as 1.0 for a double"
            )
        return found


@arguments.guided
def certify(
    mechanism: Mechanism,
    epsilon: float | None = None,
    delta: float | None = None,
    notion: str | Notion | None = None,
) -> Certificate:
    """Prove that a mechanism is (epsilon, delta)-private, over all pairs, with no float in the chain of reasoning.

    Without an epsilon it proves the claim that the mechanism carries, such as the one it was calibrated for. With one,
    `delta` is 0 and `notion` is "dp" unless they are given. With notion="metric" the claim is about any two answers: at
    distance i * sensitivity they differ by at most i * epsilon, for every real i [croft2022, Thm 2]. That implies the
    ordinary claim.

    Guarantee: a certificate that is returned is a proof in ball arithmetic. A false claim raises `ClaimFalse` with a
    counterexample and what is true; a claim too close to the truth to be decided raises `Undecided`.
    Assumes: the query's sensitivity is true, and the output follows the mechanism's law.
    Edge cases: what `calibrate` found can be certified at its own target.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0)
    >>> rb.verify(rb.certify(m).to_json()).epsilon
    1.0
    """
    arguments.instance("mechanism", mechanism, Mechanism, "a Mechanism")
    claim = _claimed(mechanism, epsilon, delta, notion)
    proof = prove(mechanism.setting, claim)
    if proof is not None:
        return Certificate(mechanism=mechanism, claim=claim, proof=proof)
    if claim.notion is Notion.METRIC:
        raise _not_metric(mechanism, claim)
    pair = finite_pair(mechanism.setting, worst_under(mechanism.setting, claim).pair, claim)
    if breaks(mechanism.setting, pair, claim):  # a counterexample is checked before it is raised
        needs = pair_numbers(mechanism.setting, pair, claim)
        raise ClaimFalse(
            f"{claim.terms}: not true of this mechanism. The true answers {pair[0]} and {pair[1]} "
            f"need epsilon >= {needs[0]} with that delta, or delta >= {needs[1]} with that epsilon",
            pair=pair,
            epsilon=needs[0],
            delta=needs[1],
        )
    true_epsilon = worst_epsilon(mechanism.setting, claim.delta)
    raise Undecided(
        f"{claim.terms}: neither proved nor refuted; the truth at this delta lies between epsilon "
        f"{true_epsilon.lower} and {true_epsilon.upper}. Claim a little more, such as {_round_up(true_epsilon.upper)}"
        f"{_IN_TIME}",
        lower=true_epsilon.lower,
        upper=true_epsilon.upper,
    )


def _claimed(mechanism: Mechanism, epsilon: float | None, delta: float | None, notion: str | Notion | None) -> Claim:
    """The claim that is given or, if none is, the one that the mechanism carries."""
    if epsilon is not None:
        kind = Notion.DP if notion is None else arguments.member("notion", notion, Notion)
        return Claim(epsilon=epsilon, delta=0.0 if delta is None else delta, notion=kind)
    for name, value in (("delta", delta), ("notion", notion)):
        if value is not None:
            raise ArgumentError(f"{name}={arguments.shown(value)}: needs an epsilon; write certify(m, epsilon=...)")
    if mechanism.claim is None:
        raise ArgumentTypeError(
            "epsilon=None: a mechanism built by hand carries no claim, unlike one from `calibrate` or `choose`; "
            "pass what to prove, such as certify(m, epsilon=1.0, delta=1e-6)"
        )
    return mechanism.claim


def _not_metric(mechanism: Mechanism, claim: Claim) -> ClaimFalse | Undecided:
    """What to say of a metric claim that was not proved: a pair that refutes it, or between what the truth lies."""
    setting = mechanism.setting
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
        f"Claim a little more, such as {_round_up(upper)}{_IN_TIME}",
        lower=needs,
        upper=upper,
    )


def verify(text: str) -> Certificate:
    """Prove a certificate again from its JSON text alone, and return it.

    Guarantee: raises `CertificateInvalid` unless the claim is proved anew, whatever the text says.
    Assumes: as for `certify`.
    Edge cases: a text that is cut short, changed, of another format, or that could be read in two ways is refused with
    the reason; so is one that would take more than about ten seconds to check, which none of `certify` does.

    >>> import rangebound as rb
    >>> rb.verify("{}")
    Traceback (most recent call last):
        ...
    rangebound.errors.CertificateInvalid: text='{}': must be of the format 'rangebound certificate 1'
    """
    arguments.instance("text", text, str, "the JSON text of a certificate, as Certificate.to_json writes it")
    certificate = Certificate.from_json(text)
    check(certificate.mechanism.setting, certificate.claim, certificate.proof)
    return certificate


def _check_spans(mechanism: Mapping[str, Mapping[str, Mapping[str, Sequence[object]]]]) -> None:
    """Refuse more spans than a proof may have, before anything is made of them."""
    answers, support = mechanism["query"]["range"].get("union", ()), mechanism["support"].get("union", ())
    if steps_of_spans(len(answers), len(support)) > WORK:
        raise CertificateInvalid(
            f"mechanism: has too many spans; n of them count as n^2/4 steps, and a check may take at most {WORK}"
        )


def _cell(value: object) -> tuple[int, float, float]:
    """A cell of a proof: the number of its task, and its ends."""
    match value:
        case [task, start, end]:
            return _whole(task), parse_number(start), parse_number(end)
    raise CertificateInvalid(f"cell={arguments.shown(value)}: must be a task and two ends")


def _whole(value: object) -> int:
    """A whole number as it stands; nothing is rounded or converted."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise CertificateInvalid(f"number={arguments.shown(value)}: must be a whole number")
    return value


def _round_up(x: float) -> float:
    """Nine digits, rounded up."""
    if x <= 0.0 or math.isinf(x):
        return x
    unit = 10.0 ** (math.floor(math.log10(x)) - 8)
    return math.nextafter(math.ceil(x / unit) * unit, math.inf)
