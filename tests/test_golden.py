"""The reference values that came with the project: tests/reference/golden.json.

Its pairs must be met to 1e-10. So must its scales to 1e-6 and never from below, but for some scales of truncated
Laplace noise at (epsilon, delta), which are too small: their scan of the positions was too coarse. The test finds those
rows by itself and proves for each, by mpmath quadrature of the densities and nothing else, that golden's scale is not
private and that ours is as small as it can be.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import mpmath as mp
import pytest

import rangebound as rb
from rangebound.errors import ClaimFalse
from tests.crosscheck.compare import agree, distance

GOLDEN = json.loads((Path(__file__).parent / "reference" / "golden.json").read_text())
NOISES = {"laplace": rb.Laplace, "gaussian": rb.Gaussian}
BOUNDINGS = {"truncate": rb.TRUNCATE, "rectify": rb.RECTIFY}
TARGETS = ("truncate_pure", "truncate_approx", "rectify_approx")

PAIR = 1e-10
ZERO = 1e-20  # golden writes a number that is mathematically zero as 0 or as noise below this
ABOVE, BELOW = 1e-6, 1e-9  # how far a scale may be from golden's
PRINTED = 1e-8  # golden's scales are printed to ten digits at best; one that is off by more is wrong


def laws(row: dict[str, Any]) -> tuple[rb.Mechanism, rb.Law, rb.Law]:
    spans = [tuple(map(float, span)) for span in row["support"]]
    support = rb.Interval(*spans[0]) if len(spans) == 1 else rb.Union(*spans)
    mechanism = rb.Mechanism(
        noise=NOISES[row["noise"]](scale=float(row["scale"])),
        query=rb.Query(range=rb.Interval(-100, 100), sensitivity=100.0),
        support=support,
        bounding=BOUNDINGS[row["bounding"]],
    )
    return mechanism, mechanism.law(float(row["p"])), mechanism.law(float(row["q"]))


def golden_number(text: str) -> mp.mpf:
    value = mp.mpf(text)
    return value if abs(value) > ZERO else mp.mpf(0)


@pytest.mark.parametrize("row", GOLDEN["pairs"], ids=lambda row: f"{row['noise']}-{row['bounding']}-{row['support']}")
def test_pairs(row: dict[str, Any]) -> None:
    mechanism, p, q = laws(row)
    stick = rb.hockey_stick(p, q, float(row["eps"]))
    agree(stick, golden_number(row["hockey_stick"]), rel=PAIR, floor=ZERO, what="hockey stick")
    agree(rb.renyi(p, q, float(row["alpha"])), golden_number(row["rdp"]), rel=PAIR, floor=ZERO, what="renyi")
    agree(mechanism.fisher(float(row["p"])), golden_number(row["fisher"]), rel=PAIR, floor=ZERO, what="fisher")
    if "error" in row:
        error = mechanism.error(float(row["p"]))
        for name in ("bias", "mae", "mse"):
            agree(getattr(error, name), golden_number(row["error"][name]), rel=PAIR, floor=ZERO, what=name)


def calibrated(row: dict[str, Any], target: str) -> rb.Mechanism:
    return rb.calibrate(
        noise=NOISES[row["noise"]],
        query=query(row),
        bounding=BOUNDINGS[target.split("_")[0]],
        epsilon=float(row["epsilon"]),
        delta=0.0 if target.endswith("pure") else float(row["delta"]),
    )


def query(row: dict[str, Any]) -> rb.Query:
    return rb.Query(range=rb.Interval(*map(float, row["range"])), sensitivity=float(row["sensitivity"]))


@pytest.fixture(scope="session")
def scales() -> list[tuple[dict[str, Any], str, rb.Mechanism, float]]:
    """Every target of every row, with our mechanism and how far its scale is above golden's, relative."""
    found = []
    for row in GOLDEN["scales"]:
        for target in TARGETS:
            mechanism = calibrated(row, target)
            found.append((row, target, mechanism, mechanism.noise.scale / float(row[target]) - 1.0))
    return found


@pytest.mark.claim("privacy")
def test_scales_are_golden_where_golden_is_right(scales: Any) -> None:
    assert len(scales) == 36
    right = [above for row, target, _, above in scales if above <= PRINTED]
    assert len(right) == 31
    assert all(-BELOW <= above <= ABOVE for above in right), sorted(right)
    wrong = [(row["noise"], target) for row, target, _, above in scales if above > PRINTED]
    assert wrong == [("laplace", "truncate_approx")] * 5
    assert any(above > ABOVE for *_, above in scales)


def integral(function: Any, marks: list[mp.mpf], scale: mp.mpf) -> mp.mpf:
    """Over pieces that end at the marks and are at most four scales wide."""
    pieces = [(a, b) for a, b in itertools.pairwise(sorted(marks)) if a < b]
    return mp.fsum(mp.quad(function, mp.linspace(a, b, 2 + int((b - a) / (4 * scale)))) for a, b in pieces)


def delta_by_quadrature(mechanism: rb.Mechanism, pair: tuple[float, float], epsilon: float) -> mp.mpf:
    """The hockey stick of a pair of truncated Laplace laws from their densities alone, to 30 digits."""
    with mp.workdps(30):
        p, q = map(mp.mpf, pair)
        assert abs(q - p) <= mechanism.query.sensitivity * mp.mpf(1.0 + 1e-12), "no neighbours"
        assert all(mechanism.support.lower <= x <= mechanism.support.upper for x in pair)
        q = p + mp.sign(q - p) * min(abs(q - p), mp.mpf(mechanism.query.sensitivity))  # doubles may miss it by an ulp
        scale, ends = mp.mpf(mechanism.noise.scale), [mp.mpf(mechanism.support.lower), mp.mpf(mechanism.support.upper)]
        zp, zq = (integral(lambda x, at=at: mp.exp(-abs(x - at) / scale), [*ends, at], scale) for at in (p, q))
        equal = (p + q + mp.sign(p - q) * scale * (epsilon + mp.log(zp / zq))) / 2  # where the stick's two sides meet
        marks = [*ends, p, q, min(max(equal, min(p, q)), max(p, q))]

        def above(x: mp.mpf) -> mp.mpf:
            return max(mp.exp(-abs(x - p) / scale) / zp - mp.exp(epsilon - abs(x - q) / scale) / zq, mp.mpf(0))

        return integral(above, marks, scale)


def with_scale(row: dict[str, Any], scale: float) -> rb.Mechanism:
    return rb.Mechanism(noise=rb.Laplace(scale=scale), query=query(row))


@pytest.mark.slow
def test_golden_is_not_private_where_it_is_below_ours_and_ours_is_tight(scales: Any) -> None:
    for row, _, ours, above in scales:
        if above <= PRINTED:
            continue
        epsilon, delta = float(row["epsilon"]), float(row["delta"])
        golden = with_scale(row, float(row["truncate_approx"]))
        with pytest.raises(ClaimFalse) as refuted:
            rb.certify(golden, epsilon=epsilon, delta=delta)
        pair = refuted.value.pair
        true = delta_by_quadrature(golden, pair, epsilon)
        assert true > delta, row
        agree(refuted.value.delta, true, rel=1e-6)

        # Ours holds at that pair, and a millionth less does not hold at the worst one.
        assert delta_by_quadrature(ours, pair, epsilon) <= delta
        smaller = with_scale(row, ours.noise.scale * (1.0 - 1e-6))
        with pytest.raises(ClaimFalse) as tight:
            rb.certify(smaller, epsilon=epsilon, delta=delta)
        assert delta_by_quadrature(smaller, tight.value.pair, epsilon) > delta, row
        assert rb.certify(ours, epsilon=epsilon, delta=delta).delta == delta


def test_the_comparison_catches_a_wrong_digit() -> None:
    """A control: a change in the tenth digit of a golden value fails the pair test."""
    row = next(row for row in GOLDEN["pairs"] if mp.mpf(row["hockey_stick"]) > 0.01)
    for name in ("hockey_stick", "rdp", "fisher"):
        wrong = dict(row)
        wrong[name] = str(float(row[name]) * (1.0 + 3e-10))
        with pytest.raises(AssertionError):
            test_pairs(wrong)
    assert distance(1.0, 1.0 + 3e-10) > PAIR


def test_quadrature_says_no_violation_where_there_is_none() -> None:
    """A control: at golden's pure scale, which is right, the quadrature stays below epsilon's delta of zero."""
    row = next(row for row in GOLDEN["scales"] if row["noise"] == "laplace")
    mechanism = with_scale(row, float(row["truncate_pure"]) * (1.0 + 1e-9))
    low = mechanism.support.lower
    pair = (low, low + mechanism.query.sensitivity)
    assert float(delta_by_quadrature(mechanism, pair, float(row["epsilon"]))) < ZERO
