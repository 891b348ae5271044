"""The law of a small, a middling and a large cell, and three boundings side by side: the numbers of a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from rangebound.errors import ArgumentError, RangeboundError
from rangebound.laws.boundings import Bounding
from rangebound.laws.distribution import Law
from rangebound.laws.laplace import Laplace
from rangebound.mechanisms.calibration import calibrate
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.finite import Table
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher
from rangebound.release.noise.table_publisher import TablePublisher
from rangebound.release.output.plan_limits import LimitedMean
from rangebound.release.plan.kinds.facts import OneCoordinate
from rangebound.release.prepare import Prepared
from rangebound.values.arguments import downwards
from rangebound.values.numeric import rounded_up
from rangebound.values.query import Query
from rangebound.values.support import Interval, is_line

_POINTS, _BARS = 161, 81
_TAIL = 0.001  # on either side of a picture
_COMMON = (0.025, 0.975)
_BOUNDINGS = {"truncated": Bounding.TRUNCATE, "clamped": Bounding.RECTIFY, "unbiased": Bounding.UNBOUNDED}


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
    cells = checked_answers(answers, one) if answers else typical_answers(one, _sensitivity(ready, index))
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


def checked_answers(answers: Sequence[float], one: OneCoordinate) -> tuple[float, ...]:
    """Three true answers that were named, if they lie in the range and are whole where they have to be."""
    if len(answers) != 3:
        raise ArgumentError("answers: must be three numbers")
    for each in answers:
        if not one.range.lower <= each <= one.range.upper or not math.isfinite(each):
            raise ArgumentError(f"answers={each!r}: must lie in [{one.range.lower:g}, {one.range.upper:g}]")
        if one.whole and each != math.floor(each):
            raise ArgumentError(f"answers={each!r}: must be a whole number, as the true ones are")
    return tuple(map(float, answers))


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
        ends = _ends(mechanism)
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


def _ends(mechanism: Mechanism | DiscreteLaplace | Table) -> list[float]:
    """Where noise that was clamped piles up: the ends of the support of discrete Laplace noise."""
    if not isinstance(mechanism, DiscreteLaplace):
        return []
    return [each for each in (mechanism.support.lower, mechanism.support.upper) if math.isfinite(each)]


def boundings_compared(
    ready: Prepared, index: int, cells: Sequence[float], one: OneCoordinate
) -> list[dict[str, object]]:
    """Truncated, clamped and unbiased noise for the share of a question: scale, errors at the cells, worst error.

    In plain sums it is Laplace noise of the smallest scale for the share; in a Gaussian account the noise that the
    account has, which is private there with any of the three.
    """
    found: list[dict[str, object]] = []
    for name, bounding in _BOUNDINGS.items():
        if is_line(one.range) and bounding is not Bounding.UNBOUNDED:
            continue
        try:
            mechanism = compared_mechanism(ready, index, one.range, bounding)
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


def compared_mechanism(ready: Prepared, index: int, within: Interval, bounding: Bounding) -> Mechanism:
    """The mechanism of one bounding for the share of a question, as `rangebound.calibrate` finds it."""
    share, publisher = ready.allocation.questions[index], ready.publishers[index]
    query = Query(range=within, sensitivity=_sensitivity(ready, index))
    if share.mu:
        assert isinstance(publisher, MechanismPublisher)
        return Mechanism(noise=publisher.mechanism.noise, query=query, bounding=bounding)
    return calibrate(noise=Laplace, query=query, bounding=bounding, epsilon=share.epsilon, delta=share.delta)
