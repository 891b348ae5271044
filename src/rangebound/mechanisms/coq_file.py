"""A claim about a mechanism as a file for the proof assistant Coq: a theorem and its proof, or a proved refutation.

The mathematics is in `proofs/` of the repository, and in the package; a file has what it needs of it, then the numbers
of one claim. Numbers are the exact fractions that the doubles are. What remains to be trusted is the kernel of Coq, its
real numbers, and that the statement at the end of the file says what was promised.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path
from string import Template
from typing import TypeAlias

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import QUANTIZE, TRUNCATE
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.finite.finite_mechanism import Table
from rangebound.mechanisms.finite.weights import TOTAL
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.remapping import Base, Remapped
from rangebound.mechanisms.staircase import Staircase
from rangebound.privacy.claim import Claim, Notion
from rangebound.values.ball import ball, precision
from rangebound.values.support import Interval, is_line

Proved: TypeAlias = Base | Remapped

_OPENED = "Import ListNotations.\nOpen Scope R_scope.\n"
_REQUIRED = re.compile(r"^From (\w+) Require Import ([^.]*)\.\n", flags=re.MULTILINE)
_WIDE = 85.0  # from this many scales on, noise at one end of a support does not see the other
_PLACES = 128  # of e^epsilon as a fraction, for a table
_MOST_WEIGHTS = 40_000
_BOXES = "[halving A | halving B | halving A]"
_HALF_LINES = (("above_a_lower_end", "A"), ("below_an_upper_end", "B"))


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
    modules, body = _route(base)(base, claim, refuted)
    remapped = (
        "" if base is mechanism else "\n   What is published is made of the output alone, and costs nothing more."
    )
    how = "coqc -R proofs RB FILE.v" if library else "coqc FILE.v"
    verb = "A refutation of" if refuted else "A proof of"
    stated = re.sub(r'[*"]', " ", f"{claim} of\n   {base}")  # nothing that ends a comment, or begins a text in it
    head = (
        f"(* {verb} {stated}.{remapped}\n   Check it with: {how} (Coq 8.16 or later, with Coquelicot and Interval) *)\n"
    )
    return head + _theory(list(dict.fromkeys(modules.split())), body, library=library) + body


def _route(base: Proved) -> Callable[..., tuple[str, str]]:
    """What writes the theory that a kind of mechanism needs, by name, and its claim."""
    if isinstance(base, Table):
        return _of_table
    if isinstance(base, DiscreteLaplace | Staircase):
        return _of_lattice
    assert isinstance(base, Mechanism)
    assert base.support is not None
    if not (base.noise.laplace or base.noise.gaussian):
        raise _uncovered(f"{base.noise}")
    if base.bounding is not TRUNCATE or is_line(base.support):
        return _of_line
    if not isinstance(base.support, Interval) or len(base.query.spread.spans) > 1 or not base.query.range.bounded:
        raise _uncovered("unions and grids of truncated noise, and its unbounded ranges")
    if base.noise.gaussian:
        return _of_truncated_gaussian
    if not (base.support.lower <= base.query.range.hull.lower and base.query.range.hull.upper <= base.support.upper):
        raise _uncovered("truncated Laplace noise for true answers outside of its support")
    return _of_truncated_laplace


def _uncovered(what: str) -> ArgumentError:
    return ArgumentError(
        f"certificate: the proofs in Coq do not cover {what}. They cover Laplace noise that is truncated to an "
        "interval, clamped, rounded or unbounded, and clamped, rounded or unbounded Gaussian noise, with a delta or "
        "without; pure claims of Gaussian noise truncated to an interval, of discrete Laplace and of staircase noise; "
        "and any claim of a Table; rangebound.verify checks the others"
    )


def _not_refuted(claim: Claim) -> ArgumentError:
    return ArgumentError(f"{claim.terms}: not refuted; the claim is true, or too close to the truth")


def _theory(modules: list[str], body: str, *, library: bool) -> str:
    """What the proof needs of the mathematics: by name, or as text; and of other libraries only what that asks for."""
    sources = {name: _source(name) for name in modules}
    wanted = {"Coq": ["Reals", "ZArith", "List", "Lra", "Lia"], "Coquelicot": []}
    for origin, names in _REQUIRED.findall("" if library else "".join(sources.values())):
        wanted.setdefault(origin, []).extend(names.split() if origin != "RB" else [])
    if library:
        wanted |= {"Coquelicot": ["Coquelicot"] * ("RInt" in body), "RB": modules}
    asked = [
        f"From {origin} Require Import {' '.join(dict.fromkeys(names))}.\n" for origin, names in wanted.items() if names
    ]
    if library:
        return "".join([*asked, _OPENED])
    parts = []
    for name, source in sources.items():
        text = _REQUIRED.sub(lambda m: f"Import {m[2]}.\n" if m[1] == "RB" else "", source).rstrip()
        parts.append(f"Module {name}.\n{text}\nEnd {name}.\nImport {name}.\n")
    return "".join([*asked, *parts, _OPENED])


def _source(name: str) -> str:
    """A file of the mathematics: in an installed package beside this module, else at the root of the repository."""
    here = Path(__file__).parent
    folders = (here / "proofs", here.parents[2] / "proofs")
    return next(folder for folder in folders if folder.is_dir()).joinpath(f"{name}.v").read_text(encoding="utf-8")


def _claim(kind: str, numbers: str, modules: str, **parts: object) -> tuple[str, str]:
    """The theory that a claim needs, and the claim: numbers, and a text of `proofs/claims` with its parts."""
    text = Template(_source(f"claims/{kind}")).substitute(parts)
    bounds = "Bell Bounds" if re.search(r"\b(no_more|less|computed)\b", text) else ""
    return f"Privacy {bounds} {modules} {'Computed' if 'halving' in text else ''}", numbers + text


def _real(x: float | Fraction) -> str:
    """A number of ours, exactly."""
    exact = Fraction(x)
    sign = "- " if exact < 0 else ""
    return f"({sign}{abs(exact.numerator)} / {exact.denominator})" if exact.denominator > 1 else f"({exact.numerator})"


def _numbers(**named: float | Fraction) -> str:
    return "".join(f"Notation {name} := {_real(value)} (only parsing).\n" for name, value in named.items())


def _ends(m: Mechanism) -> tuple[Fraction | None, Fraction | None, Fraction]:
    """The first and the last answer, as far as there are, and how far neighbours can be apart."""
    hull = m.query.range.hull
    first, last = (Fraction(end) if math.isfinite(end) else None for end in (hull.lower, hull.upper))
    apart = Fraction(m.query.sensitivity)
    return first, last, apart if first is None or last is None else min(apart, last - first)


def _answers(m: Mechanism, claim: Claim) -> tuple[str, str]:
    """The numbers of a claim as notations, and what neighbouring answers are."""
    first, last, apart = _ends(m)
    ends = {name: end for name, end in (("first", first), ("last", last)) if end is not None}
    left, right = "first <= " * ("first" in ends), " <= last" * ("last" in ends)
    near = "".join(f"{left}{x}{right} -> " for x in ("x", "x'") if ends) + "Rabs (x - x') <= sensitivity ->"
    named = _numbers(scale=m.noise.scale, sensitivity=m.query.sensitivity, farthest=apart, **ends)
    return named + _numbers(epsilon=claim.epsilon, delta=claim.delta), near


def _of_truncated_laplace(m: Mechanism, claim: Claim, refuted: bool) -> tuple[str, str]:
    (first, last, apart), (text, near) = _bounded(m), _answers(m, claim)
    hull = m.shape.spans[0]
    for name, x in zip(("lower", "upper"), hull, strict=True):
        text += f"Notation {name} := {f'(Some {_real(x)})' if math.isfinite(x) else 'None'} (only parsing).\n"
    losses = [_loss(m, float(first), float(first + apart)), _loss(m, float(last), float(last - apart))]
    if claim.delta and max(losses) > claim.epsilon:
        return _of_laplace_at_delta(m, claim, refuted, text, near)
    if refuted:
        if claim.delta:
            raise _not_refuted(claim)
        ends = ("first", "first + farthest", "upward"), ("last", "last - farthest", "downward")
        at, other, side = ends[losses[0] < losses[1]]
        return _claim("truncated_laplace_refuted", text, "TruncatedLaplace", answer=at, other=other, side=side)
    if m.support == m.query.range and last - first == apart <= Fraction(m.noise.scale) * Fraction(claim.epsilon):
        proof = "apply all_neighbours with (s := farthest); near"
    else:
        (lower, upper), theorem = hull, "truncated_laplace"
        if math.isfinite(lower) and math.isfinite(upper) and first - Fraction(lower) == Fraction(upper) - last:
            theorem = "in_the_middle"
        proof = (
            f"apply {theorem} with (first := first) (last := last) (s := farthest); try assumption; try near;\n"
            "    unfold above, below, apart, mass, past, from_lower, to_upper; cbv beta iota;\n"
            "    first [exact I | lra | no_more]"
        )
    modules, body = _claim("truncated_laplace", text, "TruncatedLaplace", near=near, proof=proof)
    return modules, body + _claim("events", "", "", near=near, inside="")[1]


def _bounded(m: Mechanism) -> tuple[Fraction, Fraction, Fraction]:
    hull, apart = m.query.range.hull, _ends(m)[2]
    return Fraction(hull.lower), Fraction(hull.upper), apart


def _past(m: Mechanism, x: float) -> list[float]:
    """Twice the probabilities that truncated Laplace noise about x passes the ends of its support."""
    return [math.exp(-abs(end - x) / m.noise.scale) for end in m.shape.spans[0]]


def _loss(m: Mechanism, one: float, other: float) -> float:
    """The privacy loss between two answers, about: it says which pair is the worse one."""
    return abs(one - other) / m.noise.scale + math.log((2.0 - sum(_past(m, other))) / (2.0 - sum(_past(m, one))))


def _of_laplace_at_delta(m: Mechanism, claim: Claim, refuted: bool, text: str, near: str) -> tuple[str, str]:
    """What the best threshold finds between a and a + s is a closed form in a, which Interval bounds by halving."""
    modules = "HockeyStick UnboundedLaplace TruncatedLaplace TruncatedLaplaceDelta"
    most, answer, other, cut = _worst_threshold(m, claim)
    if refuted:
        law, sign = ("lower upper", "") if answer < other else ("(option_map Ropp upper) (option_map Ropp lower)", "- ")
        names = {name: f"({sign}{name})" for name in ("answer", "other", "cut")}
        text += _numbers(answer=answer, other=other, cut=cut)
        return _claim("laplace_at_delta_refuted", text, modules, law=law, **names)
    if most > claim.delta * (1.0 + 1e-9):
        raise _uncovered("this claim at a delta, where the range is not much wider than the noise, or which is false")
    (first, last, _), (lower, upper) = _bounded(m), m.shape.spans[0]
    curve = "apply by_curve; [lra |]. unfold bound; halving A"
    if (upper - lower) / m.noise.scale > _WIDE:
        curve = f"apply by_boxes with (t := 1 / {1 << 44}); [lra | lra | | |]; unfold bound; {_BOXES}"
    above, below = (f"apply {name}; [lra |]. unfold bound; halving {x}" for name, x in _HALF_LINES)
    upward, downward = (above, below) if math.isfinite(lower) else (below, above)
    if math.isfinite(lower) and math.isfinite(upper):
        same = first - Fraction(lower) == Fraction(upper) - last
        upward, downward = curve, "apply in_the_middle; [lra | exact upward]" if same else curve
    return _claim("laplace_at_delta", text, modules, near=near, upward=upward, downward=f"simpl option_map. {downward}")


def _worst_threshold(m: Mechanism, claim: Claim) -> tuple[float, Fraction, Fraction, Fraction]:
    """What the best threshold finds between two answers as far apart as can be, about; the answers, and it."""
    first, last, apart = _bounded(m)
    scale, room, e = m.noise.scale, float(last - first - apart), math.exp(-float(apart) / m.noise.scale)

    def found(sign: int, near: bool, share: float) -> tuple[float, Fraction, Fraction, Fraction]:
        a = first + Fraction(share) if near else last - apart - Fraction(share)
        one, two = (a, a + apart)[::sign]
        ends, ends2 = (_past(m, float(x))[::sign] for x in (one, two))
        z, z2 = 1.0 - sum(ends) / 2.0, 1.0 - sum(ends2) / 2.0
        v = math.sqrt(math.exp(claim.epsilon) * e * z / z2)
        most = (2.0 - ends[0]) / (2.0 * z) + math.exp(claim.epsilon) * ends2[0] / (2.0 * z2) - v / z
        return most, one, two, one + sign * Fraction(-scale * math.log(min(max(v, e), 1.0)))

    shares = [0.0, *(2.0 ** (step / 8.0 - 60.0) * room / 2.0 for step in range(481))]
    _, sign, near, at = max((found(*each)[0], *each) for each in product((1, -1), (True, False), shares))
    low, high = at / 2.0**0.25, min(at * 2.0**0.25, room)
    for _ in range(60):  # thirds of a place around the best
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (left, high) if found(sign, near, left)[0] < found(sign, near, right)[0] else (low, right)
    return max(found(sign, near, at), found(sign, near, low))


def _of_truncated_gaussian(m: Mechanism, claim: Claim, refuted: bool) -> tuple[str, str]:
    lower, upper = m.shape.spans[0]
    (first, last, _), (text, near) = _bounded(m), _answers(m, claim)
    if claim.delta or math.isinf(upper - lower):
        raise _uncovered("truncated Gaussian noise at a delta, or on a half-line")
    text += _numbers(lower=lower, upper=upper)

    if refuted:
        parts = {"answer": "last", "y": "lower", "other": "last - farthest", "lemma": "refuted_upward"}
        if last - Fraction(lower) < Fraction(upper) - first:
            parts = {"answer": "first", "y": "upper", "other": "first + farthest", "lemma": "refuted_downward"}
        return _claim("truncated_gaussian_refuted", text, "Bell TruncatedGaussian", **parts)
    downward = "apply moments_at_most; [lra | unfold tilt, part; no_more]"
    if first - Fraction(lower) == Fraction(upper) - last:
        downward = "apply in_the_middle with (last := last); [lra | lra | exact upward]"
    modules, body = _claim("truncated_gaussian", text, "Bell TruncatedGaussian", near=near, downward=downward)
    return modules, body + _claim("events", "", "", near=near, inside="lower <= c -> d <= upper ->")[1]


def _of_line(m: Mechanism, claim: Claim, refuted: bool) -> tuple[str, str]:
    """Noise on the line and what is made of it: a test of the output is a test of the noisy value."""
    text, near = _answers(m, claim)
    scale, apart, laplace = Fraction(m.noise.scale), _ends(m)[2], m.noise.laplace
    modules = f"HockeyStick {'UnboundedLaplace' if laplace else 'Bell UnboundedGaussian'}"
    if refuted:
        answer, other, cut = _best_cut(m, claim)
        text += _numbers(answer=answer, other=other, cut=cut)
        z, y = (f"(cut - {x})" if answer < other else f"({x} - cut)" for x in ("answer", "other"))
        sides = ["below" if (cut - x) * (other - answer) <= 0 else "above" for x in (answer, other)]
        proof = f"rewrite (at_most_{sides[0]} scale {z}), (at_most_{sides[1]} scale {y}) by lra."
        if not laplace:
            proof = "apply refuted, refuted_at."
        return _claim("line_refuted", text, modules, answer=z, other=y, proof=proof)
    pure = laplace and apart <= scale * Fraction(claim.epsilon)
    if not pure and _found(m, claim, _place(m, claim), float(apart)) > claim.delta * (1.0 + 1e-9):
        raise _uncovered("a claim that is true of clamped or rounded output alone, and not of the noise, or of neither")
    if laplace:
        enough = "farthest <= scale * epsilon \\/ 1 - exp ((epsilon - farthest / scale) / 2) <= delta"
        proof = "left; lra" if pure else "right; no_more"
    else:
        r, at = "(farthest / scale)", "(farthest / scale / 2 - epsilon / (farthest / scale))"
        enough = f"found epsilon {r} {at} <= 2 * half * delta"
        proof = "apply found_at_most. no_more"
    return _claim("line", text, modules, near=near, enough=enough, proof=proof, lemma=f"{m.noise.name}_tests")


def _place(m: Mechanism, claim: Claim) -> float:
    """How far from the answer the best threshold is between two answers as far apart as can be."""
    scale, apart = m.noise.scale, float(_ends(m)[2])
    return (
        max(apart - claim.epsilon * scale, 0.0) / 2 if m.noise.laplace else apart / 2 - claim.epsilon * scale**2 / apart
    )


def _found(m: Mechanism, claim: Claim, z: float, apart: float) -> float:
    """What the event finds that the noisy value is at most z above the answer, about."""

    def at_most(z: float) -> float:
        if not m.noise.laplace:
            return math.erfc(-z / m.noise.scale / math.sqrt(2.0)) / 2.0
        return (math.exp(z / m.noise.scale) if z <= 0.0 else 2.0 - math.exp(-z / m.noise.scale)) / 2.0

    return at_most(z) - math.exp(claim.epsilon) * at_most(z - apart)


def _best_cut(m: Mechanism, claim: Claim) -> tuple[Fraction, Fraction, Fraction]:
    """Two answers, and where the outputs are parted between them by the event that refutes a claim."""
    first, last, apart = _ends(m)
    assert m.support is not None
    place, cells, ends = Fraction(_place(m, claim)), m.shape.cells, m.support.hull
    best = None
    for sign in (1, -1):
        least, most = (None if x is None else sign * x for x in ((first, last) if sign == 1 else (last, first)))
        most = None if most is None else most - apart
        places = [x for x in (least, most) if x is not None] or [Fraction(0)]
        wanted = [x + place for x in (*places, sum(places) / len(places))]
        if m.bounding is QUANTIZE:
            cuts = [sign * Fraction(cell[0]) for cell in cells[1 :: max(len(cells) // 1000, 1)]] + [
                sign * Fraction(cells[-1][0])
            ]
        else:
            cuts = [sign * Fraction(min(max(float(sign * x), ends.lower), ends.upper)) for x in wanted]
        for cut in cuts:
            answer = cut - place if least is None else max(cut - place, least)
            answer = answer if most is None else min(answer, most)
            found = _found(m, claim, float(cut - answer), float(apart))
            if best is None or found > best[0]:
                best = found, sign * answer, sign * (answer + apart), sign * cut
    if best is None or best[0] <= claim.delta:
        raise _not_refuted(claim)
    return best[1:]


def _of_lattice(m: DiscreteLaplace | Staircase, claim: Claim, refuted: bool) -> tuple[str, str]:
    noise = m._stairs
    text = _numbers(rate=noise.rate, epsilon=claim.epsilon, sensitivity=m.query.sensitivity)
    parts = {"k": noise.steps, "r": noise.plateau, "levels": noise.levels}
    if claim.delta and (refuted or noise.pure > Fraction(claim.epsilon)):
        raise _uncovered("claims of noise on a lattice that need their delta, and their refutations")
    if refuted:
        return _claim("lattice_refuted", text, "Lattice", **parts)
    near, names, close = f"(Z.abs (i - j) <= {noise.levels} * {noise.steps})%Z ->", " H", "exact H"
    if isinstance(m, Staircase) and isinstance(m.query.range, Interval):
        text += _numbers(origin=m._anchor, width=m.width)
        near = "forall x x', Rabs (x - x') <= sensitivity -> nearest origin width x i -> nearest origin width x' j ->"
        names, close = " x x' H Hi Hj", "rounding H Hi Hj"
    return _claim("lattice", text, "Lattice", near=near, names=names, close=close, **parts)


def _of_table(m: Table, claim: Claim, refuted: bool) -> tuple[str, str]:
    weights, reach = m.weights.tolist(), m.reach.tolist()
    if m.weights.size > _MOST_WEIGHTS:
        raise _uncovered(f"tables of more than {_MOST_WEIGHTS} weights")
    d, bits = 1 << _PLACES, 2 * _PLACES + 64 + int(2 * claim.epsilon)
    with precision(bits):
        low = int((ball(claim.epsilon).exp() * d).lower().floor().unique_fmpz() or 0)
    text = _numbers(epsilon=claim.epsilon, delta=claim.delta, sensitivity=m.query.sensitivity)
    parts = {"d": d, "bits": _PLACES + 24 + int(2 * claim.epsilon), "total": TOTAL}
    if refuted:
        pairs = ((p, q) for i, end in enumerate(reach) for j in range(i, end + 1) for p, q in ((i, j), (j, i)))
        p, q = max(pairs, key=lambda pair: _excess(weights[pair[0]], weights[pair[1]], low + 1, d))
        most = _excess(weights[p], weights[q], low + 1, d)
        if most <= Fraction(claim.delta) * d * TOTAL:
            raise _not_refuted(claim)
        rows = {"p": _row(weights[p]), "q": _row(weights[q])}
        return _claim("table_refuted", text, "FiniteTable", n=low + 1, excess=most, **rows, **parts)
    apart = Fraction(m.query.sensitivity)
    ends = [Fraction(end) for cell in m._cells for end in (cell.lower, cell.upper) if math.isfinite(end)]
    unit = math.lcm(apart.denominator, *(end.denominator for end in ends))

    def end(x: Fraction | float) -> str:
        return f"Some ({int(x * unit)})" if isinstance(x, Fraction) else "None"

    cells = "; ".join(f"({end(cell.lower)}, {end(cell.upper)}, {str(cell.closed).lower()})" for cell in m._cells)
    rows = {"rows": ";\n  ".join(map(_row, weights)), "reach": "; ".join(map(str, reach)), "cells": cells}
    most = math.floor(Fraction(claim.delta) * d * TOTAL)
    parts |= {"count": len(weights), "width": len(weights[0]), "low": low, "most": most, "unit": unit}
    return _claim("table", text, "FiniteTable", apart=int(apart * unit), **rows, **parts)


def _row(weights: list[int]) -> str:
    return f"[{'; '.join(map(str, weights))}]%Z"


def _excess(p: list[int], q: list[int], n: int, d: int) -> int:
    return sum(max(0, d * a - n * b) for a, b in zip(p, q, strict=True))
