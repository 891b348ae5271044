"""A lower limit on the error of every private mechanism, with the dual numbers that prove it."""

from __future__ import annotations

import enum
import itertools
import json
import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from flint import arb

from rangebound.errors import ArgumentError, CertificateInvalid, RangeboundError
from rangebound.mechanisms.coq_text import coq_claim, coq_numbers, coq_text, uncovered
from rangebound.optimum.input_lattice import LARGEST, first_neighbours
from rangebound.values import arguments
from rangebound.values.ball import precision
from rangebound.values.data_frames import as_html
from rangebound.values.numeric import rounded_down
from rangebound.values.serial import read_json, same_data, support_from_dict, support_to_dict
from rangebound.values.support import Grid, Interval, Query

FORMAT = "rangebound limit 1"
LONGEST = 4_000_000
"""Characters of the longest certificate of a limit that is read."""
WORK = 4_000_000
"""Pairs of an input and a number y that a proof may have: some seconds, at a large epsilon up to a minute or two."""
NUMBERS = 100_000
"""Numbers y that it may have, however few its inputs are."""
_MOST_PAIRS = 4_000  # of a proof for Coq, which takes 3 to 4 milliseconds for each


class LimitedError(enum.Enum):
    """The error that is limited: mean absolute or mean squared error."""

    MAE = "mae"
    MSE = "mse"


class Over(enum.Enum):
    """What an error is taken over: the worst true answer, or the average over a uniform one."""

    WORST = "worst"
    AVERAGE = "average"


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Limit:
    """No epsilon-private mechanism of any kind has an error below `value` at all true answers of the query's range.

    The proof is a prior lam over finitely many true answers t and a price u for each, such that for every number y

        sum_t (lam_t loss(y, t) - u_t) v_t >= 0   for every v >= 0 with v_s <= e^epsilon v_t for neighbours s, t.

    Whatever is published, the probability (or density) of y as a function of t is such a v, and probabilities sum to 1:
    so the error averaged over the prior, and with it the worst one, is at least sum_t u_t.

    It is enough to check staircases v, by the recursion of `price`, and finitely many y. For absolute error
    the sum is convex and piecewise linear in y with kinks at the t alone, so its least value is at one of them. For
    squared error, it is a parabola A y^2 - 2 B y + C with A = sum_t lam_t v_t; the least is at B/A, which lies between
    the first and the last t, and a y that is at most d/2 from there has at most A d^2/4 more. If the sum is >= 0 at
    points d apart, lowering each u_t by lam_t d^2/4 makes it >= 0 everywhere, and the limit is sum_t u_t - d^2/4
    sum_t lam_t.
    Those points are the inputs and `subdivisions` - 1 points between any two of them.

    Inputs may fall into blocks that have no neighbours in each other. A v is then any v of each block, so that each of
    them is checked on its own, and d is the largest distance inside of one.

    On average, true answers are uniform: with `width` > 0 every cell [t, t + width] lies in the range, and all of them
    shifted by the same amount are again such points, with the same neighbours. Averaged over the shift, the prior is
    uniform over the cells. A part of the range that they leave out has an error of at least 0.

    `closed` says whether the search ended near the best limit on these inputs; where it is False, a higher one may
    exist. The proof does not use it; it is not written, and is None in what was read.

    Guarantee: none as read; `verify` proves it, in whole numbers, from these numbers alone.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    >>> found = rb.limit(query=query, epsilon=1.0)
    >>> found.verify(), round(found.value, 2)
    (True, 0.32)
    """

    query: Query
    epsilon: float
    objective: LimitedError
    at: Over
    inputs: tuple[float, ...]
    prior: tuple[float, ...]
    prices: tuple[float, ...]
    width: float = 0.0
    subdivisions: int = 1
    closed: bool | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        arguments.instance("query", self.query, Query, "a Query")
        object.__setattr__(self, "epsilon", arguments.positive("epsilon", self.epsilon))
        object.__setattr__(self, "objective", arguments.member("objective", self.objective, LimitedError))
        object.__setattr__(self, "at", arguments.member("at", self.at, Over))
        object.__setattr__(self, "width", arguments.nonnegative("width", self.width))
        if type(self.subdivisions) is not int or self.subdivisions < 1:
            raise ArgumentError(f"subdivisions={arguments.shown(self.subdivisions)}: must be a whole number from 1 on")
        for name in ("inputs", "prior", "prices"):
            numbers = arguments.reals(name, getattr(self, name))
            if numbers.ndim != 1:
                raise ArgumentError(f"{name}={arguments.shown(getattr(self, name))}: must be a list of numbers")
            object.__setattr__(self, name, tuple(numbers.tolist()))

    @property
    def value(self) -> float:
        """The limit, rounded down; never below 0."""
        total = sum(map(Fraction, self.prices), Fraction(0))
        if self.objective is LimitedError.MSE:
            total -= self._gap**2 / 4 * sum(map(Fraction, self.prior), Fraction(0))
        return max(rounded_down(total), 0.0)

    def _repr_html_(self) -> str:
        facts = {"query": self.query, "error": f"{self.objective.value} ({self.at.value})"}
        proof = f"{len(self.inputs)} inputs; verify() checks it"
        limit = arguments.downwards(self.value)
        return as_html(
            f"No {self.epsilon:g}-private mechanism has a smaller error", {**facts, "at least": limit, "proof": proof}
        )

    @property
    def _gap(self) -> Fraction:
        """The distance of the points y at which a squared error is checked."""
        exact = [Fraction(each) for each in self.inputs]
        inside = (exact[s] - exact[s - 1] for s, each in enumerate(self._first) if each < s)
        return max(inside, default=Fraction(0)) / self.subdivisions

    @cached_property
    def _first(self) -> list[int]:
        """The first neighbour of every input; the input itself where a block begins."""
        return first_neighbours(self.query, list(self.inputs))

    def verify(self) -> bool:
        """Prove the limit again, from its numbers alone; what does not prove it is refused.

        Guarantee: whole numbers that are rounded down, with e^epsilon between two of them by ball arithmetic, epsilon
        being the double that it is. n points y cost O(n) operations each.

        >>> import dataclasses, rangebound as rb
        >>> found = rb.limit(query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0), epsilon=1.0)
        >>> dataclasses.replace(found, prices=[1.001 * each for each in found.prices]).verify()
        Traceback (most recent call last):
            ...
        rangebound.errors.CertificateInvalid: limit: some output is cheaper than its price; it is not proved
        """
        self._check_points()
        self._check_prior()
        starts = [s for s, each in enumerate(self._first) if each == s]
        blocks = [
            (slice(a, b), [each - a for each in self._first[a:b]])
            for a, b in itertools.pairwise([*starts, len(self.inputs)])
        ]
        # A jump loses a unit times the level right of it, and 2^-bits of the sum left of it times e^epsilon: less than
        # 2^-100 of the highest level, however many there are below it.
        bits = 128 + math.ceil(3.0 * self.epsilon)
        rise, fall = (_power(each, bits) for each in (self.epsilon, -self.epsilon))
        for costs in self._costs(bits):
            if not all(cheapest(costs[block], first, rise, fall, bits) >= 0 for block, first in blocks):
                raise CertificateInvalid("limit: some output is cheaper than its price; it is not proved")
        return True

    def _costs(self, bits: int) -> Iterator[list[int]]:
        """What every input costs at each y that is checked, lam loss - u, in one unit, rounded down to whole numbers.

        Every number is a whole multiple of a power of two, or of its part for a y between two inputs: products and
        differences are exact, and rounded once, to a unit so small that the largest price has this many binary places.
        """
        power, parts = (1, 1) if self.objective is LimitedError.MAE else (2, self.subdivisions)
        (inputs, one), (prior, two), (prices, three) = map(_scaled, (self.inputs, self.prior, self.prices))
        fine = max(two + power * one, three)  # binary places of lam loss and of u
        wanted = bits - max(map(abs, prices)).bit_length() + three - fine
        up, down = max(wanted, 0), max(-wanted, 0)
        weights = [each << fine - two - power * one + up for each in prior]
        known = [each * parts**power << fine - three + up for each in prices]
        places = [each * parts for each in inputs]
        for y in self._different_outputs():
            at = y * parts * 2**one
            if at.denominator != 1:
                raise CertificateInvalid("limit: a number y is not where it is said to be")
            here = at.numerator
            away = (abs(here - each) ** power for each in places)
            yield [lam * loss - u >> down for lam, loss, u in zip(weights, away, known, strict=True)]

    def _different_outputs(self) -> list[Fraction]:
        """The points y that need a check of their own: of a proof that is its own mirror image, one of each two."""
        outputs = self._outputs()
        if not self._is_mirrored():
            return outputs
        ends, known = Fraction(self.inputs[0]) + Fraction(self.inputs[-1]), set(outputs)
        return [y for y in outputs if 2 * y <= ends or ends - y not in known]

    def _is_mirrored(self) -> bool:
        """Whether inputs, neighbours, prior and prices are the same from the other end: then so are all costs."""
        exact, last = [Fraction(each) for each in self.inputs], len(self.inputs) - 1
        numbers = ([a + b for a, b in zip(exact, reversed(exact), strict=True)], self.prior, self.prices)
        if any(list(each) != list(reversed(each)) for each in numbers) or len(set(numbers[0])) > 1:
            return False
        farthest = [bisect_right(self._first, s) - 1 for s in range(len(exact))]  # the last neighbour of every input
        return all(farthest[last - s] == last - each for s, each in enumerate(self._first))

    def _outputs(self) -> list[Fraction]:
        exact = [Fraction(each) for each in self.inputs]
        parts = 1 if self.objective is LimitedError.MAE else self.subdivisions
        within = [parts if each < s else 1 for s, each in enumerate(self._first)][1:]
        pairs = zip(itertools.pairwise(exact), within, strict=True)
        return [*(a + (b - a) * i / parts for (a, b), count in pairs for i in range(count)), exact[-1]]

    def _check_points(self) -> None:
        count = len(self.inputs)
        if count < 2 or len(self.prior) != count or len(self.prices) != count:
            raise CertificateInvalid("limit: must have two inputs or more, with a prior and a price for each")
        if any(a >= b for a, b in itertools.pairwise(self.inputs)):
            raise CertificateInvalid("limit: inputs must ascend")
        if self.epsilon > LARGEST:
            raise CertificateInvalid(f"limit: epsilon must be at most {LARGEST:g}, not {self.epsilon}")
        parts = 1 if self.objective is LimitedError.MAE else self.subdivisions
        if count * count * parts > WORK or count * parts > NUMBERS:
            raise CertificateInvalid(
                f"limit: must have at most {WORK} pairs of an input and a number y at which the sum is checked, and "
                f"{NUMBERS} numbers y; {count} inputs and {arguments.shown(parts)} subdivisions have more"
            )
        if isinstance(self.query.range, Grid):
            inside = not self.width and set(self.inputs).issubset(self.query.range.points.tolist())
        else:
            width, spans = Fraction(self.width), self.query.range.spans
            starts = [lower for lower, _ in spans]
            found = ((t, spans[max(bisect_right(starts, t) - 1, 0)]) for t in self.inputs)  # the last that begins there
            inside = all(
                math.isfinite(lower) and math.isfinite(upper) and lower <= t and Fraction(t) + width <= Fraction(upper)
                for t, (lower, upper) in found
            )
        if not inside:
            raise CertificateInvalid("limit: every input, and its cell, must lie in the range")

    def _check_prior(self) -> None:
        prior = [Fraction(each) for each in self.prior]
        if min(prior) < 0 or sum(prior) > 1:
            raise CertificateInvalid("limit: the prior must not be negative, and must not sum to more than 1")
        if self.at is Over.WORST:
            if sum(prior) != 1:
                raise CertificateInvalid("limit: the prior must sum to 1")
            return
        if not self.query.range.bounded:
            raise CertificateInvalid("limit: an average needs a bounded range, over which a true answer can be uniform")
        width, size = Fraction(self.width), sum(Fraction(b) - Fraction(a) for a, b in self.query.range.spans)
        if isinstance(self.query.range, Grid):
            width, size = Fraction(1), Fraction(len(self.query.range.points))
        elif width <= 0 or any(Fraction(b) - Fraction(a) < width for a, b in itertools.pairwise(self.inputs)):
            raise CertificateInvalid("limit: an average needs cells that do not overlap")
        if max(prior) * size > width:
            raise CertificateInvalid("limit: the prior must not be above the uniform one")

    def to_json(self) -> str:
        """The certificate as JSON; doubles are written so that they come back exactly."""
        return json.dumps(self._to_dict(), indent=1)

    def _to_dict(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "query": {"range": support_to_dict(self.query.range), "sensitivity": self.query.sensitivity},
            "epsilon": self.epsilon,
            "objective": self.objective.value,
            "at": self.at.value,
            "value": self.value,
            "width": self.width,
            "subdivisions": self.subdivisions,
            "inputs": list(self.inputs),
            "prior": list(self.prior),
            "prices": list(self.prices),
        }

    def to_coq(self, *, library: bool = False) -> str:
        """The limit as a theorem for the proof assistant Coq, with its proof, which the kernel computes.

        Guarantee: what `coqc` accepts is proved of every mechanism and expectation; read the last theorem.
        Edge cases: averages, inputs that do not all hang together by neighbours, and many raise `ArgumentError`.
        With `library` the file asks for the compiled folder `proofs/` of the repository.

        >>> import rangebound as rb
        >>> query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
        >>> "Theorem certified" in rb.limit(query=query, epsilon=1.0).to_coq()
        True
        """
        squared, exact = self.objective is LimitedError.MSE, [Fraction(each) for each in self.inputs]
        outputs, prior, prices = self._outputs(), [Fraction(each) for each in self.prior], map(Fraction, self.prices)
        unit = math.lcm(*(each.denominator for each in (*outputs, *exact)))
        places = [int(each * unit) for each in exact]
        away = math.floor(Fraction(self.query.sensitivity) * unit)
        near = all(places[s] - places[first] <= away for s, first in enumerate(self._first))
        if self.at is Over.AVERAGE or not near or any(first == s > 0 for s, first in enumerate(self._first)):
            raise uncovered("limits of an average, or of a range whose parts have no neighbours in each other")
        known = [each * unit ** (2 if squared else 1) for each in prices]
        bits, fine = 128 + math.ceil(3.0 * self.epsilon), math.lcm(*(each.denominator for each in (*prior, *known)))
        fine <<= max(bits - int(max(map(abs, known)) * fine).bit_length(), 0)
        if len(outputs) * len(exact) > _MOST_PAIRS:
            raise uncovered(f"limits of over {_MOST_PAIRS} pairs of an input and an output, which take it long")
        inside = f"exists r, (r < {len(places)})%nat /\\ x = IZR (at_ inputs r) / {unit}"
        located = "intros r ?; now exists r"
        numbers: dict[str, float | Fraction] = {"epsilon": self.epsilon, "value": self.value}
        if isinstance(self.query.range, Interval):
            first, last = Fraction(self.query.range.lower), Fraction(self.query.range.upper)
            inside, numbers = "first <= x <= last", numbers | {"first": first, "last": last}
            ends = f"(lo := {math.ceil(first * unit)}%Z) (hi := {math.floor(last * unit)}%Z)"
            located = f"apply inputs_between with {ends}; first [lia | lra | vm_compute; reflexivity]"
        steps = [int(each * unit) for each in outputs]
        lists = {"inputs": places, "outputs": steps, "backs": [s - each - 1 for s, each in enumerate(self._first) if s]}
        lists |= {name: [int(each * fine) for each in own] for name, own in (("prior", prior), ("prices", known))}
        parts: dict[str, object] = {name: "; ".join(map(str, each)) for name, each in lists.items()}
        for name, exponent in (("rise", self.epsilon), ("fall", -self.epsilon)):
            least, most = _power(exponent, bits)
            parts[name] = f"{least - 1}, {most + 1}"
        parts |= {"unit": unit, "apart": away, "d": 1 << bits, "bits": 2 * bits + 64, "squared": str(squared).lower()}
        parts |= {"gap": max(b - a for a, b in itertools.pairwise(steps)), "inside": inside, "located": located}
        error, loss = ("squared", "(y - x) ^ 2") if squared else ("absolute", "Rabs (y - x)")
        named = coq_numbers(sensitivity=self.query.sensitivity, **numbers)
        modules, body = coq_claim("limit", named, "Limit", loss=loss, **parts)
        stated = f"a limit: a mean {error} error of {self.value}, at epsilon {self.epsilon}, for\n   {self.query}"
        return coq_text(stated, modules, body, library=library)

    @classmethod
    def from_json(cls, text: str) -> Limit:
        """Read a limit without proving it again; see `verify`.

        Guarantee: what is read says exactly what the text says; its value is the one that its prices sum to.
        """
        try:
            data: object = read_json(text, longest=LONGEST)
            match data:
                case {"format": "rangebound limit 1", "query": {"range": answers, "sensitivity": sensitivity}, **rest}:
                    rest.pop("value")
                    answered = Query(range=support_from_dict(answers), sensitivity=sensitivity)
                    found = cls(query=answered, **rest)  # type: ignore[arg-type]
                case _:
                    raise CertificateInvalid(f"text={arguments.shown(text)}: must be of the format {FORMAT!r}")
            if not same_data(data, found._to_dict()):
                raise CertificateInvalid("limit: must have the fields that Limit.to_json writes, and no other value")
        except CertificateInvalid:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RangeboundError) as error:
            raise CertificateInvalid(f"limit: cannot be read; {error}") from error
        return found


def cheapest(costs: list[int], first: list[int], rise: tuple[int, int], fall: tuple[int, int], bits: int) -> int:
    """A lower bound on the least sum of costs times a staircase, in units of its level at the last input.

    `rise` and `fall` enclose 2^bits e^epsilon and 2^bits e^-epsilon. A lower bound times the end of the enclosure that
    makes it least, rounded down, is a lower bound: all else are sums and minima of whole numbers, which are exact.

    >>> two, half = (2 << 64, 2 << 64), (1 << 63, 1 << 63)
    >>> cheapest([2, -4], [0, 0], two, half, 64)
    -3
    """
    total, (rise_least, rise_most), (fall_least, fall_most) = costs[0], rise, fall
    up, down = [0], [0]  # the least of what is left of a jump upward (downward) up to here, less the sum; none has 0
    up_here = down_here = 0
    for s in range(1, len(costs)):
        far_up, far_down = up[first[s]], down[first[s]]
        left_up = total + (far_up if far_up < down_here else down_here)
        left_down = total + (far_down if far_down < up_here else up_here)
        jump_up = (left_up * (fall_most if left_up < 0 else fall_least) >> bits) - total
        jump_down = (left_down * (rise_most if left_down < 0 else rise_least) >> bits) - total
        up_here, down_here = min(up_here, jump_up), min(down_here, jump_down)
        up.append(up_here)
        down.append(down_here)
        total += costs[s]
    return total + min(up_here, down_here)


def _power(exponent: float, bits: int) -> tuple[int, int]:
    """Whole numbers around 2^bits e^exponent, from a ball."""
    with precision(bits + math.ceil(1.5 * abs(exponent)) + 8):
        found = arb(exponent).exp() * arb(2) ** bits
        least, most = found.lower().floor().unique_fmpz(), found.upper().ceil().unique_fmpz()
    if least is None or most is None:
        raise CertificateInvalid(f"limit: e^{exponent} is not known closely enough")
    return int(least), int(most)


def _scaled(numbers: tuple[float, ...]) -> tuple[list[int], int]:
    """Doubles as whole multiples of 2^-places, exactly, and the places."""
    pairs = [each.as_integer_ratio() for each in numbers]
    places = max(below for _, below in pairs).bit_length() - 1
    return [above << places - below.bit_length() + 1 for above, below in pairs], places
