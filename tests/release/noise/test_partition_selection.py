"""Keys are named with the largest chance that (epsilon, delta) allows, and never with more.

Keys selected by their noisy count: the threshold, against mpmath and by counting; whole releases; forgeries.
"""

import itertools
import json
import math
from dataclasses import replace

import mpmath
import pyarrow as pa
import pytest

from rangebound.errors import ArgumentError, CertificateInvalid
from rangebound.release import check_certificate, explain, release
from rangebound.release.budget_split import allocations
from rangebound.release.noise.allocation import is_within
from rangebound.release.noise.partition_selection import (
    WHOLE,
    PartitionSelection,
    ThresholdSelection,
    partition_selection,
    threshold_selection,
)
from rangebound.release.output.table import Release
from rangebound.release.output.table_certificate import write_certificate
from rangebound.release.plan.kinds.ranks import Median
from rangebound.release.prepare import cells_of, prepare, prepared
from tests.release.noise.refusals import refusal
from tests.release.output.asked import asked, released

LONG = pytest.param(1e-9, 1e-9, marks=pytest.mark.slow)
CASES = [(1.0, 1e-6), (0.1, 1e-9), (3.0, 0.01), (0.01, 1e-3), (50.0, 1e-12), (0.5, 0.49)]


def holds(chances, epsilon, delta):
    """Whether naming and not naming a key are both within (epsilon, delta) for n and n + 1 units, in 60 digits."""
    with mpmath.workdps(60):
        ratio, slack = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(delta)
        p = [mpmath.mpf(each) / WHOLE for each in (*chances, WHOLE, WHOLE)]
        return all(
            b <= ratio * a + slack
            and a <= ratio * b + slack
            and 1 - b <= ratio * (1 - a) + slack
            and 1 - a <= ratio * (1 - b) + slack
            for a, b in itertools.pairwise(p)
        )


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_the_chances_are_private_and_reach_one_and_control_a_little_more_is_not(epsilon, delta):
    chances = partition_selection(epsilon, delta).probabilities
    assert chances[0] == 0
    assert chances[-1] == WHOLE
    assert holds(chances, epsilon, delta)
    for at in {1, len(chances) // 2, len(chances) - 2}:
        more = list(chances)
        more[at] = min(more[at] + WHOLE // 10**12, WHOLE)
        assert more[at] > chances[at]
        assert not holds(more, epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), LONG])
def test_what_cannot_be_is_refused(epsilon, delta):
    with pytest.raises(ArgumentError):
        partition_selection(epsilon, delta)


def test_a_key_is_named_when_the_draw_is_below_its_chance():
    chances = (0, WHOLE // 4, WHOLE)
    units = {("b",): 1, ("a",): 9, ("c",): 1}
    draws = iter([WHOLE - 1, WHOLE // 4 - 1, WHOLE // 4])
    assert PartitionSelection(probabilities=chances).select(units, lambda count: next(draws)) == (("a",), ("b",))


def test_only_the_keys_that_are_selected_are_worked_out(monkeypatch):
    plain, made = Median.coordinates, []

    def coordinates(question, found, unit):
        made.extend([1] if found else [])  # a rehearsal has none
        return plain(question, found, unit)

    monkeypatch.setattr(Median, "coordinates", coordinates)
    plan = asked({"kind": "median", "column": "x", "range": [0, 10], "by": ["k"]}, delta=1e-6)
    keys = ["often"] * 500 + [f"a text of one person {at}" for at in range(500)]
    found = released(plan, {"k": keys, "x": [1.0] * len(keys)})
    assert len(made) == len({cell.key for cell in found.cells}) < 10


def passes(threshold, rows, scale):
    with mpmath.workdps(40):
        return mpmath.ncdf(-(mpmath.mpf(threshold) - rows - mpmath.mpf("0.5")) / mpmath.mpf(scale))


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("scale", [0.3, 10.0, 97.61, 1e9])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_the_threshold_is_the_lowest_that_one_unit_passes_so_rarely(rows, scale, delta):
    found = threshold_selection(0, rows=rows, scale=scale, delta=delta)
    assert passes(found.threshold, rows, scale) <= delta
    found.check(rows=rows, scale=scale, delta=delta)
    lower = replace(found, threshold=found.threshold - 1)
    if lower.threshold > math.ceil(rows + scale):
        assert passes(lower.threshold, rows, scale) > delta
        assert "less private" in refusal(lower, rows=rows, scale=scale, delta=delta)
    for wrong in ({"rows": rows + 3 * math.ceil(scale)}, {"scale": scale * 1.5 + 1}, {"delta": delta / 1e6}):
        assert "less private" in refusal(found, **{"rows": rows, "scale": scale, "delta": delta} | wrong)


def test_only_groups_at_the_threshold_are_named():
    found = ThresholdSelection(question=0, threshold=5.0)
    assert found.named([[(4.0,)], [(5.0,)], [(-9.0,)], [(6.0,)]]) == [1, 3]


COUNT = {"kind": "count", "by": ["clinic"]}
MEAN = {"kind": "mean", "column": "wait", "range": [0, 60], "by": ["clinic"]}


def plan(*questions):
    return asked(*(questions or (COUNT, MEAN)), delta=1e-6, unit={"column": "person", "rows": 2, "groups": 3})


def visits(sizes):
    clinics = [name for name, size in sizes.items() for _ in range(size)]
    return pa.table({"person": list(range(len(clinics))), "clinic": clinics, "wait": [30.0] * len(clinics)})


SIZES = {"large": 4000, "middling": 2000, "tiny": 1}


def test_a_release_names_large_groups_and_its_certificate_is_proved():
    found = release(plan(), visits(SIZES), ledger=None)
    assert {cell.key for cell in found.cells} == {("large",), ("middling",)}  # each is 20 scales from the threshold
    selection = prepare(plan()).selections[("clinic",)]
    assert isinstance(selection, ThresholdSelection)
    assert f"is at least {selection.threshold:g}" in explain(plan())
    check_certificate(found.certificate, found.to_bytes())
    assert json.loads(found.certificate)["selections"][0]["threshold"] == selection.threshold


def test_a_key_below_the_threshold_and_a_lower_threshold_are_refused():
    found = release(plan(), visits(SIZES), ledger=None)
    ready = prepare(plan())
    selection = ready.selections[("clinic",)]
    low = selection.threshold - 1.0
    cells = [
        replace(cell, value=low, draws=(low,), lower=0.0) if cell.question == 0 and cell.key == ("large",) else cell
        for cell in found.cells
    ]
    forged = Release(plan=plan(), cells=tuple(cells), mechanisms=found.mechanisms)
    with pytest.raises(CertificateInvalid, match=r"names a key whose number is below the threshold|do not follow"):
        check_certificate(write_certificate(forged, ready, None), forged.to_bytes())
    text = found.certificate.replace(f'"threshold": {selection.threshold}', f'"threshold": {low}')
    assert text != found.certificate
    with pytest.raises(CertificateInvalid, match="selections"):
        check_certificate(text, found.to_bytes())


def barely_proved():
    """A plan whose threshold falls by one from the next smaller epsilon on: it is passed as often as it may be."""

    def made(epsilon):
        found = asked(COUNT, epsilon=epsilon, delta=1e-6, unit={"column": "person", "rows": 2, "groups": 3})
        return found, prepared(found, allocations(found)[-1]).selections[("clinic",)].threshold

    low, high = 1.0, 1.1
    lowest = made(high)[1]
    assert made(low)[1] > lowest
    while low < (low + high) / 2 < high:
        middle = (low + high) / 2
        low, high = (low, middle) if made(middle)[1] == lowest else (middle, high)
    return made(high)[0]


def test_a_threshold_is_proved_for_the_noise_that_a_certificate_states():
    asked_for = barely_proved()
    found, ready = release(asked_for, visits(SIZES), ledger=None), prepare(asked_for)
    check_certificate(found.certificate, found.to_bytes())
    drawn = [[cell.draws] for cell in found.cells]

    def stated(factor):
        mechanism = ready.publishers[0].mechanism
        noise = replace(mechanism.noise, scale=mechanism.noise.scale * factor)
        more = replace(ready, publishers=(replace(ready.publishers[0], mechanism=replace(mechanism, noise=noise)),))
        cells = cells_of(more, {0: [cell.key for cell in found.cells]}, {0: drawn})
        table = Release(plan=asked_for, cells=tuple(cells), mechanisms=more.mechanisms)
        return write_certificate(table, more, None), table.to_bytes()

    check_certificate(*stated(1.0))
    with pytest.raises(CertificateInvalid, match="names keys by a threshold that is less private than it says"):
        check_certificate(*stated(1.0 + 5e-10))


@pytest.mark.parametrize(
    "question", [{"where": [{"column": "wait", "is": ">", "value": 3}]}, {"mechanism": "rectify Gaussian"}]
)
def test_a_count_that_says_less_than_the_size_of_its_group_selects_none(question):
    assert not allocations(plan(COUNT | question))[-1].thresholds


def test_a_threshold_costs_its_delta_alone_and_leaves_more_of_the_account_to_the_numbers():
    way = allocations(plan())[-1]
    share = way.selections[("clinic",)]
    assert (share.epsilon, way.thresholds) == (0.0, {("clinic",): 0})
    assert share.delta > 0.0
    assert is_within(prepared(plan(), way).loss, way.mu, 1.0, 1e-6)
    more = replace(way, selections={("clinic",): replace(share, delta=share.delta * 3)})
    assert not is_within(prepared(plan(), more).loss, way.mu, 1.0, 1e-6)
    assert sum(float(each.square) for each in way.questions.values()) == pytest.approx(way.mu**2, rel=1e-9)
