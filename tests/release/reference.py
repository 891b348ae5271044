"""The exact aggregates a second time: row by row in Python, from the words of the documentation, not from the SQL."""

import datetime
import hashlib
import math
import operator
from collections import defaultdict
from fractions import Fraction
from itertools import product

from tests.release.row_oracle import read_date, read_number

ONE = 2**30
PRIME = 2**31 - 1
SIGNS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def days(value):
    return (value - datetime.date(1970, 1, 1)).days


def as_number(value, dated=False):
    """A value as a finite float, or None where it is missing."""
    if isinstance(value, datetime.datetime):
        value = value.date()
    if isinstance(value, str):
        value = read_date(value) if dated else read_number(value)
    if value is None:
        return None
    number = float(days(value)) if isinstance(value, datetime.date) else float(value)
    return number if math.isfinite(number) else None


def as_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else value.isoformat() if isinstance(value, datetime.date) else str(value)


def meets(row, conditions):
    for each in conditions:
        value, sign = row[each.column], each.comparison.value
        if sign in ("missing", "present"):
            there = value is not None if isinstance(value, str) else as_number(value) is not None
            if there != (sign == "present"):
                return False
            continue
        first = each.values[0]
        if isinstance(first, str | bool):
            left, right = as_text(value), [as_text(v) for v in each.values]
        else:
            left = as_number(value, isinstance(first, datetime.date))
            right = [as_number(v) for v in each.values]
        if left is None:
            return False
        if sign in ("in", "not in"):
            if (left in right) != (sign == "in"):
                return False
        elif not SIGNS[sign](left, right[0]):
            return False
    return True


def value_of(question, row):
    """The value that a row counts with, within the range; None where it does not count."""
    number = as_number(row[question.column], question.dated)
    number = question.missing if number is None else number
    if isinstance(number, datetime.date):
        number = days(number)
    return None if number is None else min(max(number, question.bounds.lower), question.bounds.upper)


def fixed(question, number):
    lower, upper = question.bounds.lower, question.bounds.upper
    return math.floor((number - lower) * (ONE / (upper - lower)) + 0.5)


def unit_number(unit, salt):
    if isinstance(unit, int):
        return (abs(unit) % PRIME) * (1 if unit > 0 else -1) + PRIME
    return int(digest(salt, unit)[:7], 16)


def digest(salt, *parts):
    return hashlib.md5("\x1f".join([salt.letters, *map(_shortened, map(as_text, parts))]).encode()).hexdigest()


def _shortened(text):
    return hashlib.md5(text.encode()).hexdigest() if len(text) > 1000 else text


def order(unit, key, keys, salt):
    """What a unit sorts its groups by."""
    if keys is None:
        return (digest(salt, unit, *key), key)
    prime = 127 if len(keys) <= 127 else PRIME
    a, b, c, d = salt.numbers
    x = unit_number(unit, salt)
    return ((1 + (a * x + b) % PRIME % (prime - 1)) * keys.index(key) + (c * x + d) % PRIME) % prime


def aggregates(plan, rows, salt):
    """Coordinates by question and key, and units by grouping and key where keys are private."""
    answers, units = {}, {}
    for index, question in enumerate(plan.query):
        by, unit_bounds = question.by, plan.unit_of(question)
        keys = None
        if not plan.private(by):
            keys = list(product(*plan.columns(by)))
        cells = defaultdict(list)
        for at, row in enumerate(rows):
            unit = at if plan.unit.column is None else row[plan.unit.column]
            key = tuple(as_text(row[column]) for column in by)
            if unit_bounds.period is not None and period_of(unit_bounds.period, row) is None:
                continue
            if unit is not None and None not in key and (keys is None or key in keys):
                cells[unit, key].append(row)
        groups = defaultdict(list)
        for unit, key in cells:
            groups[unit].append(key)
        if plan.unit.column is not None:
            for unit, own in groups.items():
                for key in sorted(own, key=lambda key, unit=unit: order(unit, key, keys, salt))[unit_bounds.groups :]:
                    del cells[unit, key]
        if keys is None:
            units[by] = {key: sum(k == key for _, k in cells) for _, key in cells}
            keys = sorted(units[by])
        answers[index] = {
            key: coordinates(question, unit_bounds, [c for (_, k), c in cells.items() if k == key]) for key in keys
        }
    return answers, units


def period_of(period, row):
    """The name of the period that a row is in, as the calendar has it; None where it is in none."""
    number = as_number(row[period.column], True)
    day = None if number is None else datetime.date(1970, 1, 1) + datetime.timedelta(days=number)
    if day is None or not period.range[0] <= day <= period.range[1]:
        return None
    return {"day": day.isoformat(), "week": str(day.isocalendar()[:2]), "month": day.isoformat()[:7]}[period.each]


def coordinates(question, unit, cells):
    total = None
    if question.ranked:
        return (Fraction(sum(any(meets(row, question.where) for row in cell) for cell in cells)),)
    if question.kind in ("top k", "mode"):
        return selected_counts(question, cells)
    if question.kind == "bounds":
        return edge_counts(question, cells)
    for cell in cells:
        kept = [row for row in cell if meets(row, question.where)]
        if hasattr(question, "column"):
            kept = [row for row in kept if value_of(question, row) is not None]
        periods = defaultdict(list)
        for row in kept:
            periods["" if unit.period is None else period_of(unit.period, row)].append(row)
        for own in periods.values():
            share = Fraction(min(len(own), unit.rows), max(len(own), 1))
            part = [math.floor(each * share) for each in sums(question, own)]
            if question.kind == "count of units":
                part = [0]
            total = part if total is None else [x + y for x, y in zip(total, part, strict=True)]
        if question.kind == "count of units":
            total = [(total or [0])[0] + min(len(kept), 1)]
    total = total or sums(question, [])
    kind = question.kind
    if kind in ("count", "count of units"):
        return (Fraction(total[0]),)
    if kind == "sum":
        lower, upper = Fraction(question.bounds.lower), Fraction(question.bounds.upper)
        return (lower * total[0] + (upper - lower) * Fraction(total[1], ONE),)
    if kind in ("mean", "share"):
        n, t = total
        return Fraction(n * ONE - t, ONE), Fraction(t, ONE)
    if kind in ("variance", "standard deviation"):
        n, t, q = total
        return Fraction(n * ONE - 2 * t + q, ONE), Fraction(2 * t - 2 * q, ONE), Fraction(q, ONE)
    return tuple(Fraction(each, ONE) for each in total)


def edge_counts(question, cells):
    """Units by place among the edges, each one in all, its values in equal parts."""
    total = [0] * (2 * len(question.edges) + 1)
    for cell in cells:
        found = [as_number(row[question.column], question.dates) for row in cell if meets(row, question.where)]
        values = [each for each in found if each is not None]
        own = [sum(edge < x for edge in question.edges) + sum(edge <= x for edge in question.edges) for x in values]
        for place in set(own):
            total[place] += own.count(place) * ONE // max(len(values), 1)
    return tuple(Fraction(each, ONE) for each in total)


def selected_counts(question, cells):
    """Units by key or bin, each once for every one that it has a row in."""
    numbers = [0] * len(question.choices)
    for cell in cells:
        rows = [row for row in cell if meets(row, question.where)]
        if question.keyed:
            places = {
                question.choices.index(key)
                for row in rows
                if (key := as_text(row[question.column])) in question.choices
            }
        else:
            lower, upper = question.natural.lower, question.natural.upper
            bins, found = len(numbers), [as_number(row[question.column]) for row in rows]
            clipped = [min(max(each, lower), upper) for each in found if each is not None]
            borders = [float(Fraction(lower) + Fraction(upper - lower) * at / bins) for at in range(1, bins)]
            places = {sum(border <= each for border in borders) for each in clipped}
        for place in places:
            numbers[place] += 1
    return tuple(map(Fraction, numbers))


def sums(question, rows):
    kind = question.kind
    if kind in ("count", "count of units"):
        return [len(rows)]
    if kind == "share":
        return [len(rows), sum(ONE for row in rows if meets(row, question.of))]
    numbers = [value_of(question, row) for row in rows]
    values = [fixed(question, each) for each in numbers]
    if kind in ("sum", "mean"):
        return [len(rows), sum(values)]
    if kind in ("variance", "standard deviation"):
        return [len(rows), sum(values), sum(t * t // ONE for t in values)]
    lower, upper = (Fraction(repr(each)) for each in (question.bounds.lower, question.bounds.upper))
    if kind == "histogram":
        bins = question.bins
        borders = [float(lower + (upper - lower) * at / bins) for at in range(1, bins)]
    else:
        bins, step = question.steps + 1, Fraction(repr(float(question.exact_step)))
        borders = [float(lower + (at - Fraction(1, 2)) * step) for at in range(1, bins)]
    places = [sum(border <= each for border in borders) for each in numbers]
    return [sum(place == at for place in places) * ONE for at in range(bins)]
