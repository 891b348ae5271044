"""Verdicts say what the numbers say."""

import math

import pytest

from benchmarks.report import Row, machine, number


def row(ours: float, **rest) -> Row:
    return Row(what="x", ours=ours, unit="ms", **rest)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (row(1.0), ""),
        (row(1.0, bar=1.0), "met"),
        (row(1.1, bar=1.0), "not met"),
        (row(1.1, bar=1.0, more=True), "met"),
        (row(0.9, bar=1.0, more=True), "not met"),
        (row(3.0, bar=2.0, of="numpy", others={"numpy": 2.0}), "met"),
        (row(5.0, bar=2.0, of="numpy", others={"numpy": 2.0}), "not met"),
        (row(5.0, bar=2.0, of="numpy", others={"numpy": "no wheel"}), "not measured"),
        (row(5.0, bar=2.0, of="numpy"), "not measured"),
        (row(math.nan, bar=2.0), "not measured"),
        (row(26.72, floor=26.71), "met"),
        (row(26.70, floor=26.71), "not met"),
        (row(26.70, floor=26.71, bar=30.0), "not met"),
        (row(31.00, floor=26.71, bar=30.0), "not met"),
    ],
)
def test_a_verdict_follows_from_the_numbers(measured: Row, verdict: str):
    assert measured.verdict == verdict


def test_the_other_one_is_ahead_only_by_more_than_a_percent_and_never_by_being_wrong():
    assert row(1.1, others={"peer": 1.0}).better("peer")
    assert not row(1.005, others={"peer": 1.0}).better("peer")
    assert not row(1.1, others={"peer": 1.0}, more=True).better("peer")
    assert row(0.9, others={"peer": 1.0}, more=True).better("peer")
    assert not row(26.72, others={"peer": 26.01}, floor=26.71).better("peer")
    assert not row(1.1, others={"peer": "no wheel"}).better("peer")


@pytest.mark.parametrize(
    ("x", "text"),
    [(0.0, "0"), (0.30004, "0.3"), (12345.6, "12,346"), (26.7198, "26.72"), (1e-7, "1e-07"), (math.inf, "inf")],
)
def test_numbers_are_short(x: float, text: str):
    assert number(x) == text


def test_the_machine_is_described_and_not_named():
    import getpass
    import platform

    facts = machine()
    assert facts["cores"] >= 1
    assert {"Python", "numpy", "rangebound"} <= set(facts["versions"])
    words = str(facts).replace("/", " ").split()
    assert platform.node() not in words
    assert getpass.getuser() not in words
