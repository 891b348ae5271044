"""The noise, in the driver: exact coordinates in, numbers to publish out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from rangebound.mechanism import Mechanism
from rangebound.release import rank, selection
from rangebound.release.aggregate import Aggregate, Coordinates, Key
from rangebound.release.allocation import Allocation
from rangebound.release.bracket import bracket
from rangebound.release.estimate import Estimate, estimate, held, nearest
from rangebound.release.known import known_rows
from rangebound.release.mechanisms import Noise, intervals
from rangebound.release.part import date
from rangebound.release.plan import Plan
from rangebound.release.question import Count, CountUnits, Histogram, RankQuestion, Sum
from rangebound.sampling.entropy import SecureSource

Numbers = dict[str, tuple[Estimate, float | None]]
"""Published numbers by the name of their part, with their rank error where they have one."""

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
    """One published number: whose it is, what it is, and what it cost."""

    question: int
    key: Key
    part: str
    value: float
    lower: float
    upper: float
    epsilon: float
    delta: float
    rank_error: float | None = None


def keys_of(found: Aggregate, allocation: Allocation) -> tuple[Key, ...]:
    """The keys to publish: the public ones, or those that are selected by chance and by their number of units."""
    if found.block.keys is not None:
        return found.keys
    share = allocation.selections[found.block.by]
    chances = selection.keep_probabilities(share.epsilon, share.delta)
    return tuple(selection.select(found.units, chances, bits))


def answers(plan: Plan, found: Aggregate, allocation: Allocation, noises: Mapping[int, Noise | None]) -> list[Cell]:
    """Every number of a block, drawn once.

    Guarantee: what is returned is private at the allocation's shares and lies in its support; it and nothing else may
    be published. How many numbers there are depends on public facts and on selected keys alone.
    """
    keys = keys_of(found, allocation)
    cells: list[Cell] = []
    for index in found.block.questions:
        share = allocation.questions[index]
        truths = [found.answers[index][key] for key in keys]
        for key, numbers in zip(keys, _published(plan, index, truths, allocation, noises[index]), strict=True):
            for part, (each, error) in numbers.items():
                facts: dict[str, Any] = {"epsilon": share.epsilon, "delta": share.delta, "rank_error": error}
                cells.append(Cell(question=index, key=key, part=part, **vars(each), **facts))
    return cells


def _published(
    plan: Plan, index: int, truths: list[Coordinates], allocation: Allocation, noise: Noise | None
) -> list[Numbers]:
    """The published numbers of one question in all groups, drawn together."""
    question: Any = plan.query[index]
    if noise is None:
        return [_ranks(plan, index, truth, allocation) for truth in truths]
    if not truths:
        return []
    single = isinstance(question, Count | CountUnits | Sum | Histogram)
    level = plan.level if single else 1.0 - (1.0 - plan.level) / len(truths[0])
    exact = np.array([[noise.truth(each) for each in truth] for truth in truths])
    if isinstance(noise.mechanism, Mechanism):
        published = noise.mechanism.release(exact, step=noise.step)
    else:
        published = noise.mechanism.release(exact, bits)
    lower, upper = intervals(noise, published, level)
    found = []
    for values, low, high in zip(published.tolist(), lower.tolist(), upper.tolist(), strict=True):
        if single:
            found.append(_separate(question, values, low, high))
        else:
            pairs = list(zip(low, high, strict=True))
            found.append({"": (estimate(question, values, pairs, rows=known_rows(question, plan.unit)), None)})
    return found


def _separate(question: Any, values: list[float], lower: list[float], upper: list[float]) -> Numbers:
    """Coordinates that are published as they are: a count, a sum, or the bins of a histogram."""
    if not isinstance(question, Histogram):
        return {"": (held(values[0], lower[0], upper[0], question.allowed), None)}
    whole = [nearest(value, question.allowed, question.step or 1.0) for value in values]
    bins = zip(bin_names(question), whole, lower, upper, strict=True)
    return {name: (held(value, low, high, question.allowed), None) for name, value, low, high in bins}


def parts(question: Any) -> list[str]:
    """The names of the numbers that a question publishes in a group: bins, levels, or one without a name."""
    if isinstance(question, RankQuestion):
        return [repr(level) for level in question.asked]
    return bin_names(question) if isinstance(question, Histogram) else [""]


def possible(question: Any, value: float) -> bool:
    """Whether a question can publish a number: one of its grid, or a finite one in its support and on its step."""
    if isinstance(question, RankQuestion):
        return value in _points(question)
    spans, step = question.allowed.spans, question.step or (1.0 if question.kind in _WHOLE else None)
    if not math.isfinite(value) or not any(lower <= value <= upper for lower, upper in spans):
        return False
    tidy = nearest(value, question.allowed, step)
    return any(value in span for span in spans) or math.isclose(value, tidy, rel_tol=1e-14, abs_tol=1e-9 * (step or 0))


_WHOLE = ("count", "count of units", "histogram")


@lru_cache(maxsize=64)
def _points(question: Any) -> frozenset[float]:
    points = rank.grid(question)
    return frozenset(points[at] for at in rank.candidates(question))


def bin_names(question: Histogram) -> list[str]:
    """The bins of a histogram in words, with as many digits as tell them apart."""
    edges = [question.bounds.lower + question.bounds.width * at / question.bins for at in range(question.bins + 1)]
    ways = [[f"{edge:.{digits}g}" for edge in edges] for digits in range(6, 18)]
    if question.dated:
        ways.insert(0, [date(edge).isoformat() for edge in edges])
    texts = next((each for each in ways if len(set(each)) == len(each)), ways[-1])
    return [f"{a} to {b}" for a, b in pairwise(texts)]


def _ranks(plan: Plan, index: int, truth: Coordinates, allocation: Allocation) -> Numbers:
    """Quantiles, each by a draw of its own, and by two more for its interval; a wider interval holds no less."""
    question: Any = plan.query[index]
    share, cell = allocation.questions[index], allocation.sensitivities[index].cell
    places, points = rank.candidates(question), rank.grid(question)
    found: Numbers = {}
    for level in question.asked:
        speed = rank.rate(level, cell, share.drawn)
        misses = rank.misses(truth, level)
        value = points[places[rank.draw(rank.weights([misses[at] for at in places], speed), bits)]]
        lower, upper = question.allowed.hull.lower, question.allowed.hull.upper
        if share.end:
            ends = rank.rate(level, cell, share.end)
            lower, upper = bracket(question, truth, level, speed=ends, level=plan.level, bits=bits)
        number = held(value, lower, upper, question.allowed)
        found[repr(level)] = (number, rank.rank_error(question, speed, plan.level))
    return found
