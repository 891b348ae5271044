"""The draw from a table: the law of its entries is the row, in whole numbers; kernel and NumPy agree word for word."""

import dataclasses
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import rangebound as rb
from rangebound.mechanisms.finite import TOTAL
from rangebound.sampling import alias_sampler, alias_table
from rangebound.sampling.alias_table import _check_law, alias_entries
from tests.mechanisms.finite.brute_force import nearest
from tests.mechanisms.finite.random_tables import random_row, random_table
from tests.sampling.sources import Repeating, words

compiled = pytest.mark.skipif(
    getattr(alias_table._kernel, "API", 1) < 2, reason="the kernel is not compiled, or is of an older version"
)


def law_of(entries, size):
    """The units of every output, counted slot by slot in Python's whole numbers."""
    bits = len(entries).bit_length() - 1
    capacity = 1 << (62 - bits)
    units = [0] * len(entries)
    for slot, entry in enumerate(entries.tolist()):
        cut, alias = entry & ((1 << (63 - bits)) - 1), entry >> (63 - bits)
        assert 0 <= cut <= capacity
        units[slot] += cut
        units[alias] += capacity - cut
    assert not any(units[size:])
    return units[:size]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 64, 65, 321])
def test_the_law_of_the_entries_is_the_row(size):
    rng = np.random.default_rng(size)
    weights = np.array([random_row(rng, size) for _ in range(20)])
    if size > 1:
        weights[0] = [TOTAL] + [0] * (size - 1)
        weights[1] = [0] * (size - 1) + [TOTAL]
        weights[2] = [1] * (size - 1) + [TOTAL - size + 1]
    for row, entries in zip(weights.tolist(), alias_entries(weights), strict=True):
        assert law_of(entries, size) == row


def test_control_entries_of_another_row_are_found():
    weights = np.array([[TOTAL // 2, TOTAL // 4, TOTAL // 4]])
    entries = alias_entries(weights)[0]
    cut, alias = entries & np.uint64(2**61 - 1), entries >> np.uint64(61)
    good = cut.astype(np.int64)[None], alias.astype(np.intp)[None]
    _check_law(weights, *good, 2**60)
    moved = weights + np.array([[1, -1, 0]])
    for law in ((moved, *good), (weights, good[0] + np.array([[0, 0, 1, 0]]), good[1])):
        with pytest.raises(AssertionError, match="differs"):
            _check_law(*law, 2**60)
    assert law_of(entries, 3) != moved[0].tolist()


@pytest.mark.parametrize("seed", range(10))
def test_every_word_goes_where_its_slot_and_unit_say(seed):
    """At the first and the last unit of both parts of every slot, by a draw written out in whole numbers."""
    rng = np.random.default_rng(seed)
    table = random_table(rng)
    drawer = table._sampler
    bits = len(drawer.outputs).bit_length() - 1
    answers = np.concatenate([rng.uniform(lo, hi, 3) for lo, hi in table.query.range.spans])
    for answer in answers.tolist():
        entries = drawer.entries[nearest(table.inputs, Fraction(answer))].tolist()
        random, expected = [], []
        for slot, entry in enumerate(entries):
            cut, alias = entry & ((1 << (63 - bits)) - 1), entry >> (63 - bits)
            last = (1 << (62 - bits)) - 1
            for unit in (x for x in (0, cut - 1, cut, last) if 0 <= x <= last):
                for low in (0, 3):
                    random.append(((slot << (62 - bits)) + unit) * 4 + low)
                    expected.append(table.outputs[slot if unit < cut else alias])
        for each in (drawer, dataclasses.replace(drawer, compiled=False)):
            out = np.empty(len(random))
            each.draw(np.array(random, dtype=np.uint64), np.full(len(random), answer), Repeating(1), out)
            assert out.tolist() == expected


@compiled
@pytest.mark.parametrize("seed", range(25))
def test_kernel_and_numpy_agree_word_by_word(seed):
    rng = np.random.default_rng(seed)
    table = random_table(rng)
    drawer = table._sampler
    assert drawer.compiled
    plain = dataclasses.replace(drawer, compiled=False)
    hull = table.query.range.hull
    answers = rng.uniform(hull.lower - 1.0, hull.upper + 1.0, 5000)
    ties = np.concatenate([drawer.thresholds[: len(table.inputs) - 1], np.asarray(table.inputs)])
    ties = np.concatenate([ties, np.nextafter(ties, -np.inf)])
    answers[: len(ties)] = ties
    random = words(5000, seed)
    by_kernel, by_numpy = np.empty(5000), np.empty(5000)
    drawer.draw(random, answers, Repeating(1), by_kernel)
    plain.draw(random, answers, Repeating(1), by_numpy)
    np.testing.assert_array_equal(by_kernel, by_numpy)
    for each in (drawer, plain):
        ones = [each.draw_one(answers[i], SimpleNamespace(word=lambda i=i: int(random[i]))) for i in range(100)]
        assert ones == by_numpy[:100].tolist()


@compiled
def test_the_kernel_refuses_arrays_that_do_not_fit():
    rows = np.array([random_row(np.random.default_rng(3), 3)] * 3)
    drawer = alias_sampler(
        rb.Query(range=rb.Interval(0, 2), sensitivity=1.0), np.array([0.5, 1.5]), np.arange(3.0), rows
    )
    thresholds, entries, outputs = drawer.thresholds, drawer.entries, drawer.outputs
    random, answers, out = words(4, 1), np.zeros(4), np.empty(4)
    for wrong in (
        (thresholds[:-1], entries, outputs),
        (thresholds, entries.reshape(-1)[:-1].copy(), outputs),
        (thresholds, entries[:0], outputs),
        (thresholds, entries, np.append(outputs, 1.0)),
        (np.empty(0), np.concatenate([entries] * 2), outputs),
    ):
        with pytest.raises(ValueError, match="wrong size"):
            alias_table._kernel.draw_table(*wrong, random, answers, out)
        with pytest.raises(ValueError, match="wrong size"):
            alias_table._kernel.draw_table_one(*wrong, 1, 0.0)
    with pytest.raises(ValueError, match="different lengths"):
        alias_table._kernel.draw_table(thresholds, entries, outputs, random[:3], answers, out)
    for odd in (math.nan, math.inf, -math.inf):  # they never reach it; it stays inside its arrays all the same
        assert alias_table._kernel.draw_table_one(thresholds, entries, outputs, 1, odd) in outputs


@pytest.mark.parametrize("kernel", [None, SimpleNamespace(), SimpleNamespace(API=1)], ids=["none", "old", "first"])
def test_without_a_kernel_of_this_version_numpy_draws(kernel, monkeypatch):
    monkeypatch.setattr(alias_table, "_kernel", kernel)
    table = rb.Table(
        query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0),
        inputs=(0, 1),
        outputs=(2, 3),
        weights=[[TOTAL, 0], [0, TOTAL]],
    )
    assert not table._sampler.compiled
    assert table.release([0.0, 1.0, 0.4]).tolist() == [2.0, 3.0, 2.0]
    assert table.release(1.0) == 3.0
