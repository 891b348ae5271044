"""Estimates of the true answers behind the numbers of one question of a published table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.laws.boundings import RECTIFY
from rangebound.mechanisms.estimation import Publishes, estimate
from rangebound.mechanisms.finite import Table
from rangebound.release.noise.draw import Cell
from rangebound.release.noise.form import Publisher
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher
from rangebound.release.output.facts import Row
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import prepare
from rangebound.values.query import Query
from rangebound.values.support import Interval


def estimate_rows(
    plan: Plan,
    cells: Sequence[Cell],
    tables: Mapping[int, Table],
    question: str,
    *,
    prior: str | Mapping[float, float] | Sequence[float],
    level: float,
) -> list[Row]:
    """The groups of a question, each with its published number, the estimate and the interval of the estimate."""
    names = [each.name for each in plan.query]
    if question not in names:
        raise ArgumentError(f"question={question!r}: must be a question of the table: {', '.join(names)}")
    index = names.index(question)
    own = [cell for cell in cells if cell.question == index]
    mechanism, ends = _law(prepare(plan).publishers[index], tables.get(index), question)
    drawn = np.clip([cell.draws[0] for cell in own], ends.lower, ends.upper)
    found = estimate(mechanism, drawn, prior=prior, level=level)
    by = plan.query[index].by
    numbers = zip(found.estimate.tolist(), found.lower.tolist(), found.upper.tolist(), strict=True)
    return [
        {
            **dict(zip(by, cell.key, strict=True)),
            **({"part": cell.part} if cell.part else {}),
            "published": cell.value,
            "estimate": near,
            "lower": lower,
            "upper": upper,
        }
        for cell, (near, lower, upper) in zip(own, numbers, strict=True)
    ]


def _law(publisher: Publisher, table: Table | None, question: str) -> tuple[Publishes, Interval]:
    """The mechanism that a drawn number has the law of once it is moved into the range, and that range."""
    if table is not None:
        return table, table.query.range.hull
    if isinstance(publisher, DiscreteLaplacePublisher):
        whole = publisher.mechanism
        ends = publisher.clamped or whole.support
        return replace(whole, support=ends), ends
    if isinstance(publisher, MechanismPublisher) and publisher.width == 1 and publisher.grain == 1.0:
        noisy = publisher.mechanism
        if publisher.clamped is None:
            return noisy, noisy.query.range.hull
        query = Query(range=publisher.clamped, sensitivity=noisy.query.sensitivity)
        return replace(noisy, query=query, support=publisher.clamped, bounding=RECTIFY), publisher.clamped
    raise Unsatisfiable(
        f"question={question!r}: must be one whose numbers have noise of their own, each by itself, such as a count; "
        f"these have {publisher.words()}"
    )
