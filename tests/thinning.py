"""A part of many cases by default, all of them with the long tests."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import pytest


def some(cases: Iterable[Any], *, of: int) -> list[Any]:
    """Every `of`-th case by default; the others are marked `long`."""
    return [_marked((case,), at % of > 0) for at, case in enumerate(cases)]


def some_pairs(first: Iterable[Any], second: Iterable[Any], *, of: int) -> list[Any]:
    """Every `of`-th pair by default, shifted from row to row, so that every value of either side is met."""
    rows, columns = list(first), list(second)
    if of > len(columns):
        raise ValueError(f"of={of}: a row of {len(columns)} would be left out")
    return [
        _marked((row, column), (at + across) % of > 0)
        for (at, row), (across, column) in itertools.product(enumerate(rows), enumerate(columns))
    ]


def covering(cases: Iterable[Any], kinds: Callable[[Any], Iterable[Hashable]]) -> list[Any]:
    """Few cases that meet every kind that any case meets, by default; the others are marked `long`.

    Each next case is one of those that meet the most kinds not yet met, and of these one whose kinds were met least, so
    that none is met once beside another that is met in every case.
    """
    listed = list(cases)
    own = [set(kinds(case)) for case in listed]
    met: Counter[Hashable] = Counter()
    kept: set[int] = set()
    wanted = len(set().union(*own))
    while len(met) < wanted:
        best = max(
            range(len(own)),
            key=lambda at: (sum(not met[kind] for kind in own[at]), -sum(met[kind] for kind in own[at])),
        )
        kept.add(best)
        met.update(own[best])
    return [_marked((case,), at not in kept) for at, case in enumerate(listed)]


def crossed(lists: Mapping[str, Iterable[Any]], ids: Callable[[Any], str | None] | None = None) -> pytest.MarkDecorator:
    """Every combination of the values of some arguments; by default so few that every two values still meet.

    Of two arguments alone every value of each is met. What one value, or two together, breaks is found by default; what
    only three break together, by the long tests.

    Edge cases: a name may be several, with commas, for values that are tuples.
    """
    names, values = list(lists), [list(each) for each in lists.values()]
    places = list(itertools.product(*(range(len(each)) for each in values)))
    together = min(2, len(values) - 1)
    chosen = covering(places, lambda place: itertools.combinations(enumerate(place), together))
    cases = []
    for marked in chosen:
        (place,) = marked.values
        case = [each[at] for each, at in zip(values, place, strict=True)]
        flat = [one for name, each in zip(names, case, strict=True) for one in (each if "," in name else (each,))]
        cases.append(pytest.param(*flat, marks=marked.marks))
    return pytest.mark.parametrize(", ".join(names), cases, ids=ids)


def _marked(values: tuple[Any, ...], long: bool) -> Any:
    return pytest.param(*values, marks=[pytest.mark.long] * long)
