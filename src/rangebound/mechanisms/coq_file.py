"""A claim about a mechanism as a file for the proof assistant Coq: a theorem and its proof, or a proved refutation.

The mathematics is in `proofs/` of the repository, and in the package; a file has what it needs of it, then the numbers
of one claim. Numbers are the exact fractions that the doubles are. What remains to be trusted is the kernel of Coq, its
real numbers, and that the statement at the end of the file says what was promised.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import TRUNCATE
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.finite.finite_mechanism import Table
from rangebound.mechanisms.finite.weights import TOTAL
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.remapping import Base, Remapped
from rangebound.mechanisms.staircase import Staircase
from rangebound.privacy.claim import Claim, Notion
from rangebound.values.ball import ball, precision
from rangebound.values.support import Interval

Proved: TypeAlias = Base | Remapped

_WANTED = (
    "Coq Require Import Bool Reals ZArith List Lra Lia Psatz",
    "Coquelicot Require Import Coquelicot",
    "Interval Require Import Tactic",
)
_OPENED = "Import ListNotations.\nOpen Scope R_scope.\n"
_PLACES = 200  # of e^epsilon as a fraction, for a table
_MOST_WEIGHTS = 40_000
_NUMBERS = "apply Rminus_le; interval with (i_prec 160)"
_MORE = "apply Rminus_lt; interval with (i_prec 160)"
_INTEGRAL = "i_prec 80, i_degree 30, i_relwidth 34, i_fuel 2000"


def coq_file(mechanism: Proved, claim: Claim, *, refuted: bool = False, library: bool = False) -> str:
    """A file that `coqc` accepts if the claim is true, or with `refuted` if it is false.

    Guarantee: the theorem `certified` at the end is the claim, for all neighbouring answers and every output, which Coq
    checks anew. Where the kernel does not cover the kind of claim, an `ArgumentError` says so.
    Edge cases: of a remapped mechanism the base is proved; remapping is post-processing. With `library` the file
    asks for the folder `proofs/`, compiled (`coqc -R proofs RB FILE`), and is short.
    """
    base = mechanism.base if isinstance(mechanism, Remapped) else mechanism
    if claim.notion is Notion.METRIC:
        raise _uncovered("metric claims")
    if refuted and base is not mechanism:
        raise _uncovered("refutations of a remapped mechanism, which may leak less than its base")
    if isinstance(base, Table):
        module, body = "FiniteTable", _of_table(base, claim, refuted)
    elif isinstance(base, DiscreteLaplace | Staircase):
        module, body = "Lattice", _of_lattice(base, claim, refuted)
    elif base.noise.laplace and base.bounding is not TRUNCATE:
        module, body = "UnboundedLaplace", _of_laplace(base, claim, refuted)
    elif isinstance(base.support, Interval) and isinstance(base.query.range, Interval) and not claim.delta:
        if base.noise.laplace:
            module, body = "TruncatedLaplace", _of_truncated_laplace(base, claim, refuted)
        elif base.noise.gaussian and base.bounding is TRUNCATE:
            module, body = "TruncatedGaussian", _of_truncated_gaussian(base, claim, refuted)
        else:
            raise _uncovered(f"{base.noise}, {base.bounding.name.lower()}")
    else:
        raise _uncovered("claims with a delta, unions and grids of truncated noise")
    remapped = (
        "" if base is mechanism else "\n   What is published is made of the output alone, and costs nothing more."
    )
    how = "coqc -R proofs RB FILE.v" if library else "coqc FILE.v"
    verb = "A refutation of" if refuted else "A proof of"
    stated = re.sub(r"\(\*|\*\)", " ", f"{claim} of\n   {base}")
    head = (
        f"(* {verb} {stated}.{remapped}\n   Check it with: {how} (Coq 8.16 or later, with Coquelicot and Interval) *)\n"
    )
    return head + _theory(module, library=library) + body


def covered(mechanism: Proved, claim: Claim) -> bool:
    """Whether the kernel covers a claim of this kind."""
    try:
        coq_file(mechanism, claim, library=True)
    except ArgumentError:
        return False
    return True


def _uncovered(what: str) -> ArgumentError:
    return ArgumentError(
        f"certificate: the proofs in Coq do not cover {what}. They cover pure claims of Laplace noise that is "
        "truncated to an interval, clamped, rounded or unbounded, of Gaussian noise truncated to an interval, "
        "of discrete Laplace and staircase noise, and any claim of a Table; rangebound.verify checks the others"
    )


def _theory(module: str, *, library: bool) -> str:
    """What the proof needs of the mathematics: by name, or as text."""
    wanted = [f"From {name}." for name in _WANTED]
    if library:
        return "\n".join([*wanted, f"From RB Require Import Privacy {module}.", _OPENED])
    parts = []
    for name in ("Privacy", module):
        text = _source(name)
        text = re.sub(r"^From RB Require Import [^.]*\.$", "Import Privacy.", text, flags=re.MULTILINE)
        text = re.sub(r"^From \w+ Require Import [^.]*\.\n", "", text, flags=re.MULTILINE)
        parts += [f"Module {name}.", text.rstrip(), f"End {name}.", f"Import {name}."]
    return "\n".join([*wanted, *parts, _OPENED])


def _source(name: str) -> str:
    """A file of the mathematics: in an installed package beside this module, else at the root of the repository."""
    here = Path(__file__).parent
    folders = (here / "proofs", here.parents[2] / "proofs")
    return next(folder for folder in folders if folder.is_dir()).joinpath(f"{name}.v").read_text(encoding="utf-8")


def _real(x: float | Fraction) -> str:
    """A number of ours, exactly."""
    exact = Fraction(x)
    sign = "- " if exact < 0 else ""
    return f"({sign}{abs(exact.numerator)} / {exact.denominator})" if exact.denominator > 1 else f"({exact.numerator})"


def _numbers(**named: float | Fraction) -> str:
    return "".join(f"Notation {name} := {_real(value)} (only parsing).\n" for name, value in named.items())


def _end(x: float) -> str:
    return f"(Some {_real(x)})" if math.isfinite(x) else "None"


def _support(m: Mechanism) -> tuple[float, float]:
    assert m.support is not None
    return m.support.hull.lower, m.support.hull.upper


def _answers(m: Mechanism) -> tuple[Fraction, Fraction, Fraction, str]:
    """The first and the last answer, how far neighbours can be apart, and these as notations."""
    first, last = (Fraction(end) for end in (m.query.range.hull.lower, m.query.range.hull.upper))
    sensitivity = Fraction(m.query.sensitivity)
    farthest = min(sensitivity, last - first)
    named = _numbers(scale=m.noise.scale, first=first, last=last, sensitivity=sensitivity, farthest=farthest)
    return first, last, farthest, named


_NEIGHBOURS = "first <= x <= last -> first <= x' <= last -> Rabs (x - x') <= sensitivity ->"
_NEAR = "first [assumption | apply Rabs_le; lra]"


def _events(density: str, inside: str = "") -> str:
    """The theorem about densities for tests: the probability f y that an output is taken to be in the event."""
    return f"""
Theorem certified_events : forall x x' f c d, {_NEIGHBOURS} {inside}c <= d -> (forall y, c <= y <= d -> 0 <= f y) ->
  ex_RInt (fun y => {density} x y * f y) c d -> ex_RInt (fun y => {density} x' y * f y) c d ->
  RInt (fun y => {density} x y * f y) c d <= exp epsilon * RInt (fun y => {density} x' y * f y) c d.
Proof.
  intros; apply events; try assumption; [left; apply exp_pos |]. intros y Hy. apply certified; try assumption; lra.
Qed.
"""


def _of_truncated_laplace(m: Mechanism, claim: Claim, refuted: bool) -> str:
    first, last, farthest, named = _answers(m)
    lower, upper = _support(m)
    text = named + _numbers(epsilon=claim.epsilon)
    text += f"Notation lower := {_end(lower)} (only parsing).\nNotation upper := {_end(upper)} (only parsing).\n"
    unfold = "unfold above, below, apart, mass, past, from_lower, to_upper; cbv beta iota"
    if refuted:
        near = _loss(m, float(first), float(first + farthest)) >= _loss(m, float(last), float(last - farthest))
        other, at, lemma = ("first + farthest", "first", "upward") if near else ("last - farthest", "last", "downward")
        return (
            f"{text}Theorem certified : exp epsilon * density scale lower upper ({other}) {at} < "
            f"density scale lower upper {at} {at}.\nProof.\n  apply refuted_{lemma}; {unfold}; try exact I; "
            f"first [lra | {_MORE}].\nQed.\n"
        )
    whole = m.support == m.query.range and math.isfinite(upper - lower)
    if whole and last - first == farthest <= Fraction(m.noise.scale) * Fraction(claim.epsilon):
        proof = f"intros. apply all_neighbours with (s := farthest); try lra; try assumption; {_NEAR}."
    else:
        proof = (
            "intros. apply truncated_laplace with (first := first) (last := last) (s := farthest); try assumption;\n"
            f"    try ({_NEAR}); {unfold}; try exact I; first [lra | {_NUMBERS}]."
        )
    return f"""{text}Theorem certified : forall x x' y, {_NEIGHBOURS}
  density scale lower upper x y <= exp epsilon * density scale lower upper x' y.
Proof.
  {proof}
Qed.
{_events("density scale lower upper")}"""


def _loss(m: Mechanism, one: float, other: float) -> float:
    """The privacy loss between two answers, about: it says which pair is the worse one."""
    scale, (lower, upper) = m.noise.scale, _support(m)
    tails = [math.exp((lower - x) / scale) + math.exp((x - upper) / scale) for x in (one, other)]
    return abs(one - other) / scale + math.log((2.0 - tails[1]) / (2.0 - tails[0]))


def _of_truncated_gaussian(m: Mechanism, claim: Claim, refuted: bool) -> str:
    first, last, _, named = _answers(m)
    lower, upper = map(Fraction, _support(m))
    text = named + _numbers(epsilon=claim.epsilon, lower=lower, upper=upper)

    def moments(low: str, high: str, more: str, less: str) -> str:
        """Encloses the two integrals, and then the difference."""
        found = [
            f"  integral_intro (RInt (fun y => exp (- (y - {at}) ^ 2 / (2 * scale ^ 2))) {low} {high}) "
            f"with ({_INTEGRAL}) as H{i}.\n"
            for i, at in enumerate((more, less))
        ]
        names = [f"(RInt (fun y => exp (- (y - {at}) ^ 2 / (2 * scale ^ 2))) {low} {high})" for at in (more, less)]
        return "".join(found) + f"  revert H0 H1. generalize {' '.join(names)}. intros a b H0 H1.\n"

    to_last = ("lower", "upper", "last", "(last - farthest)")
    to_first = ("(- upper)", "(- lower)", "(- first)", "(- (first + farthest))")
    if refuted:
        up = last - lower >= upper - first
        x, y, lemma = ("last", "lower", "upward") if up else ("first", "upper", "downward")
        near = "last - farthest" if up else "first + farthest"
        return (
            f"{text}Theorem certified :\n  exp epsilon * density scale lower upper {x} {y} < "
            f"density scale lower upper ({near}) {y}.\nProof.\n"
            f"  apply refuted_{lemma}; [lra | lra |]. unfold moment, mass, weight.\n"
            f"{moments(*(to_last if up else to_first))}  {_MORE}.\nQed.\n"
        )
    return f"""{text}Lemma upward :
  moment scale lower upper last <= exp epsilon * moment scale lower upper (last - farthest).
Proof.
  unfold moment, mass, weight.
{moments(*to_last)}  {_NUMBERS}.
Qed.
Lemma downward :
  moment scale (- upper) (- lower) (- first) <= exp epsilon * moment scale (- upper) (- lower) (- (first + farthest)).
Proof.
  unfold moment, mass, weight.
{moments(*to_first)}  {_NUMBERS}.
Qed.
Theorem certified : forall x x' y, {_NEIGHBOURS} lower <= y <= upper ->
  density scale lower upper x y <= exp epsilon * density scale lower upper x' y.
Proof.
  intros. apply truncated_gaussian with (first := first) (last := last) (s := farthest); try assumption;
    try ({_NEAR}); try exact upward; try exact downward; lra.
Qed.
{_events("density scale lower upper", "lower <= c -> d <= upper -> ")}"""


def _of_laplace(m: Mechanism, claim: Claim, refuted: bool) -> str:
    text = _numbers(scale=m.noise.scale, sensitivity=m.query.sensitivity, epsilon=claim.epsilon)
    if refuted:
        if claim.delta:
            raise _uncovered("refutations at a delta")
        return (
            f"{text}Theorem certified : exp epsilon * density scale sensitivity 0 < density scale 0 0.\n"
            "Proof. apply refuted; lra. Qed.\n"
        )
    if claim.delta and Fraction(m.query.sensitivity) > Fraction(m.noise.scale) * Fraction(claim.epsilon):
        raise _uncovered("claims that need their delta")
    return f"""{text}Theorem certified : forall x x', Rabs (x - x') <= sensitivity ->
  (forall y, density scale x y <= exp epsilon * density scale x' y) /\\
  (forall l, at_most scale (l - x) <= exp epsilon * at_most scale (l - x')) /\\
  (forall u, at_most scale (x - u) <= exp epsilon * at_most scale (x' - u)) /\\
  (forall c d, c <= d -> RInt (density scale x) c d <= exp epsilon * RInt (density scale x') c d).
Proof.
  intros. repeat split; intros.
  - apply unbounded_laplace with (s := sensitivity); try assumption; lra.
  - apply atom_below with (s := sensitivity); try assumption; lra.
  - apply atom_above with (s := sensitivity); try assumption; lra.
  - apply rounded_cell with (s := sensitivity); try assumption; lra.
Qed.
"""


def _of_lattice(m: DiscreteLaplace | Staircase, claim: Claim, refuted: bool) -> str:
    noise = m._stairs
    k, r, levels = noise.steps, noise.plateau, noise.levels
    text = _numbers(rate=noise.rate, epsilon=claim.epsilon)
    if refuted:
        if claim.delta:
            raise _uncovered("refutations at a delta")
        return (
            f"{text}Theorem certified :\n"
            f"  exp epsilon * weight rate {k} {r} (0 - {levels} * {k}) < weight rate {k} {r} (0 - 0).\n"
            "Proof. apply refuted; try lia; lra. Qed.\n"
        )
    if claim.delta and noise.pure > Fraction(claim.epsilon):
        raise _uncovered("claims that need their delta")
    return f"""{text}Theorem certified : forall x x', (Z.abs (x - x') <= {levels} * {k})%Z ->
  (forall y, weight rate {k} {r} (y - x) <= exp epsilon * weight rate {k} {r} (y - x')) /\\
  (forall z, beyond rate {k} {r} (z - x) <= exp epsilon * beyond rate {k} {r} (z - x')).
Proof.
  intros. split; intros; [apply lattice with (m := {levels}%Z) | apply clamped with (m := {levels}%Z)];
    try assumption; try lia; lra.
Qed.
"""


def _of_table(m: Table, claim: Claim, refuted: bool) -> str:
    weights, reach = m.weights.tolist(), m.reach.tolist()
    if m.weights.size > _MOST_WEIGHTS:
        raise _uncovered(f"tables of more than {_MOST_WEIGHTS} weights")
    d = 1 << _PLACES
    with precision(2 * _PLACES + 64 + int(2 * claim.epsilon)):
        scaled = (ball(claim.epsilon)).exp() * d
        whole = scaled.lower().floor().unique_fmpz()
        assert whole is not None  # the floor of an exact number
        low = int(whole)
    text = _numbers(epsilon=claim.epsilon, delta=claim.delta)
    numbers = f"interval with (i_prec {2 * _PLACES + 64 + int(2 * claim.epsilon)})"
    if refuted:
        n = low + 1
        bound = Fraction(claim.delta) * d * TOTAL
        pairs = ((p, q) for i, end in enumerate(reach) for j in range(i, end + 1) for p, q in ((i, j), (j, i)))
        p, q = max(pairs, key=lambda pair: _excess(weights[pair[0]], weights[pair[1]], n, d))
        if _excess(weights[p], weights[q], n, d) <= bound:
            raise ArgumentError(f"{claim.terms}: not refuted; the claim is true, or too close to the truth")
        return f"""{text}Definition p : list Z := {_row(weights[p])}.
Definition q : list Z := {_row(weights[q])}.
Theorem certified :
  let P w := IZR (weight_of (best_event {n} {d} p q) w) / IZR {TOTAL} in exp epsilon * P q + delta < P p.
Proof.
  apply refuted; [lia | lia | {numbers} | vm_compute; discriminate |].
  replace (excess {n} {d} p q) with {_excess(weights[p], weights[q], n, d)}%Z by (vm_compute; reflexivity). lra.
Qed.
"""
    most = math.floor(Fraction(claim.delta) * d * TOTAL)
    rows = ";\n  ".join(map(_row, weights))
    return f"""{text}Definition rows : list (list Z) := [{rows}].
Definition reach : list nat := [{"; ".join(map(str, reach))}]%nat.
Theorem certified : forall i j event, (i < {len(weights)})%nat -> (i <= j <= nth i reach 0%nat)%nat ->
  let P x := IZR (weight_of event (nth x rows [])) / IZR {TOTAL} in
  P i <= exp epsilon * P j + delta /\\ P j <= exp epsilon * P i + delta.
Proof.
  intros i j event Hi Hj. apply (finite_table {low} {d} {most} {TOTAL} {len(weights[0])} rows reach);
    [vm_compute; reflexivity | vm_compute; reflexivity | lia | lia | lia | {numbers} | lra | exact Hi | exact Hj].
Qed.
"""


def _row(weights: list[int]) -> str:
    return f"[{'; '.join(map(str, weights))}]%Z"


def _excess(p: list[int], q: list[int], n: int, d: int) -> int:
    return sum(max(0, d * a - n * b) for a, b in zip(p, q, strict=True))
