"""Certificates: a claim about a mechanism with its proof, to be checked again by anyone."""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rangebound.errors import ArgumentError, ArgumentTypeError, CertificateInvalid, RangeboundError
from rangebound.mechanisms.coq_file import coq_file
from rangebound.mechanisms.finite import Table
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.remapping import BASES, Base, Remapped
from rangebound.privacy.proof import WORK, Proof, Theorem, steps_of_spans
from rangebound.privacy.setting import Claim, Notion
from rangebound.values import arguments
from rangebound.values.serial import number, parse_number, read_json, same_data

FORMAT, METRIC_FORMAT = "rangebound certificate 1", "rangebound certificate 2"
"""Of an ordinary claim, which has no field for its notion, and of a metric one, which says so."""
TABLE_FORMAT = "rangebound certificate 3"
"""Of a table, whose weights it holds."""
REMAP_FORMAT = "rangebound certificate 4"
"""Of a remapped mechanism, whose weights it holds; the field for the notion is there if the claim is metric."""
LONGEST, LONGEST_TABLE = 1_000_000, 64_000_000
"""Characters of the longest certificate that is read, and of the longest one with weights, known by its format."""
_FORMATS = (FORMAT, METRIC_FORMAT, TABLE_FORMAT, REMAP_FORMAT)


Certified: TypeAlias = Base | Remapped
"""What a certificate is about."""
KINDS: dict[str, type[Certified]] = {**BASES, "remapped": Remapped}
"""Mechanisms by a field that only the plain data of this kind have."""
PRIVATE = tuple(KINDS.values())
A_MECHANISM = f"a mechanism: a {', '.join(each.__name__ for each in BASES.values())} or Remapped"
"""What is asked for, in the words of an error message."""
_FORMAT_OF = {Table: (TABLE_FORMAT, METRIC_FORMAT), Remapped: (REMAP_FORMAT, REMAP_FORMAT)}
"""The formats of an ordinary and of a metric claim, where they are not those of a mechanism without weights."""
_ARITHMETIC = {Theorem.DELTA_ON_WINDOWS: "doubles with bounds on their errors", Theorem.ALL_WEIGHTS: "whole numbers"}


@arguments.brief
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

    mechanism: Certified
    claim: Claim
    proof: Proof

    def __post_init__(self) -> None:
        arguments.instance("mechanism", self.mechanism, PRIVATE, A_MECHANISM)
        arguments.instance("claim", self.claim, Claim, "a Claim, such as rb.Claim(epsilon=1.0)")
        arguments.instance("proof", self.proof, Proof, "a Proof, as `certify` finds it")
        base = self.mechanism.base if isinstance(self.mechanism, Remapped) else self.mechanism
        scale = getattr(getattr(base, "noise", base), "scale", 1.0)
        if scale < sys.float_info.min:
            raise ArgumentError(f"scale={scale}: must be at least {sys.float_info.min}; take a smaller unit")
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
        arithmetic = _ARITHMETIC.get(self.proof.theorem, f"ball arithmetic of {self.proof.bits} bits")
        after = " The remap is post-processing, which costs no privacy." if isinstance(self.mechanism, Remapped) else ""
        cells = f", on {arguments.counted(len(self.proof.cells), 'cell')}" if self.proof.cells else ""
        return (
            f"Certificate of {self.claim} of\n  {self.mechanism}\nfor {scope}.\n"
            f"It holds because {self.proof.theorem.value}{cells}; in {arithmetic}.{after}"
        )

    def _repr_html_(self) -> str:  # a notebook would show the whole proof
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_json(self) -> str:
        """The certificate as JSON; doubles are written so that they come back exactly."""
        return json.dumps(self._to_dict(), indent=1)

    def to_coq(self, *, library: bool = False) -> str:
        """The claim as a theorem for the proof assistant Coq, with its proof; `coqc` checks it from the file alone.

        Guarantee: what `coqc` accepts is proved, whatever this library does; read the theorem at the end of the file.
        Assumes: the query's sensitivity is true, and the output follows the mechanism's law.
        Edge cases: a claim of a kind that the kernel does not cover raises `ArgumentError`, which says what it covers.
        With `library` the file is short, and asks for the compiled folder `proofs/` of the repository.

        >>> import rangebound as rb
        >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
        >>> text = rb.certify(rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0)).to_coq()
        >>> "Theorem certified" in text
        True
        """
        return coq_file(self.mechanism, self.claim, library=library)

    def _to_dict(self) -> dict[str, object]:
        metric = self.notion is Notion.METRIC
        formats = (_FORMAT_OF[kind] for kind in type(self.mechanism).__mro__ if kind in _FORMAT_OF)
        return {
            "format": next(formats, (FORMAT, METRIC_FORMAT))[metric],
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
            with_weights = any(each in text[:200] for each in (TABLE_FORMAT, REMAP_FORMAT))
            data: object = read_json(text, longest=LONGEST_TABLE if with_weights else LONGEST)
            if not isinstance(data, dict) or data.get("format") not in _FORMATS:
                raise CertificateInvalid(f"text={arguments.shown(text)}: must be of the format {FORMAT!r}")
            plain = data["mechanism"]
            inner = plain["remapped"]["base"] if "remapped" in plain else plain
            if "noise" in inner:
                _check_spans(inner)
            says_notion = data["format"] == METRIC_FORMAT or (data["format"] == REMAP_FORMAT and "notion" in data)
            notion = data["notion"] if says_notion else Notion.DP
            found = cls(
                mechanism=next((KINDS[each] for each in plain if each in KINDS), Mechanism).from_dict(plain),
                claim=Claim(epsilon=data["epsilon"], delta=data["delta"], notion=notion),
                proof=Proof(Theorem[data["theorem"]], _whole(data["bits"]), tuple(map(_cell, data["cells"]))),
            )
        except CertificateInvalid:
            raise
        except KeyError as error:
            raise CertificateInvalid(f"certificate: field {error} is missing or has an unknown value") from error
        except (TypeError, ValueError, AttributeError, RangeboundError) as error:
            way_out = "; give the JSON text that Certificate.to_json wrote, not the name of its file"
            hint = "" if "{" in text else way_out
            raise CertificateInvalid(f"certificate: cannot be read; {error}{hint}") from error
        if unknown := data.keys() - found._to_dict():
            raise CertificateInvalid(f"certificate: field {min(unknown)!r} is unknown")
        if not same_data(data, found._to_dict()):
            raise CertificateInvalid("certificate: its format has other fields, or numbers in another form (1.0)")
        return found


@arguments.guided
def certify(
    mechanism: Certified, epsilon: float | None = None, delta: float | None = None, notion: str | Notion | None = None
) -> Certificate:
    """Prove that a mechanism is (epsilon, delta)-private, over all pairs, with no float in the chain of reasoning.

    Without an epsilon it proves the claim that the mechanism carries, such as the one it was calibrated for. With one,
    `delta` is 0 and `notion` is "dp" unless they are given. With notion="metric" the claim is about any two answers: at
    distance i * sensitivity they differ by at most i * epsilon, for every real i [croft2022, Thm 2]. That implies the
    ordinary claim.

    Guarantee: a certificate that is returned is a proof, in ball arithmetic or, of a `Table`, in whole numbers. A false
    claim raises `ClaimFalse` with a counterexample and what is true; a claim too close to the truth to be decided
    raises `Undecided`. A `Remapped` mechanism has what is proved of its base; a claim that is false of the base is
    `Undecided`, since a remap may leak less.
    Assumes: the query's sensitivity is true, and the output follows the mechanism's law.
    Edge cases: what `calibrate` found can be certified at its own target.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0)
    >>> rb.verify(rb.certify(m).to_json()).epsilon
    1.0
    """
    arguments.instance("mechanism", mechanism, PRIVATE, A_MECHANISM)
    claim = _claimed(mechanism, epsilon, delta, notion)
    proof = mechanism._prove(claim)
    if proof is None:
        raise mechanism._refutation(claim)
    return Certificate(mechanism=mechanism, claim=claim, proof=proof)


def _claimed(mechanism: Certified, epsilon: float | None, delta: float | None, notion: str | Notion | None) -> Claim:
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
    certificate.mechanism._check_proof(certificate.claim, certificate.proof)
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
