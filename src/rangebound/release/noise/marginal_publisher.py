"""Counts by public keys that are marginals of one table: measured together by residuals, and published one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain, combinations

import numpy as np

from rangebound.release.noise.allocation import BudgetShare, demand
from rangebound.release.noise.bias import clamping_bias, gaussian_overshoot
from rangebound.release.noise.draw import Bits, Coordinates, Draw, Publisher, Reading
from rangebound.release.noise.joint_loss import Contributions
from rangebound.release.noise.projection import agree
from rangebound.release.noise.strategies.marginal_strategy import (
    Attributes,
    MarginalStrategy,
    cell_count,
    design_marginals,
    rescaled,
)
from rangebound.release.noise.strategies.strategy import Wholes, gaussian_reach, listed, wholes
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union

_WIDER = 1.0 + 2.0**-21  # Gaussian noise as wide as noise on a lattice of 2^-12 of its scale, and a little more


@dataclass(frozen=True, kw_only=True)
class Marginals:
    """Counts of one table: attributes by the number of their `listed` keys, counts by the attributes they are by.

    `asked` are published, each in the order of its attributes. With `others`, an attribute has one value more, for rows
    with another key or none. No number is published for it, but a count by other attributes counts these rows: a
    marginal of the listed keys alone would not be the sum of a finer one. Their exact number follows from the counts by
    fewer attributes; those that nobody asked for are `hidden`.

    >>> both = Marginals(listed=(2, 1), asked=((0, 1), (0,)), hidden=((1,), ()), others=True)
    >>> [table.tolist() for table in both.tables([[3, 1], [5, 2], [6], [9]])]  # of 9 rows, 2 have another first key
    [[[3, 2], [1, 1], [2, 0]], [5, 2, 2]]
    """

    listed: tuple[int, ...]
    asked: tuple[Attributes, ...]
    hidden: tuple[Attributes, ...]
    others: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each attribute."""
        return tuple(size + self.others for size in self.listed)

    @property
    def wanted(self) -> tuple[Attributes, ...]:
        """The counts that are asked for, by attributes in their order."""
        return tuple(tuple(sorted(each)) for each in self.asked)

    def tables(self, counts: Sequence[Sequence[int]]) -> list[Wholes]:
        """The marginals of all values, from the exact counts by listed keys: those asked for, then the hidden ones.

        The last value of each attribute first stands for any key, listed or not; what the listed ones have is then
        taken from it.
        """
        known = {}
        for attributes, own in zip((*self.asked, *self.hidden), counts, strict=True):
            table = wholes(own).reshape([self.listed[i] for i in attributes])
            known[tuple(sorted(attributes))] = table.transpose(np.argsort(attributes))
        return [self._table(each, known) for each in self.wanted]

    def _table(self, wanted: Attributes, known: dict[Attributes, Wholes]) -> Wholes:
        if not self.others:
            return known[wanted]
        table = np.zeros([self.sizes[i] for i in wanted], dtype=object)
        for part in chain.from_iterable(combinations(wanted, size) for size in range(len(wanted) + 1)):
            table[tuple(slice(-1) if i in part else -1 for i in wanted)] = known[part][()]
        for axis in range(table.ndim):
            own = np.moveaxis(table, axis, 0)
            own[-1] -= own[:-1].sum(axis=0)
        return table

    def published(self, member: int, table: Floats) -> Floats:
        """The numbers of the listed keys of a count that is asked for, in its own order, from a table of all values."""
        wanted, asked = self.wanted[member], self.asked[member]
        inner = table[tuple(slice(self.listed[i]) for i in wanted)]
        return inner.transpose([wanted.index(i) for i in asked]).ravel()


@dataclass(frozen=True, kw_only=True, eq=False)
class MarginalPublisher(Publisher):
    """The count `member` of several that one strategy measures: it is drawn and read together with all others.

    A draw of a number is its least-squares answer, which has no bias, and then some of the measurements: those of all
    numbers together, in order. Groups are the counts, each with the numbers of all its keys.

    Intervals at `level` are those of the answers, moved into `supports`. Published are the answers, rounded and moved
    into the support; where all rows have listed keys, the whole numbers nearest to them that agree: see `agreeing`.

    Guarantee: what is drawn is private at the strategy's cost, and all else follows from it.
    Assumes: the exact counts are of one table, in which each unit is one row.
    """

    marginals: Marginals
    strategy: MarginalStrategy
    supports: tuple[Interval, ...]
    level: float
    member: int

    @cached_property
    def numbers(self) -> list[int]:
        """How many numbers each count has."""
        return [cell_count(self.marginals.listed, each) for each in self.marginals.asked]

    @property
    def width(self) -> int:
        """The answer, and as many measurements as stand in a draw."""
        return 1 + -(-self.strategy.size // sum(self.numbers))

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        """The measurements of all counts, given the exact ones of the listed keys: those asked for, then the hidden."""
        counts = [[int(each) for each in truth] for truth in truths]
        return self._draws(self.strategy.draw(self.marginals.tables(counts), bits).tolist())

    def _draws(self, measured: Sequence[float]) -> list[list[Draw]]:
        """Measurements as draws of the numbers, in order, each behind the answer of least squares that all make."""
        step, places = self.width - 1, iter(range(sum(self.numbers)))
        parts = (tuple(measured[at * step : (at + 1) * step]) for at in places)
        tables = self.strategy.by_marginal(self.strategy.answers(measured).values)
        answers = (self.marginals.published(at, each) for at, each in enumerate(tables))
        return [[(answer, *next(parts)) for answer in each.tolist()] for each in answers]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether all of these together are measurements of the strategy, each where it stands, and their answers."""
        measured = [each for draw in draws for each in draw[1:]]
        if not self.strategy.admits(measured):
            return False
        again = [draw for each in self._draws(measured) for draw in each]
        return again == list(draws) and not any(each[0] == 0.0 and math.copysign(1.0, each[0]) < 0.0 for each in draws)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The published numbers, with the intervals of the unbiased answers; the truth is whole and in the support."""
        answers = [np.array([draw[0] for draw in each]) for each in draws]
        agreed = None if self.marginals.others else self._agreed(answers)
        found = []
        for at, own in enumerate(answers):
            support, reach = self.supports[at], self._radius(at)
            values = (
                np.rint(own)
                if agreed is None or math.isinf(support.lower)
                else self.marginals.published(at, agreed[at])
            )
            ends = (np.clip(end, support.lower, support.upper) for end in (np.ceil(own - reach), np.floor(own + reach)))
            triples = zip(
                np.clip(values, support.lower, support.upper).tolist(), *map(np.ndarray.tolist, ends), strict=True
            )
            found.append([Reading(values=(value + 0.0,), intervals=((low, high),)) for value, low, high in triples])
        return found

    def _agreed(self, answers: Sequence[Floats]) -> list[Floats]:
        """The numbers that agree, as tables by attributes in their order; no larger than there can be rows."""
        tables = {}
        for asked, own in zip(self.marginals.asked, answers, strict=True):
            table = own.reshape([self.marginals.listed[i] for i in asked])
            tables[tuple(sorted(asked))] = table.transpose(np.argsort(asked))
        return agreeing(tables, min(each.upper for each in self.supports))

    def _radius(self, at: int) -> float:
        """How far the answers of a count are from the truth with probability `level`."""
        return gaussian_reach(self.level) * math.sqrt(self.strategy.cell_variances[at])

    @property
    def mse(self) -> float:
        """The variance of an answer of this count."""
        return self.strategy.cell_variances[self.member]

    def bias(
        self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool
    ) -> Floats | None:
        """A bound on the bias at all true answers from `lower` to `upper`: that of clamping rounded noise.

        Noise that is rounded to whole numbers exceeds a whole d by no more than it exceeds d - 1/2 before, and is as
        symmetric. Sums of noise on lattices exceed it by no more on average than Gaussian noise of a variance larger by
        2^-22 and a uniform number on each step, which together have a standard deviation below 2^-13 of the noise: to
        add independent noise moves no mean overshoot down. Edge cases: None where numbers are moved so that they agree,
        each by what all others are.
        """
        if not self.marginals.others and not math.isinf(support.hull.lower):
            return None
        scale = math.sqrt(self.mse) * _WIDER

        def overshoot(far: Floats) -> Floats:
            return gaussian_overshoot(scale, far - 0.5) * (1.0 + 1e-12) + scale * 2.0**-13

        return clamping_bias(overshoot, lower, upper, support.hull)

    @property
    def half_width(self) -> float | None:
        """How far the ends of an interval are from the answer."""
        return self._radius(self.member)

    def words(self) -> str:
        counts = len(self.marginals.asked)
        return f"Gaussian noise on {len(self.strategy.residuals)} residuals of a workload of {counts} counts"

    def to_dict(self) -> dict[str, object]:
        """Which marginal of its workload it is."""
        return {"strategy": "marginal of a workload", "attributes": list(self.marginals.asked[self.member])}

    def workload_to_dict(self) -> dict[str, object]:
        """The strategy of all counts together as plain data, with its cost."""
        return {
            "strategy": "residuals",
            "sizes": list(self.strategy.sizes),
            "other_keys": self.marginals.others,
            "wanted": [list(each) for each in self.strategy.wanted],
            "scales": listed(self.strategy.scales),
            "replaced": self.strategy.contributions.replaced,
            "cost": str(self.strategy.cost),
        }

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a strategy for fewer contributions than a unit can make, or one that costs more than its share."""
        bounds = self.strategy.contributions
        demand(bounds.rows * bounds.reach >= found.square, "has a sensitivity that is too small")
        demand(self.strategy.sizes == self.marginals.sizes, "has a strategy for other keys")
        demand(self.strategy.wanted == self.marginals.wanted, "has a strategy for other counts")
        private = bool(share.mu) and self.strategy.cost <= Fraction(share.mu) ** 2
        demand(private, "has a mechanism that is less private than it says")


@lru_cache(maxsize=64)
def unit_strategy(marginals: Marginals, importances: tuple[float, ...], *, replaced: bool) -> MarginalStrategy:
    """The strategy of cost 1 with the least sum of variances, each count's times its importance.

    Assumes: each unit is one row, which is added or removed, or `replaced`.
    """
    sizes = marginals.sizes
    cells = (cell_count(sizes, each) for each in marginals.wanted)
    return design_marginals(
        sizes,
        marginals.wanted,
        budget=1.0,
        contributions=Contributions(replaced=replaced),
        weights=[each / count for each, count in zip(importances, cells, strict=True)],
    )


@lru_cache(maxsize=64)
def marginal_publishers(
    marginals: Marginals,
    importances: tuple[float, ...],
    supports: tuple[Interval, ...],
    share: BudgetShare,
    *,
    replaced: bool,
    level: float,
) -> tuple[MarginalPublisher, ...]:
    """The publishers of the counts of a workload, of which any draws and reads all.

    Guarantee: all together are mu-GDP at the share's mu.
    """
    strategy = rescaled(unit_strategy(marginals, importances, replaced=replaced), Fraction(share.mu) ** 2)
    first = MarginalPublisher(marginals=marginals, strategy=strategy, supports=supports, level=level, member=0)
    return tuple(replace(first, member=at) for at in range(len(marginals.asked)))


def agreeing(answers: Mapping[Attributes, Floats], most: float) -> list[Floats]:
    """Marginals in whole numbers, none negative, with the same total and the same sums by every single attribute.

    The total is fixed first, at most `most`, then the counts by each attribute, then every table to these: two-way
    tables then agree with each other and with the counts by one attribute. Tables by three or more attributes agree
    with these sums, and not with each other in sums by two: whether such whole numbers exist is hard to decide.

    Guarantee: post-processing of the answers. There is always a result.

    >>> one, both = agreeing({(0,): np.array([3.2, -1.0]), (0, 1): np.array([[4.0, -0.8], [-1.5, 0.5]])}, np.inf)
    >>> one.tolist(), both.tolist()
    ([2.0, 0.0], [[2.0, 0.0], [0.0, 0.0]])
    """
    tables = sorted(answers.items(), key=lambda item: item[1].size)
    total = float(np.clip(np.rint(tables[0][1].sum()), 0.0, most))
    singles: dict[int, Floats] = {}
    for attributes, table in tables:
        for axis, attribute in enumerate(attributes):
            if attribute not in singles:
                others = tuple(at for at in range(table.ndim) if at != axis)
                singles[attribute] = _fitted(table.sum(axis=others), [total], [])
    return [
        np.array(total)
        if not attributes
        else singles[attributes[0]]
        if len(attributes) == 1
        else _fitted(table, [total], [singles[each] for each in attributes])
        for attributes, table in answers.items()
    ]


def _fitted(table: Floats, total: list[float], sums: list[Floats]) -> Floats:
    """The whole numbers nearest to a table that are not negative and have its sums along each axis, or its total."""
    cells = np.arange(table.size).reshape(table.shape)
    fixed = np.concatenate(sums) if sums else np.array(total)
    slices = (cells.take(at, axis=axis) for axis in range(table.ndim) for at in range(table.shape[axis]))
    found = agree(table.ravel(), [each.ravel().tolist() for each in (slices if sums else [cells])], fixed)
    if found is None:
        assert sums, "a total that is not negative can be split"
        return _fitted(table, total, [])
    return found.numbers[: table.size].reshape(table.shape).astype(np.float64)
