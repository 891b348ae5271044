"""What may be wrong with a published number beside its noise, and what its true answer may have been.

Its bias, an end of its support, a wide interval; and estimates of the true answers behind the numbers of a question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.laws.boundings import RECTIFY
from rangebound.mechanisms.estimation import Publishes, estimate
from rangebound.mechanisms.finite import Table
from rangebound.release.noise.draw import Cell, Form, Publisher
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher
from rangebound.release.noise.quantiles import QuantilePublisher
from rangebound.release.output.plan_facts import PlanFacts, Row
from rangebound.release.plan.fields import span
from rangebound.release.plan.kinds.cuts import WIDE
from rangebound.release.plan.kinds.facts import Agreement
from rangebound.values.support import Interval, Query


@dataclass(frozen=True, kw_only=True)
class Moved:
    """What is known of a published number beside its noise, made of the plan and published numbers: it costs nothing.

    `bias` is a bound over the true answers in its interval (see `Form.bias`): None where none is known, for quantiles,
    and for numbers that a consistent plan fits to others. `unbiased` is the unbiased number, where its question asks
    for it (see `Form.unclamped_numbers`), and `spread` how wide the interval of a quantile may be, as its draws say
    (see `QuantilePublisher.spreads`).
    """

    bias: float | None = None
    unbiased: float | None = None
    spread: float = 0.0


def moved_numbers(forms: Sequence[Form], facts: PlanFacts | None, cells: Sequence[Cell]) -> list[Moved]:
    """What is known of every number; `facts` are those of the table's plan, whose publishers its numbers came from.

    Edge cases: without facts, in a table whose budget this version of the library would split otherwise, no bias is
    known, nor the unbiased numbers that one strategy makes together.
    """
    found = [Moved()] * len(cells)
    for index, places in _by_question(cells).items():
        own = None if facts is None else facts.questions[index]
        publisher, draws = None if own is None else own.publisher, [cells[at].draws for at in places]
        biases = None
        fitted = facts is not None and facts.plan.consistent
        if own is not None and not (fitted and own.question.agreement != Agreement()):
            ends = (np.array([getattr(cells[at], end) for at in places]) for end in ("lower", "upper"))
            biases = own.form.bias(own.publisher, *ends)
        bounds = [None] * len(places) if biases is None else biases.tolist()
        spreads = [0.0] * len(places)
        if isinstance(publisher, QuantilePublisher):
            size = len(publisher.levels)
            groups = (draws[first : first + size] for first in range(0, len(places), size))
            spreads = [each for group in groups for each in publisher.spreads(group)]
        numbers = forms[index].unclamped_numbers(publisher, draws)
        for at, bias, number, spread in zip(places, bounds, numbers, spreads, strict=True):
            found[at] = Moved(bias=bias, unbiased=number, spread=spread)
    return found


def reached_ends(forms: Sequence[Form], cells: Sequence[Cell]) -> list[str]:
    """A sentence for each support that leaves out possible answers and has an end that an interval reaches.

    Guarantee: made of the plan and the published numbers alone, so it costs nothing.
    """
    found = []
    for index, places in _by_question(cells).items():
        question = forms[index].question
        for part, ends, free in question.stated_ends(forms[index].unit):
            own = [cells[at] for at in places if part in (None, cells[at].part)]
            low = ends.lower > free.lower and any(each.lower <= ends.lower for each in own)
            high = ends.upper < free.upper and any(each.upper >= ends.upper for each in own)
            if low or high:
                whose = repr(question.name) if part is None else f"{question.name!r}, {part},"
                stated = span(ends, dated=question.answers_dated)
                words = "a true answer beyond it would look the same, and no interval shows it"
                found.append(f"{whose} reaches an end of its support, {stated}: {words}")
    return found


def unknown_cuts(forms: Sequence[Form], cells: Sequence[Cell]) -> list[str]:
    """A sentence about the numbers of `report_clipping` whose intervals are too wide to say how much was cut.

    Guarantee: made of the plan and the published numbers alone, so it costs nothing.
    """
    wide = (forms[each.question].question for each in cells if each.upper - each.lower > WIDE)
    names = ", ".join(repr(question.name) for question in wide if question.made)
    more = "raise clipping_share, or ask fewer questions"
    return [f"unknown, since their noise is larger than what they would say: {names}; {more}"] if names else []


def _by_question(cells: Sequence[Cell]) -> dict[int, list[int]]:
    """The places of the numbers of each question."""
    found: dict[int, list[int]] = {}
    for at, cell in enumerate(cells):
        found.setdefault(cell.question, []).append(at)
    return found


def is_unreliable(cell: Cell, spread: float = 0.0) -> bool:
    """Whether the interval of a number is wider than the number: upper - lower > |value|.

    A number with noise that is 0 is unreliable too, also where clamping has left its interval no width. A quantile is
    not if its interval is at most as wide as its `spread`.

    >>> from dataclasses import dataclass, replace
    >>> cell = Cell(question=0, key=(), part="", value=12.0, lower=9.0, upper=15.0, epsilon=1.0, delta=0.0)
    >>> is_unreliable(cell), is_unreliable(replace(cell, value=5.0, lower=2.0, upper=8.0))
    (False, True)
    """
    noisy = bool(cell.epsilon or cell.mu)
    if spread and cell.upper - cell.lower <= spread:
        return False
    return cell.upper - cell.lower > abs(cell.value) or (noisy and not cell.value)


def estimate_rows(
    forms: Sequence[Form],
    facts: PlanFacts | None,
    cells: Sequence[Cell],
    tables: Mapping[int, Table],
    question: str,
    *,
    prior: str | Mapping[float, float] | Sequence[float],
    level: float,
) -> list[Row]:
    """The groups of a question, each with its published number, the estimate and the interval of the estimate."""
    names = [each.question.name for each in forms]
    if question not in names:
        raise ArgumentError(f"question={question!r}: must be a question of the table: {', '.join(names)}")
    if facts is None:
        raise Unsatisfiable(
            f"question={question!r}: how its noise was drawn is not known to this version; estimate with the version "
            "of rangebound that published the table"
        )
    index = names.index(question)
    own = [cell for cell in cells if cell.question == index]
    mechanism, ends = _law(facts.questions[index].publisher, tables.get(index), question)
    drawn = np.clip([cell.draws[0] for cell in own], ends.lower, ends.upper)
    found = estimate(mechanism, drawn, prior=prior, level=level)
    numbers = zip(found.estimate.tolist(), found.lower.tolist(), found.upper.tolist(), strict=True)
    return [
        {
            **dict(zip(forms[index].question.by, cell.key, strict=True)),
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
        ends = publisher.clamped or publisher.mechanism.support
        return replace(publisher.mechanism, support=ends), ends
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
