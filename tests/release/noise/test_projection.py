"""Projected numbers are whole, in their bounds and add up, and no others that do so are much nearer."""

import itertools
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from rangebound.release.noise import projection
from rangebound.release.noise.projection import LARGEST, Identities, project
from tests.thinning import crossed


def tree(*branches):
    level, size, found = [0], 1, []
    for width in branches:
        parents, level = level, []
        for parent in parents:
            children = list(range(size, size + width))
            found.append((parent, children))
            level += children
            size += width
    return size, found


def tables(*values, ways=2):
    """All margins of up to this many attributes, the total first; each is the sum of those with one attribute more."""
    at = {}
    for count in range(ways + 1):
        for some in itertools.combinations(range(len(values)), count):
            for key in itertools.product(*(range(values[each]) for each in some)):
                at[some, key] = len(at)
    found = []
    for some, key in at:
        for more in set(range(len(values))) - set(some):
            if len(some) < ways:
                joint = tuple(sorted((*some, more)))
                place = joint.index(more)
                keys = [(*key[:place], value, *key[place:]) for value in range(values[more])]
                found.append((at[some, key], [at[joint, each] for each in keys]))
    return len(at), found


def series(days, groups):
    blocks, found, size = [], [], 0
    for _ in range(groups + 1):
        day, running = list(range(size, size + days)), list(range(size + days, size + 2 * days))
        size += 2 * days
        found += [(each, [*running[at - 1 : at], day[at]] if at else [day[0]]) for at, each in enumerate(running)]
        longer = [day[first : first + length] for length in (7, 30) for first in range(0, days, length)]
        found += [(size + at, parts) for at, parts in enumerate(longer)]
        blocks.append([*day, *running, *range(size, size + len(longer))])
        size += len(longer)
    found += [(total, list(parts)) for total, *parts in zip(blocks[-1], *blocks[:-1], strict=True)]
    return size, found


NOTHING = Mock(return_value=None)
SHAPES = {
    "one": (1, []),
    "apart": (4, []),
    "tree": tree(3, 4),
    "one child": tree(1, 1, 2),
    "two-way": tables(3, 4),
    "shared margins": tables(3, 2, 4, 3),
    "three-way": tables(3, 3, 3, ways=3),
    "three-way margins": tables(3, 3, 3, 3, ways=3),
    "series": series(31, 2),
}


def check(numbers, identities, lower=0, upper=LARGEST):
    """By adding up Python's whole numbers."""
    assert numbers.dtype == np.int64
    low, high = (np.broadcast_to(each, numbers.shape).tolist() for each in (lower, upper))
    whole = numbers.tolist()
    assert all(least <= each <= most for least, each, most in zip(low, whole, high, strict=True))
    for total, parts in identities:
        assert whole[total] == sum(whole[each] for each in parts)


def cost(numbers, values):
    return float(((numbers - values) ** 2).sum())


def leaves_of(size, identities):
    """The matrix that makes all numbers of those that are not sums, for shapes whose sums are all of them."""
    finest = sorted({*range(size)} - {total for total, _ in identities})
    known = {each: column for column, each in enumerate(finest)}
    rows = np.zeros((size, len(known)))
    for each, column in known.items():
        rows[each, column] = 1.0
    waiting = dict(identities)
    while waiting:
        for total in [total for total, parts in waiting.items() if not waiting.keys() & set(parts)]:
            rows[total] = rows[waiting.pop(total)].sum(0)
    return rows


@pytest.mark.few(18)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(8))
def test_numbers_are_whole_in_bounds_and_add_up(shape, seed):
    size, identities = SHAPES[shape]
    chance = np.random.default_rng(seed)
    values = chance.normal(0, 5, size) + chance.integers(0, [1, 20, 1000][seed % 3], size)
    found = project(values, Identities.of(identities))
    assert found.near
    check(found.numbers, identities)


def facts_of(size, identities):
    lower, upper = np.zeros(size, dtype=np.int64), np.full(size, LARGEST)
    return projection._Facts(matrix=Identities.of(identities).matrix(size), lower=lower, upper=upper)


@pytest.mark.parametrize("shape", ["tree", "two-way", "three-way", "series"])
@pytest.mark.parametrize("seed", range(4))
def test_the_real_numbers_are_those_of_another_method(shape, seed):
    """Non-negative least squares on the finest numbers alone."""
    size, identities = SHAPES[shape]
    chance = np.random.default_rng(seed)
    values, rows = chance.normal(2, 9, size), leaves_of(size, identities)
    expected = rows @ nnls(rows, values)[0]
    facts = facts_of(size, identities)
    start, moves = projection._nearest(facts, values)
    assert start + moves == pytest.approx(expected, abs=1e-4)
    found = project(values, Identities.of(identities)).numbers
    if shape != "three-way":  # whose corners need not be whole
        assert np.abs(found - expected).max() < 1.0 + 1e-4


@pytest.mark.few(15)
@pytest.mark.parametrize("seed", range(30))
def test_no_small_table_is_nearer_by_more_than_rounding(seed):
    size, identities = tables(2, 2)
    rows = leaves_of(size, identities)
    chance = np.random.default_rng(seed)
    values = chance.normal(2, 2, size)
    every = np.array(list(itertools.product(range(9), repeat=4))) @ rows.T
    best = ((every - values) ** 2).sum(1).min()
    real = cost(rows @ nnls(rows, values)[0], values)
    found = cost(project(values, Identities.of(identities)).numbers, values)
    assert real - 1e-6 <= best <= found + 1e-9
    assert found - real <= 0.5 * size
    assert found <= best + 0.25 * size


def test_control_without_the_real_numbers_the_cost_is_higher(monkeypatch):
    size, identities = SHAPES["two-way"]
    values = np.random.default_rng(0).normal(0, 50, size)
    best = cost(project(values, Identities.of(identities)).numbers, values)
    monkeypatch.setattr(projection, "_quadratic", NOTHING)
    other = cost(project(values, Identities.of(identities)).numbers, values)
    assert best + 0.25 * size < other < 2.0 * best


def test_what_is_publicly_true_is_kept():
    size, identities = SHAPES["two-way"]
    rows = leaves_of(size, identities)
    numbers = (rows @ np.arange(rows.shape[1])).astype(np.int64)
    assert project(numbers, Identities.of(identities)).numbers.tolist() == numbers.tolist()
    sums = Identities.of([(0, [1, 2])])
    assert project([50.0, 3.0, 4.0], sums, [10, 0, 0], [10, 99, 99]).numbers[0] == 10


HOSTILE = {
    "huge": lambda chance, size: chance.normal(0, 2.0**50, size),
    "negative": lambda chance, size: -chance.exponential(1e3, size),
    "huge and negative": lambda chance, size: -chance.exponential(2.0**50, size),
    "infinite": lambda chance, size: chance.choice([np.inf, -np.inf, 1e300, 0.0, 3.3], size),
    "halves": lambda chance, size: chance.integers(0, 9, size) + 0.5,
    "mixed": lambda chance, size: chance.choice([1e15, 1e-9, 0.5, 7.0], size),
}


@pytest.mark.few(3)
@crossed({"hostile": HOSTILE, "shape": SHAPES})
def test_hostile_answers_have_a_result(shape, hostile, capfd):
    size, identities = SHAPES[shape]
    finest = ~np.isin(np.arange(size), [total for total, _ in identities])
    bounds = [(0, np.inf), (-np.inf, np.inf), (0, np.where(finest, 1, np.inf)), (np.where(finest, 3, 0), np.inf)]
    for at, (lower, upper) in enumerate(bounds * 2):
        chance = np.random.default_rng(at)
        values = HOSTILE[hostile](chance, size)
        found = project(values, Identities.of(identities), lower, upper)
        check(found.numbers, identities, lower, upper)
    assert capfd.readouterr() == ("", "")  # branch and bound prints some of its troubles past Python


@st.composite
def structures(draw):
    """Any identities, also circles and contradictions, and bounds that some whole numbers meet or none do."""
    size = draw(st.integers(1, 9))
    identity = st.tuples(st.integers(0, size - 1), st.lists(st.integers(0, size - 1), max_size=4))
    identities = draw(st.lists(identity, max_size=6))
    lower = draw(st.lists(st.integers(-5, 5), min_size=size, max_size=size))
    width = draw(st.lists(st.sampled_from([0, 1, 4, 1000, 2**51]), min_size=size, max_size=size))
    values = draw(st.lists(st.floats(-1e18, 1e18) | st.floats(-9, 9), min_size=size, max_size=size))
    return values, identities, np.array(lower), np.array(lower) + np.array(width)


@pytest.mark.slow
@given(structures())
@settings(deadline=None, max_examples=50)
def test_any_identities_hold_or_there_is_no_result_whatever_the_answers(case):
    values, identities, lower, upper = case
    found = project(values, Identities.of(identities), lower, upper)
    possible = project(np.zeros(len(values)), Identities.of(identities), lower, upper)
    if found is not None:
        check(found.numbers, identities, lower, upper)
    if possible is not None:
        check(possible, identities, lower, upper)
        assert found is not None


def test_what_no_numbers_meet_has_no_result_and_what_is_no_number_is_refused():
    sums = Identities.of([(0, [1, 2])])
    assert project([0, 0, 0], sums, [5, 0, 0], [5, 1, 1]) is None
    assert project([5, 2, 3], sums, 0.2, 0.8) is None
    assert project([0.0, 0.0], Identities.of([(0, [1, 1])]), 1, 1) is None
    for numbers, words in (
        (([np.nan],), "values: must not contain NaN"),
        (([1.0], np.nan), "lower, upper: must not contain NaN"),
    ):
        with pytest.raises(ValueError, match=words):
            project(numbers[0], Identities.of([]), *numbers[1:])


def halves(cost, *_arguments):
    return np.full(len(cost), 0.5)


SOLVERS = ("clarabel.DefaultSolver", "scipy.optimize.linprog", "scipy.optimize.milp")
ERRORS = [Mock(side_effect=each("ill-conditioned")) for each in (ValueError, RuntimeError, FloatingPointError)]


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("broken", "near"),
    [
        ({"_quadratic": NOTHING}, True),
        ({"_quadratic": lambda _facts, start, *_: np.full(len(start), 1e9)}, True),
        ({"_corner": NOTHING}, True),
        ({"_corner": halves}, True),
        ({"_corner": lambda cost, *_: cost * np.nan}, True),
        ({"_searched": NOTHING}, True),
        ({"_corner": NOTHING, "_searched": NOTHING}, False),
        ({"_corner": halves, "_searched": halves}, False),
        *(({place: error}, None) for place in SOLVERS for error in ERRORS),
    ],
)
@pytest.mark.parametrize("shape", ["tree", "two-way", "series", "three-way margins"])
def test_a_solver_that_fails_or_errs_never_shows_in_the_numbers(broken, near, shape, monkeypatch):
    """Numbers are projected after the charge: an error would depend on what was drawn."""
    for name, each in broken.items():
        monkeypatch.setattr(name if "." in name else f"{projection.__name__}.{name}", each)
    size, identities = SHAPES[shape]
    found = project(np.random.default_rng(0).normal(3, 9, size), Identities.of(identities))
    check(found.numbers, identities)
    assert near is None or found.near is near


def test_control_an_identity_that_does_not_hold_is_seen():
    size, identities = SHAPES["two-way"]
    facts = facts_of(size, identities)
    numbers = project(np.full(size, 2.0**46), Identities.of(identities)).numbers
    assert facts.true_of(numbers)
    for at in range(size):
        moved = numbers.copy()
        moved[at] += 1
        assert not facts.true_of(moved)


def large():
    chance, (size, identities) = np.random.default_rng(3), tree(300, 30)
    return project(chance.normal(1, 9, size), Identities.of(identities)).numbers.tolist()


@pytest.mark.slow
def test_the_result_does_not_depend_on_threads():
    names = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    code = f"from {__name__} import large\nprint(large())"
    many = {"check": True, "capture_output": True, "text": True, "env": {**os.environ, **dict.fromkeys(names, "8")}}
    result = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], **many)
    assert result.stdout.strip() == str(large()) == str(large())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "seconds"),
    [(tree(10, 100, 100), 5.0), (tables(*[10] * 12), 3.0), (series(365, 10), 1.0)],
    ids=["hierarchy", "marginals", "series"],
)
def test_large_tables_are_quick(shape, seconds, within):
    size, identities = shape
    chance = np.random.default_rng(0)
    values, sums = chance.normal(5, 9, size), Identities.of(identities)
    with within(seconds):
        found = project(values, sums)
    assert found.near
    assert found.numbers.min() >= 0
