"""Tables from elsewhere: of a matrix, and read from text, as CSV and as a perturbation table of the cell key method.

The functions of a `cls` are class methods of `Table`. Probabilities in a file are read as the decimal numbers that are
written, exactly, and rounded to whole weights once.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.mechanisms.finite import input_cells
from rangebound.mechanisms.finite.weights import MOST, TOTAL, private_weights, rounded, summing
from rangebound.privacy.setting import Claim
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers, np, npt
from rangebound.values.numeric import rounded_up
from rangebound.values.support import Grid, Interval, Query

if TYPE_CHECKING:
    from rangebound.mechanisms.finite.finite_mechanism import Table

_LONGEST = 64_000_000  # bytes
_SUM = Fraction(1, 10**6)  # how far from 1 a row of probabilities may sum, and from p an interval of keys may be wide
_DELIMITERS = ";\t, "


class FiniteRows(NamedTuple):
    """What a file says: inputs, outputs, and the whole weights of each input."""

    inputs: tuple[float, ...]
    outputs: tuple[float, ...]
    weights: Integers


def from_probabilities(
    cls: type[Table],
    *,
    query: Query,
    inputs: Sequence[float] | Floats,
    outputs: Sequence[float] | Floats,
    probabilities: npt.ArrayLike,
    epsilon: float | Fraction | None = None,
) -> Table:
    """The table nearest to a matrix of probabilities, a row for each input; private at `epsilon` if that is given.

    Every row is divided by its sum and rounded to whole numbers, each weight by about one unit of 2^-62. With an
    epsilon, the rounded rows are mixed with as little of the uniform law as makes them epsilon-private, and the
    table carries that claim.

    Guarantee: with an epsilon the table is epsilon-private, checked in whole numbers. Without one, it is what it
    is: ask `epsilon()`.
    Edge cases: negative numbers and rows that miss the sum 1 by more than 1e-6 are refused. At epsilon 0
    neighbouring rows must be equal.

    >>> import rangebound as rb
    >>> count = rb.Query(range=rb.Interval(0, 2), sensitivity=1.0)
    >>> rows = [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]]
    >>> m = rb.Table.from_probabilities(
    ...     query=count, inputs=[0, 1, 2], outputs=[0, 1, 2], probabilities=rows, epsilon=1.0
    ... )
    >>> m.epsilon() <= 1.0, round(m.law(0.0).atoms[1][2].item(), 3)
    (True, 0.111)
    """
    matrix = arguments.reals("probabilities", probabilities)
    places, published = ascending("inputs", inputs), ascending("outputs", outputs)
    if matrix.shape != (len(places), len(published)):
        raise ArgumentError(
            f"probabilities of shape {matrix.shape}: must have a row for each input and a column for each output, "
            f"{(len(places), len(published))}"
        )
    if (matrix < 0.0).any():
        raise ArgumentError(f"probabilities={arguments.shown(probabilities)}: must be zero or more")
    if (np.abs(matrix.sum(axis=1) - 1.0) > float(_SUM)).any():
        raise ArgumentError(f"probabilities={arguments.shown(probabilities)}: every row must sum to 1")
    if epsilon is None:
        return cls(query=query, inputs=places, outputs=published, weights=rounded(matrix))
    arguments.instance("query", query, Query, "a Query")
    exact = epsilon if isinstance(epsilon, Fraction) else Fraction(arguments.nonnegative("epsilon", epsilon))
    reach = input_cells.reach(query.range, query.sensitivity, places)
    found = cls(query=query, inputs=places, outputs=published, weights=private_weights(matrix, reach, exact))
    return found.with_claim(Claim(epsilon=rounded_up(exact)))


def from_array(
    cls: type[Table],
    array: npt.ArrayLike,
    *,
    query: Query,
    inputs: Sequence[float] | Floats,
    outputs: Sequence[float] | Floats,
) -> Table:
    """The table of a matrix from elsewhere: whole-number weights with any sums, or probabilities.

    Whole numbers are divided by the sum of their row, exactly, and rounded to multiples of 2^-62; floats are taken
    as `from_probabilities` takes them.

    Guarantee: none is made; ask `epsilon()` and `delta(...)` for the one that it has.
    Edge cases: a row of zeros is refused.

    >>> import rangebound as rb
    >>> count = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    >>> round(rb.Table.from_array([[3, 1], [1, 3]], query=count, inputs=[0, 1], outputs=[0, 1]).epsilon(), 6)
    1.098612
    """
    matrix = np.asarray(array)
    if matrix.dtype.kind not in "iu":
        return from_probabilities(cls, query=query, inputs=inputs, outputs=outputs, probabilities=array)
    if matrix.ndim != 2 or (matrix < 0).any() or not (matrix > 0).any(axis=1).all():
        raise ArgumentError(
            f"array={arguments.shown(array)}: must have rows of whole numbers from 0, each with one above 0"
        )
    weights = exact_weights([[Fraction(each) for each in row] for row in matrix.tolist()])
    return cls(query=query, inputs=ascending("inputs", inputs), outputs=ascending("outputs", outputs), weights=weights)


def from_csv(cls: type[Table], path: str | os.PathLike[str], *, query: Query) -> Table:
    """The table of a file of probabilities from elsewhere.

    The first line has the outputs, after a first cell that is empty or a name; every other line an input and the
    probabilities of the outputs. Cells are parted by semicolons, tabs, commas or spaces.

    Guarantee: probabilities are read as the decimal numbers that are written, divided by the sum of their row, and
    rounded to multiples of 2^-62. The table claims nothing: ask `epsilon()` and `delta(...)`.
    Edge cases: a line of another length, a negative number and a row that misses the sum 1 by more than 1e-6 are
    refused, with the line.

    >>> import pathlib, tempfile, rangebound as rb
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "flip.csv"
    >>> _ = file.write_text("truth;0;1\\n0;0.75;0.25\\n1;0.25;0.75\\n")
    >>> yes_or_no = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    >>> round(rb.Table.from_csv(file, query=yes_or_no).epsilon(), 6)
    1.098612
    """
    found = read_csv(path)
    return cls(query=query, inputs=found.inputs, outputs=found.outputs, weights=found.weights)


def from_ptable(cls: type[Table], path: str | os.PathLike[str], *, largest: int, sensitivity: float = 1.0) -> Table:
    """The perturbation table of a cell key method, with the guarantee that it really has.

    The file is one that the R package ptable or tau-Argus writes for frequency counts: columns i (the count), j
    (what is published), p, v and, as far as they are there, p_int_lb and p_int_ub (the interval of cell keys, whose
    width is the probability). Counts above the last i are perturbed as the last i is, by the same v. `largest` is
    the largest count of the table that is made; larger ones are clipped to it. Two counts above the last i differ
    as any other two do, so no privacy number changes with `largest` once it is above the last i by the sensitivity.

    Guarantee: none is claimed. `epsilon()` is usually infinite: a count of 0 is published as 0, and noise of
    bounded size shows an edge; `delta(epsilon)` is the smallest delta that holds. Both are exact for one cell whose
    key is uniform and secret.
    Assumes: a fresh key. The cell key method uses the same key for the same records, so that cells in several
    tables do not have independent noise, and these numbers do not compose over them.
    Edge cases: tables for magnitudes, with fractional counts or a type other than "all", are refused.

    >>> import pathlib, tempfile, rangebound as rb
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "ptable.csv"
    >>> rows = ["i;j;p;v;p_int_ub", "0;0;1;0;1", "1;0;0.5;-1;0.5", "1;2;0.5;1;1"]
    >>> _ = file.write_text("\\n".join(rows))
    >>> m = rb.Table.from_ptable(file, largest=3)
    >>> m.law(3.0).atoms[0].tolist(), m.law(3.0).atoms[1].tolist()
    ([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.5, 0.0, 0.5])
    >>> m.epsilon(), m.delta(1.0)  # neighbouring counts above 1 have no output in common
    (inf, 1.0)
    """
    if type(largest) is not int or not 1 <= largest <= MOST:
        raise ArgumentError(f"largest={arguments.shown(largest)}: must be a whole number from 1 to {MOST}")
    found = read_ptable(path, largest)
    counts = Grid(step=1, within=Interval(0, largest))
    query = Query(range=counts, sensitivity=sensitivity)
    return cls(query=query, inputs=found.inputs, outputs=found.outputs, weights=found.weights)


def ascending(name: str, values: object) -> tuple[float, ...]:
    """Inputs or outputs as doubles that ascend."""
    numbers = arguments.reals(name, values)
    if numbers.ndim != 1 or not numbers.size:
        raise ArgumentTypeError(f"{name}={arguments.shown(values)}: must be a sequence of at least one number")
    if not (np.diff(numbers) > 0.0).all():
        raise ArgumentError(f"{name}={arguments.shown(values)}: must ascend, each number once")
    return tuple((numbers + 0.0).tolist())


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
