"""All that the page shows about a plan: certified numbers, the law of a cell, and quick numbers within a blink."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rangebound import DiscreteLaplace, Laplace, Law, Mechanism, Query, Table, calibrate
from rangebound.errors import ArgumentError, RangeboundError
from rangebound.laws.boundings import Bounding
from rangebound.ledger.record import Account
from rangebound.privacy.attack_risk import ProfileRisk, guaranteed
from rangebound.release.budget_split import allocations
from rangebound.release.noise.allocation import Allocation
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher
from rangebound.release.noise.table_publisher import TablePublisher
from rangebound.release.output.explain import rehearsed
from rangebound.release.output.forecast import COLUMNS, expected_widths, forecast, outlook_cells, part_of
from rangebound.release.output.plan_facts import PlanFacts
from rangebound.release.output.plan_risk import LimitedMean, advantage_odds, plan_limits, risk_of
from rangebound.release.plan.kinds.facts import OneCoordinate
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import TO_FILL_IN
from rangebound.release.prepare import Prepared, prepare, rehearse
from rangebound.values.arguments import downwards, upwards
from rangebound.values.numeric import rounded_up
from rangebound.values.support import is_line

_POINTS, _BARS = 161, 81
_TAIL = 0.001  # on either side of a picture
_COMMON = (0.025, 0.975)
_BOUNDINGS = {"truncated": Bounding.TRUNCATE, "clamped": Bounding.RECTIFY, "unbiased": Bounding.UNBOUNDED}
_RATES = (0.001, 0.005, 0.01, *(at / 50 for at in range(1, 50)))  # fine, since lines between them are above the curve
_BASELINES = (0.01, 0.1)


@dataclass(frozen=True, kw_only=True)
class KnownWidths:
    """What a certified answer says: its account, and for each question its share, as mu and as epsilon, and half-width.

    `choice` says that the plan has a delta, so that there was another account to choose.
    """

    gaussian: bool
    choice: bool
    widths: Mapping[str, tuple[float, float, float | None]]


def plan_view(
    plan: Plan,
    *,
    question: str | None = None,
    answers: Sequence[float] | None = None,
    account: Account | None = None,
    rows: float | None = None,
) -> tuple[dict[str, object], KnownWidths]:
    """What the page shows, as plain data, and what a quick answer may be scaled from; touches no data.

    `explained`, `privacy` and `queries` are those of `--dry-run`. `law` is that of one `question`, by default the first
    that has one, at three true `answers`. `cells` are the texts that `--dry-run` prints. `expected` are the widths in a
    table of about `rows` rows, where those are given. `ready` says that the plan names who is protected.

    Guarantee: every number is that of the function of the library that makes it; nothing is computed here.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> found, _ = plan_view(plan)
    >>> found["certified"], found["queries"][0]["half_width"], found["law"]["cells"][0]["answer"]
    (True, 3.0, 3.0)
    """
    ready, unit = prepare(plan), plan.unit
    rehearse(ready)
    facts = PlanFacts(ready=ready)
    bounded = unit.column is not None and plan.per_unit is None  # whether the plan can have other bounds
    questions = [
        {
            "query": each.name,
            "described": each.described(),
            "made": each.made,
            "weight": each.weight,
            "no_margin": each.no_margin(plan.unit_of(each)),
            "bounds": ({} if each.no_rows else {"rows": each.rows}) | ({"groups": each.groups} if each.by else {}),
        }
        for each in plan.query
    ]
    found = {
        "certified": True,
        "budget": {"epsilon": plan.budget.epsilon, "delta": plan.budget.delta, "words": str(plan.budget)},
        "level": plan.level,
        "unit": {"column": unit.column, "rows": unit.rows, "groups": unit.groups, "bounded": bounded},
        "ready": unit.column != TO_FILL_IN,
        "keys": {name: list(plan.columns((name,))[0]) for name in plan.keys},
        "expected": None if rows is None else [each.to_dict() for each in expected_widths(plan, rows)],
        "terms": str(facts.conversions),
        **rehearsed(facts, account),
        "title": plan.title,
        "cells": [dict(zip(COLUMNS, each, strict=True)) for each in outlook_cells(forecast(plan))],
        "questions": questions,
        "risk": risk_numbers(plan, risk_of(ready)),
        "law": _law(ready, question, answers),
    }
    widths = {each.question.name: (each.share.mu, each.share.epsilon, each.half_width) for each in ready.questions}
    return found, KnownWidths(gaussian=bool(ready.allocation.mu), choice=plan.budget.delta > 0.0, widths=widths)


def _law(ready: Prepared, question: str | None, answers: Sequence[float] | None) -> dict[str, object]:
    names, limits = [each.name for each in ready.plan.query], plan_limits(ready)
    if question is not None:
        if question not in names:
            raise ArgumentError(f"question={question!r:.80}: is not in the plan")
        return cell_laws(ready, names.index(question), limits[names.index(question)], answers)
    tried = (cell_laws(ready, at, limits[at]) for at in range(len(names)) if not ready.plan.query[at].made)
    first = next(tried)
    return first if "reason" not in first else next((each for each in tried if "reason" not in each), first)


def quick_way(plan: Plan, gaussian: bool | None = None) -> Allocation:
    """The way to split the budget that is likely the best one: in the account that was best before, where that is
    known, else the last one, a Gaussian account where there is a delta.

    All ways are private; which one has the least error is what takes long to find.
    """
    ways = allocations(plan)
    alike = [each for each in ways if gaussian is not None and bool(each.mu) == gaussian]
    return (alike or ways)[-1]


def quick_view(plan: Plan, allocation: Allocation, known: KnownWidths | None) -> dict[str, object]:
    """Shares of an allocation, the risk that epsilon and delta allow, and half-widths from those that are known: noise
    is nearly proportional to 1 / share. None where nothing is known.

    Guarantee: no risk is below the certified one, whatever the mechanisms and however the budget is split; a point of
    the trade-off curve up to the tolerance of the curve. Shares and half-widths are estimates.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> found = quick_view(plan, quick_way(plan), None)
    >>> found["certified"], found["queries"]
    (False, [{'query': 'visits', 'share': 1.0, 'half_width': None}])
    >>> found["risk"]["texts"]["advantage"]
    '46.22 %'
    """
    questions = []
    for at, each in enumerate(plan.query):
        share = allocation.questions[at]
        mu, epsilon, width = (0.0, 0.0, None) if known is None else known.widths.get(each.name, (0.0, 0.0, None))
        old, new = (mu, share.mu) if mu or share.mu else (epsilon, share.epsilon)
        scaled = width * old / new if width is not None and old and new else None
        part = part_of(plan.budget.epsilon, allocation, share)
        questions.append({"query": each.name, "share": part, "half_width": scaled})
    spent = {"epsilon": plan.budget.epsilon, "delta": plan.budget.delta}
    return {"certified": False, "budget": spent, "queries": questions, "risk": risk_numbers(plan, guaranteed(**spent))}


def risk_numbers(plan: Plan, risk: ProfileRisk) -> dict[str, object]:
    """The attack risk of a plan; None where there is no such number. The texts are rounded up.

    Guarantee: no risk is understated where `risk` is not.
    """
    mu, advantage = risk.gdp(), risk.advantage()
    rates = {"advantage": advantage, "success": risk.success(0.5), "posterior": risk.posterior(0.5)}
    reconstruction = [[each, risk.reconstruction(each)] for each in _BASELINES]
    shares = rates | {f"reconstruction-{at}": after for at, (_, after) in enumerate(reconstruction)}
    texts = {name: percent_up(value) for name, value in shares.items()}
    return {
        **rates,
        "odds": advantage_odds(plan.unit, advantage),
        "mu": mu if math.isfinite(mu) else None,
        "reconstruction": reconstruction,
        "tradeoff": [[each, risk.tradeoff(each)] for each in (0.0, *_RATES, 1.0)],
        "texts": texts | {"mu": upwards(mu, 4) if math.isfinite(mu) else "none"},
    }


def percent_up(part: float) -> str:
    """A part in percent, rounded up to four digits and never above 100: of a risk that may not be understated.

    >>> percent_up(0.12345678), percent_up(0.99999)
    ('12.35 %', '100 %')
    """
    return f"{upwards(min(100.0 * part * (1.0 + 2.0**-50), 100.0), 4)} %"


def cell_laws(
    ready: Prepared, index: int, limit: LimitedMean, answers: Sequence[float] | None = None
) -> dict[str, object]:
    """The laws of a question's number at three true answers, its errors there, and three boundings side by side.

    Edge cases: for a number that is not one coordinate with noise, `reason` says why there is no law.
    """
    question, publisher = ready.plan.query[index], ready.publishers[index]
    one = question.one_coordinate(ready.plan.unit_of(question))
    published = isinstance(publisher, (DiscreteLaplacePublisher, MechanismPublisher, TablePublisher))
    if one is None or not published or ready.questions[index].workload is not None:
        reason = question.no_limit or "the number is made together with others"
        return {"query": question.name, "reason": reason}
    assert isinstance(publisher, (DiscreteLaplacePublisher, MechanismPublisher, TablePublisher))
    mechanism = publisher.published_mechanism
    cells = tuple(map(float, answers or ())) or typical_answers(one, _sensitivity(ready, index))
    if len(cells) != 3:
        raise ArgumentError("answers: must be three numbers")
    for each in answers or ():
        if not one.range.lower <= each <= one.range.upper or not math.isfinite(each):
            raise ArgumentError(f"answers={each!r}: must lie in [{one.range.lower:g}, {one.range.upper:g}]")
        if one.whole and each != math.floor(each):
            raise ArgumentError(f"answers={each!r}: must be a whole number, as the true ones are")
    try:
        pictures = [_cell(mechanism, each) for each in cells]
    except RangeboundError:  # a law on more points than memory has room for
        return {"query": question.name, "reason": "at this epsilon the noise is too wide for one"}
    return {
        "query": question.name,
        "mechanism": publisher.words(),
        "whole": one.whole,
        "limit": limit.limit,
        "limit_text": None if limit.limit is None else downwards(limit.limit, 4),
        "no_limit": limit.reason,
        "worst_mae": publisher.mae,
        "cells": pictures,
        "boundings": boundings_compared(ready, index, cells, one),
    }


def _sensitivity(ready: Prepared, index: int) -> float:
    return rounded_up(Fraction(ready.allocation.sensitivities[index].cell))


def typical_answers(one: OneCoordinate, sensitivity: float) -> tuple[float, ...]:
    """A small, a middling and a large true answer of a coordinate, where nobody names them.

    >>> from rangebound.values.support import Interval
    >>> typical_answers(OneCoordinate(range=Interval(0, math.inf), whole=True, support=Interval(0, math.inf)), 5.0)
    (3.0, 30.0, 300.0)
    """
    lower, upper = one.range.lower, one.range.upper
    if not math.isfinite(upper - lower):
        base = lower if math.isfinite(lower) else upper if math.isfinite(upper) else 0.0
        sign = -1.0 if math.isinf(lower) and math.isfinite(upper) else 1.0
        unit = sign if one.whole else sign * sensitivity
        return tuple(base + unit * each for each in (3.0, 30.0, 300.0))
    found = (lower + part * (upper - lower) for part in (0.03, 0.25, 0.5))
    return tuple(float(round(each)) if one.whole else each for each in found)


def _cell(mechanism: Mechanism | DiscreteLaplace | Table, answer: float) -> dict[str, object]:
    """The law at one true answer: a curve or bars, spikes, and the range of 95 of 100 published numbers.

    `tallest` is the largest probability in the picture: of a bar, a spike, or a strip of the width `strip` under the
    curve, so that all are drawn on one scale.
    """
    law, error = mechanism.law(answer), mechanism.error(answer)
    low, high = (float(each) for each in law.quantile(list(_COMMON)))
    first, last = (float(each) for each in law.quantile([_TAIL, 1.0 - _TAIL]))
    strip = (last - first) / (_BARS - 1)
    picture: dict[str, list[list[float]]] = {"curve": [], "bars": [], "spikes": []}
    if isinstance(law, Law):
        xs = np.linspace(first, last, _POINTS) if last > first else np.array([first])
        spots, masses = law.atoms
        picture["curve"] = [[x, y] for x, y in zip(xs.tolist(), law.pdf(xs).tolist(), strict=True)]
        picture["spikes"] = [[x, p] for x, p in zip(spots.tolist(), masses.tolist(), strict=True) if p > 0.0]
    else:
        spots, masses = (each.reshape(-1) for each in law.atoms)
        ends: list[float] = []  # where noise that was clamped piles up
        if isinstance(mechanism, DiscreteLaplace):
            ends = [mechanism.support.lower, mechanism.support.upper]
        picture["spikes"] = [[x, p] for x, p in zip(spots.tolist(), masses.tolist(), strict=True) if x in ends]
        inside = (spots >= first) & (spots <= last) & ~np.isin(spots, ends)
        spots, masses = spots[inside], masses[inside]
        together = max(math.ceil(len(spots) / _BARS), 1)
        picture["bars"] = [
            [float(spots[at : at + together].mean()), float(masses[at : at + together].sum())]
            for at in range(0, len(spots), together)
        ]
    masses_drawn = [mass for _, mass in (*picture["bars"], *picture["spikes"])]
    masses_drawn += [density * strip for _, density in picture["curve"]]
    scale = {"strip": strip, "tallest": max(masses_drawn)}
    facts = {"answer": answer, "bias": error.bias, "mae": error.mae, "rmse": math.sqrt(error.mse), **scale}
    return {**facts, "mean": answer + error.bias, "common": [low, high], "window": [first, last], **picture}


def boundings_compared(
    ready: Prepared, index: int, cells: Sequence[float], one: OneCoordinate
) -> list[dict[str, object]]:
    """Truncated, clamped and unbiased noise for the share of a question: scale, errors at the cells, worst error.

    In plain sums it is Laplace noise of the smallest scale for the share; in a Gaussian account the noise that the
    account has, which is private there with any of the three.
    """
    share, publisher = ready.allocation.questions[index], ready.publishers[index]
    query = Query(range=one.range, sensitivity=_sensitivity(ready, index))
    found: list[dict[str, object]] = []
    for name, bounding in _BOUNDINGS.items():
        if is_line(one.range) and bounding is not Bounding.UNBOUNDED:
            continue
        try:
            if share.mu:
                assert isinstance(publisher, MechanismPublisher)
                mechanism = Mechanism(noise=publisher.mechanism.noise, query=query, bounding=bounding)
            else:
                epsilon, delta = share.epsilon, share.delta
                mechanism = calibrate(noise=Laplace, query=query, bounding=bounding, epsilon=epsilon, delta=delta)
        except RangeboundError as reason:
            found.append({"bounding": name, "reason": str(reason)})
            continue
        at = mechanism.error(np.array(cells))
        masses = [mechanism.law(each).atoms[1] for each in cells]
        found.append(
            {
                "bounding": name,
                "noise": type(mechanism.noise).__name__,
                "scale": mechanism.noise.scale,
                "bias": at.bias.tolist(),
                "mae": at.mae.tolist(),
                "spike": [float(each.sum()) for each in masses],
                "worst_mae": mechanism.worst_error().mae,
                "outside": bounding is Bounding.UNBOUNDED and not is_line(one.range),
            }
        )
    return found
