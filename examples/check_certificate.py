"""Check a certificate of rangebound without rangebound: another program, another arithmetic, other bounds.

    python examples/check_certificate.py certificate.json ...

It reads the JSON alone and proves the claim again in the intervals of mpmath. Two facts of docs/theory.md are all that
it takes over. The ratio of two laws falls from left to right, so the best attack is a threshold. And a pair of true
answers inside a wider pair tells less, so all pairs (p, p + D) with p in [a, b] tell at most what (a, b + D) does. With
that bound alone, by halving, it covers all positions in both directions. How `certify` bounded a cell plays no part;
but the cells of a proof must cover all positions too, where the range is an interval. The bound is of first order: a
claim closer than about one percent to the truth takes long, and after `MOST` cells it is refused as not proved.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from fractions import Fraction
from functools import lru_cache
from typing import Any

from mpmath import iv

iv.prec = 130
MOST, INF, LONGEST, SMALLEST = 20_000, math.inf, 1_000_000, sys.float_info.min
THEOREMS = ["POST_PROCESSING", "LOSS_AT_ENDS", "LOSS_ON_CELLS", "DELTA_AT_PEAK", "DELTA_ON_CELLS", "DELTA_ON_WINDOWS"]
Number = float | Fraction  # exact; an infinite one is a float
Ends = tuple[Number, Number]


class Refused(Exception):
    """A certificate that is not proved here, with the reason."""


def exact(x: Number) -> Any:
    """A number as an interval around it."""
    return iv.mpf(Fraction(x).numerator) / iv.mpf(Fraction(x).denominator)


def between(low: Any, high: Any) -> Any:
    """One interval from the lower end of one to the upper end of another."""
    return iv.make_mpf((low._mpi_[0], high._mpi_[1]))


def ends_of(x: Any) -> list[Fraction]:
    """The two ends of a finite interval, exactly."""
    if any(man == 0 and power for _, man, power, _ in x._mpi_):
        raise Refused("claim: no bound was found")
    return [Fraction(-man if sign else man) * Fraction(2) ** power for sign, man, power, _ in x._mpi_]


@lru_cache(maxsize=200_000)
def upper_tail(z: Fraction) -> Any:
    """P(Z >= z) of the normal law, z >= 0: by the series z^(2n+1)/(1 3 5 ... (2n+1)), or far out between two bounds."""
    x = exact(z)
    height = iv.exp(-x * x / 2) / iv.sqrt(2 * iv.pi)
    if z > 9:
        return between(height / x * (1 - 1 / (x * x)), height / x)
    term, total = x, iv.mpf(0)
    for n in itertools.count():
        ratio = x * x / (2 * n + 3)
        total, term = total + term, term * ratio
        if ratio < 0.5 and term < 1e-45:  # so that the rest is at most twice the first term that is left out
            break
    return iv.mpf("0.5") - height * between(total, total + 2 * term)


class Noise:
    """Noise about a location."""

    def __init__(self, data: Any) -> None:
        limited = isinstance(data, dict) and data.get("family") == "truncated_laplacian"
        self.family, scale, *limit = _fields("noise", data, *("family", "scale", "limit")[: 2 + limited])
        self.scale = _number("scale", scale, SMALLEST)
        self.limit = _number("limit", *limit, SMALLEST) if limited else None
        if self.family not in ("laplace", "gaussian", "truncated_laplacian"):
            raise Refused("noise: is not known")

    def cdf(self, y: Number) -> Any:
        """P(noise <= y)."""
        if math.isinf(y):
            return iv.mpf(int(y > 0))
        y = Fraction(y) if self.limit is None else max(min(Fraction(y), self.limit), -self.limit)
        tail = upper_tail(abs(y) / self.scale) if self.family == "gaussian" else self.density(y) / 2
        beyond = iv.mpf(0) if self.limit is None else self.density(self.limit) / 2
        return ((tail if y <= 0 else 1 - tail) - beyond) / (1 - 2 * beyond)

    def density(self, y: Fraction) -> Any:
        """The density at y in parts of the highest, without a limit."""
        return iv.exp(-exact(y * y / (2 * self.scale**2) if self.family == "gaussian" else abs(y) / self.scale))

    def log_ratio(self, x: Number, p: Fraction, q: Fraction) -> Any:
        """log g(x - p) - log g(x - q) for p < q; infinite where only the left one lives."""
        if self.limit is not None and x < q - self.limit:
            return iv.mpf(INF)
        if self.family == "gaussian":
            return iv.mpf(INF) if math.isinf(x) else exact((q - p) * (p + q - 2 * Fraction(x)) / (2 * self.scale**2))
        return exact((q - p if math.isinf(x) else abs(Fraction(x) - q) - abs(Fraction(x) - p)) / self.scale)

    def thresholds(self, p: Fraction, q: Fraction, level: Any) -> list[Number]:
        """Two numbers around the place where the log-ratio of the pair falls through `level`."""
        most, found = (q - p) / self.scale, []
        for at in reversed(ends_of(level)):
            if self.family == "gaussian":
                place: Number = (p + q) / 2 - at * self.scale / most
            else:
                place = -INF if at > most else INF if at < -most else (p + q - at * self.scale) / 2
            found.append(place if self.limit is None else max(min(place, p + self.limit), q - self.limit))
        return found


class Laws:
    """The laws of a mechanism, by location: what a bounding makes of the noise on a support."""

    def __init__(self, noise: Noise, bounding: str, spans: list[Ends], points: list[Fraction]) -> None:
        self.noise, self.bounding, self.spans, self.points = noise, bounding, spans, points
        kinds = {"truncate": spans or points, "rectify": len(spans) == 1, "quantize": points, "unbounded": True}
        if not kinds.get(bounding) or (points and noise.limit is not None and bounding == "truncate"):
            raise Refused("bounding: is not known here, or not on this support")
        self.cuts: list[Number] = [(a + b) / 2 for a, b in itertools.pairwise(points)]

    def mass(self, p: Fraction, upto: Number = INF) -> Any:
        """What the noise about p has on the spans as far as `upto`, or on all points."""
        if self.points:
            return sum((self.noise.density(x - p) for x in self.points), iv.mpf(0))
        parts = [(low, min(high, upto)) for low, high in self.spans if low < upto]
        return sum((self.noise.cdf(high - p) - self.noise.cdf(low - p) for low, high in parts), iv.mpf(0))

    def loss(self, p: Fraction, q: Fraction) -> Any:
        """The pure epsilon of the pair p < q: the log-ratio at the left end, where it is largest."""
        first = -INF if self.bounding == "unbounded" else self.points[0] if self.points else self.spans[0][0]
        if self.bounding == "truncate":
            reached = first if self.noise.limit is None else max(first, p - self.noise.limit)
            return self.noise.log_ratio(reached, p, q) + _log(self.mass(q), self.mass(p))
        if math.isinf(first):
            return self.noise.log_ratio(first, p, q)
        cut = self.cuts[0] if self.points else first
        return _log(self.noise.cdf(cut - p), self.noise.cdf(cut - q))

    def stick(self, p: Fraction, q: Fraction, epsilon: Fraction) -> Any:
        """sup over sets A of P_p(A) - e^epsilon P_q(A) for p < q: an interval that ends at or above it."""
        level, factor, noise = exact(epsilon), iv.exp(exact(epsilon)), self.noise
        if self.bounding == "quantize":
            return _largest(noise.cdf(cut - p) - factor * noise.cdf(cut - q) for cut in self.cuts)
        if self.bounding == "truncate":
            ours, theirs = self.mass(p), self.mass(q)
            if not (ours > 0 and theirs > 0):
                return iv.mpf(INF)
            if self.points:
                pairs = ((noise.density(x - p) / ours, noise.density(x - q) / theirs) for x in self.points)
                return sum((_largest([a - factor * b]) for a, b in pairs), iv.mpf(0))
            first, last = noise.thresholds(p, q, level - iv.log(theirs / ours))
            mine, other = (between(self.mass(at, first), self.mass(at, last)) for at in (p, q))
            return _largest([mine / ours - factor * other / theirs])
        low, high = self.spans[0] if self.bounding == "rectify" else (-INF, INF)
        first, last = (min(max(each, low), high) for each in noise.thresholds(p, q, level))
        mine, other = (between(noise.cdf(first - at), noise.cdf(last - at)) for at in (p, q))
        return _largest([mine - factor * other])


def _log(part: Any, whole: Any) -> Any:
    return iv.log(part / whole) if part > 0 and whole > 0 else iv.mpf(INF)


def _largest(values: Any) -> Any:
    """The interval that ends highest, or zero."""
    top = iv.mpf(0)
    for value in values:
        top = top if value <= top.b else value
    return top


class Claim:
    """All pairs of a mechanism in one direction, and what is claimed of them."""

    def __init__(self, laws: Laws, answers: list[Ends], reach: Fraction, epsilon: Fraction, delta: Fraction):
        self.laws, self.answers, self.reach, self.epsilon, self.delta = laws, answers, reach, epsilon, delta
        if laws.noise.family == "laplace" and laws.bounding == "truncate":  # beyond the support nothing changes
            places = laws.points or [end for span in laws.spans for end in span]
            low, high = min(places), max(places)
            self.answers = [(min(max(a, low), high), min(max(b, low), high)) for a, b in answers]
        self.low, self.high = self.answers[0][0], self.answers[-1][1]
        one = self.high - self.low <= self.reach
        self.last = self.low if one else self.high if math.isinf(self.high) else Fraction(self.high) - reach

    def mirrored(self) -> Claim:
        """The other direction: x becomes -x."""
        spans, points = [(-b, -a) for a, b in reversed(self.laws.spans)], [-x for x in reversed(self.laws.points)]
        laws = Laws(self.laws.noise, self.laws.bounding, spans, points)
        return Claim(laws, [(-b, -a) for a, b in reversed(self.answers)], self.reach, self.epsilon, self.delta)

    def holds_on(self, a: Number, b: Number) -> bool:
        """Whether the claim is proved for all pairs with p in [a, b] and q up to p + reach, by the wider pair."""
        if math.isinf(a) or math.isinf(b):
            return self._holds_far(a, b)
        p, most = Fraction(a), Fraction(b) + self.reach
        q = Fraction(max(min(most, end) for start, end in self.answers if start <= most))
        if self.delta == 0:
            return bool(self.laws.loss(p, q) <= exact(self.epsilon))
        return bool(self.laws.stick(p, q, self.epsilon) <= exact(self.delta))

    def _holds_far(self, a: Number, b: Number) -> bool:
        """The same on a half-line: a law is at most 1/z of the noise, for z its mass on the last span, which grows."""
        laws, right = self.laws, math.isinf(b)
        last = laws.spans[-1 if right else 0] if laws.bounding == "truncate" and laws.spans else (0, 0)
        if (last[1] if right else -last[0]) != INF or (math.isinf(a) and math.isinf(b)):
            return False
        mass = Laws(laws.noise, "truncate", [last], []).mass(Fraction(a) if right else Fraction(b) + self.reach)
        free, epsilon = Laws(laws.noise, "unbounded", [], []), ends_of(exact(self.epsilon) + iv.log(mass))[0]
        if self.delta == 0 or epsilon < 0:
            return bool(free.loss(Fraction(0), self.reach) <= exact(epsilon))
        return bool(free.stick(Fraction(0), self.reach, epsilon) / mass <= exact(self.delta))

    def prove(self) -> int:
        """Prove the claim in this direction; how many cells that took."""
        free = Laws(self.laws.noise, "unbounded", [], [])
        everywhere = Claim(free, [(Fraction(0), self.reach)], self.reach, self.epsilon, self.delta)
        if self.laws.bounding != "truncate" and everywhere.holds_on(Fraction(0), Fraction(0)):
            return 1  # the output is a function of the noisy value
        # What is right of `last`, or of a span's start there, is inside the pair that begins there.
        stack, count = [(a, max(a, min(b, self.last))) for a, b in self.answers if self.low < self.high], 0
        while stack:
            (a, b), count = stack.pop(), count + 1
            if not self.holds_on(a, b):
                middle = _middle(a, b, 8 * self.laws.noise.scale)
                if count > MOST or not a < middle < b or not self.holds_on(middle, middle):
                    raise Refused(f"epsilon={float(self.epsilon)}, delta={float(self.delta)}: not proved")
                stack += [(middle, b), (a, middle)]
        return count

    def covered_by(self, cells: list[Ends]) -> bool:
        """Whether cells leave no position out."""
        reached = self.low
        for start, stop in sorted(cells):
            reached = max(reached, stop) if start <= reached else reached
        return reached >= self.last and any(start <= self.low for start, _ in cells)


def _middle(a: Number, b: Number, far: Fraction) -> Number:
    if math.isinf(a):
        return Fraction(0) if math.isinf(b) else Fraction(b) - max(far, abs(Fraction(b)))
    return Fraction(a) + max(far, abs(Fraction(a))) if math.isinf(b) else (Fraction(a) + Fraction(b)) / 2


def _double(text: str) -> float:
    if not math.isfinite(value := float(text)) or repr(value) != text:
        raise Refused(f"number {text[:40]}: is not written as the finite double that it is")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise Refused("a name is given twice")
    return dict(pairs)


def _fields(what: str, data: Any, *names: str) -> list[Any]:
    if not isinstance(data, dict) or data.keys() != {*names}:
        raise Refused(f"{what}: must have the fields {', '.join(names)} and no other")
    return [data[name] for name in names]


def _number(what: str, value: Any, least: float, below: float = INF) -> Fraction:
    if type(value) is not float or not least <= value < below or str(value) == "-0.0":
        raise Refused(f"{what}={str(value)[:40]}: must be a double, at least {least} and below {below}")
    return Fraction(value)


def _ends(pair: Any) -> Ends:
    if not isinstance(pair, list) or len(pair) != 2:
        raise Refused("span: must be two ends")
    low, high = (float(x) if x in ("inf", "-inf") else _number("end", x, -INF) for x in pair)
    if low > high:
        raise Refused("span: must go from left to right")
    return low, high


def _places(what: str, data: Any) -> tuple[list[Ends], list[Fraction]]:
    """The spans of a support, or its points."""
    if not isinstance(data, dict) or data.keys() not in ({"interval"}, {"union"}, {"grid"}):
        raise Refused(f"{what}: must be an interval, a union or a grid")
    if "grid" in data:
        step, within = _fields("grid", data["grid"], "step", "within")
        (low, high), width = map(float, _ends(within)), float(_number("step", step, SMALLEST))
        if not 1 <= (count := (high - low) / width + 1e-9) <= MOST:
            raise Refused(f"grid: is checked here from 2 to {MOST} points")
        return [], [Fraction(min(low + width * at, high)) for at in range(int(count) + 1)]
    spans = [*map(_ends, data["union"] if "union" in data else [data["interval"]])]
    if not all(a < b for a, b in spans) or any(b >= c for (_, b), (c, _) in itertools.pairwise(spans)):
        raise Refused(f"{what}: spans must ascend and not touch")
    return spans, []


def check(text: str) -> int:
    """Prove the claim of a certificate again from its text; how many cells that took."""
    try:
        return _checked(text)
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise Refused(f"text: cannot be read; {str(error)[:200]}") from error


def _checked(text: str) -> int:
    if len(text) > LONGEST:
        raise Refused(f"text: is longer than {LONGEST} characters")
    data = json.loads(text, object_pairs_hook=_once, parse_float=_double, parse_constant=_double)
    if not isinstance(data, dict) or "format" not in data or "mechanism" not in data:
        raise Refused("text: must be a certificate, with a format and a mechanism")
    if data["format"] != "rangebound certificate 1" or not data["mechanism"].keys() - {"geometric", "staircase"}:
        raise Refused("format: is not known here; metric claims, lattices, tables and remaps are left to rb.verify")
    names = "format", "mechanism", "epsilon", "delta", "theorem", "bits", "cells"
    _, mechanism, epsilon, delta, theorem, bits, cells = _fields("certificate", data, *names)
    noise, query, support, bounding = _fields("mechanism", mechanism, "noise", "query", "support", "bounding")
    answered, sensitivity = _fields("query", query, "range", "sensitivity")
    (spans, points), (answers, _) = _places("support", support), _places("range", answered)
    if theorem not in THEOREMS or type(bits) is not int or not answers:
        raise Refused("theorem, bits or range: is not known here")
    tasks = [(task, _ends(ends)) for task, *ends in cells]
    if not all(type(task) is int and 0 <= task < MOST for task, _ in tasks):
        raise Refused("cells: are of no task")
    laws = Laws(Noise(noise), bounding, spans, points)
    numbers = _number("sensitivity", sensitivity, 5e-324), _number("epsilon", epsilon, 0), _number("delta", delta, 0, 1)
    claim = Claim(laws, answers, *numbers)
    sides = [claim, claim.mirrored()]
    if theorem.endswith("CELLS") and claim.low < claim.high and len(claim.answers) == 1:
        # The tasks of a proof are the lines of one direction, then those of the other, if it is another.
        most = 1 + max((task for task, _ in tasks), default=0)
        half = most if _symmetric(*sides) else most // 2
        for at, side in enumerate(sides[: 1 if half == most else 2]):
            if not side.covered_by([cell for task, cell in tasks if at * half <= task < (at + 1) * half]):
                raise Refused("cells: leave a position out")
    return sum(side.prove() for side in sides)


def _symmetric(one: Claim, other: Claim) -> bool:
    """Whether both directions are the same but for a shift."""
    shift = 0 if math.isinf(one.low) or math.isinf(one.high) else one.low - other.low
    spans, points = [(a + shift, b + shift) for a, b in other.laws.spans], [x + shift for x in other.laws.points]
    return (spans, points, other.low + shift) == (one.laws.spans, one.laws.points, one.low)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        try:
            with open(name, encoding="utf-8") as file:
                print(f"{name}: proved, on {check(file.read(LONGEST + 1))} cells")
        except (OSError, Refused, UnicodeDecodeError) as reason:
            sys.exit(f"{name}: refused; {reason}")
