"""Tables that others made, read from text: a matrix as CSV, and the perturbation tables of the cell key method.

Probabilities are read as the decimal numbers that are written, exactly, and rounded to whole weights once.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rangebound.errors import ArgumentError
from rangebound.mechanisms.finite.weights import MOST, TOTAL, summing
from rangebound.values import arguments
from rangebound.values.array_types import Integers

_LONGEST = 64_000_000  # bytes
_SUM = Fraction(1, 10**6)  # how far from 1 a row of probabilities may sum, and from p an interval of keys may be wide
_DELIMITERS = ";\t, "


class FiniteRows(NamedTuple):
    """What a file says: inputs, outputs, and the whole weights of each input."""

    inputs: tuple[float, ...]
    outputs: tuple[float, ...]
    weights: Integers


def read_csv(path: str | os.PathLike[str]) -> FiniteRows:
    """A matrix of probabilities: the outputs in the first line, after an empty or named cell; then a line per input."""
    lines = _lines(path)
    if len(lines) < 2 or len(lines[0]) < 2:
        raise ArgumentError(f"path={path}: must have a line of outputs, then a line for each input")
    outputs = [_number(path, 1, each) for each in lines[0][1:]]
    inputs, rows = [], []
    for at, line in enumerate(lines[1:], start=2):
        if len(line) != len(lines[0]):
            raise _uneven(path, at, line, lines[0])
        first, *row = (_number(path, at, each) for each in line)
        inputs.append(first)
        rows.append(_checked(path, at, row))
    return FiniteRows(_doubles("inputs", inputs), _doubles("outputs", outputs), exact_weights(rows))


def read_ptable(path: str | os.PathLike[str], largest: int) -> FiniteRows:
    """The perturbation table of counts 0 to `largest`: each count's law of published counts.

    The columns are those of the R package ptable and of tau-Argus: i, the count; j, what is published; p, the
    probability; v = j - i; and p_int_ub, up to where the interval of cell keys reaches. Keys are looked up in the
    intervals, so their widths are the probabilities where they are given; an interval and its p that differ by more
    than 1e-6 are refused.
    """
    laws = _perturbations(path)
    last = max(laws)
    if sorted(laws) != list(range(last + 1)):
        raise ArgumentError(f"path={path}: must have a row for every count i from 0 to the largest, {last}")
    noise = [{j - i: chance for j, chance in laws[i].items()} for i in range(last + 1)]
    published = [{i + v: chance for v, chance in noise[min(i, last)].items()} for i in range(largest + 1)]
    outputs = sorted({j for law in published for j in law})
    if len(outputs) * len(published) > MOST:
        raise ArgumentError(f"largest={largest}: gives more than {MOST} weights")
    rows = [[law.get(j, Fraction(0)) for j in outputs] for law in published]
    return FiniteRows(tuple(map(float, range(largest + 1))), tuple(map(float, outputs)), exact_weights(rows))


def exact_weights(rows: Sequence[Sequence[Fraction]]) -> Integers:
    """Whole weights that sum to 2^62, nearest to the rows divided by their sums; what is impossible stays so.

    >>> exact_weights([[Fraction(1), Fraction(3), Fraction(0)]]).tolist() == [[TOTAL // 4, 3 * (TOTAL // 4), 0]]
    True
    """
    found = []
    for row in rows:
        total = sum(row, Fraction(0))
        found.append([int(each * TOTAL / total) for each in row])
    return summing(np.array(found, dtype=np.int64))


def _perturbations(path: str | os.PathLike[str]) -> dict[int, dict[int, Fraction]]:
    """For every count i of the file the probabilities of the published counts j."""
    header, *lines = _lines(path)
    names = [each.strip().strip('"').lower() for each in header]
    absent = [each for each in ("i", "j", "p") if each not in names]
    if absent:
        raise ArgumentError(f"path={path}: column {absent[0]!r} is missing; a ptable has i, j, p, v and p_int_ub")
    rows: dict[int, list[tuple[Fraction, int, Fraction]]] = {}
    for at, line in enumerate(lines, start=2):
        if len(line) != len(names):
            raise _uneven(path, at, line, names)
        cells = dict(zip(names, line, strict=True))
        if cells.get("type", "all").strip('"') != "all":
            raise ArgumentError(f"{path}:{at}: must be of type all; tables for magnitudes have no counts to publish")
        i, j, p = (_number(path, at, cells[name]) for name in ("i", "j", "p"))
        if min(i, j, p) < 0 or i.denominator > 1 or j.denominator > 1:
            raise ArgumentError(f"{path}:{at}: i and j must be whole numbers from 0, and p must not be negative")
        if "v" in cells and _number(path, at, cells["v"]) != j - i:
            raise ArgumentError(f"{path}:{at}: v must be j - i")
        end = _number(path, at, cells["p_int_ub"]) if "p_int_ub" in cells else Fraction(0)
        rows.setdefault(int(i), []).append((end, int(j), p))
    if not rows:
        raise ArgumentError(f"path={path}: must have at least one row")
    return {i: _law(path, i, found, "p_int_ub" in names) for i, found in rows.items()}


def _law(
    path: str | os.PathLike[str], i: int, rows: list[tuple[Fraction, int, Fraction]], keyed: bool
) -> dict[int, Fraction]:
    """The probabilities of one count: the widths of its intervals of keys, or p where there are none."""
    if keyed:
        ends = sorted(rows)
        starts = [Fraction(0), *(end for end, _, _ in ends)]
        widths = [(b - a, j, p) for (a, b), (_, j, p) in zip(pairwise(starts), ends, strict=True)]
        if any(abs(width - p) > _SUM for width, _, p in widths):
            raise ArgumentError(f"path={path}: the intervals of keys of count i={i} must be as wide as p says")
        rows = [(width, j, width) for width, j, _ in widths]
    law: dict[int, Fraction] = {}
    for _, j, p in rows:
        law[j] = law.get(j, Fraction(0)) + p
    _checked(path, i, list(law.values()), what=f"count i={i}")
    return {j: p for j, p in law.items() if p > 0}


def _uneven(path: str | os.PathLike[str], at: int, line: Sequence[str], first: Sequence[str]) -> ArgumentError:
    """The error for a line with more or fewer cells than the first."""
    cells = arguments.counted(len(first), "cell")
    return ArgumentError(f"{path}:{at}: must have {cells}, as the first line has, not {len(line)}")


def _lines(path: str | os.PathLike[str]) -> list[list[str]]:
    """The cells of every line that is not empty; the delimiter is the first of ; tab , and space that the file has."""
    arguments.instance("path", path, (str, os.PathLike), "the path of a file")
    try:
        if os.path.getsize(path) > _LONGEST:
            raise ArgumentError(f"path={path}: must be at most {_LONGEST} bytes long")
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ArgumentError(f"path={arguments.shown(str(path))}: cannot be read; {error}") from None
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = next((each for each in _DELIMITERS if each in first), ";")
    found = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines(), delimiter=delimiter)]
    kept = [row for row in found if any(row)]
    if not kept:
        raise ArgumentError(f"path={path}: must not be empty")
    return kept


def _number(path: str | os.PathLike[str], line: int, text: str) -> Fraction:
    """A decimal number as it is written, exactly."""
    try:
        if not text.isascii() or len(text) > 400 or "/" in text or "_" in text:
            raise ValueError
        exponent = text.lower().partition("e")[2]
        if exponent and abs(int(exponent)) > 400:  # before it is made of thousands of millions of digits
            raise ValueError
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ArgumentError(f"{path}:{line}: {arguments.shown(text)} must be a decimal number") from None
    return value


def _checked(path: str | os.PathLike[str], line: int, row: list[Fraction], what: str | None = None) -> list[Fraction]:
    if min(row) < 0 or abs(sum(row, Fraction(0)) - 1) > _SUM:
        raise ArgumentError(f"{path}: the probabilities of {what or f'line {line}'} must be zero or more and sum to 1")
    return row


def _doubles(name: str, numbers: list[Fraction]) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in numbers)
    except OverflowError:
        raise ArgumentError(f"{name}: must fit into doubles (below about 1.8e308)") from None
