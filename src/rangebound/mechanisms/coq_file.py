"""A claim about a mechanism as a file for the proof assistant Coq: a theorem and its proof, or a proved refutation.

Numbers are the exact fractions that the doubles are. What remains to be trusted is the kernel of Coq, its real numbers,
and that the statement at the end of the file says what was promised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import QUANTIZE, TRUNCATE
from rangebound.mechanisms.coq_text import coq_claim, coq_numbers, coq_real, coq_text, uncovered
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.finite.finite_mechanism import Table
from rangebound.mechanisms.finite.weights import TOTAL
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.remapping import Base, Remapped
from rangebound.mechanisms.staircase import Staircase
from rangebound.privacy.setting import Claim, Notion
from rangebound.values.ball import Ball, ball, precision, up
from rangebound.values.support import Grid, Interval, is_line

_LAW = "density scale lower upper"
_WIDE = 85.0  # from this many scales on, noise at one end of a support does not see the other
_UNION, _MOST_ENDS = "Bell Bounds HockeyStick UnboundedLaplace UnionLaplace", 6
_PLACES = 128  # of e^epsilon as a fraction, for a table; of bounds that find places
_MOST_PLACES, _GAUSSIAN_BITS = 32, 58  # of truncated Gaussian noise at a delta; bits beside those of delta
_BESIDE = 2.0**-44  # scales between a threshold and the best one, which bounds tell apart
_MOST_WEIGHTS = 40_000


def coq_file(mechanism: Base | Remapped, claim: Claim, *, refuted: bool = False, library: bool = False) -> str:
    """A file that `coqc` accepts if the claim is true, or with `refuted` if it is false.

    Guarantee: the theorem `certified` at the end is the claim, for all neighbouring answers and every output, which Coq
    checks anew. Where the kernel does not cover the kind of claim, an `ArgumentError` says so.
    Edge cases: of a remapped mechanism the base is proved; remapping is post-processing. With `library` the file
    asks for the folder `proofs/`, compiled (`coqc -R proofs RB FILE`), and is short.
    """
    base = mechanism.base if isinstance(mechanism, Remapped) else mechanism
    if claim.notion is Notion.METRIC:
        raise uncovered("metric claims")
    if refuted and base is not mechanism:
        raise uncovered("refutations of a remapped mechanism, which may leak less than its base")
    modules, body = _route(base)(base, claim, refuted)
    remapped = "\n   What is published is made of the output alone, and costs nothing more." * (base is not mechanism)
    return coq_text(f"{claim} of\n   {base}", modules, body, said=remapped, refuted=refuted, library=library)


def _route(base: Base | Remapped) -> Callable[..., tuple[str, str]]:
    """What writes the theory that a kind of mechanism needs, by name, and its claim."""
    if isinstance(base, Table):
        return _of_table
    if isinstance(base, DiscreteLaplace | Staircase):
        return _of_lattice
    if not isinstance(base, Mechanism) or not (base.noise.laplace or base.noise.gaussian):
        raise uncovered(f"{getattr(base, 'noise', base)}")
    assert base.support is not None
    if base.bounding is not TRUNCATE or is_line(base.support):
        return _of_line
    if isinstance(base.support, Grid) or len(base.query.spread.spans) > 1 or not base.query.range.bounded:
        raise uncovered("grids of truncated noise, and its ranges that are unbounded or have gaps")
    if base.noise.gaussian and isinstance(base.support, Interval) and base.support.bounded:
        return _of_truncated_gaussian
    answers, outputs = base.query.range.hull, base.support.hull
    if base.noise.gaussian or not (outputs.lower <= answers.lower and answers.upper <= outputs.upper):
        raise uncovered("Gaussian noise truncated to spans or a half-line, or answers beyond a support")
    return _of_truncated_laplace if isinstance(base.support, Interval) else _of_union


def _not_refuted(claim: Claim) -> ArgumentError:
    return ArgumentError(f"{claim.terms}: not refuted; the claim is true, or too close to the truth")


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
    named = coq_numbers(scale=m.noise.scale, sensitivity=m.query.sensitivity, farthest=apart, **ends)
    return named + coq_numbers(epsilon=claim.epsilon, delta=claim.delta), near


def _of_truncated_laplace(m: Mechanism, claim: Claim, refuted: bool) -> tuple[str, str]:
    (first, last, apart), (text, near) = _bounded(m), _answers(m, claim)
    for name, x in zip(("lower", "upper"), m.shape.spans[0], strict=True):
        text += f"Notation {name} := {f'(Some {coq_real(x)})' if math.isfinite(x) else 'None'} (only parsing).\n"
    pairs = ((float(first), float(first + apart)), (float(last), float(last - apart)))
    inside = [(abs(x - y), [2.0 - sum(_past(m, z)) for z in (x, y)]) for x, y in pairs]
    losses = [far / m.noise.scale + math.log(mass2 / mass) for far, (mass, mass2) in inside]
    if claim.delta and max(losses) > claim.epsilon:
        return _of_laplace_at_delta(m, claim, refuted, text, near)
    if refuted:
        if claim.delta:
            raise _not_refuted(claim)
        ends = ("first", "first + farthest", "upward"), ("last", "last - farthest", "downward")
        at, other, side = ends[losses[0] < losses[1]]
        return coq_claim("truncated_laplace_refuted", text, "TruncatedLaplace", answer=at, other=other, side=side)
    alike = m.support == m.query.range and last - first == apart <= Fraction(m.noise.scale) * Fraction(claim.epsilon)
    theorem = "in_the_middle" if _middle(m) else "truncated_laplace"
    kind = "all_neighbours" if alike else "truncated_laplace"
    modules, body = coq_claim(kind, text, "TruncatedLaplace", near=near, theorem=theorem)
    return modules, body + coq_claim("events", "", "", near=near, inside="", law=_LAW)[1]


def _middle(m: Mechanism) -> bool:
    """Whether the range is in the middle of an interval, so that one direction is the other."""
    (lower, upper), (first, last, _) = m.shape.spans[0], _bounded(m)
    return math.isfinite(upper - lower) and first - Fraction(lower) == Fraction(upper) - last


def _bounded(m: Mechanism) -> tuple[Fraction, Fraction, Fraction]:
    hull, apart = m.query.range.hull, _ends(m)[2]
    return Fraction(hull.lower), Fraction(hull.upper), apart


def _past(m: Mechanism, x: float) -> list[float]:
    """Twice the probabilities that truncated Laplace noise about x passes the ends of its support."""
    return [math.exp(-abs(end - x) / m.noise.scale) for end in m.shape.spans[0]]


def _of_laplace_at_delta(m: Mechanism, claim: Claim, refuted: bool, text: str, near: str) -> tuple[str, str]:
    """What the best threshold finds between a and a + s is a closed form in a, which Interval bounds by halving."""
    modules = "HockeyStick UnboundedLaplace TruncatedLaplace TruncatedLaplaceDelta"
    most, answer, other, cut = _worst_threshold(m, claim)
    if refuted:
        law, sign = ("lower upper", "") if answer < other else ("(option_map Ropp upper) (option_map Ropp lower)", "- ")
        names = {name: f"({sign}{name})" for name in ("answer", "other", "cut")}
        text += coq_numbers(answer=answer, other=other, cut=cut)
        return coq_claim("laplace_at_delta_refuted", text, modules, law=law, **names)
    if most > claim.delta * (1.0 + 1e-9):
        raise uncovered("this claim at a delta, where the range is not much wider than the noise, or which is false")
    lower, upper = m.shape.spans[0]
    curve = "apply by_curve; [lra |]. unfold bound; halving A"
    if (upper - lower) / m.noise.scale > _WIDE:
        boxes = "[halving A | halving B | halving A]"
        curve = f"apply by_boxes with (t := 1 / {1 << 44}); [lra | lra | | |]; unfold bound; {boxes}"
    half_lines = ("above_a_lower_end", "A"), ("below_an_upper_end", "B")
    above, below = (f"apply {name}; [lra |]. unfold bound; halving {x}" for name, x in half_lines)
    upward, downward = (above, below) if math.isfinite(lower) else (below, above)
    if math.isfinite(lower) and math.isfinite(upper):
        upward, downward = curve, "apply in_the_middle; [lra | exact upward]" if _middle(m) else curve
    return coq_claim(
        "laplace_at_delta", text, modules, near=near, upward=upward, downward=f"simpl option_map. {downward}"
    )


def _of_union(m: Mechanism, claim: Claim, refuted: bool) -> tuple[str, str]:
    """On each piece between the places where an answer passes an end of a span, masses are sums of exponentials."""
    (first, last, apart), (text, near) = _bounded(m), _answers(m, claim)
    ends = [Fraction(end) for span in m.shape.spans for end in span if math.isfinite(end)]
    if claim.delta or len(ends) < 2 * len(m.shape.spans) or len(ends) > _MOST_ENDS:
        raise uncovered("unions at a delta, of more than three spans, or with an endless one")
    spans = "; ".join(f"({coq_real(low)}, {coq_real(high)})" for low, high in zip(ends[::2], ends[1::2], strict=True))
    text += f"Notation spans := ([{spans}]) (only parsing).\n"

    def passed(x: Fraction) -> str:
        found = [str(end <= x).lower() for end in ends]
        return "; ".join(f"({low}, {high})" for low, high in zip(found[::2], found[1::2], strict=True))

    if refuted:
        answer, other, sign = _worst_pair(m, claim)
        text += coq_numbers(answer=answer, other=other, y=ends[0] if sign == 1 else ends[-1])
        parts = {"sign": "Rabs_left1" if sign == 1 else "Rabs_right", "one": passed(answer), "two": passed(other)}
        return coq_claim("union_laplace_refuted", text, _UNION, **parts)
    room, bits = last - apart, 104 + int(2 * claim.epsilon)
    cuts = sorted({first, room, *(x for end in ends for x in (end, end - apart) if first < x < room)})
    pieces, proofs = "", []
    for way, more, less in (("upward", "farthest", "0"), ("downward", "0", "farthest")):
        proof = ""
        for i, (low, high) in enumerate(zip(cuts[:-1] or cuts, cuts[1:] or cuts, strict=True)):
            one, two = (passed(low + apart * (each == "farthest")) for each in (more, less))
            names = {"name": f"{way}_{i}", "low": coq_real(low), "high": coq_real(high), "more": more, "less": less}
            pieces += coq_claim("union_laplace_piece", "", "", one=one, two=two, bits=bits, **names)[1]
            proof += f"destruct (Rle_dec a {coq_real(high)}); [apply {way}_{i}; lra |]. " * (high < room)
        proofs.append(f"{proof}apply {way}_{i}; lra".replace(". ", "; "))
    parts = {"near": near, "pieces": pieces, "upward": proofs[0], "downward": proofs[1]}
    modules, body = coq_claim("union_laplace", text, _UNION, **parts)
    return modules, body + coq_claim("events", "", "", near=near, inside="", law="truncated scale spans")[1]


def _worst_threshold(m: Mechanism, claim: Claim) -> tuple[float, Fraction, Fraction, Fraction]:
    """What the best threshold finds between the two worst answers, about; the answers, and it."""
    (one, two, sign), scale = _worst_pair(m, claim), m.noise.scale
    e, (ends, ends2) = math.exp(-float(abs(one - two)) / scale), (_past(m, float(x))[::sign] for x in (one, two))
    z, z2 = 1.0 - sum(ends) / 2.0, 1.0 - sum(ends2) / 2.0
    v = math.sqrt(math.exp(claim.epsilon) * e * z / z2)
    most = (2.0 - ends[0]) / (2.0 * z) + math.exp(claim.epsilon) * ends2[0] / (2.0 * z2) - v / z
    return most, one, two, one + sign * Fraction(-scale * math.log(min(max(v, e), 1.0)))


def _worst_pair(m: Mechanism, claim: Claim) -> tuple[Fraction, Fraction, int]:
    """The worst answers, as far apart as can be, and the sign of the way from the one to the other."""
    (first, last, apart), (one, two) = _bounded(m), map(Fraction, m._worst_answers(claim))
    sign = 1 if one < two else -1
    one = min(max(one, first), last - apart) if sign == 1 else max(min(one, last), first + apart)
    return one, one + sign * apart, sign


def _of_truncated_gaussian(m: Mechanism, claim: Claim, refuted: bool) -> tuple[str, str]:
    lower, upper = m.shape.spans[0]
    (first, last, _), (text, near) = _bounded(m), _answers(m, claim)
    text += coq_numbers(lower=lower, upper=upper)
    modules = "Bell TruncatedGaussian"
    if claim.delta:
        modules = "Bell Bounds HockeyStick UnboundedGaussian TruncatedGaussian TruncatedGaussianDelta"
    if refuted and claim.delta:
        one, two, sign = _worst_pair(m, claim)
        cut, left = _threshold(m, claim, sign, sign * one)
        if left >= 0:
            raise _not_refuted(claim)
        parts = dict(zip(("low", "high"), ("lower", "cut") if sign == 1 else ("cut", "upper"), strict=True))
        text += coq_numbers(answer=one, other=two, cut=sign * cut)
        return coq_claim("truncated_gaussian_at_delta_refuted", text, modules, **parts)
    if refuted:
        parts = {"answer": "last", "y": "lower", "other": "last - farthest", "lemma": "refuted_upward"}
        if last - Fraction(lower) < Fraction(upper) - first:
            parts = {"answer": "first", "y": "upper", "other": "first + farthest", "lemma": "refuted_downward"}
        return coq_claim("truncated_gaussian_refuted", text, modules, **parts)
    if claim.delta:  # the best thresholds of a few places; between two of them delta is hardly above its chord
        upward = _checked_places(m, claim, 1)
        downward = "apply in_the_middle; [lra | lra | exact upward]" if _middle(m) else _checked_places(m, claim, -1)
        return coq_claim("truncated_gaussian_at_delta", text, modules, near=near, upward=upward, downward=downward)
    downward = "apply moments_at_most; [lra | unfold tilt, part; no_more]"
    if _middle(m):
        downward = "apply in_the_middle with (last := last); [lra | lra | exact upward]"
    modules, body = coq_claim("truncated_gaussian", text, modules, near=near, downward=downward)
    return modules, body + coq_claim("events", "", "", near=near, inside="lower <= c -> d <= upper ->", law=_LAW)[1]


def _up_to(m: Mechanism, sign: int, z: Fraction | None, x: Fraction) -> Ball:
    """Twice the probability of Gaussian noise about x between the lower end of a support and z, or its upper end."""
    lower, upper = sorted(sign * Fraction(end) for end in m.shape.spans[0])
    ends = ((upper if z is None else z) - x, lower - x)
    here, start = ((ball(each.numerator) / each.denominator / m.noise.scale / ball(2.0).sqrt()).erf() for each in ends)
    return here - start


def _threshold(m: Mechanism, claim: Claim, sign: int, a: Fraction) -> tuple[Fraction, Ball]:
    """Just above the best threshold between an answer and the next, a double; and what is left of delta there."""
    lower, upper = sorted(sign * end for end in m.shape.spans[0])
    apart, scale = _ends(m)[2], Fraction(m.noise.scale)
    with precision(_PLACES):
        whole, s = _up_to(m, sign, None, a), float(apart) / ball(m.noise.scale)
        loss = ball(claim.epsilon) + (whole / _up_to(m, sign, None, a + apart)).log()
        z = Fraction(min(max(up((s / 2 - loss / s + _BESIDE) * m.noise.scale + float(a)), lower), upper))
        place = (z - a) / scale
        tilt = (s * s / 2 - s * (ball(place.numerator) / place.denominator)).exp()
        found = (_up_to(m, sign, z, a) - tilt * _up_to(m, sign, z, a + apart)) / whole
        return z, ball(claim.delta) - found


def _checked_places(m: Mechanism, claim: Claim, sign: int) -> str:
    """Places from the first answer on, so close that delta is not reached between them; as a step of a proof."""
    lower, upper = sorted(sign * Fraction(end) for end in m.shape.spans[0])
    first, last = sorted(sign * x for x in _bounded(m)[:2])
    apart, scale = _ends(m)[2], Fraction(m.noise.scale)
    known, ahead = [(first, *_threshold(m, claim, sign, first))], [last - apart] * (first < last - apart)
    with precision(_PLACES):
        bend = ball(claim.epsilon).exp() * float((upper - lower) / scale) ** 2
    while ahead and len(known) + len(ahead) < _MOST_PLACES:
        (a, _, left), b = known[-1], ahead.pop()
        z, there = _threshold(m, claim, sign, b)
        with precision(_PLACES):
            one, two = (_up_to(m, sign, z, x) / _up_to(m, sign, None, x) for x in (a, a + apart))
            more = (one + bend * two) * float((b - a) / scale) ** 2 * (0.5 + 1e-9)
            if left >= 0 and there >= 0 and more <= (left.sqrt() + there.sqrt()) ** 2:
                known.append((b, z, there))
            elif left >= 0 and there >= 0:
                ahead += [b, Fraction(float((a + b) / 2))]
            else:
                break
    if ahead or not known[-1][2] >= 0 or known[-1][0] != last - apart:
        raise uncovered("this claim of truncated Gaussian noise at a delta, whose peak is flat, or which is false")
    unit = math.lcm(*(x.denominator for x in (lower, upper, apart, scale, *(x for a, z, _ in known for x in (a, z)))))
    whole = f"(L := ({int(lower * unit)})%Z) (U := ({int(upper * unit)})%Z) (S := {int(apart * unit)}%Z)"
    nodes = "; ".join(f"({int(a * unit)}, {int(z * unit)})" for a, z, _ in known)
    bits = _GAUSSIAN_BITS + math.frexp(1.0 / claim.delta)[1]
    given = f"{whole} (G := {int(scale * unit)}%positive) (unit := {unit}) (nodes := [{nodes}]%Z)"
    return f"eapply check_ok with (p := {bits}%positive) {given}; places_checked"


def _of_line(m: Mechanism, claim: Claim, refuted: bool) -> tuple[str, str]:
    """Noise on the line and what is made of it: a test of the output is a test of the noisy value."""
    text, near = _answers(m, claim)
    scale, apart, laplace = Fraction(m.noise.scale), _ends(m)[2], m.noise.laplace
    modules = f"HockeyStick {'UnboundedLaplace' if laplace else 'Bell UnboundedGaussian'}"
    if refuted:
        answer, other, cut = _best_cut(m, claim)
        text += coq_numbers(answer=answer, other=other, cut=cut)
        z, y = (f"(cut - {x})" if answer < other else f"({x} - cut)" for x in ("answer", "other"))
        sides = ["below" if (cut - x) * (other - answer) <= 0 else "above" for x in (answer, other)]
        proof = f"rewrite (at_most_{sides[0]} scale {z}), (at_most_{sides[1]} scale {y}) by lra."
        if not laplace:
            proof = "apply refuted, refuted_at."
        return coq_claim("line_refuted", text, modules, answer=z, other=y, proof=proof)
    pure = laplace and apart <= scale * Fraction(claim.epsilon)
    if not pure and _found(m, claim, _place(m, claim), float(apart)) > claim.delta * (1.0 + 1e-9):
        raise uncovered("a claim that is true of clamped or rounded output alone, and not of the noise, or of neither")
    if laplace:
        enough = "farthest <= scale * epsilon \\/ 1 - exp ((epsilon - farthest / scale) / 2) <= delta"
        proof = "left; lra" if pure else "right; no_more"
    else:
        r, at = "(farthest / scale)", "(farthest / scale / 2 - epsilon / (farthest / scale))"
        enough = f"found epsilon {r} {at} <= 2 * half * delta"
        proof = "apply found_at_most. no_more"
    return coq_claim("line", text, modules, near=near, enough=enough, proof=proof, lemma=f"{m.noise.name}_tests")


def _place(m: Mechanism, claim: Claim) -> float:
    """How far from the answer the best threshold is between two answers as far apart as can be."""
    scale, apart = m.noise.scale, float(_ends(m)[2])
    if m.noise.laplace:
        return max(apart - claim.epsilon * scale, 0.0) / 2
    return apart / 2 - claim.epsilon * scale**2 / apart


def _found(m: Mechanism, claim: Claim, z: float, apart: float) -> float:
    """What the event finds that the noisy value is at most z above the answer, about."""
    ends = (z / m.noise.scale, (z - apart) / m.noise.scale)
    if m.noise.laplace:
        one, two = (math.exp(x) / 2.0 if x <= 0.0 else (2.0 - math.exp(-x)) / 2.0 for x in ends)
    else:
        one, two = (math.erfc(-x / math.sqrt(2.0)) / 2.0 for x in ends)
    return one - math.exp(claim.epsilon) * two


def _best_cut(m: Mechanism, claim: Claim) -> tuple[Fraction, Fraction, Fraction]:
    """Two answers, and where the outputs are parted between them by the event that refutes a claim."""
    first, last, apart = _ends(m)
    assert m.support is not None
    place, cells, ends = Fraction(_place(m, claim)), m.shape.cells, m.support.hull
    tried = []
    for sign in (1, -1):
        least, most = (None if x is None else sign * x for x in ((first, last) if sign == 1 else (last, first)))
        most = None if most is None else most - apart
        places = [x for x in (least, most) if x is not None] or [Fraction(0)]
        wanted = [x + place for x in (*places, sum(places) / len(places))]
        if m.bounding is QUANTIZE:
            cuts = [sign * Fraction(cell[0]) for cell in (*cells[1 :: max(len(cells) // 1000, 1)], cells[-1])]
        else:
            cuts = [sign * Fraction(min(max(float(sign * x), ends.lower), ends.upper)) for x in wanted]
        for cut in cuts:
            answer = cut - place if least is None else max(cut - place, least)
            answer = answer if most is None else min(answer, most)
            found = _found(m, claim, float(cut - answer), float(apart))
            tried.append((found, sign * answer, sign * (answer + apart), sign * cut))
    best = max(tried, key=lambda each: each[0])
    if best[0] <= claim.delta:
        raise _not_refuted(claim)
    return best[1:]


def _of_lattice(m: DiscreteLaplace | Staircase, claim: Claim, refuted: bool) -> tuple[str, str]:
    noise = m._stairs
    text = coq_numbers(rate=noise.rate, epsilon=claim.epsilon, sensitivity=m.query.sensitivity)
    parts = {"k": noise.steps, "r": noise.plateau, "levels": noise.levels}
    if claim.delta and (refuted or noise.pure > Fraction(claim.epsilon)):
        raise uncovered("claims of noise on a lattice that need their delta, and their refutations")
    if refuted:
        return coq_claim("lattice_refuted", text, "Lattice", **parts)
    near, names, close = f"(Z.abs (i - j) <= {noise.levels} * {noise.steps})%Z ->", " H", "exact H"
    if isinstance(m, Staircase) and isinstance(m.query.range, Interval):
        text += coq_numbers(origin=m._anchor, width=m.width)
        near = "forall x x', Rabs (x - x') <= sensitivity -> nearest origin width x i -> nearest origin width x' j ->"
        names, close = " x x' H Hi Hj", "rounding H Hi Hj"
    return coq_claim("lattice", text, "Lattice", near=near, names=names, close=close, **parts)


def _of_table(m: Table, claim: Claim, refuted: bool) -> tuple[str, str]:
    weights, reach = m.weights.tolist(), m.reach.tolist()
    lines = [f"[{'; '.join(map(str, row))}]%Z" for row in weights]
    if m.weights.size > _MOST_WEIGHTS:
        raise uncovered(f"tables of more than {_MOST_WEIGHTS} weights")
    d, bits = 1 << _PLACES, 2 * _PLACES + 64 + int(2 * claim.epsilon)
    with precision(bits):
        low = int((ball(claim.epsilon).exp() * d).lower().floor().unique_fmpz() or 0)
    text = coq_numbers(epsilon=claim.epsilon, delta=claim.delta, sensitivity=m.query.sensitivity)
    parts: dict[str, object] = {"d": d, "bits": _PLACES + 24 + int(2 * claim.epsilon), "total": TOTAL}
    if refuted:
        pairs = [(p, q) for i, end in enumerate(reach) for j in range(i, end + 1) for p, q in ((i, j), (j, i))]
        both = ((zip(weights[p], weights[q], strict=True), (p, q)) for p, q in pairs)
        most, (p, q) = max((sum(max(0, d * a - (low + 1) * b) for a, b in rows), pair) for rows, pair in both)
        if most <= Fraction(claim.delta) * d * TOTAL:
            raise _not_refuted(claim)
        parts |= {"n": low + 1, "excess": most, "p": lines[p], "q": lines[q]}
        return coq_claim("table_refuted", text, "FiniteTable", **parts)
    apart = Fraction(m.query.sensitivity)
    ends = [Fraction(end) for cell in m._cells for end in (cell.lower, cell.upper) if math.isfinite(end)]
    unit = math.lcm(apart.denominator, *(end.denominator for end in ends))
    whole = {end: f"Some ({int(end * unit)})" for end in ends} | {math.inf: "None", -math.inf: "None"}
    cells = "; ".join(f"({whole[each.lower]}, {whole[each.upper]}, {str(each.closed).lower()})" for each in m._cells)
    parts |= {"rows": ";\n  ".join(lines), "reach": "; ".join(map(str, reach)), "cells": cells, "unit": unit}
    parts |= {"count": len(weights), "width": len(weights[0]), "low": low, "apart": int(apart * unit)}
    return coq_claim("table", text, "FiniteTable", most=math.floor(Fraction(claim.delta) * d * TOTAL), **parts)
