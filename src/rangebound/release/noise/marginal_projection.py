"""Whole numbers for marginals of one table that agree with each other, nearest to their unbiased answers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rangebound.release.noise.projection import Identities, project
from rangebound.release.noise.strategies.marginal_strategy import Attributes
from rangebound.values.array_types import Floats


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
    parts = (
        [cells.take(at, axis=axis).ravel() for axis in range(table.ndim) for at in range(table.shape[axis])]
        if sums
        else [cells.ravel()]
    )
    identities = Identities.of([(table.size + at, each.tolist()) for at, each in enumerate(parts)])
    values = np.concatenate([table.ravel(), fixed])
    lower, upper = np.zeros(len(values)), np.full(len(values), np.inf)
    lower[table.size :] = upper[table.size :] = fixed
    found = project(values, np.ones(len(values)), identities, lower, upper)
    if found is None:
        assert sums, "a total that is not negative can be split"
        return _fitted(table, total, [])
    return found.numbers[: table.size].reshape(table.shape).astype(np.float64)
