"""The exact draw from a table of whole-number weights: one random word, two look-ups, one comparison.

A row with the sum 2^62 is laid out in 2^L slots of 2^(62-L) units: in slot s the first `cut` units belong to output s
and the others to output `alias`. A word's first L bits choose the slot, the next 62 - L the unit in it, and two are
left over. So every output has exactly its weight, and a draw takes the same steps whatever the true answer is.

An entry holds both numbers in one word: alias * 2^(63-L) + cut, with cut from 0 to 2^(62-L).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rangebound.sampling.entropy import SECURE, WordSource
from rangebound.sampling.sampler import CHUNK
from rangebound.values.array_types import Floats, Integers, Words, np, npt
from rangebound.values.extras import warn_of_slow_path
from rangebound.values.support import Query

try:
    from rangebound.sampling import _kernel
except ImportError:  # installed without a compiler
    _kernel = None  # type: ignore[assignment]


_BITS = 62
_API = 2
"""The kernel's interface that has `draw_table`; an older one draws all but tables, which NumPy then draws."""


@dataclass(frozen=True, kw_only=True)
class AliasSampler:
    """Draws from the rows of a table. `thresholds` are the smallest doubles that go to the second input, the third, ...

    `entries` has a row for each input and a column for each slot; `outputs` is filled up to a number for each slot.
    """

    query: Query
    thresholds: Floats = field(repr=False)
    entries: Words = field(repr=False)
    outputs: Floats = field(repr=False)
    scattered: bool  # whether the range has more than one span, so that answers between them are moved first
    compiled: bool
    chunk: int = CHUNK

    def draw(self, words: Words, answers: Floats, source: WordSource, out: Floats) -> None:
        """One number for every answer and word (contiguous arrays of one length), into `out`; one word is enough."""
        if self.scattered:
            answers = self.query.clip(answers)
        if self.compiled:
            _kernel.draw_table(self.thresholds, self.entries, self.outputs, words, answers, out)
        else:
            self._draw(words, answers, out)

    def draw_one(self, answer: float, source: WordSource = SECURE) -> float:
        """One number for one finite answer."""
        word = source.word()
        if self.compiled and not self.scattered:
            return _kernel.draw_table_one(self.thresholds, self.entries, self.outputs, word, answer)
        out = np.empty(1)
        self.draw(np.array([word], dtype=np.uint64), np.array([answer]), source, out)
        return out.item()

    def _draw(self, words: Words, answers: Floats, out: Floats) -> None:
        """The kernel's steps in NumPy, word for word."""
        bits = len(self.outputs).bit_length() - 1
        rows = np.searchsorted(self.thresholds[: len(self.entries) - 1], answers, side="right")
        place = words >> np.uint64(64 - _BITS)
        slots = (place >> np.uint64(_BITS - bits)).astype(np.intp)
        rest = place & np.uint64((1 << (_BITS - bits)) - 1)
        entries = self.entries[rows, slots]
        cut = entries & np.uint64((1 << (_BITS + 1 - bits)) - 1)
        alias = (entries >> np.uint64(_BITS + 1 - bits)).astype(np.intp)
        out[:] = self.outputs[np.where(rest < cut, slots, alias)]


def alias_sampler(query: Query, thresholds: Floats, outputs: Floats, weights: Integers) -> AliasSampler:
    """The sampler of a table whose rows of weights all sum to 2^62."""
    compiled = getattr(_kernel, "API", 1) >= _API
    if not compiled:
        warn_of_slow_path("sampling")
    bits = (len(outputs) - 1).bit_length()
    levels = len(thresholds).bit_length()
    padded = np.full((1 << levels) - 1, np.nan)  # compared with anything, it is not below it
    padded[: len(thresholds)] = thresholds
    values = np.full(1 << bits, outputs[0])
    values[: len(outputs)] = outputs
    return AliasSampler(
        query=query,
        thresholds=padded,
        entries=alias_entries(weights),
        outputs=values,
        scattered=len(query.range.spans) > 1,
        compiled=compiled,
    )


def alias_entries(weights: Integers) -> Words:
    """The entries of every row, by a sweep over its light and its heavy outputs, all rows at once.

    Light outputs weigh at most a slot. A heavy one fills up the slots of light ones until what is left of it fits into
    its own slot, which the next heavy one fills up.

    Guarantee: the law of the entries is compared with the weights as whole numbers before they are returned.

    >>> entries = alias_entries(np.array([[3 << 60, 1 << 60]]))  # two slots of 2^61
    >>> [hex(each) for each in entries[0].tolist()]
    ['0x2000000000000000', '0x1000000000000000']
    """
    count, size = weights.shape
    bits = (size - 1).bit_length()
    slots, capacity = 1 << bits, 1 << (_BITS - bits)
    left = np.zeros((count, slots), dtype=np.int64)
    left[:, :size] = weights
    heavy = left > capacity
    order = np.argsort(heavy, axis=1, kind="stable")  # the light ones, then the heavy ones
    lights = slots - heavy.sum(axis=1)
    cut = np.full((count, slots), capacity, dtype=np.int64)
    alias = np.broadcast_to(np.arange(slots), (count, slots)).copy()
    rows = np.flatnonzero(lights < slots)  # in the others every slot is full of its own
    light, strong = np.zeros(count, dtype=np.intp), lights.copy()
    rest = np.zeros(count, dtype=np.int64)
    rest[rows] = left[rows, order[rows, strong[rows]]]
    while rows.size:
        here = order[rows, strong[rows]]
        fills = rest[rows] > capacity
        some = rows[fills]
        slot = order[some, light[some]]
        cut[some, slot], alias[some, slot] = left[some, slot], here[fills]
        rest[some] -= capacity - left[some, slot]
        light[some] += 1
        others, own = rows[~fills], here[~fills]
        strong[others] += 1
        more = strong[others] < slots
        others, own = others[more], own[more]
        following = order[others, strong[others]]
        cut[others, own], alias[others, own] = rest[others], following
        rest[others] += left[others, following] - capacity
        rows = np.concatenate([some, others])
    _check_law(weights, cut, alias, capacity)
    entries: Words = (alias.astype(np.uint64) << np.uint64(_BITS + 1 - bits)) | cut.astype(np.uint64)
    entries.flags.writeable = False
    return entries


def _check_law(weights: Integers, cut: Integers, alias: npt.NDArray[np.intp], capacity: int) -> None:
    """That every output has the units of its weight, no more and no fewer."""
    units = cut.copy()
    np.add.at(units, (np.arange(len(weights))[:, None], alias), capacity - cut)
    size = weights.shape[1]
    if (cut < 0).any() or (cut > capacity).any() or (units[:, :size] != weights).any() or units[:, size:].any():
        raise AssertionError("the alias table differs from the weights")  # never seen; nothing would be drawn
