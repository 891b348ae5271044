"""Whole-number weights: rows that sum to 2^62, the comparison of neighbouring rows, and rounding a float matrix.

Comparisons are made in floats with a bound on their error where that decides, and in whole numbers where it does not.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from flint import arb, fmpq

from rangebound.errors import ArgumentError, ArgumentTypeError, Unsatisfiable
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers, np, npt
from rangebound.values.ball import precision

BITS = 62
TOTAL = 1 << BITS
"""What every row of weights sums to."""
MOST = 1 << 22
"""Weights of the largest table: 32 MiB of them, 45 million characters as text."""
BINARY_PLACES = 160
"""Of e^epsilon as a fraction."""
CLOSE = 2.0**-48
"""Relative: far more than a few roundings of doubles. What is closer than this is decided in whole numbers."""
_LOW = (1 << 31) - 1
_ROUNDINGS = 4  # units by which rounding and the repair of a row's sum move a weight at most
_ROWS = 1 << 20  # weights at a time where Python's own whole numbers are used


def whole_weights(name: str, value: npt.ArrayLike, shape: tuple[int, int]) -> Integers:
    """Weights as a read-only array of 64-bit integers of that shape, each row with the sum 2^62; anything else fails.

    >>> whole_weights("weights", [[TOTAL, 0]], (1, 2)).tolist()
    [[4611686018427387904, 0]]
    >>> whole_weights("weights", [[TOTAL, 1]], (1, 2))
    Traceback (most recent call last):
        ...
    rangebound.errors.ArgumentError: weights: row 0 must sum to 2^62 = 4611686018427387904, not 4611686018427387905
    """
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.empty(0)
    if array.shape != shape:
        raise ArgumentError(
            f"{name} of shape {array.shape}: must have a row for each input and a column for each output, {shape}"
        )
    if array.dtype.kind not in "iu":
        raise ArgumentTypeError(f"{name} of type {array.dtype}: must be whole numbers; see Table.from_probabilities")
    if (array < 0).any() or (array > TOTAL).any():
        raise ArgumentError(f"{name}: must lie between 0 and 2^62")
    found = np.array(array, dtype=np.int64, order="C")
    # Two halves, since a row that is wrong may sum to more than 64 bits hold.
    wrong = np.flatnonzero((found >> 31).sum(axis=1) + ((found & _LOW).sum(axis=1) >> 31) != TOTAL >> 31)
    wrong = np.union1d(wrong, np.flatnonzero((found & _LOW).sum(axis=1) & _LOW))
    if wrong.size:
        total = sum(found[wrong[0]].tolist())
        raise ArgumentError(f"{name}: row {wrong[0]} must sum to 2^62 = {TOTAL}, not {total}")
    found.flags.writeable = False
    return found


def to_text(weights: Integers) -> str:
    """Weights as little-endian 64-bit words in base64, row after row.

    >>> to_text(np.array([[TOTAL]]))
    'AAAAAAAAAEA='
    """
    return base64.b64encode(weights.astype("<i8").tobytes()).decode("ascii")


def from_text(text: object, shape: tuple[int, int]) -> Integers:
    """The weights that `to_text` wrote; any other text is refused.

    >>> from_text("AAAAAAAAAEA=", (1, 1)).tolist()
    [[4611686018427387904]]
    """
    arguments.instance("weights", text, str, "text: little-endian 64-bit words in base64")
    assert isinstance(text, str)
    try:
        words = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        raise ArgumentError(f"weights={arguments.shown(text)}: must be base64") from None
    if len(words) != 8 * shape[0] * shape[1] or base64.b64encode(words).decode("ascii") != text:
        raise ArgumentError(f"weights: must be words of 64 bits in base64, in the shape {shape}")
    return whole_weights("weights", np.frombuffer(words, dtype="<i8").reshape(shape), shape)


class Exponential(NamedTuple):
    """e^epsilon between two fractions `lower` and `lower + 1`, both over 2^160, and as a double, off by 2^-51 of it."""

    lower: int
    double: float

    def at_most(self, large: int, small: int) -> bool:
        """Whether large <= e^epsilon * small, for whole numbers; False where 160 binary places do not tell."""
        return large << BINARY_PLACES <= self.lower * small


def exponential(epsilon: Fraction) -> Exponential:
    """e^epsilon, for an epsilon of either sign.

    >>> exponential(Fraction(0)).at_most(3, 3), exponential(Fraction(1)).double
    (True, 2.718281828459045)
    """
    if epsilon == 0:
        return Exponential(1 << BINARY_PLACES, 1.0)
    if epsilon > 64:  # beyond 2^62 to 1 all weights that are not zero are within the ratio
        epsilon = Fraction(64)
    bits, found = 256, None
    while found is None:  # e^epsilon is not a fraction, but for a tiny epsilon very near to one
        bits *= 2
        with precision(bits):
            value = arb(fmpq(epsilon.numerator, epsilon.denominator)).exp()
            found = (value * arb(2) ** BINARY_PLACES).floor().unique_fmpz()
    return Exponential(int(str(found)), float(value.mid()))


class Extremes(NamedTuple):
    """The largest and the smallest weight of every output over the inputs from i to reach[i], row by row."""

    largest: Integers
    smallest: Integers


def extremes(weights: Integers, reach: Integers) -> Extremes:
    """Largest and smallest weights over each row's window, by doubling: windows of 1, 2, 4, ... rows."""
    length = reach - np.arange(len(reach)) + 1
    largest, smallest = np.empty_like(weights), np.empty_like(weights)
    high, low, width = weights, weights, 1
    while True:
        here = np.flatnonzero((length >= width) & (length < 2 * width))
        second = reach[here] - width + 1
        largest[here] = np.maximum(high[here], high[second])
        smallest[here] = np.minimum(low[here], low[second])
        if 2 * width > length.max():
            return Extremes(largest, smallest)
        high, low = np.maximum(high[:-width], high[width:]), np.minimum(low[:-width], low[width:])
        width *= 2


def epsilon_private(weights: Integers, reach: Integers, epsilon: Fraction) -> bool:
    """Whether every weight is at most e^epsilon times that of every neighbouring input, for every output.

    `reach[i]` is the last neighbour of input i, as `input_cells.reach` finds it. By windows: within one the largest
    weight of an output is compared with the smallest, so that the number of neighbours hardly counts.

    Guarantee: decided in whole numbers; e^epsilon is rounded down to 160 binary places, so True is proved.
    Edge cases: an output that one input can publish and a neighbour cannot makes it False.

    >>> half = TOTAL // 2
    >>> weights = np.array([[half, half], [half + half // 4, half - half // 4]])
    >>> reach = np.array([1, 1])
    >>> epsilon_private(weights, reach, Fraction(29, 100)), epsilon_private(weights, reach, Fraction(28, 100))
    (True, False)
    """
    bound = exponential(epsilon)
    largest, smallest = extremes(weights, reach)
    ratio = bound.double * smallest
    open_ = largest > ratio * (1.0 - CLOSE)
    if (largest > ratio * (1.0 + CLOSE)).any():
        return False
    return all(bound.at_most(*pair) for pair in _pairs(largest, smallest, open_))


def _pairs(largest: Integers, smallest: Integers, chosen: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """The chosen pairs as Python's whole numbers, each once."""
    both = np.unique(np.stack([largest[chosen], smallest[chosen]], axis=1), axis=0)
    for start in range(0, len(both), _ROWS):
        yield from both[start : start + _ROWS].tolist()


def rounded(probabilities: Floats) -> Integers:
    """Whole weights near the probabilities, each row with the sum 2^62; at most about two units off.

    Every row is divided by its sum first.

    >>> rounded(np.array([[0.5, 0.25, 0.25]])).tolist() == [[TOTAL // 2, TOTAL // 4, TOTAL // 4]]
    True
    """
    share = probabilities / probabilities.sum(axis=1, keepdims=True)
    return summing(np.floor(np.minimum(share, 1.0) * float(TOTAL)).astype(np.int64))


def summing(weights: Integers) -> Integers:
    """Weights whose rows nearly sum to 2^62, made to do so: in proportion, and the last units from the largest on."""
    found = weights.copy()
    for _ in range(3):
        missing = np.array([TOTAL - sum(row) for row in found.tolist()], dtype=np.int64)[:, None]
        found += np.trunc(missing * (found / float(TOTAL))).astype(np.int64)
    order = np.argsort(-found, axis=1, kind="stable")
    for i, row in enumerate(found.tolist()):
        rest = TOTAL - sum(row)
        some = order[i, : max(int(np.count_nonzero(found[i])), 1)]  # what cannot be published stays so
        each, more = divmod(rest, len(some)) if rest > 0 else (0, 0)
        found[i, some] += each
        found[i, some[:more]] += 1
        for j in order[i]:  # too much is taken away from the largest on
            if rest >= 0:
                break
            taken = min(int(found[i, j]), -rest)
            found[i, j] -= taken
            rest += taken
    return found


def mixed(weights: Integers, units: int) -> Integers:
    """The weights mixed with the uniform law: each row scaled down to make room for `units` of every output.

    >>> mixed(np.array([[TOTAL, 0]]), TOTAL // 8).tolist() == [[TOTAL // 8 * 7, TOTAL // 8]]
    True
    """
    share = units * weights.shape[1]
    if share >= TOTAL:
        return rounded(np.ones(weights.shape))
    kept = [[each * (TOTAL - share) // TOTAL for each in row] for row in weights.tolist()]
    return summing(np.array(kept, dtype=np.int64) + units)


def private_weights(probabilities: Floats, reach: Integers, epsilon: Fraction) -> Integers:
    """Whole weights near the probabilities that are epsilon-private, with as little of the uniform law as that takes.

    The uniform law meets every constraint with room to spare: u units of it for each output give the room
    u (e^epsilon - 1), and a violation of tau units and the rounding need tau + r (1 + e^epsilon) of it.

    Guarantee: `epsilon_private` holds for what is returned.
    Edge cases: at epsilon 0 only a table with equal rows in each chain of neighbours is private; any other is refused.

    >>> reach = np.array([1, 1])
    >>> near = private_weights(np.array([[0.75, 0.25], [0.25, 0.75]]), reach, Fraction(1))
    >>> epsilon_private(near, reach, Fraction(1)), round(float(near[0, 0]) / TOTAL, 6)
    (True, 0.731059)
    """
    found = rounded(probabilities)
    if epsilon_private(found, reach, epsilon):
        return found
    if epsilon <= 0:
        raise Unsatisfiable(f"epsilon={float(epsilon)}: neighbouring inputs must have equal rows, and these do not")
    bound = exponential(epsilon)
    largest, smallest = extremes(found, reach)
    worst = float((largest - bound.double * smallest).max()) * (1.0 + CLOSE) + CLOSE * float(TOTAL)
    need = (max(worst, 0.0) + _ROUNDINGS * (1.0 + bound.double)) / math.expm1(min(float(epsilon), 64.0))
    # Mixing scales the violation down, too: u (e^epsilon - 1) = (1 - m u / 2^62) tau.
    need /= 1.0 + found.shape[1] * max(worst, 0.0) / math.expm1(min(float(epsilon), 64.0)) / TOTAL
    units = max(math.ceil(need), 1)
    while True:
        near = mixed(found, units)
        if epsilon_private(near, reach, epsilon):
            return near
        units = 2 * units
