"""The audit of a whole table: all that a release shows of two neighbouring tables, and a lower bound on its epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from rangebound.audit.attack import check_draws, counted
from rangebound.audit.bound import EmpiricalBound, EventChoice, Feature, best, grain
from rangebound.audit.hard_pairs import TablePair, hard_pairs
from rangebound.errors import ArgumentError
from rangebound.release.noise.draw import Key
from rangebound.release.output.agreement import consistent
from rangebound.release.output.table import Release
from rangebound.release.plan.kinds.selections import SelectionKind
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.prepare import Prepared, cells_of, draws_of, prepare
from rangebound.release.sql.aggregate import Aggregate
from rangebound.release.sql.relation import Salt
from rangebound.sampling.entropy import secure_bits
from rangebound.values import arguments
from rangebound.values.array_types import Floats

Shown = Mapping[Any, float] | Sequence[float] | float
"""What a function publishes of a table: numbers by name, or in order."""
Drawn = tuple[list[str], list[Floats]]
"""Names of numbers, and for each table a row for each release; what is absent is not a number."""

_BINS = 12
_ORDERS, _FEW = 24, 50  # numbers of which each is looked at by itself, if there are no more; keys that are ranked
_FOLLOWED = 4  # numbers that are looked at each by itself
_PAIRS = 3  # neighbouring tables of which some are drawn before one pair is taken
_POINTS = (0.0, 0.25, 0.5, 0.75)  # parts of epsilon at which the account states a delta too
_FAR = 30
_CHUNK = 50_000
_STRICTER = 1e-3
_WITH = ("with the first table", "with the second")


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class TableBound(EmpiricalBound):
    """An empirical lower bound on what a whole table leaks: not a guarantee, and not an amount that a budget accepts.

    `epsilon` is the bound at `delta`, and `claimed` the epsilon that is claimed at the same delta: of a plan, its own,
    or another point of its account. `tables` are the neighbouring tables of a plan.
    """

    tables: TablePair | None = None

    def to_dict(self) -> dict[str, object]:
        """The finding as plain data, for JSON; the tables in words."""
        return {**super().to_dict(), "tables": None if self.tables is None else self.tables.words}

    def __str__(self) -> str:
        found = super().__str__()
        return found if self.tables is None else f"{found}; the tables differ in {self.tables.words}"


@arguments.guided
def table(
    plan: Plan | Mapping[str, object] | Callable[[Any], Shown],
    *,
    pair: tuple[Any, Any] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    draws: int = 10_000,
    confidence: float = 0.999,
    whole: bool = False,
) -> TableBound:
    """Find a lower bound on what a whole table leaks, from `draws` releases of each of two neighbouring tables.

    Of a plan, neighbouring tables are made up that differ in one unit: the most rows in the most groups, at the ends of
    ranges, in keys that are named about half of the time, and across joins. They are aggregated once, by the engine
    and the statements of a release, and then drawn from as a release draws. The claim is the plan's (epsilon, delta),
    or the delta that its account states at a smaller epsilon, whichever seems easier to refute. With `whole`, every
    draw becomes a release, with its numbers, intervals and notes; without, what is drawn is all there is, since the
    rest is made of that.

    Any other function takes one of the two tables of `pair` and returns numbers, in order or by name; a name that is
    there with one table alone is seen as well. It is called `draws` times for each table.

    A quarter of the releases says how each number, and all together, tell the tables apart: by a linear score, a score
    of likelihoods, the number of rows, single numbers, and how fine these are. The next quarter chooses one event, and
    it is counted in the other half, so that the confidence needs no correction for the search.

    Guarantee: with probability `confidence` the true epsilon at `delta` is at least the bound.
    Assumes: the tables of `pair` are neighbours, and releases are independent.
    Edge cases: a bound that refutes nothing proves nothing. A release is charged to no ledger, and reads made-up rows.

    >>> noise = np.random.default_rng()
    >>> found = table(lambda rows: {"n": len(rows) + noise.laplace(scale=0.5)}, pair=([1, 2], [1]), epsilon=1.0)
    >>> found.refutes
    True
    """
    level, number = arguments.probability("confidence", confidence), check_draws(draws)
    share = None if delta is None else arguments.probability("delta", delta)
    stated = None if epsilon is None else arguments.nonnegative("epsilon", epsilon)
    if callable(plan):
        if pair is None or len(pair) != 2:
            raise ArgumentError("pair: a function needs two neighbouring tables, such as (rows, rows[1:])")
        names, samples = _called(plan, pair, number)
        chosen = _chosen(samples, names, [(stated, share or 0.0)], level)
        return _bound(chosen, samples, level, None)
    if pair is not None:
        raise ArgumentError("pair: goes with a function; the tables of a plan are made up from it")
    ready = prepare(as_plan(plan))
    budget = ready.plan.budget
    claims = [(budget.epsilon if stated is None else stated, budget.delta if share is None else share)]
    if stated is None and share is None:
        claims += [(part * budget.epsilon, ready.loss.delta_at(part * budget.epsilon)) for part in _POINTS]
    pairs, best_score = hard_pairs(ready, Salt.draw(secure_bits))[:_PAIRS], -math.inf
    if not pairs:
        raise ArgumentError("plan: reads nothing in which a unit could differ from the one that replaces it")
    taken, *both = pairs[0]
    for tables, *sides in pairs if len(pairs) > 1 else ():
        names, samples = _drawn(ready, sides, max(number // 10, 500), whole=whole)
        found, _ = _chosen(samples, names, claims[-1:], 0.9)
        if found is not None and found.score > best_score:
            best_score, taken, both = found.score, tables, sides
    names, samples = _drawn(ready, both, number, whole=whole)
    return _bound(_chosen(samples, names, claims, level), samples, level, taken)


def _beyond(one: tuple[Aggregate, ...], two: tuple[Aggregate, ...]) -> tuple[Aggregate, ...]:
    """Aggregates far beyond the second ones in the same direction; its draws show that direction, and count nowhere."""
    found = []
    for before, after in zip(one, two, strict=True):
        answers = {}
        for at, own in after.answers.items():
            answers[at] = {
                key: tuple(
                    max(b + _FAR * (b - a), Fraction(0)) if min(a, b) >= 0 else b + _FAR * (b - a) for a, b in pairs
                )
                for key, there in own.items()
                for pairs in [[*zip(before.answers[at].get(key, there), there, strict=True)]]
            }
        found.append(replace(after, answers=answers))
    return tuple(found)


Claimed = tuple[float | None, float]


def _bound(
    chosen: tuple[EventChoice | None, Claimed], samples: Sequence[Floats], level: float, tables: TablePair | None
) -> TableBound:
    choice, (epsilon, delta) = chosen
    first, second = (each[len(each) // 2 :] for each in samples[:2])
    found = counted(choice, _WITH, (first, second), delta=delta, confidence=level, claimed=epsilon)
    return TableBound(**vars(found), tables=tables)


def _chosen(
    samples: Sequence[Floats], names: Sequence[str], claims: Sequence[Claimed], level: float
) -> tuple[EventChoice | None, Claimed]:
    """The event and the claim to test: of claims that seem to be missed, the one missed most; else the first."""
    half, quarter = len(samples[0]) // 2, len(samples[0]) // 4
    features = _features(samples[0][:quarter], samples[1][:quarter], samples[-1][:quarter], names)
    first, second = (each[quarter:half] for each in samples[:2])
    strict, found = 1.0 - _STRICTER * (1.0 - level), []
    for claim in claims:
        choices = [best(each, first, second, claim[1], strict) for each in features]
        known = [each for each in choices if each is not None]
        found.append((max(known, key=lambda each: each.score, default=None), claim))
    margins = [-math.inf if each is None else each.score - (claim[0] or 0.0) for each, claim in found]
    if max(margins) <= 0.0 and found[0][0] is None:
        margins = [-math.inf if each is None else each.score / (claim[0] or 1.0) for each, claim in found]
    elif max(margins) <= 0.0:
        return found[0]
    return found[margins.index(max(margins))]


def _features(first: Floats, second: Floats, beyond: Floats, names: Sequence[str]) -> list[Feature]:
    """Scores that are learned from some releases, and the numbers that tell most; what is absent is not a number.

    `beyond` shows in which direction the second table differs from the first.
    """
    likely, evidence = _likelihoods(first, second)
    own = np.argsort(-evidence, kind="stable")[:_FOLLOWED].tolist()
    found = [
        *_linear(first, second, beyond),
        Feature("score of likelihoods", likely),
        Feature("number of rows", lambda rows: (~np.isnan(rows)).sum(axis=1).astype(np.float64)),
    ]
    for at in own:

        def number(rows: Floats, at: int = at) -> Floats:
            return np.where(np.isnan(rows[:, at]), -np.inf, rows[:, at])

        found.append(Feature(names[at], number))
        found.append(Feature(f"bits of {names[at]}", lambda rows, number=number: grain(number(rows))))  # type: ignore[misc]
    return found


def _linear(first: Floats, second: Floats, beyond: Floats) -> list[Feature]:
    """Fisher's discriminant of all numbers, each cut at its outermost thousandths; and a sum of their signs.

    The second is the best there is for small differences beside Laplace noise. What is absent is at its mean.
    """
    pooled = np.concatenate([first, second])
    some = np.where(np.isfinite(pooled), pooled, np.nan)
    there = np.flatnonzero(np.isfinite(some).any(axis=0))
    low, high = np.nanquantile(some[:, there], [0.001, 0.999], axis=0)
    middle, width = np.nanmedian(some[:, there], axis=0), np.where(high > low, high - low, 1.0)

    def scaled(rows: Floats, reach: float = 0.0) -> Floats:
        cut = np.clip(rows[:, there], low - reach * width, high + reach * width)
        return np.where(np.isnan(cut), 0.0, (cut - middle) / width)

    one, two = scaled(first), scaled(second)
    apart = scaled(beyond, _FAR).mean(axis=0) - one.mean(axis=0)
    both = np.concatenate([one - one.mean(axis=0), two - two.mean(axis=0)])
    within = both.T @ both / len(both)
    few = len(there) / len(both)  # of many numbers, correlations are learned from too few releases
    slope = np.linalg.solve(within + few * np.diag(np.diag(within)) + 1e-9 * np.eye(len(there)), apart)
    steps = apart / np.maximum(np.abs(both).mean(axis=0), 1e-9)
    return [
        Feature("score of all numbers", lambda rows: np.round(scaled(rows) @ slope, 9)),
        Feature("score of all signs", lambda rows: np.round(np.sign(scaled(rows)) @ steps, 9)),
    ]


def _likelihoods(first: Floats, second: Floats) -> tuple[Callable[[Floats], Floats], Floats]:
    """The sum of the logarithms of likelihood ratios, number by number, of those that differ; and by how much each."""
    tables, evidence = [], np.zeros(first.shape[1])
    for at in range(first.shape[1]):
        one, two = first[:, at], second[:, at]
        pooled = np.concatenate([one, two])
        pooled = pooled[~np.isnan(pooled)]
        cuts = np.unique(pooled)
        if len(cuts) > _ORDERS:
            cuts = np.unique(np.quantile(pooled, np.linspace(0.0, 1.0, _BINS + 1), method="lower"))
        p, q = (np.bincount(_cell(each, cuts), minlength=len(cuts) + 2) for each in (one, two))
        both = (p + q).astype(np.float64)
        seen = both > 0
        excess = ((p - q)[seen] ** 2 / both[seen]).sum() - (seen.sum() - 1)
        evidence[at] = excess / math.sqrt(2.0 * max(int(seen.sum()) - 1, 1))
        tables.append((cuts, np.log((q + 0.5) / (p + 0.5))))
    used = np.flatnonzero(evidence > min(2.0, evidence.max(initial=0.0) - 1e-9)).tolist()

    def likely(rows: Floats) -> Floats:
        return np.round(sum((tables[at][1][_cell(rows[:, at], tables[at][0])] for at in used), np.zeros(len(rows))), 9)

    return likely, evidence


def _cell(values: Floats, cuts: Floats) -> Any:
    return np.where(np.isnan(values), len(cuts) + 1, np.searchsorted(cuts, values, side="right"))


def _filled(samples: Sequence[Sequence[Mapping[Any, float]]]) -> tuple[list[Any], list[Floats]]:
    """All names, and a row for each release, with what is absent as NaN."""
    columns = {name: at for at, name in enumerate(dict.fromkeys(chain(*chain(*samples))))}
    found = [np.full((len(each), len(columns)), np.nan) for each in samples]
    for rows, sample in zip(found, samples, strict=True):
        for row, shown in zip(rows, sample, strict=True):
            row[[columns[name] for name in shown]] = list(shown.values())
    return list(columns), found


def _called(publish: Callable[[Any], Shown], pair: tuple[Any, Any], count: int) -> Drawn:
    """The numbers of a function of both tables, called in turns."""

    def shown(data: Any) -> Mapping[Any, float]:
        found = publish(data)
        if isinstance(found, Mapping):
            return found
        return dict(enumerate(np.atleast_1d(np.asarray(found, dtype=np.float64)).ravel().tolist()))

    both = [[shown(data) for data in pair] for _ in range(count)]
    names, samples = _filled([*zip(*both, strict=True)])
    if not names:
        raise ArgumentError("plan: the function published no number")
    return list(map(str, names)), samples


def _drawn(ready: Prepared, sides: Sequence[tuple[Aggregate, ...]], count: int, *, whole: bool) -> Drawn:
    """What this many releases of both tables show, all that is drawn or all that is made of it; and of one beyond."""
    if whole:
        return _filled([[_made(ready, each) for _ in range(count)] for each in sides])
    differing = {
        at: tuple(key for key in one.keys if one.answers[at][key] != two.answers[at][key]) or one.keys[:1]
        for one, two in zip(*sides, strict=True)
        if one.block.keys is not None
        for at in one.block.questions
    }
    parts = [_parts(ready, each, count, differing) for each in sides]
    parts.append(_parts(ready, _beyond(*sides), count // 4, differing))
    names, fixed = _filled_groups([each for each, _ in parts], [len(each) for _, each in parts])
    more, selected = _filled([each for _, each in parts])
    return [*names, *more], [np.hstack(each) for each in zip(fixed, selected, strict=True)]


Groups = dict[str, list[list[float]]]
"""What is drawn for a group with public keys, by name and release."""


def _parts(
    ready: Prepared, found: tuple[Aggregate, ...], count: int, differing: Mapping[int, tuple[Key, ...]]
) -> tuple[Groups, list[dict[str, float]]]:
    """What is drawn for all groups with public keys, and in each release for selected keys by their names.

    Questions whose groups are drawn each by itself are drawn for many releases at once, as if there were more groups;
    and of these groups only those are drawn that the two tables differ in, since others show the same law for both.
    """
    plan, groups, selected = ready.plan, Groups(), [dict[str, float]() for _ in range(count)]
    rest = [each for each in found if each.block in ready.hidden]
    for each in found:
        joint = list[int]()
        for at in each.block.questions if each.block not in ready.hidden else ():
            if each.block.keys is None or plan.query[at].together or ready.allocation.workload(at) is not None:
                joint.append(at)
                continue
            own, keys = replace(each, block=replace(each.block, questions=(at,))), differing[at]
            step = max(_CHUNK // len(keys), 1)
            for size in (min(step, count - start) for start in range(0, count, step)):
                _, drawn = draws_of(ready, replace(own, keys=keys * size))
                for key, group in zip(keys * size, drawn[at], strict=True):
                    numbers = list(chain.from_iterable(group))
                    for name, part in _ranked(ready, at, key, numbers) or [(_name(ready, at, key), numbers)]:
                        groups.setdefault(name, []).append(part)
        if joint:
            rest.append(replace(each, block=replace(each.block, questions=tuple(joint))))
    for shown in selected if len(rest) > len(ready.hidden) else ():
        named, drawn = draws_of(ready, *rest)
        for at, own_keys in named.items():
            flat = [list(chain.from_iterable(group)) for group in drawn[at]]
            if not plan.private(plan.query[at].by):
                groups.setdefault(_name(ready, at, ()), []).append(list(chain.from_iterable(flat)))
                continue
            for key, numbers in zip(own_keys, flat, strict=True):
                shown |= {f"{_name(ready, at, key)}, {place}": each for place, each in enumerate(numbers, 1)}
    return groups, selected


def _ranked(ready: Prepared, at: int, key: Key, numbers: Sequence[float]) -> list[tuple[str, list[float]]]:
    """Of a question that is answered by a few keys: their order as one number, or the rank of each.

    What tells most is seen in no rank by itself, such as that one key is first and another is second.
    """
    asked, named = ready.plan.query[at], _name(ready, at, key)
    if not isinstance(asked, SelectionKind) or len(asked.choices) > _FEW:
        return []
    places, total = [int(each) for each in numbers], len(asked.choices)
    if math.perm(total, len(places)) <= _ORDERS:
        code = sum(place * total**power for power, place in enumerate(reversed(places)))
        return [(f"order in {named}", [float(code)])]
    ranks = {place: float(rank) for rank, place in enumerate(places, 1)}
    without = len(places) + 1.0
    return [(f"rank of {each} in {named}", [ranks.get(place, without)]) for place, each in enumerate(asked.choices)]


def _filled_groups(sides: Sequence[Groups], counts: Sequence[int]) -> tuple[list[str], list[Floats]]:
    """The same as arrays: some draws have fewer numbers than others."""
    widths = {name: max(len(row) for each in sides for row in each[name]) for name in sides[0]}
    names = [f"{name}, {place + 1}" for name, width in widths.items() for place in range(width)]
    rows = [
        [
            np.array(list(zip_longest(*each[name], [0.0] * width, fillvalue=np.nan)))[:, :-1].T
            for name, width in widths.items()
        ]
        for each in sides
    ]
    return names, [np.hstack([np.empty((count, 0)), *own]) for count, own in zip(counts, rows, strict=True)]


def _name(ready: Prepared, at: int, key: Key) -> str:
    return ready.plan.query[at].name + (f" of {', '.join(map(str, key))}" if key else "")


def _made(ready: Prepared, found: tuple[Aggregate, ...]) -> dict[str, float]:
    """A whole release by name: the numbers and ends of intervals of every cell, and its notes."""
    cells = cells_of(ready, *draws_of(ready, *found))
    cells = consistent(ready.plan, cells) if ready.plan.consistent else cells
    made = Release(plan=ready.plan, cells=tuple(cells), mechanisms=ready.mechanisms, tables=ready.tables)
    shown = {
        f"{field} of {ready.plan.query[cell.question].name} {cell.part} {cell.key}": getattr(cell, field)
        for cell in cells
        for field in ("value", "lower", "upper")
    }
    return shown | {f"note {note!r}": 1.0 for note in made.notes}
