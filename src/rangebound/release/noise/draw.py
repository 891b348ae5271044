"""The noise, in the driver: exact coordinates in, numbers to publish out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from rangebound.mechanism import Mechanism
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise import partition_selection
from rangebound.release.noise.allocation import Allocation
from rangebound.release.noise.estimate import Estimate, estimate, held, nearest
from rangebound.release.noise.public_constant import known_rows
from rangebound.release.noise.publishers import Noise, intervals
from rangebound.release.noise.quantile_interval import bracket, ends
from rangebound.release.plan.fields import date
from rangebound.release.plan.model import Plan
from rangebound.release.plan.question import Count, CountUnits, Histogram, RankQuestion, Sum
from rangebound.release.sql.aggregate import Aggregate, Coordinates, Key, width
from rangebound.sampling.entropy import SecureSource

Draw = tuple[float, ...]
"""What was drawn for one number: its noisy coordinates, or a quantile and the two ends of its interval."""
Number = tuple[Estimate, float | None]
"""A number to publish, with its rank error where it has one."""

_SOURCE = SecureSource()


def bits(count: int) -> int:
    """So many secure random bits, as an integer."""
    words = -(-count // 64)
    value = 0
    for _ in range(words):
        value = value << 64 | _SOURCE.word()
    return value >> (64 * words - count)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One published number: whose it is, what was drawn for it, what was made of that, and what it cost.

    But for the draws, and for keys that were selected privately, all of it follows from the plan.
    """

    question: int
    key: Key
    part: str
    value: float
    lower: float
    upper: float
    epsilon: float
    delta: float
    rank_error: float | None = None
    draws: Draw = ()


def keys_of(found: Aggregate, allocation: Allocation) -> tuple[Key, ...]:
    """The keys to publish: the public ones, or those that are selected by chance and by their number of units."""
    if found.block.keys is not None:
        return found.keys
    share = allocation.selections[found.block.by]
    chances = partition_selection.keep_probabilities(share.epsilon, share.delta)
    return tuple(partition_selection.select(found.units, chances, bits))


def answers(plan: Plan, found: Aggregate, allocation: Allocation, noises: Mapping[int, Noise | None]) -> list[Cell]:
    """Every number of a block, drawn once.

    Guarantee: what is returned is private at the allocation's shares and lies in its support; it and nothing else may
    be published. How many numbers there are depends on public facts and on selected keys alone.
    """
    keys = keys_of(found, allocation)
    cells: list[Cell] = []
    for index in found.block.questions:
        truths = [found.answers[index][key] for key in keys]
        draws = _drawn(plan, index, truths, allocation, noises[index])
        cells += cells_of(plan, index, keys, draws, allocation, noises[index])
    return cells


def _drawn(
    plan: Plan, index: int, truths: Sequence[Coordinates], allocation: Allocation, noise: Noise | None
) -> list[list[Draw]]:
    """What is drawn for one question, for every group and part: the only step that sees exact coordinates."""
    if noise is None:
        return [_drawn_ranks(plan, index, truth, allocation) for truth in truths]
    if not truths:
        return []
    exact = np.array([[noise.truth(each) for each in truth] for truth in truths])
    if isinstance(noise.mechanism, Mechanism):
        published = noise.mechanism.release(exact, step=noise.step)
    else:
        published = noise.mechanism.release(exact, bits)
    several = isinstance(plan.query[index], Histogram)
    return [[(each,) for each in values] if several else [tuple(values)] for values in published.tolist()]


def cells_of(
    plan: Plan,
    index: int,
    keys: Sequence[Key],
    draws: Sequence[Sequence[Draw]],
    allocation: Allocation,
    noise: Noise | None,
) -> list[Cell]:
    """The numbers of one question in all groups, made of what was drawn for every group and part.

    Guarantee: a function of public facts and of the draws alone, so it costs nothing, and anyone can compute it again.
    """
    share, names = allocation.questions[index], parts(plan.query[index])
    make = _ranks if noise is None else _noisy
    return [
        Cell(
            question=index,
            key=key,
            part=part,
            draws=draw,
            **vars(number),
            epsilon=share.epsilon,
            delta=share.delta,
            rank_error=error,
        )
        for key, group, numbers in zip(keys, draws, make(plan, index, draws, allocation, noise), strict=True)
        for part, draw, (number, error) in zip(names, group, numbers, strict=True)
    ]


def _noisy(
    plan: Plan, index: int, draws: Sequence[Sequence[Draw]], allocation: Allocation, noise: Any
) -> list[list[Number]]:
    """Numbers made of noisy coordinates, with the intervals of these."""
    if not draws:
        return []
    question: Any = plan.query[index]
    published = np.array([[each for draw in group for each in draw] for group in draws])
    single = isinstance(question, Count | CountUnits | Sum | Histogram)
    level = plan.level if single else 1.0 - (1.0 - plan.level) / published.shape[1]
    lower, upper = intervals(noise, published, level)
    found = []
    for values, low, high in zip(published.tolist(), lower.tolist(), upper.tolist(), strict=True):
        pairs = list(zip(low, high, strict=True))
        if single:
            found.append([_separate(question, value, *pair) for value, pair in zip(values, pairs, strict=True)])
        else:
            found.append([(estimate(question, values, pairs, rows=known_rows(question, plan.unit)), None)])
    return found


def _separate(question: Any, value: float, lower: float, upper: float) -> Number:
    """A coordinate that is published as it is: a count, a sum, or a bin of a histogram."""
    if isinstance(question, Histogram):
        value = nearest(value, question.allowed, question.step or 1.0)
    return held(value, lower, upper, question.allowed), None


def parts(question: Any) -> list[str]:
    """The names of the numbers that a question publishes in a group: bins, levels, or one without a name."""
    if isinstance(question, RankQuestion):
        return [repr(level) for level in question.asked]
    return bin_names(question) if isinstance(question, Histogram) else [""]


def possible(plan: Plan, index: int, draw: Draw, allocation: Allocation, noise: Noise | None) -> bool:
    """Whether so much can be drawn for a number: points of the mechanism's lattice, or of a question's grid."""
    question: Any = plan.query[index]
    if noise is not None:
        several = 1 if isinstance(question, Histogram) else width(question, plan.unit)
        return len(draw) == several and all(noise.can_draw(each) for each in draw)
    lowest, highest = ends(question)
    sets = (_points(question), frozenset(lowest), frozenset(highest))
    count = 3 if allocation.questions[index].end else 1
    return len(draw) == count and all(each in some for each, some in zip(draw, sets, strict=False))


@lru_cache(maxsize=64)
def _points(question: Any) -> frozenset[float]:
    points = exponential.grid(question)
    return frozenset(points[at] for at in exponential.candidates(question))


def bin_names(question: Histogram) -> list[str]:
    """The bins of a histogram by their edges: all digits of them, so that the name says which values a bin has.

    >>> bin_names(Histogram(name="hours", column="hour", range=(0, 1), bins=3))[0]
    '0 to 0.3333333333333333'
    """
    texts = [date(edge).isoformat() if question.dated else repr(edge).removesuffix(".0") for edge in question.edges]
    return [f"{a} to {b}" for a, b in pairwise(texts)]


def _drawn_ranks(plan: Plan, index: int, truth: Coordinates, allocation: Allocation) -> list[Draw]:
    """Quantiles, each by a draw of its own, and by two more for its interval."""
    question: Any = plan.query[index]
    share, cell = allocation.questions[index], allocation.sensitivities[index].cell
    places, points = exponential.candidates(question), exponential.grid(question)
    found = []
    for level in question.asked:
        speed = exponential.rate(level, cell, share.drawn)
        misses = exponential.misses(truth, level)
        draw: Draw = (
            points[places[exponential.draw(exponential.weights([misses[at] for at in places], speed), bits)]],
        )
        if share.end:
            speed = exponential.rate(level, cell, share.end)
            draw += bracket(question, truth, level, speed=speed, level=plan.level, bits=bits)
        found.append(draw)
    return found


def _ranks(
    plan: Plan, index: int, draws: Sequence[Sequence[Draw]], allocation: Allocation, noise: Any
) -> list[list[Number]]:
    """Quantiles with their intervals, or the whole support for one; a wider interval holds no less."""
    question: Any = plan.query[index]
    share, cell, hull = allocation.questions[index], allocation.sensitivities[index].cell, question.allowed.hull
    speeds = [exponential.rate(level, cell, share.drawn) for level in question.asked]
    errors = [exponential.rank_error(question, speed, plan.level) for speed in speeds]

    def number(value: float, lower: float = hull.lower, upper: float = hull.upper) -> Estimate:
        return held(value, lower, upper, question.allowed)

    return [[(number(*draw), error) for draw, error in zip(group, errors, strict=True)] for group in draws]
